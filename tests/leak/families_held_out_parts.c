// SPDX-License-Identifier: MIT
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "families_held_out.h"

#define DAY_NS (24.0 * (double)HELD_HOUR)
#define DRIVER_NS (10 * GEN_SEC)
/* A program that runs longer is cut there. */
#define LONGEST_NS (24 * HELD_HOUR)
#define SHORTEST_NS (20 * HELD_MIN)

uint64_t held_share(struct gen *g, uint64_t bytes, double low, double high)
{
	return (uint64_t)((double)bytes * gen_range(g, low, high));
}

uint64_t held_span(struct gen *g, uint64_t low_ns, uint64_t high_ns)
{
	return (uint64_t)gen_log_range(g, (double)low_ns, (double)high_ns);
}

uint64_t held_wait(struct gen *g, double mean_ns)
{
	double wait = mean_ns * (0.3 + gen_exponential(g, 0.7));

	/* Somebody restarts a server, a disk is full, a queue is empty: each few hours. */
	if (gen_chance(g, mean_ns / (3 * (double)HELD_HOUR)))
		wait += gen_log_range(g, 60e9, 600e9);
	return (uint64_t)wait + 1;
}

size_t held_popular(struct gen *g, size_t n)
{
	size_t i = (size_t)exp(log((double)n + 1) * gen_unit(g));

	return i <= n ? i - 1 : n - 1;
}

double held_load(uint64_t time_ns, uint64_t peak_ns, double depth)
{
	return 1.0 + depth * cos(2 * M_PI * ((double)time_ns - (double)peak_ns) / DAY_NS);
}

double held_mean_load(uint64_t from_ns, uint64_t until_ns, uint64_t peak_ns, double depth)
{
	double sum = 0;

	for (size_t i = 0; i < 100; i++)
		sum += held_load(from_ns + (until_ns - from_ns) / 100 * i, peak_ns, depth);
	return sum / 100;
}

/* --- parts --- */

void held_part_chatter(struct gen *g, uint64_t from_ns, uint64_t bytes, uint64_t stack)
{
	size_t n = 1 + gen_pick(g, 6);

	for (size_t i = 0; i < n; i++) {
		double least = (double)(g->end_ns - from_ns) / 3000, period = gen_log_range(g, 1e9, 600e9);
		/* Up to four at a time are likely, eight are not. */
		double size = (double)bytes / (double)n / 8 * gen_log_range(g, 0.01, 1);

		period = fmax(period, least);
		for (uint64_t t = from_ns; t < g->end_ns; t += held_wait(g, period)) {
			uint64_t life = (uint64_t)gen_exponential(g, period * (i % 2 ? 0.2 : 1.5));

			gen_block(g, t, (uint64_t)(size * gen_range(g, 0.3, 1)), stack + i, life + GEN_SEC / 10);
		}
	}
}

void held_part_cache(struct gen *g, uint64_t from_ns, uint64_t until_ns, uint64_t bytes, uint64_t stack)
{
	size_t n = (size_t)gen_log_range(g, 20, 3000), i = 0;
	double fill = (double)(until_ns - from_ns) / (double)n;
	double replace = fmax(fill * gen_log_range(g, 1, 30), (double)(g->end_ns - from_ns) / 5000);
	bool is_replacing = gen_chance(g, 0.5);
	struct held_list list = { 0 };

	for (uint64_t t = from_ns; t < g->end_ns && (i < n || is_replacing); i++) {
		if (i >= n)
			gen_free(g, t, list.addrs[i - n]);
		held_push(&list, gen_block(g, t, held_share(g, bytes / n, 0.7, 1.2), stack + i % 2, GEN_FOREVER));
		t += (uint64_t)((i < n ? fill : replace) * gen_range(g, 0.5, 1.5));
	}
	free(list.addrs);
}

void held_part_ttl(struct gen *g, uint64_t from_ns, uint64_t bytes, uint64_t stack)
{
	double span = (double)(g->end_ns - from_ns), depth = gen_range(g, 0, 0.8);
	double ttl = fmin(gen_log_range(g, 300e9, 4 * 3600e9), span / 3);
	double n = fmin(gen_log_range(g, 20, 2000), 10000 * ttl / span); /* at the same time */
	uint64_t peak = from_ns + (uint64_t)(span * gen_range(g, 0.2, 0.7)), sweep = (uint64_t)(ttl * 0.05) + 1,
		 t = from_ns;

	n = fmax(n, 8);
	while (t < g->end_ns) {
		uint64_t size = (uint64_t)((double)bytes / n / 2.2 * gen_range(g, 0.5, 1.5));
		uint64_t over = t + (uint64_t)ttl;

		/* A sweeper comes by and takes what is too old. */
		gen_block(g, t, size, stack, over + sweep - over % sweep - t);
		t += held_wait(g, ttl / n / held_load(t, peak, depth));
	}
}

