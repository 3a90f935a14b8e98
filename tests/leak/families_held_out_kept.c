// SPDX-License-Identifier: MIT
/* Leaks among blocks that are freed: the same places allocate what is given back and what is not. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "families_held_out.h"

static double ran_ns(const struct gen *g, const struct held_leak *l)
{
	return (double)(g->end_ns - l->start_ns);
}

static double watched_ns(const struct gen *g, const struct held_leak *l)
{
	return (double)(g->end_ns - l->warm_ns);
}

/* How much more the leak is to have taken from the driver before one may stop looking. */
#define SEEN_SHARE 0.04

/* A caching allocator has room in its holes: the loss is seen from outside only when these are used up. Such a trace
 * goes on until there is something to see, or the program dies of it. A segment comes from whoever asks next: such a
 * leak is of no one site. */
struct pooled {
	struct held_pool pool;
	uint64_t planned_ns, before_bytes;
};

static void pooled_init(struct pooled *p, struct gen *g, struct held_leak *l)
{
	/* Holes cost up to as much again, and ten minutes are to be seen of the fastest, too. */
	l->rate = fmin(l->rate, 0.5 * (double)l->free_bytes / (13 * (double)HELD_MIN));
	*p = (struct pooled){ .planned_ns = g->end_ns };
	held_pool_init(&p->pool, g, l->own_bytes + l->free_bytes);
	g->end_ns = 24 * HELD_HOUR;
}

static bool pooled_is_over(struct pooled *p, const struct gen *g, const struct held_leak *l, uint64_t time_ns)
{
	uint64_t reserved = p->pool.reserved_bytes;

	if (time_ns < l->start_ns)
		p->before_bytes = reserved;
	if (p->pool.is_full || time_ns >= g->end_ns)
		return true;
	return time_ns >= p->planned_ns &&
	       reserved > p->before_bytes + (uint64_t)(SEEN_SHARE * (double)g->device_bytes);
}

static void pooled_done(struct pooled *p, struct gen *g, const struct held_leak *l, uint64_t time_ns)
{
	if (time_ns < g->end_ns)
		g->end_ns = time_ns + 1;
	held_pool_done(&p->pool);
	held_part_any(g, l->warm_ns, l->part_bytes, HELD_PARTS);
}

/* How many tensors are to be lost now, so that the long-run rate is the planned one. Takes them off the debt. */
static size_t due(double *debt, double tensor, size_t most)
{
	size_t n = *debt > 0 ? (size_t)(*debt / tensor) : 0;

	n = MIN(n, most);
	*debt -= (double)n * tensor;
	return n;
}

void held_exception_frames(struct gen *g)
{
	struct held_leak l = held_leak(g, 0, 0, 0, false);
	double frame = l.bytes / gen_log_range(g, 30, 800), sigma = gen_range(g, 0.05, 0.6), debt = 0, next = frame;
	double wait = watched_ns(g, &l) / gen_log_range(g, 4000, 12000);
	size_t layers = 10 + gen_pick(g, 30), sizes = 1 + gen_pick(g, 12); /* inputs are padded to one of these */
	uint64_t t = l.warm_ns, last = t;
	struct pooled pooled;

	pooled_init(&pooled, g, &l);
	/* Requests through a framework's allocator. A failed one leaves tensors in the frame that the error holds. */
	for (; !pooled_is_over(&pooled, g, &l, t); t += held_wait(g, wait)) {
		double size = ceil(fmin(1.0, 0.4 * exp(sigma * gen_normal(g))) * (double)sizes) / (double)sizes;
		size_t lose = 0;

		size *= (double)l.own_bytes * 0.6;
		debt += t > l.start_ns ? (double)(t - last) * l.rate : 0;
		last = t;
		if (debt >= next) {
			lose = due(&debt, size / (double)layers, layers);
			next = frame * gen_exponential(g, 1);
		}
		held_pass(&pooled.pool, t, layers, (uint64_t)size, HELD_WORK, lose);
	}
	pooled_done(&pooled, g, &l, t);
}

void held_retained_graphs(struct gen *g)
{
	struct held_leak l = held_leak(g, 0, 0, 0, false);
	double step = watched_ns(g, &l) / gen_log_range(g, 2000, 10000), debt = 0;
	size_t every = 1 + gen_pick(g, 10), layers = 12 + gen_pick(g, 40), n = 0;
	uint64_t size = held_share(g, l.own_bytes, 0.3, 0.6), t = l.warm_ns, last = t;
	struct pooled pooled;

	pooled_init(&pooled, g, &l);
	/* "total += loss": a step's graph stays, with what it needs for a way back that nobody goes. */
	for (; !pooled_is_over(&pooled, g, &l, t); t += held_wait(g, step), n++) {
		debt += t > l.start_ns ? (double)(t - last) * l.rate : 0;
		last = t;
		held_pass(&pooled.pool, t, layers, size, HELD_WORK,
			  n % every == 0 ? due(&debt, (double)(size / layers), layers) : 0);
	}
	pooled_done(&pooled, g, &l, t);
}

