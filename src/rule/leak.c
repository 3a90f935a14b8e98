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
/* Counters of a cache line; as far back the memory is asked for ahead. */
#define LEAK_LINE 8
#define LEAK_PREFETCH 32

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
	ring->at = (uint32_t)(ring->newest % s->slots);
	ring->older = bytes;
	ring->origin_ns = bytes ? now_ns : 0;
	return ring;
}

void leak_ring_clear(struct leak_ring *ring, const struct leak_scale *s)
{
	memset(ring->slot, 0, 2 * (size_t)s->slots * sizeof(ring->slot[0]));
	ring->origin_ns = ring->older = ring->window = 0;
}

/* Slot of the epoch that is so many before the newest; fewer than slots. */
static uint32_t slot_of(const struct leak_ring *ring, const struct leak_scale *s, uint64_t back)
{
	uint32_t by = (uint32_t)back;

	return ring->at >= by ? ring->at - by : ring->at + s->slots - by;
}

static uint32_t slot_after(const struct leak_scale *s, uint32_t slot)
{
	return slot + 1 < s->slots ? slot + 1 : 0;
}

static uint64_t history_of(const struct leak_ring *ring, const struct leak_scale *s, uint64_t back)
{
	return ring->slot[s->slots + slot_of(ring, s, back)];
}

void leak_ring_set_remade(struct leak_ring *ring, bool is_remade)
{
	ring->is_remade = is_remade;
}

/* What has been added in an epoch, so many before the newest, and is still there. */
static uint64_t leak_born(const struct leak_ring *ring, const struct leak_scale *s, uint64_t back)
{
	uint32_t slot = slot_of(ring, s, back);

	if (!ring->is_remade)
		return ring->slot[slot];
	return back > 0 ? sat_diff(ring->slot[s->slots + slot_after(s, slot)], ring->slot[s->slots + slot]) : 0;
}

/* From what age on a free speaks against growth that is judged in groups of so many epochs. */
static uint64_t late_age(const struct leak_scale *s, uint32_t group)
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

double leak_lives_late(struct leak_lives *l, const struct leak_scale *s, uint64_t epoch, uint32_t group)
{
	return leak_lives_beyond(l, epoch * s->epoch_ns, late_age(s, group));
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
			ring->slot[s->slots + i] = ring->older;
		ring->newest = epoch;
		ring->at = (uint32_t)(epoch % s->slots);
		return;
	}
	while (ring->newest < epoch) {
		uint64_t young = ring->slot[ring->at], *slot, *history;

		ring->newest++;
		ring->at = slot_after(s, ring->at);
		slot = &ring->slot[ring->at];
		(void)sat_sub(&ring->window, *slot);
		(void)sat_add(&ring->older, *slot);
		*slot = 0;
		history = &ring->slot[s->slots + ring->at];
		*history = ring->older;
		(void)sat_add(history, ring->is_remade ? ring->window : sat_diff(ring->window, young));
	}
}

/* Slot of a birth, NULL when it is too old to be told apart. */
static uint64_t *leak_slot(struct leak_ring *ring, const struct leak_scale *s, uint64_t birth_ns, uint64_t epoch)
{
	if (birth_ns < ring->origin_ns || ring->newest - epoch >= s->slots)
		return NULL;
	return &ring->slot[slot_of(ring, s, ring->newest - epoch)];
}

void leak_ring_add_in(struct leak_ring *ring, const struct leak_scale *s, uint64_t birth_ns, uint64_t epoch,
		      uint64_t bytes)
{
	uint64_t *slot;

	leak_ring_advance(ring, s, epoch);
	slot = leak_slot(ring, s, birth_ns, epoch);
	if (!slot) {
		(void)sat_add(&ring->older, bytes);
		return;
	}
	/* The slots sum up to the window, so the window's ceiling is theirs. */
	*slot += sat_add(&ring->window, bytes);
}

void leak_ring_add(struct leak_ring *ring, const struct leak_scale *s, uint64_t birth_ns, uint64_t bytes)
{
	leak_ring_add_in(ring, s, birth_ns, birth_ns / s->epoch_ns, bytes);
}

