/* SPDX-License-Identifier: MIT */
/*
 * Which call sites the growth of a process comes from; and where sites have stopped growing. A cache that fills evenly
 * cannot be told from a leak while it fills, but programs run again and again: what stopped at so many bytes in one run,
 * or one process, is expected to reach as many in the next.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "model/saturate.h"
#include "rule/leak_bound.h"
#include "rule/leak_confidence.h"
#include "rule/watch.h"

static uint64_t site_id(const struct site *s)
{
	const struct frames *f = s->stack ? stack_frames(s->stack) : NULL;

	return f ? f->id : 0;
}

#define PREFETCH_MAX 64

/* Has it anything young? */
static bool is_young(struct engine *e, struct site *s, int scale, uint64_t epoch)
{
	struct leak_ring *ring = s->watch ? s->watch->rings[scale] : NULL;

	if (!ring)
		return false;
	leak_ring_advance(ring, &e->scales[scale], epoch);
	return ring->window > 0;
}

/* Of one that has something young: neither do late frees refute it, nor has it stopped at more before. */
static bool may_leak(struct engine *e, struct site *s, int scale, uint64_t epoch, uint32_t group)
{
	const struct leak_scale *ls = &e->scales[scale];

	return !leak_is_refuted(s->watch->rings[scale], ls, epoch, group,
				leak_lives_late(&s->watch->lives, ls, epoch, group)) &&
	       !leak_is_bounded(leak_bound_share(e, s));
}

/* May growth of the site be a leak at that level? Not where late frees refute it, nor below where it stopped before. */
static bool site_counts(struct engine *e, struct site *s, int scale, uint64_t epoch, uint32_t group)
{
	return is_young(e, s, scale, epoch) && may_leak(e, s, scale, epoch, group);
}

/* The rings of many sites lie all over the memory: they are asked for together, not waited for one by one. */
void leak_prefetch(const struct engine *e, const struct process *p, int scale, uint64_t epoch)
{
	const struct leak_scale *ls = &e->scales[scale];
	const uint32_t slot = (uint32_t)(epoch % ls->slots);

	for (size_t i = 0; i < MIN(p->sites_len, (size_t)PREFETCH_MAX); i++) {
		const struct site_watch *w = p->sites[i]->watch;

		if (!w || !w->rings[scale])
			continue;
		__builtin_prefetch(&w->lives);
		__builtin_prefetch(&w->lives.since_ns);
		leak_ring_prefetch(w->rings[scale], ls, slot);
	}
}

static int young_reserve(struct leak_young *y, size_t len)
{
	size_t cap = MAX(len, y->cap * 2);
	struct leak_ring **rings;
	struct site **sites;

	if (len <= y->cap)
		return 0;
	sites = realloc(y->sites, cap * sizeof(struct site *));
	if (sites)
		y->sites = sites;
	rings = sites ? realloc(y->rings, cap * sizeof(struct leak_ring *)) : NULL;
	if (!rings)
		return -ENOMEM;
	y->rings = rings;
	y->cap = cap;
	return 0;
}

int leak_find_young(struct engine *e, const struct process *p, int scale, uint64_t epoch)
{
	struct leak_young *y = &e->leak_young;
	size_t iter = 0;
	struct site *s;
	int r;

	y->len = 0;
	while ((s = process_next_site(p, &iter))) {
		if (!is_young(e, s, scale, epoch))
			continue;
		/* And what no call shows. */
		r = young_reserve(y, y->len + 2);
		if (r < 0)
			return r;
		y->sites[y->len++] = s;
	}
	return young_reserve(y, y->len + 1);
}

