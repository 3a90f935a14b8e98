/* SPDX-License-Identifier: MIT */
/* What speaks for and against a leak: how long blocks live, what is made anew, sums, the driver, doubts, the device. */
#include <math.h>

#include "engine_sim.h"
#include "rule/leak.h"
#include "rule/leak_confidence.h"

#define GPU "GPU-a"
#define LEAK(scope, more)                                                                                              \
	"version = 1; rules = ({ name = \"leak\"; kind = \"leak\"; scope = \"" scope "\"; epoch = \"2s\";"                 \
	" epochs = 8; occupancy = 0.9; keep_ratio = 0.7; for_epochs = 3; keep_firing_for = \"0s\"; " more " });"
#define BY_PROCESS LEAK("process", "min_growth = \"4MiB\";")
#define BY_STACK LEAK("stack", "min_growth = \"4MiB\";")

/* --- lives --- */

TEST(lives_are_told_apart_by_powers_of_two)
{
	struct leak_lives l = { .since_ns = 1000 * SEC };
	uint64_t now = 1000 * SEC;

	leak_lives_add(&l, now, 5 * SEC, 100);
	EXPECT_EQ(leak_lives_beyond(&l, now, 0), 100);
	/* 4 to 8 s is one bucket, and taken whole. */
	EXPECT_EQ(leak_lives_beyond(&l, now, 4 * SEC), 100);
	EXPECT_EQ(leak_lives_beyond(&l, now, 8 * SEC - 1), 100);
	EXPECT_EQ(leak_lives_beyond(&l, now, 8 * SEC), 0);
	leak_lives_add(&l, now, 0, 7);
	leak_lives_add(&l, now, 1999 * MSEC, 5);
	EXPECT_EQ(leak_lives_beyond(&l, now, 2 * SEC), 100);
	EXPECT_EQ(leak_lives_beyond(&l, now, SEC), 112);
	/* The last one has no end. */
	leak_lives_add(&l, now, 100 * 86400 * SEC, 1000);
	EXPECT_EQ(leak_lives_beyond(&l, now, 6 * 86400 * SEC + 86400 * SEC), 1000);
	EXPECT_EQ(leak_lives_beyond(&l, now, UINT64_MAX), 1000);
	EXPECT_EQ(leak_lives_beyond(&l, now, 16 * SEC), 1000);
}

TEST(lives_are_forgotten_the_slower_the_longer_they_were)
{
	struct leak_lives once = { 0 }, often = { 0 };

	leak_lives_add(&once, 0, SEC, 1000);
	leak_lives_add(&once, 0, 300 * SEC, 1000); /* 256 to 512 s */
	often = once;
	/* Half of the younger ones within 16 s. */
	EXPECT(fabs(leak_lives_beyond(&once, 16 * SEC, 0) - (500 + 1000 * exp2(-1 / 256.0))) < 0.1);
	EXPECT(fabs(leak_lives_beyond(&once, 16 * SEC, 256 * SEC) - 1000 * exp2(-1 / 256.0)) < 0.1);
	for (uint64_t t = 0; t <= 16 * 256 * SEC; t += SEC)
		(void)leak_lives_beyond(&often, t, 0);
	EXPECT(fabs(leak_lives_beyond(&often, 16 * 256 * SEC, 0) - 500) < 1);
	EXPECT(fabs(leak_lives_beyond(&once, 16 * 256 * SEC, 0) - 500) < 1);
	/* A clock that stands still or goes back forgets nothing. */
	EXPECT(fabs(leak_lives_beyond(&once, SEC, 0) - 500) < 1);
}

/* --- what late frees say --- */

/* A service keeps 2 MiB a second from the 500th on; it also has a request of 512 KiB each second that lives so long.
 * Returns how often it was called leaking from then on. */
static size_t serve(const char *rules, uint64_t request_life, bool keeps)
{
	struct block requests[64];
	struct sim s;
	size_t n;

	sim_new(&s, rules);
	sim_stack(&s, 7, 0xa);
	for (uint64_t i = 0; i < 800; i++) {
		if (i >= request_life)
			sim_free(&s, requests[(i - request_life) % 64]);
		requests[i % 64] = sim_alloc(&s, 7, 512 * KIB, 0xa);
		if (i == 500)
			sim_clear(&s);
		if (keeps && i >= 500 && i < 700)
			sim_alloc(&s, 7, 2 * MIB, 0xa);
		sim_pass(&s, SEC);
	}
	n = sim_count(&s, "leak", STATE_FIRING);
	sim_done(&s);
	return n;
}

