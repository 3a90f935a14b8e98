/* SPDX-License-Identifier: MIT */
/*
 * What the held-out families share: an allocator that keeps what it has, as those of frameworks do, the parts that most
 * programs are made of, and how fast and how long a leak runs so that it is one. Bytes are bytes, times nanoseconds
 * since the start of the trace.
 */
#pragma once

#include "gen.h"

#define HELD_MIN (60 * GEN_SEC)
#define HELD_HOUR (60 * HELD_MIN)

/* Stacks: gen_startup() has 1 to 5, the program's own work and what it loses begin at these. */
#define HELD_STARTUP 1
#define HELD_WORK 10
#define HELD_LEAK 40
#define HELD_PARTS 200 /* of held_part_any(), 50 each */

/* --- a few more random numbers: two of them, or of gen.h's, never in one expression, whose parts have no order --- */

uint64_t held_share(struct gen *g, uint64_t bytes, double low, double high); /* between these shares of bytes */
uint64_t held_span(struct gen *g, uint64_t low_ns, uint64_t high_ns);	     /* evenly by order of magnitude */
/* Until the next of events that come each mean_ns: some come at once, and once in a long while there is a pause. */
uint64_t held_wait(struct gen *g, double mean_ns);
/* One of n, the first ones far more often: the popularity of models, prompts, words. */
size_t held_popular(struct gen *g, size_t n);
/* Load around 1 that rises and falls within a day and is highest at peak_ns. depth below 1. */
double held_load(uint64_t time_ns, uint64_t peak_ns, double depth);
/* On average between two times. */
double held_mean_load(uint64_t from_ns, uint64_t until_ns, uint64_t peak_ns, double depth);

/* --- blocks that are held, in the order in which they came --- */

struct held_list {
	uint64_t *addrs; /* of gen_block() */
	size_t len, cap;
};

void held_push(struct held_list *l, uint64_t addr);
uint64_t held_take(struct held_list *l, size_t i); /* out of the middle; the order of the others stays */
void held_free_all(struct gen *g, struct held_list *l, uint64_t time_ns); /* and the list itself */

/* --- a caching allocator: asks for segments, cuts them, joins neighbours, gives back only when it must --- */

struct held_chunk;

struct held_pool {
	struct gen *g;
	struct held_chunk *chunks;
	size_t len, cap;
	int *unused; /* numbers of free chunks */
	size_t unused_len, unused_cap;
	int *spare; /* numbers of no chunk */
	size_t spare_len, spare_cap;
	uint64_t reserved_bytes, limit_bytes;
	bool is_full;  /* an allocation has failed */
	bool is_exact; /* segments are as large as what is asked for (CuPy), else 2 MiB, 20 MiB or more (PyTorch) */
};

void held_pool_init(struct held_pool *p, struct gen *g, uint64_t limit_bytes);
void held_pool_done(struct held_pool *p);
/* Returns a number for held_pool_free(), -1 if there is no room even after a trim. */
int held_pool_alloc(struct held_pool *p, uint64_t time_ns, uint64_t bytes, uint64_t stack);
void held_pool_free(struct held_pool *p, int chunk); /* accepts -1 */
/* Gives segments of which nothing is in use back to the driver. */
void held_pool_trim(struct held_pool *p, uint64_t time_ns);
/* One pass forth and back: a tensor for each layer, bytes in all, from 4 stacks. All are freed again but lose of them,
 * which is noted as a loss. Returns the bytes lost. */
uint64_t held_pass(struct held_pool *p, uint64_t time_ns, size_t layers, uint64_t bytes, uint64_t stack, size_t lose);

/* --- parts of programs; none ever holds much more than bytes. Each uses at most 10 stacks from stack on --- */

/* Temporary blocks of several sites, each with a size, a pace and a length of life of its own. */
void held_part_chatter(struct gen *g, uint64_t from_ns, uint64_t bytes, uint64_t stack);
/* Fills at a steady pace until until_ns, then stays or replaces its oldest entries. */
void held_part_cache(struct gen *g, uint64_t from_ns, uint64_t until_ns, uint64_t bytes, uint64_t stack);
/* Entries that end some time after they were made. */
void held_part_ttl(struct gen *g, uint64_t from_ns, uint64_t bytes, uint64_t stack);
/* Now and then a few minutes with a lot more memory. */
void held_part_evals(struct gen *g, uint64_t from_ns, uint64_t bytes, uint64_t stack);
/* One workspace for each shape seen; shapes are many, but an end. */
void held_part_shapes(struct gen *g, uint64_t from_ns, uint64_t bytes, uint64_t stack);
/* Any two of the above, or fewer. */
void held_part_any(struct gen *g, uint64_t from_ns, uint64_t bytes, uint64_t stack);

