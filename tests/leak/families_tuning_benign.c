// SPDX-License-Identifier: MIT
/* Programs that leak nothing: how they load, train and rest. */
#include <math.h>

#include "families_tuning.h"

void tuning_weights_only(struct gen *g)
{
	struct program p = program_begin(g, 0.34, 24);

	program_noise(g, &p);
}

void tuning_slow_load(struct gen *g)
{
	struct program p = { .end = 3600 * gen_log_range(g, 0.5, 24) };
	double bytes, takes;
	size_t n = 100 + gen_pick(g, 3000), sites = 1 + gen_pick(g, 4);

	g->end_ns = at(p.end);
	gen_device(g);
	bytes = (double)(g->device_bytes - g->foreign_bytes) * gen_range(g, 0.2, 0.9);
	takes = gen_log_range(g, 120, fmin(3600, p.end * 0.8));
	for (size_t i = 0; i < n; i++) {
		double t = takes * ((double)i + gen_unit(g)) / (double)n,
		       size = bytes / (double)n * gen_range(g, 0.5, 1.5);

		gen_block(g, at(t), size_of(size), 1 + gen_pick(g, sites), GEN_FOREVER);
	}
	p.ready = takes + gen_log_range(g, 0.1, 30);
	p.room = ((double)(g->device_bytes - g->foreign_bytes) - bytes * 1.05) * 0.9;
	if (p.room > 64e6)
		program_noise(g, &p);
}

void tuning_lazy_load(struct gen *g)
{
	struct program p = program_begin(g, 0.5, 24);
	size_t n = 10 + gen_pick(g, 150), sites = 1 + gen_pick(g, 5);
	double bytes = p.room * gen_log_range(g, 0.02, 0.6) / (double)n,
	       mean = gen_log_range(g, 60, (p.end - p.ready) / 4);

	program_noise(g, &p);
	for (size_t i = 0; i < n; i++) {
		double t = p.ready + gen_exponential(g, mean);

		gen_block(g, at(t), size_of(bytes), 1 + gen_pick(g, sites), GEN_FOREVER);
	}
}

void tuning_warmup(struct gen *g)
{
	struct program p = program_begin(g, 0.34, 12);
	double lasts = gen_log_range(g, 20, fmin(1500, (p.end - p.ready) / 3)),
	       large = p.room * gen_log_range(g, 0.05, 0.5);
	size_t n = 50 + gen_pick(g, 1000), kept = 5 + gen_pick(g, 50);

	program_noise(g, &p);
	for (size_t i = 0; i < n; i++) {
		double size = large * gen_unit(g), life = lasts / (double)n * gen_range(g, 0.1, 0.8);

		gen_block(g, at(p.ready + lasts * (double)i / (double)n), size_of(size), 1, at(life));
	}
	for (size_t i = 0; i < kept; i++) {
		double t = p.ready + lasts * gen_unit(g);

		gen_block(g, at(t), size_of(p.room * 0.15 / (double)kept), 2 + gen_pick(g, 4), GEN_FOREVER);
	}
}

/* count blocks within length seconds, all freed at its end (after slack seconds of the next). */
static void tooth(struct gen *g, double start, double length, double height, size_t count, uint64_t stack, double slack)
{
	for (size_t i = 0; i < count; i++) {
		double now = length * ((double)i + gen_unit(g)) / (double)count;

		gen_block(g, at(start + now), size_of(height / (double)count), stack,
			  at(length - now + slack * gen_unit(g)));
	}
}

static size_t at_most(size_t n, double max)
{
	return (double)n <= max ? n : max < 1 ? 1 : (size_t)max;
}

void tuning_grad_accum(struct gen *g)
{
	struct program p = program_begin(g, 0.34, 12);
	double round = gen_log_range(g, 4, 240), height = p.room * gen_log_range(g, 0.01, 0.6);
	size_t micro = at_most(2 + gen_pick(g, 62), 40000 * round / (p.end - p.ready));

	program_noise(g, &p);
	for (double t = p.ready; t < p.end; t += round)
		tooth(g, t, round * 0.98, height, micro, 1, 0);
}

void tuning_epoch_sawtooth(struct gen *g)
{
	struct program p = program_begin(g, 1, 24);
	double epoch = gen_log_range(g, 300, (p.end - p.ready) / 3), height = p.room * gen_log_range(g, 0.02, 0.7);
	size_t blocks = at_most(100 + gen_pick(g, 2000), 50000 * epoch / (p.end - p.ready));

	program_noise(g, &p);
	for (double t = p.ready + epoch * gen_unit(g); t < p.end; t += epoch)
		tooth(g, t, epoch * 0.99, height, blocks, 1, 0);
}

void tuning_gc_sawtooth(struct gen *g)
{
	struct program p = program_begin(g, 0.34, 24);
	double mean = gen_log_range(g, 20, (p.end - p.ready) / 5), height = p.room * gen_log_range(g, 0.02, 0.4),
	       length;
	size_t blocks = at_most(7 + gen_pick(g, 100), 40000 * mean / (p.end - p.ready));

	program_noise(g, &p);
	for (double t = p.ready; t < p.end; t += length) {
		length = mean * gen_log_range(g, 0.5, 2);
		tooth(g, t, length, height * length / mean / 2, blocks, 1, 0);
	}
}

