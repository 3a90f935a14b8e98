// SPDX-License-Identifier: MIT
#include "families_tuning.h"

#include <math.h>

const struct family families_tuning[] = {
	{ "result-kept", true, tuning_result_kept, "a result kept every step, one site, one size" },
	{ "graph-kept", true, tuning_graph_kept, "a graph kept: several blocks of several sites every step" },
	{ "slow-hourly", true, tuning_slow_hourly, "something about once an hour" },
	{ "eval-only", true, tuning_eval_only, "only in evaluation phases" },
	{ "load-leak", true, tuning_load_leak, "a share of the requests, as many as there are" },
	{ "staircase", true, tuning_staircase, "a new segment of the allocator every few minutes, many sites" },
	{ "spread", true, tuning_spread, "over 15 to 40 sites" },
	{ "sawtooth-rising", true, tuning_sawtooth_rising, "a sawtooth whose floor rises" },
	{ "swap-remainder", true, tuning_swap_remainder, "something stays of each model that is replaced" },
	{ "churn-leak", true, tuning_churn_leak, "one in many of the blocks of a busy site" },
	{ "late-leak", true, tuning_late_leak, "after hours of calm" },
	{ "fast-leak", true, tuning_fast_leak, "1 to 10 % of the device a minute" },
	{ "partial-free", true, tuning_partial_free, "about 90 % is freed, late" },
	{ "random-bursts", true, tuning_random_bursts, "bursts of random sizes at random times" },
	{ "fragmentation", true, tuning_fragmentation, "segments that can never be given back" },
	{ "list-grows", true, tuning_list_grows, "a buffer that is replaced by a larger one when full" },
	{ "cat-each-step", true, tuning_cat_each_step, "a tensor replaced by a longer copy every step" },
	{ "driver-only", true, tuning_driver_only, "graphs and modules: only the driver sees it" },
	{ "leak-stops", true, tuning_leak_stops, "a leak of one phase of the program" },
	{ "rare-errors", true, tuning_rare_errors, "what an exception's traceback holds, a few an hour" },

	{ "weights-only", false, tuning_weights_only, "weights, then steps" },
	{ "slow-load", false, tuning_slow_load, "weights from slow storage, minutes at a steady rate" },
	{ "lazy-load", false, tuning_lazy_load, "parts loaded when first used" },
	{ "warmup", false, tuning_warmup, "autotuning and workspaces in the first minutes" },
	{ "grad-accum", false, tuning_grad_accum, "freed every few steps" },
	{ "epoch-sawtooth", false, tuning_epoch_sawtooth, "grows during an epoch, freed at its end" },
	{ "gc-sawtooth", false, tuning_gc_sawtooth, "freed when the collector runs" },
	{ "swap-clean", false, tuning_swap_clean, "models replaced, nothing stays" },
	{ "phase-step", false, tuning_phase_step, "larger inputs from some point on" },
	{ "periodic-eval", false, tuning_periodic_eval, "evaluation with memory of its own" },
	{ "idle", false, tuning_idle, "holds memory and does next to nothing" },
	{ "batch-steps", false, tuning_batch_steps, "batch size raised in a few steps" },
	{ "seq-records", false, tuning_seq_records, "keeps room for the longest input so far" },
	{ "driver-noise", false, tuning_driver_noise, "driver's own memory: modules, bounded" },
	{ "shape-cache", false, tuning_shape_cache, "something kept for each new shape" },
	{ "zipf-cache", false, tuning_zipf_cache, "LRU cache that fills, then evicts" },
	{ "replay-buffer", false, tuning_replay_buffer, "fills evenly up to its bound in minutes to hours" },
	{ "kv-load", false, tuning_kv_load, "requests of a varying load, freed at their end" },
	{ "kv-segments", false, tuning_kv_segments, "the same, its allocator keeps what it once needed" },
	{ "long-requests", false, tuning_long_requests, "a steady load of requests that live long" },
	{ "prefetch", false, tuning_prefetch, "a queue that fills, drains and fills" },
	{ "batch-jobs", false, tuning_batch_jobs, "memory rises within each job" },
	{ "chat-sessions", false, tuning_chat_sessions, "sessions that grow until they end" },
	{ "models-on-demand", false, tuning_models_on_demand, "up to so many models, the least used one goes" },
	{ "notebook", false, tuning_notebook, "a person at work: variables made, kept for hours, deleted" },
	{},
};

struct program program_begin(struct gen *g, double hours_low, double hours_high)
{
	struct program p = { .end = 3600 * gen_log_range(g, hours_low, hours_high) };
	double usable, weights;

