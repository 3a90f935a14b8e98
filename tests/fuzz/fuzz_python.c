/* SPDX-License-Identifier: MIT */
/* Any bytes as the memory of a process: line tables, strings, code objects, the interpreter's own table, ELF images. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "stack/image.h"
#include "stack/python_code.h"
#include "stack/python_lines.h"
#include "stack/python_offsets.h"
#include "stack/python_str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_memory {
	struct memory memory; /* first */
	const uint8_t *data;
	size_t size;
};

/* An address is a place in the input, again and again, so that most pointers point somewhere; the upper half faults. */
static int fuzz_read(const struct memory *m, uint64_t addr, void *buf, size_t len)
{
	const struct fuzz_memory *f = (const struct fuzz_memory *)m;

	if (addr >> 63 || f->size == 0 || len > 1 << 20)
		return -EFAULT;
	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = f->data[(addr + i) % f->size];
	return 0;
}

static void fuzz_lines(const uint8_t *data, size_t size)
{
	uint32_t first;
	int32_t at;

	if (size < 9)
		return;
	memcpy(&first, data + 1, sizeof(first));
	memcpy(&at, data + 5, sizeof(at));
	if (python_line((enum python_lines)(data[0] % 3), data + 9, size - 9, first, at) > INT32_MAX)
		abort();
}

/* What the probe would send. */
static int fuzz_check(const struct memory *m, const struct python_layout *l, uint64_t code, uint32_t *ret)
{
	__u64 words[PYTHON_CHECK_WORDS_MAX], text[PYTHON_TEXT_WORDS] = {};
	uint64_t file = 0, page;
	int r;

	if (!l->check_words)
		return memory_read(m, code + l->code_check, ret, sizeof(*ret));
	if (l->check_words > PYTHON_CHECK_WORDS_MAX)
		abort();
	r = memory_read(m, code + l->code_check, words, l->check_words * sizeof(*words));
	if (r < 0 || memory_read(m, code + l->code_filename, &file, sizeof(file)) < 0)
		return -EFAULT;
	page = 4096 - ((file + PYTHON_TEXT_AT) & 4095);
	if (memory_read(m, file + PYTHON_TEXT_AT, text, MIN(page, sizeof(text))) < 0)
		memset(text, 0, sizeof(text));
	*ret = python_check_text(python_check_of(words, l->check_words), text);
	return 0;
}

static void fuzz_code(const struct memory *m, struct python_info *info)
{
	_cleanup_(python_codes_freep) struct python_codes *c = NULL;
	static const int instrs[] = { 0, 2, 40, 1 << 20, -2 };

	if (python_codes_new(4096, &c) < 0)
		abort();
	for (size_t i = 0; i < ARRAY_SIZE(instrs); i++) {
		struct python_frame f = { .code = i > 2 ? 64 : 0 };
		struct python_name n, again;

		if (fuzz_check(m, &info->layout, f.code, &f.check) < 0 ||
		    memory_read(m, f.code + 8, &info->code_type, sizeof(info->code_type)) < 0)
			return;
		/* Its type is right, else few bytes would be a code object; or is looked at. */
		if (i == 0)
			info->code_type = 0;
		f.instr = (uint64_t)(int64_t)instrs[i];
		if (info->layout.code_instrs)
			f.instr += f.code + info->layout.code_instrs;
		if (python_codes_resolve(c, m, info, &f, &n) < 0)
			continue;
		if (!n.function || !n.file || n.line > INT32_MAX)
			abort();
		/* What is known stays known. */
		if (python_codes_resolve(c, m, info, &f, &again) < 0 || again.line != n.line ||
		    strcmp(again.function, n.function) != 0)
			abort();
	}
}

static void fuzz_image(const struct memory *m)
{
	struct image im;
	uint64_t at;

	if (image_open(m, 0, &im) < 0)
		return;
	(void)image_symbol(m, &im, "_PyRuntime", &at);
	(void)image_symbol(m, &im, "Py_Version", &at);
	im.gnu_hash = 0;
	(void)image_symbol(m, &im, "_PyRuntime", &at);
}

/* The layout of a version, without asking the process: what python_layout_of() checks is there. */
static int fuzz_layout(uint32_t version, struct python_info *ret)
{
	uint8_t zero[16384] = { 0 };
	struct fuzz_memory f = { .memory = { .read = fuzz_read }, .data = zero, .size = sizeof(zero) };

	/* Every pointer is 1 here, and each points to itself. */
	for (size_t i = 0; i < sizeof(zero); i++)
		zero[i] = 1;
	return python_layout_of(&f.memory, 0, version, ret);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_memory f = { .memory = { .read = fuzz_read }, .data = data + 1, .size = size - 1 };
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct python_info info = { 0 };
	uint32_t minor;

	if (size < 2)
		return 0;
	minor = 9 + (data[0] >> 4) % 6;
	switch (data[0] & 7) {
	case 0:
		fuzz_lines(data + 1, size - 1);
		break;
	case 1:
	case 2:
		if (minor > 12)
			minor = 12; /* those after it have the same */
		if (fuzz_layout(0x03000000 | minor << 16, &info) < 0)
			abort();
		if ((data[0] & 7) == 2)
			fuzz_code(&f.memory, &info);
		else if (python_str_read(&f.memory, &info.layout, size, 300, &sb) == 0 && sb.len > 4 * 300 + 3)
			abort();
		break;
	case 3:
		fuzz_image(&f.memory);
		break;
	case 4:
		if (python_layout_of(&f.memory, 0, 0x03000000 | minor << 16, &info) == 0) {
			if (info.probe.frame_bytes > PYTHON_FRAME_BYTES_MAX ||
			    info.layout.code_bytes > PYTHON_CODE_BYTES_MAX)
				abort();
			fuzz_code(&f.memory, &info);
		}
		break;
	}
	return 0;
}
