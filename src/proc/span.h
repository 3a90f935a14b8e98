/* SPDX-License-Identifier: MIT */
/* Pieces of a text, not terminated, for the parsers of this room. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"

struct span {
	const char *p;
	size_t len;
};

static inline struct span span_of(const char *text)
{
	return (struct span){ text, strlen(text) };
}

/* The next part of *rest that ends at the separator or the end; false when there is none. Empty parts are skipped. */
static inline bool span_next(struct span *rest, char separator, struct span *ret)
{
	const char *end;

	while (rest->len > 0 && *rest->p == separator) {
		rest->p++;
		rest->len--;
	}
	if (rest->len == 0)
		return false;
	end = memchr(rest->p, separator, rest->len);
	ret->p = rest->p;
	ret->len = end ? (size_t)(end - rest->p) : rest->len;
	rest->p += ret->len;
	rest->len -= ret->len;
	return true;
}

static inline bool span_ends(struct span s, const char *suffix)
{
	size_t len = strlen(suffix);

	return s.len >= len && memcmp(s.p + s.len - len, suffix, len) == 0;
}

static inline bool span_starts(struct span s, const char *prefix)
{
	size_t len = strlen(prefix);

	return s.len >= len && memcmp(s.p, prefix, len) == 0;
}

static inline bool span_is(struct span s, const char *text)
{
	return s.len == strlen(text) && memcmp(s.p, text, s.len) == 0;
}

static inline bool span_contains(struct span s, const char *text)
{
	return memmem(s.p, s.len, text, strlen(text)) != NULL;
}

static inline struct span span_from(struct span s, size_t n)
{
	return (struct span){ s.p + n, s.len - n };
}

static inline struct span span_without(struct span s, const char *suffix)
{
	if (span_ends(s, suffix))
		s.len -= strlen(suffix);
	return s;
}

static inline bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool is_lower_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f');
}

/* All of it, and at least one. */
static inline bool span_is_hex(struct span s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (!is_lower_hex(s.p[i]))
			return false;
	}
	return s.len > 0;
}

static inline bool span_is_number(struct span s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (!is_digit(s.p[i]))
			return false;
	}
	return s.len > 0;
}

/* Replaces *ret, unless the span is empty. 0 or -ENOMEM. */
static inline int span_copy(struct span s, char **ret)
{
	char *copy;

	if (s.len == 0)
		return 0;
	copy = strndup(s.p, s.len);
	if (!copy)
		return -ENOMEM;
	free(*ret);
	*ret = copy;
	return 0;
}
