/* SPDX-License-Identifier: MIT */
#include "stack/learn_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stack/learn.h"

#define REGISTERS 32
#define LEAVES_MAX 65536 /* looked at when a tree is built anew */

struct learn_node {
	struct stack_path path;
	uint64_t root; /* leaf: the key it was looked for by */
	uint64_t registers[REGISTERS]; /* leaf: those of the mask, relative to sp */
	uint64_t words[]; /* leaf: of each slot, as they enter the hash */
};

/* What tells stacks apart: the word of a slot, or a register, where it is what decides where that slot lies. */
struct place {
	uint32_t index; /* of the slot in the leaf */
	bool is_register;
	uint32_t number; /* of the register */
	uint16_t slot;
};

static int make_leaf(const struct event_stack *raw, const struct stack_path *path, struct learn_node **ret)
{
	struct learn_node *n;

	if (path->slots > STACK_SLOTS_MAX || path->stack == 0)
		return -EINVAL;
	n = calloc(1, sizeof(*n) + path->slots * sizeof(n->words[0]));
	if (!n)
		return -ENOMEM;
	n->path = *path;
	n->root = raw->path;
	for (uint32_t i = 0; i < path->slots; i++) {
		if (!learn_word(raw, path->slot[i], &n->words[i])) {
			free(n);
			return -EINVAL;
		}
	}
	for (unsigned int i = 0; i < REGISTERS; i++) {
		if (path->registers >> i & 1)
			n->registers[i] = learn_register(raw, i);
	}
	*ret = n;
	return 0;
}

static bool is_leaf(const struct learn_node *n)
{
	return n->path.stack != 0;
}

static bool same_stack(const struct learn_node *a, const struct learn_node *b)
{
	return a->path.slots == b->path.slots && a->path.registers == b->path.registers &&
	       memcmp(a->path.slot, b->path.slot, a->path.slots * sizeof(a->path.slot[0])) == 0 &&
	       memcmp(a->words, b->words, a->path.slots * sizeof(a->words[0])) == 0 &&
	       memcmp(a->registers, b->registers, sizeof(a->registers)) == 0;
}

static bool differing_register(const struct learn_node *a, const struct learn_node *b, uint32_t index, struct place *ret)
{
	const uint32_t both = a->path.registers & b->path.registers;

	for (uint32_t i = 0; i < REGISTERS; i++) {
		if ((both >> i & 1) && a->registers[i] != b->registers[i]) {
			*ret = (struct place){ .index = index, .is_register = true, .number = i };
			return true;
		}
	}
	return false;
}

/*
 * The first place where two leaves differ. False: at none that both have. All leaves of a path that are equal up to there
 * have that place too: equal words are equal frames so far, which are left by the same rules.
 */
static bool first_difference(const struct learn_node *a, const struct learn_node *b, struct place *ret)
{
	uint32_t i;

	for (i = 0; i < a->path.slots && i < b->path.slots; i++) {
		/* Equal so far, and yet the next slot lies elsewhere: by a register. */
		if (a->path.slot[i] != b->path.slot[i])
			break;
		if (a->words[i] != b->words[i]) {
			*ret = (struct place){ .index = i, .slot = a->path.slot[i] };
			return true;
		}
	}
	return differing_register(a, b, i, ret);
}

static bool is_before(const struct place *a, const struct place *b)
{
	return a->index != b->index ? a->index < b->index : a->is_register && !b->is_register;
}

/* The leaf's word at a branch. False: it has none there. */
static bool word_at(const struct learn_node *leaf, const struct stack_path *branch, uint64_t *ret)
{
	if (!branch->slots) {
		if (branch->hash >= REGISTERS || !(leaf->path.registers >> branch->hash & 1))
			return false;
		*ret = leaf->registers[branch->hash];
		return true;
	}
	for (uint32_t i = 0; i < leaf->path.slots; i++) {
		if (leaf->path.slot[i] == branch->slot[0]) {
			*ret = leaf->words[i];
			return true;
		}
	}
	return false;
}

static void branch_at(const struct place *p, struct stack_path *ret)
{
	*ret = (struct stack_path){ .hash = p->is_register ? p->number : 0, .slots = !p->is_register };
	ret->slot[0] = p->slot;
}

/* Takes the node in any case. */
static int set_node(struct learn_tree *t, uint64_t key, struct learn_node *n)
{
	struct learn_node *old = map64_get(&t->nodes, key);
	int r;

	r = map64_put(&t->nodes, key, n);
	if (r < 0) {
		free(n);
		return r;
	}
	if (old)
		t->leaves -= is_leaf(old);
	free(old);
	t->leaves += is_leaf(n);
	return 0;
}

static int set_branch(struct learn_tree *t, uint64_t key, const struct place *p)
{
	struct learn_node *n = calloc(1, sizeof(*n));

	if (!n)
		return -ENOMEM;
	branch_at(p, &n->path);
	return set_node(t, key, n);
}

