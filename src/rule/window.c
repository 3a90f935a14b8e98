/* SPDX-License-Identifier: MIT */
#include "rule/window.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "model/saturate.h"

#define SLOTS (RATE_BUCKETS + 1)

struct rate_window *rate_window_new(uint64_t window_ns)
{
	struct rate_window *w = calloc(1, sizeof(*w));

	if (w)
		w->width_ns = MAX(window_ns / RATE_BUCKETS, UINT64_C(1));
	return w;
}

void rate_window_clear(struct rate_window *w)
{
	memset(w->bucket, 0, sizeof(w->bucket));
	w->sum = 0;
}

static void rate_window_advance(struct rate_window *w, uint64_t newest)
{
	if (newest <= w->newest)
		return;
	if (w->sum == 0 || newest - w->newest >= SLOTS) {
		rate_window_clear(w);
		w->newest = newest;
		return;
	}
	while (w->newest < newest) {
		uint64_t *bucket = &w->bucket[++w->newest % SLOTS];

		(void)sat_sub(&w->sum, *bucket);
		*bucket = 0;
	}
}

void rate_window_add(struct rate_window *w, uint64_t time_ns, uint64_t n)
{
	uint64_t number = time_ns / w->width_ns;

	rate_window_advance(w, number);
	if (w->newest - number >= SLOTS)
		return;
	w->bucket[number % SLOTS] += sat_add(&w->sum, n);
}

double rate_window_rate(struct rate_window *w, uint64_t now_ns)
{
	uint64_t number = now_ns / w->width_ns, covered;

	rate_window_advance(w, number);
	if (w->sum == 0)
		return 0;
	/* The full buckets and what has passed of the newest one. Events may be a moment ahead of now_ns. */
	covered = RATE_BUCKETS * w->width_ns;
	if (number == w->newest)
		covered += now_ns - number * w->width_ns;
	return (double)w->sum * (double)NSEC_PER_SEC / (double)covered;
}

struct count_window *count_window_new(uint32_t count)
{
	uint32_t cap = MIN(MAX(count, 1u), (uint32_t)COUNT_WINDOW_MAX);
	struct count_window *w = calloc(1, sizeof(*w) + cap * sizeof(w->time_ns[0]));

	if (w)
		w->cap = cap;
	return w;
}

bool count_window_add(struct count_window *w, uint64_t time_ns, uint64_t window_ns)
{
	w->time_ns[w->next] = time_ns;
	w->next = (w->next + 1) % w->cap;
	if (w->len < w->cap)
		w->len++;
	/* Full, the next to be overwritten is the oldest. */
	if (w->len < w->cap || w->time_ns[w->next] < sat_diff(time_ns, window_ns))
		return false;
	w->len = 0;
	return true;
}
