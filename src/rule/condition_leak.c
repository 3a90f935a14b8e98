/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "model/saturate.h"
#include "rule/leak_confidence.h"
#include "rule/watch.h"

/* Blocks of a site that may be one tensor, made anew and larger again and again: the old, the new, and parts of theirs. */
#define REMADE_BLOCKS_MAX 4

static bool is_paused(const struct engine *e, const struct process *p, const struct rule_state *rs, uint64_t now_ns);

static struct leak_ring *ring_of(struct leak_ring **rings, const struct leak_scale *scale, size_t i, uint64_t now_ns,
				 uint64_t before_bytes)
{
	if (!rings[i])
		rings[i] = leak_ring_new(scale, now_ns, before_bytes);
	return rings[i];
}

static int book_alloc(struct engine *e, struct process *p, const struct change *c, size_t i, uint64_t birth_ns)
{
	const struct leak_scale *scale = &e->scales[i];
	struct site *s = c->site;
	struct leak_ring *ring;
	bool is_new;

	/* A ring that begins late takes what was there before as old. */
	ring = ring_of(p->watch->rings, scale, i, birth_ns, sat_diff(sat_sum(p->live, scale->classes), c->bytes));
	if (!ring)
		return -ENOMEM;
	leak_ring_add(ring, scale, birth_ns, c->bytes);

	if (!s->watch && !(s->watch = calloc(1, sizeof(*s->watch))))
		return -ENOMEM;
	is_new = !s->watch->rings[i];
	ring = ring_of(s->watch->rings, scale, i, birth_ns, sat_diff(site_live_bytes(s, scale->classes), c->site_bytes));
	if (!ring)
		return -ENOMEM;
	if (is_new || s->blocks > REMADE_BLOCKS_MAX)
		leak_ring_set_remade(ring, s->blocks <= REMADE_BLOCKS_MAX);
	leak_ring_add(ring, scale, birth_ns, c->site_bytes);
	return 0;
}

void leak_book(struct engine *e, struct process *p, const struct change *c, uint64_t birth_ns)
{
	uint64_t birth = watch_leak_time(e, birth_ns), now = watch_leak_time(e, e->now_ns);

	if (c->is_free && e->scales_len > 0 && c->site && c->site->watch)
		leak_lives_add(&c->site->watch->lives, now, sat_diff(now, birth), c->site_bytes);
	for (size_t i = 0; i < e->scales_len && c->site; i++) {
		const struct leak_scale *scale = &e->scales[i];

		if (!(scale->classes & (1u << c->class)))
			continue;
		if (!c->is_free) {
			if (book_alloc(e, p, c, i, birth) < 0)
				e->no_memory++;
			continue;
		}
		if (p->watch->rings[i])
			leak_ring_sub(p->watch->rings[i], scale, birth, c->bytes);
		if (c->site->watch && c->site->watch->rings[i])
			leak_ring_sub(c->site->watch->rings[i], scale, birth, c->site_bytes);
		if (c->other_bytes && p->other.watch && p->other.watch->rings[i])
			leak_ring_sub(p->other.watch->rings[i], scale, birth, c->other_bytes);
	}
}

void leak_book_untold(struct engine *e, struct process *p, uint64_t bytes, uint64_t time_ns)
{
	struct process_watch *w = p->watch;
	uint64_t now = watch_leak_time(e, time_ns), more = sat_diff(bytes, w->untold_bytes),
		 less = sat_diff(w->untold_bytes, bytes);

	for (size_t i = 0; i < e->scales_len; i++) {
		const struct leak_scale *scale = &e->scales[i];
		struct leak_ring *ring = w->untold[i];

		if (scale->classes != CLASS_DEVICE_MASK)
			continue;
		if (!ring) {
			/* What was there at first sight is of before. */
			ring = ring_of(w->untold, scale, i, now, bytes);
			if (!ring || !ring_of(w->rings, scale, i, now, sat_sum(p->live, scale->classes)))
				e->no_memory++;
			else
				leak_ring_set_remade(ring, true);
			continue;
		}
		if (more > 0)
			leak_ring_add(ring, scale, now, more);
		if (less > 0)
			leak_ring_sub(ring, scale, now, less);
	}
	w->untold_bytes = bytes;
}

void leak_forget(struct engine *e, struct process *p)
{
	struct site *s;
	size_t iter = 0;

	for (size_t i = 0; i < e->scales_len; i++) {
		if (p->watch->rings[i])
			leak_ring_clear(p->watch->rings[i], &e->scales[i]);
	}
	while ((s = process_next_site(p, &iter))) {
		for (size_t i = 0; s->watch && i < e->scales_len; i++) {
			if (s->watch->rings[i])
				leak_ring_clear(s->watch->rings[i], &e->scales[i]);
		}
	}
}

