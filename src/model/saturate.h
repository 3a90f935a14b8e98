/* SPDX-License-Identifier: MIT */
/* Totals that neither wrap nor go negative, whatever sizes a process claims. */
#pragma once

#include <stdint.h>

#include "../bpf/event.h"

/* Returns what was really added: less than n only where the total reached its ceiling. */
static inline uint64_t sat_add(uint64_t *total, uint64_t n)
{
	uint64_t room = UINT64_MAX - *total, added = n < room ? n : room;

	*total += added;
	return added;
}

/* Returns what was really taken: less than n only where the total reached zero. */
static inline uint64_t sat_sub(uint64_t *total, uint64_t n)
{
	uint64_t taken = n < *total ? n : *total;

	*total -= taken;
	return taken;
}

static inline uint64_t sat_diff(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Sum over the classes of a mask. */
static inline uint64_t sat_sum(const uint64_t live[CLASS_MAX], uint32_t classes)
{
	uint64_t sum = 0;

	for (uint32_t c = 0; c < CLASS_MAX; c++) {
		if (classes & (1u << c))
			(void)sat_add(&sum, live[c]);
	}
	return sum;
}
