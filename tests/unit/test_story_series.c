/* SPDX-License-Identifier: MIT */
/* Long series told with few points, against a model that keeps all of them. */
#include "test.h"

#include "story_make.h"

static uint64_t seed;

static uint64_t pick(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

struct model {
	uint64_t usec[20000], low[20000], high[20000], live[20000];
	size_t len;
	uint64_t peak, peak_usec;
};

static void check_points(const struct story_series *s, const struct model *m)
{
	uint64_t highest = 0;
	size_t at = 0;

	ASSERT(s->len >= 1 && s->len <= STORY_POINTS_MAX);
	for (size_t i = 0; i < s->len; i++) {
		const struct story_point *p = &s->points[i];
		uint64_t low = UINT64_MAX, high = 0, live = 0;

		EXPECT(i == 0 || p->usec > s->points[i - 1].usec);
		EXPECT(p->low <= p->live && p->live <= p->high);
		highest = MAX(highest, p->high);
		/* All that the model has since the point before is in it, and nothing else. */
		for (; at < m->len && m->usec[at] <= p->usec; at++) {
			low = MIN(low, m->low[at]);
			high = MAX(high, m->high[at]);
			live = m->live[at];
		}
		if (high == 0)
			continue;
		EXPECT(p->low == low);
		EXPECT(p->high == high);
		EXPECT(p->live == live);
		if (test_failures)
			return;
	}
	EXPECT_EQ(at, m->len);
	EXPECT_EQ(highest, m->peak);
	EXPECT_EQ(s->peak_bytes, m->peak);
	EXPECT_EQ(s->peak_usec, m->peak_usec);
}

/* A sample at its own highest moment, so that each is one point of the model. */
static void check_random(size_t samples, uint64_t longest_pause)
{
	static struct model m;
	struct story_builder *b = stretch_of(24 * 7, 0, NULL);
	_cleanup_story_ struct story *s = NULL;
	double sec = 1;

	m = (struct model){};
	for (size_t i = 0; i < samples; i++) {
		uint64_t live = pick(1000) + 1, low = pick(live) + 1, high = live + pick(3) * pick(500);
		uint64_t usec = AT(sec);

		m.usec[m.len] = usec;
		m.low[m.len] = low * MIB;
		m.high[m.len] = high * MIB;
		m.live[m.len++] = live * MIB;
		if (high * MIB > m.peak) {
			m.peak = high * MIB;
			m.peak_usec = usec;
		}
		sample(b, sec, 7, low, high, sec, live);
		sec += (double)(pick(longest_pause) + 1);
	}
	s = told(b, 24 * 7 * HOUR);
	ASSERT(s->processes_len == 1 && s->processes[0]->held_len == 1);
	check_points(&s->processes[0]->held[0].series, &m);
	EXPECT_EQ(s->processes[0]->peak_bytes, m.peak);
	EXPECT_EQ(s->devices[0]->peak_bytes, m.peak);
}

TEST(no_peak_is_lost_by_thinning)
{
	for (unsigned round = 1; round <= 60 && !test_failures; round++) {
		static const size_t lengths[] = { 1, 2, 700, 1024, 1025, 3000 };
		size_t len = lengths[round % ARRAY_SIZE(lengths)];

		seed = round * 2654435761u;
		check_random(len + pick(len), 60);
	}
	seed = 4711;
	check_random(20000, 30);
}

TEST(a_long_series_is_told_evenly)
{
	struct story_builder *b = stretch_of(24 * 7, 0, NULL);
	_cleanup_story_ struct story *s = NULL;
	const struct story_series *ser;
	uint64_t longest = 0;

	for (unsigned i = 0; i < 10080; i++)
		flat(b, i * 60.0 + 1, 7, i % 100 + 1);
	s = told(b, 24 * 7 * HOUR);
	ser = &s->processes[0]->held[0].series;
	ASSERT(ser->len > STORY_POINTS_MAX / 3 && ser->len <= STORY_POINTS_MAX);
	EXPECT_EQ(ser->points[0].usec, AT(1));
	EXPECT_EQ(ser->points[ser->len - 1].usec, AT(10079 * 60 + 1));
	for (size_t i = 1; i < ser->len; i++)
		longest = MAX(longest, ser->points[i].usec - ser->points[i - 1].usec);
	/* Even but for what an earlier, finer joining leaves at the edges. */
	EXPECT(longest <= 7 * 86400 * USEC_PER_SEC / (STORY_POINTS_MAX / 6));
}

TEST(few_points_stay_as_they_are)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	for (unsigned i = 0; i < STORY_POINTS_MAX; i++)
		flat(b, 1 + i * 0.001, 7, i + 1);
	s = told(b, HOUR);
	EXPECT_EQ(s->processes[0]->held[0].series.len, STORY_POINTS_MAX);
}

TEST(what_comes_at_the_same_time_or_late_is_joined)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	struct story_series *ser;

	flat(b, 10, 7, 50);
	flat(b, 10, 7, 80);
	flat(b, 5, 7, 20);
	s = told(b, HOUR);
	ser = &s->processes[0]->held[0].series;
	ASSERT(ser->len == 1);
	EXPECT_EQ(ser->points[0].usec, AT(10));
	EXPECT_EQ(ser->points[0].low, 20 * MIB);
	EXPECT_EQ(ser->points[0].high, 80 * MIB);
	EXPECT_EQ(ser->points[0].live, 20 * MIB);
}

/* More processes than can be told finely: all of them are told more coarsely, and still with their peaks. */
TEST(very_many_series)
{
	enum { SERIES = 3000, SAMPLES = 400 };
	struct story_builder *b = stretch_of(24, 0, NULL);
	_cleanup_story_ struct story *s = NULL;
	size_t points = 0, without_peak = 0;

	for (unsigned i = 0; i < SAMPLES; i++)
		for (unsigned pid = 1; pid <= SERIES; pid++)
			flat(b, i * 60.0 + 1, pid, i == pid % SAMPLES ? 5000 : 10);
	s = told(b, 24 * HOUR);
	ASSERT(s->processes_len == SERIES);
	for (size_t i = 0; i < s->processes_len; i++) {
		const struct story_series *ser = &s->processes[i]->held[0].series;
		uint64_t highest = 0;

		for (size_t k = 0; k < ser->len; k++)
			highest = MAX(highest, ser->points[k].high);
		without_peak += highest != 5000 * MIB || ser->peak_bytes != highest;
		points += ser->len;
	}
	EXPECT_EQ(without_peak, 0);
	EXPECT(points <= (1u << 20) && points > (1u << 18));
}

TEST_MAIN()
