/* SPDX-License-Identifier: MIT */
/* What we read of an ELF file: always through an open fd, with pread, in bounded pieces. Files are hostile. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <sys/types.h>

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
 * Number found, or -errno; -ETIME: a file that is made to take long.
 */
int elf_file_functions(const struct elf_file *f, const char *const *names, size_t n, uint64_t max_symbols,
		       uint64_t *ret_offsets);
#define ELF_DYNSYM 1u
#define ELF_SYMTAB 2u

/* The name ends before a symbol version's '@'; size is what the file says, 0 = not known. Negative stops the walk, which then returns it. */
typedef int (*elf_function_fn)(const char *name, uint64_t offset, uint64_t size, void *arg);
/*
 * Hands over the functions of these tables that lie in executable segments, with their file offsets, in no order; a function
 * with several names, or in both tables, comes several times. 0; 1 when only a part was looked at, as the tables are larger
 * than max_symbols or their names than 256 bytes each; -errno.
 */
int elf_file_each_function(const struct elf_file *f, unsigned tables, uint64_t max_symbols, elf_function_fn fn, void *arg);
/* Bytes of the file as they are: the number read, less than len only at its end, or -errno. */
ssize_t elf_file_read(const struct elf_file *f, void *buf, size_t len, uint64_t offset);