void held_part_evals(struct gen *g, uint64_t from_ns, uint64_t bytes, uint64_t stack)
{
	double period = gen_log_range(g, 300e9, 5400e9), size = gen_range(g, 0.5, 1);
	double took = period * gen_log_range(g, 0.02, 0.4);
	size_t n = 3 + gen_pick(g, 60);
	bool is_growing = gen_chance(g, 0.5); /* results are gathered while it runs, or it is all there at once */

	for (uint64_t t = from_ns; t < g->end_ns; t += (uint64_t)(period * gen_range(g, 0.9, 1.1))) {
		uint64_t end = t + (uint64_t)(took * gen_range(g, 0.8, 1.2));

		for (size_t i = 0; i < n; i++) {
			uint64_t at = t + (is_growing ? (end - t) * i / n : i * GEN_SEC / 20);

			gen_block(g, at, (uint64_t)(size * (double)bytes / (double)n), stack + i % 3,
				  at < end ? end - at : GEN_SEC);
		}
	}
}

void held_part_shapes(struct gen *g, uint64_t from_ns, uint64_t bytes, uint64_t stack)
{
	size_t n = 10 + gen_pick(g, 200);
	double span = (double)(g->end_ns - from_ns);
	/* The rarest of them are met, too, or nearly all: the end of the growth is in the trace. */
	double mean = gen_log_range(g, span / 50000, 0.3 * span / ((double)n * log((double)n)));
	bool *is_seen = calloc(n, sizeof(*is_seen));
	bool is_even = gen_chance(g, 0.4);

	if (!is_seen) {
		fprintf(stderr, "out of memory while making a trace\n");
		exit(1);
	}
	for (uint64_t t = from_ns; t < g->end_ns; t += held_wait(g, mean)) {
		size_t shape = is_even ? gen_pick(g, n) : held_popular(g, n);

		if (is_seen[shape])
			continue;
		is_seen[shape] = true;
		gen_block(g, t, (uint64_t)((double)bytes / (double)n * gen_log_range(g, 0.3, 1.6)), stack + shape % 2,
			  GEN_FOREVER);
	}
	free(is_seen);
}

void held_part_any(struct gen *g, uint64_t from_ns, uint64_t bytes, uint64_t stack)
{
	for (size_t i = 0; i < 2; i++) {
		uint64_t share = bytes / 2, first = stack + i * 50;
		double fill;

		switch (gen_pick(g, 6)) {
		case 0:
			held_part_chatter(g, from_ns, share, first);
			break;
		case 1:
			fill = (double)(g->end_ns - from_ns) * gen_log_range(g, 0.02, 0.7);
			held_part_cache(g, from_ns, from_ns + (uint64_t)fill, share, first);
			break;
		case 2:
			held_part_ttl(g, from_ns, share, first);
			break;
		case 3:
			held_part_evals(g, from_ns, share, first);
			break;
		case 4:
			held_part_shapes(g, from_ns, share, first);
			break;
		default:
			break; /* many do nothing else */
		}
	}
}

/* --- beginnings --- */

uint64_t held_job(struct gen *g, double low_hours, double high_hours)
{
	gen_device(g);
	g->end_ns = (uint64_t)(gen_log_range(g, low_hours, high_hours) * (double)HELD_HOUR);
	/* Nobody fills a device to the last byte on purpose, and the context is on it, too. */
	return g->device_bytes - g->foreign_bytes - g->device_bytes / 16;
}

struct held_benign held_benign(struct gen *g, double low_hours, double high_hours)
{
	uint64_t room = held_job(g, low_hours, high_hours);
	uint64_t base = held_share(g, room, 0.05, 0.45), around = held_share(g, room, 0.02, 0.08);
	struct held_benign b = { .warm_ns = gen_startup(g, base, HELD_STARTUP) };

	/* A few use what there is, many a small part of it. */
	b.bytes = (uint64_t)((double)(room - base - around) * (gen_chance(g, 0.3) ? 0.9 : gen_log_range(g, 0.1, 0.9)));
	if (gen_chance(g, 0.7))
		held_part_chatter(g, b.warm_ns, around, HELD_PARTS);
	return b;
}

