/* SPDX-License-Identifier: MIT */
/* What the player's own files share. */
#pragma once

#include "base/map64.h"
#include "replay/player.h"

#define ADDR_KINDS 4 /* of enum addr_kind */

/* A live block: what the free that ends it must say. */
struct player_block {
	struct player_block *older; /* whose free is still on its way, see feed_alloc() */
	uint64_t bytes, stack, birth_ns;
	int32_t device;
	uint32_t again; /* how often it was opened beside the first time */
	uint16_t call;
	uint8_t class, reason;
};

/* What the driver said last of a process on one device. */
struct player_figure {
	char *uuid; /* NULL = on none that was named */
	uint64_t bytes;
	bool is_older;
};

/* An address at which there is an older block too. */
struct player_late {
	uint32_t pid;
	uint64_t start_ns, addr;
	uint64_t birth_ns, tick; /* of the older one; the tick before the newer one */
	uint8_t kind;
};

/* One incarnation of a pid. */
struct player_life {
	uint32_t pid;
	uint64_t start_ns;		 /* made up */
	struct map64 blocks[ADDR_KINDS]; /* struct player_block by address */
	struct map64 stacks;		 /* struct stack by number: those that the engine has been told */
	struct player_figure *figures;
	size_t figures_len;
	bool is_named; /* in the pass of the driver that is under way */
};

/* Texts that stay, numbered from 1. */
struct player_names {
	char **list;
	size_t len, cap;
	struct map64 by_hash; /* number as a pointer */
};

struct player {
	struct player_options options;
	struct engine *engine;
	uint64_t tick_ns;
	uint64_t now_ns;  /* monotonic; time 0 of the trace is options.clock.monotonic_ns */
	uint64_t item_ns; /* of the item; before now_ns where it comes late */
	uint64_t told_ns; /* of the last call by which the engine heard what time it is */
	uint64_t tick_last_ns;
	uint64_t start_last_ns;
	uint64_t ids;
	bool is_pass; /* of the driver, between its begin and end */
	struct player_late *late;
	size_t late_len, late_cap;
	struct map64 lives; /* struct player_life by pid */
	struct player_names calls, reasons;
	struct player_stats stats;
};

/* The number of a name, adding it; 0 = no memory. */
size_t player_name(struct player_names *n, const char *name);
uint64_t player_real(const struct player *p);
/* So that calls without a clock count from now. */
void player_sync(struct player *p);
/* NULL when there is none. */
struct player_life *player_life(const struct player *p, uint32_t pid);
/* The life of the pid, beginning one where there is none. 0 or -ENOMEM. */
int player_live(struct player *p, uint32_t pid, struct player_life **ret);
void player_end(struct player *p, struct player_life *l);
/* With those older than it; accepts NULL. */
void player_block_free(struct player_block *b);
/* Forgets its blocks. */
void player_drop_blocks(struct player_life *l);
/* Makes the stack known to the engine, if it is not. 0 or -ENOMEM. */
int player_use_stack(struct player *p, struct player_life *l, uint64_t number);
/* Its frames are there: it belongs to that site, 0 = the one that they say. 0 or -ENOMEM. */
int player_resolve(struct player *p, struct player_life *l, uint64_t number, uint64_t site);
/* On the monotonic clock. 0, -EINVAL (beyond PLAYER_TIME_MAX). */
int player_moment(const struct player *p, uint64_t time_ns, uint64_t *ret);
void player_pass_until(struct player *p, uint64_t until_ns);

/* player_feed.c: ends older blocks that nobody has freed. */
void player_late_tick(struct player *p);

/* player_driver.c: passes over all processes, and figures that stand alone. 0 or -ENOMEM. */
void player_driver_begin(struct player *p);
int player_driver(struct player *p, struct player_life *l, const struct trace_item *item);
void player_driver_end(struct player *p, bool is_complete);
int player_driver_alone(struct player *p, struct player_life *l, const struct trace_item *item);
void player_figures_done(struct player_life *l);
