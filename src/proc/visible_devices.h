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
/* Value of name in the text of /proc/PID/environ; the caller frees it. 0, -ENOENT, -ENOMEM. */
int environ_get(const char *text, size_t len, const char *name, char **ret);
