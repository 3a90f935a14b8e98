/* SPDX-License-Identifier: MIT */
/*
 * Bounds: between which values no verdict can change. One pair here, which spares looking at every event; and one in
 * the kernel, which spares waking up for it.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "model/saturate.h"
#include "rule/watch.h"

/* A process of a group is woken for no smaller step towards the group's limit. */
#define BOUND_STEP_MIN (UINT64_C(1) << 20)
/* So often a second a process's bounds are moved by its events; after that they rest until the next tick. */
#define BOUND_ARMS_MAX 20

struct bounds {
	uint64_t high, low; /* above or below */
};

/* Narrows b to where the state of this slot could change. */
static void narrow(struct bounds *b, const struct slot *slot, uint64_t fire, uint64_t resolve)
{
	const struct incident *inc = slot->incident;

	if (!inc)
		b->high = MIN(b->high, fire);
	else if (inc->state == INCIDENT_PENDING)
		b->low = MAX(b->low, fire == UINT64_MAX ? fire : fire + 1);
	else if (inc->state == INCIDENT_FIRING)
		b->low = MAX(b->low, resolve);
	else if (resolve > 0)
		b->high = MIN(b->high, resolve - 1);
}

/*
 * What a process holds on one device, or on some, is at most what it holds in all: below the least of the limits no
 * event need be looked at. False when the slot has to be looked at with each.
 */
static bool narrow_odd(struct bounds *b, const struct engine *e, const struct process *p, const struct slot *slot)
{
	const struct rule *r = slot->rs->rule;
	bool is_share = r->fire_above.unit == LIMIT_SHARE || r->resolve_below.unit == LIMIT_SHARE;
	uint64_t fire, resolve, least = UINT64_MAX;

	if (slot->incident || r->classes != CLASS_DEVICE_MASK || !p->exact)
		return false;
	for (size_t i = 0; i < (is_share ? p->devices_len : 1); i++) {
		const struct device *dev = is_share ? p->devices[i].device : NULL;

		if ((dev || !is_share) && condition_limits(e, r, dev, &fire, &resolve))
			least = MIN(least, fire);
	}
	if (p->live_bytes > least)
		return false;
	b->high = MIN(b->high, least);
	return true;
}

void bound_process(struct engine *e, struct process *p)
{
	struct process_watch *w = p->watch;
	struct bounds b = { .high = UINT64_MAX };
	uint64_t fire, resolve;

	w->odd_classes = 0;
	for (size_t i = 0; i < w->slots_len; i++) {
		const struct slot *slot = &w->slots[i];
		const struct rule *r = slot->rs->rule;

		if (r->kind != RULE_LIVE_BYTES || slot->is_waiting)
			continue;
		if (slot->rs->is_plain && condition_limits(e, r, NULL, &fire, &resolve))
			narrow(&b, slot, fire, resolve);
		else if (!slot->rs->is_plain && !narrow_odd(&b, e, p, slot))
			w->odd_classes |= r->classes;
	}
	w->high = b.high;
	w->low = b.low;
}

void bound_group(struct engine *e, struct group *g)
{
	struct bounds b = { .high = UINT64_MAX };
	uint64_t fire, resolve;

	g->odd_classes = 0;
	for (size_t i = 0; i < g->slots_len; i++) {
		const struct slot *slot = &g->slots[i];
		const struct rule *r = slot->rs->rule;

		if (r->kind != RULE_LIVE_BYTES)
			continue;
		if (r->classes != CLASS_DEVICE_MASK)
			g->odd_classes |= r->classes;
		else if (condition_limits(e, r, g->device, &fire, &resolve))
			narrow(&b, slot, fire, resolve);
	}
	g->high = b.high;
	g->low = b.low;
}

/* How far a process may grow or shrink before a rule that does not compare its own total could change its mind. */
struct slack {
	uint64_t up, down;
};

static void slack_devices(struct engine *e, const struct process *p, const struct slot *slot, struct slack *s)
{
	const struct rule *r = slot->rs->rule;
	struct bounds b = { .high = UINT64_MAX };
	uint64_t fire, resolve;
	struct finding f;

	condition_measure(e, p, slot, &f);
	if ((r->fire_above.unit == LIMIT_SHARE && !f.device) || !condition_limits(e, r, f.device, &fire, &resolve))
		return;
	narrow(&b, slot, fire, resolve);
	if (b.high != UINT64_MAX)
		s->up = MIN(s->up, sat_diff(b.high, f.value));
	if (b.low > 0)
		s->down = MIN(s->down, sat_diff(f.value, b.low));
}

