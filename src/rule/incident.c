/* SPDX-License-Identifier: MIT */
#include "rule/incident.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/saturate.h"
#include "rule/watch.h"

/* Between two summaries of a rule without a budget. */
#define SUMMARY_NS (600 * NSEC_PER_SEC)

static bool has_passed(uint64_t since_ns, uint64_t now_ns, uint64_t wait_ns)
{
	return now_ns >= since_ns && now_ns - since_ns >= wait_ns;
}

/* Which of the rule's counts one that fires is in. */
static uint32_t *count_of(const struct incident *inc)
{
	return inc->is_inhibited ? &inc->rs->held : inc->is_over_max ? &inc->rs->over : &inc->rs->firing;
}

static void incident_unlink(struct engine *e, struct incident *inc)
{
	struct rule_state *rs = inc->rs;

	if (inc->prev)
		inc->prev->next = inc->next;
	else
		rs->incidents = inc->next;
	if (inc->next)
		inc->next->prev = inc->prev;
	if (inc->state == INCIDENT_PENDING)
		rs->pending--;
	else
		(*count_of(inc))--;
	if (inc->slot)
		inc->slot->incident = NULL;
	if (inc->subject.p)
		inc->subject.p->watch->incidents--;
	e->incidents--;
	free(inc);
}

/* When all states are taken, one that nobody was told of makes room for a rule that matters more. */
static bool incident_evict(struct engine *e, const struct rule_state *for_rs)
{
	struct rule_state *least = NULL;

	for (size_t i = 0; i < e->states_len; i++) {
		struct rule_state *rs = e->states[i];

		if (rs->rule->severity < for_rs->rule->severity && rs->over + rs->pending + rs->held > 0 &&
		    (!least || rs->rule->severity < least->rule->severity))
			least = rs;
	}
	if (!least)
		return false;
	for (struct incident *inc = least->incidents; inc; inc = inc->next) {
		if (inc->is_said || (inc->state != INCIDENT_PENDING && !inc->is_over_max && !inc->is_inhibited))
			continue;
		incident_unlink(e, inc);
		return true;
	}
	return false;
}

static struct incident *incident_new(struct engine *e, const struct subject *s, struct slot *slot, uint64_t now_ns)
{
	struct rule_state *rs = slot->rs;
	struct incident *inc;

	if (e->incidents >= e->limits.incidents && !incident_evict(e, rs)) {
		e->overflow_incidents++;
		return NULL;
	}
	inc = calloc(1, sizeof(*inc));
	if (!inc) {
		e->no_memory++;
		return NULL;
	}
	inc->rs = rs;
	inc->subject = *s;
	inc->slot = slot;
	inc->since_ns = now_ns;
	inc->next = rs->incidents;
	if (inc->next)
		inc->next->prev = inc;
	rs->incidents = inc;
	rs->pending++;
	e->incidents++;
	if (s->p)
		s->p->watch->incidents++;
	slot->incident = inc;
	return inc;
}

static bool budget_take(struct engine *e, struct rule_state *rs, uint64_t now_ns)
{
	if (rs->rule->budget_ns == 0)
		return true;
	if (rs->budget_used == 0 || has_passed(rs->budget_start_ns, now_ns, rs->rule->budget_ns)) {
		rs->budget_start_ns = now_ns;
		rs->budget_used = 0;
	}
	if (rs->budget_used < rs->rule->budget_count) {
		rs->budget_used++;
		return true;
	}
	rs->suppressed++;
	e->suppressed++;
	return false;
}

static void send(struct engine *e, struct rule_state *rs, struct report *r)
{
	if (!r) {
		e->no_memory++;
		return;
	}
	r->suppressed = rs->suppressed;
	rs->suppressed = 0;
	e->ops.report(r, e->userdata);
}

static void new_id(struct engine *e, uint8_t id[16])
{
	memset(id, 0, 16);
	if (e->ops.random_id)
		e->ops.random_id(id, e->userdata);
}

static bool is_risen(const struct incident *inc)
{
	return inc->severity > inc->said_severity;
}

/* The end of an incident that was said to fire is always said: whoever was woken must hear that it is over. So is that
 * it has got worse. */
static void incident_say(struct engine *e, struct incident *inc, enum report_state state, const struct finding *f,
			 const struct occasion *o)
{
	inc->said_ns = o->time_ns;
	if (state != STATE_RESOLVED && !is_risen(inc) && !budget_take(e, inc->rs, o->time_ns))
		return;
	inc->is_said = true;
	inc->said_severity = incident_severity(inc);
	inc->seq++;
	send(e, inc->rs, fill_report(e, inc->rs, &inc->subject, inc, f, state, o));
}

