/* SPDX-License-Identifier: MIT */
#include <dwarf.h>
#include <errno.h>

#include "stack/unwind_bytes.h"
#include "stack/unwind_expr.h"

#define EXPR_STACK 64
#define EXPR_STEPS 1000 /* branches may go back: a limit is all that ends a hostile loop */

struct expr {
	struct bytes code;
	const uint8_t *start;
	uint64_t stack[EXPR_STACK];
	size_t depth;
	const struct expr_reader *reader;
	int error;
};

static void fail(struct expr *e, int error)
{
	if (!e->error)
		e->error = error;
}

static void push(struct expr *e, uint64_t v)
{
	if (e->depth == EXPR_STACK)
		fail(e, -EBADMSG);
	else
		e->stack[e->depth++] = v;
}

static uint64_t pop(struct expr *e)
{
	if (e->depth == 0) {
		fail(e, -EBADMSG);
		return 0;
	}
	return e->stack[--e->depth];
}

/* The word n below the top. */
static uint64_t peek(struct expr *e, size_t n)
{
	if (n >= e->depth) {
		fail(e, -EBADMSG);
		return 0;
	}
	return e->stack[e->depth - 1 - n];
}

static void push_register(struct expr *e, uint64_t reg)
{
	const int64_t offset = bytes_sleb(&e->code);
	uint64_t v = 0;

	if (reg > UINT32_MAX || !e->reader->get_register(e->reader->userdata, (unsigned int)reg, &v))
		fail(e, -ENODATA);
	push(e, v + (uint64_t)offset);
}

static void push_memory(struct expr *e, unsigned int size)
{
	const uint64_t addr = pop(e);
	uint64_t v = 0;

	if (size < 1 || size > 8)
		fail(e, -EBADMSG);
	else if (!e->error && !e->reader->get_memory(e->reader->userdata, addr, size, &v))
		fail(e, -ENODATA);
	push(e, v);
}

static void jump(struct expr *e, bool is_taken)
{
	const int16_t by = bytes_s16(&e->code);

	if (e->code.is_bad || !is_taken)
		return;
	if (by < e->start - e->code.p || by > e->code.end - e->code.p)
		fail(e, -EBADMSG);
	else
		e->code.p += by;
}

static bool constant(struct expr *e, uint8_t op)
{
	struct bytes *b = &e->code;

	switch (op) {
	case DW_OP_lit0 ... DW_OP_lit31:
		return push(e, op - DW_OP_lit0), true;
	case DW_OP_const1u:
		return push(e, bytes_u8(b)), true;
	case DW_OP_const1s:
		return push(e, (uint64_t)(int64_t)bytes_s8(b)), true;
	case DW_OP_const2u:
		return push(e, bytes_u16(b)), true;
	case DW_OP_const2s:
		return push(e, (uint64_t)(int64_t)bytes_s16(b)), true;
	case DW_OP_const4u:
		return push(e, bytes_u32(b)), true;
	case DW_OP_const4s:
		return push(e, (uint64_t)(int64_t)bytes_s32(b)), true;
	case DW_OP_const8u:
	case DW_OP_const8s:
		return push(e, bytes_u64(b)), true;
	case DW_OP_constu:
		return push(e, bytes_uleb(b)), true;
	case DW_OP_consts:
		return push(e, (uint64_t)bytes_sleb(b)), true;
	default:
		return false;
	}
}

static bool arrange(struct expr *e, uint8_t op)
{
	uint64_t a, b, c;

	switch (op) {
	case DW_OP_dup:
		return push(e, peek(e, 0)), true;
	case DW_OP_over:
		return push(e, peek(e, 1)), true;
	case DW_OP_pick:
		return push(e, peek(e, bytes_u8(&e->code))), true;
	case DW_OP_drop:
		return (void)pop(e), true;
	case DW_OP_swap:
		a = pop(e);
		b = pop(e);
		push(e, a);
		push(e, b);
		return true;
	case DW_OP_rot:
		a = pop(e);
		b = pop(e);
		c = pop(e);
		push(e, a);
		push(e, c);
		push(e, b);
		return true;
	default:
		return false;
	}
}

