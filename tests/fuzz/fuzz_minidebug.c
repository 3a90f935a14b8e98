/* SPDX-License-Identifier: MIT */
/*
 * Hostile bytes in a file's other debug sections. Input: what they are (0: .gnu_debugdata, 1: what we pack into it, 2:
 * .gnu_debuglink, 3: the whole file), then the bytes.
 */
#include <stdlib.h>

#include "stack/debug_info.h"
#include "tests/unit/debug_make.h"

#define QUERIES 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int make_file(uint8_t how, const uint8_t *data, size_t size)
{
	_cleanup_strbuf_ struct strbuf content = STRBUF_INIT;
	struct debug_section section = { .name = ".gnu_debugdata", .type = SHT_PROGBITS };
	int fd;

	if (how == 3) {
		fd = memfd_create("fuzz", MFD_CLOEXEC);
		if (fd < 0 || write(fd, data, size) != (ssize_t)size)
			abort();
		return fd;
	}
	if (how == 2)
		section.name = ".gnu_debuglink";
	if (how == 1)
		debug_pack_xz(&content, data, size);
	else
		strbuf_add(&content, data, size);
	section.data = strbuf_str(&content);
	section.len = content.len;
	fd = content.error ? -1 : debug_make_fd(&section, 1);
	if (fd < 0)
		abort();
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct debug_limits limits = {
		.max_symbols = 10000, .max_minidebug = 1 << 20, .max_line_bytes = 1 << 20, .max_crc_bytes = 1 << 20,
	};
	_cleanup_(debug_info_freep) struct debug_info *d = NULL;
	_cleanup_(elf_file_freep) struct elf_file *f = NULL;
	struct elf_symbol symbols[QUERIES] = {};
	struct debug_line lines[QUERIES] = {};

	if (!size || elf_file_open(make_file(data[0] & 3, data + 1, size - 1), &f) < 0)
		return 0;
	if (debug_info_open(f, "/nonexistent", "/nonexistent/lib.so", &limits, &d) < 0)
		abort();
	for (size_t i = 0; i < QUERIES; i++)
		symbols[i].vaddr = lines[i].vaddr = i * 0x200;
	if (debug_info_symbols(d, symbols, QUERIES) < 0 || debug_info_lines(d, lines, QUERIES) < 0)
		abort();
	if (debug_info_bytes(d) > (2 << 20))
		abort();
	for (size_t i = 0; i < QUERIES; i++) {
		if (symbols[i].name && !symbols[i].name[0])
			abort();
		free(symbols[i].name);
		free(lines[i].file);
	}
	return 0;
}
