/* SPDX-License-Identifier: MIT */
/* Any bytes as an ELF file: headers, segments, notes, symbol tables and names. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "stack/elf_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_offsets(const struct elf_file *f, uint64_t vaddr)
{
	uint64_t offset, back;

	if (elf_file_offset(f, vaddr, &offset) == 0 && elf_file_vaddr(f, offset, &back) < 0)
		abort(); /* what lies in a segment has a place in the file, and that place an address */
}

static int see_function(const char *name, uint64_t offset, uint64_t size, void *arg)
{
	const struct elf_file *f = arg;
	uint64_t vaddr;

	if (!name[0] || strchr(name + 1, '@') || elf_file_vaddr(f, offset, &vaddr) < 0)
		abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { SYMBOLS = 10000 };
	static const char *const names[] = { "cuMemAlloc_v2", "cuMemFree_v2", "alpha", "a", "", NULL };
	_cleanup_(elf_file_freep) struct elf_file *f = NULL;
	struct elf_symbol query[12] = {};
	uint64_t offsets[ARRAY_SIZE(names)], vaddr;
	uint8_t build_id[64];
	int fd = memfd_create("fuzz", MFD_CLOEXEC), n, found = 0;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	if (elf_file_open(fd, &f) < 0)
		return 0;
	if (elf_file_build_id(f, build_id) > sizeof(build_id))
		abort();

	n = elf_file_functions(f, names, ARRAY_SIZE(names), SYMBOLS, offsets);
	if (n < 0)
		abort();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		found += offsets[i] != 0;
		query[i].vaddr = i * 0x400;
		if (offsets[i] && elf_file_vaddr(f, offsets[i], &vaddr) == 0)
			query[i].vaddr = vaddr;
		query[ARRAY_SIZE(names) + i].vaddr = query[i].vaddr + 5;
	}
	query[ARRAY_SIZE(query) - 1].vaddr = UINT64_MAX;
	if (found != n)
		abort();
	if (elf_file_each_function(f, ELF_DYNSYM | ELF_SYMTAB, SYMBOLS, see_function, f) < 0)
		abort();
	if (elf_file_lookup(f, query, ARRAY_SIZE(query), SYMBOLS) < 0)
		abort();
	for (size_t i = 0; i < ARRAY_SIZE(query); i++) {
		check_offsets(f, query[i].vaddr);
		if (query[i].name && !query[i].name[0])
			abort();
		free(query[i].name);
	}
	return 0;
}
