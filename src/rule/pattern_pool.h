/* SPDX-License-Identifier: MIT */
/*
 * The compiled patterns of a ruleset, each text once however many rules use it: a list of ten thousand that a hundred
 * rules name would fill a gigabyte otherwise.
 */
#pragma once

#include "base/pattern.h"
#include "rule/name_map.h"

#define PATTERNS_BYTES_MAX (UINT64_C(64) << 20) /* compiled, about a kilobyte each */
#define PATTERNS_USES_MAX 1000000 /* each new process may be held against all of them: a tenth of a second */

struct pattern_pool {
	struct name_map by_text; /* to place in list */
	struct pattern **list;
	size_t len, cap;
	uint64_t bytes;
	uint64_t uses;
	bool is_over; /* one of the two maxima, which has been told */
};

#define PATTERN_POOL_INIT {}

/* As pattern_new(); the caller gets a reference. -E2BIG: PATTERNS_BYTES_MAX. */
int pattern_pool_get(struct pattern_pool *pool, const char *text, char error[PATTERN_ERROR_MAX], struct pattern **ret);
/* Drops the pool's own references. */
void pattern_pool_done(struct pattern_pool *pool);
