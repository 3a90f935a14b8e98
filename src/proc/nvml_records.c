/* SPDX-License-Identifier: MIT */
#include "proc/nvml_records.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/nvml_snapshot.h"

/* The largest that Linux can be told to give, on any architecture. */
#define PID_LIMIT 4194304
/* A card has a handful of instances; their numbers are small. */
#define INSTANCE_LIMIT 256
/* How far the driver's clock may be ahead of ours. */
#define AHEAD_USEC (60 * USEC_PER_SEC)
#define USED_UNTOUCHED (UINT64_MAX / 0xff * NVML_UNTOUCHED)

static struct nvml_record record_at(const unsigned char *raw, size_t form, size_t i)
{
	struct nvml_record r = { .gpu_instance = UINT32_MAX, .compute_instance = UINT32_MAX };
	const unsigned char *at = raw + i * form;

	memcpy(&r.pid, at, sizeof(r.pid));
	memcpy(&r.used_bytes, at + 8, sizeof(r.used_bytes));
	if (form >= NVML_RECORD_V2) {
		memcpy(&r.gpu_instance, at + 16, sizeof(r.gpu_instance));
		memcpy(&r.compute_instance, at + 20, sizeof(r.compute_instance));
	}
	return r;
}

static bool pid_can_be(uint32_t pid)
{
	return pid != 0 && pid <= PID_LIMIT;
}

static bool used_can_be(uint64_t used, uint64_t total)
{
	if (used == UINT64_MAX)
		return true;
	return used != USED_UNTOUCHED && (total == UINT64_MAX || used <= total);
}

static bool instance_can_be(uint32_t instance)
{
	return instance == UINT32_MAX || instance < INSTANCE_LIMIT;
}

/* How much of it makes no sense when read in this form. *ret_absurd: pids that are no placeholders either. */
static size_t count_faults(const unsigned char *raw, size_t form, size_t count, uint64_t total, size_t *ret_absurd)
{
	size_t faults = 0, absurd = 0;

	for (size_t i = 0; i < count; i++) {
		struct nvml_record r = record_at(raw, form, i);

		faults += !pid_can_be(r.pid);
		faults += !used_can_be(r.used_bytes, total);
		faults += !instance_can_be(r.gpu_instance) || !instance_can_be(r.compute_instance);
		absurd += !pid_can_be(r.pid) && r.pid != 0 && r.pid != UINT32_MAX;
	}
	*ret_absurd = absurd;
	return faults;
}

/* Bytes from the start that the call wrote to, as far as can be seen. */
static size_t touched_len(const unsigned char *raw, size_t raw_len)
{
	while (raw_len > 0 && raw[raw_len - 1] == NVML_UNTOUCHED)
		raw_len--;
	return raw_len;
}

/*
 * The form of the records behind a name that promises a certain one: the longer when bytes behind the end of the
 * shorter were written, unless that makes less sense than the other way to read them.
 */
static size_t find_form(const unsigned char *raw, size_t raw_len, size_t count, size_t promised, uint64_t total,
			bool *ret_is_doubtful)
{
	static const size_t forms[] = { NVML_RECORD_V1, NVML_RECORD_V2, NVML_RECORD_V535 };
	size_t touched = touched_len(raw, raw_len), best = promised, best_faults = SIZE_MAX, best_absurd = 0;

	for (int is_fallback = 0; is_fallback < 2; is_fallback++) {
		for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
			bool is_next_longer = i + 1 < ARRAY_SIZE(forms) && touched > count * forms[i];
			size_t faults, absurd;

			if (forms[i] < promised || count * forms[i] > raw_len || is_next_longer != is_fallback)
				continue;
			faults = count_faults(raw, forms[i], count, total, &absurd);
			if (faults < best_faults) {
				best = forms[i];
				best_faults = faults;
				best_absurd = absurd;
			}
		}
	}
	*ret_is_doubtful = best_absurd > count / 2;
	return best;
}

static int record_compare(const void *a, const void *b)
{
	const struct nvml_record *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->gpu_instance != y->gpu_instance)
		return x->gpu_instance < y->gpu_instance ? -1 : 1;
	if (x->compute_instance != y->compute_instance)
		return x->compute_instance < y->compute_instance ? -1 : 1;
	return (x->used_bytes > y->used_bytes) - (x->used_bytes < y->used_bytes);
}