void leak_ring_sub_in(struct leak_ring *ring, const struct leak_scale *s, uint64_t birth_ns, uint64_t epoch,
		      uint64_t bytes)
{
	uint64_t *slot;

	leak_ring_advance(ring, s, epoch);
	slot = leak_slot(ring, s, birth_ns, epoch);
	if (slot) {
		uint64_t taken = sat_sub(slot, bytes);

		(void)sat_sub(&ring->window, taken);
		bytes -= taken;
	}
	bytes -= sat_sub(&ring->older, bytes);
	/* Not what was added at that time, then: but so much less is there, and the oldest says least of growth. */
	for (uint32_t i = 1, oldest = ring->at; bytes > 0 && ring->window > 0 && i <= s->slots; i++) {
		uint64_t taken;

		oldest = slot_after(s, oldest);
		taken = sat_sub(&ring->slot[oldest], bytes);
		(void)sat_sub(&ring->window, taken);
		bytes -= taken;
	}
}

void leak_ring_sub(struct leak_ring *ring, const struct leak_scale *s, uint64_t birth_ns, uint64_t bytes)
{
	leak_ring_sub_in(ring, s, birth_ns, birth_ns / s->epoch_ns, bytes);
}

void leak_ring_add_older(struct leak_ring *ring, const struct leak_scale *s, uint64_t bytes)
{
	(void)sat_add(&ring->older, bytes);
	for (uint32_t i = 0; i < s->slots; i++)
		(void)sat_add(&ring->slot[s->slots + i], bytes);
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
		(void)sat_add(&ring->slot[s->slots + i], from->slot[s->slots + i]);
	}
	(void)sat_add(&ring->older, from->older);
	ring->is_remade = ring->is_remade && from->is_remade;
	/* A block that one had in older may be taken from a slot of the other's, and the reverse: the sum is right. */
	ring->origin_ns = MIN(ring->origin_ns, from->origin_ns);
}

void leak_ring_prefetch(const struct leak_ring *ring, const struct leak_scale *s, uint32_t slot)
{
	uint32_t older = slot >= s->epochs ? slot - s->epochs : slot + s->slots - s->epochs;

	__builtin_prefetch(ring, 1);
	for (uint32_t back = 0; back <= LEAK_PREFETCH; back += LEAK_LINE)
		__builtin_prefetch(&ring->slot[slot >= back ? slot - back : slot + s->slots - back]);
	__builtin_prefetch(&ring->slot[s->slots + slot], 1);
	__builtin_prefetch(&ring->slot[s->slots + older]);
}

void leak_ring_prefetch_slot(const struct leak_ring *ring, const struct leak_scale *s, uint64_t epoch)
{
	if (ring->newest - epoch < s->slots)
		__builtin_prefetch(&ring->slot[slot_of(ring, s, ring->newest - epoch)], 1);
}

void leak_ring_sum(struct leak_ring *sum, const struct leak_ring *from, const struct leak_scale *s)
{
	const uint64_t ahead = from->newest - sum->newest;

	sum->is_remade = false;
	for (uint64_t back = 0; back + ahead < s->slots && back <= sum->newest; back++) {
		uint32_t slot = slot_of(sum, s, back);

		sum->slot[slot] += sat_add(&sum->window, leak_born(from, s, back + ahead));
		(void)sat_add(&sum->slot[s->slots + slot], history_of(from, s, back + ahead));
	}
	sum->origin_ns = MIN(sum->origin_ns, from->origin_ns);
}

