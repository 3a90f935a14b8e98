/* SPDX-License-Identifier: MIT */
#include "rule/leak.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "model/saturate.h"

/* Counters a ring may have before the coarse levels are given up: 4.8 KiB for each site of each scale. */
#define LEAK_SLOTS_MAX 300
#define LEAK_SLOTS_BACK_MAX 100
/* Parts that a trend is sought in: it takes their square. */
#define TREND_PARTS_MAX 24u
/* More freed late, as a share of what is kept, and what is kept may live long and no more. */
#define LATE_MAX 0.5

void leak_scale_init(struct leak_scale *s, const struct rule *r)
{
	*s = (struct leak_scale){ .epoch_ns = r->epoch_ns ? r->epoch_ns : 1, .epochs = r->epochs ? r->epochs : 1,
				  .classes = r->classes, .max_group = 4 };
	while (s->max_group > 1 && s->max_group * (s->epochs + 1) + 1 > LEAK_SLOTS_MAX)
		s->max_group /= 2;
	/* The judged epochs, the group of the newest ones that is not judged, and the current one. */
	s->slots = s->max_group * (s->epochs + 1) + 1;
	/* As many epochs again, to see how the growth came about, where that is not too much. */
	if (s->slots + s->max_group * s->epochs <= LEAK_SLOTS_BACK_MAX)
		s->slots += s->max_group * s->epochs;
}

struct leak_ring *leak_ring_new(const struct leak_scale *s, uint64_t now_ns, uint64_t bytes)
{
	struct leak_ring *ring = calloc(1, sizeof(*ring) + 2 * (size_t)s->slots * sizeof(ring->slot[0]));

	if (!ring)
		return NULL;
	for (uint32_t i = 0; i < s->slots; i++)
		ring->slot[s->slots + i] = bytes;
	ring->newest = now_ns / s->epoch_ns;
	ring->older = bytes;
	ring->origin_ns = bytes ? now_ns : 0;
	return ring;
}

void leak_ring_clear(struct leak_ring *ring, const struct leak_scale *s)
{
	memset(ring->slot, 0, 2 * (size_t)s->slots * sizeof(ring->slot[0]));
	ring->origin_ns = ring->older = ring->window = 0;
}

static uint64_t *leak_history(struct leak_ring *ring, const struct leak_scale *s, uint64_t epoch)
{
	return &ring->slot[s->slots + epoch % s->slots];
}

static uint64_t history_of(const struct leak_ring *ring, const struct leak_scale *s, uint64_t epoch)
{
	return ring->slot[s->slots + epoch % s->slots];
}

void leak_ring_set_remade(struct leak_ring *ring, bool is_remade)
{
	ring->is_remade = is_remade;
}

/* What has been added in an epoch and is still there; ring->newest - epoch is less than slots. */
static uint64_t leak_born(const struct leak_ring *ring, const struct leak_scale *s, uint64_t epoch)
{
	if (!ring->is_remade)
		return ring->slot[epoch % s->slots];
	return epoch < ring->newest ? sat_diff(history_of(ring, s, epoch + 1), history_of(ring, s, epoch)) : 0;
}

uint64_t leak_late_age(const struct leak_scale *s, uint32_t group)
{
	uint64_t quarter = (uint64_t)s->epochs * group / 4;

	return MAX(quarter, 2u) * s->epoch_ns;
}

static void lives_forget(struct leak_lives *l, uint64_t now_ns)
{
	double passed = (double)sat_diff(now_ns, l->since_ns) / (double)NSEC_PER_SEC;

	/* Often enough for the youngest. */
	if (passed < LEAK_LIVES_MEMORY / 4.0)
		return;
	for (int i = 0; i < LEAK_LIVES; i++) {
		if (l->bytes[i] > 0)
			l->bytes[i] *= (float)exp2(-passed / LEAK_LIVES_MEMORY / (double)(UINT64_C(1) << i));
	}
	l->since_ns = now_ns;
}

static int lives_bucket(uint64_t age_ns)
{
	uint64_t sec = age_ns / NSEC_PER_SEC;
	int i = 0;

	while (sec > 1 && i < LEAK_LIVES - 1) {
		sec /= 2;
		i++;
	}
	return i;
}

void leak_lives_add(struct leak_lives *l, uint64_t now_ns, uint64_t age_ns, uint64_t bytes)
{
	lives_forget(l, now_ns);
	l->bytes[lives_bucket(age_ns)] += (float)bytes;
}

double leak_lives_beyond(struct leak_lives *l, uint64_t now_ns, uint64_t age_ns)
{
	double sum = 0;

	lives_forget(l, now_ns);
	/* The bucket that the age lies in is taken whole: what is a little younger counts as well. */
	for (int i = lives_bucket(age_ns); i < LEAK_LIVES; i++)
		sum += (double)l->bytes[i];
	return sum;
}