/*
 * One record a process. In one list several of them are for as many instances, as a card in MIG mode gives them when it
 * is asked itself, and add up; a record that comes twice counts once.
 */
static size_t fold(struct nvml_record *list, size_t count, uint64_t total)
{
	size_t kept = 0;

	qsort(list, count, sizeof(*list), record_compare);
	for (size_t i = 0; i < count; i++) {
		struct nvml_record r = list[i], *to = &list[kept];

		/* Of one instance the last is the largest. */
		if (i + 1 < count && list[i + 1].pid == r.pid && list[i + 1].gpu_instance == r.gpu_instance &&
		    list[i + 1].compute_instance == r.compute_instance)
			continue;
		if (kept > 0 && to[-1].pid == r.pid) {
			if (to[-1].used_bytes == UINT64_MAX || r.used_bytes == UINT64_MAX ||
			    __builtin_add_overflow(to[-1].used_bytes, r.used_bytes, &to[-1].used_bytes) ||
			    !used_can_be(to[-1].used_bytes, total))
				to[-1].used_bytes = UINT64_MAX;
			continue;
		}
		list[kept++] = r;
	}
	return kept;
}

size_t nvml_records_read(const unsigned char *raw, size_t raw_len, size_t count, enum nvml_record_form form,
			 uint64_t total_bytes, struct nvml_record *ret, size_t *ret_left_out)
{
	size_t size, kept = 0;
	bool is_doubtful;

	*ret_left_out = 0;
	if (count == 0)
		return 0;
	if (count > raw_len / form) {
		*ret_left_out = count;
		return 0;
	}
	size = find_form(raw, raw_len, count, form, total_bytes, &is_doubtful);
	for (size_t i = 0; i < count; i++) {
		struct nvml_record r = record_at(raw, size, i);

		if (!pid_can_be(r.pid)) {
			(*ret_left_out)++;
			continue;
		}
		/* Records that are mostly nonsense are of a form we do not know: what looks like a number is none. */
		if (is_doubtful || !used_can_be(r.used_bytes, total_bytes))
			r.used_bytes = UINT64_MAX;
		ret[kept++] = r;
	}
	return kept > 0 ? fold(ret, kept, total_bytes) : 0;
}

static struct nvml_share sample_at(const unsigned char *raw, size_t i)
{
	const unsigned char *at = raw + i * NVML_SAMPLE_BYTES;
	struct nvml_share s;

	memcpy(&s.pid, at, sizeof(s.pid));
	memcpy(&s.stamp_usec, at + 8, sizeof(s.stamp_usec));
	memcpy(&s.sm_percent, at + 16, sizeof(s.sm_percent));
	return s;
}

/* Counted among the records, but never filled in. */
static bool is_empty(const struct nvml_share *s)
{
	const uint32_t untouched = UINT32_MAX / 0xff * NVML_UNTOUCHED;

	return (s->pid == 0 && s->sm_percent == 0) || (s->pid == untouched && s->sm_percent == untouched);
}

static int share_compare(const void *a, const void *b)
{
	const struct nvml_share *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->stamp_usec != y->stamp_usec)
		return x->stamp_usec < y->stamp_usec ? -1 : 1;
	return (x->sm_percent > y->sm_percent) - (x->sm_percent < y->sm_percent);
}

size_t nvml_samples_read(const unsigned char *raw, size_t count, uint64_t since_usec, uint64_t now_usec,
			 struct nvml_share *ret, size_t *ret_left_out)
{
	size_t found = 0, kept = 0;

	*ret_left_out = 0;
	for (size_t i = 0; i < count; i++) {
		struct nvml_share s = sample_at(raw, i);

		if (is_empty(&s) || s.stamp_usec <= since_usec)
			continue;
		if (!pid_can_be(s.pid) || s.stamp_usec > now_usec + AHEAD_USEC) {
			(*ret_left_out)++;
			continue;
		}
		s.sm_percent = gpu_figure(s.sm_percent, GPU_PERCENT_MAX, ret_left_out);
		ret[found++] = s;
	}
	if (found == 0)
		return 0;
	qsort(ret, found, sizeof(*ret), share_compare);
	for (size_t i = 1; i < found; i++) {
		kept += ret[i].pid != ret[kept].pid;
		ret[kept] = ret[i];
	}
	return kept + 1;
}