/* Bytes that a site without a ring brings along: of before the rule. */
static uint64_t unseen_bytes(const struct site *s, const struct leak_scale *scale)
{
	const uint32_t framework = 1u << CLASS_FRAMEWORK;
	uint64_t sum = scale->classes & framework ? s->framework_bytes : 0;
	/* Of the driver's classes a site keeps the sum alone. */
	(void)sat_add(&sum, scale->classes & ~framework && scale->classes & (1u << s->class) ? s->bytes : 0);
	return sum;
}

/* What the other site already had when an incident began is no growth of the two together. */
static void rebase_incidents(struct site_watch *w, const struct leak_scale *scale, int scale_index,
			     const struct site *other)
{
	const struct leak_ring *ring = other->watch->rings[scale_index];
	uint64_t older = ring ? ring->older : unseen_bytes(other, scale);

	for (size_t i = 0; i < w->slots_len; i++) {
		struct incident *inc = w->slots[i].incident;

		if (!inc || inc->state == INCIDENT_PENDING || w->slots[i].rs->scale != scale_index)
			continue;
		(void)sat_add(&inc->leak_older, older);
		if (ring && inc->leak_began_ns > 0)
			(void)sat_add(&inc->leak_older,
				      leak_between(ring, scale, 0, inc->leak_began_ns / scale->epoch_ns - 1));
	}
}

void leak_merge_rings(struct engine *e, struct site *to, struct site *from)
{
	for (size_t i = 0; i < e->scales_len; i++) {
		const struct leak_scale *scale = &e->scales[i];
		struct leak_ring **a = &to->watch->rings[i], **b = &from->watch->rings[i];

		if (*a && *b)
			leak_ring_align(*a, *b, scale);
		rebase_incidents(to->watch, scale, (int)i, from);
		rebase_incidents(from->watch, scale, (int)i, to);
		if (*a && *b) {
			leak_ring_merge(*a, *b, scale);
		} else if (*a) {
			leak_ring_add_older(*a, scale, unseen_bytes(from, scale));
		} else if (*b) {
			*a = TAKE_PTR(*b);
			leak_ring_add_older(*a, scale, unseen_bytes(to, scale));
		}
	}
}

bool leak_mark_due(struct engine *e, uint64_t now_ns)
{
	uint64_t leak_ns = watch_leak_time(e, now_ns);
	bool any = false;

	for (size_t i = 0; i < e->states_len; i++) {
		struct rule_state *rs = e->states[i];
		uint64_t epoch;

		rs->is_leak_due = false;
		if (rs->scale < 0)
			continue;
		epoch = leak_ns / e->scales[rs->scale].epoch_ns;
		rs->leak_passed = sat_diff(epoch, rs->leak_epoch);
		rs->is_leak_due = rs->leak_passed > 0;
		rs->leak_epoch = MAX(epoch, rs->leak_epoch);
		any = any || rs->is_leak_due;
	}
	return any;
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
			       .process_age_ns = sat_diff(e->now_ns, s->p->first_ns), .device_share = -1, .top_share = -1,
			       .full_in_ns = UINT64_MAX, .is_inexact = !s->p->exact };
	uint64_t sec;

	if (dev && dev->total_bytes != UINT64_MAX && dev->total_bytes > 0)
		c.device_share = (double)v->mature_bytes / (double)dev->total_bytes;
	if (s->site) {
		leak_suspect(s->p, s->site, (uint32_t)rs->scale);
		c.bound_share = leak_bound_share(e, s->site);
	} else {
		struct leak_share top[REPORT_SITES_MAX];
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
	sec = finding_full_in_sec(f, dev);
	if (sec != ABSENT_U64)
		c.full_in_ns = sec < UINT64_MAX / NSEC_PER_SEC ? sec * NSEC_PER_SEC : UINT64_MAX - 1;
	f->confidence = leak_confidence(&c, &f->doubts);
}