void held_unclosed_sessions(struct gen *g)
{
	struct held_leak l = held_leak(g, 0, 0, 0, true);
	double share = gen_log_range(g, 0.01, 0.4), depth = gen_range(g, 0, 0.7);
	/* So many at a time fill half of what the program may hold when all is well. */
	double mean = share * 0.5 * (double)l.own_bytes / l.rate, size = l.bytes / gen_log_range(g, 60, 400);
	uint64_t peak = (uint64_t)(gen_unit(g) * (double)g->end_ns);
	double load = held_mean_load(l.start_ns, g->end_ns, peak, depth);

	size = fmin(fmax(size, l.rate * watched_ns(g, &l) / share / 40000), (double)l.own_bytes / 10);
	g->leak_site = HELD_WORK;
	for (uint64_t t = l.warm_ns; t < g->end_ns;
	     t += held_leak_wait(g, &l, size * share * load / held_load(t, peak, depth))) {
		uint64_t life = (uint64_t)(mean * (0.1 + fmin(gen_exponential(g, 0.9), 4.0)));

		/* Lost is it only when the client has gone. */
		if (t + life >= l.start_ns && gen_chance(g, share)) {
			gen_block(g, t, (uint64_t)size, HELD_WORK, GEN_FOREVER);
			gen_note_loss(g, t + life, (uint64_t)size);
		} else {
			gen_block(g, t, (uint64_t)size, HELD_WORK, life);
		}
	}
}

void held_snapshots(struct gen *g)
{
	struct held_leak l = held_leak(g, 0, 0, 0, true);
	double epoch = ran_ns(g, &l) / gen_range(g, 12, 60), size = epoch * l.rate;
	size_t n = 5 + gen_pick(g, 80);
	struct held_list best = { 0 };

	g->leak_site = HELD_LEAK;
	/* The best state so far is copied over and over, as it should be; that of each epoch is kept in a list. */
	for (uint64_t t = l.start_ns; t < g->end_ns; t += (uint64_t)(epoch * gen_range(g, 0.95, 1.05))) {
		for (size_t i = 0; i < n; i++)
			gen_lose(g, t + i * GEN_SEC / 30, (uint64_t)(size / (double)n), HELD_LEAK);
		if (gen_chance(g, 0.5))
			continue;
		held_free_all(g, &best, t + GEN_SEC * 5);
		for (size_t i = 0; i < n; i++)
			held_push(&best, gen_block(g, t + GEN_SEC * 6, l.own_bytes / 2 / n, HELD_WORK, GEN_FOREVER));
	}
	free(best.addrs);
	held_part_evals(g, l.warm_ns, l.own_bytes / 3, HELD_WORK + 5);
}

void held_partial_reload(struct gen *g)
{
	struct held_leak l = held_leak(g, 0, 0, 0, true);
	double count = fmax(gen_log_range(g, 12, 60), 2.8 * l.bytes / (double)l.own_bytes),
	       every = ran_ns(g, &l) / count;
	size_t n = 30 + gen_pick(g, 200), lost;
	uint64_t tensor = l.own_bytes * 45 / 100 / n;
	struct held_list old = { 0 };

	g->leak_site = HELD_LEAK;
	lost = MIN(MAX((size_t)(l.bytes / count / (double)tensor + 0.5), (size_t)1), n);
	tensor = (uint64_t)(l.bytes / count / (double)lost);
	for (uint64_t t = l.warm_ns; t < g->end_ns; t += (uint64_t)(every * gen_range(g, 0.7, 1.3))) {
		size_t left = t >= l.start_ns && old.len > 0 ? lost : 0;

		for (size_t i = 0; i < left; i++) {
			held_take(&old, 0);
			gen_note_loss(g, t + 20 * GEN_SEC, tensor);
		}
		held_free_all(g, &old, t + 20 * GEN_SEC);
		for (size_t i = 0; i < n; i++)
			held_push(&old, gen_block(g, t + i * GEN_SEC / 15, tensor, i < lost ? HELD_LEAK : HELD_WORK,
						  GEN_FOREVER));
	}
	free(old.addrs);
}

void held_pinned_segments(struct gen *g)
{
	static const uint64_t sizes[] = { 2 * GEN_MIB, 20 * GEN_MIB, 64 * GEN_MIB };
	struct held_leak l = held_leak(g, 0, 0, 0, true);
	uint64_t size = sizes[gen_pick(g, ARRAY_SIZE(sizes))];
	double share = gen_log_range(g, 0.05, 0.5); /* of the segments in which something small stays for ever */
	double life;

	size = MIN(MAX(size, (uint64_t)(l.rate * watched_ns(g, &l) / share / 40000)), (uint64_t)(l.bytes / 15));
	life = 0.4 * (double)l.own_bytes * share / l.rate;
	g->leak_site = HELD_LEAK;
	/* An arena gives a segment back only when it is empty. */
	for (uint64_t t = l.warm_ns; t < g->end_ns; t += held_leak_wait(g, &l, (double)size * share)) {
		uint64_t lived = (uint64_t)(life * gen_range(g, 0.5, 1.5));

		if (t + lived >= l.start_ns && gen_chance(g, share)) {
			gen_block(g, t, size, HELD_LEAK, GEN_FOREVER);
			gen_note_loss(g, t + lived, size);
		} else {
			gen_block(g, t, size, HELD_LEAK, lived);
		}
	}
}

