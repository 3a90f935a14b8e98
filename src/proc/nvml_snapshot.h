/* SPDX-License-Identifier: MIT */
/* For those who fill a gpu_snapshot. */
#pragma once

#include "proc/nvml.h"

#define GPU_DEVICES_MAX 1024

/* The most that can be: above is garbage. */
#define GPU_PERCENT_MAX 100
#define GPU_CELSIUS_MAX 200
#define GPU_MILLIWATTS_MAX 10000000 /* of one card */

/* A device that nothing is known of yet. */
struct gpu_device gpu_device_unknown(const char *driver);
/* Copies *d. 0, -ENOMEM, -E2BIG beyond GPU_DEVICES_MAX. */
int gpu_snapshot_add_device(struct gpu_snapshot *s, const struct gpu_device *d);
/* Room for count more processes, which the caller fills in from processes[process_count] on. 0 or -ENOMEM. */
int gpu_snapshot_grow(struct gpu_snapshot *s, size_t count);
/*
 * Makes one of what several sources say about a process and device, from place first on: kinds or-ed, of the bytes the
 * largest that is known. Not their sum: each source means all that the process has there. Its share of the
 * multiprocessors is known only if all of them say one, and then the largest.
 */
void gpu_snapshot_fold(struct gpu_snapshot *s, size_t first);
/* Both are released by whoever has them. 0 or -ENOMEM. */
int gpu_snapshot_copy(const struct gpu_snapshot *from, struct gpu_snapshot *ret);
/* The value, or UINT32_MAX when it is UINT64_MAX, or more than max: then it is counted. */
uint32_t gpu_figure(uint64_t value, uint64_t max, size_t *left_out);
/* Moves devices and processes of from behind those of s; from is empty afterwards, on failure unchanged. 0, -ENOMEM. */
int gpu_snapshot_append(struct gpu_snapshot *s, struct gpu_snapshot *from);
/*
 * "00000000:3B:00.0" or "0000:3b:00.0" as Linux writes it: lower case, four digits of domain or as many as it needs. 0,
 * or -EINVAL with *ret empty.
 */
int gpu_pci_parse(const char *text, char ret[16]);
