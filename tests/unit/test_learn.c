/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "stack/learn.h"
#include "test.h"

#define SP 0x7ffc00001238ull

/* A copy of random words and what an unwinder might say of it. */
struct sample {
	struct event_stack *raw;
	struct unwound u;
	struct unwound_frame frames[512];
};

static uint64_t state = 88172645463325252ull;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void sample_done(struct sample *s)
{
	free(s->raw);
}
#define _cleanup_sample_ _cleanup_(sample_done)

static void sample_init(struct sample *s, uint32_t bytes)
{
	*s = (struct sample){ .raw = calloc(1, sizeof(*s->raw) + bytes) };
	if (!s->raw)
		abort();
	s->raw->head.stack = 77;
	s->raw->copy_bytes = bytes;
	s->raw->regs = (struct stack_registers){
		.sp = SP, .bp = SP + 64, .bx = 3, .r12 = 12, .r13 = 13, .r14 = 14, .r15 = SP + 15,
	};
	for (uint32_t i = 0; i < bytes; i++)
		s->raw->copy[i] = (uint8_t)(next_random() >> 24);
	s->u.frames = s->frames;
}

static void add_return(struct sample *s, uint32_t offset)
{
	s->frames[s->u.count++].return_slot = offset;
}

static void add_address(struct sample *s, uint32_t offset)
{
	s->u.address_slots[s->u.address_slot_count++] = offset;
}

static int learn(const struct sample *s, struct stack_path *ret)
{
	*ret = (struct stack_path){};
	return learn_path(s->raw, &s->u, ret);
}

static void put_word(struct sample *s, uint32_t offset, uint64_t word)
{
	memcpy(s->raw->copy + offset, &word, 8);
}

static uint64_t get_word(const struct sample *s, uint32_t offset)
{
	uint64_t word;

	memcpy(&word, s->raw->copy + offset, 8);
	return word;
}

TEST(slots_are_ascending_and_once)
{
	_cleanup_sample_ struct sample s;
	struct stack_path p;

	sample_init(&s, 256);
	add_return(&s, 0);
	add_return(&s, 48);
	add_return(&s, 248);
	add_return(&s, UNWIND_NO_SLOT);
	add_address(&s, 40);
	add_address(&s, 16);
	add_address(&s, 40);
	add_address(&s, 48);
	EXPECT_EQ(learn(&s, &p), 0);
	EXPECT_EQ(p.stack, 77);
	ASSERT(p.slots == 5);
	EXPECT_EQ(p.slot[0], 0);
	EXPECT_EQ(p.slot[1], (2 | STACK_SLOT_RELATIVE));
	EXPECT_EQ(p.slot[2], (5 | STACK_SLOT_RELATIVE));
	EXPECT_EQ(p.slot[3], 6);
	EXPECT_EQ(p.slot[4], 31);
}

/* The probe's program and this must agree: the hash, spelt out. */
TEST(hash_is_over_slots_then_registers)
{
	_cleanup_sample_ struct sample s;
	struct stack_path p;
	uint64_t h = STACK_HASH_INIT;

	sample_init(&s, 64);
	add_return(&s, 0);
	add_return(&s, 32);
	add_address(&s, 24);
	s.u.register_mask = 1u << 15 | 1u << 6 | 1u << 3 | 1u << 12;
	EXPECT_EQ(learn(&s, &p), 0);
	h = stack_hash_word(h, get_word(&s, 0));
	h = stack_hash_word(h, get_word(&s, 24) - SP);
	h = stack_hash_word(h, get_word(&s, 32));
	h = stack_hash_word(h, 3 - SP);
	h = stack_hash_word(h, 64);
	h = stack_hash_word(h, 12 - SP);
	h = stack_hash_word(h, 15);
	EXPECT(p.hash == h);
	EXPECT_EQ(p.registers, s.u.register_mask);
	EXPECT(learn_hash(s.raw, &p) == h);
}

TEST(addresses_count_by_their_distance)
{
	_cleanup_sample_ struct sample s;
	struct stack_path p, moved;

	sample_init(&s, 64);
	add_return(&s, 0);
	add_address(&s, 8);
	s.u.register_mask = 1u << 6;
	put_word(&s, 8, SP + 40);
	EXPECT_EQ(learn(&s, &p), 0);
	/* The same calls on another thread's stack. */
	s.raw->regs.sp += 0x10000;
	s.raw->regs.bp += 0x10000;
	put_word(&s, 8, SP + 0x10000 + 40);
	EXPECT_EQ(learn(&s, &moved), 0);
	EXPECT(moved.hash == p.hash);
	s.raw->regs.bp += 8;
	EXPECT(learn_hash(s.raw, &p) != p.hash);
	s.raw->regs.bp -= 8;
	put_word(&s, 8, SP + 40);
	EXPECT(learn_hash(s.raw, &p) != p.hash);
}