static struct learn_node *take_node(struct learn_tree *t, uint64_t key)
{
	struct learn_node *n = map64_remove(&t->nodes, key);

	if (n)
		t->leaves -= is_leaf(n);
	return n;
}

struct adding {
	struct learn_tree *t;
	learn_put_fn put;
	void *userdata;
};

/* Two stacks under the key of the first one. Children are written first: a probe finds the leaf or the whole branch. */
static int split(struct adding *a, uint64_t key, struct learn_node *fresh, const struct place *p)
{
	struct stack_path branch;
	struct learn_node *old = map64_get(&a->t->nodes, key), *moved;
	uint64_t old_word = 0, fresh_word = 0, old_key, fresh_key;
	int r;

	branch_at(p, &branch);
	if (!word_at(old, &branch, &old_word) || !word_at(fresh, &branch, &fresh_word)) {
		free(fresh);
		return -EINVAL;
	}
	old_key = stack_hash_word(key, old_word);
	fresh_key = stack_hash_word(key, fresh_word);
	if (old_key == fresh_key || map64_get(&a->t->nodes, old_key) || map64_get(&a->t->nodes, fresh_key)) {
		free(fresh);
		return -EINVAL;
	}
	moved = take_node(a->t, key);
	r = set_node(a->t, old_key, moved);
	if (r < 0) {
		free(fresh);
		return r;
	}
	r = a->put(old_key, &moved->path, a->userdata);
	if (r == 0)
		r = a->put(fresh_key, &fresh->path, a->userdata);
	if (r < 0)
		free(fresh);
	else
		r = set_node(a->t, fresh_key, fresh);
	if (r == 0)
		r = set_branch(a->t, key, p);
	if (r == 0)
		r = a->put(key, &branch, a->userdata);
	return r;
}

struct sorted {
	uint64_t word;
	struct learn_node *leaf;
};

static int compare_words(const void *x, const void *y)
{
	const struct sorted *a = x, *b = y;

	return a->word < b->word ? -1 : a->word > b->word;
}

/* A tree of the leaves, all of which agree up to the key. Takes the leaves. */
static int build(struct adding *a, uint64_t key, struct learn_node **leaves, size_t n, unsigned int depth)
{
	struct sorted *list = NULL;
	struct place first = {}, p;
	struct stack_path branch;
	bool any = false;
	size_t kept = 0;
	int r = 0;

	if (n == 1) {
		r = a->put(key, &leaves[0]->path, a->userdata);
		return set_node(a->t, key, leaves[0]) ?: r;
	}
	list = calloc(n, sizeof(*list));
	for (size_t i = 1; i < n; i++) {
		if (!first_difference(leaves[0], leaves[i], &p) || (any && !is_before(&p, &first)))
			continue;
		first = p;
		any = true;
	}
	branch_at(&first, &branch);
	for (size_t i = 0; i < n; i++) {
		uint64_t word = 0;

		/* What cannot be told apart is forgotten, and sent as copies. */
		if (list && any && depth < STACK_TREE_DEPTH && word_at(leaves[i], &branch, &word))
			list[kept++] = (struct sorted){ .word = word, .leaf = leaves[i] };
		else
			free(leaves[i]);
	}
	if (!kept) {
		free(list);
		return list ? 0 : -ENOMEM;
	}
	qsort(list, kept, sizeof(*list), compare_words);
	for (size_t i = 0; i < kept; i++)
		leaves[i] = list[i].leaf;
	for (size_t i = 0, end; i < kept; i = end) {
		int q;

		for (end = i; end < kept && list[end].word == list[i].word;)
			end++;
		q = build(a, stack_hash_word(key, list[i].word), leaves + i, end - i, depth + 1);
		r = r ?: q;
	}
	free(list);
	r = set_branch(a->t, key, &first) ?: r;
	return a->put(key, &branch, a->userdata) ?: r;
}

/* All stacks of a path anew, with fresh: a difference lies before one that is there. */
static int rebuild(struct adding *a, uint64_t root, struct learn_node *fresh)
{
	struct learn_node **leaves;
	size_t iter = 0, n = 0, cap = a->t->leaves + 1;
	uint64_t key, *keys;
	void *value;
	int r;

	leaves = calloc(cap, sizeof(*leaves));
	keys = calloc(cap, sizeof(*keys));
	if (!leaves || !keys || cap > LEAVES_MAX) {
		free(leaves);
		free(keys);
		free(fresh);
		return -ENOMEM;
	}
	while (map64_next(&a->t->nodes, &iter, &key, &value)) {
		struct learn_node *node = value;

		if (is_leaf(node) && node->root == root && n < cap - 1)
			keys[n++] = key;
	}
	/* The branches above them stay where they are written over, else as what leads nowhere. */
	for (size_t i = 0; i < n; i++) {
		leaves[i] = take_node(a->t, keys[i]);
		(void)a->put(keys[i], NULL, a->userdata);
	}
	leaves[n++] = fresh;
	r = build(a, root, leaves, n, 0);
	free(leaves);
	free(keys);
	return r;
}