/* --- what a program begins with --- */

/* A device, and a length between these. Returns the bytes that the program may use. */
uint64_t held_job(struct gen *g, double low_hours, double high_hours);

struct held_benign {
	uint64_t warm_ns; /* its startup is over */
	uint64_t bytes;	  /* the family may hold so much besides */
};

/* A job, its startup and some chatter. */
struct held_benign held_benign(struct gen *g, double low_hours, double high_hours);

struct held_leak {
	uint64_t warm_ns, start_ns; /* the startup is over; the leak begins */
	uint64_t own_bytes;	    /* the family may hold so much besides what it loses */
	uint64_t part_bytes;	    /* ... and the parts around it so much */
	uint64_t free_bytes;	    /* room for the leak */
	double rate;		    /* bytes a nanosecond to lose, in the long run */
	double bytes;		    /* ... and so by the end */
};

/* A job with startup, parts around it and the plan of its leak, which begins after warm-up plus late_low to late_high
 * hours (both 0: soon or within an hour or two) and runs at least least_hours. Without parts the family adds them
 * itself: once it knows its end, or never. */
struct held_leak held_leak(struct gen *g, double late_low, double late_high, double least_hours, bool has_parts);
/* The wait between two losses of so many bytes. */
uint64_t held_leak_wait(struct gen *g, const struct held_leak *l, double bytes);
/* Tells the driver's figure each 10 s: live blocks, base_bytes, and more[i] at the time i * 10 s, up to its len. */
void held_tell_driver(struct gen *g, uint64_t from_ns, uint64_t base_bytes, const uint64_t *more, size_t len);

/* Benign: training, computing, notebooks. */
void held_dynamic_lengths(struct gen *g);
void held_lazy_optimizer(struct gen *g);
void held_ema_midway(struct gen *g);
void held_eval_temporaries(struct gen *g);
void held_growing_inputs(struct gen *g);
void held_sweep(struct gen *g);
void held_loader(struct gen *g);
void held_random_arrays(struct gen *g);
void held_replay_buffer(struct gen *g);
void held_first_epoch(struct gen *g);
void held_notebook(struct gen *g);
void held_mesh(struct gen *g);
void held_particles(struct gen *g);
void held_krylov(struct gen *g);
void held_rollouts(struct gen *g);
void held_spilling(struct gen *g);

/* Benign: servers. */
void held_bounded_cache(struct gen *g);
void held_ttl_cache(struct gen *g);
void held_prefix_cache(struct gen *g);
void held_adapters(struct gen *g);
void held_shapes(struct gen *g);
void held_graphs(struct gen *g);
void held_dynamic_batch(struct gen *g);
void held_sessions(struct gen *g);
void held_blue_green(struct gen *g);
void held_model_zoo(struct gen *g);
void held_vector_index(struct gen *g);
void held_thread_pool(struct gen *g);
void held_lazy_modules(struct gen *g);

/* Leaks, block by block. */
void held_closures(struct gen *g);
void held_metric_history(struct gen *g);
void held_float_keys(struct gen *g);
void held_thread_handles(struct gen *g);
void held_late(struct gen *g);
void held_day_night(struct gen *g);
void held_rare_large(struct gen *g);
void held_two_sites(struct gen *g);
void held_growing_blocks(struct gen *g);
void held_many_sites(struct gen *g);
void held_outages(struct gen *g);

/* Leaks among blocks that are freed. */
void held_exception_frames(struct gen *g);
void held_retained_graphs(struct gen *g);
void held_unclosed_sessions(struct gen *g);
void held_snapshots(struct gen *g);
void held_partial_reload(struct gen *g);
void held_pinned_segments(struct gen *g);
void held_lost_swaps(struct gen *g);
void held_masked(struct gen *g);
void held_kept_evals(struct gen *g);
void held_hidden_modules(struct gen *g);
