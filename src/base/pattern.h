/* SPDX-License-Identifier: MIT */
/*
 * Compiled patterns: PCRE2 over bytes (UTF off), with a bound on the work one match may do. A pattern holds its own
 * scratch memory and belongs to one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

#define MATCH_LIMIT 100000 /* steps of the matcher */
#define MATCH_HEAP_KIB 4096

struct pattern;

#define PATTERN_ERROR_MAX 256

/* 0, -ENOMEM, or -EINVAL with the cause and the place in error. */
int pattern_new(const char *text, char error[PATTERN_ERROR_MAX], struct pattern **ret);
/* One more owner, who frees it in turn; all in the same thread. Returns p. */
struct pattern *pattern_ref(struct pattern *p);
void pattern_free(struct pattern *p); /* drops one owner, the last frees; accepts NULL */
DEFINE_CLEANUP(struct pattern, pattern_free)
const char *pattern_text(const struct pattern *p);
/* Bytes that it takes, near enough to add them up. */
size_t pattern_size(const struct pattern *p);
/* 1 it matches, 0 it does not, -ELOOP when it hit the limits. */
int pattern_match(struct pattern *p, const char *data, size_t len);
/* The first match at or after from: 1 with its bounds, else as above. */
int pattern_find(struct pattern *p, const char *data, size_t len, size_t from, size_t *ret_start, size_t *ret_end);
/* True the first time: that a pattern hits the limits is told once. */
bool pattern_tell_limit(struct pattern *p);
/* Does the pattern tie itself to the start, the end or a word boundary anywhere? Without, it matches in mid-word. */
bool pattern_is_anchored(const char *text);
