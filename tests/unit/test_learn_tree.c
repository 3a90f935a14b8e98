/* SPDX-License-Identifier: MIT */
/* The tree of learned stacks against a model of programs: what the probe would find in the map is the right stack or none. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stack/learn_tree.h"
#include "test.h"

#define DEPTH 40
#define PATH_KEY 0x1234567
#define STACK_SP 0x7f0000001000ull
#define COPY_BYTES 4096

/*
 * A program: at each level the current "instruction" decides the frame's size, and chance the caller. Equal words so far
 * mean an equal place of the next one, as unwind rules have it.
 */
struct sample {
	struct event_stack *raw;
	struct stack_path path;
	uint64_t identity; /* of the chain */
};

static uint64_t random_state = 88172645463325252ull;

static uint64_t random64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static uint64_t word_of(const struct event_stack *raw, uint16_t slot)
{
	uint64_t w;

	memcpy(&w, raw->copy + (slot & STACK_SLOT_OFFSET) * 8u, 8);
	return slot & STACK_SLOT_RELATIVE ? w - raw->regs.sp : w;
}

static uint64_t hash_path(const struct event_stack *raw, const struct stack_path *p)
{
	uint64_t h = STACK_HASH_INIT;

	for (uint32_t i = 0; i < p->slots; i++)
		h = stack_hash_word(h, word_of(raw, p->slot[i]));
	if (p->registers & 1u << 6)
		h = stack_hash_word(h, raw->regs.bp - raw->regs.sp);
	return h;
}

/* fan: callers to choose from at each level. With bp: some frames are left by a saved frame pointer. */
static void make_sample(struct sample *s, uint64_t number, unsigned int fan, bool has_bp)
{
	uint64_t pc = 0x1000;
	size_t at = 0;

	memset(s, 0, sizeof(*s));
	s->raw = calloc(1, sizeof(*s->raw) + COPY_BYTES);
	s->raw->head.stack = s->path.stack = number;
	s->raw->path = PATH_KEY;
	s->raw->regs.sp = STACK_SP;
	s->raw->copy_bytes = COPY_BYTES;
	for (size_t i = 0; i < COPY_BYTES; i++)
		s->raw->copy[i] = (uint8_t)random64();
	if (has_bp && random64() % 2)
		s->raw->regs.bp = STACK_SP + 64 * (1 + random64() % 2);
	if (has_bp) {
		s->path.registers = 1u << 6;
		at = (s->raw->regs.bp ? s->raw->regs.bp - STACK_SP : 0) / 8;
	}
	s->identity = s->raw->regs.bp;
	for (unsigned int i = 0; i < DEPTH; i++) {
		const uint64_t caller = hash64(pc * 31 + random64() % fan);
		const size_t size = 1 + hash64(pc) % 6;

		at += size;
		if (pc % 5 == 0) { /* a saved frame pointer below the return address, which says how large the next is */
			const uint64_t saved = STACK_SP + (at + 1 + random64() % 3) * 8;

			memcpy(s->raw->copy + at * 8, &saved, 8);
			s->path.slot[s->path.slots++] = (uint16_t)(at | STACK_SLOT_RELATIVE);
			s->identity = hash64(s->identity ^ (saved - STACK_SP));
			at = (saved - STACK_SP) / 8;
		}
		memcpy(s->raw->copy + at * 8, &caller, 8);
		s->path.slot[s->path.slots++] = (uint16_t)at;
		s->identity = hash64(s->identity ^ caller);
		pc = caller;
		if (pc % 37 == 0 || at > COPY_BYTES / 8 - 16)
			break;
	}
	s->path.hash = hash_path(s->raw, &s->path);
}

/* The probe's map, from which entries may go at any time. */
struct probe {
	struct map64 map;
	size_t puts;
	bool is_failing;
};

static int put(uint64_t key, const struct stack_path *path, void *userdata)
{
	struct probe *p = userdata;
	struct stack_path *copy;

	if (p->is_failing)
		return -ENOSPC;
	p->puts++;
	free(map64_remove(&p->map, key));
	if (!path)
		return 0;
	copy = malloc(sizeof(*copy));
	*copy = *path;
	return map64_put(&p->map, key, copy);
}

/* What bpf/stack.h does. */
static uint64_t look(const struct probe *p, const struct event_stack *raw)
{
	uint64_t key = raw->path;

	for (int i = 0; i <= STACK_TREE_DEPTH; i++) {
		const struct stack_path *n = map64_get(&p->map, key);

		if (!n)
			return 0;
		if (n->stack)
			return hash_path(raw, n) == n->hash ? n->stack : 0;
		key = stack_hash_word(key, n->slots ? word_of(raw, n->slot[0]) : raw->regs.bp - raw->regs.sp);
	}
	return 0;
}

