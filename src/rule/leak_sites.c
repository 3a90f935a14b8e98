/* SPDX-License-Identifier: MIT */
/*
 * Which call sites the growth of a process comes from; and where sites have stopped growing. A cache that fills evenly
 * cannot be told from a leak while it fills, but programs run again and again: what stopped at so many bytes in one run,
 * or one process, is expected to reach as many in the next.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "model/saturate.h"
#include "rule/leak_bound.h"
#include "rule/watch.h"

static uint64_t site_id(const struct site *s)
{
	const struct frames *f = s->stack ? stack_frames(s->stack) : NULL;

	return f ? f->id : 0;
}

/* It has stopped before at more than it holds now: it will be less than that again. */
#define BOUND_SLACK 1.2

static double late_frees(struct engine *e, struct site *s, int scale, uint64_t epoch, uint32_t group)
{
	const struct leak_scale *ls = &e->scales[scale];

	return leak_lives_beyond(&s->watch->lives, epoch * ls->epoch_ns, leak_late_age(ls, group));
}

bool leak_site_counts(struct engine *e, struct site *s, int scale, uint64_t epoch, uint32_t group)
{
	struct leak_ring *ring = s->watch ? s->watch->rings[scale] : NULL;
	double share;

	if (!ring)
		return false;
	leak_ring_advance(ring, &e->scales[scale], epoch);
	if (ring->window == 0 ||
	    leak_is_refuted(ring, &e->scales[scale], epoch, group, late_frees(e, s, scale, epoch, group)))
		return false;
	share = leak_bound_share(e, s);
	return share == 0 || share >= BOUND_SLACK;
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
		if (!leak_site_counts(e, s, scale, epoch, group))
			continue;
		leak_ring_sum(sum, s->watch->rings[scale], &e->scales[scale]);
		ret_frees->late += late_frees(e, s, scale, epoch, group);
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
		      struct leak_share ret[REPORT_SITES_MAX], uint64_t *ret_total)
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

		if (!ring || !leak_site_counts(e, s, rs->scale, rs->leak_epoch, group))
			continue;
		bytes = leak_mature(ring, &e->scales[rs->scale], rs->leak_epoch, group);
		if (bytes == 0)
			continue;
		(void)sat_add(&total, bytes);
		if (len == REPORT_SITES_MAX && bytes <= ret[len - 1].bytes)
			continue;
		at = len < REPORT_SITES_MAX ? len++ : len - 1;
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
	struct bound *b = bound_find(e, site_id(s));

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

void leak_suspect(struct process *p, struct site *s, uint32_t scale)
{
	if (!s->watch || s->is_other)
		return;
	s->watch->suspected |= 1u << scale;
	p->watch->has_suspects = true;
}

/* Nothing of what was born in the newer half of the window is left: it has stopped. */
static bool has_stopped(struct leak_ring *ring, const struct leak_scale *scale, uint64_t epoch)
{
	uint64_t half = MAX(scale->epochs / 2, 2u);

	leak_ring_advance(ring, scale, epoch);
	return leak_between(ring, scale, sat_diff(epoch, half), epoch) == 0;
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