TEST(late_frees_refute)
{
	static const char *const rules[] = { BY_PROCESS, BY_STACK };

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		EXPECT_EQ(serve(rules[i], 40, true), 0);
		/* What is freed young says nothing of what is kept. */
		EXPECT_EQ(serve(rules[i], 1, true), 1);
		EXPECT_EQ(serve(rules[i], 40, false), 0);
	}
}

/* --- one tensor made anew --- */

static size_t remake(const char *rules, uint64_t first, uint64_t step, int turns)
{
	struct block old = { 0 };
	uint64_t noise = 1;
	struct sim s;
	size_t n;

	sim_new(&s, rules);
	sim_stack(&s, 7, 0xa);
	sim_alloc(&s, 7, 256 * MIB, 0xb);
	for (int i = 0; i < turns; i++) {
		uint64_t more = step == UINT64_MAX ? (noise = hash64(noise)) % (64 * MIB) : (uint64_t)i * step;
		struct block b = sim_alloc(&s, 7, first + more, 0xa);

		if (i > 0)
			sim_free(&s, old);
		old = b;
		sim_pass(&s, 500 * MSEC);
	}
	n = sim_count(&s, "leak", STATE_FIRING);
	if (n > 0)
		EXPECT(s.reports[0]->stack && s.reports[0]->stack->key == 0xa);
	sim_done(&s);
	return n;
}

TEST(one_tensor_made_anew)
{
	static const char *const rules[] = { BY_PROCESS, BY_STACK };

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		/* Larger each time: what there is grows, though no block is ever old. */
		EXPECT_EQ(remake(rules[i], 64 * MIB, MIB, 160), 1);
		EXPECT_EQ(remake(rules[i], 64 * MIB, 0, 160), 0);
		EXPECT_EQ(remake(rules[i], 64 * MIB, UINT64_MAX, 160), 0);
	}
}

/* --- sums --- */

/* So many sites in turn, one block a second. */
static size_t grow_in_turn(const char *rules, unsigned int sites, struct report *ret)
{
	struct sim s;
	size_t n;

	sim_new(&s, rules);
	for (unsigned int k = 0; k < sites; k++)
		sim_stack(&s, 7, 100 + k);
	for (unsigned int i = 0; i < 200; i++) {
		sim_alloc(&s, 7, 2 * MIB, 100 + i % sites);
		sim_pass(&s, SEC);
	}
	n = sim_count(&s, "leak", STATE_FIRING);
	if (n && ret)
		*ret = (struct report){ .sites_len = s.reports[0]->sites_len, .confidence = s.reports[0]->confidence,
					.doubts = s.reports[0]->doubts, .value = s.reports[0]->value,
					.growth_sites_bytes = s.reports[0]->growth_sites_bytes };
	sim_done(&s);
	return n;
}

TEST(many_sites_that_are_each_too_sparse)
{
	struct report r = { 0 };

	/* Each has something in three or four of eight epochs, and that of the coarsest ones. */
	EXPECT_EQ(grow_in_turn(BY_STACK, 20, NULL), 0);
	EXPECT_EQ(grow_in_turn(BY_PROCESS, 20, &r), 1);
	EXPECT_EQ(r.sites_len, REPORT_LEAK_SITES_MAX);
	EXPECT(r.doubts & (1u << LEAK_DOUBT_SPREAD));
	EXPECT(r.growth_sites_bytes >= 30 * MIB);
	/* One site for all: found either way, and no doubt about where. */
	EXPECT_EQ(grow_in_turn(BY_STACK, 1, &r), 1);
	EXPECT_EQ(grow_in_turn(BY_PROCESS, 1, &r), 1);
	EXPECT(!(r.doubts & (1u << LEAK_DOUBT_SPREAD)));
	EXPECT_EQ(r.sites_len, 1);
}

/* --- what only the driver sees --- */

/* The driver counts 400 MiB more than calls show; and each second step more, or noise. */
static size_t untold(uint64_t step, uint64_t noise_max, bool *ret_has_site)
{
	uint64_t more = 400 * MIB, state = 1;
	struct sim s;
	size_t n;

	sim_new(&s, BY_PROCESS);
	sim_stack(&s, 7, 0xa);
	sim_alloc(&s, 7, 100 * MIB, 0xa);
	for (int i = 0; i < 120; i++) {
		uint64_t noise = noise_max ? (state = hash64(state)) % noise_max : 0;

		more += step;
		engine_driver_begin(s.e);
		EXPECT_EQ(engine_driver(s.e, 7, 7 * SEC, GPU, 100 * MIB + more + noise, false), 0);
		engine_driver_end(s.e, true, s.now, SIM_REAL + s.now / 1000);
		sim_pass(&s, SEC);
	}
	n = sim_count(&s, "leak", STATE_FIRING);
	if (n && ret_has_site) {
		const struct report *r = s.reports[0];

		*ret_has_site = r->stack != NULL;
		for (size_t i = 0; i < r->sites_len; i++)
			*ret_has_site = *ret_has_site || r->sites[i].stack;
		EXPECT(r->growth_bytes_per_hour > step * 3600 * 9 / 10);
		EXPECT(r->growth_bytes_per_hour < step * 3600 * 11 / 10);
	}
	sim_done(&s);
	return n;
}

