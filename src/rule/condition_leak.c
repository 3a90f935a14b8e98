/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "model/saturate.h"
#include "rule/leak_confidence.h"
#include "rule/watch.h"

static bool is_paused(const struct engine *e, const struct process *p, const struct rule_state *rs, uint64_t now_ns);

/* So few processes are judged without a delay, and no delay is longer than an epoch. */
static uint32_t delays_of(const struct engine *e)
{
	uint64_t delays = MIN(e->processes.len / WATCH_LEAK_TOGETHER, (size_t)WATCH_LEAK_DELAYS);

	for (size_t i = 0; i < e->scales_len; i++)
		delays = MIN(delays, e->scales[i].epoch_ns / NSEC_PER_SEC);
	return (uint32_t)MAX(delays, 1u);
}

static uint64_t delayed(uint64_t time_ns, uint32_t delay)
{
	return sat_diff(time_ns, delay * NSEC_PER_SEC);
}

static bool is_epoch_over(const struct engine *e, uint64_t before_ns, uint64_t now_ns)
{
	for (size_t i = 0; i < e->scales_len; i++) {
		if (now_ns / e->scales[i].epoch_ns > before_ns / e->scales[i].epoch_ns)
			return true;
	}
	return false;
}

void leak_tick_begin(struct engine *e, uint64_t now_ns)
{
	struct leak_clock *c = &e->leak_clock;

	c->before_ns = c->now_ns;
	c->now_ns = MAX(c->now_ns, watch_leak_time(e, now_ns));
	c->delays = delays_of(e);
	c->due = 0;
	for (uint32_t i = 0; i < c->delays; i++) {
		if (is_epoch_over(e, delayed(c->before_ns, i), delayed(c->now_ns, i)))
			c->due |= 1u << i;
	}
	for (size_t i = 0; i < e->states_len; i++) {
		struct rule_state *rs = e->states[i];

		if (rs->scale < 0)
			continue;
		rs->leak_before = rs->leak_epoch;
		rs->leak_epoch = MAX(c->now_ns / e->scales[rs->scale].epoch_ns, rs->leak_epoch);
	}
}

/* May an epoch of it have ended? Exactly so for one that was there at the tick before, with the same delay. */
static bool may_be_due(const struct engine *e, const struct process *p, uint32_t delay)
{
	const struct leak_clock *c = &e->leak_clock;
	uint64_t judged_ns = p->watch->leak_ns;

	return judged_ns == 0 || judged_ns != delayed(c->before_ns, delay) || c->due & (1u << delay);
}

/* How many epochs of the rule have ended since the process was judged last, at a time of the leak clock; the newest of
 * them began with *ret_epoch. */
static uint64_t epochs_passed(const struct engine *e, const struct process *p, const struct rule_state *rs,
			      uint64_t now_ns, uint64_t *ret_epoch)
{
	uint64_t epoch_ns = e->scales[rs->scale].epoch_ns, judged_ns = p->watch->leak_ns;

	*ret_epoch = now_ns / epoch_ns;
	return sat_diff(*ret_epoch, judged_ns > 0 ? judged_ns / epoch_ns : rs->leak_before);
}

/* Bytes of the growth: those of the judged epochs when it fired, and what has been born and kept since. */
static uint64_t leaked_since(const struct incident *inc, struct leak_ring *ring, const struct leak_scale *scale,
			     const struct leak_verdict *v, uint64_t epoch)
{
	uint64_t began = inc->leak_began_ns / scale->epoch_ns, bytes;

	bytes = leak_between(ring, scale, began, sat_diff(epoch, v->group + 1));
	(void)sat_add(&bytes, sat_diff(ring->older, inc->leak_older));
	return bytes;
}

/* Between two epochs the last verdict stands, but time goes on: for, keep_firing_for, repeat. */
static void stand_by(struct engine *e, const struct subject *s, struct slot *slot, const struct occasion *o)
{
	struct finding last;

	if (!slot->incident)
		return;
	last = slot->incident->last;
	incident_update(e, s, slot, slot->rs->rule->for_ns, &last, o);
}

