/* SPDX-License-Identifier: MIT */
/* Conditions of which one event is the whole story: a large allocation, a failed one, the end of a process. */
#include <stdlib.h>
#include <string.h>

#include "model/saturate.h"
#include "rule/watch.h"

static int event_device_slot(const struct process *p, const struct event *ev)
{
	for (size_t i = 0; i < p->devices_len; i++) {
		if (p->devices[i].ordinal == ev->device)
			return (int)i;
	}
	return -1;
}

static bool is_large(const struct engine *e, const struct slot *slot, const struct event *ev, struct device *dev,
		     struct finding *f)
{
	const struct rule *r = slot->rs->rule;
	uint64_t resolve;

	if (ev->type != EVENT_ALLOC || !(r->classes & (1u << ev->class)))
		return false;
	if ((r->fire_above.unit == LIMIT_SHARE && !dev) || !condition_limits(e, r, dev, &f->limit, &resolve))
		return false;
	f->value = ev->bytes;
	f->unit = VALUE_BYTES;
	return f->value > f->limit;
}

/* A failed free is no failed allocation: it has no bytes but an address. The default classes mean any memory here:
 * pinned or managed memory that cannot be had stops a program as well. But a framework's own failure follows on one of
 * the driver. */
static bool is_failed_alloc(const struct rule *r, const struct event *ev)
{
	return ev->type == EVENT_FAIL && !(ev->bytes == 0 && ev->addr != 0) &&
	       ((r->classes == CLASS_DEVICE_MASK && ev->class != CLASS_FRAMEWORK) || (r->classes & (1u << ev->class)));
}

static bool is_failing(struct engine *e, struct slot *slot, const struct event *ev, struct finding *f)
{
	const struct rule *r = slot->rs->rule;

	f->value = f->limit = r->count ? r->count : 1;
	f->unit = VALUE_CALLS;
	if (f->limit == 1)
		return true;
	if (!slot->count) {
		slot->count = count_window_new(r->count);
		if (!slot->count) {
			e->no_memory++;
			return false;
		}
	}
	return count_window_add(slot->count, ev->time_ns, r->window_ns);
}

/* Keeps an event until it is known whether the rule means this process. */
static void defer(struct engine *e, struct process_watch *w, const struct event *ev)
{
	if (!w->deferred) {
		w->deferred = calloc(WATCH_DEFERRED_MAX, sizeof(*w->deferred));
		if (!w->deferred) {
			e->no_memory++;
			return;
		}
	}
	if (w->deferred_len < WATCH_DEFERRED_MAX)
		w->deferred[w->deferred_len++] = *ev;
}

void condition_single(struct engine *e, struct process *p, const struct occasion *o, bool only_fresh)
{
	const struct subject s = { .p = p };
	const struct event *ev = o->ev;
	struct process_watch *w = p->watch;
	int device_slot = event_device_slot(p, ev);
	struct device *dev = device_slot >= 0 ? p->devices[device_slot].device : NULL;
	bool must_wait = false;

	for (size_t i = 0; i < w->slots_len; i++) {
		struct slot *slot = &w->slots[i];
		const struct rule *r = slot->rs->rule;
		struct finding f = FINDING_INIT;
		bool is_fail = r->kind == RULE_ALLOC_FAILURE && is_failed_alloc(r, ev);

		f.device = dev;
		if (only_fresh && !slot->is_fresh)
			continue;
		if (!is_fail && !(r->kind == RULE_SINGLE_ALLOC && is_large(e, slot, ev, dev, &f)))
			continue;
		if (slot->is_waiting) {
			must_wait = true;
			continue;
		}
		if (slot->rs->has_device_keys &&
		    (device_slot < 0 || !(slot->devices & (UINT64_C(1) << device_slot))))
			continue;
		if (!is_fail || is_failing(e, slot, ev, &f))
			incident_single(e, &s, slot->rs, &f, o);
	}
	if (must_wait)
		defer(e, w, ev);
}

void condition_exit(struct engine *e, struct process *p, const struct occasion *o)
{
	const struct subject s = { .p = p };
	/* The pure core has no clock of boot time: a process's run begins with its first call. */
	uint64_t runtime_ns = sat_diff(o->time_ns, p->first_ns);

	for (size_t i = 0; i < p->watch->slots_len; i++) {
		struct slot *slot = &p->watch->slots[i];
		const struct rule *r = slot->rs->rule;
		struct finding f = FINDING_INIT;
		uint64_t allocated;

		if (r->kind != RULE_EXIT || slot->is_waiting)
			continue;
		f.value = sat_sum(p->live, r->classes);
		f.limit = r->live_above_bytes;
		f.unit = VALUE_BYTES;
		allocated = sat_sum(p->allocated, r->classes);
		if (f.value <= r->live_above_bytes || runtime_ns < r->min_runtime_ns ||
		    (double)f.value <= r->never_freed_above * (double)allocated)
			continue;
		incident_single(e, &s, slot->rs, &f, o);
	}
}
