/* SPDX-License-Identifier: MIT */
#include "rule/leak_confidence.h"

#include <math.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/clock.h"

_Thread_local void (*leak_case_listener)(const struct leak_case *c, const double x[LEAK_X_MAX], double confidence);

/*
 * Weights of a logistic regression: tests/leak/fit.py on the tuning families of tests/leak, seeds 1 to 36, through the
 * shipped rules without their min_confidence: each leak's and each harmless growth's first 60 verdicts, of which the
 * harmless count half as much again.
 */
static const struct {
	const char *name;
	double weight;
} features[LEAK_X_MAX] = {
	[LEAK_X_ONE] = { "one", 1.033 },
	[LEAK_X_FALLING] = { "falling", -2.612 },
	[LEAK_X_GROWING] = { "growing", -0.668 },
	[LEAK_X_PATIENCE] = { "patience", -0.062 },
	[LEAK_X_WINDOWS] = { "windows", 0.057 },
	[LEAK_X_AGE] = { "age", 0.787 },
	[LEAK_X_STARTUP] = { "startup", -0.091 },
	[LEAK_X_EARLY] = { "early", -0.341 },
	[LEAK_X_REGULAR] = { "regular", 0.286 },
	[LEAK_X_UNEVEN] = { "uneven", -0.979 },
	[LEAK_X_SLOWING] = { "slowing", -0.572 },
	[LEAK_X_HASTENING] = { "hastening", -0.594 },
	[LEAK_X_OTHER] = { "other", 0.154 },
	[LEAK_X_LESS] = { "less", 0.063 },
	[LEAK_X_SAME] = { "same", 0.312 },
	[LEAK_X_LATE] = { "late", -1.146 },
	[LEAK_X_DROP] = { "drop", -3.373 },
	[LEAK_X_MORE] = { "more", -2.537 },
	[LEAK_X_GAPS] = { "gaps", -0.266 },
	[LEAK_X_SPREAD] = { "spread", 1.722 },
	[LEAK_X_CHURN] = { "churn", 0.623 },
};

/* What is not in the families, in logits: that this very site stopped before is nearly an answer. */
#define AGAINST_BOUNDED 4.0
#define AGAINST_INEXACT 1.0
/* A site that has stopped before may hold so much more the next time. */
#define BOUND_SLACK 1.2
/* A number that takes so much away is worth a word. */
#define DOUBT_LOGITS 0.3
#define MINUTE_SEC 60.0
#define TRIAL_EPOCH_SEC 10.0
#define USUAL_EPOCH_SEC 120.0

static double clamp(double x, double low, double high)
{
	return x < low ? low : x > high ? high : x;
}

static double seconds(uint64_t ns)
{
	return (double)ns / (double)NSEC_PER_SEC;
}

/* 0 to 1: every epoch as much as any other. */
static double evenness(const struct leak_case *c)
{
	const struct leak_evidence *e = c->evidence;

	return exp(-2 * fabs(log(fmax(e->slowing, 0.1))) - 2 * fabs(log(fmax(e->steadiness, 0.1))) -
		   fmax(e->biggest * c->epochs - 1, 0));
}

/*
 * Rules whose epochs last less than ten seconds are for trials: a program that does in seconds what others do in hours.
 * Their time is taken to go by as that of a rule with epochs of two minutes.
 */
static double hurry(const struct leak_case *c)
{
	double epoch = fmax(seconds(c->span_ns) / c->epochs, 1e-3);

	return epoch < TRIAL_EPOCH_SEC ? USUAL_EPOCH_SEC / epoch : 1;
}

