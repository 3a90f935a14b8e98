/* SPDX-License-Identifier: MIT */
#include "rule/report.h"

#include <stdlib.h>

static const char *const event_names[REPORT_EVENT_MAX] = {
	[REPORT_LIVE_BYTES] = "live_bytes",	  [REPORT_SINGLE_ALLOC] = "single_alloc",
	[REPORT_ALLOC_RATE] = "alloc_rate",	  [REPORT_ALLOC_FAILURE] = "alloc_failure",
	[REPORT_LEAK] = "leak",			  [REPORT_EXIT] = "exit",
	[REPORT_UNTRACKED_GROWTH] = "untracked_growth", [REPORT_ORPHAN] = "orphan",
	[REPORT_COVERAGE] = "coverage",		  [REPORT_SAMPLE] = "sample",
	[REPORT_PROCESS_EXIT] = "process_exit",	  [REPORT_SITE] = "site",
	[REPORT_START] = "start",		  [REPORT_STOP] = "stop",
	[REPORT_RELOAD] = "reload",		  [REPORT_HEALTH] = "health",
};

_Static_assert((int)REPORT_LIVE_BYTES == (int)RULE_LIVE_BYTES && (int)REPORT_SINGLE_ALLOC == (int)RULE_SINGLE_ALLOC &&
		       (int)REPORT_ALLOC_RATE == (int)RULE_ALLOC_RATE &&
		       (int)REPORT_ALLOC_FAILURE == (int)RULE_ALLOC_FAILURE && (int)REPORT_LEAK == (int)RULE_LEAK &&
		       (int)REPORT_EXIT == (int)RULE_EXIT &&
		       (int)REPORT_UNTRACKED_GROWTH == (int)RULE_UNTRACKED_GROWTH &&
		       (int)REPORT_ORPHAN == (int)RULE_ORPHAN && (int)RULE_KIND_MAX == (int)REPORT_COVERAGE,
	       "an incident's event is its rule's kind");

struct report *report_new(enum report_event event)
{
	struct report *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->event = event;
	r->device_index = -1;
	r->device_bytes = r->device_used_bytes = ABSENT_U64;
	r->value = r->limit = r->bytes = ABSENT_U64;
	r->live_bytes = r->live_count = r->peak_bytes = r->host_bytes = r->managed_bytes = ABSENT_U64;
	r->driver_bytes = r->framework_bytes = r->imported_bytes = r->baseline_bytes = ABSENT_U64;
	r->growth_bytes_per_hour = r->full_in_sec = r->leaked_bytes = r->age_sec = ABSENT_U64;
	r->stack_bytes = r->lost_events = r->duration_ns = ABSENT_U64;
	r->low_bytes = r->high_bytes = r->window_sec = ABSENT_U64;
	r->alloc_count = r->free_count = r->fail_count = r->allocated_bytes = ABSENT_U64;
	r->confidence = -1;
	r->exact = true;
	return r;
}

void report_drop_sites(struct report *r)
{
	for (size_t i = 0; i < r->sites_len; i++)
		stack_unref(r->sites[i].stack);
	r->sites_len = 0;
}

void report_free(struct report *r)
{
	if (!r)
		return;
	free(r->rule);
	free(r->runbook);
	free(r->message);
	free(r->tags);
	free(r->scope_key);
	identity_unref(r->id);
	free(r->device_uuid);
	stack_unref(r->stack);
	report_drop_sites(r);
	free(r->device_peaks);
	free(r->text);
	free(r->detail);
	free(r);
}

unsigned report_percent(double confidence)
{
	return (unsigned)(MIN(confidence, 1.0) * 100 + 1e-9);
}

const char *report_event_name(enum report_event e)
{
	return e < REPORT_EVENT_MAX ? event_names[e] : "unknown";
}

const char *report_state_name(enum report_state s)
{
	switch (s) {
	case STATE_FIRING:
		return "firing";
	case STATE_REPEAT:
		return "repeat";
	case STATE_RESOLVED:
		return "resolved";
	case STATE_NONE:
		break;
	}
	return "none";
}

const char *value_unit_name(enum value_unit u)
{
	static const char *const names[] = {
		[VALUE_BYTES] = "bytes",
		[VALUE_BYTES_PER_SEC] = "bytes/s",
		[VALUE_CALLS_PER_SEC] = "calls/s",
		[VALUE_CALLS] = "calls",
	};

	return names[u];
}
