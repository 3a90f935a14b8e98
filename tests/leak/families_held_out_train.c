// SPDX-License-Identifier: MIT
/* Benign: training, computing and notebooks. */
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "families_held_out.h"

/* A point of the time between b->warm_ns and the end. */
static uint64_t at(struct gen *g, const struct held_benign *b, double low, double high)
{
	return b->warm_ns + (uint64_t)((double)(g->end_ns - b->warm_ns) * gen_range(g, low, high));
}

/* A step of a loop that makes at most most steps in a trace. */
static double pace(struct gen *g, const struct held_benign *b, double low_ns, double high_ns, double most)
{
	return fmax(gen_log_range(g, low_ns, high_ns), (double)(g->end_ns - b->warm_ns) / most);
}

/* n blocks, bytes in all, within a few seconds. */
static void put(struct gen *g, struct held_list *l, uint64_t time_ns, uint64_t bytes, size_t n, uint64_t stack)
{
	for (size_t i = 0; i < n; i++)
		held_push(l, gen_block(g, time_ns + i * GEN_SEC / 20, bytes / n, stack, GEN_FOREVER));
}

void held_dynamic_lengths(struct gen *g)
{
	struct held_benign b = held_benign(g, 0.5, 24);
	double step = pace(g, &b, 0.3e9, 10e9, 12000), sigma = gen_range(g, 0.1, 0.9);
	size_t layers = 6 + gen_pick(g, 40);
	struct held_pool pool;

	held_pool_init(&pool, g, b.bytes);
	for (uint64_t t = b.warm_ns; t < g->end_ns; t += held_wait(g, step)) {
		/* The longest text of a batch decides; it is cut at a limit that few ever meet. */
		double length = fmin(1.0, 0.15 * exp(sigma * (0.5 + gen_normal(g))));

		held_pass(&pool, t, layers, (uint64_t)(0.7 * length * (double)b.bytes), HELD_WORK, 0);
	}
	held_pool_done(&pool);
}

void held_lazy_optimizer(struct gen *g)
{
	struct held_benign b = held_benign(g, 0.34, 12);
	size_t stages = 1 + gen_pick(g, 5);
	uint64_t t = b.warm_ns + held_span(g, GEN_SEC, 15 * HELD_MIN);
	struct held_list kept = { 0 };
	struct held_pool pool;

	held_pool_init(&pool, g, b.bytes / 2);
	/* The first step makes the state; layers that are unfrozen later get theirs then. */
	for (size_t i = 0; i < stages && t < g->end_ns; i++) {
		put(g, &kept, t, b.bytes / 2 / stages, 20 + gen_pick(g, 200), HELD_WORK);
		t += held_span(g, 2 * HELD_MIN, 1 + (g->end_ns - b.warm_ns) / 8 + 2 * HELD_MIN);
	}
	for (t = b.warm_ns; t < g->end_ns; t += held_wait(g, pace(g, &b, 0.5e9, 5e9, 5000)))
		held_pass(&pool, t, 12, held_share(g, b.bytes / 2, 0.6, 0.65), HELD_WORK + 1, 0);
	held_pool_done(&pool);
	free(kept.addrs);
}

void held_ema_midway(struct gen *g)
{
	struct held_benign b = held_benign(g, 0.5, 24);
	uint64_t start = at(g, &b, 0.15, 0.75), n = 30 + gen_pick(g, 300), model = b.bytes / 3;
	double every = gen_log_range(g, 300e9, 3600e9);
	struct held_list kept = { 0 };

	/* The averaged copy is made once; each checkpoint from then on swaps it in and keeps the other one aside. */
	put(g, &kept, start, model, n, HELD_WORK);
	for (uint64_t t = b.warm_ns; t < g->end_ns; t += held_wait(g, every)) {
		uint64_t took = held_span(g, 5 * GEN_SEC, 2 * HELD_MIN);

		for (size_t i = 0; i < (t > start ? 40 : 10); i++)
			gen_block(g, t + i * GEN_SEC / 50, model / 40, HELD_WORK + 1, took);
	}
	/* Some drop it again for the last part. */
	if (gen_chance(g, 0.3))
		held_free_all(g, &kept, at(g, &b, 0.8, 0.95));
	free(kept.addrs);
}