static int add(struct learn_tree *t, const struct event_stack *raw, const struct stack_path *path, learn_put_fn put,
	       void *userdata, uint64_t *ret_stack)
{
	struct adding a = { .t = t, .put = put, .userdata = userdata };
	struct learn_node *fresh = NULL, *n;
	uint64_t key = raw->path, word = 0;
	unsigned int depth;
	struct place p;
	int r;

	r = make_leaf(raw, path, &fresh);
	if (r < 0)
		return r;
	*ret_stack = path->stack;
	for (depth = 0; depth < STACK_TREE_DEPTH; depth++) {
		n = map64_get(&t->nodes, key);
		if (!n) {
			r = put(key, &fresh->path, userdata);
			if (r < 0) {
				free(fresh);
				return r;
			}
			return set_node(t, key, fresh);
		}
		if (is_leaf(n))
			break;
		if (!word_at(fresh, &n->path, &word))
			return rebuild(&a, raw->path, fresh);
		r = put(key, &n->path, userdata);
		if (r < 0) {
			free(fresh);
			return r;
		}
		key = stack_hash_word(key, word);
	}
	n = map64_get(&t->nodes, key);
	if (!n || !is_leaf(n)) {
		free(fresh);
		return -E2BIG;
	}
	if (same_stack(n, fresh)) {
		*ret_stack = n->path.stack;
		r = put(key, &n->path, userdata);
		free(fresh);
		return r < 0 ? r : -EEXIST;
	}
	if (depth == STACK_TREE_DEPTH || !first_difference(n, fresh, &p)) {
		free(fresh);
		return depth == STACK_TREE_DEPTH ? -E2BIG : -EINVAL;
	}
	return split(&a, key, fresh, &p);
}

/* The word of a copy at a branch, which is that of the probe. False: outside of the copy. */
static bool branch_word(const struct event_stack *raw, const struct stack_path *branch, uint64_t *ret)
{
	if (branch->slots)
		return learn_word(raw, branch->slot[0], ret);
	*ret = learn_register(raw, (unsigned int)branch->hash);
	return true;
}

static bool is_leaf_of(const struct learn_node *n, const struct event_stack *raw)
{
	uint64_t word;

	for (unsigned int i = 0; i < REGISTERS; i++) {
		if ((n->path.registers >> i & 1) && learn_register(raw, i) != n->registers[i])
			return false;
	}
	for (uint32_t i = 0; i < n->path.slots; i++) {
		if (!learn_word(raw, n->path.slot[i], &word) || word != n->words[i])
			return false;
	}
	return true;
}

uint64_t learn_tree_find(const struct learn_tree *t, const struct event_stack *raw)
{
	uint64_t key = raw->path, word = 0;

	for (unsigned int i = 0; i <= STACK_TREE_DEPTH; i++) {
		const struct learn_node *n = map64_get(&t->nodes, key);

		if (!n)
			return 0;
		if (is_leaf(n))
			return is_leaf_of(n, raw) ? n->path.stack : 0;
		if (!branch_word(raw, &n->path, &word))
			return 0;
		key = stack_hash_word(key, word);
	}
	return 0;
}

void learn_tree_repeat(const struct learn_tree *t, const struct event_stack *raw, learn_put_fn put, void *userdata)
{
	uint64_t key = raw->path, word = 0;

	for (unsigned int i = 0; i <= STACK_TREE_DEPTH; i++) {
		const struct learn_node *n = map64_get(&t->nodes, key);

		if (!n || put(key, &n->path, userdata) < 0 || is_leaf(n) || !branch_word(raw, &n->path, &word))
			return;
		key = stack_hash_word(key, word);
	}
}

void learn_tree_remove(struct learn_tree *t, uint64_t stack, learn_put_fn put, void *userdata)
{
	size_t iter = 0;
	uint64_t key;
	void *value;

	while (map64_next(&t->nodes, &iter, &key, &value)) {
		struct learn_node *n = value;

		if (n->path.stack != stack)
			continue;
		free(take_node(t, key));
		(void)put(key, NULL, userdata);
		return;
	}
}

int learn_tree_add(struct learn_tree *t, const struct event_stack *raw, const struct stack_path *path,
		   learn_put_fn put, void *userdata, uint64_t *ret_stack)
{
	int r = add(t, raw, path, put, userdata, ret_stack);

	if (r < 0 || learn_tree_find(t, raw) == path->stack)
		return r;
	/* What could not be told apart was forgotten, or lies where the probe does not come. */
	learn_tree_remove(t, path->stack, put, userdata);
	return -EINVAL;
}

void learn_tree_clear(struct learn_tree *t, learn_put_fn put, void *userdata)
{
	size_t iter = 0;
	uint64_t key;
	void *value;

	while (map64_next(&t->nodes, &iter, &key, &value)) {
		if (put)
			(void)put(key, NULL, userdata);
		free(value);
	}
	map64_done(&t->nodes);
	*t = (struct learn_tree){};
}