/* *slack = MIN(*slack, MAX(room / members, BOUND_STEP_MIN)), where most groups cost no division. */
static void narrow_share(uint64_t *slack, uint64_t room, uint64_t members)
{
	uint64_t most;

	if (*slack <= BOUND_STEP_MIN || (!__builtin_mul_overflow(*slack, members, &most) && room >= most))
		return;
	*slack = MIN(*slack, MAX(room / members, BOUND_STEP_MIN));
}

static void slack_group(const struct group *g, struct slack *s)
{
	uint64_t value, members = MAX(g->members, 1u);

	if (g->high == UINT64_MAX && g->low == 0)
		return;
	value = group_value(g, CLASS_DEVICE_MASK);
	if (g->high != UINT64_MAX)
		narrow_share(&s->up, sat_diff(g->high, value), members);
	if (g->low > 0)
		narrow_share(&s->down, sat_diff(value, g->low), members);
}

/* Keeps a bound that is still good: neither too far for the slack nor so near that it wakes for little. Else takes three
 * quarters, so that the same bound stays good while the others of the group grow a little. */
static uint64_t step(uint64_t slack, uint64_t armed_slack)
{
	if (armed_slack > 0 && armed_slack <= slack && armed_slack >= slack / 4)
		return armed_slack;
	return MIN(slack, MAX(slack / 4 * 3, BOUND_STEP_MIN));
}

static void bounds_of(struct engine *e, const struct process *p, struct bounds *ret, uint64_t *ret_single)
{
	const struct process_watch *w = p->watch;
	struct slack s = { .up = UINT64_MAX, .down = UINT64_MAX };
	uint64_t fire, resolve, live = p->live_bytes, single = UINT64_MAX;

	for (size_t i = 0; i < w->slots_len; i++) {
		const struct slot *slot = &w->slots[i];
		const struct rule *r = slot->rs->rule;

		if (r->kind == RULE_LIVE_BYTES && !slot->rs->is_plain && !slot->is_waiting &&
		    r->classes == CLASS_DEVICE_MASK)
			slack_devices(e, p, slot, &s);
		if (r->kind != RULE_SINGLE_ALLOC || !(r->classes & CLASS_DEVICE_MASK))
			continue;
		for (size_t k = 0; k < MAX(p->devices_len, (size_t)1); k++) {
			const struct device *dev = k < p->devices_len ? p->devices[k].device : NULL;

			/* The kernel compares with "at least", the rule with "more than". */
			if ((dev || r->fire_above.unit != LIMIT_SHARE) && condition_limits(e, r, dev, &fire, &resolve))
				single = MIN(single, fire == UINT64_MAX ? fire : fire + 1);
		}
	}
	for (size_t i = 0; i < w->members_len; i++)
		slack_group(w->members[i].g, &s);

	*ret = (struct bounds){ .high = w->high, .low = w->low };
	if (s.up != UINT64_MAX)
		(void)sat_add(&live, step(s.up, w->armed_high == UINT64_MAX ? 0 : sat_diff(w->armed_high, live)));
	else
		live = UINT64_MAX;
	ret->high = MIN(ret->high, live);
	live = p->live_bytes;
	if (s.down != UINT64_MAX)
		ret->low = MAX(ret->low,
			       sat_diff(live, step(s.down, w->armed_low ? sat_diff(live, w->armed_low) : 0)));
	*ret_single = single;
}

void bound_arm(struct engine *e, struct process *p, const struct occasion *o)
{
	struct process_watch *w = p->watch;
	uint64_t single, second = o->time_ns / NSEC_PER_SEC;
	struct bounds b;

	if (!e->ops.arm || p->is_rebuilding)
		return;
	if (w->armed_second != second) {
		w->armed_second = second;
		w->armed_count = 0;
	}
	if (o->ev && w->armed_count >= BOUND_ARMS_MAX)
		return;
	bounds_of(e, p, &b, &single);
	/* A total that swings around a limit: no more wake-ups for it until the next tick. */
	if (o->ev && w->armed_count == BOUND_ARMS_MAX - 1)
		b = (struct bounds){ .high = UINT64_MAX };
	if (b.high == w->armed_high && b.low == w->armed_low && single == w->armed_single)
		return;
	w->armed_high = b.high;
	w->armed_low = b.low;
	w->armed_single = single;
	w->armed_count++;
	e->ops.arm(p->pid, p->start_ns, b.high, b.low, single, e->userdata);
}
