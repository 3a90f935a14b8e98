/* SPDX-License-Identifier: MIT */
#include "stack/learn.h"

#include <errno.h>
#include <string.h>

#define COPY_WORDS (STACK_COPY_MAX / 8)
/* Registers the unwinder may name, by DWARF's numbers of the machine. */
#define REGISTER_BP 6
#define REGISTER_X29 29
#define REGISTER_X30 30
#define REGISTERS (1u << 3 | 1u << REGISTER_BP | 0xfu << 12 | 1u << REGISTER_X29 | 1u << REGISTER_X30)

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

uint64_t learn_register(const struct event_stack *raw, unsigned int number)
{
	const struct stack_registers *regs = &raw->regs;

	switch (number) {
	case 3:
		return regs->bx - regs->sp;
	case REGISTER_BP:
	case REGISTER_X29:
		return regs->bp - regs->sp;
	case 12:
		return regs->r12 - regs->sp;
	case 13:
		return regs->r13 - regs->sp;
	case 14:
		return regs->r14 - regs->sp;
	case 15:
		return regs->r15 - regs->sp;
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
	return 1u << REGISTER_X30 | u->register_mask;
}

bool learn_word(const struct event_stack *raw, uint16_t slot, uint64_t *ret)
{
	const uint64_t offset = (slot & STACK_SLOT_OFFSET) * UINT64_C(8);

	if (!has_word(raw, offset))
		return false;
	memcpy(ret, raw->copy + offset, sizeof(*ret));
	if (slot & STACK_SLOT_RELATIVE)
		*ret -= raw->regs.sp;
	return true;
}

uint64_t learn_hash(const struct event_stack *raw, const struct stack_path *p)
{
	uint64_t hash = STACK_HASH_INIT;

	for (uint32_t i = 0; i < MIN(p->slots, STACK_SLOTS_MAX); i++) {
		uint64_t word = 0;

		(void)learn_word(raw, p->slot[i], &word);
		hash = stack_hash_word(hash, word);
	}
	for (unsigned int n = 0; n < 32; n++) {
		if (p->registers >> n & 1)
			hash = stack_hash_word(hash, learn_register(raw, n));
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
