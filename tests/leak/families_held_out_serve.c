// SPDX-License-Identifier: MIT
/* Benign: servers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "families_held_out.h"

#define ENTRIES_MAX 600

static double span_ns(const struct gen *g, const struct held_benign *b)
{
	return (double)(g->end_ns - b->warm_ns);
}

void held_bounded_cache(struct gen *g)
{
	struct held_benign b = held_benign(g, 0.5, 24);
	uint64_t start = b.warm_ns + (uint64_t)(span_ns(g, &b) * (gen_chance(g, 0.6) ? 0 : gen_range(g, 0, 0.2)));
	double fill = span_ns(g, &b) * gen_log_range(g, 0.03, 0.55);

	held_part_cache(g, start, start + (uint64_t)fill, held_share(g, b.bytes, 0.5, 0.8), HELD_WORK);
	held_part_chatter(g, b.warm_ns, b.bytes / 10, HELD_WORK + 10);
}

void held_ttl_cache(struct gen *g)
{
	struct held_benign b = held_benign(g, 0.5, 24);

	held_part_ttl(g, b.warm_ns, held_share(g, b.bytes, 0.5, 0.8), HELD_WORK);
	if (gen_chance(g, 0.4))
		held_part_ttl(g, b.warm_ns, b.bytes / 6, HELD_WORK + 10);
}

/* What a cache knows about a key. */
struct entry {
	size_t seen;
	uint64_t used_ns;
	struct held_list blocks;
};

static struct entry *entries_new(size_t n)
{
	struct entry *e = calloc(n, sizeof(*e));

	if (e)
		return e;
	fprintf(stderr, "out of memory while making a trace\n");
	exit(1);
}

/* The held entry that was used least recently goes. Returns false if there is none. */
static bool evict(struct gen *g, struct entry *e, size_t n, uint64_t time_ns)
{
	size_t oldest = n;

	for (size_t i = 0; i < n; i++) {
		if (e[i].blocks.len > 0 && (oldest == n || e[i].used_ns < e[oldest].used_ns))
			oldest = i;
	}
	if (oldest == n)
		return false;
	held_free_all(g, &e[oldest].blocks, time_ns);
	return true;
}

static void entries_free(struct entry *e, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(e[i].blocks.addrs);
	free(e);
}

void held_prefix_cache(struct gen *g)
{
	struct held_benign b = held_benign(g, 0.5, 24);
	size_t n = 100 + gen_pick(g, ENTRIES_MAX - 100), most = n * (30 + gen_pick(g, 65)) / 100, held = 0;
	size_t admit = 1 + gen_pick(g, 3); /* kept from the so-manieth time on */
	double wait = span_ns(g, &b) / gen_log_range(g, 4000, 20000);
	struct entry *e = entries_new(n);

	for (uint64_t t = b.warm_ns; t < g->end_ns; t += held_wait(g, wait)) {
		size_t i = held_popular(g, n), blocks = 1 + i % 5;

		e[i].used_ns = t;
		if (++e[i].seen < admit || e[i].blocks.len > 0)
			continue;
		if (held >= most && evict(g, e, n, t))
			held--;
		/* A long prefix has more blocks; they are all of one size. */
		for (size_t k = 0; k < blocks; k++)
			held_push(&e[i].blocks, gen_block(g, t, b.bytes / most / 5, HELD_WORK, GEN_FOREVER));
		held++;
	}
	entries_free(e, n);
}

void held_adapters(struct gen *g)
{
	struct held_benign b = held_benign(g, 0.5, 24);
	size_t n = 10 + gen_pick(g, 190), most = 4 + gen_pick(g, 60), held = 0, tensors = 2 + gen_pick(g, 28);
	double wait = span_ns(g, &b) / gen_log_range(g, 300, 50000 / (double)MAX(tensors, (size_t)10));
	struct entry *e = entries_new(n);

	for (uint64_t t = b.warm_ns; t < g->end_ns; t += held_wait(g, wait)) {
		size_t i = held_popular(g, n);

		e[i].used_ns = t;
		if (e[i].blocks.len > 0)
			continue;
		if (held >= most && evict(g, e, n, t))
			held--;
		for (size_t k = 0; k < tensors; k++)
			held_push(&e[i].blocks, gen_block(g, t, held_share(g, b.bytes / most / tensors, 0.5, 1),
							  HELD_WORK + k % 2, GEN_FOREVER));
		held++;
	}
	entries_free(e, n);
}

void held_shapes(struct gen *g)
{
	struct held_benign b = held_benign(g, 0.5, 24);

	held_part_shapes(g, b.warm_ns, held_share(g, b.bytes, 0.4, 0.8), HELD_WORK);
	held_part_shapes(g, b.warm_ns, b.bytes / 10, HELD_WORK + 10);
	held_part_chatter(g, b.warm_ns, b.bytes / 20, HELD_WORK + 20);
}