TEST(innermost_slots_stay)
{
	_cleanup_sample_ struct sample s;
	struct stack_path p;

	sample_init(&s, 8192);
	for (uint32_t i = 0; i < 300; i++)
		add_return(&s, i * 16);
	add_address(&s, 8);
	add_address(&s, 4000);
	EXPECT_EQ(learn(&s, &p), 0);
	EXPECT_EQ(p.slots, STACK_SLOTS_MAX);
	EXPECT_EQ(p.slot[1], (1 | STACK_SLOT_RELATIVE));
	EXPECT_EQ(p.slot[STACK_SLOTS_MAX - 1], (STACK_SLOTS_MAX - 2) * 2);
	EXPECT(learn_hash(s.raw, &p) == p.hash);
}

TEST(largest_copy)
{
	_cleanup_sample_ struct sample s;
	struct stack_path p;

	sample_init(&s, STACK_COPY_MAX);
	add_return(&s, 0);
	add_return(&s, STACK_COPY_MAX - 8);
	EXPECT_EQ(learn(&s, &p), 0);
	EXPECT_EQ(p.slots, 2);
	EXPECT_EQ(p.slot[1], STACK_COPY_MAX / 8 - 1);
}

TEST(what_cannot_be_learned)
{
	static const uint32_t bad[] = { 4, 250, 256, 252, 1 << 20, UNWIND_NO_SLOT - 7 };
	struct stack_path p;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_sample_ struct sample s, t;

		sample_init(&s, 256);
		add_return(&s, 0);
		add_return(&s, bad[i]);
		EXPECT_EQ(learn(&s, &p), -EINVAL);
		sample_init(&t, 256);
		add_return(&t, 0);
		add_address(&t, bad[i]);
		EXPECT_EQ(learn(&t, &p), -EINVAL);
	}
}

TEST(what_cannot_be_learned_either)
{
	_cleanup_sample_ struct sample s;
	struct stack_path p;

	sample_init(&s, 256);
	EXPECT_EQ(learn(&s, &p), -EINVAL); /* nothing to know it by */
	add_return(&s, UNWIND_NO_SLOT);
	EXPECT_EQ(learn(&s, &p), -EINVAL);
	add_return(&s, 8); /* a caller that came from nowhere */
	EXPECT_EQ(learn(&s, &p), -EINVAL);
	s.frames[0].return_slot = 0;
	EXPECT_EQ(learn(&s, &p), 0);
	s.u.register_mask = 1u << 7;
	EXPECT_EQ(learn(&s, &p), -EINVAL);
	s.u.register_mask = 0;
	s.u.has_more_slots = true;
	EXPECT_EQ(learn(&s, &p), -E2BIG);
}

TEST(copy_of_odd_size)
{
	_cleanup_sample_ struct sample s;
	struct stack_path p;

	sample_init(&s, 255);
	add_return(&s, 240);
	EXPECT_EQ(learn(&s, &p), 0);
	add_return(&s, 248);
	EXPECT_EQ(learn(&s, &p), -EINVAL);
}

/* sp lies 0x238 bytes into its page. */
TEST(missing_pages)
{
	_cleanup_sample_ struct sample s;
	const uint32_t second = STACK_PIECE - 0x238;
	struct stack_path p;

	sample_init(&s, STACK_COPY_MAX);
	add_return(&s, second - 8);
	add_return(&s, second);
	EXPECT_EQ(learn(&s, &p), 0);
	s.raw->missing = 1u << 2;
	EXPECT_EQ(learn(&s, &p), 0);
	s.raw->missing = 1u << 1;
	EXPECT_EQ(learn(&s, &p), -EINVAL);
	EXPECT_EQ(s.u.count, 2);
	s.u.count = 1;
	EXPECT_EQ(learn(&s, &p), 0);
	s.raw->missing = 1u << 0;
	EXPECT_EQ(learn(&s, &p), -EINVAL);
	/* The last of the 17 pages that a copy can touch. */
	s.raw->missing = 1u << 16;
	s.frames[0].return_slot = STACK_COPY_MAX - 8;
	EXPECT_EQ(learn(&s, &p), -EINVAL);
	s.frames[0].return_slot = STACK_COPY_MAX - 0x240;
	EXPECT_EQ(learn(&s, &p), 0);
}