static bool is_silenced(struct engine *e, const struct incident *inc)
{
	return incident_is_inhibited(e, inc->rs, &inc->subject);
}

/* One that fires and has not been said: says it, unless an inhibitor has, or too many others have been. */
static void incident_place(struct engine *e, struct incident *inc, const struct finding *f, const struct occasion *o)
{
	struct rule_state *rs = inc->rs;

	inc->is_inhibited = is_silenced(e, inc);
	inc->is_over_max = !inc->is_inhibited && rs->rule->max_incidents > 0 && rs->firing >= rs->rule->max_incidents;
	(*count_of(inc))++;
	if (inc->is_inhibited)
		rs->inhibited++;
	else if (!inc->is_over_max)
		incident_say(e, inc, STATE_FIRING, f, o);
}

static void incident_fire(struct engine *e, struct incident *inc, const struct finding *f, const struct occasion *o)
{
	inc->state = INCIDENT_FIRING;
	inc->since_ns = inc->fired_ns = inc->said_ns = o->time_ns;
	new_id(e, inc->id);
	inc->rs->pending--;
	(void)incident_rise(e, inc, f, o);
	incident_place(e, inc, f, o);
}

struct incident *incident_continue(struct engine *e, const struct subject *s, struct slot *slot,
				   const struct incident_saved *saved, const struct finding *f, const struct occasion *o)
{
	struct incident *inc = incident_new(e, s, slot, o->time_ns);

	if (!inc)
		return NULL;
	inc->rs->pending--;
	inc->rs->firing++;
	inc->state = INCIDENT_FIRING;
	inc->is_said = true;
	memcpy(inc->id, saved->id, sizeof(inc->id));
	inc->seq = saved->seq;
	inc->fired_ns = saved->fired_ns;
	inc->peak_value = saved->peak_value;
	inc->said_severity = (enum severity)saved->severity;
	/* What it was raised to stays, but not what the rule itself said once. */
	if (inc->rs->rule->escalate.is_set)
		inc->severity = MIN(inc->said_severity, inc->rs->rule->escalate.severity);
	(void)incident_rise(e, inc, f, o);
	if (!is_silenced(e, inc))
		incident_say(e, inc, STATE_REPEAT, f, o);
	return inc;
}

static void incident_resolve(struct engine *e, struct incident *inc, const struct finding *f, const struct occasion *o)
{
	if (inc->is_said)
		incident_say(e, inc, STATE_RESOLVED, f, o);
	incident_unlink(e, inc);
}

static bool is_repeat_due(const struct incident *inc, uint64_t now_ns)
{
	const struct rule *r = inc->rs->rule;

	return r->repeat_ns > 0 && has_passed(inc->said_ns, now_ns, r->repeat_ns);
}

/*
 * For how long a finding may still be of what has ended. A leak is believed in until the coarsest epochs that are judged,
 * of which the newest does not count, hold nothing new, and then for for_epochs more.
 */
static uint64_t confirm_ns(const struct engine *e, const struct rule_state *rs)
{
	const struct leak_scale *scale = rs->scale >= 0 ? &e->scales[rs->scale] : NULL;

	return scale ? scale->epoch_ns * (2 * MAX(scale->max_group, 1u) + MAX(rs->rule->for_epochs, 1u)) : 0;
}

/* What silenced it has ended, perhaps for a reason that will end this one too: then there is nothing to say of it. */
static bool is_left_alone(struct engine *e, struct incident *inc, const struct occasion *o)
{
	if (is_silenced(e, inc)) {
		inc->is_alone = false;
		return false;
	}
	if (!inc->is_alone)
		inc->alone_ns = o->time_ns;
	inc->is_alone = true;
	return has_passed(inc->alone_ns, o->time_ns, confirm_ns(e, inc->rs));
}

/* One that was held back: may it be said by now? */
static void incident_try(struct engine *e, struct incident *inc, const struct finding *f, const struct occasion *o)
{
	struct rule_state *rs = inc->rs;

	if (inc->is_inhibited ? !is_left_alone(e, inc, o) : rs->firing >= rs->rule->max_incidents)
		return;
	/* Between the two limits it fires on, but to say that it is over the limit would be wrong. */
	if (!f->is_above)
		return;
	inc->is_alone = false;
	(*count_of(inc))--;
	incident_place(e, inc, f, o);
}

/* Says a firing incident again: at once where it has got worse, else at a tick when it is time, or for the first time
 * if that was held back. */
