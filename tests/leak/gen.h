/* SPDX-License-Identifier: MIT */
/*
 * Generated programs with a known truth, for the bench of the leak detector. A family is a kind of program; a seed is
 * one of it: sizes, rates, noise, device and length differ. Nothing of it looks at the clock or the machine: the same
 * seed is the same trace for ever.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/trace.h"

#define GEN_PID 4711
#define GEN_EVENTS_MAX 200000 /* about so many at most: a bench of hundreds must end in a minute */
#define GEN_FOREVER UINT64_MAX
#define GEN_SEC UINT64_C(1000000000)
#define GEN_MIB (UINT64_C(1) << 20)
#define GEN_GIB (UINT64_C(1) << 30)

struct gen {
	uint64_t state; /* of the random numbers */
	struct trace_item *items; /* not in order: sorted by time (stable) before they are played */
	size_t len, cap;
	uint64_t next_addr;
	uint64_t end_ns;	/* of the trace: the program's end, or where one stopped looking */
	uint64_t device_bytes;	/* capacity of the only device */
	uint64_t foreign_bytes; /* in use on it by processes that are not traced, all the time */
	/* The truth. */
	bool is_leak;
	uint64_t leak_start_ns; /* the first byte that is never needed again */
	uint64_t leak_site;	/* stack of most of it; 0 = of no one site, or seen by the driver only */
	struct gen_loss {
		uint64_t time_ns, bytes; /* so many more were lost */
		uint64_t stack;		 /* of the block; 0 = without one of its own */
	} *losses;
	size_t losses_len, losses_cap;
	bool is_full; /* gen_finish() cut it where the device was full: the program died of it */
};

struct family {
	const char *name; /* "list-kept" */
	bool is_leak;
	/* Sets end_ns and calls gen_device() before all else. At most GEN_EVENTS_MAX items. */
	void (*make)(struct gen *g);
	const char *what; /* one line for the table's legend */
};

extern const struct family families_tuning[];	/* what the detector may be tuned on; ends with name NULL */
extern const struct family families_held_out[]; /* ... and what it is judged by: nobody tunes on these */

/* Random numbers: splitmix64. Never two of them in one expression or argument list: which is drawn first would be the
 * compiler's choice, and the trace another. */
uint64_t gen_u64(struct gen *g);
double gen_unit(struct gen *g);				 /* [0, 1) */
double gen_range(struct gen *g, double low, double high); /* evenly */
double gen_log_range(struct gen *g, double low, double high); /* evenly by order of magnitude; low > 0 */
double gen_normal(struct gen *g);			 /* mean 0, deviation 1 */
double gen_exponential(struct gen *g, double mean);
bool gen_chance(struct gen *g, double p);
size_t gen_pick(struct gen *g, size_t n);		 /* 0 to n - 1 */

/* A device of a usual size (8 to 141 GiB), and how much of it others use. */
void gen_device(struct gen *g);
/* A block of the device class, living life_ns (GEN_FOREVER: to the end of the program). stack from 1. What would not
 * end before end_ns is never freed. Returns its address; 0, and nothing is made, from end_ns on. */
uint64_t gen_block(struct gen *g, uint64_t time_ns, uint64_t bytes, uint64_t stack, uint64_t life_ns);
/* Frees a block that was made with GEN_FOREVER. addr 0: nothing. */
void gen_free(struct gen *g, uint64_t time_ns, uint64_t addr);
/* A block that is lost for ever: gen_block, and the truth of it. The first one is the start of the leak. */
uint64_t gen_lose(struct gen *g, uint64_t time_ns, uint64_t bytes, uint64_t stack);
/* Only the truth: bytes are lost without a block of their own, such as a part of one. */
void gen_note_loss(struct gen *g, uint64_t time_ns, uint64_t bytes);
/* What the driver says that the process holds; told at that time (families that no call shows tell it every 10 s). */
void gen_driver(struct gen *g, uint64_t time_ns, uint64_t bytes);

/* The weights and the like that every program has: blocks within the first seconds to minutes from stacks first to
 * first + 4, kept for ever; how long it took is returned. */
uint64_t gen_startup(struct gen *g, uint64_t bytes, uint64_t stack);

/* For the bench: a family's trace of a seed is gen_init(), make(), gen_finish(). */
void gen_init(struct gen *g, const struct family *f, uint64_t seed);
/* Sorts by time, and ends the trace where an allocation finds no room. */
void gen_finish(struct gen *g);
void gen_done(struct gen *g);