	g->end_ns = at(p.end);
	gen_device(g);
	usable = (double)(g->device_bytes - g->foreign_bytes);
	weights = usable * gen_log_range(g, 0.02, 0.6);
	p.ready = (double)gen_startup(g, size_of(weights), 20) / 1e9;
	p.ready += gen_log_range(g, 0.1, 30);
	p.room = usable * 0.97 - weights;
	return p;
}

double program_period(struct gen *g, const struct program *p, double low, double high, double max_steps)
{
	double least = (p->end - p->ready) / max_steps;

	if (low < least)
		low = least;
	return high <= low ? low : gen_log_range(g, low, high);
}

double program_leak(struct gen *g, const struct program *p)
{
	/* Less than this of the device is no incident, however long one looks. */
	double low = 0.03 * (double)g->device_bytes;

	if (low > 0.5 * p->room)
		low = 0.5 * p->room;
	return gen_log_range(g, low, 1.3 * p->room);
}

double program_load(double time, double length, double phase, double low)
{
	double s = 0.5 + 0.5 * sin(2 * M_PI * (time / length + phase));

	return low + (1 - low) * s;
}

/* Activations: several blocks a step that live for a part of it. */
static void noise_steps(struct gen *g, const struct program *p, double share)
{
	double period = program_period(g, p, 0.2, 120, 3000), bytes = p->room * share;
	size_t blocks = 1 + gen_pick(g, 5);

	for (double t = p->ready; t < p->end; t += period * gen_range(g, 0.8, 1.2)) {
		for (size_t i = 0; i < blocks; i++) {
			double start = t + period * gen_range(g, 0, 0.3), life = period * gen_range(g, 0.05, 0.5);
			double size = bytes / (double)blocks * gen_range(g, 0.3, 1);

			gen_block(g, at(start), size_of(size), 40 + i, at(life));
		}
	}
}

/* Autotuning: large workspaces for an instant, mostly early. */
static void noise_autotune(struct gen *g, const struct program *p, double share)
{
	size_t n = 5 + gen_pick(g, 60);

	for (size_t i = 0; i < n; i++) {
		double start = p->ready + gen_exponential(g, 60), life = gen_log_range(g, 0.02, 0.5);
		double size = p->room * share * gen_log_range(g, 0.01, 1) / 4;

		gen_block(g, at(start), size_of(size), 46 + gen_pick(g, 3), at(life));
	}
}

/* Checkpoints and evaluation: a while, again and again. */
static void noise_phases(struct gen *g, const struct program *p, double share)
{
	double every = gen_log_range(g, 120, 7200), lasts = every * gen_log_range(g, 0.01, 0.3);
	size_t blocks = 1 + gen_pick(g, 12);

	for (double t = p->ready + every * gen_unit(g); t < p->end; t += every * gen_range(g, 0.95, 1.05)) {
		for (size_t i = 0; i < blocks; i++) {
			double start = t + lasts * 0.2 * gen_unit(g), life = lasts * gen_range(g, 0.5, 0.8);

			gen_block(g, at(start), size_of(p->room * share / (double)blocks), 50 + i % 8, at(life));
		}
	}
}

void program_noise(struct gen *g, const struct program *p)
{
	if (gen_chance(g, 0.7))
		noise_steps(g, p, gen_log_range(g, 0.001, 0.05));
	if (gen_chance(g, 0.5))
		noise_autotune(g, p, gen_log_range(g, 0.01, 0.05));
	if (gen_chance(g, 0.5))
		noise_phases(g, p, gen_log_range(g, 0.005, 0.1));
	/* The optimizer's state and the like: made at the first step, kept. */
	if (gen_chance(g, 0.5)) {
		size_t n = 1 + gen_pick(g, 40);

		for (size_t i = 0; i < n; i++)
			gen_block(g, at(p->ready + gen_range(g, 0, 5)), size_of(p->room * 0.04 / (double)n), 58,
				  GEN_FOREVER);
	}
}

void program_distraction(struct gen *g, const struct program *p)
{
	size_t n = 20 + gen_pick(g, 400);
	double bytes = p->room * gen_log_range(g, 0.005, 0.1) / (double)n, fills, start;

	if (gen_chance(g, 0.6))
		return;
	start = p->ready + (p->end - p->ready) * gen_range(g, 0, 0.3);
	fills = gen_log_range(g, 60, (p->end - p->ready) * 0.5);
	/* Evenly up to its bound, or ever more slowly. */
	if (gen_chance(g, 0.5)) {
		for (size_t i = 0; i < n; i++)
			gen_block(g, at(start + fills * ((double)i + gen_unit(g)) / (double)n), size_of(bytes), 60,
				  GEN_FOREVER);
	} else {
		for (size_t i = 0; i < n; i++)
			gen_block(g, at(start + gen_exponential(g, fills / 3)), size_of(bytes), 61, GEN_FOREVER);
	}
}