TEST(return_address_in_a_register)
{
	_cleanup_sample_ struct sample s;
	struct stack_path p;
	uint64_t h;

	sample_init(&s, 256);
	add_return(&s, UNWIND_NO_SLOT);
	add_return(&s, 8);
	s.u.register_mask = 1u << 29;
	s.raw->regs.lr = 0x4711;
	EXPECT_EQ(learn(&s, &p), 0);
	EXPECT_EQ(p.slots, 1);
	EXPECT_EQ(p.registers, (1u << 29 | 1u << 30));
	h = stack_hash_word(STACK_HASH_INIT, get_word(&s, 8));
	h = stack_hash_word(h, 64);
	h = stack_hash_word(h, 0x4711); /* a code address, as the probe has it: no distance */
	EXPECT(p.hash == h);
	s.raw->regs.lr++;
	EXPECT(learn_hash(s.raw, &p) != p.hash);
	s.frames[1].return_slot = UNWIND_NO_SLOT;
	EXPECT_EQ(learn(&s, &p), -EINVAL);
}

/* What a hostile path asks for outside of the copy is not read. */
TEST(hash_stays_in_the_copy)
{
	_cleanup_sample_ struct sample s;
	struct stack_path p = { .slots = UINT32_MAX, .registers = UINT32_MAX };

	sample_init(&s, 64);
	for (size_t i = 0; i < STACK_SLOTS_MAX; i++)
		p.slot[i] = (uint16_t)next_random();
	EXPECT(learn_hash(s.raw, &p) == learn_hash(s.raw, &p));
	s.raw->copy_bytes = 0;
	EXPECT(learn_hash(s.raw, &p) != 0);
}

static bool is_slot(const struct stack_path *p, uint32_t word)
{
	for (uint32_t i = 0; i < p->slots; i++) {
		if ((p->slot[i] & STACK_SLOT_OFFSET) == word)
			return true;
	}
	return false;
}

static void random_sample(struct sample *s)
{
	const uint32_t bytes = 64 + (uint32_t)(next_random() % 512) * 8;
	uint32_t offset = 0;

	sample_init(s, bytes);
	while (offset <= bytes - 8) {
		add_return(s, offset);
		offset += 8 + (uint32_t)(next_random() % 24) * 8;
	}
	for (size_t n = next_random() % 8; n > 0; n--)
		add_address(s, (uint32_t)(next_random() % (bytes / 8)) * 8);
	s->u.register_mask = (uint32_t)next_random() & (1u << 3 | 1u << 6 | 0xfu << 12);
}

/* Words that are no slots do not matter; each of those that are does. */
TEST(any_word_of_a_slot_and_no_other)
{
	for (unsigned int round = 0; round < 200; round++) {
		_cleanup_sample_ struct sample s;
		struct stack_path p;

		random_sample(&s);
		ASSERT(learn(&s, &p) == 0);
		for (uint32_t i = 1; i < p.slots; i++)
			EXPECT((p.slot[i - 1] & STACK_SLOT_OFFSET) < (p.slot[i] & STACK_SLOT_OFFSET));
		for (uint32_t word = 0; word < s.raw->copy_bytes / 8; word++) {
			const uint64_t was = get_word(&s, word * 8);

			put_word(&s, word * 8, was ^ UINT64_C(1) << next_random() % 64);
			EXPECT((learn_hash(s.raw, &p) == p.hash) == !is_slot(&p, word));
			put_word(&s, word * 8, was);
		}
		for (uint32_t word = 0; word < s.raw->copy_bytes / 8; word++) {
			if (!is_slot(&p, word))
				put_word(&s, word * 8, next_random());
		}
		EXPECT(learn_hash(s.raw, &p) == p.hash);
	}
}

TEST(registers_of_the_mask_and_no_other)
{
	static const unsigned int numbers[] = { 3, 6, 12, 13, 14, 15 };

	for (unsigned int round = 0; round < 200; round++) {
		_cleanup_sample_ struct sample s;
		struct stack_path p;

		random_sample(&s);
		ASSERT(learn(&s, &p) == 0);
		for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
			struct stack_registers *r = &s.raw->regs;
			__u64 *const regs[] = { &r->bx, &r->bp, &r->r12, &r->r13, &r->r14, &r->r15 };

			*regs[i] += 8;
			EXPECT((learn_hash(s.raw, &p) == p.hash) == !(p.registers >> numbers[i] & 1));
			*regs[i] -= 8;
		}
	}
}

TEST_MAIN()
