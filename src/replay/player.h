/* SPDX-License-Identifier: MIT */
/*
 * Items of a trace told to an engine on a clock of their own, with the ticks between them: what the daemon would have
 * said. Blocks are kept here, since a free in a trace names an address only. One thread; no I/O.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "replay/trace.h"
#include "rule/engine.h"

struct player;

struct player_options {
	struct limits limits;
	struct trace_clock clock;
	uint64_t tick_ns; /* between two ticks; 0 = 1 s, as in the daemon */
	double stretch;	  /* times are multiplied by it; 0 = 1. A program whose steps take so much longer */
	/*
	 * What is ahead, which the player cannot see: a first pass over the trace finds out. has_sites: there are site lines,
	 * and only they say what call site a stack belongs to; without, the frames do, at the stack's first use. has_ticks:
	 * there are tick lines, also before the first of them. Each becomes true with the first such item in any case.
	 */
	bool has_sites, has_ticks;
	/* Takes the report. time_ns: on the trace's clock (after stretching). */
	void (*report)(struct report *r, uint64_t time_ns, void *userdata);
	/* "frame;frame" of a stack or NULL, asked when the stack is first used; with has_sites, when its call site is told.
	 * May be NULL: no frames are known. */
	const char *(*stack)(uint64_t stack, void *userdata);
	/* As in engine_ops; may be NULL. */
	void (*clean)(const char *text, struct strbuf *sb, void *userdata);
	uint32_t omit;
	void *userdata;
};

struct player_stats {
	uint64_t items, events, ticks;
	uint64_t unknown_frees; /* of blocks from before the trace, or cut out of it */
	uint64_t replaced;	/* allocated where something was live: its free was cut out */
	uint64_t late;		/* items older than one before them; they count at the time of that */
};

/* Of a trace, after stretching: no longer than this. */
#define PLAYER_TIME_MAX (1000 * 86400 * UINT64_C(1000000000))

/* Takes rs (may be NULL: no rules), also on failure. 0, -EINVAL (a clock or stretch that is none), -ENOMEM. Reports
 * name functions and reasons by texts of the player's: they are valid until it is freed. */
int player_new(const struct player_options *o, struct ruleset *rs, struct player **ret);
void player_free(struct player *p); /* accepts NULL; says nothing */
DEFINE_CLEANUP(struct player, player_free)
/*
 * Lets time pass up to the item, ticking, and tells it. If the trace has tick items, ticks come with them, and at every
 * tick_ns after the last one where the next is more than 1.5 of them away (a recorder leaves out those that change
 * nothing); otherwise at full multiples of tick_ns of the monotonic clock. A tick at the very time of an item comes before
 * it. 0, -EINVAL (what no engine can be told, or beyond PLAYER_TIME_MAX), -ENOMEM.
 */
int player_feed(struct player *p, const struct trace_item *item);
/* Lets time pass up to time_ns, as player_time() has it, ticking; at most to PLAYER_TIME_MAX. */
void player_pass(struct player *p, uint64_t time_ns);
/* Ticks once more, without time passing. */
void player_tick(struct player *p);
/* The daemon's way after a loss: what is live is forgotten and told again. Without it leak rules wait for ever. 0 or
 * -ENOMEM; a process that is not known is left alone. */
int player_rebuild(struct player *p, uint32_t pid);
/* Since the start of the trace, stretched. */
uint64_t player_time(const struct player *p);
/* The same of a time in the trace; UINT64_MAX beyond PLAYER_TIME_MAX. */
uint64_t player_stretch(const struct player *p, uint64_t time_ns);
struct engine *player_engine(struct player *p);
/* Number in the trace of a stack as reports have it, 0 = none. */
uint64_t player_stack_number(const struct player *p, const struct stack *s);
void player_stats(const struct player *p, struct player_stats *ret);
/* Functions by name, for events that name theirs: the row that events carry, 0 if the name is not known. */
uint32_t player_call(struct player *p, const char *name);
