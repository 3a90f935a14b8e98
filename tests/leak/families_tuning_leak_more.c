// SPDX-License-Identifier: MIT
/* Leaks that hide: late, between bursts, in one block that grows, where no call shows them. */
#include <math.h>

#include "families_tuning.h"

#define SAMPLE_SEC 10 /* how often the driver is asked */

void tuning_late_leak(struct gen *g)
{
	struct program p = program_begin(g, 4, 24);
	double from = p.ready + (p.end - p.ready) * gen_range(g, 0.3, 0.7);
	double period = program_period(g, &p, 0.5, 60, 15000), bytes = program_leak(g, &p) * period / (p.end - from);

	program_noise(g, &p);
	program_distraction(g, &p);
	g->leak_site = 1;
	for (double t = p.ready; t < p.end; t += period * gen_range(g, 0.8, 1.2)) {
		if (t < from)
			gen_block(g, at(t), size_of(bytes), 1, at(period * gen_range(g, 0.5, 3)));
		else
			gen_lose(g, at(t), size_of(bytes), 1);
	}
}

void tuning_fast_leak(struct gen *g)
{
	struct program p = program_begin(g, 0.34, 3);
	double per_min = (double)g->device_bytes * gen_log_range(g, 0.01, 0.1);
	double from = p.ready + gen_log_range(g, 5, (p.end - p.ready) * 0.5), period = gen_log_range(g, 0.1, 5);

	/* Until the device is full, as it will be. */
	g->leak_site = 1;
	program_noise(g, &p);
	program_distraction(g, &p);
	for (double t = from; t < p.end && t < from + 6100; t += period * gen_range(g, 0.8, 1.2))
		gen_lose(g, at(t), size_of(per_min * period / 60), 1);
}

void tuning_partial_free(struct gen *g)
{
	struct program p = program_begin(g, 0.5, 24);
	double mean = program_period(g, &p, 0.5, 60, 25000), share = gen_range(g, 0.03, 0.2), bytes;
	double life = gen_log_range(g, 30, 1800);

	bytes = program_leak(g, &p) * mean / (p.end - p.ready) / share;
	if (bytes * life / mean > 0.4 * p.room)
		life = 0.4 * p.room * mean / bytes;
	program_noise(g, &p);
	program_distraction(g, &p);
	g->leak_site = 1;
	for (double t = p.ready; t < p.end; t += mean * gen_range(g, 0.5, 1.5)) {
		if (gen_chance(g, share))
			gen_lose(g, at(t), size_of(bytes), 1);
		else
			gen_block(g, at(t), size_of(bytes), 1, at(life * gen_range(g, 0.5, 1.5)));
	}
}

void tuning_random_bursts(struct gen *g)
{
	struct program p = program_begin(g, 1, 24);
	double every = gen_log_range(g, 60, (p.end - p.ready) / 15), total = program_leak(g, &p), bytes;
	size_t blocks = 2 + gen_pick(g, 60), sites = 1 + gen_pick(g, 3);
	double max_blocks = 30000 * every / (p.end - p.ready);

	if ((double)blocks > max_blocks)
		blocks = (size_t)max_blocks + 1;
	/* The mean of what gen_log_range(0.05, 5) gives is (5 - 0.05) / ln(100). */
	bytes = total * every / (p.end - p.ready) / (double)blocks / (4.95 / log(100));
	program_noise(g, &p);
	program_distraction(g, &p);
	g->leak_site = sites == 1 ? 1 : 0;
	for (double t = p.ready + gen_exponential(g, every); t < p.end; t += gen_exponential(g, every)) {
		size_t n = 1 + gen_pick(g, 2 * blocks - 1);
		double spread = gen_log_range(g, 0.1, 20);

		for (size_t i = 0; i < n; i++) {
			double now = t + spread * gen_unit(g), size = bytes * gen_log_range(g, 0.05, 5);

			gen_lose(g, at(now), size_of(size), 1 + gen_pick(g, sites));
		}
	}
}

void tuning_fragmentation(struct gen *g)
{
	struct program p = program_begin(g, 2, 24);
	double every = gen_log_range(g, 30, (p.end - p.ready) / 40), power = gen_range(g, 0.75, 1);
	double n = (p.end - p.ready) / every, bytes = program_leak(g, &p) / n, kept = gen_range(g, 0.3, 0.9);
	size_t sites = 3 + gen_pick(g, 20);

	program_noise(g, &p);
	program_distraction(g, &p);
	/* Ever less often: the n-th comes at the time at which n^power segments would have been due. */
	for (double i = 1; i < n; i++) {
		double t = p.ready + (p.end - p.ready) * pow((i + gen_range(g, -0.4, 0.4)) / n, 1 / power);
		uint64_t segment = (uint64_t)(bytes / kept / 2097152 * gen_range(g, 0.5, 1.5) + 1) * 2 * GEN_MIB;
		uint64_t stack = 1 + gen_pick(g, sites);

		if (gen_chance(g, kept))
			gen_lose(g, at(t), segment, stack);
		else
			gen_block(g, at(t), segment, stack, at(gen_exponential(g, every * 5)));
	}
}