static void measure(const struct leak_case *c, double x[LEAK_X_MAX])
{
	const struct leak_evidence *e = c->evidence;
	double k = hurry(c), run = seconds(e->run_ns) * k, span = fmax(seconds(c->span_ns) * k, 1e-3);
	double age = seconds(c->process_age_ns) * k;
	/* Where nobody knows, a day. */
	double full_in = c->full_in_ns == UINT64_MAX ? 86400 : clamp(seconds(c->full_in_ns) * k, MINUTE_SEC, 1e9);

	x[LEAK_X_ONE] = 1;
	x[LEAK_X_FALLING] = clamp(e->trend, 0, 1);
	x[LEAK_X_GROWING] = clamp(-e->trend, 0, 1);
	x[LEAK_X_PATIENCE] = clamp(log2(run / full_in * 50), -6, 6);
	x[LEAK_X_WINDOWS] = clamp(log2(run / span), -4, 4);
	x[LEAK_X_AGE] = clamp(log2(age / 3600), -4, 0);
	x[LEAK_X_STARTUP] = age - run < MINUTE_SEC ? 1 : 0;
	x[LEAK_X_EARLY] = age - run < 10 * MINUTE_SEC ? 1 : 0;
	x[LEAK_X_REGULAR] = evenness(c) * clamp(log2(run / (10 * MINUTE_SEC)), -4, 6);
	x[LEAK_X_UNEVEN] = clamp(0.95 - e->steadiness, 0, 0.5);
	x[LEAK_X_SLOWING] = clamp(log2(fmax(e->slowing, 1)), 0, 2);
	x[LEAK_X_HASTENING] = clamp(-log2(clamp(e->slowing, 0.1, 1)), 0, 2);
	x[LEAK_X_OTHER] = e->before >= 4 ? 1 : 0;
	x[LEAK_X_LESS] = e->before > 1.15 && e->before < 4 ? clamp(e->before - 1.15, 0, 1.5) : 0;
	x[LEAK_X_SAME] = e->before >= 0.7 && e->before <= 1.3 ? 1 : 0;
	x[LEAK_X_LATE] = clamp(e->late, 0, 1.5);
	x[LEAK_X_DROP] = clamp(0.95 - e->rise, 0, 0.5);
	x[LEAK_X_MORE] = clamp(e->rise - 1.2, 0, 2);
	x[LEAK_X_GAPS] = 1 - e->occupancy;
	x[LEAK_X_SPREAD] = c->top_share >= 0 ? clamp(0.5 - c->top_share, 0, 0.5) : 0;
	x[LEAK_X_CHURN] = clamp(log2(1 + e->freed), 0, 6);
}

static bool is_against(const double x[LEAK_X_MAX], enum leak_feature a, enum leak_feature b)
{
	double sum = x[a] * features[a].weight;

	if (b != a)
		sum += x[b] * features[b].weight;
	return sum <= -DOUBT_LOGITS;
}

bool leak_is_bounded(double bound_share)
{
	return bound_share > 0 && bound_share < BOUND_SLACK;
}

static uint32_t doubts_of(const struct leak_case *c, const double x[LEAK_X_MAX])
{
	uint32_t doubts = 0;

	if (x[LEAK_X_STARTUP] > 0)
		doubts |= 1u << LEAK_DOUBT_STARTUP;
	if (is_against(x, LEAK_X_SLOWING, LEAK_X_UNEVEN) || is_against(x, LEAK_X_LESS, LEAK_X_LESS))
		doubts |= 1u << LEAK_DOUBT_SLOWING;
	if (is_against(x, LEAK_X_LATE, LEAK_X_DROP))
		doubts |= 1u << LEAK_DOUBT_LATE;
	if (c->evidence->biggest * c->epochs > 2.5)
		doubts |= 1u << LEAK_DOUBT_LUMPY;
	if (x[LEAK_X_SPREAD] > 0)
		doubts |= 1u << LEAK_DOUBT_SPREAD;
	if (leak_is_bounded(c->bound_share))
		doubts |= 1u << LEAK_DOUBT_BOUNDED;
	if (c->is_inexact)
		doubts |= 1u << LEAK_DOUBT_INEXACT;
	return doubts ? doubts : 1u << LEAK_DOUBT_FILLING;
}

double leak_confidence(const struct leak_case *c, uint32_t *ret_doubts)
{
	double x[LEAK_X_MAX], logit = 0, confidence;

	measure(c, x);
	for (int i = 0; i < LEAK_X_MAX; i++)
		logit += x[i] * features[i].weight;
	if (leak_is_bounded(c->bound_share))
		logit -= AGAINST_BOUNDED;
	if (c->is_inexact)
		logit -= AGAINST_INEXACT;
	confidence = 1 / (1 + exp(-logit));
	*ret_doubts = doubts_of(c, x);
	if (leak_case_listener)
		leak_case_listener(c, x, confidence);
	return confidence;
}

const char *leak_feature_name(enum leak_feature x)
{
	return x < LEAK_X_MAX ? features[x].name : NULL;
}

const char *leak_doubt_text(enum leak_doubt d)
{
	static const char *const texts[LEAK_DOUBT_MAX] = {
		[LEAK_DOUBT_FILLING] = "a cache or buffer that has not reached its limit yet looks the same",
		[LEAK_DOUBT_STARTUP] = "it has grown since the process began: it may still be loading",
		[LEAK_DOUBT_SLOWING] = "the growth is slowing down, as that of a cache that fills does",
		[LEAK_DOUBT_LATE] = "old blocks are freed now and then: work that lives long looks the same",
		[LEAK_DOUBT_LUMPY] = "it grew in few large steps",
		[LEAK_DOUBT_SPREAD] = "no call site has most of it: segments of an allocator, or fragmentation",
		[LEAK_DOUBT_BOUNDED] = "this call site has stopped growing before, at more than it holds now",
		[LEAK_DOUBT_INEXACT] = "events were lost",
	};

	return d < LEAK_DOUBT_MAX ? texts[d] : NULL;
}