TEST(growth_that_only_the_driver_sees)
{
	bool has_site = true;

	EXPECT_EQ(untold(2 * MIB, 0, &has_site), 1);
	EXPECT(!has_site);
	EXPECT_EQ(untold(2 * MIB, MIB, NULL), 1);
	EXPECT_EQ(untold(0, 0, NULL), 0);
	EXPECT_EQ(untold(0, 100 * MIB, NULL), 0);
}

/* --- confidence and doubts --- */

static const struct leak_evidence even = { .occupancy = 1, .steadiness = 1, .rise = 1, .biggest = 0.125, .before = 1,
					   .freed = 0.5, .slowing = 1, .run_ns = 7200 * SEC };

static struct leak_case case_of(const struct leak_evidence *e)
{
	return (struct leak_case){ .evidence = e, .epochs = 8, .span_ns = 960 * SEC, .process_age_ns = 20000 * SEC,
				   .full_in_ns = 36000 * SEC, .top_share = 1 };
}

static double confidence_of(const struct leak_evidence *e)
{
	const struct leak_case c = case_of(e);
	uint32_t doubts;

	return leak_confidence(&c, &doubts);
}

/* Lower at each of these values of a number than at the one before. */
static bool falls(size_t offset, const double *values, size_t len)
{
	double last = 2;

	for (size_t i = 0; i < len; i++) {
		struct leak_evidence e = even;
		double got;

		memcpy((char *)&e + offset, &values[i], sizeof(double));
		got = confidence_of(&e);
		if (got < 0 || got > 1 || got >= last) {
			printf("# at %g: %g, before %g\n", values[i], got, last);
			return false;
		}
		last = got;
	}
	return true;
}

#define FALLS(field, ...)                                                                                              \
	falls(offsetof(struct leak_evidence, field), (const double[]){ __VA_ARGS__ },                                  \
	      ARRAY_SIZE(((const double[]){ __VA_ARGS__ })))

TEST(confidence_falls_with_what_speaks_against_it)
{
	struct leak_case c = case_of(&even);
	double sure, startup;
	uint32_t doubts;

	EXPECT(FALLS(slowing, 1, 1.2, 1.5, 2, 3, 4));
	EXPECT(FALLS(late, 0, 0.1, 0.3, 0.5, 1, 1.5));
	EXPECT(FALLS(steadiness, 1, 0.9, 0.8, 0.7, 0.5));
	EXPECT(FALLS(rise, 1, 0.9, 0.8, 0.7, 0.5));
	EXPECT(FALLS(biggest, 0.125, 0.2, 0.3, 0.5));

	sure = leak_confidence(&c, &doubts);
	c.process_age_ns = even.run_ns + 30 * SEC;
	startup = leak_confidence(&c, &doubts);
	EXPECT(startup < sure);
	c = case_of(&even);
	c.is_inexact = true;
	EXPECT(leak_confidence(&c, &doubts) < sure);
	c = case_of(&even);
	c.bound_share = 0.5;
	EXPECT(leak_confidence(&c, &doubts) < sure / 2);
	c.bound_share = 1.3;
	EXPECT(leak_confidence(&c, &doubts) == sure);
	/* Nothing that can be found makes it no number. */
	for (int i = 0; i < 4; i++) {
		const double odd[] = { 0, 1e300, INFINITY, 1e6 };
		const struct leak_evidence e = { .occupancy = odd[i], .steadiness = odd[i], .rise = odd[i],
						 .biggest = odd[i], .before = odd[i], .late = odd[i], .freed = odd[i],
						 .slowing = odd[i] };

		EXPECT(confidence_of(&e) >= 0 && confidence_of(&e) <= 1);
	}
}

static uint32_t doubts_with(struct leak_evidence e, void (*change)(struct leak_case *c))
{
	struct leak_case c = case_of(&e);
	uint32_t doubts = 0;

	if (change)
		change(&c);
	(void)leak_confidence(&c, &doubts);
	return doubts;
}

