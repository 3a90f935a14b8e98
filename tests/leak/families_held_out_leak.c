// SPDX-License-Identifier: MIT
/* Leaks, block by block: what is lost comes from a place that loses all that it allocates, or nearly. */
#include <math.h>

#include "base/cleanup.h"
#include "families_held_out.h"

/* Blocks of a size such that there are between low and high of them by the end. */
static double block_size(struct gen *g, const struct held_leak *l, double low, double high)
{
	return l->bytes / gen_log_range(g, low, high);
}

void held_closures(struct gen *g)
{
	struct held_leak l = held_leak(g, 0, 0, 0, true);
	size_t n = 1 + gen_pick(g, 4); /* what one request leaves behind */
	double size = block_size(g, &l, 300, 40000 / (double)n), spread = gen_range(g, 0, 0.5);

	g->leak_site = HELD_LEAK;
	for (uint64_t t = l.start_ns; t < g->end_ns; t += held_leak_wait(g, &l, size)) {
		for (size_t i = 0; i < n; i++)
			gen_lose(g, t + i * GEN_SEC / 1000,
				 (uint64_t)(size / (double)n * gen_range(g, 1 - spread, 1 + spread)), HELD_LEAK);
	}
	held_part_chatter(g, l.warm_ns, l.own_bytes, HELD_WORK);
}

void held_metric_history(struct gen *g)
{
	struct held_leak l = held_leak(g, 0, 0, 0, true);
	double size = block_size(g, &l, 15000, 60000), gap = gen_range(g, 0, 0.3);
	uint64_t epoch = held_span(g, 2 * HELD_MIN, HELD_HOUR), next = l.start_ns + epoch;

	g->leak_site = HELD_LEAK;
	/* Each step keeps its numbers; between epochs there is a while without steps. */
	for (uint64_t t = l.start_ns; t < g->end_ns; t += held_leak_wait(g, &l, size * (1 - gap))) {
		gen_lose(g, t, (uint64_t)size, HELD_LEAK);
		if (t < next)
			continue;
		t += (uint64_t)((double)epoch * gap);
		next = t + epoch;
	}
	held_part_chatter(g, l.warm_ns, l.own_bytes, HELD_WORK);
}

void held_float_keys(struct gen *g)
{
	struct held_leak l = held_leak(g, 0, 0, 0, true);
	double size = block_size(g, &l, 60, 15000), sigma = gen_range(g, 0.1, 1.2), depth = gen_range(g, 0, 0.6);
	uint64_t peak = (uint64_t)(gen_unit(g) * (double)g->end_ns);
	double mean = held_mean_load(l.start_ns, g->end_ns, peak, depth);

	g->leak_site = HELD_LEAK;
	/* Never hits, so it has an entry for each request; the cache beside it, of the same program, has an end. */
	for (uint64_t t = l.start_ns; t < g->end_ns;
	     t += held_leak_wait(g, &l, size / held_load(t, peak, depth) * mean))
		gen_lose(g, t, (uint64_t)(size * exp(sigma * gen_normal(g) - sigma * sigma / 2)), HELD_LEAK);
	held_part_cache(g, l.warm_ns, l.warm_ns + (uint64_t)((double)(g->end_ns - l.warm_ns) * gen_range(g, 0.1, 0.8)),
			l.own_bytes, HELD_WORK);
}

void held_thread_handles(struct gen *g)
{
	struct held_leak l = held_leak(g, 0, 0, 0, true);
	double size = block_size(g, &l, 30, 8000), period = size / l.rate;

	g->leak_site = HELD_LEAK;
	/* A timer's thread: what it works with is freed, its handle's workspace is not. */
	for (uint64_t t = l.start_ns; t < g->end_ns; t += (uint64_t)(period * gen_range(g, 0.98, 1.02)) + 1) {
		uint64_t life = (uint64_t)(period * gen_range(g, 0.1, 0.9));

		gen_lose(g, t, (uint64_t)size, HELD_LEAK);
		for (size_t i = 0; i < 3; i++)
			gen_block(g, t + i, held_share(g, l.own_bytes / 4, 0.1, 1), HELD_WORK + i, life);
	}
}

void held_late(struct gen *g)
{
	struct held_leak l = held_leak(g, 1.5, 10, 0, true);
	double size = block_size(g, &l, 40, 20000);

	g->leak_site = HELD_LEAK;
	/* The same place worked well for hours, until somebody switched a feature on. */
	for (uint64_t t = l.warm_ns; t < l.start_ns; t += held_wait(g, fmax(size / l.rate, (double)l.start_ns / 5000)))
		gen_block(g, t, (uint64_t)fmin(size, (double)l.own_bytes / 20), HELD_LEAK,
			  held_span(g, GEN_SEC, HELD_MIN));
	for (uint64_t t = l.start_ns; t < g->end_ns; t += held_leak_wait(g, &l, size))
		gen_lose(g, t, (uint64_t)size, HELD_LEAK);
	held_part_evals(g, l.warm_ns, l.own_bytes / 2, HELD_WORK);
}