void leak_ring_advance(struct leak_ring *ring, const struct leak_scale *s, uint64_t epoch)
{
	if (epoch <= ring->newest)
		return;
	if (epoch - ring->newest >= s->slots) {
		(void)sat_add(&ring->older, ring->window);
		memset(ring->slot, 0, s->slots * sizeof(ring->slot[0]));
		ring->window = 0;
		for (uint32_t i = 0; i < s->slots; i++)
			*leak_history(ring, s, i) = ring->older;
		ring->newest = epoch;
		return;
	}
	while (ring->newest < epoch) {
		uint64_t young = ring->slot[ring->newest % s->slots];
		uint64_t *slot = &ring->slot[++ring->newest % s->slots], *history;

		(void)sat_sub(&ring->window, *slot);
		(void)sat_add(&ring->older, *slot);
		*slot = 0;
		history = leak_history(ring, s, ring->newest);
		*history = ring->older;
		(void)sat_add(history, ring->is_remade ? ring->window : sat_diff(ring->window, young));
	}
}

/* Slot of a birth, NULL when it is too old to be told apart. */
static uint64_t *leak_slot(struct leak_ring *ring, const struct leak_scale *s, uint64_t birth_ns)
{
	uint64_t epoch = birth_ns / s->epoch_ns;

	if (birth_ns < ring->origin_ns || ring->newest - epoch >= s->slots)
		return NULL;
	return &ring->slot[epoch % s->slots];
}

void leak_ring_add(struct leak_ring *ring, const struct leak_scale *s, uint64_t birth_ns, uint64_t bytes)
{
	uint64_t *slot;

	leak_ring_advance(ring, s, birth_ns / s->epoch_ns);
	slot = leak_slot(ring, s, birth_ns);
	if (!slot) {
		(void)sat_add(&ring->older, bytes);
		return;
	}
	/* The slots sum up to the window, so the window's ceiling is theirs. */
	*slot += sat_add(&ring->window, bytes);
}

void leak_ring_sub(struct leak_ring *ring, const struct leak_scale *s, uint64_t birth_ns, uint64_t bytes)
{
	uint64_t *slot;

	leak_ring_advance(ring, s, birth_ns / s->epoch_ns);
	slot = leak_slot(ring, s, birth_ns);
	if (slot) {
		uint64_t taken = sat_sub(slot, bytes);

		(void)sat_sub(&ring->window, taken);
		bytes -= taken;
	}
	bytes -= sat_sub(&ring->older, bytes);
	/* Not what was added at that time, then: but so much less is there, and the oldest says least of growth. */
	for (uint64_t i = 1; bytes > 0 && ring->window > 0 && i <= s->slots; i++) {
		uint64_t taken = sat_sub(&ring->slot[(ring->newest + i) % s->slots], bytes);

		(void)sat_sub(&ring->window, taken);
		bytes -= taken;
	}
}

void leak_ring_add_older(struct leak_ring *ring, const struct leak_scale *s, uint64_t bytes)
{
	(void)sat_add(&ring->older, bytes);
	for (uint32_t i = 0; i < s->slots; i++)
		(void)sat_add(leak_history(ring, s, i), bytes);
}

void leak_ring_align(struct leak_ring *a, struct leak_ring *b, const struct leak_scale *s)
{
	leak_ring_advance(a, s, b->newest);
	leak_ring_advance(b, s, a->newest);
}

void leak_ring_merge(struct leak_ring *ring, struct leak_ring *from, const struct leak_scale *s)
{
	leak_ring_align(ring, from, s);
	for (uint32_t i = 0; i < s->slots; i++) {
		ring->slot[i] += sat_add(&ring->window, from->slot[i]);
		(void)sat_add(leak_history(ring, s, i), *leak_history(from, s, i));
	}
	(void)sat_add(&ring->older, from->older);
	ring->is_remade = ring->is_remade && from->is_remade;
	/* A block that one had in older may be taken from a slot of the other's, and the reverse: the sum is right. */
	ring->origin_ns = MIN(ring->origin_ns, from->origin_ns);
}

void leak_ring_sum(struct leak_ring *sum, struct leak_ring *from, const struct leak_scale *s)
{
	sum->is_remade = false;
	for (uint64_t back = 0; back < s->slots && back <= sum->newest; back++) {
		uint64_t epoch = sum->newest - back;

		sum->slot[epoch % s->slots] += sat_add(&sum->window, leak_born(from, s, epoch));
		(void)sat_add(leak_history(sum, s, epoch), history_of(from, s, epoch));
	}
	sum->origin_ns = MIN(sum->origin_ns, from->origin_ns);
}

