/* SPDX-License-Identifier: MIT */
/*
 * The history: what each process holds on each device, told often enough that last night can be told without a rule, and
 * no more often. A sample says what is held now and the lowest and highest since the one before. The next is due when what
 * is held leaves that range by 5 %, or when a whole interval has stayed well within it: a training loop that goes up and
 * down between the same two levels is told once an hour. Inside the core only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/map64.h"

struct engine;
struct event;
struct occasion;
struct process;
struct process_device;

/* Told again this often while it holds memory; who reads the history looks back so far (history/story.h). */
#define SAMPLE_KEEP_NS (3600 * NSEC_PER_SEC)
/* Of a device on which an allocation failed all holders are told, most first, but so many and so often only. */
#define SAMPLE_HOLDERS_MAX 32
#define SAMPLE_FAILURE_NS (10 * NSEC_PER_SEC)
/* The stack of a call site is told again when samples still name it, since a journal forgets. */
#define SAMPLE_SITE_NS (86400 * NSEC_PER_SEC)
/* While more is due than limits.history_per_minute allows, the interval is stretched up to so many times. */
#define SAMPLE_STRETCH_MAX 16

struct sampling {
	uint64_t interval_ns;	/* 0 = no history is told */
	uint32_t stretch;
	uint64_t boot_offset_ns; /* the boot clock is so much ahead of the monotonic one: the host slept so long */
	uint64_t minute_ns;	/* when the running minute began */
	uint32_t said, wanted;	/* in it */
	uint32_t burst;		/* records of the running tick */
	/* When not all get their turn in a tick, the first that did not, by its place in the list, is the first of the next. */
	size_t turn, next_turn; /* that place; next_turn: and one, 0 = all did */
	uint64_t fail_ns;	/* of the last failure on no known device */
	uint64_t held;		/* ends of processes that were not told and of which no record has told yet */
	uint64_t told;		/* records */
	uint64_t delayed, lost; /* processes that had to wait for want of budget; ends that were not told */
	struct map64 sites;	/* by frames.id, when its stack was told: seconds and one, as a pointer */
};

/* A tick begins. */
void sample_tick_begin(struct engine *e, uint64_t now_ns);
/* At a tick, of a process that has changed or is due. */
void sample_look(struct engine *e, struct process *p, const struct occasion *o);
/* An allocation of p has failed: who holds the device's memory is told. */
void sample_failure(struct engine *e, struct process *p, const struct event *ev, const struct occasion *o);
/* The books of a process are right again. What it held before, of which no sample has told, nobody knows: perhaps it began
 * long before us. */
void sample_rebuilt(struct process_device *pd, uint64_t now_ns);
/* Its slot pd will be another device's, or of one that has a name at last: nothing is left where it was told to be. Then,
 * once that is so, where it is now. */
void sample_leave_device(struct engine *e, struct process *p, struct process_device *pd, const struct occasion *o);
void sample_enter_device(struct engine *e, struct process *p, struct process_device *pd, const struct occasion *o);
/* It ends. */
void sample_exit(struct engine *e, struct process *p, const struct occasion *o);
void sample_done(struct engine *e);
