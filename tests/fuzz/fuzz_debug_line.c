/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as line tables. What they say must not depend on where in the section they lie or whether it is packed:
 * each input is read as it is, and again behind a unit that fills most of the reader's window. Input: how (1: the
 * second one is packed, 2: the bytes are the packed form), place of the window's end, length of .debug_line (2),
 * .debug_line, the strings.
 */
#include <stdlib.h>

#include "stack/debug_info.h"
#include "tests/unit/debug_make.h"

#define QUERIES 32
#define WINDOW 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void find(const struct strbuf *lines, bool is_packed, const uint8_t *strings, size_t strings_len,
		 struct debug_line *query)
{
	const uint64_t flags = is_packed ? SHF_COMPRESSED : 0;
	const struct debug_section sections[] = {
		{ ".debug_line", strbuf_str(lines), lines->len, SHT_PROGBITS, 0, flags },
		{ ".debug_line_str", strings, strings_len, SHT_PROGBITS, 0, 0 },
		{ ".debug_str", strings, strings_len / 2, SHT_PROGBITS, 0, 0 },
	};
	const struct debug_limits limits = { .max_line_bytes = 1 << 20 };
	_cleanup_(debug_info_freep) struct debug_info *d = NULL;
	_cleanup_(elf_file_freep) struct elf_file *f = NULL;

	if (lines->error || elf_file_open(debug_make_fd(sections, ARRAY_SIZE(sections)), &f) < 0 ||
	    debug_info_open(f, "/nonexistent", "/nonexistent/lib.so", &limits, &d) < 0)
		abort();
	for (size_t i = 0; i < QUERIES; i++)
		query[i].vaddr = (i % 2 ? DEBUG_CODE : 0) + i * i * 8;
	query[QUERIES - 1].vaddr = UINT64_MAX;
	if (debug_info_lines(d, query, QUERIES) < 0)
		abort();
	for (size_t i = 0; i < QUERIES; i++) {
		if (!query[i].file != !query[i].line)
			abort();
		if (query[i].file && (!query[i].file[0] || strchr(query[i].file, '/') || strlen(query[i].file) > 255))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_strbuf_ struct strbuf plain = STRBUF_INIT, moved = STRBUF_INIT, packed = STRBUF_INIT;
	static const uint8_t zeros[WINDOW];
	struct debug_line a[QUERIES] = {}, b[QUERIES] = {};
	const uint8_t *strings;
	size_t len, filler;

	if (size < 4)
		return 0;
	len = MIN((size_t)data[2] | (size_t)data[3] << 8, size - 4);
	strings = data + 4 + len;
	if (data[0] & 2) {
		const Elf64_Chdr ch = { .ch_type = ELFCOMPRESS_ZLIB, .ch_size = 4 * len };

		strbuf_add(&plain, &ch, sizeof(ch));
	}
	strbuf_add(&plain, data + 4, len);
	find(&plain, data[0] & 2, strings, size - 4 - len, a);
	if (!(data[0] & 2)) {
		filler = WINDOW - 4 - 2 * (size_t)data[1];
		strbuf_add(&moved, &(uint32_t){ (uint32_t)filler }, 4);
		strbuf_add(&moved, zeros, filler);
		strbuf_add(&moved, data + 4, len);
		if (data[0] & 1)
			debug_pack(&packed, strbuf_str(&moved), moved.len);
		find(data[0] & 1 ? &packed : &moved, data[0] & 1, strings, size - 4 - len, b);
	}
	for (size_t i = 0; i < QUERIES; i++) {
		if (!(data[0] & 2) && (!a[i].file != !b[i].file || a[i].line != b[i].line ||
				       (a[i].file && strcmp(a[i].file, b[i].file) != 0)))
			abort();
		free(a[i].file);
		free(b[i].file);
	}
	return 0;
}