void held_eval_temporaries(struct gen *g)
{
	struct held_benign b = held_benign(g, 1, 24);
	bool is_trimmed = gen_chance(g, 0.5);
	double step = pace(g, &b, 0.5e9, 5e9, 8000), every = gen_log_range(g, 300e9, 5400e9);
	uint64_t next = b.warm_ns + (uint64_t)every;
	struct held_pool pool;

	held_pool_init(&pool, g, b.bytes / 2);
	for (uint64_t t = b.warm_ns; t < g->end_ns; t += held_wait(g, step)) {
		held_pass(&pool, t, 10, b.bytes / 8, HELD_WORK, 0);
		if (t < next)
			continue;
		/* Larger batches, of lengths that differ from one evaluation to the next. */
		for (size_t i = 0; i < 20; i++)
			held_pass(&pool, t + i * GEN_SEC, 10, held_share(g, b.bytes, 0.1, 0.3), HELD_WORK + 4, 0);
		t += held_span(g, 20 * GEN_SEC, 5 * HELD_MIN);
		if (is_trimmed)
			held_pool_trim(&pool, t);
		next = t + (uint64_t)every;
	}
	held_pool_done(&pool);
	held_part_evals(g, b.warm_ns + HELD_MIN, b.bytes / 2, HELD_WORK + 10);
}

void held_growing_inputs(struct gen *g)
{
	struct held_benign b = held_benign(g, 0.5, 24);
	size_t stages = 3 + gen_pick(g, 8), layers = 6 + gen_pick(g, 30);
	uint64_t last = at(g, &b, 0.3, 0.75); /* when the inputs have their full size */
	double factor = gen_range(g, 1.15, 2), step = pace(g, &b, 0.5e9, 10e9, 8000);
	struct held_pool pool;

	held_pool_init(&pool, g, b.bytes);
	for (uint64_t t = b.warm_ns; t < g->end_ns; t += held_wait(g, step)) {
		size_t to_go =
			t >= last ? 0 : (size_t)((double)stages * (double)(last - t) / (double)(last - b.warm_ns)) + 1;
		double size = 0.5 * pow(factor, -(double)to_go) * gen_range(g, 0.95, 1);

		held_pass(&pool, t, layers, (uint64_t)(size * (double)b.bytes), HELD_WORK, 0);
	}
	held_pool_done(&pool);
}

void held_sweep(struct gen *g)
{
	struct held_benign b = held_benign(g, 1, 24);
	double mean = gen_log_range(g, 60e9, 0.15 * (double)(g->end_ns - b.warm_ns));
	uint64_t t = b.warm_ns;

	while (t < g->end_ns) {
		uint64_t trial = (uint64_t)(mean * (0.2 + gen_exponential(g, 0.8))),
			 size = held_share(g, b.bytes, 0.1, 0.8);
		size_t n = 10 + gen_pick(g, 60), grown = gen_pick(g, 40);

		for (size_t i = 0; i < n; i++)
			gen_block(g, t + i * GEN_SEC / 40, size / n, HELD_WORK + i % 4,
				  trial + GEN_SEC * 2 - i * GEN_SEC / 40);
		/* What is remembered of a trial until its end. */
		for (size_t i = 0; i < grown; i++) {
			uint64_t later = trial / (grown + 1) * i;

			gen_block(g, t + later, held_share(g, b.bytes / 6 / grown, 0.5, 1), HELD_WORK + 5,
				  trial - later);
		}
		t += trial + held_span(g, 3 * GEN_SEC, 2 * HELD_MIN);
	}
}

/* Pinned host memory, until it is freed. */
static uint64_t pinned(struct gen *g, uint64_t time_ns, uint64_t bytes, uint64_t stack)
{
	uint64_t addr = gen_block(g, time_ns, bytes, stack, GEN_FOREVER);

	if (addr)
		g->items[g->len - 1].class = CLASS_HOST;
	return addr;
}