void held_graphs(struct gen *g)
{
	struct held_benign b = held_benign(g, 0.5, 24);
	size_t n = 5 + gen_pick(g, 65), pieces = 1 + gen_pick(g, 8);
	bool is_eager = gen_chance(g, 0.6); /* all sizes of a batch are captured at the start, or when first met */
	double wait =
		is_eager ? gen_log_range(g, 0.5e9, 20e9) : span_ns(g, &b) * gen_log_range(g, 0.02, 0.5) / (double)n;
	uint64_t t = b.warm_ns;

	for (size_t i = 0; i < n; i++) {
		/* From the largest batch to the smallest, or the usual ones first. */
		double size =
			0.9 * (double)b.bytes / (double)n * (is_eager ? 2.0 * (double)(n - i) / (double)(n + 1) : 1);

		for (size_t k = 0; k < pieces; k++)
			gen_block(g, t, (uint64_t)(size / (double)pieces), HELD_WORK + k % 3, GEN_FOREVER);
		gen_block(g, t, b.bytes / 20, HELD_WORK + 5, GEN_SEC / 2);
		t += held_wait(g, is_eager ? wait : wait * 2 * (double)(i + 1) / (double)n);
	}
}

void held_dynamic_batch(struct gen *g)
{
	struct held_benign b = held_benign(g, 0.5, 24);
	double wait = span_ns(g, &b) / gen_log_range(g, 3000, 12000), depth = gen_range(g, 0, 0.8);
	double sigma = gen_range(g, 0.1, 0.8);
	uint64_t peak = b.warm_ns + (uint64_t)(span_ns(g, &b) * gen_range(g, 0.1, 0.7));
	size_t layers = 4 + gen_pick(g, 20), most = 8u << gen_pick(g, 5);
	struct held_pool pool;

	held_pool_init(&pool, g, b.bytes);
	for (uint64_t t = b.warm_ns; t < g->end_ns; t += held_wait(g, wait)) {
		/* What waits is batched; the longest decides how long all are. */
		double batch =
			fmin((double)most, 1 + gen_exponential(g, 0.2 * (double)most * held_load(t, peak, depth)));
		double length = fmin(1.0, 0.2 * exp(sigma * gen_normal(g)));

		held_pass(&pool, t, layers, (uint64_t)(0.7 * (double)b.bytes * batch / (double)most * length),
			  HELD_WORK, 0);
	}
	held_pool_done(&pool);
}

void held_sessions(struct gen *g)
{
	struct held_benign b = held_benign(g, 2, 24);
	double mean = fmin(gen_log_range(g, 300e9, 4 * 3600e9), span_ns(g, &b) / 6), depth = gen_range(g, 0.2, 0.9);
	size_t chunks = 1 + gen_pick(g, 10);
	double many = fmax(fmin(gen_log_range(g, 10, 800), 20000 / (double)chunks * mean / span_ns(g, &b)), 6);
	uint64_t peak = b.warm_ns + (uint64_t)(span_ns(g, &b) * gen_range(g, 0.2, 0.65)), t = b.warm_ns;

	while (t < g->end_ns) {
		double life = 1e9 + mean * fmin(gen_exponential(g, 1), 4.0);
		uint64_t size = held_share(g, b.bytes, 0.8, 1.2) / 4 / (uint64_t)many;

		/* Its state grows while it lasts, and goes as a whole. */
		for (size_t i = 0; i < chunks; i++) {
			uint64_t later = (uint64_t)(life * (double)i / (double)(chunks + 1));

			gen_block(g, t + later, size / chunks, HELD_WORK + (i > 0), (uint64_t)life - later);
		}
		t += held_wait(g, mean / many / held_load(t, peak, depth));
	}
}

void held_blue_green(struct gen *g)
{
	struct held_benign b = held_benign(g, 1, 24);
	double every = gen_log_range(g, 600e9, span_ns(g, &b) / 3);
	size_t n = 10 + gen_pick(g, 190);
	struct held_list old = { 0 };

	for (uint64_t t = b.warm_ns; t < g->end_ns; t += (uint64_t)(every * gen_range(g, 0.6, 1.4))) {
		struct held_list fresh = { 0 };
		uint64_t took = held_span(g, 5 * GEN_SEC, 3 * HELD_MIN), size = held_share(g, b.bytes, 0.35, 0.45);

		for (size_t i = 0; i < n; i++)
			held_push(&fresh, gen_block(g, t + took * i / n, size / n, HELD_WORK + i % 3, GEN_FOREVER));
		/* The old one drains, then goes. */
		held_free_all(g, &old, t + took + held_span(g, GEN_SEC, 2 * HELD_MIN));
		old = fresh;
	}
	free(old.addrs);
	held_part_chatter(g, b.warm_ns, b.bytes / 10, HELD_WORK + 10);
}

