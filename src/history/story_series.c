/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "history/story_private.h"

static void join(struct story_point *into, const struct story_point *later)
{
	into->usec = later->usec;
	into->live = later->live;
	into->low = MIN(into->low, later->low);
	into->high = MAX(into->high, later->high);
}

/* Joins what lies in one of max / 2 equal parts of the series' time, so that it is told evenly whatever its rate was. The
 * first point stays alone: it tells where the series begins. */
static void thin(struct telling *t, struct story_series *s, size_t max)
{
	uint64_t first = s->points[0].usec, span = s->points[s->len - 1].usec - first;
	uint64_t part = span / MAX(max / 2 - 1, (size_t)1) + 1, part_at = UINT64_MAX;
	size_t kept = 1;

	for (size_t i = 1; i < s->len; i++) {
		uint64_t at = (s->points[i].usec - first) / part;

		if (at == part_at)
			join(&s->points[kept - 1], &s->points[i]);
		else
			s->points[kept++] = s->points[i];
		part_at = at;
	}
	t->points -= s->len - kept;
	s->len = kept;
}

static void thin_when_over(struct telling *t, struct story_series *s, size_t max)
{
	if (s->len > max)
		thin(t, s, max);
}

/* Too many series for all of them to be told finely. */
static void thin_all(struct telling *t)
{
	while (t->points >= TELLING_POINTS_MAX && t->points_cap > 8) {
		t->points_cap /= 2;
		for (size_t i = 0; i < t->devices_len; i++)
			thin_when_over(t, &t->devices[i]->used.s, t->points_cap);
		for (size_t i = 0; i < t->procs_len; i++)
			for (size_t k = 0; k < t->procs[i]->held_len; k++)
				thin_when_over(t, &t->procs[i]->held[k]->series.s, t->points_cap);
	}
}

static int push(struct telling *t, struct story_series *s, const struct story_point *p)
{
	if (s->len >= t->points_cap)
		thin(t, s, t->points_cap);
	if (t->points >= TELLING_POINTS_MAX)
		thin_all(t);
	if (PUSH(s->points, s->len, s->cap, *p) < 0)
		return -ENOMEM;
	t->points++;
	return 0;
}

int series_add(struct telling *t, struct series *series, uint64_t usec, uint64_t low, uint64_t high, uint64_t live)
{
	struct story_series *s = &series->s;
	struct story_point p = { .usec = usec, .low = MIN(low, live), .high = MAX(high, live), .live = live };

	if (s->len > 0 && usec <= s->points[s->len - 1].usec) {
		p.usec = s->points[s->len - 1].usec;
		join(&s->points[s->len - 1], &p);
		return 0;
	}
	return push(t, s, &p);
}

void series_peak(struct series *s, uint64_t usec, uint64_t bytes)
{
	if (s->s.peak_usec != 0 && bytes <= s->s.peak_bytes)
		return;
	s->s.peak_bytes = bytes;
	s->s.peak_usec = usec;
}

int series_insert(struct telling *t, struct series *series, uint64_t usec, uint64_t bytes)
{
	struct story_series *s = &series->s;
	size_t at = s->len;
	struct story_point p = { .usec = usec, .low = bytes, .high = bytes, .live = bytes };
	int r;

	while (at > 0 && s->points[at - 1].usec >= usec)
		at--;
	if (at < s->len) {
		struct story_point *next = &s->points[at];

		next->high = MAX(next->high, bytes);
		next->low = MIN(next->low, bytes);
		if (next->usec == usec)
			return 0;
		p.low = MIN(next->low, bytes);
	}
	/* Room first: it may join neighbours, after which the place is another one. */
	r = push(t, s, &p);
	if (r < 0)
		return r;
	for (at = s->len - 1; at > 0 && s->points[at - 1].usec >= usec; at--)
		s->points[at] = s->points[at - 1];
	s->points[at] = p;
	return 0;
}

bool series_has_before(const struct telling *t, const struct series *s)
{
	return s->before_usec != 0 && add_sat(s->before_usec, STORY_LOOK_BACK_USEC) >= t->from;
}

int series_open(struct telling *t, struct series *s, bool is_carried)
{
	int r;

	if (s->is_open)
		return 0;
	s->is_open = true;
	if (!is_carried || !series_has_before(t, s))
		return 0;
	r = series_add(t, s, t->from, s->before, s->before, s->before);
	series_peak(s, t->from, s->before);
	return r;
}

void series_done(struct telling *t, struct series *s)
{
	t->points -= s->s.len;
	free(s->s.points);
	s->s = (struct story_series){};
}