/* Drops the root of a path. */
static void probe_forget(struct probe *p, const struct event_stack *raw)
{
	free(map64_remove(&p->map, raw->path));
}

static void probe_done(struct probe *p)
{
	size_t iter = 0;
	void *v;

	while (map64_next(&p->map, &iter, NULL, &v))
		free(v);
	map64_done(&p->map);
}

struct known {
	uint64_t identity, number;
};

static uint64_t find_identity(const struct known *list, size_t n, uint64_t identity)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].identity == identity)
			return list[i].number;
	return 0;
}

static void run_program(unsigned int fan, bool has_bp, unsigned int rounds, bool does_evict)
{
	struct learn_tree tree = {};
	struct probe probe = {};
	struct known *list = calloc(rounds, sizeof(*list));
	size_t n = 0, wrong = 0, missed = 0, again = 0;

	for (unsigned int i = 1; i <= rounds; i++) {
		struct sample s;
		uint64_t found, expected, number = 0;
		int r;

		make_sample(&s, i, fan, has_bp);
		expected = find_identity(list, n, s.identity);
		found = look(&probe, s.raw);
		wrong += learn_tree_find(&tree, s.raw) != expected;
		if (expected && !found) {
			learn_tree_repeat(&tree, s.raw, put, &probe);
			wrong += look(&probe, s.raw) != expected;
			if (i % 2)
				probe_forget(&probe, s.raw);
		}
		wrong += found && found != expected;
		missed += expected && !look(&probe, s.raw);
		if (!look(&probe, s.raw)) {
			r = learn_tree_add(&tree, s.raw, &s.path, put, &probe, &number);
			if (r == 0 && !expected)
				list[n++] = (struct known){ s.identity, i };
			else if (r == -EEXIST)
				again += number == expected;
			else
				wrong += r == 0; /* a second number for the same stack */
			if (r == 0 || r == -EEXIST)
				wrong += look(&probe, s.raw) != (r ? expected : i);
		}
		if (does_evict && random64() % 8 == 0) {
			size_t iter = 0;
			uint64_t key = 0;
			void *v;

			for (uint64_t skip = random64() % (probe.map.len + 1); skip-- > 0;)
				(void)map64_next(&probe.map, &iter, &key, &v);
			free(map64_remove(&probe.map, key));
		}
		free(s.raw);
	}
	EXPECT_EQ(wrong, 0u);
	EXPECT_EQ(again, missed);
	if (!does_evict)
		EXPECT_EQ(missed, 0u);
	EXPECT_EQ(tree.leaves, n);
	learn_tree_clear(&tree, put, &probe);
	EXPECT_EQ(does_evict ? 0u : probe.map.len, 0u);
	probe_done(&probe);
	free(list);
}

TEST(one_stack)
{
	run_program(1, false, 50, false);
}

TEST(many_stacks)
{
	run_program(2, false, 600, false);
	run_program(3, true, 600, false);
}

TEST(evicted)
{
	run_program(1, true, 600, true);
	run_program(2, false, 600, true);
}

TEST(remove)
{
	struct learn_tree tree = {};
	struct probe probe = {};
	struct sample a, b;
	uint64_t number;

	make_sample(&a, 1, 2, false);
	do {
		make_sample(&b, 2, 2, false);
		if (b.identity == a.identity)
			free(b.raw);
	} while (b.identity == a.identity);
	EXPECT_EQ(learn_tree_add(&tree, a.raw, &a.path, put, &probe, &number), 0);
	EXPECT_EQ(learn_tree_add(&tree, b.raw, &b.path, put, &probe, &number), 0);
	EXPECT_EQ(tree.leaves, 2u);
	learn_tree_remove(&tree, 1, put, &probe);
	EXPECT_EQ(look(&probe, a.raw), 0u);
	EXPECT_EQ(look(&probe, b.raw), 2u);
	a.path.stack = a.raw->head.stack = 3;
	EXPECT_EQ(learn_tree_add(&tree, a.raw, &a.path, put, &probe, &number), 0);
	EXPECT_EQ(look(&probe, a.raw), 3u);
	EXPECT_EQ(look(&probe, b.raw), 2u);
	probe.is_failing = true;
	learn_tree_remove(&tree, 3, put, &probe);
	EXPECT_EQ(learn_tree_add(&tree, a.raw, &a.path, put, &probe, &number), -ENOSPC);
	EXPECT_EQ(tree.leaves, 1u);
	learn_tree_clear(&tree, NULL, NULL);
	probe_done(&probe);
	free(a.raw);
	free(b.raw);
}

