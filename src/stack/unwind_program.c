/* SPDX-License-Identifier: MIT */
/* The instructions of CIEs and FDEs: a table of rules in compressed form, of which we want one row. */
#include <dwarf.h>
#include <errno.h>

#include "stack/unwind_cfi.h"

#define REMEMBERED_MAX 16
#define EXPR_MAX 1024

#ifndef DW_CFA_GNU_negative_offset_extended
#define DW_CFA_GNU_negative_offset_extended 0x2f
#endif

#ifndef DW_CFA_AARCH64_negate_ra_state
#define DW_CFA_AARCH64_negate_ra_state 0x2d
#endif
#ifndef DW_CFA_AARCH64_negate_ra_state_with_pc
#define DW_CFA_AARCH64_negate_ra_state_with_pc 0x2c
#endif

struct machine {
	const struct cfi_program *program;
	struct bytes code;
	uint64_t location;
	struct cfi_row *row;
	struct cfi_row initial; /* the CIE's, for DW_CFA_restore */
	struct cfi_row remembered[REMEMBERED_MAX];
	size_t remembered_count;
	bool is_bad, is_reached; /* is_reached: the next row begins behind the target */
};

/* Frames beyond 2 GiB do not exist. */
static int32_t narrow(struct machine *m, int64_t v)
{
	if (v < INT32_MIN || v > INT32_MAX) {
		m->is_bad = true;
		return 0;
	}
	return (int32_t)v;
}

static int64_t factored(struct machine *m, int64_t v)
{
	int64_t product = 0;

	if (__builtin_mul_overflow(v, m->program->cie->data_align, &product))
		m->is_bad = true;
	return product;
}

/* Vector and other registers are in no rule that we follow. dwarf, here and below: a register by DWARF's number. */
static void set_rule(struct machine *m, uint64_t dwarf, struct cfi_rule rule)
{
	const unsigned int reg = cfi_register(dwarf);

	if (reg < CFI_REGISTERS)
		m->row->regs[reg] = rule;
}

static void set_offset(struct machine *m, uint64_t dwarf, enum cfi_rule_kind kind, int64_t factor)
{
	set_rule(m, dwarf, (struct cfi_rule){ .kind = kind, .value = narrow(m, factored(m, factor)) });
}

static void restore(struct machine *m, uint64_t dwarf)
{
	const unsigned int reg = cfi_register(dwarf);

	if (reg < CFI_REGISTERS)
		m->row->regs[reg] = m->initial.regs[reg];
}

static void advance(struct machine *m, uint64_t units)
{
	uint64_t delta, to;

	/* A wrap leads behind every target as well. */
	if (__builtin_mul_overflow(units, m->program->cie->code_align, &delta) ||
	    __builtin_add_overflow(m->location, delta, &to) || to > m->program->target)
		m->is_reached = true;
	else
		m->location = to;
}

/*
 * The two forms that compilers emit for realigned stacks, and the C library for signals, become plain rules:
 * "register + offset" and the word stored there.
 */
static struct cfi_rule expression(struct machine *m, bool is_stored)
{
	const uint64_t len = bytes_uleb(&m->code);
	const uint64_t vaddr = m->program->code_vaddr + (uint64_t)(m->code.p - m->program->code.p);
	const uint8_t *p = bytes_take(&m->code, len);
	struct bytes b = { .p = p, .end = p ? p + len : p };
	int64_t offset;
	uint8_t op;

	if (!p || len == 0 || len > EXPR_MAX) {
		m->is_bad = true;
		return (struct cfi_rule){ .kind = CFI_UNDEFINED };
	}
	op = bytes_u8(&b);
	if (op >= DW_OP_breg0 && op <= DW_OP_breg31 && cfi_register(op - DW_OP_breg0) < CFI_REGISTERS) {
		offset = bytes_sleb(&b);
		if (!b.is_bad && offset >= INT32_MIN && offset <= INT32_MAX) {
			const uint8_t reg = (uint8_t)cfi_register(op - DW_OP_breg0);
			const int32_t value = (int32_t)offset;

			if (b.p == b.end)
				return (struct cfi_rule){ .kind = is_stored ? CFI_AT_REGISTER : CFI_REGISTER,
							  .reg = reg, .value = value };
			if (!is_stored && b.end - b.p == 1 && *b.p == DW_OP_deref)
				return (struct cfi_rule){ .kind = CFI_AT_REGISTER, .reg = reg, .value = value };
		}
	}
	return (struct cfi_rule){ .kind = is_stored ? CFI_AT_EXPRESSION : CFI_EXPRESSION, .expr_len = (uint16_t)len,
				  .value = narrow(m, (int64_t)(vaddr - m->row->fde_vaddr)) };
}

/* One that no rule leads through is never known. */
static void set_cfa(struct machine *m, unsigned int reg, int64_t offset)
{
	m->row->cfa = (struct cfi_rule){ .kind = CFI_REGISTER, .reg = (uint8_t)reg, .value = narrow(m, offset) };
}

static void define_cfa(struct machine *m, uint64_t dwarf, int64_t offset)
{
	if (dwarf > CFI_DWARF_MAX)
		m->is_bad = true;
	set_cfa(m, cfi_register(dwarf), offset);
}

/* Half of a definition, which only a "register + offset" can take. */
static void need_plain_cfa(struct machine *m)
{
	if (m->row->cfa.kind != CFI_REGISTER)
		m->is_bad = true;
}