bool leak_young_grow(struct engine *e, const struct process *p, const struct rule_state *rs, uint64_t min_bytes,
		     uint64_t epoch, uint32_t group)
{
	struct leak_young *y = &e->leak_young;
	const struct leak_scale *scale = &e->scales[rs->scale];
	struct leak_ring *untold = p->watch->untold[rs->scale];
	struct leak_rings rings = { .list = y->rings, .newest = rs->leak_epoch };
	struct leak_shape shape;
	size_t all;

	if (untold) {
		leak_ring_advance(untold, scale, rs->leak_epoch);
		y->rings[rings.len++] = untold;
	}
	for (size_t i = 0; i < y->len; i++)
		y->rings[rings.len++] = y->sites[i]->watch->rings[rs->scale];
	all = rings.len;
	/* No choice of them has more than all, of any epoch: where all have too little, that is an answer. */
	if (!leak_shape(&rings, scale, rs->rule, epoch, group, &shape) || shape.total < min_bytes)
		return false;
	rings.len = untold ? 1 : 0;
	for (size_t i = 0; i < y->len; i++) {
		if (may_leak(e, y->sites[i], rs->scale, rs->leak_epoch, group))
			y->rings[rings.len++] = y->sites[i]->watch->rings[rs->scale];
	}
	if (rings.len < all && !leak_shape(&rings, scale, rs->rule, epoch, group, &shape))
		return false;
	return leak_shape_grows(&shape, &rings, scale, rs->rule, min_bytes, epoch, group);
}

struct leak_ring *leak_sum_sites(struct engine *e, const struct process *p, int scale, uint64_t epoch, uint32_t group,
				 struct leak_frees *ret_frees)
{
	struct leak_ring *sum = leak_ring_new(&e->scales[scale], epoch * e->scales[scale].epoch_ns, 0);
	size_t iter = 0;
	struct site *s;

	if (!sum)
		return NULL;
	sum->origin_ns = UINT64_MAX;
	*ret_frees = (struct leak_frees){ 0 };
	while ((s = process_next_site(p, &iter))) {
		if (!site_counts(e, s, scale, epoch, group))
			continue;
		leak_ring_sum(sum, s->watch->rings[scale], &e->scales[scale]);
		ret_frees->late += leak_lives_late(&s->watch->lives, &e->scales[scale], epoch, group);
		ret_frees->all += leak_lives_beyond(&s->watch->lives, epoch * e->scales[scale].epoch_ns, 0);
	}
	if (p->watch->untold[scale]) {
		leak_ring_advance(p->watch->untold[scale], &e->scales[scale], epoch);
		leak_ring_sum(sum, p->watch->untold[scale], &e->scales[scale]);
	}
	if (sum->origin_ns == UINT64_MAX)
		sum->origin_ns = 0;
	return sum;
}

size_t leak_top_sites(struct engine *e, const struct rule_state *rs, const struct process *p, uint32_t group,
		      struct leak_share ret[REPORT_LEAK_SITES_MAX], uint64_t *ret_total)
{
	size_t iter = 0, len = 0;
	uint64_t total = 0;
	struct site *s;

	if (p->watch->untold[rs->scale]) {
		total = leak_mature(p->watch->untold[rs->scale], &e->scales[rs->scale], rs->leak_epoch, group);
		if (total > 0)
			ret[len++] = (struct leak_share){ .bytes = total };
	}
	while ((s = process_next_site(p, &iter))) {
		struct leak_ring *ring = s->watch ? s->watch->rings[rs->scale] : NULL;
		uint64_t bytes;
		size_t at;

		if (!ring || !site_counts(e, s, rs->scale, rs->leak_epoch, group))
			continue;
		bytes = leak_mature(ring, &e->scales[rs->scale], rs->leak_epoch, group);
		if (bytes == 0)
			continue;
		(void)sat_add(&total, bytes);
		if (len == REPORT_LEAK_SITES_MAX && bytes <= ret[len - 1].bytes)
			continue;
		at = len < REPORT_LEAK_SITES_MAX ? len++ : len - 1;
		for (; at > 0 && ret[at - 1].bytes < bytes; at--)
			ret[at] = ret[at - 1];
		ret[at] = (struct leak_share){ .site = s, .bytes = bytes };
	}
	*ret_total = total;
	return len;
}

static struct bound *bound_find(const struct engine *e, uint64_t id)
{
	return id ? map64_get(&e->bounds, id) : NULL;
}

