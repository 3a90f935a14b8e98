/* SPDX-License-Identifier: MIT */
/* Monotonic inside, wall clock only in records. */
#pragma once

#include <stdint.h>

#define NSEC_PER_USEC UINT64_C(1000)
#define NSEC_PER_MSEC UINT64_C(1000000)
#define NSEC_PER_SEC UINT64_C(1000000000)
#define USEC_PER_SEC UINT64_C(1000000)

/* CLOCK_MONOTONIC, which stands still in suspend, and CLOCK_BOOTTIME, which does not; the time of day since 1970. */
uint64_t clock_monotonic_ns(void);
uint64_t clock_boot_ns(void);
uint64_t clock_thread_ns(void); /* processor time of this thread */
uint64_t clock_real_usec(void);