void held_loader(struct gen *g)
{
	struct held_benign b = held_benign(g, 0.34, 12);
	double step = pace(g, &b, 0.05e9, 5e9, 12000), sigma = gen_range(g, 0.05, 0.6);
	size_t depth = 2 + gen_pick(g, 14), n = 0;
	uint64_t sizes[16] = { 0 }, staged[16] = { 0 }, hosts[16] = { 0 }, most = b.bytes / 32;

	/* A ring of buffers, pinned and on the device: each grows when a batch does not fit and never shrinks. */
	for (uint64_t t = b.warm_ns; t < g->end_ns; t += held_wait(g, step), n++) {
		uint64_t need = (uint64_t)(fmin(1.0, 0.2 * exp(sigma * gen_normal(g))) * (double)most);
		size_t i = n % depth;

		if (need <= sizes[i])
			continue;
		gen_free(g, t, staged[i]);
		gen_free(g, t, hosts[i]);
		sizes[i] = MIN((uint64_t)((double)need * 1.1), most);
		staged[i] = gen_block(g, t, sizes[i], HELD_WORK, GEN_FOREVER);
		hosts[i] = pinned(g, t, sizes[i], HELD_WORK + 1);
	}
}

void held_random_arrays(struct gen *g)
{
	struct held_benign b = held_benign(g, 0.5, 24);
	double step = pace(g, &b, 0.1e9, 5e9, 20000), decades = gen_range(g, 0.5, 2.5);
	size_t most = 10 + gen_pick(g, 80), n = 0;
	double mean = 0.5 * (double)b.bytes / (double)most;
	int held[90];
	struct held_pool pool;

	held_pool_init(&pool, g, b.bytes);
	pool.is_exact = true;
	for (uint64_t t = b.warm_ns; t < g->end_ns; t += held_wait(g, step)) {
		size_t site = gen_pick(g, 5);

		while (n > 0 && (n >= most || gen_chance(g, 0.45))) {
			size_t i = gen_pick(g, n);

			held_pool_free(&pool, held[i]);
			held[i] = held[--n];
		}
		held[n++] =
			held_pool_alloc(&pool, t, (uint64_t)(mean * pow(10, -decades * gen_unit(g))), HELD_WORK + site);
	}
	held_pool_done(&pool);
}

void held_replay_buffer(struct gen *g)
{
	struct held_benign b = held_benign(g, 1, 24);
	uint64_t full = at(g, &b, 0.1, 0.7);
	size_t n = (size_t)gen_log_range(g, 40, 4000);
	uint64_t t = b.warm_ns + held_span(g, GEN_SEC, 5 * HELD_MIN);
	double wait = (double)(full - b.warm_ns) / (double)n;

	/* Chunk after chunk while it plays; what is full is written over in place. */
	for (size_t i = 0; i < n && t < g->end_ns; i++) {
		gen_block(g, t, (uint64_t)(0.85 * (double)b.bytes / (double)n), HELD_WORK, GEN_FOREVER);
		t += held_wait(g, wait);
	}
	held_part_evals(g, b.warm_ns + HELD_MIN, b.bytes / 8, HELD_WORK + 5);
}

void held_first_epoch(struct gen *g)
{
	struct held_benign b = held_benign(g, 1, 24);
	uint64_t epoch = at(g, &b, 0.1, 0.5) - b.warm_ns;
	size_t n = (size_t)gen_log_range(g, 100, 10000), held = 0;

	/* All samples are kept on the device when they are first read; later epochs read them there. */
	while (held < n) {
		uint64_t t = b.warm_ns + (uint64_t)((double)epoch * ((double)held + gen_unit(g)) / (double)n);

		gen_block(g, t, held_share(g, b.bytes / n, 0.2, 1.3), HELD_WORK + held % 2, GEN_FOREVER);
		held++;
	}
	held_part_chatter(g, b.warm_ns, b.bytes / 6, HELD_WORK + 5);
}

