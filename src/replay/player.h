/* SPDX-License-Identifier: MIT */
/*
 * Items of a trace told to an engine on a clock of their own, with the ticks between them: what the daemon would have
 * said. Blocks are kept here, since a free in a trace names an address only. One thread; no I/O.
 */
#pragma once

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
	/* Takes the report. time_ns: on the trace's clock (after stretching). */
	void (*report)(struct report *r, uint64_t time_ns, void *userdata);
	/* "frame;frame" of a stack or NULL, asked when the stack is first used. May be NULL: no frames are known. */
	const char *(*stack)(uint64_t stack, void *userdata);
	void *userdata;
};

struct player_stats {
	uint64_t items, events, ticks;
	uint64_t unknown_frees; /* of blocks from before the trace, or cut out of it */
	uint64_t replaced;	/* allocated where something was live: its free was cut out */
	uint64_t late;		/* items older than one before them; they count at the time of that */
};

/* Takes rs (may be NULL: no rules). 0 or -ENOMEM. */
int player_new(const struct player_options *o, struct ruleset *rs, struct player **ret);
void player_free(struct player *p); /* accepts NULL; says nothing */
DEFINE_CLEANUP(struct player, player_free)
/* Lets time pass up to the item, ticking, and tells it. If the trace has tick items, ticks come with them, and otherwise
 * at full seconds of the trace's clock. 0, -EINVAL (what no engine can be told), -ENOMEM. */
int player_feed(struct player *p, const struct trace_item *item);
/* Lets time pass up to time_ns of the trace, ticking. */
void player_pass(struct player *p, uint64_t time_ns);
/* Ticks once more, without time passing. */
void player_tick(struct player *p);
/* Time of the trace, stretched. */
uint64_t player_time(const struct player *p);
struct engine *player_engine(struct player *p);
/* Number in the trace of a stack as reports have it, 0 = none. */
uint64_t player_stack_number(const struct player *p, const struct stack *s);
void player_stats(const struct player *p, struct player_stats *ret);
/* Functions by name, for events that name theirs: the row that events carry, 0 if the name is not known. */
uint32_t player_call(struct player *p, const char *name);
