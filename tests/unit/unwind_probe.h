/* SPDX-License-Identifier: MIT */
/* What a probe takes, for tests of the unwinder. x86-64. */
#pragma once

#include <stdint.h>

#include "stack/unwind.h"
#include "test.h"

/* In the order in which the tests' probe functions store them. */
struct probe_registers {
	uint64_t ip, sp, bp, bx, r12, r13, r14, r15;
};

static inline void probe_fill(const struct probe_registers *r, struct raw_stack *s)
{
	s->ip = r->ip;
	s->sp = r->sp;
	s->bp = r->bp;
	s->bx = r->bx;
	s->r12 = r->r12;
	s->r13 = r->r13;
	s->r14 = r->r14;
	s->r15 = r->r15;
	s->at_entry = true;
}

/* Each return address lies where it is said to, and they lead up the copy. */
static inline void expect_consistent(const struct raw_stack *s, const struct unwound *u)
{
	uint64_t cfa = s->sp;

	for (size_t i = 0; i + 1 < u->count; i++) {
		const struct unwound_frame *f = &u->frames[i];
		uint64_t word = 0;

		EXPECT(f->cfa > cfa);
		cfa = f->cfa;
		ASSERT(f->return_slot <= s->copy_len - 8);
		memcpy(&word, s->copy + f->return_slot, 8);
		EXPECT_EQ(word, u->frames[i + 1].pc);
	}
	for (size_t i = 0; i < u->address_slot_count; i++)
		EXPECT(u->address_slots[i] <= s->copy_len - 8);
}