void held_model_zoo(struct gen *g)
{
	struct held_benign b = held_benign(g, 1, 24);
	size_t n = 3 + gen_pick(g, 12), tensors = 5 + gen_pick(g, 60);
	uint64_t idle = held_span(g, 5 * HELD_MIN, HELD_HOUR);
	double wait = span_ns(g, &b) / gen_log_range(g, 50, 3000);
	struct entry *e = entries_new(n);

	/* Loaded by the first request, unloaded after some time without one. */
	for (uint64_t t = b.warm_ns; t < g->end_ns; t += held_wait(g, wait)) {
		size_t want = held_popular(g, n);

		for (size_t i = 0; i < n; i++) {
			if (e[i].blocks.len > 0 && e[i].used_ns + idle < t)
				held_free_all(g, &e[i].blocks, t);
		}
		e[want].used_ns = t;
		for (size_t k = 0; e[want].blocks.len < tensors; k++)
			held_push(&e[want].blocks, gen_block(g, t + k * GEN_SEC / 30,
							     (uint64_t)(0.9 * (double)b.bytes / (double)(n * tensors)),
							     HELD_WORK + want % 8, GEN_FOREVER));
	}
	entries_free(e, n);
}

void held_vector_index(struct gen *g)
{
	struct held_benign b = held_benign(g, 1, 24);
	size_t fan = 3 + gen_pick(g, 6), most = 8 + gen_pick(g, 30), small = 0;
	uint64_t size = b.bytes / (most + 3) / fan;
	double wait = span_ns(g, &b) * gen_range(g, 0.1, 0.6) / (double)(most * fan);
	struct held_list fresh = { 0 }, merged = { 0 };

	/* Small segments are merged to large ones; the oldest large one goes to disk when there are too many. */
	for (uint64_t t = b.warm_ns; t < g->end_ns; t += held_wait(g, wait)) {
		held_push(&fresh, gen_block(g, t, size, HELD_WORK, GEN_FOREVER));
		if (++small < fan)
			continue;
		held_push(&merged, gen_block(g, t + GEN_SEC, size * fan, HELD_WORK + 1, GEN_FOREVER));
		held_free_all(g, &fresh, t + 2 * GEN_SEC);
		small = 0;
		if (merged.len > most)
			gen_free(g, t + 3 * GEN_SEC, held_take(&merged, 0));
	}
	free(fresh.addrs);
	free(merged.addrs);
}

void held_thread_pool(struct gen *g)
{
	struct held_benign b = held_benign(g, 1, 24);
	size_t most = 8 + gen_pick(g, 120);
	double ramp = span_ns(g, &b) * gen_log_range(g, 0.03, 0.6);
	bool is_shrinking = gen_chance(g, 0.5);
	struct held_list held = { 0 };

	/* Each thread has handles and workspaces of its own; the pool follows the load up to its limit. */
	for (uint64_t t = b.warm_ns; t < g->end_ns; t += held_wait(g, fmax(ramp / (double)most / 2, 2e9))) {
		double load = fmin((double)(t - b.warm_ns) / ramp, 1) * gen_range(g, 0.8, 1);

		if (held.len < (size_t)(load * (double)most))
			held_push(&held, gen_block(g, t, b.bytes / most, HELD_WORK, GEN_FOREVER));
		else if (is_shrinking && held.len > 1 && gen_chance(g, 0.1))
			gen_free(g, t, held_take(&held, gen_pick(g, held.len)));
	}
	free(held.addrs);
}

void held_lazy_modules(struct gen *g)
{
	struct held_benign b = held_benign(g, 0.5, 24);
	size_t n = 50 + gen_pick(g, 2000), len = g->end_ns / (10 * GEN_SEC);
	uint64_t *more = calloc(len + 1, sizeof(*more)), mean = held_share(g, b.bytes, 0.05, 0.8) / n;
	double tau = span_ns(g, &b) * gen_log_range(g, 0.01, 0.25), scratch = gen_range(g, 0, 0.05) * (double)b.bytes;

	if (!more) {
		fprintf(stderr, "out of memory while making a trace\n");
		exit(1);
	}
	/* Code that the driver loads when a kernel first runs: no call shows it. Ever fewer are new. */
	for (size_t i = 0; i < n; i++) {
		size_t row = (size_t)(((double)b.warm_ns + gen_exponential(g, tau)) / (10 * (double)GEN_SEC));

		if (row < len)
			more[row] += held_share(g, mean, 0.2, 1.8);
	}
	for (size_t i = 1; i < len; i++)
		more[i] += more[i - 1];
	for (size_t i = 0; i < len; i++)
		more[i] += (uint64_t)(scratch * gen_unit(g));
	held_tell_driver(g, b.warm_ns, (uint64_t)(gen_range(g, 0.2, 0.45) * (double)GEN_GIB), more, len);
	free(more);
}
