/* SPDX-License-Identifier: MIT */
/* What an engine knows, as a view. */
#pragma once

#include "rule/engine.h"
#include "view/view.h"

/* A stack whose text is still to be made: that is not for the thread that traces. */
struct view_stack {
	size_t process, site; /* places in the view */
	struct stack *stack;  /* a reference; NULL: reason says why there is none */
	uint8_t reason;
};

struct view_stacks {
	struct view_stack *list;
	size_t len, cap;
};

#define VIEW_STACKS_INIT {}
/* Moves one into the list; of is left without its stack. 0 or -ENOMEM. */
int view_stacks_take(struct view_stacks *s, struct view_stack *of);
void view_stacks_done(struct view_stacks *s);

struct engine_view_options {
	const struct view_query *query;
	uint64_t now_ns; /* monotonic */
	/* Who a process is, as it may be shown; borrowed until the next call; may be NULL. */
	const struct identity *(*shown)(const struct process *p, void *userdata);
	void *userdata;
};

/*
 * Appends the devices, processes and incidents that the query asks for, and sets the totals that the engine knows; growth and
 * what NVML says of use are not its. Stacks of sites go to *stacks. 0 or -ENOMEM.
 */
int engine_view(struct engine *e, const struct engine_view_options *o, struct view *v, struct view_stacks *stacks);
/* One process more, whatever the query says of pids; also from engine_ops.ended. The same. */
int engine_view_process(const struct engine *e, const struct process *p, const struct engine_view_options *o, struct view *v,
			struct view_stacks *stacks);
