// SPDX-License-Identifier: MIT
/* Leaks at a site or several. Stacks from 1 are the family's own; sizes follow from what is lost in all. */
#include <math.h>

#include "families_tuning.h"

/* From some time after the start-up: not every program does it from its first step on. */
static double leak_from(struct gen *g, const struct program *p)
{
	return gen_chance(g, 0.5) ? p->ready : p->ready + (p->end - p->ready) * gen_range(g, 0.01, 0.3);
}

void tuning_result_kept(struct gen *g)
{
	struct program p = program_begin(g, 0.34, 24);
	double from, period, bytes, jitter = gen_log_range(g, 0.001, 0.5);

	program_noise(g, &p);
	program_distraction(g, &p);
	from = leak_from(g, &p);
	period = program_period(g, &p, 0.2, 90, 12000);
	bytes = program_leak(g, &p) * period / (p.end - from);
	g->leak_site = 1;
	for (double t = from; t < p.end; t += period * gen_range(g, 1 - jitter, 1 + jitter))
		gen_lose(g, at(t), size_of(bytes), 1);
}

void tuning_graph_kept(struct gen *g)
{
	struct program p = program_begin(g, 0.34, 24);
	size_t blocks = 3 + gen_pick(g, 12);
	double from, period, total, part[16], sum = 0;

	program_noise(g, &p);
	program_distraction(g, &p);
	from = leak_from(g, &p);
	period = program_period(g, &p, 0.5, 60, 30000.0 / (double)blocks);
	total = program_leak(g, &p) * period / (p.end - from);
	for (size_t i = 0; i < blocks; i++)
		sum += part[i] = gen_log_range(g, 0.01, 1);
	g->leak_site = 1;
	for (size_t i = 1; i < blocks; i++) {
		if (part[i] > part[g->leak_site - 1])
			g->leak_site = i + 1;
	}
	for (double t = from; t < p.end; t += period * gen_range(g, 0.7, 1.3)) {
		for (size_t i = 0; i < blocks; i++)
			gen_lose(g, at(t + 0.2 * period * (double)i / (double)blocks),
				 size_of(total * part[i] / sum * gen_range(g, 0.8, 1.2)), i + 1);
	}
}

void tuning_slow_hourly(struct gen *g)
{
	struct program p = program_begin(g, 8, 24);
	double from, every = gen_range(g, 2400, 4800), bytes;

	program_noise(g, &p);
	program_distraction(g, &p);
	from = leak_from(g, &p);
	bytes = program_leak(g, &p) * every / (p.end - from);
	g->leak_site = 1;
	for (double t = from; t < p.end; t += every * gen_range(g, 0.6, 1.4))
		gen_lose(g, at(t), size_of(bytes * gen_range(g, 0.7, 1.3)), 1);
}

void tuning_eval_only(struct gen *g)
{
	struct program p = program_begin(g, 1, 24);
	double every = gen_log_range(g, 180, (p.end - p.ready) / 8), lasts = every * gen_range(g, 0.02, 0.3), bytes;
	size_t blocks = 5 + gen_pick(g, 60);
	double max_blocks = 20000 * every / (p.end - p.ready);

	if ((double)blocks > max_blocks)
		blocks = (size_t)max_blocks + 1;
	program_noise(g, &p);
	program_distraction(g, &p);
	bytes = program_leak(g, &p) * every / (p.end - p.ready) / (double)blocks;
	g->leak_site = 1;
	for (double t = p.ready + every * gen_unit(g); t < p.end; t += every * gen_range(g, 0.9, 1.1)) {
		for (size_t i = 0; i < blocks; i++) {
			double now = t + lasts * ((double)i + gen_unit(g)) / (double)blocks;

			gen_lose(g, at(now), size_of(bytes), 1);
			gen_block(g, at(now), size_of(bytes * 3), 2, at(lasts / (double)blocks));
		}
	}
}

void tuning_load_leak(struct gen *g)
{
	struct program p = program_begin(g, 4, 24);
	double length = gen_chance(g, 0.5) ? 86400 : gen_log_range(g, 1800, 43200), phase = gen_unit(g);
	double low = gen_range(g, 0.02, 0.4), share = gen_log_range(g, 0.01, 0.5);
	double mean = program_period(g, &p, 0.5, 30, 30000), bytes, concurrent, life = gen_log_range(g, 1, 60);

	program_noise(g, &p);
	program_distraction(g, &p);
	bytes = program_leak(g, &p) * mean / (p.end - p.ready) / share / (low + (1 - low) / 2);
	/* What is not lost must have room as well. */
	concurrent = life / mean;
	if (bytes * concurrent > 0.3 * p.room)
		life *= 0.3 * p.room / (bytes * concurrent);
	g->leak_site = 1;
	for (double t = p.ready; t < p.end; t += gen_exponential(g, mean)) {
		double size;

		if (!gen_chance(g, program_load(t, length, phase, low)))
			continue;
		size = bytes * gen_range(g, 0.5, 1.5);
		if (gen_chance(g, share))
			gen_lose(g, at(t), size_of(size), 1);
		else
			gen_block(g, at(t), size_of(size), 1, at(gen_exponential(g, life)));
	}
}