/* Sets the rate, the start and the end of the trace. See held_leak(). */
static void plan(struct gen *g, struct held_leak *l, double late_low, double late_high, double least_hours)
{
	double device = (double)g->device_bytes, room = (double)l->free_bytes, hour = (double)HELD_HOUR;
	double unused = device - (double)g->foreign_bytes;	/* never more than this is free */
	double most = room * (gen_chance(g, 0.3) ? 1.4 : 0.75); /* some run until the device is full */
	double least = 0.05 * device, shortest, longest, late, ran;
	bool is_fast = least_hours <= 0 && late_high <= 0 && 0.75 * room > 0.2 * device && gen_chance(g, 0.2);

	if (is_fast)
		l->rate = device * gen_log_range(g, 0.012, 0.03) / (double)HELD_MIN;
	else
		/* From what a day just shows (and less than a week fills) to what is nearly fast. */
		l->rate = gen_log_range(
			g, fmax(least / (12 * hour), unused / (5.5 * 24 * hour)),
			fmin(device * 0.009 / (double)HELD_MIN, 0.7 * room / (fmax(least_hours, 0.34) * hour)));
	late = late_high > 0	    ? gen_range(g, late_low, late_high) * hour
	       : gen_chance(g, 0.5) ? gen_log_range(g, 10e9, 600e9)
				    : gen_log_range(g, 600e9, 7200e9);
	l->start_ns = l->warm_ns + (uint64_t)late;
	shortest =
		fmax(least / l->rate, is_fast ? (double)HELD_MIN * 13 : fmax((double)SHORTEST_NS, least_hours * hour));
	longest = fmin(most / l->rate, (double)(LONGEST_NS - l->start_ns));
	ran = longest <= shortest   ? shortest
	      : gen_chance(g, 0.15) ? longest
	      : gen_chance(g, 0.5)  ? gen_range(g, shortest, longest)
				    : gen_log_range(g, shortest, longest);
	/* The device may be full before the end. */
	shortest = fmin(ran, 0.65 * room / l->rate);
	if ((double)l->start_ns + shortest < (double)SHORTEST_NS)
		l->start_ns = SHORTEST_NS - (uint64_t)shortest;
	g->end_ns = l->start_ns + (uint64_t)ran;
	l->bytes = l->rate * ran;
}

struct held_leak held_leak(struct gen *g, double late_low, double late_high, double least_hours, bool has_parts)
{
	uint64_t room = held_job(g, 24, 24);
	uint64_t base = held_share(g, room, 0.08, 0.4), parts = held_share(g, room, 0.04, 0.2);
	struct held_leak l = { .own_bytes = held_share(g, room, 0.08, 0.2) };

	l.free_bytes = room - base - parts - l.own_bytes;
	l.warm_ns = gen_startup(g, base, HELD_STARTUP);
	plan(g, &l, late_low, late_high, least_hours);
	l.part_bytes = parts;
	if (has_parts)
		held_part_any(g, l.warm_ns, parts, HELD_PARTS);
	return l;
}

uint64_t held_leak_wait(struct gen *g, const struct held_leak *l, double bytes)
{
	return held_wait(g, bytes / l->rate);
}

/* --- the driver's view --- */

struct block {
	uint64_t addr, bytes;
};

static int compare_blocks(const void *a, const void *b)
{
	const struct block *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Adds to rows, of 10 s each, by how much the live bytes change within them. */
static void add_changes(const struct gen *g, int64_t *rows, size_t len)
{
	struct block *blocks = calloc(g->len + 1, sizeof(*blocks));
	size_t n = 0;

	if (!blocks) {
		fprintf(stderr, "out of memory while making a trace\n");
		exit(1);
	}
	for (size_t i = 0; i < g->len; i++) {
		if (g->items[i].type == TRACE_ALLOC)
			blocks[n++] = (struct block){ g->items[i].addr, g->items[i].bytes };
	}
	qsort(blocks, n, sizeof(*blocks), compare_blocks);
	for (size_t i = 0; i < g->len; i++) {
		const struct trace_item *item = &g->items[i];
		const struct block key = { .addr = item->addr };
		const struct block *b = bsearch(&key, blocks, n, sizeof(*blocks), compare_blocks);
		size_t row = item->time_ns / DRIVER_NS;

		if (b && row < len)
			rows[row] += item->type == TRACE_FREE ? -(int64_t)b->bytes : (int64_t)b->bytes;
	}
	free(blocks);
}

void held_tell_driver(struct gen *g, uint64_t from_ns, uint64_t base_bytes, const uint64_t *more, size_t len)
{
	int64_t *rows = calloc(len + 1, sizeof(*rows)), live = 0;

	if (!rows) {
		fprintf(stderr, "out of memory while making a trace\n");
		exit(1);
	}
	add_changes(g, rows, len);
	for (size_t i = 0; i < len; i++) {
		/* Told at the end of a row, so with all that changed in it. */
		live += rows[i];
		if (i * DRIVER_NS >= from_ns)
			gen_driver(g, (i + 1) * DRIVER_NS - 1, base_bytes + (uint64_t)live + more[i]);
	}
	free(rows);
}
