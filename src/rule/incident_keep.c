/* SPDX-License-Identifier: MIT */
/* Incidents that outlive the daemon: what the next one is told, and what it does with it until the subjects appear. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/saturate.h"
#include "rule/engine.h"
#include "rule/watch.h"

struct restored {
	struct incident_saved s; /* its strings and its identity are its own */
	uint64_t since_ns, wait_ns;
	bool is_ended; /* at the next tick */
};

static void restored_free(struct restored *r)
{
	if (!r)
		return;
	free((char *)r->s.rule);
	free((char *)r->s.key);
	identity_unref(r->s.identity);
	free(r);
}
DEFINE_CLEANUP(struct restored, restored_free)

/* Sites go by their resolved key: a number of a stack is not enough to find them again. */
static uint64_t site_key(const struct site *site)
{
	return site && site->is_resolved ? site->key : 0;
}

static struct incident_saved saved_of(const struct rule_state *rs, const struct incident *inc)
{
	const struct subject *s = &inc->subject;
	struct incident_saved v = {
		.rule = rs->rule->name,
		.meaning = rs->rule->meaning,
		.scope = s->g ? s->g->scope : s->site ? SCOPE_STACK : SCOPE_PROCESS,
		.site = site_key(s->site),
		.key = s->g ? s->g->key : NULL,
		.seq = inc->seq,
		.fired_ns = inc->fired_ns,
		.said_ns = inc->said_ns,
		.peak_value = inc->peak_value,
		.kind = rs->rule->kind,
		.severity = MAX(inc->said_severity, rs->rule->severity),
		.value = inc->last.value,
		.limit = inc->last.limit,
		.unit = inc->last.unit,
	};

	memcpy(v.id, inc->id, sizeof(v.id));
	if (s->p) {
		v.pid = s->p->pid;
		v.start_ns = s->p->start_ns;
		v.identity = s->p->id;
	}
	return v;
}

void engine_save_incidents(struct engine *e, void (*save)(const struct incident_saved *s, void *userdata),
			   void *userdata)
{
	for (size_t i = 0; i < e->states_len; i++) {
		for (const struct incident *inc = e->states[i]->incidents; inc; inc = inc->next) {
			struct incident_saved s;

			if (!inc->is_said)
				continue;
			s = saved_of(e->states[i], inc);
			save(&s, userdata);
		}
	}
	for (size_t i = 0; i < e->restored_len; i++)
		save(&e->restored[i]->s, userdata);
}

static struct rule_state *restored_rule(const struct engine *e, const struct restored *r)
{
	for (size_t i = 0; i < e->states_len; i++) {
		const struct rule *rule = e->states[i]->rule;

		if (rule->meaning == r->s.meaning && rule->kind == (enum rule_kind)r->s.kind &&
		    strcmp(rule->name, r->s.rule) == 0)
			return e->states[i];
	}
	return NULL;
}

/* A leak or a growth cannot be found again before a whole window has been seen. */
static uint64_t rule_wait_ns(const struct engine *e, const struct rule_state *rs)
{
	const struct rule *r = rs->rule;
	uint64_t wait = r->keep_firing_for_ns;

	if (rs->scale >= 0) {
		const struct leak_scale *s = &e->scales[rs->scale];

		(void)sat_add(&wait, s->epoch_ns * MAX(s->max_group, 1u) * (s->epochs + MAX(r->for_epochs, 1u) + 1));
	}
	if (r->kind == RULE_ALLOC_RATE || r->kind == RULE_UNTRACKED_GROWTH)
		(void)sat_add(&wait, r->window_ns);
	return wait;
}