static bool unary(struct expr *e, uint8_t op)
{
	uint64_t v;

	switch (op) {
	case DW_OP_abs:
		v = pop(e);
		return push(e, (int64_t)v < 0 ? -v : v), true;
	case DW_OP_neg:
		return push(e, -pop(e)), true;
	case DW_OP_not:
		return push(e, ~pop(e)), true;
	case DW_OP_plus_uconst:
		v = pop(e);
		return push(e, v + bytes_uleb(&e->code)), true;
	default:
		return false;
	}
}

static uint64_t divide(struct expr *e, uint64_t a, uint64_t b)
{
	if (b == 0) {
		fail(e, -EBADMSG);
		return 0;
	}
	return b == UINT64_MAX ? -a : (uint64_t)((int64_t)a / (int64_t)b);
}

static uint64_t modulo(struct expr *e, uint64_t a, uint64_t b)
{
	if (b == 0) {
		fail(e, -EBADMSG);
		return 0;
	}
	return a % b;
}

static uint64_t shift_arithmetic(uint64_t a, uint64_t b)
{
	return (uint64_t)((int64_t)a >> (b < 63 ? b : 63));
}

static bool binary(struct expr *e, uint8_t op)
{
	const uint64_t b = peek(e, 0), a = peek(e, 1);
	const int64_t sa = (int64_t)a, sb = (int64_t)b;
	uint64_t v;

	switch (op) {
	case DW_OP_and: v = a & b; break;
	case DW_OP_or: v = a | b; break;
	case DW_OP_xor: v = a ^ b; break;
	case DW_OP_plus: v = a + b; break;
	case DW_OP_minus: v = a - b; break;
	case DW_OP_mul: v = a * b; break;
	case DW_OP_div: v = divide(e, a, b); break;
	case DW_OP_mod: v = modulo(e, a, b); break;
	case DW_OP_shl: v = b < 64 ? a << b : 0; break;
	case DW_OP_shr: v = b < 64 ? a >> b : 0; break;
	case DW_OP_shra: v = shift_arithmetic(a, b); break;
	case DW_OP_eq: v = a == b; break;
	case DW_OP_ne: v = a != b; break;
	case DW_OP_lt: v = sa < sb; break;
	case DW_OP_le: v = sa <= sb; break;
	case DW_OP_gt: v = sa > sb; break;
	case DW_OP_ge: v = sa >= sb; break;
	default: return false;
	}
	(void)pop(e);
	(void)pop(e);
	push(e, v);
	return true;
}

static void step(struct expr *e)
{
	const uint8_t op = bytes_u8(&e->code);

	switch (op) {
	case DW_OP_breg0 ... DW_OP_breg31:
		push_register(e, op - DW_OP_breg0);
		return;
	case DW_OP_bregx:
		push_register(e, bytes_uleb(&e->code));
		return;
	case DW_OP_deref:
		push_memory(e, 8);
		return;
	case DW_OP_deref_size:
		push_memory(e, bytes_u8(&e->code));
		return;
	case DW_OP_skip:
		jump(e, true);
		return;
	case DW_OP_bra:
		jump(e, pop(e) != 0);
		return;
	case DW_OP_nop:
		return;
	}
	if (constant(e, op) || arrange(e, op) || unary(e, op))
		return;
	/* Before binary() peeks, which is an error on a short stack. */
	if (op < DW_OP_and || op > DW_OP_ne || !binary(e, op))
		fail(e, -EBADMSG);
}

int expr_eval(const uint8_t *code, size_t len, const uint64_t *initial, const struct expr_reader *reader,
	      uint64_t *ret)
{
	struct expr e = { .code = { .p = code, .end = code + len }, .start = code, .reader = reader };
	uint64_t v;

	if (initial)
		push(&e, *initial);
	for (unsigned int steps = 0; e.code.p < e.code.end && !e.error && !e.code.is_bad; steps++) {
		if (steps == EXPR_STEPS)
			return -EBADMSG;
		step(&e);
	}
	v = pop(&e);
	if (e.code.is_bad)
		return -EBADMSG;
	if (e.error)
		return e.error;
	*ret = v;
	return 0;
}
