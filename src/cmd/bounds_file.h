/* SPDX-License-Identifier: MIT */
/*
 * Where growth of call sites has stopped, as a text file that outlives daemon and host:
 *
 *   gpuxray bounds 1
 *   0123456789abcdef 1073741824 20423
 *
 * a site's id in hexadecimal digits, bytes, and the day on which that was last seen, counted from 1970. No I/O but in
 * bounds_write().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

#define BOUNDS_LINES_MAX 4096
#define BOUNDS_FILE_MAX (256u << 10) /* so many lines, the longest there are, take less */
/* What was not seen for longer is forgotten: the program is another one by now, or gone. */
#define BOUNDS_DAYS_MAX 90

struct bound_line {
	uint64_t id, bytes;
	uint32_t day;
};

/* The text of the file: its first line, then one for each site. What fails is seen in sb->error. */
void bounds_begin(struct strbuf *sb);
void bounds_add(struct strbuf *sb, const struct bound_line *l);
/*
 * Calls one() for each line that is one, up to BOUNDS_LINES_MAX. today: what is too old for it is passed over; a day
 * that is yet to come counts as today. *ret_bad: lines that are none, or beyond the most. 0, -EINVAL: no such file at
 * all.
 */
int bounds_parse(const char *text, size_t len, uint32_t today, void (*one)(const struct bound_line *l, void *userdata),
		 void *userdata, size_t *ret_bad);
/* Takes the place of the file at once or not at all. 0 or -errno. */
int bounds_write(const char *path, const char *text, size_t len);
