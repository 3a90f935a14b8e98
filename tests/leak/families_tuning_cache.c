// SPDX-License-Identifier: MIT
/* Programs that leak nothing: caches, queues and servers. */
#include <math.h>
#include <stdlib.h>

#include "families_tuning.h"

#define KEYS_MAX 2048

/* A key below n, small ones more often: about as 1 / (key + 1). */
static size_t zipf(struct gen *g, size_t n)
{
	size_t k = (size_t)(pow((double)n + 1, gen_unit(g)) - 1);

	return k < n ? k : n - 1;
}

void tuning_shape_cache(struct gen *g)
{
	struct program p = program_begin(g, 0.5, 24);
	size_t shapes = 10 + gen_pick(g, 500);
	double mean = program_period(g, &p, 0.5, 120, 20000),
	       bytes = p.room * gen_log_range(g, 0.02, 0.7) / (double)shapes;
	bool is_even = gen_chance(g, 0.5), is_known[512] = { false };

	program_noise(g, &p);
	for (double t = p.ready; t < p.end; t += gen_exponential(g, mean)) {
		size_t k = is_even ? gen_pick(g, shapes) : zipf(g, shapes);
		double size;

		if (is_known[k])
			continue;
		is_known[k] = true;
		size = bytes * gen_range(g, 0.5, 1.3);
		gen_block(g, at(t), size_of(size), 1 + gen_pick(g, 2), GEN_FOREVER);
	}
}

void tuning_zipf_cache(struct gen *g)
{
	struct program p = program_begin(g, 0.5, 24);
	size_t keys = 100 + gen_pick(g, KEYS_MAX - 100), room = 10 + gen_pick(g, keys), held = 0;
	double mean = program_period(g, &p, 0.2, 30, 40000),
	       bytes = p.room * gen_log_range(g, 0.05, 0.8) / (double)room;
	double used[KEYS_MAX] = { 0 };
	uint64_t addr[KEYS_MAX] = { 0 };

	program_noise(g, &p);
	for (double t = p.ready; t < p.end; t += gen_exponential(g, mean)) {
		size_t k = zipf(g, keys), oldest = SIZE_MAX;

		used[k] = t;
		if (addr[k])
			continue;
		for (size_t i = 0; held >= room && i < keys; i++) {
			if (addr[i] && (oldest == SIZE_MAX || used[i] < used[oldest]))
				oldest = i;
		}
		if (oldest != SIZE_MAX) {
			gen_free(g, at(t), addr[oldest]);
			addr[oldest] = 0;
			held--;
		}
		addr[k] = gen_block(g, at(t), size_of(bytes), 1, GEN_FOREVER);
		held++;
	}
}

void tuning_replay_buffer(struct gen *g)
{
	struct program p = program_begin(g, 0.5, 24);
	double fills = gen_log_range(g, 120, fmin(10800, (p.end - p.ready) * 0.8)),
	       bytes = p.room * gen_log_range(g, 0.05, 0.85);
	/* Once full, what is oldest is overwritten in place, or freed for the new. */
	bool replaces = gen_chance(g, 0.5);
	double n = 50 + (double)gen_pick(g, 3000), period;

	if (replaces && n * (p.end - p.ready) / fills > 60000)
		n = fmax(10, 60000 * fills / (p.end - p.ready));
	period = fills / n;
	program_noise(g, &p);
	for (double t = p.ready; t < (replaces ? p.end : p.ready + fills); t += period)
		gen_block(g, at(t + period * 0.5 * gen_unit(g)), size_of(bytes / n), 1,
			  replaces ? at(fills) : GEN_FOREVER);
}

/* Requests of a load that varies: their time and life. */
struct requests {
	double length, phase, low, mean, life, bytes;
};

static struct requests requests_make(struct gen *g, const struct program *p, double share, double max)
{
	struct requests r;
	double concurrent;

	/* One after the other: in an initializer the order would be the compiler's. */
	r.length = gen_chance(g, 0.5) ? 86400 : gen_log_range(g, 900, 43200);
	r.phase = gen_unit(g);
	r.low = gen_range(g, 0.02, 0.5);
	r.mean = program_period(g, p, 0.3, 20, max);
	r.life = gen_log_range(g, 1, 180);
	concurrent = r.life / r.mean;
	/* The peak of a random number of them is higher than its mean. */
	r.bytes = p->room * share / (concurrent + 4 * sqrt(concurrent) + 4);
	return r;
}

