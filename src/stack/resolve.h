/* SPDX-License-Identifier: MIT */
/* The resolver's own files only: what is kept of a process, and one stack from copy to frames. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map64.h"
#include "model/stack.h"
#include "stack/learn_tree.h"
#include "stack/object.h"
#include "stack/python_code.h"
#include "stack/resolver.h"
#include "stack/unwind.h"

struct resolve_process {
	uint32_t pid;
	uint64_t start_ns; /* 0 = not known yet */
	struct address_space *space;
	uint64_t space_ns; /* when it was read, monotonic; 0 = never */
	bool is_stale;	   /* something was mapped since */
	/* Python */
	bool has_python;
	bool wants_python; /* look (again) at python_due_ns */
	uint32_t unsupported; /* version found that is not known, 0 = none */
	uint64_t python_due_ns;
	unsigned int python_tries;
	struct python_info python;
	uint64_t eval_start, eval_end; /* _PyEval_EvalFrameDefault; 0 = not known */
	/* what the probe knows */
	struct learn_tree tree;
	struct map64 exact; /* stack number -> frames.exact, of those that were learned */
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
/* Tells the probe; see resolver_options. */
int resolve_tell_python(struct resolve *rs, uint32_t pid, const struct python_process *p);
/* The process, made if need be; one with another start is another. NULL when out of memory. */
struct resolve_process *resolve_process(struct resolve *rs, uint32_t pid, uint64_t start_ns);
/* NULL if it is not kept. */
struct resolve_process *resolve_process_find(struct resolve *rs, uint32_t pid);
/* start_ns 0: whichever it is. */
void resolve_process_drop(struct resolve *rs, uint32_t pid, uint64_t start_ns);
/* Looks for Python if that is wanted and due. */
void resolve_python(struct resolve *rs, struct resolve_process *p, uint64_t now_ns);
/* Of all processes. Returns when the next one is due, UINT64_MAX = none. */
uint64_t resolve_python_due(struct resolve *rs, uint64_t now_ns);
/* Something was mapped: an interpreter, perhaps. */
void resolve_mapped(struct resolve_process *p, uint64_t now_ns);
/* Reads the mappings anew unless they are from after time_ns. True if they were. */
bool resolve_space(struct resolve *rs, struct resolve_process *p, uint64_t time_ns);
/* Processes that are gone without a word. */
void resolve_sweep(struct resolve *rs);

/* The probe is to send it anew. */
void resolve_forget_stack(struct resolve *rs, uint32_t pid, uint64_t number);
/* resolve_stack.c: sets the stack's frames, and tells the probe. */
void resolve_stack(struct resolve *rs, struct resolve_process *p, struct stack *s);
