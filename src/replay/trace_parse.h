/* SPDX-License-Identifier: MIT */
/* Lines of a trace as values. Private to the format. */
#pragma once

#include <limits.h>
#include <stdint.h>

#include "base/error.h"
#include "replay/trace.h"

/* Which line is read, for errors. */
struct trace_place {
	struct errors *errors;
	const char *name;
	uint64_t line;
};

/* Always -EINVAL. */
#define trace_error(p, ...)                                                                                            \
	errors_add((p)->errors, (p)->name, (p)->line > INT_MAX ? INT_MAX : (int)(p)->line, __VA_ARGS__)
/* How words of a file are quoted: they may be of any length. */
#define WORD "\"%.60s\""

/* The next word, ended by a NUL byte in place; *at moves behind it. NULL at the end of the line. */
char *trace_word(char **at);
/* Decimal, or hexadecimal with 0x. 0, -EINVAL, -ERANGE (over max). */
int trace_number(const char *s, uint64_t max, uint64_t *ret);

/* Where the values of an item go. */
struct trace_target {
	struct trace_item item;
	struct identity *identity; /* of the item; a new one each time, the caller's to release. May be there already */
	struct books books;
};

/* A line that is neither blank, comment, clock nor stack, without its newline. It is changed, and texts of the item lie
 * in it. 0, -EINVAL, -ENOMEM. */
int trace_parse_item(const struct trace_place *p, char *line, struct trace_target *t);
/* What is behind "clock". 0 or -EINVAL. */
int trace_parse_clock(const struct trace_place *p, char *rest, struct trace_clock *ret);
