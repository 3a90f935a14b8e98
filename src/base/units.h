/* SPDX-License-Identifier: MIT */
/* Sizes, shares, durations and rates as people write them: the only parser of units. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* "512MiB", "40GiB", "1.5 GiB", "100kB", "0B". A unit is required: B, kB MB GB TB (powers of 1000), KiB MiB GiB TiB.
 * 0, -EINVAL (not a size), -ERANGE (does not fit 64 bits). */
int parse_size(const char *s, uint64_t *ret_bytes);
/* "92%" or "92.5%" -> 0.92. 0, -EINVAL, -ERANGE (below 0 or above 100). */
int parse_share(const char *s, double *ret_share);
/* "30s", "250ms", "1h30m", "2d", "0s". 0, -EINVAL, -ERANGE. */
int parse_duration(const char *s, uint64_t *ret_ns);
/* "2000/s", "120/m", "8GiB/s": per second afterwards. *ret_is_bytes tells which. 0, -EINVAL, -ERANGE. */
int parse_rate(const char *s, double *ret_per_sec, int *ret_is_bytes);
/* "10/10m": count and window. */
int parse_budget(const char *s, uint32_t *ret_count, uint64_t *ret_window_ns);
/* Decimal integer, all of the string. */
int parse_u64(const char *s, uint64_t *ret);
int parse_u32(const char *s, uint32_t *ret);

#define FORMAT_UNITS_MAX 32
/* "41.2 GiB", "512 B", "100 MiB"; returns buf. */
const char *format_bytes(char buf[FORMAT_UNITS_MAX], uint64_t bytes);
/* "1h 30m", "45s", "250ms", "0s"; the two largest units only. */
const char *format_duration(char buf[FORMAT_UNITS_MAX], uint64_t ns);
