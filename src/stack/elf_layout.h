/* SPDX-License-Identifier: MIT */
/* Shared by the ELF and unwind files of this folder only. Every number below came from the file and is believed only as an upper
 * bound: a read past the end comes back short. */
#pragma once

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stack/elf_file.h"

#define ELF_CHUNK 65536 /* bytes a pread takes while walking a table */

struct elf_segment { /* a PT_LOAD */
	uint64_t vaddr, offset, file_bytes;
	bool is_exec;
};

struct elf_table { /* a symbol table and its names; count 0 = not there */
	uint64_t offset, count;
	uint64_t names_offset, names_bytes;
	uint64_t versions_offset; /* 0 = none */
};

struct elf_file {
	int fd;
	struct elf_segment *segments;
	size_t segment_count;
	struct elf_table symtab, dynsym;
	uint64_t sections_offset, section_count; /* of the section headers; count 0 = none */
	uint64_t section_names;			 /* index of the section with their names */
	uint8_t build_id[64];
	size_t build_id_len;
};

/* Bytes read: less than len only at the end of the file. Or -errno. */
ssize_t elf_read_at(const struct elf_file *f, void *buf, size_t len, uint64_t offset);
/* The segment that holds the address, an executable one if there are several; NULL = none. */
const struct elf_segment *elf_segment_at(const struct elf_file *f, uint64_t vaddr);
/*
 * Names from this one table for the queries that have none (name == NULL). code: the file whose segments say what
 * belongs together; another one than f when f is a debug file, whose segments are empty. 0 or -errno; names found
 * before stay.
 */
int elf_table_lookup(const struct elf_file *f, const struct elf_table *t, const struct elf_file *code,
		     struct elf_symbol *query, size_t n, uint64_t max_symbols);
typedef void (*elf_symbol_fn)(const Elf64_Sym *sym, uint64_t index, void *arg);
/* Walks the first max_symbols of a table. 0 or -errno. */
int elf_table_each(const struct elf_file *f, const struct elf_table *t, uint64_t max_symbols, elf_symbol_fn func, void *arg);
/* Code of this file: not imported, not absolute, not a thread-local offset. */
bool elf_symbol_is_defined(const Elf64_Sym *sym);
/* Finds .dynsym through PT_DYNAMIC, for files without section headers. 0, -errno; nothing found is no error. */
int elf_dynamic_read(const struct elf_file *f, uint64_t offset, uint64_t len, struct elf_table *ret);
