/* SPDX-License-Identifier: MIT */
#include "rule/watch.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "model/saturate.h"

#define RESOLVE_DEFAULT 0.95 /* of fire_above */

static uint64_t to_u64(double v)
{
	if (!(v > 0))
		return 0;
	return v < 18446744073709549568.0 ? (uint64_t)v : UINT64_MAX;
}

/* Capacity that a share is of; false when it is not known. */
static bool capacity(const struct engine *e, const struct device *dev, uint64_t *ret)
{
	uint64_t sum = 0;

	if (dev) {
		*ret = dev->total_bytes;
		return dev->total_bytes != UINT64_MAX;
	}
	for (size_t i = 0; i < e->devices.len; i++) {
		if (e->devices.list[i]->total_bytes != UINT64_MAX)
			(void)sat_add(&sum, e->devices.list[i]->total_bytes);
	}
	*ret = sum;
	return sum > 0;
}

bool condition_limits(const struct engine *e, const struct rule *r, const struct device *dev, uint64_t *ret_fire,
		      uint64_t *ret_resolve)
{
	bool needs_capacity = r->fire_above.unit == LIMIT_SHARE || r->resolve_below.unit == LIMIT_SHARE;
	uint64_t total = 0, resolve;

	if (needs_capacity && !capacity(e, dev, &total))
		return false;
	*ret_fire = to_u64(r->fire_above.unit == LIMIT_SHARE ? r->fire_above.value * (double)total
							     : r->fire_above.value);
	if (r->resolve_below.unit == LIMIT_NONE)
		resolve = to_u64((double)*ret_fire * RESOLVE_DEFAULT);
	else
		resolve = to_u64(r->resolve_below.unit == LIMIT_SHARE ? r->resolve_below.value * (double)total
								      : r->resolve_below.value);
	*ret_resolve = MIN(resolve, *ret_fire);
	return true;
}

static void compare(struct finding *f, uint64_t fire, uint64_t resolve)
{
	f->limit = fire;
	f->is_above = f->value > fire;
	f->is_below = f->value < resolve;
}

/* Of the devices that the rule looks at, the one whose share is largest decides. */
static void measure_share(const struct engine *e, const struct process *p, const struct slot *slot, struct finding *f)
{
	const struct rule *r = slot->rs->rule;
	double most = -1;

	for (size_t i = 0; i < p->devices_len; i++) {
		const struct process_device *pd = &p->devices[i];
		uint64_t value, fire, resolve;

		if (!pd->device || pd->device->total_bytes == UINT64_MAX || pd->device->total_bytes == 0 ||
		    (slot->rs->has_device_keys && !(slot->devices & (UINT64_C(1) << i))))
			continue;
		value = sat_sum(pd->live, r->classes);
		if ((double)value / (double)pd->device->total_bytes <= most ||
		    !condition_limits(e, r, pd->device, &fire, &resolve))
			continue;
		most = (double)value / (double)pd->device->total_bytes;
		f->value = value;
		f->device = pd->device;
		compare(f, fire, resolve);
	}
}

void condition_measure(const struct engine *e, const struct process *p, const struct slot *slot, struct finding *ret)
{
	const struct rule *r = slot->rs->rule;
	struct finding f = FINDING_INIT;
	uint64_t fire, resolve;

	f.unit = VALUE_BYTES;
	if (r->fire_above.unit == LIMIT_SHARE || r->resolve_below.unit == LIMIT_SHARE) {
		measure_share(e, p, slot, &f);
	} else if (condition_limits(e, r, NULL, &fire, &resolve)) {
		if (slot->rs->has_device_keys) {
			for (size_t i = 0; i < p->devices_len; i++) {
				if (slot->devices & (UINT64_C(1) << i))
					(void)sat_add(&f.value, sat_sum(p->devices[i].live, r->classes));
			}
		} else {
			f.value = r->classes == CLASS_DEVICE_MASK ? p->live_bytes : sat_sum(p->live, r->classes);
		}
		compare(&f, fire, resolve);
	}
	*ret = f;
}

void condition_process(struct engine *e, struct process *p, const struct occasion *o)
{
	const struct subject s = { .p = p };
	struct process_watch *w = p->watch;

	if (p->is_rebuilding)
		return;
	/* Before the engine has heard what time it is, nothing can begin to be true. */
	for (size_t i = 0; i < w->slots_len && e->now_ns > 0; i++) {
		struct slot *slot = &w->slots[i];
		struct finding f;

		if (slot->rs->rule->kind != RULE_LIVE_BYTES || slot->is_waiting)
			continue;
		condition_measure(e, p, slot, &f);
		incident_update(e, &s, slot, slot->rs->rule->for_ns, &f, o);
	}
	bound_process(e, p);
}

