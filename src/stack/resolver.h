/* SPDX-License-Identifier: MIT */
/*
 * From what the probe took to frames: a thread of its own, because opening files and reading memory can be slow, and must
 * not wait behind records being written. Unwinds, names Python frames while they can still be read, merges, says which
 * call site it is, and tells the probe how to know the stack again.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "model/stack.h"
#include "stack/object.h"
#include "stack/site_key.h"

struct resolver;

struct resolver_options {
	const char *proc_root;	 /* "/proc"; borrowed */
	struct objects *objects; /* a reference is taken */
	struct allocators *allocators; /* borrowed; must outlive it */
	uint32_t queue;		 /* stacks waiting; over it they are dropped, counted, and say so */
	uint32_t learned;	 /* nodes of the probe's map; over it the process that has most starts anew */
	size_t python_bytes;	 /* names and line tables remembered, 0 = default */
	/* Both are called on the resolver's thread. */
	/* A node of the tree by which the probe knows stacks again; path NULL: not any more. 0 or -errno (counted). */
	int (*learn)(uint64_t key, const struct stack_path *path, void *userdata);
	/* What the probe needs to walk the Python frames of a process; NULL = none any more. 0 or -errno (counted). */
	int (*python)(uint32_t pid, const struct python_process *p, void *userdata);
	void *userdata;
};

struct resolver_stats {
	uint64_t resolved, incomplete; /* incomplete: with a reason in info */
	uint64_t dropped;	/* too many were waiting */
	uint64_t repeated;	/* copies of stacks that were known by then */
	uint64_t learned, unlearnable, learn_failed;
	uint64_t nodes, relearned; /* in the probe's map now; times that a process had to start anew for lack of room */
	uint64_t checked, mismatched; /* copies of stacks that were known: unwound again and compared */
	uint64_t python_processes; /* now */
	uint64_t queued; /* now */
};

int resolver_new(const struct resolver_options *o, struct resolver **ret);
/* Stops the thread; one that is stuck in a file is abandoned. Accepts NULL. */
void resolver_free(struct resolver *r);
DEFINE_CLEANUP(struct resolver, resolver_free)

/* None of these blocks. Takes a reference to s. */
void resolver_push(struct resolver *r, struct stack *s);
/* A process that uses the GPU, or is about to: looks whether it runs Python. start_ns 0: not known yet (its end must then
 * take it off the probe's map). Again after files were mapped: a library may have brought the interpreter. */
void resolver_process(struct resolver *r, uint32_t pid, uint64_t start_ns);
/* It has mapped a file since: what is known of its address space may be old. */
void resolver_mapped(struct resolver *r, uint32_t pid);
/* It has ended or been replaced. */
void resolver_forget(struct resolver *r, uint32_t pid, uint64_t start_ns);
/* The probe is not to know this stack again, but to send it anew. */
void resolver_forget_stack(struct resolver *r, uint32_t pid, uint64_t stack);

int resolver_fd(const struct resolver *r); /* readable while results wait */
/* Calls fn for each stack resolved since. Number of them. */
size_t resolver_take(struct resolver *r, void (*fn)(struct stack *s, void *userdata), void *userdata);
void resolver_stats(struct resolver *r, struct resolver_stats *ret);
