/* SPDX-License-Identifier: MIT */
/* What leak rules are told: each block that comes or goes, by the epoch in which it was born. */
#include <errno.h>
#include <stdlib.h>

#include "model/saturate.h"
#include "rule/watch.h"

/* Blocks of a site that may be one tensor, made anew and larger again and again: the old, the new, and parts of theirs. */
#define REMADE_BLOCKS_MAX 4

static struct leak_ring *ring_of(struct leak_ring **rings, const struct leak_scale *scale, size_t i, uint64_t now_ns,
				 uint64_t before_bytes)
{
	if (!rings[i])
		rings[i] = leak_ring_new(scale, now_ns, before_bytes);
	return rings[i];
}

/* Rings are large and of several scales: their memory is asked for together, not waited for one by one. */
static void book_prefetch(const struct engine *e, const struct process *p, const struct site *s, uint64_t birth_ns,
			  uint64_t ret_epochs[WATCH_SCALES_MAX])
{
	for (size_t i = 0; i < e->scales_len; i++) {
		__builtin_prefetch(p->watch->rings[i], 1);
		if (s->watch)
			__builtin_prefetch(s->watch->rings[i], 1);
	}
	for (size_t i = 0; i < e->scales_len; i++) {
		const struct leak_scale *scale = &e->scales[i];

		ret_epochs[i] = birth_ns / scale->epoch_ns;
		if (p->watch->rings[i])
			leak_ring_prefetch_slot(p->watch->rings[i], scale, ret_epochs[i]);
		if (s->watch && s->watch->rings[i])
			leak_ring_prefetch_slot(s->watch->rings[i], scale, ret_epochs[i]);
	}
}

static int book_alloc(struct engine *e, struct process *p, const struct change *c, size_t i, uint64_t birth_ns,
		      uint64_t epoch)
{
	const struct leak_scale *scale = &e->scales[i];
	struct site *s = c->site;
	struct leak_ring *ring;
	bool is_new;

	/* A ring that begins late takes what was there before as old. */
	ring = ring_of(p->watch->rings, scale, i, birth_ns, sat_diff(sat_sum(p->live, scale->classes), c->bytes));
	if (!ring)
		return -ENOMEM;
	leak_ring_add_in(ring, scale, birth_ns, epoch, c->bytes);

	if (!s->watch && !(s->watch = calloc(1, sizeof(*s->watch))))
		return -ENOMEM;
	is_new = !s->watch->rings[i];
	ring = ring_of(s->watch->rings, scale, i, birth_ns, sat_diff(site_live_bytes(s, scale->classes), c->site_bytes));
	if (!ring)
		return -ENOMEM;
	if (is_new || s->blocks > REMADE_BLOCKS_MAX)
		leak_ring_set_remade(ring, s->blocks <= REMADE_BLOCKS_MAX);
	leak_ring_add_in(ring, scale, birth_ns, epoch, c->site_bytes);
	return 0;
}

void leak_book(struct engine *e, struct process *p, const struct change *c, uint64_t birth_ns)
{
	uint64_t birth = watch_leak_time(e, birth_ns), now = watch_leak_time(e, e->now_ns), epochs[WATCH_SCALES_MAX];

	if (!c->site)
		return;
	book_prefetch(e, p, c->site, birth, epochs);
	if (c->is_free && e->scales_len > 0 && c->site->watch)
		leak_lives_add(&c->site->watch->lives, now, sat_diff(now, birth), c->site_bytes);
	for (size_t i = 0; i < e->scales_len; i++) {
		const struct leak_scale *scale = &e->scales[i];
		uint64_t epoch = epochs[i];

		if (!(scale->classes & (1u << c->class)))
			continue;
		if (!c->is_free) {
			if (book_alloc(e, p, c, i, birth, epoch) < 0)
				e->no_memory++;
			continue;
		}
		if (p->watch->rings[i])
			leak_ring_sub_in(p->watch->rings[i], scale, birth, epoch, c->bytes);
		if (c->site->watch && c->site->watch->rings[i])
			leak_ring_sub_in(c->site->watch->rings[i], scale, birth, epoch, c->site_bytes);
		if (c->other_bytes && p->other.watch && p->other.watch->rings[i])
			leak_ring_sub_in(p->other.watch->rings[i], scale, birth, epoch, c->other_bytes);
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