void held_day_night(struct gen *g)
{
	struct held_leak l = held_leak(g, 0, 0, 6, true);
	double size = block_size(g, &l, 100, 20000), depth = gen_range(g, 0.4, 0.97);
	uint64_t peak = (uint64_t)(gen_unit(g) * 24 * (double)HELD_HOUR);
	double mean = held_mean_load(l.start_ns, g->end_ns, peak, depth);

	g->leak_site = HELD_LEAK;
	for (uint64_t t = l.start_ns; t < g->end_ns; t += GEN_SEC) {
		/* The wait that is right now may be wrong in an hour. */
		double wait = size / l.rate / held_load(t, peak, depth) * mean;

		t += (uint64_t)fmin(wait * gen_exponential(g, 1), 600e9);
		if (wait < 600e9 || gen_chance(g, 600e9 / wait))
			gen_lose(g, t, (uint64_t)size, HELD_LEAK);
	}
	held_part_ttl(g, l.warm_ns, l.own_bytes, HELD_WORK);
}

void held_rare_large(struct gen *g)
{
	struct held_leak l = held_leak(g, 0, 0, 0, true);
	double size = block_size(g, &l, 12, 35), jitter = gen_range(g, 0.05, 0.6);
	uint64_t t = l.start_ns;

	g->leak_site = HELD_LEAK;
	while (t < g->end_ns) {
		gen_lose(g, t, (uint64_t)(size * gen_range(g, 0.8, 1.2)), HELD_LEAK);
		t += (uint64_t)(size / l.rate * (1 - jitter + gen_exponential(g, jitter)));
	}
	held_part_chatter(g, l.warm_ns, l.own_bytes, HELD_WORK);
}

void held_two_sites(struct gen *g)
{
	struct held_leak l = held_leak(g, 0, 0, 0, true);
	double ran = (double)(g->end_ns - l.start_ns), size[2];
	uint64_t phase = (uint64_t)(ran * gen_log_range(g, 0.01, 0.15)), turn = l.start_ns + phase;
	size_t side = 0;

	size[0] = block_size(g, &l, 80, 15000);
	size[1] = block_size(g, &l, 80, 15000);
	/* Each is quiet while the other one leaks: of no one site. */
	for (uint64_t t = l.start_ns; t < g->end_ns; t += held_leak_wait(g, &l, size[side])) {
		gen_lose(g, t, (uint64_t)size[side], HELD_LEAK + side);
		if (t < turn)
			continue;
		side = !side;
		turn = t + (uint64_t)((double)phase * gen_range(g, 0.6, 1.4));
	}
	held_part_chatter(g, l.warm_ns, l.own_bytes, HELD_WORK);
}

void held_growing_blocks(struct gen *g)
{
	struct held_leak l = held_leak(g, 0, 0, 0, true);
	size_t n = 20 + gen_pick(g, 600);
	double first = l.bytes / (double)n * gen_range(g, 0.1, 0.6),
	       wait = (double)(g->end_ns - l.start_ns) / (double)n;
	double slope = 2 * (l.bytes / (double)n - first) / (double)n;
	uint64_t t = l.start_ns;

	g->leak_site = HELD_LEAK;
	/* The history with one more row, as a new array each time, and all old ones are still known to somebody. */
	for (size_t i = 0; t < g->end_ns; i++) {
		uint64_t size = (uint64_t)(first + slope * (double)i);

		gen_lose(g, t, size, HELD_LEAK);
		gen_block(g, t, size, HELD_WORK + 8, held_span(g, GEN_SEC / 10, 10 * GEN_SEC));
		t += (uint64_t)(wait * gen_range(g, 0.7, 1.3));
	}
	held_part_chatter(g, l.warm_ns, l.own_bytes / 2, HELD_WORK);
}

void held_many_sites(struct gen *g)
{
	struct held_leak l = held_leak(g, 0, 0, 0, true);
	size_t sites = 15 + gen_pick(g, 80);
	double size = block_size(g, &l, 20 * (double)sites, 300 * (double)sites);

	/* One wrapper, called from everywhere, that forgets: of no one site. */
	for (uint64_t t = l.start_ns; t < g->end_ns; t += held_leak_wait(g, &l, size)) {
		size_t site = gen_pick(g, sites);

		gen_lose(g, t, (uint64_t)(size * gen_range(g, 0.2, 1.8)), HELD_LEAK + site);
	}
	held_part_chatter(g, l.warm_ns, l.own_bytes, HELD_WORK);
}

void held_outages(struct gen *g)
{
	struct held_leak l = held_leak(g, 0, 0, 2, true);
	double ran = (double)(g->end_ns - l.start_ns), bursts = gen_range(g, 8, 30), duty = gen_range(g, 0.08, 0.5);
	double size = block_size(g, &l, 100, 20000), period = ran / bursts;
	uint64_t t = l.start_ns;

	g->leak_site = HELD_LEAK;
	/* Only what is tried again, while another server does not answer, is lost. */
	while (t < g->end_ns) {
		uint64_t end = t + (uint64_t)(period * duty);

		for (; t < end; t += held_leak_wait(g, &l, size * duty))
			gen_lose(g, t, (uint64_t)size, HELD_LEAK);
		t = end + (uint64_t)(period * (1 - duty) * gen_range(g, 0.6, 1.4));
	}
	held_part_ttl(g, l.warm_ns, l.own_bytes, HELD_WORK);
}
