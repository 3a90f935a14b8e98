// SPDX-License-Identifier: MIT
/*
 * Frameworks do not ask the driver for each tensor. What is seen of them there is coarse: segments that come when
 * nothing free is large enough, and that stay. Whether a program's memory then grows is for its sizes and their order
 * to say, so the allocator is played and not guessed at.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "families_held_out.h"

#define KIB UINT64_C(1024)
#define SMALL_MAX GEN_MIB
#define LARGE_MIN (10 * GEN_MIB) /* from here on a segment is as large as what is asked for */
#define LAYERS_MAX 64

struct held_chunk {
	uint64_t bytes;
	uint64_t addr;	/* of the segment, of its first chunk; else 0 */
	int prev, next; /* within the segment, -1 = none */
	int slot;	/* in the list of the free ones, -1 = in use */
	bool is_small;
};

static void *room(void *list, size_t len, size_t *cap, size_t size)
{
	if (len < *cap)
		return list;
	*cap = *cap ? *cap * 2 : 64;
	list = realloc(list, *cap * size);
	if (!list) {
		fprintf(stderr, "out of memory while making a trace\n");
		exit(1);
	}
	return list;
}

void held_push(struct held_list *l, uint64_t addr)
{
	l->addrs = room(l->addrs, l->len, &l->cap, sizeof(*l->addrs));
	l->addrs[l->len++] = addr;
}

uint64_t held_take(struct held_list *l, size_t i)
{
	uint64_t addr = l->addrs[i];

	memmove(&l->addrs[i], &l->addrs[i + 1], (l->len - i - 1) * sizeof(*l->addrs));
	l->len--;
	return addr;
}

void held_free_all(struct gen *g, struct held_list *l, uint64_t time_ns)
{
	for (size_t i = 0; i < l->len; i++)
		gen_free(g, time_ns, l->addrs[i]);
	free(l->addrs);
	*l = (struct held_list){ 0 };
}

void held_pool_init(struct held_pool *p, struct gen *g, uint64_t limit_bytes)
{
	*p = (struct held_pool){ .g = g, .limit_bytes = limit_bytes };
}

void held_pool_done(struct held_pool *p)
{
	free(p->chunks);
	free(p->unused);
	free(p->spare);
	*p = (struct held_pool){ 0 };
}

static int new_chunk(struct held_pool *p)
{
	if (p->spare_len > 0)
		return p->spare[--p->spare_len];
	p->chunks = room(p->chunks, p->len, &p->cap, sizeof(*p->chunks));
	return (int)p->len++;
}

static void drop_chunk(struct held_pool *p, int i)
{
	p->spare = room(p->spare, p->spare_len, &p->spare_cap, sizeof(*p->spare));
	p->spare[p->spare_len++] = i;
}

static void mark_unused(struct held_pool *p, int i)
{
	p->unused = room(p->unused, p->unused_len, &p->unused_cap, sizeof(*p->unused));
	p->chunks[i].slot = (int)p->unused_len;
	p->unused[p->unused_len++] = i;
}

static void mark_used(struct held_pool *p, int i)
{
	int slot = p->chunks[i].slot, last = p->unused[--p->unused_len];

	p->unused[slot] = last;
	p->chunks[last].slot = slot;
	p->chunks[i].slot = -1;
}

/* The free chunk that fits best, -1 = none. */
static int find(const struct held_pool *p, uint64_t bytes, bool is_small)
{
	int best = -1;

	for (size_t n = 0; n < p->unused_len; n++) {
		const struct held_chunk *c = &p->chunks[p->unused[n]];

		if (c->is_small == is_small && c->bytes >= bytes && (best < 0 || c->bytes < p->chunks[best].bytes))
			best = p->unused[n];
	}
	return best;
}