/* Where the growth is. */
static const struct device *device_of(const struct process *p, const struct site *site, uint32_t classes)
{
	int slot;

	for (size_t i = 0; site && i < p->devices_len; i++) {
		if (site->device >= 0 && p->devices[i].ordinal == site->device && p->devices[i].device)
			return p->devices[i].device;
	}
	slot = process_main_device(p, classes);
	return slot >= 0 ? p->devices[slot].device : NULL;
}

static uint64_t min_growth(const struct rule *r, const struct device *dev)
{
	double share = dev && dev->total_bytes != UINT64_MAX ? r->min_growth_share * (double)dev->total_bytes : 0;

	return MAX(r->min_growth_bytes, share < 18e18 ? (uint64_t)share : UINT64_MAX);
}

static void weigh(struct engine *e, const struct subject *s, const struct rule_state *rs, const struct device *dev,
		  const struct leak_verdict *v, struct finding *f)
{
	struct leak_case c = { .evidence = &v->evidence, .epochs = rs->rule->epochs, .span_ns = v->span_ns,
			       .process_age_ns = sat_diff(e->now_ns, s->p->first_ns), .top_share = -1,
			       .full_in_ns = UINT64_MAX, .is_inexact = !s->p->exact };
	uint64_t sec;

	if (s->site) {
		leak_suspect(s->p, s->site, (uint32_t)rs->scale);
		c.bound_share = leak_bound_share(e, s->site);
	} else {
		struct leak_share top[REPORT_LEAK_SITES_MAX];
		uint64_t total;
		size_t len = leak_top_sites(e, rs, s->p, v->group, top, &total);

		for (size_t i = 0; i < len; i++) {
			if (top[i].site)
				leak_suspect(s->p, top[i].site, (uint32_t)rs->scale);
		}
		if (len > 0 && total > 0) {
			c.top_share = (double)top[0].bytes / (double)total;
			c.bound_share = top[0].site ? leak_bound_share(e, top[0].site) : 0;
		}
	}
	sec = rule_fills_device(rs->rule) ? finding_full_in_sec(f, dev) : ABSENT_U64;
	if (sec != ABSENT_U64)
		c.full_in_ns = sec < UINT64_MAX / NSEC_PER_SEC ? sec * NSEC_PER_SEC : UINT64_MAX - 1;
	f->confidence = leak_confidence(&c, &f->doubts);
}

/* Would the device be full so soon? Yes where nobody knows. */
static bool is_urgent(const struct rule *r, const struct device *dev, const struct finding *f)
{
	uint64_t sec = rule_fills_device(r) ? finding_full_in_sec(f, dev) : ABSENT_U64;

	return r->full_in_ns == 0 || sec == ABSENT_U64 || sec <= r->full_in_ns / NSEC_PER_SEC;
}

/* The epoch in which the growth began, as far back as is known. The newest ones are not judged, so the window began that
 * much earlier. */
static uint64_t leak_began(const struct leak_scale *scale, const struct leak_verdict *v, uint64_t epoch)
{
	uint64_t back = (uint64_t)v->group * (scale->epochs + 1);

	if (v->is_growing)
		back = MAX(back, v->evidence.run_ns / scale->epoch_ns);
	return sat_diff(epoch, back);
}

/* What was lost so far and in how long: since it grew about as much in each epoch, which may be longer than the window.
 * Returns the epoch in which that began. */
static uint64_t measure_growth(const struct leak_ring *ring, const struct leak_scale *scale, const struct leak_verdict *v,
			       uint64_t epoch, struct finding *f)
{
	uint64_t began = leak_began(scale, v, epoch);

	f->value = MAX(v->mature_bytes, leak_between(ring, scale, began, sat_diff(epoch, v->group + 1)));
	f->age_ns = (epoch - began) * scale->epoch_ns;
	return began;
}

