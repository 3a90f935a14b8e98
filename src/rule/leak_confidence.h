/* SPDX-License-Identifier: MIT */
/* How sure a growing verdict is that memory is lost, and what would make it wrong. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "rule/leak.h"

/* What would make it wrong. */
enum leak_doubt {
	LEAK_DOUBT_FILLING, /* nothing else speaks against it: a cache that has not reached its limit looks the same */
	LEAK_DOUBT_STARTUP, /* it began with the process: it may still be loading */
	LEAK_DOUBT_SLOWING, /* the growth becomes less: a cache that meets ever fewer new things */
	LEAK_DOUBT_LATE,    /* old blocks are freed, if not all: work that lives long, or a cache that evicts */
	LEAK_DOUBT_LUMPY,   /* a few large steps */
	LEAK_DOUBT_SPREAD,  /* no call site has most of it: an allocator's segments, fragmentation */
	LEAK_DOUBT_BOUNDED, /* this site has stopped growing before, at more than it holds now */
	LEAK_DOUBT_INEXACT, /* events were lost */
	LEAK_DOUBT_MAX,
};

struct leak_case {
	const struct leak_evidence *evidence;
	uint32_t epochs;	 /* that were judged */
	uint64_t span_ns;	 /* of them */
	uint64_t process_age_ns; /* since its first call */
	uint64_t full_in_ns;	 /* until the device is full at this rate; UINT64_MAX = not known */
	double top_share;	 /* of the site with most of it; negative = not known */
	double bound_share;	 /* what the growing site holds, over where it has stopped before; 0 = it never has */
	bool is_inexact;
};

/* What the weights are learnt on, one number for each. */
enum leak_feature {
	LEAK_X_ONE,	 /* always 1 */
	LEAK_X_FALLING,	 /* each epoch kept less than the one before, as far back as is known */
	LEAK_X_GROWING,	 /* ... more */
	LEAK_X_PATIENCE, /* how long it was watched, for the time that is left */
	LEAK_X_WINDOWS,	 /* ... in windows */
	LEAK_X_AGE,	 /* of the process, below an hour */
	LEAK_X_STARTUP,	 /* it began within a minute of the process */
	LEAK_X_EARLY,	 /* ... within ten */
	LEAK_X_REGULAR,	 /* the longer and the more evenly */
	LEAK_X_UNEVEN,	 /* less in the newer half of the window */
	LEAK_X_SLOWING,	 /* ... of the whole run */
	LEAK_X_HASTENING,
	LEAK_X_OTHER,	 /* the window before grew at quite another rate */
	LEAK_X_LESS,	 /* ... at a somewhat higher one */
	LEAK_X_SAME,	 /* ... at the same */
	LEAK_X_LATE,	 /* old blocks were freed */
	LEAK_X_DROP,	 /* the troughs rose less than what is kept */
	LEAK_X_MORE,	 /* ... more */
	LEAK_X_GAPS,	 /* epochs of which nothing is left */
	LEAK_X_SPREAD,	 /* no site has half of it */
	LEAK_X_CHURN,	 /* freed, for what is kept: blocks that are freed at all are freed young */
	LEAK_X_MAX,
};

/* Has the site stopped before at so much that what it holds now may well be less than it will be again? bound_share as
 * above. */
bool leak_is_bounded(double bound_share);
/* 0 to 1. ret_doubts: bits of enum leak_doubt, never none. */
double leak_confidence(const struct leak_case *c, uint32_t *ret_doubts);
/* A sentence's second half; static. */
const char *leak_doubt_text(enum leak_doubt d);
const char *leak_feature_name(enum leak_feature x);
/* Called with the numbers of each case that is weighed on this thread: tests/leak learns the weights from them. NULL: by
 * none. */
extern _Thread_local void (*leak_case_listener)(const struct leak_case *c, const double x[LEAK_X_MAX], double confidence);