int engine_restore_incident(struct engine *e, const struct incident_saved *s, uint64_t now_ns, uint64_t wait_ns)
{
	_cleanup_(restored_freep) struct restored *r = NULL;
	struct restored **more;

	if (!s->rule || s->kind >= RULE_KIND_MAX || s->severity >= SEVERITY_MAX || s->scope >= SCOPE_MAX ||
	    s->unit > VALUE_CALLS || s->seq == 0 || (s->pid == 0 && !s->key))
		return -EINVAL;
	if (e->restored_len >= e->limits.incidents) {
		e->overflow_incidents++;
		return -ENOSPC;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->s = *s;
	r->s.identity = s->identity ? identity_ref(s->identity) : NULL;
	r->s.key = NULL;
	r->s.rule = strdup(s->rule);
	if (s->key)
		r->s.key = strdup(s->key);
	more = realloc(e->restored, (e->restored_len + 1) * sizeof(*more));
	if (more)
		e->restored = more;
	if (!more || !r->s.rule || (s->key && !r->s.key))
		return -ENOMEM;
	r->since_ns = now_ns;
	r->wait_ns = wait_ns;
	e->restored[e->restored_len++] = TAKE_PTR(r);
	/* As it was captured first: an orphan has another parent by now. */
	if (s->pid && s->identity && processes_find(&e->processes, s->pid, s->start_ns))
		(void)engine_set_identity(e, s->pid, s->start_ns, s->identity);
	return 0;
}

static bool is_about(const struct restored *r, const struct subject *s)
{
	if (s->p)
		return r->s.pid == s->p->pid && r->s.start_ns == s->p->start_ns &&
		       r->s.scope == (s->site ? SCOPE_STACK : SCOPE_PROCESS) && r->s.site == site_key(s->site);
	return s->g && r->s.pid == 0 && r->s.scope == s->g->scope && r->s.key && strcmp(r->s.key, s->g->key) == 0;
}

static bool has_slot(const struct group *g, const struct rule_state *rs)
{
	for (size_t i = 0; i < g->slots_len; i++) {
		if (g->slots[i].rs == rs)
			return true;
	}
	return false;
}

/* As is_about(), but a rule may speak of a site, of the process or of a group that it is a member of. Rules with a match
 * have groups of their own. */
static bool is_about_any(const struct restored *r, const struct rule_state *by, const struct subject *s)
{
	if (!s->p)
		return is_about(r, s);
	if (r->s.pid)
		return r->s.pid == s->p->pid && r->s.start_ns == s->p->start_ns;
	for (size_t i = 0; i < s->p->watch->members_len; i++) {
		const struct membership *m = &s->p->watch->members[i];

		if (membership_holds(s->p, m) && m->g->scope == r->s.scope && r->s.key &&
		    strcmp(m->g->key, r->s.key) == 0 && has_slot(m->g, by))
			return true;
	}
	return false;
}

bool restored_inhibits(const struct engine *e, const struct rule_state *by, const struct subject *s)
{
	for (size_t i = 0; i < e->restored_len; i++) {
		if (is_about_any(e->restored[i], by, s) && restored_rule(e, e->restored[i]) == by)
			return true;
	}
	return false;
}

static bool fires_still(const struct restored *r, const struct finding *f)
{
	if (f->is_above)
		return true;
	/* Between the two limits; with a limit of 0 nothing has been compared. */
	return !f->is_below && f->limit > 0 &&
	       (r->s.kind == RULE_LIVE_BYTES || r->s.kind == RULE_ALLOC_RATE || r->s.kind == RULE_UNTRACKED_GROWTH);
}

/* Takes it off the list. */
static struct restored *restored_take(struct engine *e, size_t i)
{
	struct restored *r = e->restored[i];

	e->restored[i] = e->restored[--e->restored_len];
	return r;
}

struct incident *restored_claim(struct engine *e, const struct subject *s, struct slot *slot, const struct finding *f,
				const struct occasion *o)
{
	for (size_t i = 0; i < e->restored_len; i++) {
		_cleanup_(restored_freep) struct restored *r = NULL;

		/* In this order: there may be many, and every process asks at every tick. */
		if (!is_about(e->restored[i], s) || restored_rule(e, e->restored[i]) != slot->rs)
			continue;
		/* What was found last, unless it is only that nothing is known yet. */
		if (!s->p || s->p->alloc_count > 0) {
			e->restored[i]->s.value = f->value;
			e->restored[i]->s.limit = f->limit;
		}
		if (!fires_still(e->restored[i], f))
			return NULL;
		r = restored_take(e, i);
		return incident_continue(e, s, slot, &r->s, f, o);
	}
	return NULL;
}

/* The books of the process, as far as there are any. */
static void fill_books(const struct engine *e, const struct restored *r, struct report *rep)
{
	const struct process *p = processes_find(&e->processes, r->s.pid, r->s.start_ns);

	if (r->s.kind == RULE_LIVE_BYTES)
		rep->peak_bytes = r->s.peak_value;
	if (!p || p->alloc_count == 0)
		return;
	rep->live_bytes = p->live_bytes;
	rep->live_count = p->live_count;
	rep->peak_bytes = MAX(p->peak_bytes, r->s.kind == RULE_LIVE_BYTES ? r->s.peak_value : 0);
	rep->host_bytes = p->live[CLASS_HOST];
	rep->managed_bytes = p->live[CLASS_MANAGED];
	rep->exact = p->exact;
	if (!p->exact)
		rep->lost_events = p->lost_events;
}

static int fill_subject(struct engine *e, const struct restored *r, struct report *rep, const struct occasion *o)
{
	const struct process *p = r->s.pid ? processes_find(&e->processes, r->s.pid, r->s.start_ns) : NULL;

	if (!r->s.pid) {
		rep->scope_key = strdup(r->s.key);
		return rep->scope_key ? 0 : -ENOMEM;
	}
	/* As it was captured when there was something to capture. */
	if (r->s.identity)
		rep->id = identity_ref(r->s.identity);
	else
		rep->id = p && p->id ? identity_ref(p->id) : identity_bare(r->s.pid, r->s.start_ns);
	rep->process_ended = r->is_ended || o->is_end;
	fill_books(e, r, rep);
	return rep->id ? 0 : -ENOMEM;
}

/* The rule's own, unless it has been raised over that. */
static enum severity restored_severity(const struct rule_state *rs, const struct restored *r)
{
	const enum severity said = (enum severity)r->s.severity;

	if (!rs)
		return said;
	return rs->rule->escalate.is_set ? MAX(MIN(said, rs->rule->escalate.severity), rs->rule->severity) :
					   rs->rule->severity;
}

/* Whoever was woken must hear that it is over, though little is known of the subject. */
static void resolve(struct engine *e, struct restored *r, const struct occasion *o)
{
	_cleanup_(report_freep) struct report *rep = report_new((enum report_event)r->s.kind);
	const struct rule_state *rs = restored_rule(e, r);

	if (!rep || !(rep->rule = strdup(r->s.rule)) || fill_subject(e, r, rep, o) < 0) {
		e->no_memory++;
		return;
	}
	if (rs && rs->rule->runbook)
		rep->runbook = strdup(rs->rule->runbook);
	if (rs && fill_tags(rep, rs->rule) < 0)
		e->no_memory++;
	rep->state = STATE_RESOLVED;
	rep->severity = restored_severity(rs, r);
	rep->real_usec = o->real_usec;
	rep->scope = (enum rule_scope)r->s.scope;
	memcpy(rep->incident, r->s.id, sizeof(rep->incident));
	rep->seq = r->s.seq + 1;
	rep->value = r->s.value;
	rep->limit = r->s.limit;
	rep->value_unit = (enum value_unit)r->s.unit;
	rep->duration_ns = sat_diff(o->time_ns, r->s.fired_ns);
	e->ops.report(TAKE_PTR(rep), e->userdata);
}

void restored_tick(struct engine *e, const struct occasion *o)
{
	for (size_t i = e->restored_len; i-- > 0;) {
		_cleanup_(restored_freep) struct restored *r = NULL;
		const struct rule_state *rs = restored_rule(e, e->restored[i]);
		uint64_t wait = e->restored[i]->wait_ns;

		/* Without its rule nothing will ever find it true; without its process neither. */
		if (rs && wait > 0 && sat_diff(o->time_ns, e->restored[i]->since_ns) < MAX(wait, rule_wait_ns(e, rs)))
			continue;
		r = restored_take(e, i);
		r->is_ended = wait == 0;
		resolve(e, r, o);
	}
}

void restored_end(struct engine *e, uint32_t pid, uint64_t start_ns, const struct occasion *o)
{
	for (size_t i = e->restored_len; i-- > 0;) {
		_cleanup_(restored_freep) struct restored *r = NULL;

		if (e->restored[i]->s.pid != pid || e->restored[i]->s.start_ns != start_ns)
			continue;
		r = restored_take(e, i);
		r->is_ended = true;
		resolve(e, r, o);
	}
}

void restored_done(struct engine *e)
{
	for (size_t i = 0; i < e->restored_len; i++)
		restored_free(e->restored[i]);
	free(e->restored);
}