void tuning_staircase(struct gen *g)
{
	struct program p = program_begin(g, 2, 24);
	size_t sites = 5 + gen_pick(g, 36);
	double every = gen_log_range(g, 60, 900);
	uint64_t segment = (gen_chance(g, 0.8) ? 20 : 2 * (1 + gen_pick(g, 64))) * GEN_MIB;

	program_noise(g, &p);
	program_distraction(g, &p);
	/* Twelve at least: a leak that one can speak of. */
	if (every > (p.end - p.ready) / 12)
		every = (p.end - p.ready) / 12;
	for (double t = p.ready + every; t < p.end; t += every * gen_log_range(g, 0.4, 2.5))
		gen_lose(g, at(t), segment, 1 + gen_pick(g, sites));
}

void tuning_spread(struct gen *g)
{
	struct program p = program_begin(g, 0.5, 24);
	size_t sites = 15 + gen_pick(g, 26);
	double from, period, bytes;

	program_noise(g, &p);
	program_distraction(g, &p);
	from = leak_from(g, &p);
	period = program_period(g, &p, 1, 60, 12000);
	bytes = program_leak(g, &p) * period / (p.end - from);
	for (double t = from; t < p.end; t += gen_exponential(g, period)) {
		double size = bytes * gen_range(g, 0.5, 1.5);

		gen_lose(g, at(t), size_of(size), 1 + gen_pick(g, sites));
	}
}

void tuning_sawtooth_rising(struct gen *g)
{
	struct program p = program_begin(g, 0.5, 24);
	double tooth = gen_log_range(g, 10, (p.end - p.ready) / 12), height, total, keep;
	size_t blocks = 4 + gen_pick(g, 40);
	double max_blocks = 35000 * tooth / (p.end - p.ready);

	if ((double)blocks > max_blocks)
		blocks = (size_t)max_blocks + 2;
	program_noise(g, &p);
	program_distraction(g, &p);
	total = program_leak(g, &p);
	keep = total * tooth / (p.end - p.ready);
	height = p.room * gen_log_range(g, 0.01, 0.3);
	if (height < keep)
		height = keep;
	g->leak_site = 1;
	for (double t = p.ready; t < p.end; t += tooth * gen_range(g, 0.9, 1.1)) {
		size_t lost = gen_pick(g, blocks);

		for (size_t i = 0; i < blocks; i++) {
			double now = tooth * 0.9 * ((double)i + gen_unit(g)) / (double)blocks;

			if (i == lost)
				gen_lose(g, at(t + now), size_of(keep), 1);
			else
				gen_block(g, at(t + now), size_of(height / (double)blocks), 1, at(tooth - now));
		}
	}
}

void tuning_swap_remainder(struct gen *g)
{
	struct program p = program_begin(g, 1, 24);
	double every = gen_log_range(g, 60, (p.end - p.ready) / 10), kept = gen_log_range(g, 0.01, 0.15);
	double total = program_leak(g, &p), model, loads = gen_log_range(g, 1, every / 3);
	size_t blocks = 8 + gen_pick(g, 60);
	double max_blocks = 40000 * every / (p.end - p.ready);

	if ((double)blocks > max_blocks)
		blocks = (size_t)max_blocks + 4;
	program_noise(g, &p);
	program_distraction(g, &p);
	model = total * every / (p.end - p.ready) / kept;
	if (model > 0.3 * p.room) {
		kept *= model / (0.3 * p.room);
		model = 0.3 * p.room;
	}
	if (kept > 0.5)
		kept = 0.5;
	g->leak_site = 1;
	for (double t = p.ready; t < p.end; t += every) {
		for (size_t i = 0; i + 1 < blocks; i++)
			gen_block(g, at(t + loads * (double)i / (double)blocks),
				  size_of(model * (1 - kept) / (double)(blocks - 1)), 1 + i % 3,
				  at(every + loads * 0.1 - loads * (double)i / (double)blocks));
		gen_lose(g, at(t + loads), size_of(model * kept), 1);
	}
}

void tuning_churn_leak(struct gen *g)
{
	struct program p = program_begin(g, 0.5, 12);
	double mean = program_period(g, &p, 0.3, 3, 60000), share = gen_log_range(g, 0.002, 0.05), bytes;
	double life = gen_log_range(g, 0.1, 120);

	bytes = program_leak(g, &p) * mean / (p.end - p.ready) / share;
	/* The busy part must leave most of the room to the leak. */
	if (bytes * life / mean > 0.2 * p.room)
		life = 0.2 * p.room * mean / bytes;
	program_noise(g, &p);
	program_distraction(g, &p);
	g->leak_site = 1;
	for (double t = p.ready; t < p.end; t += gen_exponential(g, mean)) {
		double size = bytes * gen_log_range(g, 0.3, 2);

		if (gen_chance(g, share))
			gen_lose(g, at(t), size_of(size), 1);
		else
			gen_block(g, at(t), size_of(size), 1, at(gen_exponential(g, life)));
	}
}