/* What a verdict is for. */
struct question {
	uint64_t epoch;	    /* has begun */
	uint64_t passed;    /* so many since the last time */
	bool needs_numbers; /* also of a level that does not grow */
};

/* A process's growth is that of the sites that nothing speaks against, taken together: each may be small. */
static int judge_process(struct engine *e, const struct process *p, const struct rule_state *rs, struct leak_ring *ring,
			 uint64_t min_bytes, const struct question *q, uint32_t group, struct leak_verdict *ret)
{
	const struct leak_scale *scale = &e->scales[rs->scale];
	struct leak_ring *untold = p->watch->untold[rs->scale];
	uint64_t young;
	struct leak_verdict v = { 0 }, fallback = { .group = group, .span_ns = scale->epoch_ns * group * scale->epochs };

	leak_ring_advance(ring, scale, q->epoch);
	young = ring->window;
	if (untold) {
		leak_ring_advance(untold, scale, q->epoch);
		(void)sat_add(&young, untold->window);
	}
	fallback.is_flat = young == 0;
	fallback.mature_bytes = young;
	if (young == 0 || young < min_bytes) {
		*ret = fallback;
		return 0;
	}
	if (leak_find_young(e, p, rs->scale, rs->leak_epoch) < 0)
		return -ENOMEM;
	for (uint32_t g = 1; g <= scale->max_group; g *= 2) {
		_cleanup_free_ struct leak_ring *sum = NULL;
		struct leak_frees frees;

		if (!leak_young_grow(e, p, rs, min_bytes, q->epoch, g) && !(q->needs_numbers && g == group))
			continue;
		sum = leak_sum_sites(e, p, rs->scale, rs->leak_epoch, g, &frees);
		if (!sum)
			return -ENOMEM;
		leak_judge_level(sum, scale, rs->rule, min_bytes, q->epoch, g, &frees, &v);
		if (v.is_growing) {
			*ret = v;
			return 0;
		}
		if (g == group)
			fallback = v;
	}
	*ret = fallback;
	return 0;
}

static void judge(struct engine *e, const struct subject *s, struct slot *slot, struct leak_ring *ring,
		  const struct question *due, const struct occasion *o)
{
	struct rule_state *rs = slot->rs;
	const struct leak_scale *scale = &e->scales[rs->scale];
	uint64_t now = watch_leak_time(e, o->time_ns), began, back, for_epochs = MAX(rs->rule->for_epochs, 1u);
	struct finding f = FINDING_INIT;
	struct leak_verdict v = { 0 };
	bool was_firing = slot->incident && slot->incident->state != INCIDENT_PENDING;
	const struct device *dev = device_of(s->p, s->site, scale->classes);
	uint64_t min_bytes = min_growth(rs->rule, dev);
	struct question q = *due;

	q.needs_numbers = slot->incident || e->restored_len > 0;
	/* Several epochs may have ended since the last tick: each is judged by what is left of it now. */
	for (back = MIN(for_epochs, due->passed); back > 0; back--) {
		q.epoch = due->epoch - back + 1;
		if (s->site)
			leak_judge(ring, scale, rs->rule, &s->site->watch->lives, min_bytes, q.epoch, slot->group,
				   q.needs_numbers, &v);
		else if (judge_process(e, s->p, rs, ring, min_bytes, &q, MAX(slot->group, 1u), &v) < 0)
			e->no_memory++;
		if (v.is_growing)
			slot->group = v.group;
		slot->streak = v.is_growing ? slot->streak + 1 : 0;
		slot->calm = v.is_growing ? 0 : slot->calm + 1;
	}
	if (!v.is_growing && !q.needs_numbers)
		return;
	/* It takes as many epochs to believe that it has stopped as it took to believe in it. */
	f.is_above = slot->streak >= for_epochs;
	f.is_below = slot->calm >= for_epochs || (!v.is_growing && v.is_flat);
	f.is_over = !v.is_growing && v.is_flat;
	began = measure_growth(ring, scale, &v, due->epoch, &f);
	if (was_firing) {
		f.value = leaked_since(slot->incident, ring, scale, &v, due->epoch);
		f.age_ns = sat_diff(now, slot->incident->leak_began_ns);
	}
	f.leaked_bytes = f.value;
	f.limit = min_bytes;
	f.unit = VALUE_BYTES;
	f.growth_per_hour = leak_growth_per_hour(&v);
	f.group = v.group;
	if (v.is_growing) {
		weigh(e, s, rs, dev, &v, &f);
	} else if (slot->incident) {
		f.confidence = slot->incident->last.confidence;
		f.doubts = slot->incident->last.doubts;
	}
	f.is_above = f.is_above && f.confidence >= rs->rule->min_confidence &&
		     is_urgent(rs->rule, dev, &f);
	incident_update(e, s, slot, rs->rule->for_ns, &f, o);

	if (slot->incident && slot->incident->state == INCIDENT_FIRING && !was_firing) {
		struct incident *inc = slot->incident;

		inc->leak_began_ns = began * scale->epoch_ns;
		inc->leak_older = ring->older;
		if (inc->leak_began_ns > 0)
			(void)sat_add(&inc->leak_older,
				      leak_between(ring, scale, 0, inc->leak_began_ns / scale->epoch_ns - 1));
	}
}

