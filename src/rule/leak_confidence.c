/* SPDX-License-Identifier: MIT */
#include "rule/leak_confidence.h"

#include <math.h>

#include "base/cleanup.h"
#include "base/clock.h"

/* A growth that began so early in the life of its process may be the loading of what it works with ... */
#define STARTUP_BEGIN_NS (60 * NSEC_PER_SEC)
/* ... which takes so long at most. */
#define STARTUP_NS (600 * NSEC_PER_SEC)
/* What takes so much away is worth a word. */
#define DOUBT_WEIGHT 0.5

static double clamp(double x, double low, double high)
{
	return x < low ? low : x > high ? high : x;
}

/* Did the growth begin with the process? */
static bool is_startup(const struct leak_case *c)
{
	const struct leak_evidence *e = c->evidence;

	return c->process_age_ns < STARTUP_NS && e->run_ns + STARTUP_BEGIN_NS > c->process_age_ns;
}

/*
 * What speaks against it, in logits. A sum of such weights is what a logistic regression would give; they were set by
 * hand and held against the tuning families of tests/leak.
 */
static void weigh(const struct leak_case *c, double against[LEAK_DOUBT_MAX])
{
	const struct leak_evidence *e = c->evidence;
	/* Between a quarter of the rate before and the same: a growth that peters out. Less than that is another one. */
	bool is_less = e->before > 1.15 && e->before < 4;

	against[LEAK_DOUBT_STARTUP] = is_startup(c) ? 3 : 0;
	against[LEAK_DOUBT_SLOWING] = 6 * clamp(0.95 - e->steadiness, 0, 0.5) +
				      (is_less ? 3 * clamp(e->before - 1.15, 0, 1) : 0);
	against[LEAK_DOUBT_LATE] = 2 * clamp(e->late, 0, 1.5) + 3 * clamp(0.95 - e->rise, 0, 0.5);
	against[LEAK_DOUBT_LUMPY] = 0.5 * clamp(e->biggest * c->epochs - 2, 0, 4) + 6 * clamp(1 - e->occupancy, 0, 0.5);
	against[LEAK_DOUBT_SPREAD] = c->top_share >= 0 ? clamp(0.5 - c->top_share, 0, 0.5) * 2 : 0;
	against[LEAK_DOUBT_BOUNDED] = c->bound_share > 0 && c->bound_share < 1.2 ? 4 : 0;
	against[LEAK_DOUBT_INEXACT] = c->is_inexact ? 1 : 0;
}

double leak_confidence(const struct leak_case *c, uint32_t *ret_doubts)
{
	double against[LEAK_DOUBT_MAX] = { 0 }, logit = 2.2;

	weigh(c, against);
	*ret_doubts = 0;
	for (uint32_t i = 0; i < LEAK_DOUBT_MAX; i++) {
		logit -= against[i];
		if (against[i] >= DOUBT_WEIGHT)
			*ret_doubts |= 1u << i;
	}
	if (*ret_doubts == 0)
		*ret_doubts = 1u << LEAK_DOUBT_FILLING;
	/* The longer it has gone on beyond what it takes to see it, the less is it the filling of something. */
	if (c->span_ns > 0)
		logit += clamp(log2((double)c->evidence->run_ns / (double)c->span_ns), 0, 4) * 0.5;
	if (c->device_share > 0)
		logit += clamp(log2(c->device_share / 0.02), -2, 4) * 0.3;
	return 1 / (1 + exp(-logit));
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
		[LEAK_DOUBT_BOUNDED] = "these call sites have stopped growing before at more than they hold now",
		[LEAK_DOUBT_INEXACT] = "events were lost",
	};

	return d < LEAK_DOUBT_MAX ? texts[d] : NULL;
}