TEST(indistinguishable)
{
	struct learn_tree tree = {};
	struct probe probe = {};
	struct sample a, b;
	uint64_t number;

	make_sample(&a, 1, 1, false);
	make_sample(&b, 2, 1, false);
	memcpy(b.raw->copy, a.raw->copy, COPY_BYTES);
	b.path = a.path;
	b.path.stack = 2;
	b.path.slots--; /* the same words, one less: no word tells them apart */
	b.path.hash = hash_path(b.raw, &b.path);
	EXPECT_EQ(learn_tree_add(&tree, a.raw, &a.path, put, &probe, &number), 0);
	EXPECT_EQ(learn_tree_add(&tree, b.raw, &b.path, put, &probe, &number), -EINVAL);
	EXPECT_EQ(look(&probe, a.raw), 1u);
	b.path.slot[0] = STACK_SLOT_OFFSET; /* outside of the copy */
	EXPECT_EQ(learn_tree_add(&tree, b.raw, &b.path, put, &probe, &number), -EINVAL);
	EXPECT_EQ(tree.leaves, 1u);
	learn_tree_clear(&tree, NULL, NULL);
	probe_done(&probe);
	free(a.raw);
	free(b.raw);
}

/* A stack of words, one a slot. */
static void make_words(struct sample *s, uint64_t number, const uint64_t *words, uint32_t n, uint64_t bp, bool uses_bp)
{
	memset(s, 0, sizeof(*s));
	s->raw = calloc(1, sizeof(*s->raw) + n * 8);
	s->raw->head.stack = s->path.stack = number;
	s->raw->path = PATH_KEY;
	s->raw->regs.sp = STACK_SP;
	s->raw->regs.bp = bp;
	s->raw->copy_bytes = n * 8;
	memcpy(s->raw->copy, words, n * 8);
	s->path.slots = n;
	s->path.registers = uses_bp ? 1u << 6 : 0;
	for (uint32_t i = 0; i < n; i++)
		s->path.slot[i] = (uint16_t)i;
	s->path.hash = hash_path(s->raw, &s->path);
}

/* Some callers are left by a register and others are not: the register must not be asked where it plays no part. */
TEST(mixed_registers)
{
	const uint64_t with[] = { 0x10, 0x20 }, without[] = { 0x11, 0x20 };
	struct learn_tree tree = {};
	struct probe probe = {};
	struct sample s[3];
	uint64_t number;

	make_words(&s[0], 1, with, 2, STACK_SP + 0x1000, true);
	make_words(&s[1], 2, with, 2, STACK_SP + 0x2000, true);
	make_words(&s[2], 3, without, 2, 0x4711, false);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(learn_tree_add(&tree, s[i].raw, &s[i].path, put, &probe, &number), 0);
	s[2].raw->regs.bp = 0x1234;
	for (uint64_t i = 0; i < 3; i++) {
		EXPECT_EQ(look(&probe, s[i].raw), i + 1);
		EXPECT_EQ(learn_tree_find(&tree, s[i].raw), i + 1);
		free(s[i].raw);
	}
	learn_tree_clear(&tree, NULL, NULL);
	probe_done(&probe);
}

/* Each differs from all before at another slot: as many branches lie on the way as there are. */
TEST(too_deep)
{
	enum { N = STACK_TREE_DEPTH + 8 };
	struct learn_tree tree = {};
	struct probe probe = {};
	struct sample s[N];
	uint64_t words[N], number;
	unsigned int known = 0;

	for (unsigned int i = 0; i < N; i++) {
		int r;

		for (unsigned int k = 0; k < N; k++)
			words[k] = k < i ? 1 : k == i ? 2 : 3;
		make_words(&s[i], i + 1, words, N, 0, false);
		r = learn_tree_add(&tree, s[i].raw, &s[i].path, put, &probe, &number);
		EXPECT(r == 0 || r == -E2BIG);
		known += r == 0;
	}
	EXPECT(known > STACK_TREE_DEPTH && known < N);
	for (unsigned int i = 0; i < N; i++) {
		EXPECT_EQ(look(&probe, s[i].raw), i < known ? i + 1 : 0);
		free(s[i].raw);
	}
	learn_tree_clear(&tree, NULL, NULL);
	probe_done(&probe);
}

TEST_MAIN()
