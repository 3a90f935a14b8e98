/* SPDX-License-Identifier: MIT */
/* For those who fill a gpu_snapshot. */
#pragma once

#include "proc/nvml.h"

#define GPU_DEVICES_MAX 1024

/* A device that nothing is known of yet. */
struct gpu_device gpu_device_unknown(const char *driver);
/* Copies *d. 0, -ENOMEM, -E2BIG beyond GPU_DEVICES_MAX. */
int gpu_snapshot_add_device(struct gpu_snapshot *s, const struct gpu_device *d);
/* Room for count more processes, which the caller fills in from processes[process_count] on. 0 or -ENOMEM. */
int gpu_snapshot_grow(struct gpu_snapshot *s, size_t count);
/*
 * Makes one of what several sources say about a process and device, from place first on: kinds or-ed, of the bytes the
 * largest that is known. Not their sum: each source means all that the process has there.
 */
void gpu_snapshot_fold(struct gpu_snapshot *s, size_t first);
/* Moves devices and processes of from behind those of s; from is empty afterwards, on failure unchanged. 0, -ENOMEM. */
int gpu_snapshot_append(struct gpu_snapshot *s, struct gpu_snapshot *from);
/*
 * "00000000:3B:00.0" or "0000:3b:00.0" as Linux writes it: lower case, four digits of domain or as many as it needs. 0,
 * or -EINVAL with *ret empty.
 */
int gpu_pci_parse(const char *text, char ret[16]);
