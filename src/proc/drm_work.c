/* SPDX-License-Identifier: MIT */
/* What the engines have done between two readings. Pure. */
#include "proc/drm_read.h"

void drm_past_done(struct drm_past *p)
{
	drm_past_set(p, NULL, 0);
}

static int reading_compare(const void *a, const void *b)
{
	uint64_t x = ((const struct drm_reading *)a)->key, y = ((const struct drm_reading *)b)->key;

	return (x > y) - (x < y);
}

void drm_past_set(struct drm_past *p, struct drm_reading *list, size_t count)
{
	if (count > 0)
		qsort(list, count, sizeof(*list), reading_compare);
	free(p->list);
	*p = (struct drm_past){ .list = list, .count = count };
}

/* Of one engine, below 0 when not known. */
static double engine_share(const struct drm_engine *then, const struct drm_engine *now, uint64_t elapsed_ns)
{
	uint64_t total = elapsed_ns;

	if (then->busy == UINT64_MAX || now->busy == UINT64_MAX || (then->total == 0) != (now->total == 0))
		return -1;
	if (now->total != 0)
		total = now->total > then->total ? now->total - then->total : 0;
	if (total == 0)
		return -1;
	/* The kernel's counters may step back, to catch up later. */
	if (now->busy <= then->busy)
		return 0;
	return (double)(now->busy - then->busy) / (double)total / now->capacity;
}

uint32_t drm_work_percent(const struct drm_past *past, const struct drm_reading *now)
{
	const struct drm_reading *then;
	bool is_known = false;
	double sum = 0;

	if (past->count == 0)
		return UINT32_MAX;
	then = bsearch(now, past->list, past->count, sizeof(*past->list), reading_compare);
	if (!then || now->at_ns <= then->at_ns)
		return UINT32_MAX;
	for (size_t i = 0; i < DRM_ENGINES; i++) {
		double share = engine_share(&then->engines[i], &now->engines[i], now->at_ns - then->at_ns);

		is_known |= share >= 0;
		sum += MAX(share, 0);
	}
	return is_known ? (uint32_t)(MIN(sum, 1) * GPU_PERCENT_MAX + 0.5) : UINT32_MAX;
}