/* Bytes of the group-th part of the window, 0 = the newest that is judged. Epochs before the first are empty. */
static uint64_t leak_part(const struct leak_ring *ring, const struct leak_scale *s, uint64_t epoch, uint32_t group,
			  uint32_t part)
{
	uint64_t last = (uint64_t)group * (part + 1) + 1, sum = 0;

	for (uint64_t back = last; back < last + group; back++) {
		/* back epochs before the current one, which is not yet over. */
		if (back > epoch || ring->newest - (epoch - back) >= s->slots)
			break;
		sum += leak_born(ring, s, epoch - back);
	}
	return sum;
}

bool leak_is_refuted(const struct leak_ring *ring, const struct leak_scale *s, uint64_t epoch, uint32_t group, double late)
{
	double kept = 0;

	/* Of what is made anew each time, the age says nothing. */
	if (ring->is_remade || late <= 0)
		return false;
	for (uint32_t i = 0; i < s->epochs; i++)
		kept += (double)leak_part(ring, s, epoch, group, i);
	return late > LATE_MAX * kept;
}

/* The lowest that the history fell in a group of epochs, of which last is the newest. */
static uint64_t leak_trough(const struct leak_ring *ring, const struct leak_scale *s, uint64_t last, uint32_t group)
{
	uint64_t low = UINT64_MAX;

	for (uint64_t back = 0; back < group && back <= last; back++) {
		if (ring->newest - (last - back) < s->slots)
			low = MIN(low, history_of(ring, s, last - back));
	}
	/* So long ago that it is not known: nothing. */
	return low == UINT64_MAX ? 0 : low;
}

/* By how much the troughs have risen while the judged epochs went by. */
static uint64_t leak_rise(const struct leak_ring *ring, const struct leak_scale *s, uint64_t epoch, uint32_t group)
{
	uint64_t window = (uint64_t)group * s->epochs;

	return sat_diff(leak_trough(ring, s, epoch, group),
			epoch >= window ? leak_trough(ring, s, epoch - window, group) : 0);
}

static double ratio(double a, double b)
{
	return b > 0 ? a / b : a > 0 ? 1e6 : 0;
}

/* Parts that the ring still reaches at this level. */
static uint32_t leak_reach(const struct leak_ring *ring, const struct leak_scale *s, uint64_t epoch, uint32_t group)
{
	uint64_t slots = MIN((uint64_t)s->slots, epoch + 1);

	/* What was born before is in older, not in the slots. */
	if (ring->origin_ns / s->epoch_ns <= epoch)
		slots = MIN(slots, epoch - ring->origin_ns / s->epoch_ns + 1);
	return slots > (uint64_t)group + 1 ? (uint32_t)((slots - group - 1) / group) : 0;
}

/* Does each part hold less than the older ones? Kendall, "A new measure of rank correlation", Biometrika 30 (1938). */
static double leak_trend(const struct leak_ring *ring, const struct leak_scale *s, uint64_t epoch, uint32_t group,
			 uint32_t parts)
{
	int sum = 0, pairs = 0;

	for (uint32_t i = 0; i < parts; i++) {
		uint64_t newer = leak_part(ring, s, epoch, group, i);

		for (uint32_t k = i + 1; k < parts; k++) {
			uint64_t older = leak_part(ring, s, epoch, group, k);

			sum += (older > newer) - (older < newer);
			pairs++;
		}
	}
	return pairs ? (double)sum / pairs : 0;
}

static void leak_look_back(const struct leak_ring *ring, const struct leak_scale *s, uint64_t epoch, uint32_t group,
			   uint64_t total, struct leak_evidence *e)
{
	uint32_t reach = leak_reach(ring, s, epoch, group), run = 0;
	double mean = (double)total / s->epochs;

	e->before = -1;
	if (reach >= 2 * s->epochs) {
		uint64_t before = 0;

		for (uint32_t i = s->epochs; i < 2 * s->epochs; i++)
			before += leak_part(ring, s, epoch, group, i);
		e->before = ratio((double)before, (double)total);
	}
	while (run < reach) {
		double bytes = (double)leak_part(ring, s, epoch, group, run);

		if (bytes * 4 < mean || bytes > mean * 4)
			break;
		run++;
	}
	e->slowing = 1;
	if (run >= 4) {
		double newer = 0, older = 0;

		for (uint32_t i = 0; i < run / 2; i++) {
			newer += (double)leak_part(ring, s, epoch, group, i);
			older += (double)leak_part(ring, s, epoch, group, run - 1 - i);
		}
		e->slowing = ratio(older, newer);
	}
	e->trend = leak_trend(ring, s, epoch, group, MIN(reach, TREND_PARTS_MAX));
	e->is_run_cut = run == reach;
	/* And the newest ones, which are not judged. */
	e->run_ns = s->epoch_ns * group * (run + 1);
}