void held_lost_swaps(struct gen *g)
{
	struct held_leak l = held_leak(g, 0, 0, 0, true);
	double size = fmin(l.bytes / gen_log_range(g, 20, 600), (double)l.own_bytes / 4);
	size_t every = 2 + gen_pick(g, 38), n = 0;
	double wait;
	uint64_t buffers[2] = { 0 };

	every = MIN(every, 2 + (size_t)(40000 * size / l.rate / watched_ns(g, &l)));
	wait = size / l.rate / (double)every;
	g->leak_site = HELD_LEAK;
	/* The buffer behind is made anew, then the two change places; now and then the old one is forgotten. */
	for (uint64_t t = l.warm_ns; t < g->end_ns; t += held_wait(g, wait), n++) {
		if (t >= l.start_ns && n % every == 0 && buffers[1])
			gen_note_loss(g, t, (uint64_t)size);
		else
			gen_free(g, t, buffers[1]);
		buffers[1] = buffers[0];
		buffers[0] = gen_block(g, t, (uint64_t)size, HELD_LEAK, GEN_FOREVER);
	}
}

void held_masked(struct gen *g)
{
	struct held_leak l = held_leak(g, 0, 0, 1, true);
	double size = l.bytes / gen_log_range(g, 80, 20000), ran = ran_ns(g, &l);
	size_t n = 50 + gen_pick(g, 500);

	g->leak_site = HELD_LEAK;
	/* What the morning's load has left is given back bit by bit, about as fast as other memory is lost. */
	for (size_t i = 0; i < n; i++) {
		uint64_t made = l.warm_ns + (l.start_ns - l.warm_ns) * i / n,
			 end = l.start_ns + (uint64_t)(ran * gen_unit(g) * 0.8);

		gen_block(g, made, held_share(g, l.own_bytes / n, 0.6, 1.2), HELD_WORK + i % 3, end - made);
	}
	for (uint64_t t = l.start_ns; t < g->end_ns; t += held_leak_wait(g, &l, size))
		gen_lose(g, t, (uint64_t)size, HELD_LEAK);
}

void held_kept_evals(struct gen *g)
{
	struct held_leak l = held_leak(g, 0, 0, 0, true);
	double evals = gen_range(g, 12, 40), every = ran_ns(g, &l) / evals, took = every * gen_log_range(g, 0.05, 0.6);
	size_t n = 10 + gen_pick(g, 400);
	double size = l.bytes / evals / (double)n;

	g->leak_site = HELD_LEAK;
	/* What was predicted for each batch is gathered on the device, and each evaluation's list is kept. */
	for (uint64_t t = l.start_ns; t < g->end_ns; t += (uint64_t)(every * gen_range(g, 0.95, 1.05))) {
		for (size_t i = 0; i < n; i++) {
			uint64_t at = t + (uint64_t)(took * (double)i / (double)n);

			gen_lose(g, at, (uint64_t)size, HELD_LEAK);
			gen_block(g, at, held_share(g, l.own_bytes / 2, 0.2, 1), HELD_WORK,
				  (uint64_t)(took / (double)n));
		}
	}
}

void held_hidden_modules(struct gen *g)
{
	struct held_leak l = held_leak(g, 0, 0, 0, false);
	size_t len = g->end_ns / (10 * GEN_SEC);
	uint64_t *more = calloc(len + 1, sizeof(*more));
	double size = l.bytes / gen_log_range(g, 100, 20000), scratch = gen_range(g, 0, 0.3) * (double)l.own_bytes;

	if (!more) {
		fprintf(stderr, "out of memory while making a trace\n");
		exit(1);
	}
	/* A kernel compiled for each request and never unloaded: its code is the driver's own, no call shows it. */
	for (uint64_t t = l.start_ns; t < g->end_ns; t += held_leak_wait(g, &l, size)) {
		gen_note_loss(g, t, (uint64_t)size);
		more[MIN(t / (10 * GEN_SEC), len)] += (uint64_t)size;
	}
	for (size_t i = 1; i < len; i++)
		more[i] += more[i - 1];
	for (size_t i = 0; i < len; i++)
		more[i] += (uint64_t)(scratch * gen_unit(g));
	held_tell_driver(g, l.warm_ns, (uint64_t)(gen_range(g, 0.2, 0.45) * (double)GEN_GIB), more, len);
	free(more);
}
