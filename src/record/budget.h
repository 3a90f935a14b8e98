/* SPDX-License-Identifier: MIT */
/*
 * Records a minute, so that a crowd of processes that cross a limit together neither floods the journal nor trips its
 * rate limit, which drops without a trace. Pure: the caller brings the clock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rule/report.h"

struct budget {
	uint32_t per_minute; /* 0 = no budget */
	uint64_t window_ns;  /* when the running minute began */
	uint64_t passed, passed_critical;
	uint64_t due_ns;     /* of the summary; valid while something is held */
	uint64_t held;
	uint64_t held_by[SEVERITY_MAX];
};

/* May it pass? Critical ones have ten times the budget for themselves; the daemon's own records always may, and so may
 * those of the history, for which the engine has a budget. */
bool budget_admit(struct budget *b, const struct report *r, uint64_t now_ns);
/* When to say what was held back: UINT64_MAX while there is nothing to say. */
uint64_t budget_due_ns(const struct budget *b);
/* The words, at most size bytes; starts afresh. */
void budget_summary(struct budget *b, char *buf, size_t size);
