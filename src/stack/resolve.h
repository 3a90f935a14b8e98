/* SPDX-License-Identifier: MIT */
/* The resolver's own files only: what is kept of a process, and one stack from copy to frames. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/map64.h"
#include "model/stack.h"
#include "stack/learn_tree.h"
#include "stack/object.h"
#include "stack/python_code.h"
#include "stack/resolver.h"
#include "stack/unwind.h"

/* A program that starts maps file after file: its mappings are not read anew for each, ... */
#define STALE_NS (200 * NSEC_PER_MSEC)
/* ... and reading those of a process that has very many takes at most a tenth of the time. */
#define REST_FACTOR 10

struct resolve_process {
	uint32_t pid;
	uint64_t start_ns; /* 0 = not known yet */
	uint64_t start_ticks; /* of the process that was seen while start_ns was not known; 0 = it was gone */
	struct address_space *space;
	uint64_t space_ns; /* when it was read, monotonic; 0 = never */
	bool is_stale;	   /* something was mapped since */
	bool is_missing;   /* not there when last looked for; its end has not been heard of yet */
	/* Python */
	bool has_python;
	bool wants_python; /* look (again) at python_due_ns */
	uint32_t unsupported; /* version found that is not known, 0 = none */
	uint64_t python_due_ns;
	uint64_t python_next_ns; /* not before, whatever it maps */
	unsigned int python_tries;
	struct python_info python;
	uint64_t eval_start, eval_end; /* _PyEval_EvalFrameDefault; 0 = not known */
	/* what the probe knows */
	struct learn_tree tree;
	struct address_space *used; /* mappings that its stacks lie in */
	uint64_t space_cost_ns; /* of reading its mappings the last time */
	struct map64 stacks; /* number -> struct stack (a reference), of those that were learned */
};

struct resolve {
	struct resolver_options options;
	atomic_bool is_abandoned; /* nobody is there any more to be called */
	struct unwinder *unwinder;
	struct python_codes *codes;
	struct map64 processes; /* by pid */
	uint32_t serial; /* of the last process with Python */
	size_t nodes;	 /* learned, over all processes */
	struct resolver_stats stats; /* all but queued and dropped */
};

int resolve_init(struct resolve *rs, const struct resolver_options *o);
void resolve_done(struct resolve *rs);

/* resolve_process.c */
/* The process, made if need be; one with another start is another. start_ns 0: whichever has the pid now. NULL when out
 * of memory. */
struct resolve_process *resolve_process(struct resolve *rs, uint32_t pid, uint64_t start_ns);
/* NULL if it is not kept. */
struct resolve_process *resolve_process_find(struct resolve *rs, uint32_t pid);
/* start_ns 0: whichever it is. */
void resolve_process_drop(struct resolve *rs, uint32_t pid, uint64_t start_ns);
/* Looks for Python if that is wanted and due. */
void resolve_python(struct resolve *rs, struct resolve_process *p, uint64_t now_ns);
/* There is something to be had: without waiting for the time, if that is not too often. */
void resolve_python_soon(struct resolve_process *p, uint64_t now_ns);
/* Of all processes. Returns when the next one is due, UINT64_MAX = none. */
uint64_t resolve_python_due(struct resolve *rs, uint64_t now_ns);
/* Something was mapped: an interpreter, perhaps. */
void resolve_mapped(struct resolve_process *p, uint64_t now_ns);
/* Reads the mappings anew unless they are from after time_ns. True if they are others now. */
bool resolve_space(struct resolve *rs, struct resolve_process *p, uint64_t time_ns);
/* Processes that are gone without a word. */
void resolve_sweep(struct resolve *rs);

/* Those that the probe knew. */
void resolve_drop_stacks(struct resolve_process *p);
/* The probe is to send all stacks of the process anew. */
void resolve_forget_all(struct resolve *rs, struct resolve_process *p);
/* The probe is to send it anew. */
void resolve_forget_stack(struct resolve *rs, uint32_t pid, uint64_t number);
/* resolve_stack.c: sets the stack's frames, and tells the probe. */
void resolve_stack(struct resolve *rs, struct resolve_process *p, struct stack *s);
