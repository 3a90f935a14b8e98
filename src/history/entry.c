/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "history/entry.h"

#define DAY_USEC (24 * 3600 * USEC_PER_SEC)

static const char *const names[ENTRY_FIELD_MAX] = {
	[ENTRY_HOSTNAME] = "_HOSTNAME",
	[ENTRY_MACHINE_ID] = "_MACHINE_ID",
	[ENTRY_BOOT_ID] = "_BOOT_ID",
	[ENTRY_SENDER] = "_PID",
	[ENTRY_MESSAGE] = "MESSAGE",
#define OURS(f) [ENTRY_##f] = "GPUXRAY_" #f
	OURS(EVENT), OURS(RULE), OURS(SEVERITY), OURS(STATE), OURS(INCIDENT), OURS(SEQ), OURS(SCOPE), OURS(OTHERS),
	OURS(TIME_USEC), OURS(PID), OURS(START_TIME), OURS(COMM), OURS(EXE), OURS(CMDLINE), OURS(USER), OURS(UNIT),
	OURS(CGROUP), OURS(CONTAINER), OURS(POD), OURS(SLURM_JOB), OURS(TAG), OURS(POD_NAME), OURS(POD_NAMESPACE),
	OURS(CONTAINER_NAME),
	OURS(DEVICE), OURS(DEVICE_INDEX), OURS(DEVICE_BYTES), OURS(DEVICE_USED_BYTES), OURS(DEVICE_PEAKS),
	OURS(VALUE), OURS(LIMIT), OURS(VALUE_UNIT), OURS(BYTES), OURS(LOW_BYTES), OURS(HIGH_BYTES), OURS(HIGH_TIME_USEC),
	OURS(WINDOW_SEC), OURS(LIVE_BYTES), OURS(LIVE_COUNT), OURS(PEAK_BYTES), OURS(PEAK_TIME_USEC), OURS(HOST_BYTES),
	OURS(MANAGED_BYTES), OURS(DRIVER_BYTES), OURS(ALLOC_COUNT), OURS(FREE_COUNT), OURS(FAIL_COUNT),
	OURS(ALLOCATED_BYTES), OURS(GROWTH_BYTES_PER_HOUR), OURS(FULL_IN_SEC), OURS(LEAKED_BYTES), OURS(CONFIDENCE),
	OURS(CAVEAT), OURS(FUNCTION), OURS(ERROR), OURS(STACK), OURS(STACK_ID), OURS(STACK_BYTES), OURS(STACK_INFO),
	OURS(TOP_SITES), OURS(DURATION_SEC), OURS(SUPPRESSED), OURS(LOST_EVENTS), OURS(EXACT), OURS(REASON),
	OURS(RECORDS_WRITTEN), OURS(HEALTH_SEC), OURS(ASLEEP_SEC), OURS(VERSION),
#undef OURS
	[ENTRY_DOCUMENTATION] = "DOCUMENTATION",
};

/* Field by name, open addressing; 0 = empty. A stretch of a week has tens of millions of names to be told apart. */
#define TABLE_SIZE 256
static struct {
	uint8_t field_plus_one, len;
} table[TABLE_SIZE];

static size_t table_place(const char *name, size_t len)
{
	const unsigned char *p = (const unsigned char *)name;

	return (len * 5 + p[len - 1] * 3u + p[len / 2] * 17u + p[len > 9 ? 9 : 0] * 41u) % TABLE_SIZE;
}

/* Before main(), so that no reading thread has to ask whether it is done. */
__attribute__((constructor)) static void table_fill(void)
{
	for (size_t f = 0; f < ENTRY_FIELD_MAX; f++) {
		size_t len = strlen(names[f]), i = table_place(names[f], len);

		while (table[i].field_plus_one)
			i = (i + 1) % TABLE_SIZE;
		table[i].field_plus_one = (uint8_t)(f + 1);
		table[i].len = (uint8_t)len;
	}
}

/* By its first letters alone: most of what the journal adds of its own is none of ours. */
static bool may_be_ours(const char *name, size_t len)
{
	if (len < 2)
		return false;
	if (name[0] == '_')
		return name[1] == 'H' || name[1] == 'M' || name[1] == 'B' || name[1] == 'P';
	return name[0] == 'G' || name[0] == 'M' || name[0] == 'D';
}

int entry_field_from_data(const void *data, size_t len, const char **ret_value, size_t *ret_len)
{
	const char *name = data, *equals;
	size_t name_len;

	if (!may_be_ours(name, len))
		return -1;
	/* No field of ours has a longer name. */
	equals = memchr(name, '=', MIN(len, 40));
	if (!equals)
		return -1;
	name_len = (size_t)(equals - name);
	for (size_t i = table_place(name, name_len); table[i].field_plus_one; i = (i + 1) % TABLE_SIZE) {
		int f = table[i].field_plus_one - 1;

		if (table[i].len != name_len || memcmp(names[f], name, name_len) != 0)
			continue;
		*ret_value = equals + 1;
		*ret_len = len - name_len - 1;
		return f;
	}
	return -1;
}

const char *entry_field_name(enum entry_field f)
{
	return names[f];
}

int entry_u64(const struct entry *e, enum entry_field f, uint64_t *ret)
{
	const char *p = e->field[f].data;
	uint64_t v = 0;

	if (!p)
		return -ENOENT;
	if (e->field[f].len == 0)
		return -EINVAL;
	for (const char *end = p + e->field[f].len; p < end; p++) {
		unsigned digit = (unsigned)(unsigned char)*p - '0';

		if (digit > 9 || __builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, digit, &v))
			return -EINVAL;
	}
	*ret = v;
	return 0;
}

bool entry_is(const struct entry *e, enum entry_field f, const char *value)
{
	return e->field[f].data && e->field[f].len == strlen(value) && memcmp(e->field[f].data, value, e->field[f].len) == 0;
}

uint64_t entry_usec(const struct entry *e)
{
	uint64_t usec;

	if (entry_u64(e, ENTRY_TIME_USEC, &usec) < 0 || usec > e->real_usec || e->real_usec - usec > DAY_USEC)
		return e->real_usec;
	return usec;
}
