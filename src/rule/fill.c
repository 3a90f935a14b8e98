/* SPDX-License-Identifier: MIT */
/* The report: what is known of a subject at the moment something is said of it. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "model/saturate.h"
#include "rule/rule_print.h"
#include "rule/watch.h"

static int copy(char **dst, const char *src)
{
	if (!src)
		return 0;
	*dst = strdup(src);
	return *dst ? 0 : -ENOMEM;
}

int fill_device(struct report *r, const struct device *dev)
{
	if (!dev)
		return 0;
	r->device_index = dev->index;
	r->device_bytes = dev->total_bytes;
	/* Without the driver's word only the traced part would be known. */
	if (dev->used_bytes != UINT64_MAX)
		r->device_used_bytes = device_used(dev, CLASS_DEVICE_MASK);
	return copy(&r->device_uuid, dev->uuid);
}

/* has_number: there was a stack, whether it is still known or not; else reason says why not. */
static void fill_stack(struct report *r, const struct process *p, struct stack *s, bool has_number, uint8_t reason,
		       const struct site *site, uint32_t classes)
{
	r->stack = stack_ref(s);
	if (s)
		r->stack_reason = STACK_OK;
	else if (site && site->is_other)
		r->stack_reason = STACK_EVICTED;
	else if (!has_number)
		r->stack_reason = reason == STACK_OK ? STACK_NONE : reason;
	else
		r->stack_reason = p->stacks_overflow + p->stacks_dropped > 0 ? STACK_EVICTED : STACK_LOST;
	if (site)
		r->stack_bytes = site_live_bytes(site, classes);
}

/* The sites with most of the growth that was judged; the first of them, NULL = none has any. */
static struct site *fill_leak_sites(struct engine *e, struct report *r, const struct rule_state *rs,
				    const struct process *p, uint32_t group)
{
	struct leak_share top[REPORT_LEAK_SITES_MAX];

	r->sites_len = leak_top_sites(e, rs, p, group, top, &r->growth_sites_bytes);
	for (size_t i = 0; i < r->sites_len; i++) {
		r->sites[i].stack = top[i].site ? stack_ref(top[i].site->stack) : NULL;
		r->sites[i].bytes = top[i].bytes;
	}
	return r->sites_len > 0 ? top[0].site : NULL;
}

static bool is_of_one_call(const struct rule *r)
{
	return r->kind == RULE_SINGLE_ALLOC || r->kind == RULE_ALLOC_FAILURE;
}

/* The very stack of the call, which need not be the one that stands for its site. */
static void fill_call(struct engine *e, struct report *r, struct process *p, const struct event *ev, uint32_t classes)
{
	const struct stack_entry *entry = process_stack_entry(p, ev->stack);

	r->bytes = ev->bytes;
	r->error = ev->error;
	if (e->ops.call_name)
		r->function = e->ops.call_name(ev->call, e->userdata);
	fill_stack(r, p, entry ? entry->stack : NULL, ev->stack != 0, ev->stack_reason, entry ? entry->site : NULL,
		   classes);
}

static void fill_site(struct engine *e, struct report *r, const struct process *p, const struct site *site,
		      uint32_t classes)
{
	if (!site)
		return;
	if (e->ops.call_name)
		r->function = e->ops.call_name(site->call, e->userdata);
	fill_stack(r, p, site->stack, site->is_resolved || site->key != 0, site->stack_reason, site, classes);
}

static void fill_leak(struct report *r, const struct rule *rule, const struct finding *f, const struct device *dev)
{
	r->growth_bytes_per_hour = f->growth_per_hour;
	r->leaked_bytes = f->leaked_bytes;
	r->confidence = f->confidence;
	r->doubts = f->doubts;
	if (f->age_ns != ABSENT_U64)
		r->age_sec = f->age_ns / NSEC_PER_SEC;
	/* What has stopped fills nothing, and a process that ends gives all of it back. */
	if (r->state != STATE_RESOLVED && !r->process_ended && rule_fills_device(rule))
		r->full_in_sec = finding_full_in_sec(f, dev);
}

const struct device *report_device(const struct process *p, const struct site *site, const struct rule *rule,
				   const struct finding *f, const struct event *ev)
{
	int ordinal = site ? site->device : ev && is_of_one_call(rule) ? ev->device : EVENT_NO_DEVICE, slot;

	if (f->device)
		return f->device;
	for (size_t i = 0; i < p->devices_len; i++) {
		if (ordinal >= 0 && p->devices[i].ordinal == ordinal && p->devices[i].device)
			return p->devices[i].device;
	}
	slot = process_main_device(p, rule->classes);
	return slot >= 0 ? p->devices[slot].device : NULL;
}

static uint64_t absent_if_none(uint64_t n)
{
	return n > 0 ? n : ABSENT_U64;
}

void fill_process_books(struct report *r, const struct process *p, const struct occasion *o)
{
	r->process_ended = o->is_end;
	r->live_bytes = p->live_bytes;
	r->live_count = p->live_count;
	r->peak_bytes = p->peak_bytes;
	r->host_bytes = p->live[CLASS_HOST];
	r->managed_bytes = p->live[CLASS_MANAGED];
	r->framework_bytes = absent_if_none(p->live[CLASS_FRAMEWORK]);
	r->imported_bytes = absent_if_none(p->live[CLASS_IMPORTED]);
	r->baseline_bytes = absent_if_none(p->baseline_bytes);
	r->driver_bytes = p->driver_bytes;
	/* The driver cannot use less than the process holds: then our count is wrong. */
	r->exact = p->exact && !p->watch->is_overcounted;
	if (!p->exact)
		r->lost_events = p->lost_events;
}