/* At its end a process has shown all there will ever be: then more likely than not is enough. */
#define EXIT_CONFIDENCE 0.5

void leak_exit(struct engine *e, struct process *p, const struct occasion *o)
{
	const struct subject s = { .p = p };
	struct process_watch *w = p->watch;

	if (w->has_suspects)
		leak_settle_suspects(e, p, o->time_ns);
	for (size_t i = 0; i < w->slots_len; i++) {
		struct slot *slot = &w->slots[i];
		struct rule_state *rs = slot->rs;
		struct finding f = FINDING_INIT;
		struct leak_verdict v = { 0 };
		const struct device *dev;

		/* A rule that does not ask how sure it is has spoken already, or had no reason to. */
		if (rs->scale < 0 || rs->rule->scope != SCOPE_PROCESS || rs->rule->min_confidence <= EXIT_CONFIDENCE ||
		    slot->is_waiting || !w->rings[rs->scale] || is_paused(e, p, rs, o->time_ns) ||
		    (slot->incident && slot->incident->state != INCIDENT_PENDING))
			continue;
		dev = device_of(p, NULL, e->scales[rs->scale].classes);
		f.limit = min_growth(rs->rule, dev);
		if (judge_process(e, p, rs, w->rings[rs->scale], f.limit, &(struct question){ .epoch = rs->leak_epoch },
				  MAX(slot->group, 1u), &v) < 0)
			e->no_memory++;
		if (!v.is_growing)
			continue;
		f.unit = VALUE_BYTES;
		f.group = v.group;
		f.growth_per_hour = leak_growth_per_hour(&v);
		weigh(e, &s, rs, dev, &v, &f);
		f.is_above = f.confidence >= EXIT_CONFIDENCE && is_urgent(rs->rule, dev, &f);
		(void)measure_growth(w->rings[rs->scale], &e->scales[rs->scale], &v, rs->leak_epoch, &f);
		f.leaked_bytes = f.value;
		incident_update(e, &s, slot, 0, &f, o);
	}
}

static struct slot *site_slot(struct engine *e, struct site *site, struct rule_state *rs, bool create)
{
	struct site_watch *w = site->watch;
	struct slot *slots;

	for (size_t i = 0; i < w->slots_len; i++) {
		if (w->slots[i].rs == rs)
			return &w->slots[i];
	}
	if (!create)
		return NULL;
	slots = realloc(w->slots, (w->slots_len + 1) * sizeof(*slots));
	if (!slots) {
		e->no_memory++;
		return NULL;
	}
	w->slots = slots;
	slots[w->slots_len] = (struct slot){ .rs = rs };
	slots_link(slots, ++w->slots_len);
	return &slots[w->slots_len - 1];
}