void held_notebook(struct gen *g)
{
	struct held_benign b = held_benign(g, 1, 12);
	size_t steps = 3 + gen_pick(g, 10);
	uint64_t rest = at(g, &b, 0.7, 0.95), t = b.warm_ns;
	struct held_list kept = { 0 };

	for (size_t i = 0; i < steps; i++) {
		uint64_t size = held_share(g, b.bytes / steps, 0.3, 1);

		/* A person thinks, goes for lunch, runs a cell again. */
		t += (uint64_t)((double)(rest - b.warm_ns) / (double)steps * gen_range(g, 0.1, 1.2));
		if (t >= rest)
			break;
		gen_block(g, t, size / 2, HELD_WORK + 8, held_span(g, GEN_SEC, 5 * HELD_MIN));
		put(g, &kept, t, size / 2, 1 + gen_pick(g, 20), HELD_WORK + i % 8);
		while (kept.len > 0 && gen_chance(g, 0.15))
			gen_free(g, t + GEN_SEC * 3, held_take(&kept, gen_pick(g, kept.len)));
	}
	/* "del results", or most of them. */
	while (kept.len > 0 && gen_chance(g, 0.97))
		gen_free(g, rest + GEN_SEC * 60, held_take(&kept, kept.len - 1));
	free(kept.addrs);
}

/* How much of its largest size a mesh has at a time: it refines in steps of different speed, then coarsens. */
static double mesh_size(const double *sizes, const uint64_t *times, size_t n, uint64_t time_ns)
{
	for (size_t i = 1; i < n; i++) {
		double part;

		if (time_ns >= times[i])
			continue;
		part = (double)(time_ns - times[i - 1]) / (double)(times[i] - times[i - 1]);
		return sizes[i - 1] + (sizes[i] - sizes[i - 1]) * part;
	}
	return sizes[n - 1];
}

void held_mesh(struct gen *g)
{
	struct held_benign b = held_benign(g, 1, 24);
	double sizes[8] = { 0.1 }, step = pace(g, &b, 5e9, 300e9, 6000);
	uint64_t times[8] = { b.warm_ns };
	size_t phases = 2 + gen_pick(g, 5), n = phases + 2, patches = 50 + gen_pick(g, 2000);
	uint64_t top = at(g, &b, 0.4, 0.8);
	struct held_list held = { 0 };

	for (size_t i = 1; i <= phases; i++) {
		times[i] = b.warm_ns + (top - b.warm_ns) * i / phases;
		sizes[i] = sizes[i - 1] + (0.95 - sizes[i - 1]) * (i == phases ? 1 : gen_range(g, 0, 0.8));
	}
	times[n - 1] = top + (g->end_ns - top) / 2;
	sizes[n - 1] = gen_range(g, 0.1, 0.8);
	for (uint64_t t = b.warm_ns; t < g->end_ns; t += held_wait(g, step)) {
		size_t want = (size_t)(mesh_size(sizes, times, n, t) * (double)patches * gen_range(g, 0.96, 1));

		while (held.len < want)
			held_push(&held, gen_block(g, t, held_share(g, b.bytes / patches, 0.9, 1.05),
						   HELD_WORK + held.len % 3, GEN_FOREVER));
		while (held.len > want)
			gen_free(g, t, held_take(&held, gen_pick(g, held.len)));
	}
	free(held.addrs);
}

void held_particles(struct gen *g)
{
	struct held_benign b = held_benign(g, 0.5, 24);
	double span = (double)(g->end_ns - b.warm_ns), tau = span * gen_log_range(g, 0.03, 0.25);
	double factor = gen_range(g, 1.1, 1.6), step = pace(g, &b, 0.5e9, 30e9, 10000);
	size_t n = 3 + gen_pick(g, 12); /* arrays: places, speeds, fields */
	uint64_t sizes[15], addrs[15];

	for (size_t i = 0; i < n; i++) {
		sizes[i] = b.bytes / n / 40;
		addrs[i] = gen_block(g, b.warm_ns, sizes[i], HELD_WORK + i % 5, GEN_FOREVER);
	}
	/* More come in than go out, until as many go out. An array that is too short moves to a longer one. */
	for (uint64_t t = b.warm_ns; t < g->end_ns; t += held_wait(g, step)) {
		double count = (1 - exp(-(double)(t - b.warm_ns) / tau)) * gen_range(g, 0.97, 1);
		uint64_t need = (uint64_t)(0.45 * (double)(b.bytes / n) * count);
		size_t i = gen_pick(g, n);
		uint64_t old = addrs[i];

		if (need <= sizes[i])
			continue;
		sizes[i] = (uint64_t)((double)need * factor);
		addrs[i] = gen_block(g, t, sizes[i], HELD_WORK + i % 5, GEN_FOREVER);
		gen_free(g, t + GEN_SEC / 100, old);
	}
}