/* Rates are compared at ticks only. */
static void evaluate_rate(struct engine *e, const struct subject *s, struct slot *slot, const struct occasion *o)
{
	const struct rule *r = slot->rs->rule;
	struct finding f = FINDING_INIT;
	double rate, resolve = r->resolve_below.unit == LIMIT_NONE ? r->fire_above.value * RESOLVE_DEFAULT
								   : r->resolve_below.value;

	if (!slot->rate || (slot->rate->sum == 0 && !slot->incident))
		return;
	rate = rate_window_rate(slot->rate, o->time_ns);
	f.value = to_u64(rate + 0.5);
	f.limit = to_u64(r->fire_above.value + 0.5);
	f.unit = r->fire_above.unit == LIMIT_BYTES_PER_SEC ? VALUE_BYTES_PER_SEC : VALUE_CALLS_PER_SEC;
	f.is_above = rate > r->fire_above.value;
	f.is_below = rate < MIN(resolve, r->fire_above.value) || slot->rate->sum == 0;
	incident_update(e, s, slot, r->for_ns, &f, o);
}

void condition_group(struct engine *e, struct group *g, const struct occasion *o)
{
	const struct subject s = { .g = g };

	/* A member's bytes are half put back: wait for the end. */
	if (e->rebuilding > 0)
		return;
	for (size_t i = 0; i < g->slots_len && e->now_ns > 0; i++) {
		const struct rule *r = g->slots[i].rs->rule;
		struct finding f = FINDING_INIT;
		uint64_t fire, resolve;

		if (r->kind == RULE_ALLOC_RATE) {
			if (!o->ev)
				evaluate_rate(e, &s, &g->slots[i], o);
			continue;
		}
		f.unit = VALUE_BYTES;
		f.device = g->device;
		if (condition_limits(e, r, g->device, &fire, &resolve)) {
			f.value = group_value(g, r->classes);
			compare(&f, fire, resolve);
		}
		incident_update(e, &s, &g->slots[i], r->for_ns, &f, o);
	}
	bound_group(e, g);
}

void condition_tick_process(struct engine *e, struct process *p, const struct occasion *o)
{
	const struct subject s = { .p = p };
	struct process_watch *w = p->watch;
	bool has_rates = false;

	if (w->is_dirty || w->incidents > 0)
		condition_process(e, p, o);
	for (size_t i = 0; i < w->slots_len && w->has_rates; i++) {
		struct slot *slot = &w->slots[i];

		if (slot->rs->rule->kind != RULE_ALLOC_RATE || slot->is_waiting)
			continue;
		evaluate_rate(e, &s, slot, o);
		has_rates = has_rates || slot->incident || (slot->rate && slot->rate->sum > 0);
	}
	w->has_rates = has_rates || (w->has_rates && w->is_waiting);
}

static int rate_count(struct slot *slot, const struct event *ev)
{
	const struct rule *r = slot->rs->rule;

	if (r->kind != RULE_ALLOC_RATE || !(r->classes & (1u << ev->class)))
		return 0;
	if (!slot->rate) {
		slot->rate = rate_window_new(r->window_ns);
		if (!slot->rate)
			return -ENOMEM;
	}
	rate_window_add(slot->rate, ev->time_ns, r->fire_above.unit == LIMIT_BYTES_PER_SEC ? ev->bytes : 1);
	return 1;
}

void condition_count(struct process *p, const struct event *ev, int device_slot)
{
	struct process_watch *w = p->watch;

	for (size_t i = 0; i < w->slots_len; i++) {
		struct slot *slot = &w->slots[i];

		if (slot->rs->has_device_keys &&
		    (device_slot < 0 || !(slot->devices & (UINT64_C(1) << device_slot))))
			continue;
		if (rate_count(slot, ev) > 0)
			w->has_rates = true;
	}
	for (size_t i = 0; i < w->members_len; i++) {
		struct group *g = w->members[i].g;

		if (!g->has_rates || (w->members[i].slot >= 0 && w->members[i].slot != device_slot))
			continue;
		for (size_t k = 0; k < g->slots_len; k++)
			(void)rate_count(&g->slots[k], ev);
	}
}
