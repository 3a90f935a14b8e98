/* SPDX-License-Identifier: MIT */
/* What the families that the detector may be tuned on share: the life of a program in seconds, and its usual noise. */
#pragma once

#include "gen.h"

struct program {
	double end;   /* seconds */
	double ready; /* its weights are there */
	double room;  /* bytes left on the device for it then */
};

/* Device, length (evenly by order of magnitude) and weights. */
struct program program_begin(struct gen *g, double hours_low, double hours_high);
/* Transient blocks from stacks 40 to 59, now and then: steps, autotuning, checkpoints, periodic evaluation. */
void program_noise(struct gen *g, const struct program *p);
/* Beside a leak, in some programs: a cache that fills for a while, from stack 60 or 61. It is not the leak. */
void program_distraction(struct gen *g, const struct program *p);
/* Seconds between steps: log-evenly, but no more than max steps in the time that is left. */
double program_period(struct gen *g, const struct program *p, double low, double high, double max_steps);
/* How much a leak loses until the end; up to more than there is, which kills the program. */
double program_leak(struct gen *g, const struct program *p);
/* Load between low and 1: a day's or an hour's rhythm with noise. phase 0 to 1. */
double program_load(double time, double length, double phase, double low);

static inline uint64_t at(double seconds)
{
	return seconds <= 0 ? 0 : (uint64_t)(seconds * 1e9);
}

static inline uint64_t mib(double n)
{
	return n < 0.001 ? 1024 : (uint64_t)(n * (double)GEN_MIB);
}

static inline uint64_t size_of(double bytes)
{
	return bytes < 512 ? 512 : (uint64_t)bytes;
}

/* families_tuning_leak.c */
void tuning_result_kept(struct gen *g);
void tuning_graph_kept(struct gen *g);
void tuning_slow_hourly(struct gen *g);
void tuning_eval_only(struct gen *g);
void tuning_load_leak(struct gen *g);
void tuning_staircase(struct gen *g);
void tuning_spread(struct gen *g);
void tuning_sawtooth_rising(struct gen *g);
void tuning_swap_remainder(struct gen *g);
void tuning_churn_leak(struct gen *g);
/* families_tuning_leak_more.c */
void tuning_late_leak(struct gen *g);
void tuning_fast_leak(struct gen *g);
void tuning_partial_free(struct gen *g);
void tuning_random_bursts(struct gen *g);
void tuning_fragmentation(struct gen *g);
void tuning_list_grows(struct gen *g);
void tuning_cat_each_step(struct gen *g);
void tuning_driver_only(struct gen *g);
void tuning_leak_stops(struct gen *g);
void tuning_rare_errors(struct gen *g);
/* families_tuning_benign.c */
void tuning_weights_only(struct gen *g);
void tuning_slow_load(struct gen *g);
void tuning_lazy_load(struct gen *g);
void tuning_warmup(struct gen *g);
void tuning_grad_accum(struct gen *g);
void tuning_epoch_sawtooth(struct gen *g);
void tuning_gc_sawtooth(struct gen *g);
void tuning_swap_clean(struct gen *g);
void tuning_phase_step(struct gen *g);
void tuning_periodic_eval(struct gen *g);
void tuning_idle(struct gen *g);
void tuning_batch_steps(struct gen *g);
void tuning_seq_records(struct gen *g);
void tuning_driver_noise(struct gen *g);
/* families_tuning_cache.c */
void tuning_shape_cache(struct gen *g);
void tuning_zipf_cache(struct gen *g);
void tuning_replay_buffer(struct gen *g);
void tuning_kv_load(struct gen *g);
void tuning_kv_segments(struct gen *g);
void tuning_long_requests(struct gen *g);
void tuning_prefetch(struct gen *g);
void tuning_batch_jobs(struct gen *g);
void tuning_chat_sessions(struct gen *g);
void tuning_models_on_demand(struct gen *g);
void tuning_notebook(struct gen *g);