static bool location_op(struct machine *m, uint8_t op)
{
	const struct cfi_cie *cie = m->program->cie;
	uint64_t at, to;

	switch (op) {
	case DW_CFA_nop:
		return true;
	case DW_CFA_advance_loc1:
		return advance(m, bytes_u8(&m->code)), true;
	case DW_CFA_advance_loc2:
		return advance(m, bytes_u16(&m->code)), true;
	case DW_CFA_advance_loc4:
		return advance(m, bytes_u32(&m->code)), true;
	case DW_CFA_set_loc:
		at = m->program->code_vaddr + (uint64_t)(m->code.p - m->program->code.p);
		to = cfi_pointer(&m->code, cie->pointer_encoding, at, 0);
		if (to > m->program->target)
			m->is_reached = true;
		m->location = to;
		return true;
#if defined(__aarch64__)
	case DW_CFA_AARCH64_negate_ra_state: /* whether return addresses are signed: the signature is dropped anyway */
	case DW_CFA_AARCH64_negate_ra_state_with_pc:
		return true;
#endif
	case DW_CFA_GNU_args_size: /* for throwing only */
		return (void)bytes_uleb(&m->code), true;
	case DW_CFA_remember_state:
		if (m->remembered_count == REMEMBERED_MAX)
			m->is_bad = true;
		else
			m->remembered[m->remembered_count++] = *m->row;
		return true;
	case DW_CFA_restore_state:
		if (m->remembered_count == 0)
			m->is_bad = true;
		else
			*m->row = m->remembered[--m->remembered_count];
		return true;
	default:
		return false;
	}
}

static bool cfa_op(struct machine *m, uint8_t op)
{
	uint64_t reg;

	switch (op) {
	case DW_CFA_def_cfa:
		reg = bytes_uleb(&m->code);
		return define_cfa(m, reg, (int64_t)bytes_uleb(&m->code)), true;
	case DW_CFA_def_cfa_sf:
		reg = bytes_uleb(&m->code);
		return define_cfa(m, reg, factored(m, bytes_sleb(&m->code))), true;
	case DW_CFA_def_cfa_register:
		return need_plain_cfa(m), define_cfa(m, bytes_uleb(&m->code), m->row->cfa.value), true;
	case DW_CFA_def_cfa_offset:
		return need_plain_cfa(m), set_cfa(m, m->row->cfa.reg, (int64_t)bytes_uleb(&m->code)), true;
	case DW_CFA_def_cfa_offset_sf:
		return need_plain_cfa(m), set_cfa(m, m->row->cfa.reg, factored(m, bytes_sleb(&m->code))), true;
	case DW_CFA_def_cfa_expression:
		m->row->cfa = expression(m, false);
		return true;
	default:
		return false;
	}
}

static bool register_op(struct machine *m, uint8_t op)
{
	const uint64_t reg = bytes_uleb(&m->code);
	unsigned int other;

	switch (op) {
	case DW_CFA_offset_extended:
		return set_offset(m, reg, CFI_AT_CFA, (int64_t)bytes_uleb(&m->code)), true;
	case DW_CFA_offset_extended_sf:
		return set_offset(m, reg, CFI_AT_CFA, bytes_sleb(&m->code)), true;
	case DW_CFA_GNU_negative_offset_extended:
		return set_offset(m, reg, CFI_AT_CFA, -(int64_t)(bytes_uleb(&m->code) & INT64_MAX)), true;
	case DW_CFA_val_offset:
		return set_offset(m, reg, CFI_CFA_PLUS, (int64_t)bytes_uleb(&m->code)), true;
	case DW_CFA_val_offset_sf:
		return set_offset(m, reg, CFI_CFA_PLUS, bytes_sleb(&m->code)), true;
	case DW_CFA_restore_extended:
		return restore(m, reg), true;
	case DW_CFA_undefined:
		return set_rule(m, reg, (struct cfi_rule){ .kind = CFI_UNDEFINED }), true;
	case DW_CFA_same_value:
		return set_rule(m, reg, (struct cfi_rule){ .kind = CFI_SAME }), true;
	case DW_CFA_register:
		other = cfi_register(bytes_uleb(&m->code));
		/* A return address in another register (arm64's mcount) is not known, but it is not lost. */
		if (other < CFI_REGISTERS || MACHINE_HAS_LINK)
			set_rule(m, reg, (struct cfi_rule){ .kind = CFI_REGISTER, .reg = (uint8_t)other });
		else
			set_rule(m, reg, (struct cfi_rule){ .kind = CFI_UNDEFINED });
		return true;
	case DW_CFA_expression:
		return set_rule(m, reg, expression(m, true)), true;
	case DW_CFA_val_expression:
		return set_rule(m, reg, expression(m, false)), true;
	default:
		return false;
	}
}

static void execute(struct machine *m, uint8_t op)
{
	const uint8_t low = op & 0x3f;

	switch (op & 0xc0) {
	case DW_CFA_advance_loc:
		advance(m, low);
		return;
	case DW_CFA_offset:
		set_offset(m, low, CFI_AT_CFA, (int64_t)bytes_uleb(&m->code));
		return;
	case DW_CFA_restore:
		restore(m, low);
		return;
	}
	if (!location_op(m, op) && !cfa_op(m, op) && !register_op(m, op))
		m->is_bad = true;
}

int cfi_run(const struct cfi_program *program, struct cfi_row *row)
{
	struct machine m;

	/* The remembered rows are written before they are read: no need to clear them. */
	m.program = program;
	m.code = program->code;
	m.location = program->start;
	m.row = row;
	m.initial = *row;
	m.remembered_count = 0;
	m.is_bad = m.is_reached = false;

	while (m.code.p < m.code.end && !m.is_reached) {
		execute(&m, bytes_u8(&m.code));
		if (m.is_bad || m.code.is_bad)
			return -EBADMSG;
	}
	return 0;
}
