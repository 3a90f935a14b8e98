/* SPDX-License-Identifier: MIT */
/* The dynamic symbol table as the dynamic linker finds it: no section headers needed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stack/elf_layout.h"

#define DYNAMIC_MAX_BYTES ELF_CHUNK /* 4096 entries */
#define SYMBOLS_MAX (1u << 24)	    /* ten times the largest library known; also of buckets */

/* Number of symbols a DT_HASH table covers; 0 = unreadable. */
static uint64_t count_from_hash(const struct elf_file *f, uint64_t vaddr)
{
	uint32_t head[2]; /* buckets, chains; a chain for each symbol */
	uint64_t offset;

	if (elf_file_offset(f, vaddr, &offset) < 0 || elf_read_at(f, head, sizeof(head), offset) != sizeof(head))
		return 0;
	return head[1];
}

/* Highest symbol index at the head of a chain. 0 = none. */
static uint32_t highest_bucket(const struct elf_file *f, uint64_t offset, uint32_t count, uint32_t *buf)
{
	uint32_t top = 0;

	count = MIN(count, SYMBOLS_MAX);
	for (uint64_t at = 0; at < count;) {
		ssize_t n = elf_read_at(f, buf, ELF_CHUNK, offset + at * sizeof(*buf));
		uint64_t got = n < 0 ? 0 : MIN((uint64_t)n / sizeof(*buf), count - at);

		for (uint64_t i = 0; i < got; i++)
			top = MAX(top, buf[i]);
		if (got < ELF_CHUNK / sizeof(*buf))
			break;
		at += got;
	}
	return top;
}

/* DT_GNU_HASH does not say how many there are: the last chain's end does. 0 = unreadable; -ENOMEM. */
static int count_from_gnu_hash(const struct elf_file *f, uint64_t vaddr, uint64_t *ret)
{
	uint32_t head[4]; /* buckets, first hashed symbol, 64-bit words of the filter, shift */
	uint64_t offset, buckets, chains, at;
	_cleanup_free_ uint32_t *buf = NULL;
	uint32_t top;

	*ret = 0;
	if (elf_file_offset(f, vaddr, &offset) < 0 || elf_read_at(f, head, sizeof(head), offset) != sizeof(head))
		return 0;
	if (offset > INT64_MAX)
		return 0;
	buf = malloc(ELF_CHUNK);
	if (!buf)
		return -ENOMEM;
	buckets = offset + sizeof(head) + (uint64_t)head[2] * 8;
	chains = buckets + (uint64_t)head[0] * 4;
	top = highest_bucket(f, buckets, head[0], buf);
	if (top < head[1]) { /* nothing is defined here: the symbols before are all imports */
		*ret = head[1];
		return 0;
	}

	/* Each chain word is a symbol's hash, its lowest bit set in the last word. */
	for (at = top; at < SYMBOLS_MAX;) {
		ssize_t n = elf_read_at(f, buf, ELF_CHUNK, chains + (at - head[1]) * 4);
		size_t got = n < 0 ? 0 : (size_t)n / sizeof(*buf);

		for (size_t i = 0; i < got; i++, at++) {
			if (buf[i] & 1) {
				*ret = at + 1;
				return 0;
			}
		}
		if (got < ELF_CHUNK / sizeof(*buf))
			break;
	}
	*ret = at;
	return 0;
}

int elf_dynamic_read(const struct elf_file *f, uint64_t offset, uint64_t len, struct elf_table *ret)
{
	uint64_t symtab = 0, strtab = 0, names_bytes = 0, hash = 0, gnu_hash = 0, versions = 0, entry = sizeof(Elf64_Sym);
	_cleanup_free_ Elf64_Dyn *dyn = malloc(DYNAMIC_MAX_BYTES);
	struct elf_table t = {};
	ssize_t n;
	int r;

	if (!dyn)
		return -ENOMEM;
	n = elf_read_at(f, dyn, (size_t)MIN(len, DYNAMIC_MAX_BYTES), offset);
	if (n < 0)
		return (int)n;
	for (size_t i = 0; i < (size_t)n / sizeof(*dyn) && dyn[i].d_tag != DT_NULL; i++) {
		switch (dyn[i].d_tag) {
		case DT_SYMTAB:
			symtab = dyn[i].d_un.d_ptr;
			break;
		case DT_STRTAB:
			strtab = dyn[i].d_un.d_ptr;
			break;
		case DT_STRSZ:
			names_bytes = dyn[i].d_un.d_val;
			break;
		case DT_SYMENT:
			entry = dyn[i].d_un.d_val;
			break;
		case DT_HASH:
			hash = dyn[i].d_un.d_ptr;
			break;
		case DT_GNU_HASH:
			gnu_hash = dyn[i].d_un.d_ptr;
			break;
		case DT_VERSYM:
			versions = dyn[i].d_un.d_ptr;
			break;
		}
	}
	if (!symtab || !strtab || entry != sizeof(Elf64_Sym))
		return 0;
	if (elf_file_offset(f, symtab, &t.offset) < 0 || elf_file_offset(f, strtab, &t.names_offset) < 0)
		return 0;
	if (!versions || elf_file_offset(f, versions, &t.versions_offset) < 0)
		t.versions_offset = 0;
	t.names_bytes = names_bytes;
	if (hash)
		t.count = count_from_hash(f, hash);
	if (!t.count && gnu_hash) {
		r = count_from_gnu_hash(f, gnu_hash, &t.count);
		if (r < 0)
			return r;
	}
	*ret = t;
	return 0;
}
