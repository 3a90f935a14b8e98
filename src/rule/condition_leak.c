/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/saturate.h"
#include "rule/leak_confidence.h"
#include "rule/watch.h"

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

	/* A ring that begins late takes what was there before as old. */
	ring = ring_of(p->watch->rings, scale, i, birth_ns, sat_diff(sat_sum(p->live, scale->classes), c->bytes));
	if (!ring)
		return -ENOMEM;
	leak_ring_add(ring, scale, birth_ns, c->bytes);

	if (!s->watch && !(s->watch = calloc(1, sizeof(*s->watch))))
		return -ENOMEM;
	ring = ring_of(s->watch->rings, scale, i, birth_ns, sat_diff(site_live_bytes(s, scale->classes), c->site_bytes));
	if (!ring)
		return -ENOMEM;
	leak_ring_add(ring, scale, birth_ns, c->site_bytes);
	return 0;
}

void leak_book(struct engine *e, struct process *p, const struct change *c, uint64_t birth_ns)
{
	uint64_t birth = watch_leak_time(e, birth_ns);

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
			       .is_inexact = !s->p->exact };

	if (dev && dev->total_bytes != UINT64_MAX && dev->total_bytes > 0)
		c.device_share = (double)v->mature_bytes / (double)dev->total_bytes;
	if (s->site) {
		leak_suspect(s->p, s->site, (uint32_t)rs->scale);
		c.bound_share = leak_bound_share(e, s->site);
	} else {
		struct leak_share top[REPORT_SITES_MAX];
		uint64_t total;
		size_t len = leak_top_sites(e, rs, s->p, v->group, top, &total);

		for (size_t i = 0; i < len; i++)
			leak_suspect(s->p, top[i].site, (uint32_t)rs->scale);
		if (len > 0 && total > 0) {
			c.top_share = (double)top[0].bytes / (double)total;
			c.bound_share = leak_bound_share(e, top[0].site);
		}
	}
	f->confidence = leak_confidence(&c, &f->doubts);
}

/* Would the device be full so soon? Yes where nobody knows. */
static bool is_urgent(const struct rule *r, const struct device *dev, uint64_t growth_per_hour)
{
	uint64_t free_bytes = dev ? device_free_bytes(dev) : UINT64_MAX;

	if (r->full_in_ns == 0 || free_bytes == UINT64_MAX)
		return true;
	return (double)free_bytes * 3600.0 * (double)NSEC_PER_SEC <= (double)growth_per_hour * (double)r->full_in_ns;
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
		leak_judge(ring, scale, rs->rule, min_bytes, rs->leak_epoch - back + 1, slot->group, &v);
		if (v.is_growing)
			slot->group = v.group;
		slot->streak = v.is_growing ? slot->streak + 1 : 0;
		slot->calm = v.is_growing ? 0 : slot->calm + 1;
	}
	/* It takes as many epochs to believe that it has stopped as it took to believe in it. */
	f.is_above = slot->streak >= for_epochs;
	f.is_below = slot->calm >= for_epochs || (!v.is_growing && v.is_flat);
	f.is_over = !v.is_growing && v.is_flat;
	/* From where on it grew about as much in each epoch, which may be longer than the window. */
	began = leak_began(scale, &v, rs->leak_epoch);
	f.value = MAX(v.mature_bytes, leak_between(ring, scale, began, sat_diff(rs->leak_epoch, v.group + 1)));
	f.age_ns = (rs->leak_epoch - began) * scale->epoch_ns;
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
		     is_urgent(rs->rule, dev, f.growth_per_hour);
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
		else if (rs->is_leak_due && (slot->incident || slot->streak || w->rings[rs->scale]->window > 0))
			judge(e, &s, slot, w->rings[rs->scale], o);
		else
			stand_by(e, &s, slot, o);
	}
}