static void at_startup(struct leak_case *c)
{
	c->process_age_ns = c->evidence->run_ns + SEC;
}

static void spread(struct leak_case *c)
{
	c->top_share = 0.2;
}

static void bounded(struct leak_case *c)
{
	c->bound_share = 1.1;
}

static void inexact(struct leak_case *c)
{
	c->is_inexact = true;
}

static struct leak_evidence even_but(size_t offset, double value)
{
	struct leak_evidence e = even;

	memcpy((char *)&e + offset, &value, sizeof(value));
	return e;
}

#define BUT(field, value) even_but(offsetof(struct leak_evidence, field), value)

TEST(each_doubt_has_its_bit)
{
	EXPECT_EQ(doubts_with(even, NULL), 1u << LEAK_DOUBT_FILLING);
	EXPECT_EQ(doubts_with(even, at_startup), 1u << LEAK_DOUBT_STARTUP);
	EXPECT_EQ(doubts_with(BUT(slowing, 4), NULL), 1u << LEAK_DOUBT_SLOWING);
	EXPECT_EQ(doubts_with(BUT(late, 1.5), NULL), 1u << LEAK_DOUBT_LATE);
	EXPECT_EQ(doubts_with(BUT(biggest, 0.4), NULL), 1u << LEAK_DOUBT_LUMPY);
	EXPECT_EQ(doubts_with(even, spread), 1u << LEAK_DOUBT_SPREAD);
	EXPECT_EQ(doubts_with(even, bounded), 1u << LEAK_DOUBT_BOUNDED);
	EXPECT_EQ(doubts_with(even, inexact), 1u << LEAK_DOUBT_INEXACT);
	EXPECT_EQ(doubts_with(BUT(late, 1.5), spread), (1u << LEAK_DOUBT_LATE) | (1u << LEAK_DOUBT_SPREAD));
}

TEST(each_doubt_has_a_text)
{
	for (int i = 0; i < LEAK_DOUBT_MAX; i++) {
		ASSERT(leak_doubt_text((enum leak_doubt)i));
		EXPECT(strlen(leak_doubt_text((enum leak_doubt)i)) > 10);
		for (int k = 0; k < i; k++)
			EXPECT(strcmp(leak_doubt_text((enum leak_doubt)i), leak_doubt_text((enum leak_doubt)k)) != 0);
	}
	EXPECT(leak_doubt_text(LEAK_DOUBT_MAX) == NULL);
	for (int i = 0; i < LEAK_X_MAX; i++)
		EXPECT(leak_feature_name((enum leak_feature)i) != NULL);
	EXPECT(leak_feature_name(LEAK_X_MAX) == NULL);
}

/* --- at the end --- */

static _Thread_local struct {
	double most, last;
	int times;
} weighed;

static void on_case(const struct leak_case *c, const double x[LEAK_X_MAX], double confidence)
{
	weighed.most = fmax(weighed.most, confidence);
	weighed.last = confidence;
	weighed.times++;
}

/* A process keeps 4 MiB a second, or ever less of it, and ends. What was said is in s. */
static void live_and_end(struct sim *s, const char *rule_keys, bool is_slowing)
{
	double bytes = 4 * (double)MIB;
	char rules[512];

	snprintf(rules, sizeof(rules),
		 "version = 1; rules = ({ name = \"leak\"; kind = \"leak\"; scope = \"process\"; epoch = \"2s\";"
		 " epochs = 8; occupancy = 0.9; keep_ratio = 0.3; min_growth = \"4MiB\"; keep_firing_for = \"0s\";"
		 " %s });", rule_keys);
	memset(&weighed, 0, sizeof(weighed));
	leak_case_listener = on_case;
	sim_new(s, rules);
	sim_stack(s, 7, 0xa);
	for (int i = 0; i < 60; i++) {
		sim_alloc(s, 7, (uint64_t)bytes, 0xa);
		if (is_slowing)
			bytes *= 0.95;
		sim_pass(s, SEC);
	}
	sim_simple(s, EVENT_EXIT, 7);
	sim_pass(s, 10 * SEC);
	leak_case_listener = NULL;
}

