/* SPDX-License-Identifier: MIT */
/* Is somebody there to end a process, and can it be ended? */
#pragma once

#include <stdint.h>

/*
 * Looks at a process that started at start_ticks and whose parent was ppid then (0 = not known). ret: bits of enum
 * process_condition (model/process.h), 0 = nothing is wrong. Whether state D lasts is the caller's to tell by looking
 * again. 0; -ESRCH when there is no such process, or another one bears its pid; -errno.
 */
int proc_condition_read(const char *proc_root, uint32_t pid, uint64_t start_ticks, uint32_t ppid, uint32_t *ret);
