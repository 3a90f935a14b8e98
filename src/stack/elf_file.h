/* SPDX-License-Identifier: MIT */
/* What we read of an ELF file: always through an open fd, with pread, in bounded pieces. Files are hostile. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

#include "base/cleanup.h"

struct elf_file; /* parsed headers only; keeps the fd */

/* Takes ownership of fd in any case. 0, -errno; -ENOEXEC when it is no ELF64 of this machine's class. */
int elf_file_open(int fd, struct elf_file **ret);
void elf_file_free(struct elf_file *f);
DEFINE_CLEANUP(struct elf_file, elf_file_free)

/* GNU build id: bytes copied to ret (at most 64), length returned; 0 = none. */
size_t elf_file_build_id(const struct elf_file *f, uint8_t ret[64]);
/* File offset -> virtual address in the file, by its PT_LOAD segments. 0 or -ENOENT. And back. */
int elf_file_vaddr(const struct elf_file *f, uint64_t offset, uint64_t *ret_vaddr);
int elf_file_offset(const struct elf_file *f, uint64_t vaddr, uint64_t *ret_offset);

struct elf_symbol {
	uint64_t vaddr; /* in: looked for (lookup), out: start of the symbol */
	uint64_t size;
	char *name;	/* out: caller frees; NULL = not found */
};
/*
 * Finds for each of n addresses the function symbol that holds it (.symtab if present, else .dynsym): one pass over the
 * table, no index kept. An address past a symbol's end (size known) has no symbol. 0 or -errno.
 */
int elf_file_lookup(const struct elf_file *f, struct elf_symbol *query, size_t n, uint64_t max_symbols);
/*
 * File offsets of functions by name (.dynsym, then .symtab): ret_offsets[i] = 0 when names[i] is not there.
 * Number found, or -errno.
 */
int elf_file_functions(const struct elf_file *f, const char *const *names, size_t n, uint64_t max_symbols,
		       uint64_t *ret_offsets);
