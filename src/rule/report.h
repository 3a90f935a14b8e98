/* SPDX-License-Identifier: MIT */
/*
 * What the engine has to say: one report becomes one record. It owns or references all it names, so it stays right after
 * the process, the rule and the tables have changed. Fields that do not apply hold the "absent" value said beside them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "model/identity.h"
#include "model/stack.h"
#include "rule/rule.h"

enum report_event { /* GPUXRAY_EVENT */
	REPORT_LIVE_BYTES, /* the first eight as enum rule_kind */
	REPORT_SINGLE_ALLOC,
	REPORT_ALLOC_RATE,
	REPORT_ALLOC_FAILURE,
	REPORT_LEAK,
	REPORT_EXIT,
	REPORT_UNTRACKED_GROWTH,
	REPORT_ORPHAN,
	REPORT_COVERAGE, /* a process that holds memory by the driver's count and shows no call; no incident */
	REPORT_SAMPLE, /* the history: what a process holds on a device; no incident, as the next two */
	REPORT_PROCESS_EXIT,
	REPORT_SITE, /* the stack of a call site that samples name */
	REPORT_START, /* of the daemon: these carry text and no subject */
	REPORT_STOP,
	REPORT_RELOAD,
	REPORT_HEALTH,
	REPORT_EVENT_MAX,
};

enum report_state {
	STATE_NONE,
	STATE_FIRING,
	STATE_REPEAT,
	STATE_RESOLVED,
};

enum value_unit {
	VALUE_BYTES,
	VALUE_BYTES_PER_SEC,
	VALUE_CALLS_PER_SEC,
	VALUE_CALLS,
};

#define ABSENT_U64 UINT64_MAX
#define REPORT_SITES_MAX 5 /* of a sample */
#define REPORT_LEAK_SITES_MAX 3

struct report {
	enum report_event event;
	enum report_state state;
	enum severity severity;
	uint64_t real_usec;	/* wall clock of the event */
	char *rule;		/* NULL for the daemon's own records */
	char *runbook, *message; /* from the rule, may be NULL; message is expanded already */
	char *tags;		/* of the rule, with commas between them; NULL = none */
	uint8_t incident[16];
	uint32_t seq;		/* 0 = no incident */
	enum rule_scope scope;
	char *scope_key;	/* cgroup path, unit, user, container id or device uuid; NULL for a process */

	struct identity *id;	/* NULL when the subject is not a process */
	bool process_ended;	/* never send OBJECT_PID */
	uint32_t tid;		/* 0 = absent */

	char *device_uuid;	/* "GPU-..." or NULL */
	int device_index;	/* -1 = absent */
	uint64_t device_bytes, device_used_bytes; /* ABSENT_U64 */

	uint64_t value, limit;	/* ABSENT_U64 */
	enum value_unit value_unit;
	uint64_t bytes;		/* ABSENT_U64; see interface: GPUXRAY_BYTES */
	uint32_t classes;	/* bit mask of enum mem_class that the rule looks at; 0 = not known */
	uint64_t live_bytes, live_count, peak_bytes, host_bytes, managed_bytes, driver_bytes; /* ABSENT_U64 */
	uint64_t framework_bytes, imported_bytes, baseline_bytes; /* ABSENT_U64, also where there is none */
	uint32_t condition;	/* orphan: enum process_condition bits */
	const char *reason;	/* coverage: why it shows no call, a static text; NULL = not known */

	uint64_t growth_bytes_per_hour, full_in_sec, leaked_bytes, age_sec; /* ABSENT_U64 */
	/* leak: how sure, 0 to 1, negative = absent; what would make it wrong, enum leak_doubt bits; and the sites with most
	 * of the growth, the first of which is the stack above. */
	double confidence;
	uint32_t doubts;
	struct report_site {
		struct stack *stack; /* a reference; NULL = none is known */
		uint64_t bytes;	     /* of the growth; of a sample, live */
		uint64_t blocks;     /* of a sample */
	} sites[REPORT_SITES_MAX];
	size_t sites_len;
	uint64_t growth_sites_bytes; /* of the growth, all sites together: what the above are shares of */

	/* sample and process_exit; 0 or ABSENT_U64 where they do not apply */
	uint64_t low_bytes, high_bytes, high_usec; /* of bytes, since the sample before; when it was highest */
	uint64_t window_sec;	/* since then */
	uint64_t peak_usec;	/* when peak_bytes was reached, 0 = not known */
	uint64_t alloc_count, free_count, fail_count, allocated_bytes; /* of its life, all devices */
	bool is_first;		/* sample: this daemon has told of no earlier one of the process */
	char *device_peaks;	/* "UUID BYTES USEC" lines, or NULL */

	const char *function;	/* driver function: static string, or NULL */
	int error;		/* 0 = absent */

	struct stack *stack;	/* may be NULL */
	uint8_t stack_reason;	/* enum stack_reason when stack is NULL */
	uint64_t stack_bytes;	/* ABSENT_U64 */

	uint64_t suppressed;	/* records held back since the last one */
	uint64_t lost_events;	/* ABSENT_U64 */
	bool exact;
	uint64_t duration_ns;	/* resolved; ABSENT_U64 */

	uint64_t others;	/* summary beyond max_incidents: "N more"; 0 = not a summary */
	char *text;		/* the daemon's own records: their MESSAGE */
	char *detail;		/* ... and further FIELD=value lines, names with the GPUXRAY_ prefix, or NULL */
};

/* All numbers absent, exact = true. NULL when out of memory. */
struct report *report_new(enum report_event event);
void report_drop_sites(struct report *r);
void report_free(struct report *r); /* accepts NULL */
DEFINE_CLEANUP(struct report, report_free)
/* A confidence of 0 to 1 in whole percent, downwards: what is not quite certain does not read as if it were. */
unsigned report_percent(double confidence);
const char *report_event_name(enum report_event e);
const char *report_state_name(enum report_state s);
const char *value_unit_name(enum value_unit u);
