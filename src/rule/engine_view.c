/* SPDX-License-Identifier: MIT */
#include "rule/engine_view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/saturate.h"
#include "rule/engine_private.h"
#include "rule/omit.h"
#include "rule/rule_names.h"

void view_stacks_done(struct view_stacks *s)
{
	for (size_t i = 0; i < s->len; i++)
		stack_unref(s->list[i].stack);
	free(s->list);
	*s = (struct view_stacks)VIEW_STACKS_INIT;
}

int view_stacks_take(struct view_stacks *s, struct view_stack *of)
{
	if (s->len == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 64;
		struct view_stack *list = realloc(s->list, cap * sizeof(*list));

		if (!list)
			return -ENOMEM;
		s->list = list;
		s->cap = cap;
	}
	s->list[s->len++] = *of;
	of->stack = NULL;
	return 0;
}

static int add_stack(struct view_stacks *s, size_t process, size_t site, const struct site *of)
{
	struct view_stack vs = { .process = process, .site = site, .reason = of->stack_reason,
				 .stack = of->stack ? stack_ref(of->stack) : NULL };
	int r = view_stacks_take(s, &vs);

	stack_unref(vs.stack);
	return r;
}

/* The first error stays. */
static void set(int *r, char **to, const char *text)
{
	int q = view_set(to, text);

	if (*r == 0)
		*r = q;
}

static int view_identity(const struct identity *id, struct view_process *v)
{
	int r = 0;

	if (!id)
		return 0;
	if (id->ppid)
		v->ppid = id->ppid;
	set(&r, &v->comm, id->comm);
	set(&r, &v->exe, id->exe);
	set(&r, &v->cmdline, id->cmdline);
	set(&r, &v->user, id->user);
	set(&r, &v->unit, id->unit ? id->unit : id->user_unit);
	set(&r, &v->container, id->container);
	set(&r, &v->runtime, id->runtime);
	set(&r, &v->pod, id->pod);
	set(&r, &v->pod_name, id->pod_name);
	set(&r, &v->pod_namespace, id->pod_namespace);
	set(&r, &v->container_name, id->container_name);
	set(&r, &v->slurm_job, id->slurm_job);
	set(&r, &v->tag, id->tag);
	set(&r, &v->parent, id->parent);
	return r;
}

static int view_conditions(const struct process *p, struct view_process *v)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	for (int i = 0; rule_condition_names[i]; i++)
		if (p->condition & (1u << i))
			strbuf_addf(&sb, "%s%s", sb.len ? "," : "", rule_condition_names[i]);
	return sb.len ? strbuf_steal(&sb, &v->conditions) : 0;
}

static uint64_t count_sites(const struct process *p)
{
	const struct site *s;
	uint64_t n = 0;
	size_t iter = 0;

	while ((s = process_next_site(p, &iter)))
		n += s->bytes || s->framework_bytes;
	return n;
}

static void view_books(const struct process *p, struct view_process *v)
{
	v->pid = p->pid;
	v->start_ticks = p->id ? p->id->start_ticks : p->start_ns / (NSEC_PER_SEC / TICKS_PER_SEC);
	v->is_covered = p->is_covered;
	v->is_exact = p->exact;
	v->live_bytes = p->live_bytes;
	v->device_bytes = p->live[CLASS_DEVICE];
	v->host_bytes = p->live[CLASS_HOST];
	v->managed_bytes = p->live[CLASS_MANAGED];
	v->array_bytes = p->live[CLASS_ARRAY];
	v->physical_bytes = p->live[CLASS_PHYSICAL];
	v->async_bytes = p->live[CLASS_ASYNC];
	v->graph_bytes = p->live[CLASS_GRAPH];
	v->imported_bytes = p->live[CLASS_IMPORTED];
	v->framework_bytes = p->live[CLASS_FRAMEWORK];
	v->peak_bytes = p->peak_bytes;
	v->driver_bytes = p->driver_bytes;
	v->baseline_bytes = p->baseline_bytes;
	v->untracked_bytes = process_untracked_bytes(p);
	v->live_count = p->live_count;
	v->alloc_count = p->alloc_count;
	v->free_count = p->free_count;
	v->fail_count = p->fail_count;
	v->unknown_free_count = p->unknown_free_count;
	v->allocated_bytes = sat_sum(p->allocated, CLASS_DEVICE_MASK);
	v->lost_events = p->lost_events;
	v->sites_count = count_sites(p);
}