TEST(at_the_end_more_likely_than_not_is_enough)
{
	char keys[64];
	struct sim s;

	/* How sure it becomes meanwhile. */
	live_and_end(&s, "for_epochs = 2; min_confidence = 1.0;", false);
	ASSERT(weighed.times > 0 && weighed.most < 0.98 && weighed.last > 0.51);
	sim_done(&s);

	snprintf(keys, sizeof(keys), "for_epochs = 2; min_confidence = %.3f;", weighed.most + 0.01);
	live_and_end(&s, keys, false);
	ASSERT(s.len == 2);
	EXPECT_EQ(s.reports[0]->state, STATE_FIRING);
	EXPECT_EQ(s.reports[1]->state, STATE_RESOLVED);
	EXPECT(s.reports[0]->real_usec == s.reports[1]->real_usec);
	EXPECT(s.reports[1]->process_ended);
	EXPECT(s.reports[0]->confidence >= 0.5 && s.reports[0]->confidence == weighed.last);
	EXPECT(memcmp(s.reports[0]->incident, s.reports[1]->incident, 16) == 0);
	EXPECT_EQ(s.reports[0]->seq, 1);
	EXPECT_EQ(s.reports[1]->seq, 2);
	EXPECT(s.reports[0]->stack && s.reports[0]->stack->key == 0xa);
	sim_done(&s);

	/* Sure enough in time: said then, and not once more at the end. */
	snprintf(keys, sizeof(keys), "for_epochs = 2; min_confidence = %.3f;", weighed.most - 0.01);
	live_and_end(&s, keys, false);
	ASSERT(s.len == 2);
	EXPECT(s.reports[0]->real_usec < s.reports[1]->real_usec);
	sim_done(&s);
}

TEST(at_the_end_less_likely_than_not_says_nothing)
{
	struct sim s;

	live_and_end(&s, "for_epochs = 2; min_confidence = 0.85;", true);
	ASSERT(weighed.times > 0 && weighed.most < 0.85 && weighed.last < 0.5);
	EXPECT_EQ(s.len, 0);
	sim_done(&s);
	/* It was there to be said. */
	live_and_end(&s, "for_epochs = 2;", true);
	EXPECT_EQ(sim_count(&s, "leak", STATE_FIRING), 1);
	sim_done(&s);
}

TEST(a_rule_that_asks_for_no_confidence_says_nothing_at_the_end)
{
	struct sim s;

	/* One that asks need not have waited for so many epochs. */
	live_and_end(&s, "for_epochs = 100; min_confidence = 0.99;", false);
	EXPECT_EQ(s.len, 2);
	sim_done(&s);
	live_and_end(&s, "for_epochs = 100; min_confidence = 0.5;", false);
	EXPECT_EQ(s.len, 0);
	sim_done(&s);
	live_and_end(&s, "for_epochs = 100;", false);
	EXPECT_EQ(s.len, 0);
	sim_done(&s);
}

/* --- the device --- */

/* 4 MiB a second on a device of that size, of which others use so much. */
static size_t grow_on(const char *rules, uint64_t total, uint64_t used, uint64_t *ret_limit)
{
	struct sim s;
	size_t n;

	sim_new(&s, rules);
	if (total)
		(void)engine_set_device(s.e, GPU, 0, "H200", total, used);
	(void)engine_set_ordinal(s.e, 7, 7 * SEC, 0, GPU);
	sim_stack(&s, 7, 0xa);
	for (int i = 0; i < 80; i++) {
		sim_alloc(&s, 7, 4 * MIB, 0xa);
		sim_pass(&s, SEC);
	}
	n = sim_count(&s, "leak", STATE_FIRING);
	if (n && ret_limit)
		*ret_limit = s.reports[0]->limit;
	sim_done(&s);
	return n;
}

TEST(min_growth_is_a_share_of_the_device)
{
	static const char *const rules[] = { LEAK("process", "min_growth = \"1%\";"),
					     LEAK("stack", "min_growth = \"1%\";") };
	uint64_t limit = 0;

	/* The window of the finest level holds 64 MiB, of the coarsest 256. */
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		EXPECT_EQ(grow_on(rules[i], 80 * GIB, GIB, NULL), 0);
		EXPECT_EQ(grow_on(rules[i], 4 * GIB, GIB, &limit), 1);
		EXPECT_EQ(limit, 4 * GIB / 100);
	}
}

TEST(full_in_lets_only_what_is_urgent_pass)
{
	static const char *const rules[] = { LEAK("process", "min_growth = \"4MiB\"; full_in = \"10m\";"),
					     LEAK("stack", "min_growth = \"4MiB\"; full_in = \"10m\";") };

	/* At 4 MiB a second 2400 MiB last for ten minutes; what is in use stays as it was told. */
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		EXPECT_EQ(grow_on(rules[i], 100 * GIB, 90 * GIB, NULL), 0);
		EXPECT_EQ(grow_on(rules[i], 100 * GIB, 98 * GIB, NULL), 1);
		/* Where nobody knows, it may be. */
		EXPECT_EQ(grow_on(rules[i], 0, 0, NULL), 1);
	}
}

TEST_MAIN()