static void incident_repeat(struct engine *e, struct incident *inc, const struct finding *f, const struct occasion *o)
{
	bool is_due;

	if (inc->is_inhibited || inc->is_over_max) {
		if (!o->ev)
			incident_try(e, inc, f, o);
		return;
	}
	is_due = !o->ev && is_repeat_due(inc, o->time_ns);
	if ((!is_due && !is_risen(inc)) || (!inc->is_said && !f->is_above))
		return;
	if (!is_silenced(e, inc)) {
		incident_say(e, inc, inc->is_said ? STATE_REPEAT : STATE_FIRING, f, o);
	} else if (is_due) {
		inc->rs->inhibited++;
		inc->said_ns = o->time_ns;
	}
}

void incident_update(struct engine *e, const struct subject *s, struct slot *slot, uint64_t for_ns,
		     const struct finding *f, const struct occasion *o)
{
	struct incident *inc = slot->incident;
	uint64_t keep_ns = slot->rs->rule->keep_firing_for_ns;

	if (!inc && e->restored_len)
		inc = restored_claim(e, s, slot, f, o);
	if (!inc && (!f->is_above || !(inc = incident_new(e, s, slot, o->time_ns))))
		return;
	inc->last = *f;
	inc->last.device = NULL;
	inc->peak_value = MAX(inc->peak_value, f->value);

	switch (inc->state) {
	case INCIDENT_PENDING:
		if (!f->is_above)
			incident_unlink(e, inc);
		else if (has_passed(inc->since_ns, o->time_ns, for_ns))
			incident_fire(e, inc, f, o);
		return;
	case INCIDENT_FIRING:
		if (f->is_below) {
			inc->state = INCIDENT_RESOLVING;
			inc->since_ns = o->time_ns;
			break;
		}
		(void)incident_rise(e, inc, f, o);
		incident_repeat(e, inc, f, o);
		return;
	case INCIDENT_RESOLVING:
		if (!f->is_below) {
			inc->state = INCIDENT_FIRING;
			inc->since_ns = o->time_ns;
			return;
		}
		break;
	}
	/* At a tick only: memory that comes and goes within a step is not worth two records a step. */
	if (f->is_over || (!o->ev && has_passed(inc->since_ns, o->time_ns, keep_ns)))
		incident_resolve(e, inc, f, o);
}

void incident_vanish(struct engine *e, struct incident *inc, const struct occasion *o)
{
	struct finding f = inc->last;

	if (inc->state == INCIDENT_PENDING)
		incident_unlink(e, inc);
	else
		incident_resolve(e, inc, &f, o);
}

void incident_single(struct engine *e, const struct subject *s, struct rule_state *rs, const struct finding *f,
		     const struct occasion *o)
{
	struct incident single = { .rs = rs, .subject = *s, .seq = 1 };

	if (incident_is_inhibited(e, rs, s)) {
		rs->inhibited++;
		return;
	}
	if (!budget_take(e, rs, o->time_ns))
		return;
	new_id(e, single.id);
	send(e, rs, fill_report(e, rs, s, &single, f, STATE_FIRING, o));
}

void incident_restart(struct incident *inc, uint64_t now_ns)
{
	if (inc->state != INCIDENT_FIRING)
		inc->since_ns = now_ns;
}

void incident_summarize(struct engine *e, struct rule_state *rs, const struct occasion *o)
{
	uint64_t wait_ns = rs->rule->budget_ns ? rs->rule->budget_ns : SUMMARY_NS;
	const struct subject nobody = { 0 };
	struct report *r;

	if (rs->over == 0)
		rs->over_said = 0;
	if (rs->over <= rs->over_said || (rs->summary_ns && !has_passed(rs->summary_ns, o->time_ns, wait_ns)))
		return;
	rs->over_said = rs->over;
	rs->summary_ns = o->time_ns;
	r = fill_report(e, rs, &nobody, NULL, NULL, STATE_FIRING, o);
	if (r) {
		r->others = rs->over;
		/* As loud as the worst of them. */
		for (const struct incident *inc = rs->incidents; inc; inc = inc->next)
			r->severity = inc->is_over_max ? MAX(r->severity, incident_severity(inc)) : r->severity;
	}
	send(e, rs, r);
}

const char *incident_state_name(const struct incident *inc)
{
	if (inc->is_inhibited)
		return "inhibited";
	switch (inc->state) {
	case INCIDENT_PENDING:
		return "pending";
	case INCIDENT_FIRING:
		return "firing";
	case INCIDENT_RESOLVING:
		return "resolving";
	}
	return "unknown";
}