static int view_process_devices(const struct process *p, struct view_process *v)
{
	for (size_t i = 0; i < p->devices_len; i++) {
		struct process_on_device on;
		struct view_process_device *d;

		if (!process_on_device(p, i, &on))
			continue;
		d = view_add_process_device(v);
		if (!d || view_set(&d->uuid, on.device ? on.device->uuid : NULL) < 0)
			return -ENOMEM;
		if (on.device && on.device->index >= 0)
			d->index = on.device->index;
		if (on.ordinal >= 0)
			d->ordinal = on.ordinal;
		d->live_bytes = on.live_bytes;
		d->driver_bytes = on.driver_bytes;
	}
	return 0;
}

static int view_site(const struct engine *e, const struct site *s, uint64_t now_ns, struct view_site *v)
{
	const struct frames *f = s->stack ? stack_frames(s->stack) : NULL;
	int r = 0;

	v->stack_id = f ? f->id : 0;
	if (e->ops.call_name)
		set(&r, &v->function, e->ops.call_name(s->call, e->userdata));
	set(&r, &v->class_name, s->class < CLASS_MAX ? rule_class_names[s->class] : NULL);
	v->bytes = s->bytes;
	v->blocks = s->blocks;
	v->alloc_count = s->alloc_count;
	v->framework_bytes = s->framework_bytes;
	v->age_ns = sat_diff(now_ns, s->first_ns);
	v->idle_ns = sat_diff(now_ns, s->last_ns);
	v->is_other = s->is_other;
	return r;
}

static int view_sites(const struct engine *e, const struct process *p, const struct engine_view_options *o, size_t place,
		      struct view_process *v, struct view_stacks *stacks)
{
	_cleanup_free_ struct site **list = NULL;
	size_t len = 0;
	int r = process_sort_sites(p, &list, &len);

	for (size_t i = 0; r == 0 && i < MIN(len, (size_t)o->query->sites_max); i++) {
		struct view_site *s = view_add_site(v);

		r = s ? view_site(e, list[i], o->now_ns, s) : -ENOMEM;
		if (r == 0)
			r = add_stack(stacks, place, i, list[i]);
	}
	return r;
}

int engine_view_process(const struct engine *e, const struct process *p, const struct engine_view_options *o, struct view *v,
			struct view_stacks *stacks)
{
	const struct view_query *q = o->query;
	struct view_process *vp = view_add_process(v);
	int r;

	if (!vp)
		return -ENOMEM;
	view_books(p, vp);
	r = view_identity(o->shown ? o->shown(p, o->userdata) : p->id, vp);
	set(&r, &vp->uncovered_reason, p->is_covered ? NULL : p->uncovered_reason);
	if (r == 0)
		r = view_conditions(p, vp);
	if (r == 0)
		r = view_process_devices(p, vp);
	if (r == 0 && q->sites_max && view_pids_have(q->site_pids, q->site_pids_len, p->pid))
		r = view_sites(e, p, o, v->processes_len - 1, vp, stacks);
	return r;
}

static int view_device(const struct device *dev, struct view *v)
{
	struct view_device *d = view_add_device(v);
	int r = 0;

	if (!d)
		return -ENOMEM;
	set(&r, &d->uuid, dev->uuid);
	set(&r, &d->name, dev->name);
	if (dev->index >= 0)
		d->index = dev->index;
	d->total_bytes = dev->total_bytes;
	d->used_bytes = dev->used_bytes;
	d->live_bytes = sat_sum(dev->live, CLASS_DEVICE_MASK);
	return r;
}

