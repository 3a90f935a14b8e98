/* SPDX-License-Identifier: MIT */
/* Moments as people name them, in the syntax of journalctl and systemd.time(7). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/*
 * "2026-11-30 22:00", "22:00:05.5", "yesterday", "yesterday 18:00", "now", "-1h", "3h ago", "+5min", "@1796000000",
 * "Mon 2026-11-30 22:00", "2026-11-30T22:00:00+02:00"; a time zone may follow: UTC, an offset, one that local time has
 * ("CEST"), or a name of the time zone database. Without one it is local time, the TZ of the process.
 *
 * A local time that exists twice is the first of both; one that clocks skip is as late as if they had not been put forward.
 *
 * *ret_usec: microseconds of the wall clock. 0; -EINVAL or -ERANGE, with *ret_why one line that says what is wrong (static).
 * Not for several threads: it may set TZ for a moment.
 */
int when_parse(const char *text, uint64_t now_usec, uint64_t *ret_usec, const char **ret_why);

/* Local time, for strftime(3); false where that cannot be told. */
bool when_local(uint64_t usec, struct tm *ret);
