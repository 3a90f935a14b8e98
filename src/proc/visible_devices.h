/* SPDX-License-Identifier: MIT */
/* Which device a process means by an ordinal, when it has not asked the driver for the device's UUID in our sight. */
#pragma once

#include <stddef.h>

#include "proc/nvml.h"

/*
 * value: CUDA_VISIBLE_DEVICES of the process, NULL when not set. Entries are indices or UUID prefixes ("GPU-8932f937",
 * "MIG-..."); an entry that names no device ends the list, as in the CUDA programming guide. Without the variable the
 * driver's default order (fastest first) is the bus order that NVML uses wherever all cards are alike. NULL when not
 * known. Owned by the snapshot.
 */
const struct gpu_device *visible_device(const char *value, const struct gpu_snapshot *s, int ordinal);
/*
 * The same for a process on AMD's HIP. ROCR_VISIBLE_DEVICES chooses among the machine's cards, HIP_VISIBLE_DEVICES
 * among those, and CUDA_VISIBLE_DEVICES takes its place where that is not set or empty; NULL = not set. Entries are
 * indices or UUIDs ("GPU-" and 16 hexadecimal digits); a card that comes twice counts once, and one that is not there
 * ends the list. An empty ROCR_VISIBLE_DEVICES hides all cards, the other two hide none then. The machine's order is
 * taken to be that of its "amdgpu" devices in the snapshot.
 */
struct visible_hip {
	const char *rocr, *hip, *cuda;
};
const struct gpu_device *visible_device_hip(const struct visible_hip *v, const struct gpu_snapshot *s, int ordinal);
/* Value of name in the text of /proc/PID/environ; the caller frees it. 0, -ENOENT, -ENOMEM. */
int environ_get(const char *text, size_t len, const char *name, char **ret);
