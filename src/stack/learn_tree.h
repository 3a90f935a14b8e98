/* SPDX-License-Identifier: MIT */
/*
 * The stacks of one process that the probe knows again, as the tree of bpf/stack_event.h. Kept here with the words of
 * each stack, so that a leaf can be split when another stack turns up under its key.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/map64.h"
#include "model/stack.h"

struct learn_tree {
	struct map64 nodes; /* struct learn_node by key */
	size_t leaves;
};

/* Writes a node (path NULL: takes it away). 0 or -errno. */
typedef int (*learn_put_fn)(uint64_t key, const struct stack_path *path, void *userdata);

/*
 * Adds a stack as learn_path() has it, with the copy it was made of. Nodes on the way are written anew: the probe's map
 * may have dropped them. 0 and *ret_stack = its number; -EEXIST: the very same stack is known by number *ret_stack.
 * -E2BIG: too many branches on the way; -EINVAL: it cannot be told from another by its slots; -ENOMEM; error of put.
 */
int learn_tree_add(struct learn_tree *t, const struct event_stack *raw, const struct stack_path *path,
		   learn_put_fn put, void *userdata, uint64_t *ret_stack);
/* What the probe would find, were its map as it should be: the number of a stack, 0 = not known. */
uint64_t learn_tree_find(const struct learn_tree *t, const struct event_stack *raw);
/* Writes the nodes on the way to a known stack anew: the probe's map has dropped them, or has not seen them yet. */
void learn_tree_repeat(const struct learn_tree *t, const struct event_stack *raw, learn_put_fn put, void *userdata);
/* Forgets the stack with this number. */
void learn_tree_remove(struct learn_tree *t, uint64_t stack, learn_put_fn put, void *userdata);
/* Forgets all; put may be NULL (the process is gone, and its keys with it). */
void learn_tree_clear(struct learn_tree *t, learn_put_fn put, void *userdata);
