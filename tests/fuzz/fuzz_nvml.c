/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as the records that NVML wrote: no process twice, none that cannot be, never more bytes than the device
 * has. Input: form that the name promises (1: v1), count, total in MiB (2, 0 = not known), what was written. With 4 in the
 * first byte they are samples of processes' work: no more than all, and none from before.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proc/nvml_records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* since: the samples begin there. */
static void fuzz_samples(const uint8_t *data, size_t size, size_t count, uint64_t since)
{
	_cleanup_free_ unsigned char *raw = malloc(MAX(size, count * NVML_RECORD_ROOM) + 1);
	_cleanup_free_ struct nvml_share *list = calloc(count + 1, sizeof(*list));
	size_t n, left_out;

	if (!raw || !list)
		return;
	memset(raw, NVML_UNTOUCHED, MAX(size, count * NVML_RECORD_ROOM));
	memcpy(raw, data, size);
	n = nvml_samples_read(raw, count, since, UINT64_MAX / 2, list, &left_out);
	/* One that says too much is left out and stays, not known. */
	if (n > count || left_out > count)
		abort();
	for (size_t i = 0; i < n; i++) {
		if (list[i].pid == 0 || list[i].pid > 4194304 || (i > 0 && list[i].pid <= list[i - 1].pid))
			abort();
		if (list[i].stamp_usec <= since || (list[i].sm_percent > 100 && list[i].sm_percent != UINT32_MAX))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ struct nvml_record *list = NULL;
	_cleanup_free_ unsigned char *raw = NULL;
	enum nvml_record_form form;
	uint64_t total = UINT64_MAX;
	size_t count, len, n, left_out;

	if (size < 4)
		return 0;
	form = data[0] & 1 ? NVML_RECORD_V1 : NVML_RECORD_V2;
	count = data[1];
	if (data[2] || data[3])
		total = ((uint64_t)data[2] | (uint64_t)data[3] << 8) << 20;
	if (data[0] & 4) {
		fuzz_samples(data + 4, size - 4, count, total == UINT64_MAX ? 0 : total);
		return 0;
	}
	/* Mostly as the caller has it; sometimes less than the count would need. */
	len = data[0] & 2 ? size - 4 : MAX(size - 4, count * NVML_RECORD_ROOM);
	raw = malloc(len ? len : 1);
	list = calloc(count ? count : 1, sizeof(*list));
	if (!raw || !list)
		return 0;
	memset(raw, NVML_UNTOUCHED, len);
	memcpy(raw, data + 4, size - 4);
	n = nvml_records_read(raw, len, count, form, total, list, &left_out);
	if (n + left_out > count)
		abort();
	for (size_t i = 0; i < n; i++) {
		if (list[i].pid == 0 || list[i].pid > 4194304 || (i > 0 && list[i].pid <= list[i - 1].pid))
			abort();
		if (total != UINT64_MAX && list[i].used_bytes != UINT64_MAX && list[i].used_bytes > total)
			abort();
	}
	return 0;
}