static int new_segment(struct held_pool *p, uint64_t time_ns, uint64_t bytes, bool is_small, uint64_t stack)
{
	uint64_t size;
	int i;

	if (p->is_exact)
		size = bytes;
	else if (is_small)
		size = 2 * GEN_MIB;
	else if (bytes < LARGE_MIN)
		size = 20 * GEN_MIB;
	else
		size = (bytes + 2 * GEN_MIB - 1) / (2 * GEN_MIB) * (2 * GEN_MIB);
	if (p->reserved_bytes + size > p->limit_bytes)
		held_pool_trim(p, time_ns);
	if (p->reserved_bytes + size > p->limit_bytes) {
		p->is_full = true;
		return -1;
	}
	p->reserved_bytes += size;
	i = new_chunk(p);
	p->chunks[i] = (struct held_chunk){
		.bytes = size,
		.addr = gen_block(p->g, time_ns, size, stack, GEN_FOREVER),
		.prev = -1,
		.next = -1,
		.is_small = is_small,
	};
	mark_unused(p, i);
	return i;
}

/* What is left of a chunk beyond bytes becomes one of its own. */
static void split(struct held_pool *p, int i, uint64_t bytes)
{
	int rest = new_chunk(p), next = p->chunks[i].next;

	p->chunks[rest] = (struct held_chunk){
		.bytes = p->chunks[i].bytes - bytes,
		.prev = i,
		.next = next,
		.is_small = p->chunks[i].is_small,
	};
	if (next >= 0)
		p->chunks[next].prev = rest;
	p->chunks[i].next = rest;
	p->chunks[i].bytes = bytes;
	mark_unused(p, rest);
}

int held_pool_alloc(struct held_pool *p, uint64_t time_ns, uint64_t bytes, uint64_t stack)
{
	bool is_small;
	uint64_t left;
	int i;

	bytes = bytes > 0 ? (bytes + 511) / 512 * 512 : 512;
	is_small = !p->is_exact && bytes <= SMALL_MAX;
	i = find(p, bytes, is_small);
	if (i < 0)
		i = new_segment(p, time_ns, bytes, is_small, stack);
	if (i < 0)
		return -1;
	mark_used(p, i);
	left = p->chunks[i].bytes - bytes;
	if (is_small || p->is_exact ? left >= 512 : left > SMALL_MAX)
		split(p, i, bytes);
	return i;
}

/* b, the neighbour behind a, becomes part of it. */
static void join(struct held_pool *p, int a, int b)
{
	int next = p->chunks[b].next;

	p->chunks[a].bytes += p->chunks[b].bytes;
	p->chunks[a].next = next;
	if (next >= 0)
		p->chunks[next].prev = a;
	drop_chunk(p, b);
}

void held_pool_free(struct held_pool *p, int chunk)
{
	int next, prev;

	if (chunk < 0)
		return;
	next = p->chunks[chunk].next;
	prev = p->chunks[chunk].prev;
	if (next >= 0 && p->chunks[next].slot >= 0) {
		mark_used(p, next);
		join(p, chunk, next);
	}
	if (prev >= 0 && p->chunks[prev].slot >= 0) {
		join(p, prev, chunk);
		return;
	}
	mark_unused(p, chunk);
}

void held_pool_trim(struct held_pool *p, uint64_t time_ns)
{
	for (size_t n = p->unused_len; n-- > 0;) {
		int i = p->unused[n];
		const struct held_chunk *c = &p->chunks[i];

		if (c->prev >= 0 || c->next >= 0)
			continue;
		gen_free(p->g, time_ns, c->addr);
		p->reserved_bytes -= c->bytes;
		mark_used(p, i);
		drop_chunk(p, i);
	}
}

uint64_t held_pass(struct held_pool *p, uint64_t time_ns, size_t layers, uint64_t bytes, uint64_t stack, size_t lose)
{
	int kept[LAYERS_MAX];
	size_t n = MIN(layers, (size_t)LAYERS_MAX);
	uint64_t tensor = bytes / n, lost = 0;

	for (size_t i = 0; i < n; i++) {
		int scratch = held_pool_alloc(p, time_ns, tensor / 3, stack + 3);

		kept[i] = held_pool_alloc(p, time_ns, tensor, stack + i % 3);
		held_pool_free(p, scratch);
	}
	for (size_t i = n; i-- > 0;) {
		/* So many of n, from all over. */
		if ((i + 1) * lose / n > i * lose / n && kept[i] >= 0)
			lost += tensor;
		else
			held_pool_free(p, kept[i]);
	}
	gen_note_loss(p->g, time_ns, lost);
	return lost;
}
