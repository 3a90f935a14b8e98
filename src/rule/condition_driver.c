/* SPDX-License-Identifier: MIT */
/*
 * Conditions of which not the probes but the driver or /proc tell: growth of what the driver counts beyond what
 * allocation calls show, and processes that hold memory though nobody is there to end them.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "model/saturate.h"
#include "rule/watch.h"

/* The window in so many parts, of each of which the least is kept. */
#define GROWTH_BUCKETS 30

struct growth {
	struct {
		uint64_t bytes, time_ns; /* the least, and when; UINT64_MAX = nothing known of this part */
	} low[GROWTH_BUCKETS + 1]; /* one more: the newest is not over yet */
	uint64_t newest; /* number of the newest */
	uint64_t before; /* the figure before this one; UINT64_MAX = there was none */
	uint64_t value, age_ns; /* what was found last */
	bool is_known;
};

static void growth_advance(struct growth *g, uint64_t bucket)
{
	uint64_t n = bucket - g->newest;

	for (uint64_t i = 1; i <= MIN(n, (uint64_t)GROWTH_BUCKETS + 1); i++)
		g->low[(g->newest + i) % (GROWTH_BUCKETS + 1)].bytes = UINT64_MAX;
	g->newest = bucket;
}

static struct growth *growth_new(uint64_t bucket)
{
	struct growth *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	for (size_t i = 0; i <= GROWTH_BUCKETS; i++)
		g->low[i].bytes = UINT64_MAX;
	g->newest = bucket;
	g->before = UINT64_MAX;
	return g;
}

void growth_restart(struct growth *g)
{
	g->before = UINT64_MAX;
}

/*
 * The driver is asked at one moment and our count is read at another: what is allocated or freed in between is wrong for
 * one figure. So the least is that of two in a row, as is the present value.
 */
static void growth_add(struct growth *g, uint64_t bytes, uint64_t width_ns, uint64_t now_ns)
{
	uint64_t bucket = now_ns / width_ns, least = UINT64_MAX, before = g->before, high, since = now_ns;
	size_t at = bucket % (GROWTH_BUCKETS + 1);

	if (bucket > g->newest)
		growth_advance(g, bucket);
	g->before = bytes;
	if (before == UINT64_MAX)
		return;
	high = MAX(before, bytes);
	if (high < g->low[at].bytes) {
		g->low[at].bytes = high;
		g->low[at].time_ns = now_ns;
	}
	for (size_t i = 0; i <= GROWTH_BUCKETS; i++) {
		if (g->low[i].bytes < least) {
			least = g->low[i].bytes;
			since = g->low[i].time_ns;
		}
	}
	g->value = sat_diff(MIN(before, bytes), least);
	g->age_ns = sat_diff(now_ns, since);
	g->is_known = true;
}

/*
 * What the driver counts beyond what calls explain. Managed memory may lie on the device or not, and pools keep what was
 * freed: neither is a surprise.
 */
static uint64_t unexplained(const struct process *p)
{
	const uint32_t pools = (1u << CLASS_ASYNC) | (1u << CLASS_GRAPH);
	uint64_t explained = sat_sum(p->live, (CLASS_DEVICE_MASK & ~pools) | (1u << CLASS_MANAGED));

	(void)sat_add(&explained, p->pool_peak_bytes);
	return sat_diff(p->driver_bytes, explained);
}

struct device *driver_device(const struct process *p)
{
	const struct process_device *best = NULL;

	for (size_t i = 0; i < p->devices_len; i++) {
		const struct process_device *pd = &p->devices[i];

		if (pd->device && pd->driver_bytes != UINT64_MAX && pd->driver_bytes > 0 &&
		    (!best || pd->driver_bytes > best->driver_bytes))
			best = pd;
	}
	return best ? best->device : NULL;
}

