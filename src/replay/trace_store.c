/* SPDX-License-Identifier: MIT */
#include "replay/trace_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define CHUNK_MIN (128u << 10)

struct trace_chunk {
	struct trace_chunk *next;
	size_t used, cap;
	char data[];
};

const char *trace_store_get(const struct trace_store *s, uint64_t number)
{
	return map64_get(&s->by_number, number);
}

static char *room(struct trace_store *s, size_t len)
{
	struct trace_chunk *c = s->chunks;

	if (!c || c->cap - c->used < len) {
		const size_t cap = MAX(len, (size_t)CHUNK_MIN);

		c = malloc(sizeof(*c) + cap);
		if (!c)
			return NULL;
		*c = (struct trace_chunk){ .next = s->chunks, .cap = cap };
		s->chunks = c;
	}
	c->used += len;
	return c->data + c->used - len;
}

int trace_store_add(struct trace_store *s, uint64_t number, const char *text, size_t len)
{
	const char *old = trace_store_get(s, number);
	char *copy;
	int r;

	if (old)
		return strlen(old) == len && memcmp(old, text, len) == 0 ? 0 : -EEXIST;
	if (s->by_number.len >= s->max_count || len + 1 > s->max_bytes - s->bytes)
		return -ENOSPC;
	copy = room(s, len + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, text, len);
	copy[len] = '\0';
	r = map64_put(&s->by_number, number, copy);
	if (r == 0)
		s->bytes += len + 1;
	return r;
}

void trace_store_done(struct trace_store *s)
{
	for (struct trace_chunk *c = s->chunks, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	map64_done(&s->by_number);
	s->chunks = NULL;
}
