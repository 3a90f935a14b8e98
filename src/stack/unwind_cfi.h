/* SPDX-License-Identifier: MIT */
/* Call frame information of one file: for a code address, the rules that lead to the caller's registers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "stack/elf_file.h"
#include "stack/unwind_bytes.h"
#include "stack/unwind_machine.h"

enum cfi_rule_kind {
	CFI_UNSPECIFIED,   /* what the calling convention says */
	CFI_UNDEFINED,	   /* lost; for the return address: there is no caller */
	CFI_SAME,
	CFI_AT_CFA,	   /* stored at CFA + value */
	CFI_CFA_PLUS,	   /* is CFA + value */
	CFI_REGISTER,	   /* is register reg + value */
	CFI_AT_REGISTER,   /* stored at register reg + value */
	CFI_EXPRESSION,	   /* is the value of expr_len bytes of expression at fde_vaddr + value */
	CFI_AT_EXPRESSION, /* stored at that value */
};

struct cfi_rule {
	uint8_t kind; /* enum cfi_rule_kind */
	uint8_t reg;
	uint16_t expr_len;
	int32_t value;
};

struct cfi_row {
	uint64_t fde_vaddr;
	struct cfi_rule cfa; /* CFI_REGISTER, CFI_AT_REGISTER, CFI_EXPRESSION */
	struct cfi_rule regs[CFI_REGISTERS];
	bool is_signal;
};

struct cfi; /* where a file has its information */

/* work, here and below: bytes that may still be looked at, counted down. 0 (also when there is none), or -errno. */
int cfi_open(const struct elf_file *f, uint64_t *work, struct cfi **ret);
void cfi_free(struct cfi *c);
DEFINE_CLEANUP(struct cfi, cfi_free)

/*
 * The rules at an address of the file. f: the file c was made of. 0, -ENOENT (nothing there), -EBADMSG (nothing
 * usable there), -ENOBUFS (work used up), -ENOMEM.
 */
int cfi_find(struct cfi *c, const struct elf_file *f, uint64_t vaddr, uint64_t *work, struct cfi_row *ret);
/* arm64: the row of what returns from a signal handler, at this offset of the file. It has no information, so that all
 * unwinders know it by its two instructions. 0 or -ENOENT; elsewhere always that. */
int cfi_find_signal(const struct elf_file *f, uint64_t offset, struct cfi_row *ret);
/* Bytes of a rule's expression, at most max. Length or -EBADMSG. */
int cfi_expression(const struct cfi_row *row, const struct cfi_rule *rule, const struct elf_file *f, uint8_t *buf,
		   size_t max);
/* Bytes of the search table that had to be made; and dropping it. */
size_t cfi_index_bytes(const struct cfi *c);
void cfi_drop_index(struct cfi *c);

/* For the files of this reader only. */

#define CFI_ENTRY_MAX 65536 /* bytes of a CIE or FDE; the largest seen in the wild take a few KiB */
#define CFI_OMIT 0xff	    /* the pointer encoding that says: none */

struct cfi_entry { /* a CIE or FDE as it is in the file */
	uint64_t vaddr, next_vaddr, cie_vaddr; /* cie_vaddr 0 = it is a CIE itself */
	struct bytes body;		       /* behind the id */
	uint64_t body_vaddr;
	uint8_t *large;
	uint8_t small[512];
};

struct cfi_cie {
	uint64_t code_align;
	int64_t data_align;
	uint8_t pointer_encoding;
	bool has_length; /* FDEs carry the length of their augmentation */
	bool is_signal;
	struct bytes program;
	uint64_t program_vaddr;
};

struct cfi_program {
	struct bytes code;
	uint64_t code_vaddr;
	const struct cfi_cie *cie;
	uint64_t start, target; /* addresses of the function and of the row looked for */
};

/* Bytes read, fewer than len at a segment's or the file's end; -ENOBUFS, -errno. */
int cfi_read(const struct elf_file *f, uint64_t vaddr, void *buf, size_t len, uint64_t *work);
/* 0, -ENOENT (the end of the list), -EBADMSG, -ENOBUFS, -ENOMEM. */
int cfi_entry_read(const struct elf_file *f, uint64_t vaddr, uint64_t *work, struct cfi_entry *e);
void cfi_entry_done(struct cfi_entry *e);
int cfi_cie_parse(const struct cfi_entry *e, struct cfi_cie *ret);
/* A pointer in one of the .eh_frame encodings; at_vaddr: of the field, for those relative to it. */
uint64_t cfi_pointer(struct bytes *b, uint8_t encoding, uint64_t at_vaddr, uint64_t data_vaddr);
/* Runs on row, which is empty for a CIE and the CIE's for an FDE. 0 or -EBADMSG. */
int cfi_run(const struct cfi_program *program, struct cfi_row *row);

struct cfi_place {
	uint64_t start, fde_vaddr;
};
/* The FDEs from vaddr on for at most len bytes, ascending. 0, -E2BIG, -ENOBUFS, -ENOMEM. */
int cfi_index(const struct elf_file *f, uint64_t vaddr, uint64_t len, uint64_t *work, struct cfi_place **ret,
	      size_t *ret_len);