/* As it may be shown; none where omit leaves out what the group is called by. */
static int view_key(const struct engine *e, const struct incident *inc, struct view_incident *i)
{
	const struct report r = { .scope = inc->rs->rule->scope, .scope_key = inc->subject.g->key };
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	_cleanup_(identity_unrefp) struct identity *nobody = NULL;
	struct report shown;
	int err = omit_report(&r, e->ops.omit, &shown, &nobody);

	if (err < 0 || !shown.scope_key)
		return err;
	if (!e->ops.clean)
		return view_set(&i->key, shown.scope_key);
	e->ops.clean(shown.scope_key, &sb, e->userdata);
	return strbuf_steal(&sb, &i->key);
}

static int view_incident(const struct engine *e, const struct incident *inc, const struct engine_view_options *o,
			 struct view *v)
{
	struct view_incident *i = view_add_incident(v);
	int r = 0;

	if (!i)
		return -ENOMEM;
	set(&r, &i->rule, inc->rs->rule->name);
	set(&r, &i->kind, rule_kind_names[inc->rs->rule->kind]);
	set(&r, &i->severity, severity_name(incident_severity(inc)));
	set(&r, &i->state, incident_state_name(inc));
	set(&r, &i->scope, rule_scope_name(inc->rs->rule->scope));
	set(&r, &i->value_unit, value_unit_name(inc->last.unit));
	if (inc->subject.g && r == 0)
		r = view_key(e, inc, i);
	if (inc->subject.p)
		i->pid = inc->subject.p->pid;
	i->value = inc->last.value;
	i->limit = inc->last.limit;
	i->age_ns = sat_diff(o->now_ns, inc->since_ns);
	return r;
}

static int view_incidents(const struct engine *e, const struct engine_view_options *o, struct view *v)
{
	int r = 0;

	for (size_t i = 0; i < e->states_len && r == 0; i++)
		for (const struct incident *inc = e->states[i]->incidents; inc && r == 0; inc = inc->next)
			if (!o->query->pids_len ||
			    (inc->subject.p && view_pids_have(o->query->pids, o->query->pids_len, inc->subject.p->pid)))
				r = view_incident(e, inc, o, v);
	return r;
}

/* How many incidents about each process fire; places: of engine.processes in the view and one, 0 = not in it. */
static void count_firing(const struct engine *e, const size_t *places, struct view *v)
{
	for (size_t i = 0; i < e->states_len; i++)
		for (const struct incident *inc = e->states[i]->incidents; inc; inc = inc->next) {
			const struct process *p = inc->subject.p;

			if (p && inc->state != INCIDENT_PENDING && !inc->is_inhibited && places[p->index])
				v->processes[places[p->index] - 1].firing++;
		}
}

static int view_processes(const struct engine *e, const struct engine_view_options *o, struct view *v,
			  struct view_stacks *stacks)
{
	_cleanup_free_ size_t *places = calloc(e->processes.len + 1, sizeof(*places));
	const struct view_query *q = o->query;
	int r = places ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < e->processes.len; i++) {
		const struct process *p = e->processes.list[i];

		if (!view_pids_have(q->pids, q->pids_len, p->pid))
			continue;
		r = engine_view_process(e, p, o, v, stacks);
		places[i] = v->processes_len;
	}
	if (r == 0)
		count_firing(e, places, v);
	return r;
}

static void view_totals(struct engine *e, struct view *v)
{
	struct view_totals *t = &v->totals;
	struct engine_totals et;

	engine_totals(e, &et);
	t->is_exact = et.exact;
	t->processes = et.processes;
	t->alloc_count = et.alloc_count;
	t->free_count = et.free_count;
	t->fail_count = et.fail_count;
	t->uncovered = et.uncovered;
	t->pending = et.pending;
	t->firing = et.firing;
	t->records_suppressed = et.suppressed;
}

int engine_view(struct engine *e, const struct engine_view_options *o, struct view *v, struct view_stacks *stacks)
{
	int r = 0;

	view_totals(e, v);
	for (size_t i = 0; i < e->devices.len && r == 0; i++)
		r = view_device(e->devices.list[i], v);
	if (r == 0)
		r = view_processes(e, o, v, stacks);
	if (r == 0)
		r = view_incidents(e, o, v);
	return r;
}
