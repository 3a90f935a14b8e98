// SPDX-License-Identifier: MIT
#include "gen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define GEN_OUT_OF_MEMORY 2 /* CUDA_ERROR_OUT_OF_MEMORY */
/* Addresses are never used twice, so what is freed is never in doubt. */
#define GEN_FIRST_ADDR UINT64_C(0x7f0000000000)
#define GEN_ALIGN UINT64_C(512)

/* Families have no way to hand an error on, and half a trace must not be judged. */
static _Noreturn void no_memory(void)
{
	fprintf(stderr, "leakbench: out of memory while making a trace\n");
	exit(1);
}

static void *more(void *list, size_t *cap, size_t size)
{
	*cap = *cap ? *cap * 2 : 256;
	list = realloc(list, *cap * size);
	if (!list)
		no_memory();
	return list;
}

void gen_init(struct gen *g, const struct family *f, uint64_t seed)
{
	*g = (struct gen){ .next_addr = GEN_FIRST_ADDR };
	/* Neighbouring seeds, and the same seed of two families, must have nothing in common. */
	g->state = seed * UINT64_C(0x9e3779b97f4a7c15);
	for (const char *s = f->name; *s; s++)
		g->state = (g->state ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
	g->state = gen_u64(g) ^ seed;
}

void gen_done(struct gen *g)
{
	free(g->items);
	free(g->losses);
	*g = (struct gen){ 0 };
}

uint64_t gen_u64(struct gen *g)
{
	uint64_t z = g->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

double gen_unit(struct gen *g)
{
	return (double)(gen_u64(g) >> 11) * 0x1p-53;
}

double gen_range(struct gen *g, double low, double high)
{
	return low + (high - low) * gen_unit(g);
}

double gen_log_range(struct gen *g, double low, double high)
{
	return low * exp(log(high / low) * gen_unit(g));
}

double gen_normal(struct gen *g)
{
	/* Of the pair that Box and Muller make, one: a kept second one would be state. */
	double a = 1.0 - gen_unit(g), b = gen_unit(g);

	return sqrt(-2.0 * log(a)) * cos(2.0 * M_PI * b);
}

double gen_exponential(struct gen *g, double mean)
{
	return -mean * log(1.0 - gen_unit(g));
}

bool gen_chance(struct gen *g, double p)
{
	return gen_unit(g) < p;
}

size_t gen_pick(struct gen *g, size_t n)
{
	return n ? (size_t)(gen_u64(g) % n) : 0;
}

void gen_device(struct gen *g)
{
	static const uint8_t usual[] = { 8, 12, 16, 24, 24, 32, 40, 48, 80, 80, 80, 96, 141 };

	g->device_bytes = usual[gen_pick(g, sizeof(usual))] * GEN_GIB;
	/* Half of all programs have a device to themselves. */
	g->foreign_bytes = gen_chance(g, 0.5) ? 0 : (uint64_t)(gen_range(g, 0.01, 0.4) * (double)g->device_bytes);
}

static struct trace_item *add_item(struct gen *g, enum trace_type type, uint64_t time_ns)
{
	if (g->len >= g->cap)
		g->items = more(g->items, &g->cap, sizeof(*g->items));
	g->items[g->len] = (struct trace_item){ .type = type, .pid = GEN_PID, .time_ns = time_ns };
	return &g->items[g->len++];
}

uint64_t gen_block(struct gen *g, uint64_t time_ns, uint64_t bytes, uint64_t stack, uint64_t life_ns)
{
	uint64_t addr = g->next_addr;
	struct trace_item *item;

	if (time_ns >= g->end_ns)
		return 0;
	if (bytes == 0)
		bytes = GEN_ALIGN;
	g->next_addr += (bytes + GEN_ALIGN - 1) / GEN_ALIGN * GEN_ALIGN;
	item = add_item(g, TRACE_ALLOC, time_ns);
	item->class = CLASS_DEVICE;
	item->kind = ADDR_POINTER;
	item->addr = addr;
	item->bytes = bytes;
	item->stack = stack;
	if (life_ns < g->end_ns - time_ns)
		gen_free(g, time_ns + life_ns, addr);
	return addr;
}

void gen_free(struct gen *g, uint64_t time_ns, uint64_t addr)
{
	struct trace_item *item;

	if (time_ns >= g->end_ns || addr == 0)
		return;
	item = add_item(g, TRACE_FREE, time_ns);
	item->kind = ADDR_POINTER;
	item->addr = addr;
}

static void note_loss(struct gen *g, uint64_t time_ns, uint64_t bytes, uint64_t stack)
{
	if (time_ns >= g->end_ns || bytes == 0)
		return;
	if (g->losses_len >= g->losses_cap)
		g->losses = more(g->losses, &g->losses_cap, sizeof(*g->losses));
	g->losses[g->losses_len++] = (struct gen_loss){ .time_ns = time_ns, .bytes = bytes, .stack = stack };
	if (!g->is_leak || time_ns < g->leak_start_ns)
		g->leak_start_ns = time_ns;
	g->is_leak = true;
}

uint64_t gen_lose(struct gen *g, uint64_t time_ns, uint64_t bytes, uint64_t stack)
{
	note_loss(g, time_ns, bytes, stack);
	return gen_block(g, time_ns, bytes, stack, GEN_FOREVER);
}

void gen_note_loss(struct gen *g, uint64_t time_ns, uint64_t bytes)
{
	note_loss(g, time_ns, bytes, 0);
}

void gen_driver(struct gen *g, uint64_t time_ns, uint64_t bytes)
{
	if (time_ns < g->end_ns)
		add_item(g, TRACE_DRIVER, time_ns)->bytes = bytes;
}

uint64_t gen_startup(struct gen *g, uint64_t bytes, uint64_t stack)
{
	size_t n = 10 + gen_pick(g, 190);
	double took = gen_log_range(g, 2, 180), mean = (double)bytes / (double)n;
	uint64_t left = bytes, time_ns = 0;

	for (size_t i = 0; i < n && left > 0; i++) {
		uint64_t part = (uint64_t)(mean * gen_range(g, 0.3, 1.7));

		if (i == n - 1 || part > left)
			part = left;
		time_ns = (uint64_t)(took * ((double)i + gen_unit(g)) / (double)n * 1e9);
		gen_block(g, time_ns, part, stack + gen_pick(g, 5), GEN_FOREVER);
		left -= part;
	}
	return time_ns;
}

/* --- from what a family has said to a trace --- */

/* Merge sort: qsort() may change the order of what is equal. */
static void sort_items(struct trace_item *items, struct trace_item *scratch, size_t len)
{
	size_t half = len / 2, a = 0, b = half, n = 0;

	if (len < 2)
		return;
	sort_items(items, scratch, half);
	sort_items(items + half, scratch, len - half);
	if (items[half - 1].time_ns <= items[half].time_ns)
		return;
	memcpy(scratch, items, half * sizeof(*items));
	while (a < half && b < len) {
		if (scratch[a].time_ns <= items[b].time_ns)
			items[n++] = scratch[a++];
		else
			items[n++] = items[b++];
	}
	memcpy(&items[n], &scratch[a], (half - a) * sizeof(*items));
}

static int compare_losses(const void *a, const void *b)
{
	const struct gen_loss *x = a, *y = b;

	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

struct block {
	uint64_t addr, bytes;
};

static int compare_blocks(const void *a, const void *b)
{
	const struct block *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* All blocks by address: what a free gives back. */
static struct block *list_blocks(const struct gen *g, size_t *ret_len)
{
	struct block *list = malloc((g->len + 1) * sizeof(*list));
	size_t len = 0;

	if (!list)
		no_memory();
	for (size_t i = 0; i < g->len; i++) {
		if (g->items[i].type == TRACE_ALLOC)
			list[len++] = (struct block){ g->items[i].addr, g->items[i].bytes };
	}
	qsort(list, len, sizeof(*list), compare_blocks);
	*ret_len = len;
	return list;
}

/* The first allocation for which there is no room fails, and the program dies of it. */
static void cut_when_full(struct gen *g)
{
	size_t blocks_len;
	_cleanup_free_ struct block *blocks = list_blocks(g, &blocks_len);
	uint64_t room = g->device_bytes - g->foreign_bytes, live = 0;

	for (size_t i = 0; i < g->len; i++) {
		struct trace_item *item = &g->items[i];
		const struct block *b;

		if (item->type == TRACE_FREE) {
			const struct block key = { .addr = item->addr };

			b = bsearch(&key, blocks, blocks_len, sizeof(*blocks), compare_blocks);
			live -= b ? b->bytes : 0;
		} else if (item->type == TRACE_ALLOC && live + item->bytes > room) {
			item->type = TRACE_FAIL;
			item->addr = 0;
			item->error = GEN_OUT_OF_MEMORY;
			g->len = i + 1;
			g->end_ns = item->time_ns + 1;
			g->is_full = true;
		} else if (item->type == TRACE_ALLOC) {
			live += item->bytes;
		} else if (item->type == TRACE_DRIVER && item->bytes > room) {
			g->len = i;
			g->end_ns = item->time_ns;
			g->is_full = true;
		}
	}
}

void gen_finish(struct gen *g)
{
	struct trace_item *scratch = malloc((g->len / 2 + 1) * sizeof(*scratch));

	if (!scratch)
		no_memory();
	sort_items(g->items, scratch, g->len);
	free(scratch);
	cut_when_full(g);
	if (g->losses_len > 0)
		qsort(g->losses, g->losses_len, sizeof(*g->losses), compare_losses);
	while (g->losses_len > 0 && g->losses[g->losses_len - 1].time_ns >= g->end_ns)
		g->losses_len--;
	/* What failed is not lost. */
	if (g->is_full && g->losses_len > 0 && g->losses[g->losses_len - 1].time_ns == g->end_ns - 1)
		g->losses_len--;
}