/* None for what no call site has part in: the growth is in no call's books. */
static bool has_site(const struct rule *r)
{
	return r->kind != RULE_UNTRACKED_GROWTH && r->kind != RULE_ORPHAN;
}

static int fill_process(struct engine *e, struct report *r, const struct rule_state *rs, const struct subject *s,
			const struct finding *f, const struct occasion *o)
{
	struct process *p = s->p;
	const struct device *dev = report_device(p, s->site, rs->rule, f, o->ev);
	struct site *site = s->site;

	r->scope = s->site ? SCOPE_STACK : SCOPE_PROCESS;
	/* Nobody has told who it is: then pid and start time must do. */
	r->id = p->id ? identity_ref(p->id) : identity_bare(p->pid, p->start_ns);
	if (!r->id)
		return -ENOMEM;
	if (o->ev && !o->is_end)
		r->tid = o->ev->tid;
	r->bytes = site ? site_live_bytes(site, rs->rule->classes) : sat_sum(p->live, rs->rule->classes);
	fill_process_books(r, p, o);
	if (rs->rule->kind == RULE_ORPHAN)
		r->condition = p->condition & rs->rule->conditions;
	if (rs->rule->kind == RULE_UNTRACKED_GROWTH && f->age_ns != ABSENT_U64)
		r->age_sec = f->age_ns / NSEC_PER_SEC;
	if (is_of_one_call(rs->rule) && o->ev) {
		fill_call(e, r, p, o->ev, rs->rule->classes);
	} else if (has_site(rs->rule)) {
		if (!site)
			site = rs->rule->kind == RULE_LEAK ? fill_leak_sites(e, r, rs, p, f->group) :
							     process_top_site(p, rs->rule->classes);
		fill_site(e, r, p, site, rs->rule->classes);
	}
	if (rs->rule->kind == RULE_LEAK)
		fill_leak(r, rs->rule, f, dev);
	return fill_device(r, dev);
}

static int fill_group(struct engine *e, struct report *r, const struct rule_state *rs, const struct group *g,
		      const struct incident *inc, const struct occasion *o)
{
	r->scope = g->scope;
	r->process_ended = o->is_end;
	r->bytes = group_value(g, rs->rule->classes);
	r->live_bytes = sat_sum(g->live, CLASS_DEVICE_MASK);
	r->host_bytes = g->live[CLASS_HOST];
	r->managed_bytes = g->live[CLASS_MANAGED];
	if (inc && rs->rule->kind == RULE_LIVE_BYTES)
		r->peak_bytes = inc->peak_value;
	r->exact = group_is_exact(e, g);
	if (!r->exact)
		r->lost_events = e->lost_events;
	if (copy(&r->scope_key, g->key) < 0)
		return -ENOMEM;
	return fill_device(r, g->device);
}

int fill_tags(struct report *r, const struct rule *rule)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	rule_write_tags(&sb, rule);
	return sb.len > 0 ? strbuf_steal(&sb, &r->tags) : sb.error;
}

struct report *fill_report(struct engine *e, const struct rule_state *rs, const struct subject *s,
			   const struct incident *inc, const struct finding *f, enum report_state state,
			   const struct occasion *o)
{
	_cleanup_(report_freep) struct report *r = report_new((enum report_event)rs->rule->kind);
	const struct rule *rule = rs->rule;
	int q = 0;

	if (!r || copy(&r->rule, rule->name) < 0 || copy(&r->runbook, rule->runbook) < 0 || fill_tags(r, rule) < 0)
		return NULL;
	r->state = state;
	r->severity = inc ? incident_severity(inc) : rule->severity;
	r->real_usec = o->real_usec;
	r->scope = rule->scope;
	r->classes = rule->classes;
	if (f) {
		r->value = f->value;
		r->limit = f->limit;
		r->value_unit = f->unit;
	}
	if (inc) {
		memcpy(r->incident, inc->id, sizeof(r->incident));
		r->seq = inc->seq;
		if (state == STATE_RESOLVED)
			r->duration_ns = sat_diff(o->time_ns, inc->fired_ns);
	}
	if (s->p)
		q = fill_process(e, r, rs, s, f, o);
	else if (s->g)
		q = fill_group(e, r, rs, s->g, inc, o);
	if (q < 0 || ((s->p || s->g) && template_expand(e, rule->message, r, &r->message) < 0))
		return NULL;
	return TAKE_PTR(r);
}

struct report *fill_coverage(struct process *p, const struct occasion *o)
{
	_cleanup_(report_freep) struct report *r = report_new(REPORT_COVERAGE);

	if (!r)
		return NULL;
	r->severity = SEVERITY_NOTICE;
	r->real_usec = o->real_usec;
	r->scope = SCOPE_PROCESS;
	/* Nobody has told who it is: then pid and start time must do. */
	r->id = p->id ? identity_ref(p->id) : identity_bare(p->pid, p->start_ns);
	if (!r->id)
		return NULL;
	fill_process_books(r, p, o);
	r->reason = p->uncovered_reason;
	/* That no process is there is no reason to ask the journal for it. */
	r->process_ended = p->condition & CONDITION_NO_PROCESS;
	return fill_device(r, driver_device(p)) < 0 ? NULL : TAKE_PTR(r);
}