void tuning_swap_clean(struct gen *g)
{
	struct program p = program_begin(g, 0.5, 24);
	double every = gen_log_range(g, 60, (p.end - p.ready) / 3), model = p.room * gen_range(g, 0.05, 0.35);
	double loads = gen_log_range(g, 1, every / 3);
	size_t blocks = at_most(8 + gen_pick(g, 100), 40000 * every / (p.end - p.ready));

	program_noise(g, &p);
	for (double t = p.ready; t < p.end; t += every) {
		double size = model * gen_range(g, 0.7, 1.1);

		for (size_t i = 0; i < blocks; i++) {
			double now = loads * (double)i / (double)blocks;

			gen_block(g, at(t + now), size_of(size / (double)blocks), 1 + i % 3,
				  at(every - now + loads * 0.5));
		}
	}
}

void tuning_phase_step(struct gen *g)
{
	struct program p = program_begin(g, 0.5, 24);
	double change = p.ready + (p.end - p.ready) * gen_range(g, 0.2, 0.9), period, low, high;
	size_t kept = 1 + gen_pick(g, 200);

	low = p.room * gen_log_range(g, 0.01, 0.2);
	high = low * gen_range(g, 1.3, 3);
	period = program_period(g, &p, 0.5, 60, 15000);
	program_noise(g, &p);
	for (double t = p.ready; t < p.end; t += period)
		gen_block(g, at(t), size_of(t < change ? low : high), 1, at(period * gen_range(g, 0.3, 0.9)));
	/* Buffers of the new size, kept from then on. */
	for (size_t i = 0; i < kept; i++)
		gen_block(g, at(change + gen_exponential(g, 20)), size_of(high / 3 / (double)kept), 2, GEN_FOREVER);
}

void tuning_periodic_eval(struct gen *g)
{
	struct program p = program_begin(g, 0.5, 24);
	double every = gen_log_range(g, 120, (p.end - p.ready) / 3), lasts = every * gen_range(g, 0.02, 0.5);
	double height = p.room * gen_log_range(g, 0.02, 0.5);
	size_t blocks = at_most(10 + gen_pick(g, 400), 30000 * every / (p.end - p.ready));

	program_noise(g, &p);
	for (double t = p.ready + every * gen_unit(g); t < p.end; t += every * gen_range(g, 0.95, 1.05))
		tooth(g, t, lasts, height, blocks, 1 + gen_pick(g, 2), 0);
}

void tuning_idle(struct gen *g)
{
	struct program p = program_begin(g, 4, 24);
	size_t n = gen_pick(g, 60);

	for (size_t i = 0; i < n; i++) {
		double t = gen_range(g, p.ready, p.end), size = p.room * gen_log_range(g, 0.0001, 0.05);

		gen_block(g, at(t), size_of(size), 1, at(gen_log_range(g, 0.1, 600)));
	}
}

void tuning_batch_steps(struct gen *g)
{
	struct program p = program_begin(g, 0.5, 24);
	size_t steps = 2 + gen_pick(g, 4);
	double size = p.room * gen_log_range(g, 0.01, 0.1), t = p.ready;
	uint64_t held[8] = { 0 };

	program_noise(g, &p);
	/* Each time all buffers are made anew, larger; of the last size they stay. */
	for (size_t i = 0; i < steps; i++) {
		for (size_t k = 0; k < 8; k++) {
			gen_free(g, at(t), held[k]);
			held[k] =
				gen_block(g, at(t + 0.1 + 0.1 * (double)k), size_of(size / 8), 1 + k % 3, GEN_FOREVER);
		}
		size *= gen_range(g, 1.2, 1.9);
		t += (p.end - p.ready) / (double)steps * gen_range(g, 0.3, 0.95);
	}
}

void tuning_seq_records(struct gen *g)
{
	struct program p = program_begin(g, 0.5, 24);
	double period = program_period(g, &p, 0.5, 30, 20000), spread = gen_range(g, 0.2, 0.8), longest = 0;
	bool keeps_all = gen_chance(g, 0.5);
	/* The old room and the new are both there for an instant. */
	double scale = p.room * gen_log_range(g, 0.03, keeps_all ? 0.27 : 0.13);
	uint64_t addr = 0;

	program_noise(g, &p);
	for (double t = p.ready; t < p.end; t += period) {
		double length = exp(spread * gen_normal(g));
		uint64_t next;

		length = length > 2.7 ? 2.7 : length; /* where inputs are cut off */
		if (length <= longest)
			continue;
		/* Either room is made anew, or as much as is missing is added. */
		next = gen_block(g, at(t), size_of(scale * (keeps_all ? length - longest : length)), 1, GEN_FOREVER);
		if (!keeps_all)
			gen_free(g, at(t), addr);
		addr = next;
		longest = length;
	}
}

void tuning_driver_noise(struct gen *g)
{
	struct program p = program_begin(g, 0.5, 24);
	double usable = (double)(g->device_bytes - g->foreign_bytes), held = usable * 0.97 - p.room;
	double context = gen_range(g, 300e6, 700e6), modules = fmin(gen_log_range(g, 50e6, 3e9), 0.5 * p.room);
	double settles = gen_log_range(g, 60, (p.end - p.ready) / 4),
	       swing = fmin(gen_log_range(g, 1e6, 5e8), 0.1 * p.room);

	for (double t = 0; t < p.end; t += 10) {
		double own = context + (t > p.ready ? modules * (1 - exp(-(t - p.ready) / settles)) : 0);

		own += swing * (0.5 + 0.5 * sin(t / 977)) * (gen_chance(g, 0.9) ? 1 : 0);
		gen_driver(g, at(t), size_of((t < p.ready ? held * t / p.ready : held) + own));
	}
}