static void tick_sites(struct engine *e, struct process *p, struct rule_state *rs, const struct question *due,
		       const struct occasion *o)
{
	struct subject s = { .p = p };
	size_t iter = 0;

	while ((s.site = process_next_site(p, &iter))) {
		struct leak_ring *ring = s.site->watch ? s.site->watch->rings[rs->scale] : NULL;
		struct slot *slot;
		bool may_grow;

		if (!ring)
			continue;
		may_grow = due->passed > 0 && ring->window > 0 && ring->window >= rs->rule->min_growth_bytes;
		slot = site_slot(e, s.site, rs, may_grow);
		if (!slot)
			continue;
		if (due->passed > 0)
			judge(e, &s, slot, ring, due, o);
		else
			stand_by(e, &s, slot, o);
	}
}

/* After a loss the ages of blocks are not to be trusted until a whole window has been seen. */
static bool is_paused(const struct engine *e, const struct process *p, const struct rule_state *rs, uint64_t now_ns)
{
	const struct leak_scale *scale = &e->scales[rs->scale];
	uint64_t since = p->watch->exact_since_ns;

	return p->watch->is_lost || p->is_rebuilding ||
	       (since > 0 && sat_diff(watch_leak_time(e, now_ns), since) < scale->epoch_ns * scale->epochs);
}

static void forget_streaks(struct process *p, struct slot *slot)
{
	struct site *s;
	size_t iter = 0;

	slot->streak = 0;
	if (slot->rs->rule->scope != SCOPE_STACK)
		return;
	while ((s = process_next_site(p, &iter))) {
		for (size_t i = 0; s->watch && i < s->watch->slots_len; i++) {
			if (s->watch->slots[i].rs == slot->rs)
				s->watch->slots[i].streak = 0;
		}
	}
}

/* Epochs of the rule have ended, or between two of them. */
static void tick_rule(struct engine *e, struct process *p, struct slot *slot, const struct question *due,
		      const struct occasion *o)
{
	const struct subject s = { .p = p };
	struct process_watch *w = p->watch;
	struct rule_state *rs = slot->rs;

	if (is_paused(e, p, rs, o->time_ns)) {
		if (due->passed > 0)
			forget_streaks(p, slot);
		return;
	}
	if (due->passed > 0)
		leak_prefetch(e, p, rs->scale, due->epoch);
	if (rs->rule->scope == SCOPE_STACK)
		tick_sites(e, p, rs, due, o);
	else if (due->passed > 0 && (slot->incident || slot->streak || w->rings[rs->scale]->window > 0 ||
				     w->untold[rs->scale]))
		judge(e, &s, slot, w->rings[rs->scale], due, o);
	else
		stand_by(e, &s, slot, o);
}

void leak_tick(struct engine *e, struct process *p, uint32_t delay, const struct occasion *o)
{
	struct process_watch *w = p->watch;
	uint64_t now_ns = delayed(e->leak_clock.now_ns, delay);
	bool may_due = may_be_due(e, p, delay);

	if (w->has_suspects && (may_due || w->incidents > 0))
		leak_settle_suspects(e, p, o->time_ns);
	for (size_t i = 0; i < w->slots_len && (may_due || w->incidents > 0); i++) {
		struct slot *slot = &w->slots[i];
		struct rule_state *rs = slot->rs;
		struct question due = { 0 };

		if (rs->scale < 0 || slot->is_waiting || !w->rings[rs->scale])
			continue;
		if (may_due)
			due.passed = epochs_passed(e, p, rs, now_ns, &due.epoch);
		/* Without an incident there is nothing to do between two epochs. */
		if (due.passed > 0 || rs->incidents)
			tick_rule(e, p, slot, &due, o);
	}
	w->leak_ns = MAX(w->leak_ns, now_ns);
}