void tuning_list_grows(struct gen *g)
{
	struct program p = program_begin(g, 1, 24);
	double factor = gen_range(g, 1.05, 1.5), total = program_leak(g, &p), size = total * gen_range(g, 0.01, 0.05);
	double rate, last = p.ready;
	uint64_t addr;

	/* While it is copied, the old one and the new one are both there. */
	if (total > 0.5 * p.room)
		total = 0.5 * p.room;
	program_noise(g, &p);
	program_distraction(g, &p);
	rate = (total - size) / (p.end - p.ready);
	addr = gen_block(g, at(p.ready), size_of(size), 1, GEN_FOREVER);
	g->leak_site = 1;
	for (double content = size; content < total;) {
		double t = p.ready + (content - size) / rate, old = content;
		uint64_t next;

		content = content * factor > total ? total * 1.0001 : content * factor;
		t = last = fmax(t, last + gen_range(g, 1, 10));
		next = gen_block(g, at(t), size_of(content), 1, GEN_FOREVER);
		gen_note_loss(g, at(t), size_of(content) - size_of(old));
		gen_free(g, at(t + 0.05), addr);
		addr = next;
	}
}

void tuning_cat_each_step(struct gen *g)
{
	struct program p = program_begin(g, 0.5, 24);
	double period = program_period(g, &p, 0.5, 120, 15000), total = program_leak(g, &p), step;
	double size = 0;
	uint64_t addr = 0;

	if (total > 0.5 * p.room)
		total = 0.5 * p.room;
	step = total * period / (p.end - p.ready);
	program_noise(g, &p);
	program_distraction(g, &p);
	g->leak_site = 1;
	for (double t = p.ready; t < p.end; t += period * gen_range(g, 0.8, 1.2)) {
		uint64_t next = gen_block(g, at(t), size_of(size + step), 1, GEN_FOREVER);

		gen_note_loss(g, at(t), size_of(step));
		gen_free(g, at(t + 0.01), addr);
		addr = next;
		size += step;
	}
}

void tuning_driver_only(struct gen *g)
{
	struct program p = program_begin(g, 1, 24);
	double usable = (double)(g->device_bytes - g->foreign_bytes), context = gen_range(g, 300e6, 700e6);
	double from = p.ready + (p.end - p.ready) * gen_range(g, 0, 0.3), every = gen_log_range(g, 10, 1200);
	double total = program_leak(g, &p), each, held = usable * 0.97 - p.room, lost = 0, due = from;

	/* Small blocks of calls beside it, and nothing else that would make driver and books differ. */
	each = total * every / (p.end - from);
	for (double t = 0; t < p.end; t += SAMPLE_SEC) {
		while (due <= t) {
			double bytes = 65536 * ceil(each * gen_range(g, 0.5, 1.5) / 65536);

			gen_note_loss(g, at(due), size_of(bytes));
			lost += bytes;
			due += every * gen_range(g, 0.7, 1.3);
		}
		gen_driver(g, at(t), size_of(t < p.ready ? context + held * t / p.ready : context + held + lost));
	}
}

void tuning_leak_stops(struct gen *g)
{
	struct program p = program_begin(g, 3, 24);
	double from = p.ready + (p.end - p.ready) * gen_range(g, 0, 0.2),
	       to = from + (p.end - p.ready) * gen_range(g, 0.2, 0.45);
	double period = program_period(g, &p, 0.5, 60, 15000), total = program_leak(g, &p), bytes;

	if (total > 0.8 * p.room)
		total = 0.8 * p.room;
	bytes = total * period / (to - from);
	program_noise(g, &p);
	program_distraction(g, &p);
	g->leak_site = 1;
	for (double t = from; t < p.end; t += period * gen_range(g, 0.8, 1.2)) {
		if (t < to)
			gen_lose(g, at(t), size_of(bytes), 1);
		else
			gen_block(g, at(t), size_of(bytes), 1, at(period * gen_range(g, 0.2, 2)));
	}
}

void tuning_rare_errors(struct gen *g)
{
	struct program p = program_begin(g, 4, 24);
	double mean = 3600 / gen_log_range(g, 2, 20), bytes = program_leak(g, &p) * mean / (p.end - p.ready);
	size_t parts = 1 + gen_pick(g, 6);

	program_noise(g, &p);
	program_distraction(g, &p);
	g->leak_site = 1;
	for (double t = p.ready + gen_exponential(g, mean); t < p.end; t += gen_exponential(g, mean)) {
		gen_lose(g, at(t), size_of(bytes * 0.6), 1);
		for (size_t i = 0; i < parts; i++)
			gen_lose(g, at(t + gen_unit(g)), size_of(bytes * 0.4 / (double)parts), 2 + i);
	}
}
