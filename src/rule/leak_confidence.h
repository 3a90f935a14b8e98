/* SPDX-License-Identifier: MIT */
/* How sure a growing verdict is that memory is lost, and what would make it wrong. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "rule/leak.h"

/* What would make it wrong. */
enum leak_doubt {
	LEAK_DOUBT_FILLING,  /* nothing else speaks against it: a cache that has not reached its limit looks the same */
	LEAK_DOUBT_STARTUP,  /* it began with the process: it may still be loading */
	LEAK_DOUBT_SLOWING,  /* the growth becomes less: a cache that meets ever fewer new things */
	LEAK_DOUBT_LATE,     /* old blocks are freed, if not all: work that lives long, or a cache that evicts */
	LEAK_DOUBT_LUMPY,    /* a few large steps */
	LEAK_DOUBT_SPREAD,   /* no call site has most of it: an allocator's segments, fragmentation */
	LEAK_DOUBT_BOUNDED,  /* this site has stopped growing before, at more than it holds now */
	LEAK_DOUBT_INEXACT,  /* events were lost */
	LEAK_DOUBT_MAX,
};

struct leak_case {
	const struct leak_evidence *evidence;
	uint32_t epochs;	  /* that were judged */
	uint64_t span_ns;	  /* of them */
	uint64_t process_age_ns;
	double device_share;	  /* of the growth in the device's capacity; negative = not known */
	double top_share;	  /* of the site with most of it; negative = not known */
	double bound_share;	  /* what the growing sites hold, over where they have stopped before; 0 = they never have */
	bool is_inexact;
};

/* 0 to 1. ret_doubts: bits of enum leak_doubt, never none. */
double leak_confidence(const struct leak_case *c, uint32_t *ret_doubts);
/* A sentence; static. */
const char *leak_doubt_text(enum leak_doubt d);
