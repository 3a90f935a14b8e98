/* SPDX-License-Identifier: MIT */
#include "record/budget.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define MINUTE_NS (60 * NSEC_PER_SEC)
#define CRITICAL_FACTOR 10

bool budget_admit(struct budget *b, const struct report *r, uint64_t now_ns)
{
	bool is_critical = r->severity == SEVERITY_CRITICAL;
	uint64_t *passed = is_critical ? &b->passed_critical : &b->passed;
	uint64_t max = (uint64_t)b->per_minute * (is_critical ? CRITICAL_FACTOR : 1);

	if (b->per_minute == 0 || r->event >= REPORT_SAMPLE)
		return true;
	if (now_ns - b->window_ns >= MINUTE_NS || b->window_ns == 0) {
		b->window_ns = now_ns;
		b->passed = b->passed_critical = 0;
	}
	if (*passed < max) {
		(*passed)++;
		return true;
	}
	if (b->held == 0)
		b->due_ns = b->window_ns + MINUTE_NS;
	b->held++;
	b->held_by[r->severity]++;
	return false;
}

uint64_t budget_due_ns(const struct budget *b)
{
	return b->held > 0 ? b->due_ns : UINT64_MAX;
}

void budget_summary(struct budget *b, char *buf, size_t size)
{
	const char *before = ": ";
	size_t len;

	(void)snprintf(buf, size, "%" PRIu64 " record%s held back within a minute, over the budget of %" PRIu32 " a minute",
		       b->held, b->held == 1 ? "" : "s", b->per_minute);
	for (int s = SEVERITY_MAX - 1; s >= 0; s--) {
		if (b->held_by[s] == 0)
			continue;
		len = strlen(buf);
		(void)snprintf(buf + len, size - len, "%s%" PRIu64 " %s", before, b->held_by[s],
			       severity_name((enum severity)s));
		before = ", ";
	}
	b->held = 0;
	memset(b->held_by, 0, sizeof(b->held_by));
}
