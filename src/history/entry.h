/* SPDX-License-Identifier: MIT */
/*
 * One record as the journal gives it back. What is in it is foreign: anybody may write records that call themselves ours,
 * so nothing is trusted beyond its form. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

enum entry_field {
	/* of the journal */
	ENTRY_HOSTNAME,	  /* _HOSTNAME */
	ENTRY_MACHINE_ID, /* _MACHINE_ID */
	ENTRY_BOOT_ID,	  /* _BOOT_ID */
	ENTRY_SENDER,	  /* _PID: of the daemon that wrote it */
	/* of the record, GPUXRAY_ left out where it begins with that */
	ENTRY_MESSAGE,
	ENTRY_EVENT, ENTRY_RULE, ENTRY_SEVERITY, ENTRY_STATE, ENTRY_INCIDENT, ENTRY_SEQ, ENTRY_SCOPE, ENTRY_OTHERS,
	ENTRY_TIME_USEC, ENTRY_PID, ENTRY_START_TIME, ENTRY_COMM, ENTRY_EXE, ENTRY_CMDLINE, ENTRY_USER, ENTRY_UNIT,
	ENTRY_CGROUP, ENTRY_CONTAINER, ENTRY_POD, ENTRY_SLURM_JOB, ENTRY_TAG, ENTRY_POD_NAME, ENTRY_POD_NAMESPACE,
	ENTRY_CONTAINER_NAME,
	ENTRY_DEVICE, ENTRY_DEVICE_INDEX, ENTRY_DEVICE_BYTES, ENTRY_DEVICE_USED_BYTES, ENTRY_DEVICE_PEAKS,
	ENTRY_VALUE, ENTRY_LIMIT, ENTRY_VALUE_UNIT, ENTRY_BYTES, ENTRY_LOW_BYTES, ENTRY_HIGH_BYTES, ENTRY_HIGH_TIME_USEC,
	ENTRY_WINDOW_SEC, ENTRY_LIVE_BYTES, ENTRY_LIVE_COUNT, ENTRY_PEAK_BYTES, ENTRY_PEAK_TIME_USEC, ENTRY_HOST_BYTES,
	ENTRY_MANAGED_BYTES, ENTRY_DRIVER_BYTES, ENTRY_ALLOC_COUNT, ENTRY_FREE_COUNT, ENTRY_FAIL_COUNT,
	ENTRY_ALLOCATED_BYTES, ENTRY_GROWTH_BYTES_PER_HOUR, ENTRY_FULL_IN_SEC, ENTRY_LEAKED_BYTES, ENTRY_CONFIDENCE,
	ENTRY_CAVEAT, ENTRY_FUNCTION, ENTRY_ERROR, ENTRY_STACK, ENTRY_STACK_ID, ENTRY_STACK_BYTES, ENTRY_STACK_INFO,
	ENTRY_TOP_SITES, ENTRY_DURATION_SEC, ENTRY_SUPPRESSED, ENTRY_LOST_EVENTS, ENTRY_EXACT, ENTRY_REASON,
	ENTRY_RECORDS_WRITTEN, ENTRY_HEALTH_SEC, ENTRY_ASLEEP_SEC, ENTRY_VERSION, ENTRY_DOCUMENTATION,
	ENTRY_FIELD_MAX
};

struct entry {
	uint64_t real_usec; /* when the journal received it */
	/* Value of each field, NULL = it has none. Not NUL-terminated: it may point into the journal's memory. */
	struct {
		const char *data;
		size_t len;
	} field[ENTRY_FIELD_MAX];
};

/* The field a journal entry's data ("NAME=value") is for, -1 = none of ours; *ret_value, *ret_len its value. */
int entry_field_from_data(const void *data, size_t len, const char **ret_value, size_t *ret_len);
/* Name in the journal, "GPUXRAY_PID". */
const char *entry_field_name(enum entry_field f);
/* Decimal number. 0, -ENOENT (it has no such field), -EINVAL (no number, or over 64 bits). */
int entry_u64(const struct entry *e, enum entry_field f, uint64_t *ret);
bool entry_is(const struct entry *e, enum entry_field f, const char *value);
/* When it happened: GPUXRAY_TIME_USEC where that is believable (at most a day before the journal received it, and not
 * after), else real_usec. */
uint64_t entry_usec(const struct entry *e);