static void growth_judge(struct engine *e, struct process *p, struct slot *slot, const struct occasion *o)
{
	const struct subject s = { .p = p };
	const struct rule *r = slot->rs->rule;
	struct finding f = FINDING_INIT;
	uint64_t resolve;

	if (!slot->growth || !slot->growth->is_known)
		return;
	f.value = slot->growth->value;
	f.age_ns = slot->growth->age_ns;
	f.unit = VALUE_BYTES;
	f.device = driver_device(p);
	(void)condition_limits(e, r, NULL, &f.limit, &resolve);
	f.is_above = f.value > f.limit;
	f.is_below = f.value < resolve;
	incident_update(e, &s, slot, r->for_ns, &f, o);
}

/* One that the driver says holds nothing any more has not grown; of others nothing is known this time. */
static void growth_unjudged(struct engine *e, struct process *p, struct slot *slot, const struct occasion *o)
{
	if (!slot->growth)
		return;
	growth_restart(slot->growth);
	if (p->is_listed || p->driver_bytes != 0)
		return;
	slot->growth->value = 0;
	growth_judge(e, p, slot, o);
}

/* Where our own count is not to be trusted, or the driver says less than it, there is nothing to compare with. */
static bool is_comparable(const struct process *p)
{
	return p->exact && !p->is_rebuilding && p->is_listed && p->driver_bytes != UINT64_MAX &&
	       p->driver_bytes >= p->live_bytes && p->untracked_count == 0;
}

static bool is_judged(const struct process *p, const struct rule *r, uint64_t now_ns)
{
	return is_comparable(p) && sat_diff(now_ns, p->first_ns) >= r->min_runtime_ns;
}

void condition_untracked(struct engine *e, struct process *p, const struct occasion *o)
{
	struct process_watch *w = p->watch;

	if (is_comparable(p))
		leak_book_untold(e, p, unexplained(p), o->time_ns);
	for (size_t i = 0; i < w->slots_len; i++) {
		struct slot *slot = &w->slots[i];
		const struct rule *r = slot->rs->rule;
		uint64_t width_ns = MAX(r->window_ns / GROWTH_BUCKETS, UINT64_C(1));

		if (r->kind != RULE_UNTRACKED_GROWTH || slot->is_waiting)
			continue;
		if (!is_judged(p, r, o->time_ns)) {
			growth_unjudged(e, p, slot, o);
			continue;
		}
		if (!slot->growth && !(slot->growth = growth_new(o->time_ns / width_ns))) {
			e->no_memory++;
			continue;
		}
		growth_add(slot->growth, unexplained(p), width_ns, o->time_ns);
		growth_judge(e, p, slot, o);
	}
}

static void judge_orphan(struct engine *e, struct process *p, struct slot *slot, const struct occasion *o)
{
	const struct subject s = { .p = p };
	const struct rule *r = slot->rs->rule;
	struct finding f = FINDING_INIT;

	f.unit = VALUE_BYTES;
	f.value = MAX(p->live_bytes, p->driver_bytes == UINT64_MAX ? 0 : p->driver_bytes);
	f.limit = r->live_above_bytes;
	f.device = driver_device(p);
	/* Where the driver names it without a figure it holds something. */
	f.is_above = (p->condition & r->conditions) && process_holds_memory(p) &&
		     (f.value > f.limit || (f.limit == 0 && p->is_listed));
	f.is_below = !f.is_above;
	incident_update(e, &s, slot, r->for_ns, &f, o);
}

void condition_tick_driver(struct engine *e, struct process *p, const struct occasion *o)
{
	struct process_watch *w = p->watch;

	for (size_t i = 0; i < w->slots_len; i++) {
		struct slot *slot = &w->slots[i];

		if (slot->is_waiting)
			continue;
		if (slot->rs->rule->kind == RULE_ORPHAN && (p->condition || slot->incident))
			judge_orphan(e, p, slot, o);
		else if (slot->rs->rule->kind == RULE_UNTRACKED_GROWTH && slot->incident)
			growth_judge(e, p, slot, o);
	}
}