void tuning_kv_load(struct gen *g)
{
	struct program p = program_begin(g, 1, 24);
	struct requests r = requests_make(g, &p, gen_range(g, 0.1, 0.8), 60000);

	program_noise(g, &p);
	for (double t = p.ready; t < p.end; t += gen_exponential(g, r.mean)) {
		double life = gen_exponential(g, r.life), size = r.bytes * gen_range(g, 0.5, 1.2);

		if (gen_chance(g, program_load(t, r.length, r.phase, r.low)))
			gen_block(g, at(t), size_of(size), 1 + gen_pick(g, 3), at(fmin(life, 5 * r.life)));
	}
}

static int compare_times(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

void tuning_kv_segments(struct gen *g)
{
	struct program p = program_begin(g, 1, 24);
	struct requests r = requests_make(g, &p, gen_range(g, 0.1, 0.8), 30000);
	double segment = p.room * gen_log_range(g, 0.002, 0.05), held = 0, live = 0;
	double *ends = calloc(40000, sizeof(*ends));
	size_t n = 0, done = 0;

	program_noise(g, &p);
	for (double t = p.ready; ends && t < p.end; t += gen_exponential(g, r.mean)) {
		double life = fmin(gen_exponential(g, r.life), 5 * r.life);

		/* Those that have ended since: all of a size, so that the number is enough. */
		qsort(ends + done, n - done < 512 ? n - done : 512, sizeof(*ends), compare_times);
		for (; done < n && ends[done] <= t; done++)
			live -= r.bytes;
		if (n >= 40000 || n - done >= 512 || !gen_chance(g, program_load(t, r.length, r.phase, r.low)))
			continue;
		ends[n++] = t + life;
		live += r.bytes;
		for (; held < live; held += segment)
			gen_block(g, at(t), size_of(segment), 1 + gen_pick(g, 12), GEN_FOREVER);
	}
	free(ends);
}

void tuning_long_requests(struct gen *g)
{
	struct program p = program_begin(g, 2, 24);
	double life = gen_log_range(g, 600, (p.end - p.ready) / 3), mean = program_period(g, &p, 2, 120, 20000), bytes;
	double concurrent = life / mean;
	bool is_even = gen_chance(g, 0.5);

	bytes = p.room * gen_range(g, 0.1, 0.8) / (concurrent + 4 * sqrt(concurrent) + 4);
	program_noise(g, &p);
	for (double t = p.ready; t < p.end; t += gen_exponential(g, mean)) {
		double lasts = is_even ? life * gen_range(g, 0.8, 1.2) : fmin(gen_exponential(g, life), 4 * life);

		gen_block(g, at(t), size_of(bytes * gen_range(g, 0.6, 1.2)), 1, at(lasts));
	}
}

void tuning_prefetch(struct gen *g)
{
	struct program p = program_begin(g, 0.34, 24);
	size_t depth = 4 + gen_pick(g, 500), head = 0, held = 0;
	double period = program_period(g, &p, 0.2, 20, 30000),
	       bytes = p.room * gen_log_range(g, 0.02, 0.6) / (double)depth;
	double phase = gen_log_range(g, 60, (p.end - p.ready)), balance = 0.9;
	uint64_t queue[512] = { 0 };

	program_noise(g, &p);
	/* Producer and consumer take turns in being the faster one. */
	for (double t = p.ready, turn = 0; t < p.end; t += period * gen_range(g, 0.5, 1.5)) {
		if (t > turn) {
			turn = t + phase * gen_range(g, 0.3, 1.7);
			balance = gen_chance(g, 0.6) ? gen_range(g, 0.55, 1) : gen_range(g, 0.2, 0.5);
		}
		if (gen_chance(g, balance) && held < depth)
			queue[(head + held++) % 512] = gen_block(g, at(t), size_of(bytes), 1, GEN_FOREVER);
		else if (held > 0) {
			gen_free(g, at(t), queue[head++ % 512]);
			held--;
		}
	}
}

void tuning_batch_jobs(struct gen *g)
{
	struct program p = program_begin(g, 1, 24);
	double mean = gen_log_range(g, 120, (p.end - p.ready) / 2.5), height = p.room * gen_log_range(g, 0.05, 0.7),
	       lasts;
	double max = 40000 * mean / (p.end - p.ready);

	program_noise(g, &p);
	for (double t = p.ready; t < p.end; t += lasts) {
		double busy, n = fmin(20 + (double)gen_pick(g, 2000), max + 2),
			     size = height * gen_range(g, 0.5, 1) / n;

		lasts = mean * gen_log_range(g, 0.4, 2.5);
		busy = lasts * gen_range(g, 0.5, 0.95);
		/* What came first is done with first, mostly. */
		for (double i = 0; i < n; i++) {
			double now = busy * 0.8 * i / n;

			gen_block(g, at(t + now), size_of(size), 1, at(busy - now + gen_range(g, -0.05, 0.05) * busy));
		}
	}
}

void tuning_chat_sessions(struct gen *g)
{
	struct program p = program_begin(g, 2, 24);
	double mean, life = gen_log_range(g, 300, 5400), turn = gen_log_range(g, 10, 120), concurrent, bytes;
	double phase = gen_unit(g), low = gen_range(g, 0.1, 0.6);

	mean = program_period(g, &p, 2, 300, 40000 * turn / life);
	concurrent = life / mean;
	bytes = p.room * gen_range(g, 0.1, 0.8) / (concurrent + 4 * sqrt(concurrent) + 4) * turn / life / 1.5;
	program_noise(g, &p);
	for (double t = p.ready; t < p.end; t += gen_exponential(g, mean)) {
		double lasts = fmin(gen_exponential(g, life), 3 * life);

		if (!gen_chance(g, program_load(t, 86400, phase, low)))
			continue;
		for (double now = 0; now < lasts; now += turn * gen_range(g, 0.5, 1.5))
			gen_block(g, at(t + now), size_of(bytes * gen_range(g, 0.5, 1.5)), 1, at(lasts - now));
	}
}

void tuning_models_on_demand(struct gen *g)
{
	struct program p = program_begin(g, 2, 24);
	size_t models = 4 + gen_pick(g, 28), room = 2 + gen_pick(g, 8), held = 0, parts = 4 + gen_pick(g, 40);
	double mean = gen_log_range(g, 20, 1800),
	       bytes = p.room * gen_range(g, 0.3, 0.9) / (double)room / (double)parts;
	double used[32] = { 0 };
	uint64_t addr[32][44] = { { 0 } };

	if (mean < (p.end - p.ready) * (double)parts / 30000)
		mean = (p.end - p.ready) * (double)parts / 30000;
	program_noise(g, &p);
	for (double t = p.ready; t < p.end; t += gen_exponential(g, mean)) {
		size_t k = zipf(g, models), oldest = SIZE_MAX;

		used[k] = t;
		if (addr[k][0])
			continue;
		for (size_t i = 0; held >= room && i < models; i++) {
			if (addr[i][0] && (oldest == SIZE_MAX || used[i] < used[oldest]))
				oldest = i;
		}
		for (size_t i = 0; oldest != SIZE_MAX && i < parts; i++) {
			/* One after another, as they came: none before it was there. */
			gen_free(g, at(t + 0.1 * (double)i), addr[oldest][i]);
			addr[oldest][i] = 0;
		}
		held -= oldest != SIZE_MAX;
		for (size_t i = 0; i < parts; i++)
			addr[k][i] = gen_block(g, at(t + 0.1 * (double)i), size_of(bytes), 1, GEN_FOREVER);
		held++;
	}
}

void tuning_notebook(struct gen *g)
{
	struct program p = program_begin(g, 1, 12);
	double mean = gen_log_range(g, 30, 600), held = 0, most = p.room * gen_range(g, 0.2, 0.8);
	uint64_t addr[64] = { 0 };
	double bytes[64] = { 0 };

	for (double t = p.ready; t < p.end; t += gen_exponential(g, mean)) {
		size_t k = gen_pick(g, 64);
		double size = p.room * gen_log_range(g, 0.0005, 0.05);

		/* A variable is given a new value; now and then many are deleted, or all when it gets tight. */
		if (gen_chance(g, 0.03) || held + size > most) {
			for (size_t i = 0; i < 64; i++) {
				if (!addr[i] || gen_chance(g, 0.2))
					continue;
				gen_free(g, at(t), addr[i]);
				held -= bytes[i];
				addr[i] = 0;
			}
		}
		if (held + size > most)
			continue;
		if (addr[k]) {
			gen_free(g, at(t), addr[k]);
			held -= bytes[k];
		}
		addr[k] = gen_block(g, at(t), size_of(size), 1 + gen_pick(g, 12), GEN_FOREVER);
		bytes[k] = size;
		held += size;
	}
}