/* Bytes of the group-th part of the window, 0 = the newest that is judged. Epochs before the first are empty. */
static uint64_t leak_part(const struct leak_ring *ring, const struct leak_scale *s, uint64_t epoch, uint32_t group,
			  uint32_t part)
{
	uint64_t last = (uint64_t)group * (part + 1) + 1, sum = 0;
	uint64_t ago = ring->newest - epoch + last;

	/* Almost always all of them are there, one beside the other. */
	if (!ring->is_remade && ring->newest >= epoch && last + group <= epoch && ago + group <= s->slots) {
		uint32_t slot = slot_of(ring, s, ago);

		if (slot + 1 >= group) {
			for (uint32_t i = 0; i < group; i++)
				sum += ring->slot[slot - i];
			return sum;
		}
	}
	for (uint64_t back = last; back < last + group; back++) {
		uint64_t from_newest = ring->newest - (epoch - back);

		/* back epochs before the current one, which is not yet over. */
		if (back > epoch || from_newest >= s->slots)
			break;
		sum += leak_born(ring, s, from_newest);
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

static uint64_t rings_part(const struct leak_rings *rings, const struct leak_scale *s, uint64_t epoch, uint32_t group,
			   uint32_t part)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < rings->len; i++)
		(void)sat_add(&sum, leak_part(rings->list[i], s, epoch, group, part));
	return sum;
}

/* The lowest that the history fell in a group of epochs, of which last is the newest. */
static uint64_t leak_trough(const struct leak_rings *rings, const struct leak_scale *s, uint64_t last, uint32_t group)
{
	uint64_t low = UINT64_MAX;

	for (uint64_t back = 0; back < group && back <= last; back++) {
		uint64_t sum = 0;

		if (rings->newest - (last - back) >= s->slots)
			continue;
		for (size_t i = 0; i < rings->len; i++) {
			uint64_t from_newest = rings->list[i]->newest - (last - back);

			if (from_newest < s->slots)
				(void)sat_add(&sum, history_of(rings->list[i], s, from_newest));
		}
		low = MIN(low, sum);
	}
	/* So long ago that it is not known: nothing. */
	return low == UINT64_MAX ? 0 : low;
}

/* By how much the troughs have risen while the judged epochs went by. */
static double leak_rise(const struct leak_rings *rings, const struct leak_scale *s, uint64_t epoch, uint32_t group)
{
	uint64_t window = (uint64_t)group * s->epochs;

	return (double)sat_diff(leak_trough(rings, s, epoch, group),
				epoch >= window ? leak_trough(rings, s, epoch - window, group) : 0);
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
	/* And the newest ones, which are not judged. */
	e->run_ns = s->epoch_ns * group * (run + 1);
}

static void shape_add(struct leak_shape *h, const struct leak_scale *s, uint64_t bytes)
{
	uint32_t half = s->epochs / 2, part = h->parts++;

	(void)sat_add(&h->total, bytes);
	h->max = MAX(h->max, bytes);
	if (part < half)
		(void)sat_add(&h->newer, bytes);
	else if (part >= s->epochs - half)
		(void)sat_add(&h->older, bytes);
	if (bytes == 0)
		return;
	if (h->occupied++ == 0)
		h->newest_occupied = part;
}

/* The newest that is left may lie so many epochs back, less one. */
static uint32_t newest_max(const struct leak_scale *s)
{
	return s->epochs >= 16 ? s->epochs / 8 : 1;
}

static bool is_occupied(const struct leak_scale *s, const struct rule *r, uint32_t occupied)
{
	return occupied >= r->occupancy * s->epochs - 1e-9;
}

static bool is_even(const struct leak_shape *h, const struct leak_scale *s, const struct rule *r, uint64_t min_bytes)
{
	return h->total > 0 && h->total >= min_bytes && is_occupied(s, r, h->occupied) &&
	       h->newest_occupied < newest_max(s) && (double)h->newer >= r->keep_ratio * (double)h->older &&
	       h->max <= h->total - h->max;
}

bool leak_shape(const struct leak_rings *rings, const struct leak_scale *s, const struct rule *r, uint64_t epoch,
		uint32_t group, struct leak_shape *ret)
{
	struct leak_shape h = { 0 };
	bool is_hopeless = false;

	while (h.parts < s->epochs && !is_hopeless) {
		shape_add(&h, s, rings_part(rings, s, epoch, group, h.parts));
		/* Whatever the epochs hold that have not been looked at. */
		is_hopeless = (h.occupied == 0 && h.parts >= newest_max(s)) ||
			      !is_occupied(s, r, h.occupied + s->epochs - h.parts);
	}
	*ret = h;
	return !is_hopeless;
}