double leak_bound_share(const struct engine *e, const struct site *s)
{
	struct bound *b = e->bounds.len > 0 ? bound_find(e, site_id(s)) : NULL;

	if (b)
		b->seen_ns = (int64_t)e->now_ns;
	return b && b->bytes > 0 ? (double)s->bytes / (double)b->bytes : 0;
}

/* The one that was seen longest ago makes room. */
static void bound_evict(struct engine *e)
{
	struct bound *oldest = NULL;
	size_t iter = 0;
	uint64_t id;
	void *value;

	while (map64_next(&e->bounds, &iter, &id, &value)) {
		struct bound *b = value;

		if (!oldest || b->seen_ns < oldest->seen_ns)
			oldest = b;
	}
	if (oldest) {
		(void)map64_remove(&e->bounds, oldest->id);
		free(oldest);
		e->bounds_evicted++;
	}
}

int leak_learn_bound(struct engine *e, uint64_t id, uint64_t bytes, uint64_t now_ns)
{
	struct bound *b = bound_find(e, id);

	if (id == 0 || bytes == 0)
		return 0;
	if (!b) {
		_cleanup_free_ struct bound *fresh = malloc(sizeof(*fresh));

		if (!fresh)
			return -ENOMEM;
		if (e->bounds.len >= LEAK_BOUNDS_MAX)
			bound_evict(e);
		*fresh = (struct bound){ .id = id };
		if (map64_put(&e->bounds, id, fresh) < 0)
			return -ENOMEM;
		b = TAKE_PTR(fresh);
	}
	b->bytes = MAX(b->bytes, bytes);
	b->seen_ns = (int64_t)now_ns;
	return 0;
}

void leak_bounds_done(struct engine *e)
{
	size_t iter = 0;
	void *value;

	while (map64_next(&e->bounds, &iter, NULL, &value))
		free(value);
	map64_done(&e->bounds);
}

void leak_young_done(struct leak_young *y)
{
	free(y->sites);
	free(y->rings);
}

void leak_suspect(struct process *p, struct site *s, uint32_t scale)
{
	if (!s->watch || s->is_other)
		return;
	s->watch->suspected |= 1u << scale;
	p->watch->has_suspects = true;
}

/* Nothing has been kept for half a window, nor for twice as long as ever lay between two times before: growth in rare
 * steps, or by many sites in turn, does not stop after each of them. */
static bool has_stopped(struct leak_ring *ring, const struct leak_scale *scale, uint64_t epoch)
{
	uint64_t half = MAX(scale->epochs / 2, 2u), newest = 0, last = 0, gap = 0;

	leak_ring_advance(ring, scale, epoch);
	if (leak_between(ring, scale, sat_diff(epoch, half), epoch) > 0)
		return false;
	for (uint64_t back = half + 1; back < scale->slots && back <= epoch; back++) {
		if (leak_between(ring, scale, epoch - back, epoch - back) == 0)
			continue;
		if (newest == 0)
			newest = back;
		else
			gap = MAX(gap, back - last);
		last = back;
	}
	return newest == 0 || newest > 2 * gap;
}

void leak_settle_suspects(struct engine *e, struct process *p, uint64_t now_ns)
{
	bool is_any = false;
	struct site *s;
	size_t iter = 0;

	while ((s = process_next_site(p, &iter))) {
		for (uint32_t i = 0; s->watch && s->watch->suspected >> i; i++) {
			struct leak_ring *ring = s->watch->rings[i];

			if (!(s->watch->suspected & (1u << i)) || !ring ||
			    !has_stopped(ring, &e->scales[i], watch_leak_time(e, now_ns) / e->scales[i].epoch_ns))
				continue;
			s->watch->suspected &= ~(1u << i);
			if (leak_learn_bound(e, site_id(s), s->bytes, now_ns) < 0)
				e->no_memory++;
		}
		is_any = is_any || (s->watch && s->watch->suspected);
	}
	p->watch->has_suspects = is_any;
}