void held_krylov(struct gen *g)
{
	struct held_benign b = held_benign(g, 0.5, 24);
	size_t basis = 20 + gen_pick(g, 200);
	/* One vector an iteration until the restart, which frees them all. */
	double cycle = gen_log_range(g, 30e9, (double)(g->end_ns - b.warm_ns) / 4), wait = cycle / (double)basis;
	uint64_t t = b.warm_ns;
	struct held_list held = { 0 };

	wait = fmax(wait, (double)(g->end_ns - b.warm_ns) / 60000);
	while (t < g->end_ns) {
		size_t n = gen_chance(g, 0.2) ? 1 + gen_pick(g, basis) : basis; /* converged early */

		for (size_t i = 0; i < n; i++) {
			held_push(&held, gen_block(g, t, b.bytes / (basis + 1), HELD_WORK, GEN_FOREVER));
			t += held_wait(g, wait);
		}
		held_free_all(g, &held, t);
		t += (uint64_t)wait;
	}
}

void held_rollouts(struct gen *g)
{
	struct held_benign b = held_benign(g, 1, 24);
	double phase = gen_log_range(g, 120e9, (double)(g->end_ns - b.warm_ns) / 6);
	size_t n = 20 + gen_pick(g, 100);
	struct held_list kept = { 0 };

	/* Text is generated, and its keys and values pile up; then all is freed and the model is trained on it. */
	for (uint64_t t = b.warm_ns; t < g->end_ns;) {
		uint64_t made = (uint64_t)(phase * gen_range(g, 0.7, 1.3)),
			 trained = (uint64_t)(phase * gen_range(g, 0.3, 0.6));

		for (size_t i = 0; i < n; i++)
			held_push(&kept, gen_block(g, t + made * i / n, held_share(g, b.bytes / n, 0.5, 1), HELD_WORK,
						   GEN_FOREVER));
		t += made;
		held_free_all(g, &kept, t);
		for (size_t i = 0; i < 30; i++)
			gen_block(g, t + GEN_SEC, b.bytes / 40, HELD_WORK + 1 + i % 4, trained - GEN_SEC);
		t += trained + GEN_SEC;
	}
}

void held_spilling(struct gen *g)
{
	struct held_benign b = held_benign(g, 0.5, 24);
	size_t n = 30 + gen_pick(g, 600), last = 0; /* partitions that fit */
	double span = (double)(g->end_ns - b.warm_ns), wait = span * gen_log_range(g, 0.02, 0.4) / (double)n;
	struct held_list held = { 0 };

	/* Partitions are kept until the device is nearly full, then a part of them goes to the host. */
	for (uint64_t t = b.warm_ns; t < g->end_ns; t += held_wait(g, fmax(wait, span / 20000)), last++) {
		held_push(&held,
			  gen_block(g, t, held_share(g, b.bytes / n, 0.6, 1.1), HELD_WORK + last % 3, GEN_FOREVER));
		gen_block(g, t, b.bytes / n / 2, HELD_WORK + 4, held_span(g, GEN_SEC / 10, 20 * GEN_SEC));
		if (held.len < n)
			continue;
		for (size_t i = 1 + gen_pick(g, n / 2); i > 0; i--)
			gen_free(g, t + GEN_SEC, held_take(&held, gen_chance(g, 0.8) ? 0 : gen_pick(g, held.len)));
	}
	free(held.addrs);
}
