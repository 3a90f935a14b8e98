/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "top/model_private.h"

#define NONE SIZE_MAX

/* Of a row by its place in the order before. */
struct node {
	size_t parent, first_child, next;
	bool is_placed;
};

struct tree {
	const struct top_row *from;
	struct node *nodes;
	struct top_row *to;
	size_t len, placed;
};

/* Siblings stay in the order that the rows have. */
static int link_nodes(struct tree *t)
{
	struct map64 by_pid = MAP64_INIT;
	int r = 0;

	for (size_t i = 0; i < t->len && r == 0; i++) {
		t->nodes[i] = (struct node){ .parent = NONE, .first_child = NONE, .next = NONE };
		/* A number may be in use anew while the process before it is still told of. */
		if (!t->from[i].p->is_ended)
			r = map64_put(&by_pid, t->from[i].p->pid, &t->nodes[i]);
	}
	for (size_t n = t->len; n > 0 && r == 0; n--) {
		const struct view_process *p = t->from[n - 1].p;
		struct node *node = &t->nodes[n - 1];
		struct node *parent = p->ppid == VIEW_NONE_32 ? NULL : map64_get(&by_pid, p->ppid);

		if (!parent || parent == node)
			continue;
		node->parent = (size_t)(parent - t->nodes);
		node->next = parent->first_child;
		parent->first_child = n - 1;
	}
	map64_done(&by_pid);
	return r;
}

static void place(struct tree *t, size_t i, unsigned depth, uint64_t rails, bool is_last)
{
	struct top_row *row = &t->to[t->placed++];

	*row = t->from[i];
	row->depth = depth;
	row->rails = rails;
	row->is_last = is_last;
	t->nodes[i].is_placed = true;
}

static size_t next_unplaced(const struct tree *t, size_t i)
{
	while (i != NONE && t->nodes[i].is_placed)
		i = t->nodes[i].next;
	return i;
}

/* A root and what is below it. A cycle ends where it comes back to what stands there already. */
static void place_all(struct tree *t, size_t root)
{
	unsigned depth = 0;
	uint64_t rails = 0;

	place(t, root, 0, 0, true);
	for (size_t at = root;;) {
		const size_t child = next_unplaced(t, t->nodes[at].first_child);

		if (child != NONE) {
			const bool is_last = next_unplaced(t, t->nodes[child].next) == NONE;

			t->nodes[at].first_child = t->nodes[child].next;
			depth++;
			if (depth <= TOP_DEPTH_MAX)
				rails = is_last ? rails & ~(UINT64_C(1) << depth) : rails | UINT64_C(1) << depth;
			place(t, child, depth, rails, is_last);
			at = child;
		} else if (at == root) {
			return;
		} else {
			at = t->nodes[at].parent;
			depth--;
		}
	}
}

int top_tree_link(struct top_row *rows, size_t len)
{
	_cleanup_free_ struct node *nodes = calloc(len + 1, sizeof(*nodes));
	_cleanup_free_ struct top_row *to = calloc(len + 1, sizeof(*to));
	struct tree t = { .from = rows, .nodes = nodes, .to = to, .len = len };
	int r;

	if (!nodes || !to)
		return -ENOMEM;
	r = link_nodes(&t);
	for (size_t i = 0; i < len && r == 0; i++) {
		if (nodes[i].parent == NONE)
			place_all(&t, i);
	}
	for (size_t i = 0; i < len && r == 0; i++) {
		if (!nodes[i].is_placed)
			place_all(&t, i);
	}
	if (r == 0)
		memcpy(rows, to, len * sizeof(*rows));
	return r;
}