bool leak_shape_grows(const struct leak_shape *h, const struct leak_rings *rings, const struct leak_scale *s,
		      const struct rule *r, uint64_t min_bytes, uint64_t epoch, uint32_t group)
{
	return is_even(h, s, r, min_bytes) && leak_rise(rings, s, epoch, group) >= r->keep_ratio * (double)h->total;
}

void leak_judge_level(const struct leak_ring *ring, const struct leak_scale *s, const struct rule *r, uint64_t min_bytes,
		      uint64_t epoch, uint32_t group, const struct leak_frees *frees, struct leak_verdict *v)
{
	struct leak_ring *const list[] = { (struct leak_ring *)ring };
	const struct leak_rings rings = { .list = list, .len = 1, .newest = ring->newest };
	struct leak_shape h = { 0 };
	double rise = 0;

	while (h.parts < s->epochs)
		shape_add(&h, s, leak_part(ring, s, epoch, group, h.parts));
	*v = (struct leak_verdict){ .group = group, .mature_bytes = h.total,
				    .span_ns = s->epoch_ns * group * s->epochs };
	v->is_flat = h.occupied == 0 || h.newest_occupied >= (s->epochs >= 8 ? s->epochs / 4 : 2);
	if (is_even(&h, s, r, min_bytes)) {
		rise = leak_rise(&rings, s, epoch, group);
		v->is_growing = rise >= r->keep_ratio * (double)h.total;
	}
	if (!v->is_growing)
		return;
	v->evidence = (struct leak_evidence){
		.occupancy = (double)h.occupied / s->epochs,
		.steadiness = ratio((double)h.newer, (double)h.older),
		.rise = ratio(rise, (double)h.total),
		.biggest = ratio((double)h.max, (double)h.total),
		.late = ring->is_remade ? 0 : ratio(frees->late, (double)h.total),
		.freed = ring->is_remade ? 0 : ratio(frees->all, (double)h.total),
	};
	leak_look_back(ring, s, epoch, group, h.total, &v->evidence);
}

void leak_judge(struct leak_ring *ring, const struct leak_scale *s, const struct rule *r, struct leak_lives *lives,
		uint64_t min_bytes, uint64_t epoch, uint32_t group, bool needs_numbers, struct leak_verdict *ret)
{
	const struct leak_rings rings = { .list = &ring, .len = 1, .newest = MAX(ring->newest, epoch) };
	struct leak_verdict fallback, v;
	struct leak_shape h;

	leak_ring_advance(ring, s, epoch);
	if (group < 1 || group > s->max_group)
		group = 1;
	fallback = (struct leak_verdict){ .is_flat = ring->window == 0, .group = group, .mature_bytes = ring->window,
					  .span_ns = s->epoch_ns * group * s->epochs };
	for (uint32_t g = 1; ring->window > 0 && ring->window >= min_bytes && g <= s->max_group; g *= 2) {
		struct leak_frees frees = { 0 };
		bool grows = leak_shape(&rings, s, r, epoch, g, &h) &&
			     leak_shape_grows(&h, &rings, s, r, min_bytes, epoch, g);

		if (!grows && !(needs_numbers && g == group))
			continue;
		if (grows && lives)
			frees = (struct leak_frees){ .late = leak_lives_late(lives, s, epoch, g),
						     .all = leak_lives_beyond(lives, epoch * s->epoch_ns, 0) };
		leak_judge_level(ring, s, r, min_bytes, epoch, g, &frees, &v);
		if (v.is_growing && !leak_is_refuted(ring, s, epoch, g, frees.late)) {
			*ret = v;
			return;
		}
		if (g == group)
			fallback = v;
	}
	*ret = fallback;
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
		sum += leak_born(ring, s, ring->newest - epoch);
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