/* Would the device be full so soon? Yes where nobody knows. */
static bool is_urgent(const struct rule *r, const struct device *dev, const struct finding *f)
{
	uint64_t sec = finding_full_in_sec(f, dev);

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

/* A process's growth is that of the sites that nothing speaks against, taken together: each may be small. */
static int judge_process(struct engine *e, const struct process *p, const struct rule_state *rs, struct leak_ring *ring,
			 uint64_t min_bytes, uint64_t epoch, uint32_t group, struct leak_verdict *ret)
{
	const struct leak_scale *scale = &e->scales[rs->scale];
	struct leak_ring *untold = p->watch->untold[rs->scale];
	uint64_t young;
	struct leak_verdict v = { 0 }, fallback = { .group = group, .span_ns = scale->epoch_ns * group * scale->epochs };

	leak_ring_advance(ring, scale, epoch);
	young = ring->window;
	if (untold) {
		leak_ring_advance(untold, scale, epoch);
		(void)sat_add(&young, untold->window);
	}
	fallback.is_flat = young == 0;
	fallback.mature_bytes = young;
	for (uint32_t g = 1; young > 0 && young >= min_bytes && g <= scale->max_group; g *= 2) {
		struct leak_frees frees;
		_cleanup_free_ struct leak_ring *sum = leak_sum_sites(e, p, rs->scale, rs->leak_epoch, g, &frees);

		if (!sum)
			return -ENOMEM;
		leak_judge_level(sum, scale, rs->rule, min_bytes, epoch, g, &frees, &v);
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
		  const struct occasion *o)
{
	struct rule_state *rs = slot->rs;
	const struct leak_scale *scale = &e->scales[rs->scale];
	uint64_t now = watch_leak_time(e, o->time_ns), began, back, for_epochs = MAX(rs->rule->for_epochs, 1u);
	struct finding f = FINDING_INIT;
	struct leak_verdict v = { 0 };
	bool was_firing = slot->incident && slot->incident->state != INCIDENT_PENDING;
	const struct device *dev = device_of(s->p, s->site, scale->classes);
	uint64_t min_bytes = min_growth(rs->rule, dev);

	/* Several epochs may have ended since the last tick: each is judged by what is left of it now. */
	for (back = MIN(for_epochs, rs->leak_passed); back > 0; back--) {
		uint64_t epoch = rs->leak_epoch - back + 1;

		if (s->site)
			leak_judge(ring, scale, rs->rule, &s->site->watch->lives, min_bytes, epoch, slot->group, &v);
		else if (judge_process(e, s->p, rs, ring, min_bytes, epoch, MAX(slot->group, 1u), &v) < 0)
			e->no_memory++;
		if (v.is_growing)
			slot->group = v.group;
		slot->streak = v.is_growing ? slot->streak + 1 : 0;
		slot->calm = v.is_growing ? 0 : slot->calm + 1;
	}
	/* It takes as many epochs to believe that it has stopped as it took to believe in it. */
	f.is_above = slot->streak >= for_epochs;
	f.is_below = slot->calm >= for_epochs || (!v.is_growing && v.is_flat);
	f.is_over = !v.is_growing && v.is_flat;
	began = measure_growth(ring, scale, &v, rs->leak_epoch, &f);
	if (was_firing) {
		f.value = leaked_since(slot->incident, ring, scale, &v, rs->leak_epoch);
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
		if (judge_process(e, p, rs, w->rings[rs->scale], f.limit, rs->leak_epoch, MAX(slot->group, 1u), &v) < 0)
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

static void tick_sites(struct engine *e, struct process *p, struct rule_state *rs, const struct occasion *o)
{
	struct subject s = { .p = p };
	size_t iter = 0;

	while ((s.site = process_next_site(p, &iter))) {
		struct leak_ring *ring = s.site->watch ? s.site->watch->rings[rs->scale] : NULL;
		struct slot *slot;
		bool may_grow;

		if (!ring)
			continue;
		may_grow = rs->is_leak_due && ring->window > 0 && ring->window >= rs->rule->min_growth_bytes;
		slot = site_slot(e, s.site, rs, may_grow);
		if (!slot)
			continue;
		if (rs->is_leak_due)
			judge(e, &s, slot, ring, o);
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

void leak_tick(struct engine *e, struct process *p, const struct occasion *o)
{
	const struct subject s = { .p = p };
	struct process_watch *w = p->watch;

	if (w->has_suspects)
		leak_settle_suspects(e, p, o->time_ns);
	for (size_t i = 0; i < w->slots_len; i++) {
		struct slot *slot = &w->slots[i];
		struct rule_state *rs = slot->rs;

		if (rs->scale < 0 || slot->is_waiting || !w->rings[rs->scale] ||
		    !(rs->is_leak_due || w->incidents > 0))
			continue;
		if (is_paused(e, p, rs, o->time_ns)) {
			if (rs->is_leak_due)
				forget_streaks(p, slot);
			continue;
		}
		if (rs->rule->scope == SCOPE_STACK)
			tick_sites(e, p, rs, o);
		else if (rs->is_leak_due && (slot->incident || slot->streak || w->rings[rs->scale]->window > 0 ||
					     w->untold[rs->scale]))
			judge(e, &s, slot, w->rings[rs->scale], o);
		else
			stand_by(e, &s, slot, o);
	}
}