void leak_judge_level(const struct leak_ring *ring, const struct leak_scale *s, const struct rule *r, uint64_t min_bytes,
		      uint64_t epoch, uint32_t group, const struct leak_frees *frees, struct leak_verdict *v)
{
	uint64_t total = 0, newer = 0, older = 0, max = 0;
	uint32_t occupied = 0, half = s->epochs / 2, newest_occupied = UINT32_MAX;
	double rise;

	for (uint32_t i = 0; i < s->epochs; i++) {
		uint64_t bytes = leak_part(ring, s, epoch, group, i);

		total += bytes;
		if (bytes > max)
			max = bytes;
		if (i < half)
			newer += bytes;
		else if (i >= s->epochs - half)
			older += bytes;
		if (bytes > 0) {
			occupied++;
			if (newest_occupied == UINT32_MAX)
				newest_occupied = i;
		}
	}
	*v = (struct leak_verdict){ .group = group, .mature_bytes = total,
				    .span_ns = s->epoch_ns * group * s->epochs };
	v->is_flat = newest_occupied >= (s->epochs >= 8 ? s->epochs / 4 : 2);
	rise = (double)leak_rise(ring, s, epoch, group);
	v->is_growing = total > 0 && total >= min_bytes && occupied >= r->occupancy * s->epochs - 1e-9 &&
			newest_occupied < (s->epochs >= 16 ? s->epochs / 8 : 1) &&
			(double)newer >= r->keep_ratio * (double)older && max <= total - max &&
			rise >= r->keep_ratio * (double)total;
	if (!v->is_growing)
		return;
	v->evidence = (struct leak_evidence){
		.occupancy = (double)occupied / s->epochs,
		.steadiness = ratio((double)newer, (double)older),
		.rise = ratio(rise, (double)total),
		.biggest = ratio((double)max, (double)total),
		.late = ring->is_remade ? 0 : ratio(frees->late, (double)total),
		.freed = ring->is_remade ? 0 : ratio(frees->all, (double)total),
	};
	leak_look_back(ring, s, epoch, group, total, &v->evidence);
}

void leak_judge(struct leak_ring *ring, const struct leak_scale *s, const struct rule *r, struct leak_lives *lives,
		uint64_t min_bytes, uint64_t epoch, uint32_t group, struct leak_verdict *ret)
{
	const uint64_t now_ns = epoch * s->epoch_ns;
	struct leak_verdict v;

	leak_ring_advance(ring, s, epoch);
	if (group < 1 || group > s->max_group)
		group = 1;
	if (ring->window == 0 || ring->window < min_bytes) {
		*ret = (struct leak_verdict){ .is_flat = ring->window == 0, .group = group,
					      .mature_bytes = ring->window,
					      .span_ns = s->epoch_ns * group * s->epochs };
		return;
	}
	for (uint32_t g = 1; g <= s->max_group; g *= 2) {
		const struct leak_frees frees = {
			.late = lives ? leak_lives_beyond(lives, now_ns, leak_late_age(s, g)) : 0,
			.all = lives ? leak_lives_beyond(lives, now_ns, 0) : 0,
		};

		leak_judge_level(ring, s, r, min_bytes, epoch, g, &frees, &v);
		if (v.is_growing && !leak_is_refuted(ring, s, epoch, g, frees.late)) {
			*ret = v;
			return;
		}
	}
	leak_judge_level(ring, s, r, min_bytes, epoch, group, &(struct leak_frees){ 0 }, ret);
	ret->is_growing = false;
}

uint64_t leak_mature(struct leak_ring *ring, const struct leak_scale *s, uint64_t epoch, uint32_t group)
{
	uint64_t total = 0;

	leak_ring_advance(ring, s, epoch);
	for (uint32_t i = 0; i < s->epochs; i++)
		total += leak_part(ring, s, epoch, group, i);
	return total;
}

uint64_t leak_between(const struct leak_ring *ring, const struct leak_scale *s, uint64_t first, uint64_t last)
{
	uint64_t sum = 0, oldest = ring->newest >= s->slots ? ring->newest - s->slots + 1 : 0;

	for (uint64_t epoch = MAX(first, oldest); epoch <= MIN(last, ring->newest); epoch++)
		sum += leak_born(ring, s, epoch);
	return sum;
}

uint64_t leak_growth_per_hour(const struct leak_verdict *v)
{
	double per_hour;

	if (v->span_ns == 0)
		return 0;
	per_hour = (double)v->mature_bytes * 3600.0 * (double)NSEC_PER_SEC / (double)v->span_ns;
	return per_hour < 18e18 ? (uint64_t)per_hour : UINT64_MAX;
}
