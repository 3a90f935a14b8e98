/* SPDX-License-Identifier: MIT */
#include "stack/learn.h"

#include <errno.h>
#include <string.h>

#define COPY_WORDS (STACK_COPY_MAX / 8)
/* Registers the unwinder may name, by x86-64's DWARF numbers; on arm64 it names 6 alone, meaning x29. */
#define REGISTER_BP 6
#define REGISTERS (1u << 3 | 1u << REGISTER_BP | 0xfu << 12)
#define REGISTER_X29 29
#define REGISTER_X30 30

/* Bit n: the word at 8 * n bytes from sp. Both kinds come in any order and more than once. */
struct slots {
	uint64_t returns[COPY_WORDS / 64], addresses[COPY_WORDS / 64];
};

static bool is_missing(const struct event_stack *raw, uint64_t offset)
{
	const uint64_t page = (raw->regs.sp % STACK_PIECE + offset) / STACK_PIECE;

	return page < 32 && raw->missing >> page & 1;
}

static bool has_word(const struct event_stack *raw, uint64_t offset)
{
	const uint64_t len = MIN(raw->copy_bytes, STACK_COPY_MAX);

	return offset <= len && len - offset >= 8 && !is_missing(raw, offset) && !is_missing(raw, offset + 7);
}

static int mark(const struct event_stack *raw, uint32_t offset, uint64_t *map)
{
	if (offset % 8 != 0 || !has_word(raw, offset))
		return -EINVAL;
	map[offset / 8 / 64] |= UINT64_C(1) << offset / 8 % 64;
	return 0;
}

static bool is_marked(const uint64_t *map, uint32_t word)
{
	return map[word / 64] >> word % 64 & 1;
}

/* The first return address is in a register and not on the stack: arm64. */
static bool has_link(const struct event_stack *raw, const struct unwound *u)
{
	return raw->regs.lr && u->count > 0 && u->frames[0].return_slot == UNWIND_NO_SLOT;
}

static int mark_slots(const struct event_stack *raw, const struct unwound *u, struct slots *slots)
{
	int r = 0;

	for (size_t i = has_link(raw, u); i < u->count && r == 0; i++) {
		if (u->frames[i].return_slot != UNWIND_NO_SLOT)
			r = mark(raw, u->frames[i].return_slot, slots->returns);
		else if (i + 1 < u->count)
			r = -EINVAL;
	}
	for (size_t i = 0; i < u->address_slot_count && r == 0; i++)
		r = mark(raw, u->address_slots[i], slots->addresses);
	return r;
}

static uint64_t register_word(const struct stack_registers *regs, unsigned int n)
{
	switch (n) {
	case 3:
		return regs->bx;
	case REGISTER_BP:
	case REGISTER_X29:
		return regs->bp;
	case 12:
		return regs->r12;
	case 13:
		return regs->r13;
	case 14:
		return regs->r14;
	case 15:
		return regs->r15;
	case REGISTER_X30:
		return regs->lr;
	default:
		return 0;
	}
}

static uint32_t registers_of(const struct event_stack *raw, const struct unwound *u)
{
	if (!has_link(raw, u))
		return u->register_mask;
	return 1u << REGISTER_X30 | (u->register_mask >> REGISTER_BP & 1) << REGISTER_X29;
}

static uint64_t slot_word(const struct event_stack *raw, uint16_t slot)
{
	const uint64_t offset = (slot & STACK_SLOT_OFFSET) * UINT64_C(8);
	uint64_t word;

	if (!has_word(raw, offset))
		return 0;
	memcpy(&word, raw->copy + offset, sizeof(word));
	return slot & STACK_SLOT_RELATIVE ? word - raw->regs.sp : word;
}

uint64_t learn_hash(const struct event_stack *raw, const struct stack_path *p)
{
	uint64_t hash = STACK_HASH_INIT;

	for (uint32_t i = 0; i < MIN(p->slots, STACK_SLOTS_MAX); i++)
		hash = stack_hash_word(hash, slot_word(raw, p->slot[i]));
	for (unsigned int n = 0; n < 32; n++) {
		if (p->registers >> n & 1)
			hash = stack_hash_word(hash, register_word(&raw->regs, n) - raw->regs.sp);
	}
	return hash;
}

int learn_path(const struct event_stack *raw, const struct unwound *u, struct stack_path *ret)
{
	struct stack_path path = { .stack = raw->head.stack, .registers = registers_of(raw, u) };
	struct slots slots = {};
	int r;

	if (u->has_more_slots)
		return -E2BIG;
	if (u->register_mask & ~REGISTERS)
		return -EINVAL;
	r = mark_slots(raw, u, &slots);
	if (r < 0)
		return r;
	for (uint32_t word = 0; word < COPY_WORDS && path.slots < STACK_SLOTS_MAX; word++) {
		/* As a return address the word has to be the same, which as an address it need not be. */
		if (is_marked(slots.returns, word))
			path.slot[path.slots++] = (uint16_t)word;
		else if (is_marked(slots.addresses, word))
			path.slot[path.slots++] = (uint16_t)(word | STACK_SLOT_RELATIVE);
	}
	if (path.slots == 0)
		return -EINVAL;
	path.hash = learn_hash(raw, &path);
	*ret = path;
	return 0;
}
