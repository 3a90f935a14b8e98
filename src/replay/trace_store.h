/* SPDX-License-Identifier: MIT */
/* The stacks of a trace by number, kept until the reader is closed. Private to the format. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/map64.h"

struct trace_chunk;

struct trace_store {
	struct map64 by_number;
	struct trace_chunk *chunks; /* the newest first */
	size_t max_count;
	uint64_t bytes, max_bytes; /* of texts, with their NUL bytes */
};

/* NULL when it is not there. */
const char *trace_store_get(const struct trace_store *s, uint64_t number);
/* text is copied. 0 (also if it is there with the same text), -EEXIST (with another), -ENOSPC, -ENOMEM. */
int trace_store_add(struct trace_store *s, uint64_t number, const char *text, size_t len);
void trace_store_done(struct trace_store *s);
