/* SPDX-License-Identifier: MIT */
/*
 * The layouts. 3.9 to 3.12: offsetof() compiled against the internal headers of 3.9.18, 3.10.13, 3.11.7 and 3.12.1,
 * x86-64, and the same on arm64, where only what lies behind a mutex moves, and nothing of these does (3.11 was run there);
 * internals do not change within a minor version. 3.13 and 3.14 begin _PyRuntime with a table of their own offsets, whose
 * shape is fixed within a minor version: what it has is taken from there, the rest is of 3.13.0 and 3.14.0.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "stack/python_offsets.h"

struct version_layout {
	uint16_t minor;
	uint16_t heads; /* _PyRuntime.interpreters.head; 0: ask the table */
	struct python_process probe;
	struct python_layout names;
};

static const struct version_layout versions[] = {
	{
		.minor = 9,
		.heads = 32,
		.probe = { .flags = PYTHON_INSTR_INT, .interp_next = 0, .interp_threads = 8,
			   .interp_thread_count = 3496, .thread_next = 8, .thread_interp = 16, .thread_id = 176,
			   .thread_frame = 24, .frame_bytes = 112, .frame_back = 24, .frame_code = 32,
			   .frame_instr = 104, .code_check = 40, .check_words = 11, .check_file = 8 },
		.names = { .lines = PYTHON_LINES_LNOTAB, .code_bytes = 128, .code_filename = 104, .code_name = 112,
			   .code_table = 120, .code_first_line = 40, .code_check = 40, .str_length = 16,
			   .str_state = 32, .str_ascii = 48, .str_wide = 72, .bytes_length = 16, .bytes_data = 32 },
	},
	{
		.minor = 10,
		.heads = 32,
		.probe = { .flags = PYTHON_INSTR_INT, .interp_next = 0, .interp_threads = 8,
			   .interp_thread_count = 3448, .thread_next = 8, .thread_interp = 16, .thread_id = 176,
			   .thread_frame = 24, .frame_bytes = 104, .frame_back = 24, .frame_code = 32,
			   .frame_instr = 96, .code_check = 40, .check_words = 11, .check_file = 8 },
		.names = { .lines = PYTHON_LINES_RANGES, .code_bytes = 128, .code_filename = 104, .code_name = 112,
			   .code_table = 120, .code_first_line = 40, .code_check = 40, .str_length = 16,
			   .str_state = 32, .str_ascii = 48, .str_wide = 72, .bytes_length = 16, .bytes_data = 32 },
	},
	{
		.minor = 11,
		.heads = 40,
		.probe = { .flags = PYTHON_HAS_CFRAME | PYTHON_HAS_ENTRY, .interp_next = 0, .interp_threads = 16,
			   .interp_thread_count = 8, .thread_next = 8, .thread_interp = 16, .thread_id = 152,
			   .thread_frame = 56, .cframe_frame = 8, .cframe_previous = 16, .frame_bytes = 72,
			   .frame_back = 48, .frame_code = 32, .frame_instr = 56, .frame_owner = 69,
			   .frame_entry = 68, .code_check = 72, .check_words = 9, .check_file = 5 },
		.names = { .lines = PYTHON_LINES_LOCATIONS, .code_bytes = 144, .code_filename = 112, .code_name = 120,
			   .code_qualname = 128, .code_table = 136, .code_first_line = 72, .code_check = 72,
			   .code_instrs = 184, .code_units = 16, .str_length = 16, .str_state = 32, .str_ascii = 48,
			   .str_wide = 72, .bytes_length = 16, .bytes_data = 32 },
	},
	{
		.minor = 12,
		.heads = 40,
		.probe = { .flags = PYTHON_HAS_CFRAME | PYTHON_HAS_SHIM, .interp_next = 0, .interp_threads = 72,
			   .interp_thread_count = 64, .thread_next = 8, .thread_interp = 16, .thread_id = 136,
			   .thread_frame = 56, .cframe_frame = 0, .cframe_previous = 8, .frame_bytes = 72,
			   .frame_back = 8, .frame_code = 0, .frame_instr = 56, .frame_owner = 70, .code_check = 92 },
		.names = { .lines = PYTHON_LINES_LOCATIONS, .code_bytes = 144, .code_filename = 112, .code_name = 120,
			   .code_qualname = 128, .code_table = 136, .code_first_line = 68, .code_check = 92,
			   .code_instrs = 192, .code_units = 16, .str_length = 16, .str_state = 32, .str_ascii = 40,
			   .str_wide = 56, .bytes_length = 16, .bytes_data = 32 },
	},
	{
		.minor = 13,
		.probe = { .flags = PYTHON_HAS_SHIM },
		.names = { .lines = PYTHON_LINES_LOCATIONS, .code_units = 16, .bytes_length = 16, .bytes_data = 32 },
	},
	{
		.minor = 14,
		.probe = { .flags = PYTHON_HAS_SHIM },
		.names = { .lines = PYTHON_LINES_LOCATIONS, .code_units = 16, .bytes_length = 16, .bytes_data = 32 },
	},
};

/* No count has more than 32 bits; from 3.14 on it is an int, flags lie above it, and 16 bits that are never needed. */
#define REFCOUNT_ZERO 0xffffffff00000000ull
#define REFCOUNT_ZERO_14 0x0000ffff00000000ull

/* Positions in the interpreter's own table, in bytes; every entry is 8 bytes. */
struct table_positions {
	uint16_t heads, interp_next, interp_threads, thread_prev, thread_next, thread_interp, thread_frame, thread_id;
	uint16_t frame_back, frame_code, frame_instr, frame_owner;
	uint16_t code_filename, code_name, code_qualname, code_table, code_first_line, code_instrs;
	uint16_t str_state, str_length, str_ascii;
};

static const struct table_positions positions_13 = {
	.heads = 40, .interp_next = 64, .interp_threads = 72, .thread_prev = 160, .thread_next = 168, .thread_interp =
	176, .thread_frame = 184, .thread_id = 192, .frame_back = 232, .frame_code = 240, .frame_instr = 248,
	.frame_owner = 264, .code_filename = 280, .code_name = 288, .code_qualname = 296, .code_table = 304,
	.code_first_line = 312, .code_instrs = 344, .str_state = 544, .str_length = 552, .str_ascii = 560,
};

static const struct table_positions positions_14 = {
	.heads = 40, .interp_next = 64, .interp_threads = 72, .thread_prev = 184, .thread_next = 192, .thread_interp =
	200, .thread_frame = 208, .thread_id = 216, .frame_back = 256, .frame_code = 264, .frame_instr = 272,
	.frame_owner = 288, .code_filename = 320, .code_name = 328, .code_qualname = 336, .code_table = 344,
	.code_first_line = 352, .code_instrs = 384, .str_state = 624, .str_length = 632, .str_ascii = 640,
};

#define TABLE_BYTES 656
#define TABLE_VERSION 8
#define TABLE_FREE_THREADED 16

static uint64_t table_word(const uint8_t *table, uint16_t position)
{
	uint64_t v;

	memcpy(&v, table + position, sizeof(v));
	return v;
}

/* One offset, if it is no larger than it can be. */
static bool table_offset(const uint8_t *table, uint16_t position, uint64_t max, uint16_t *ret)
{
	uint64_t v = table_word(table, position);

	*ret = (uint16_t)v;
	return v <= max;
}

static bool table_probe(const uint8_t *t, const struct table_positions *at, struct python_process *p, uint16_t *heads)
{
	const uint64_t frame_max = PYTHON_FRAME_BYTES_MAX - 8, thread_max = PYTHON_THREAD_BYTES_MAX - 16;

	if (!table_offset(t, at->heads, UINT16_MAX, heads) ||
	    !table_offset(t, at->interp_next, UINT16_MAX, &p->interp_next) ||
	    !table_offset(t, at->interp_threads, UINT16_MAX, &p->interp_threads) ||
	    !table_offset(t, at->thread_prev, thread_max, &p->thread_prev) ||
	    !table_offset(t, at->thread_next, UINT16_MAX, &p->thread_next) ||
	    !table_offset(t, at->thread_interp, UINT16_MAX, &p->thread_interp) ||
	    !table_offset(t, at->thread_frame, thread_max, &p->thread_frame) ||
	    !table_offset(t, at->thread_id, thread_max, &p->thread_id) ||
	    !table_offset(t, at->frame_back, frame_max, &p->frame_back) ||
	    !table_offset(t, at->frame_code, frame_max, &p->frame_code) ||
	    !table_offset(t, at->frame_instr, frame_max, &p->frame_instr) ||
	    !table_offset(t, at->frame_owner, frame_max, &p->frame_owner))
		return false;
	/* The probe reads whole words. */
	if ((p->frame_back | p->frame_code | p->frame_instr | p->thread_prev | p->thread_frame | p->thread_id) & 7 ||
	    p->interp_threads < 8)
		return false;
	p->interp_thread_count = p->interp_threads - 8; /* threads = { next_unique_id, head, ... } since 3.11 */
	/* The owner is the last of what we need. */
	p->frame_bytes = (uint16_t)MAX(MAX(p->frame_back, p->frame_code) + 8, MAX(p->frame_instr, p->frame_owner) + 8);
	p->frame_bytes = (uint16_t)(p->frame_bytes / 8 * 8);
	return true;
}

static bool table_names(const uint8_t *t, const struct table_positions *at, struct python_layout *n)
{
	const uint64_t code_max = PYTHON_CODE_BYTES_MAX - 8;

	if (!table_offset(t, at->code_filename, code_max, &n->code_filename) ||
	    !table_offset(t, at->code_name, code_max, &n->code_name) ||
	    !table_offset(t, at->code_qualname, code_max, &n->code_qualname) ||
	    !table_offset(t, at->code_table, code_max, &n->code_table) ||
	    !table_offset(t, at->code_first_line, code_max - 24, &n->code_first_line) ||
	    !table_offset(t, at->code_instrs, code_max, &n->code_instrs) ||
	    !table_offset(t, at->str_state, 64, &n->str_state) ||
	    !table_offset(t, at->str_length, 64, &n->str_length) || !table_offset(t, at->str_ascii, 64, &n->str_ascii))
		return false;
	n->str_wide = n->str_ascii + 16; /* utf8_length and utf8 come between */
	/* co_version is not in the table: it has been 24 bytes behind co_firstlineno since 3.12. */
	if (n->code_first_line != 68) /* another build than those we know */
		return false;
	n->code_check = 92;
	n->code_bytes = (uint16_t)(MAX(MAX(n->code_filename, n->code_name), MAX(n->code_qualname, n->code_table)) + 8);
	n->code_bytes = (uint16_t)MAX(n->code_bytes, n->code_check + 4);
	return n->code_instrs != 0;
}

static int from_table(const struct memory *m, uint64_t runtime, struct python_info *info)
{
	uint8_t table[TABLE_BYTES];
	uint16_t heads;
	int r;

	r = memory_read(m, runtime, table, sizeof(table));
	if (r < 0)
		return r;
	/* Static data: if it is not there now, it never will be. */
	if (memcmp(table, "xdebugpy", 8) != 0 || table_word(table, TABLE_VERSION) >> 16 != info->version >> 16 ||
	    table_word(table, TABLE_FREE_THREADED) != 0)
		return -EOPNOTSUPP;
	const struct table_positions *at = (info->version >> 16 & 255) == 13 ? &positions_13 : &positions_14;

	if (!table_probe(table, at, &info->probe, &heads) || !table_names(table, at, &info->layout))
		return -EOPNOTSUPP;
	info->probe.heads = runtime + heads;
	info->probe.code_check = info->layout.code_check;
	return 0;
}

/* Follows the pointers once: a thread state says which interpreter it belongs to. */
static int check_layout(const struct memory *m, const struct python_process *p)
{
	uint64_t interp, thread, back;
	int r = -EOPNOTSUPP;

	/* A thread may end just then; three in a row do not. */
	for (int i = 0; i < 3; i++) {
		r = memory_read(m, p->heads, &interp, sizeof(interp));
		if (r < 0)
			return r;
		if (!interp)
			return -EAGAIN;
		r = memory_read(m, interp + p->interp_threads, &thread, sizeof(thread));
		if (r == -EFAULT)
			return -EOPNOTSUPP;
		if (r < 0)
			return r;
		if (!thread)
			return -EAGAIN;
		r = memory_read(m, thread + p->thread_interp, &back, sizeof(back));
		if (r == 0 && back == interp)
			return 0;
		if (r < 0 && r != -EFAULT)
			return r;
	}
	return -EOPNOTSUPP;
}

int python_layout_of(const struct memory *m, uint64_t runtime, uint32_t version, struct python_info *ret)
{
	struct python_info info = { .version = version, .runtime = runtime };
	const struct version_layout *v = NULL;
	int r;

	if (version >> 24 != 3)
		return -EOPNOTSUPP;
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		if (versions[i].minor == (version >> 16 & 255))
			v = &versions[i];
	if (!v)
		return -EOPNOTSUPP;
	info.probe = v->probe;
	info.layout = v->names;
	if (v->heads == 0) {
		r = from_table(m, runtime, &info);
		if (r < 0)
			return r;
	} else {
		info.probe.heads = runtime + v->heads;
	}
	info.probe.thread_bytes =
		(uint16_t)(MAX(MAX(info.probe.thread_prev, info.probe.thread_frame), info.probe.thread_id) + 8);
	info.layout.check_words = info.probe.check_words;
	info.layout.refcount_zero = v->minor >= 14 ? REFCOUNT_ZERO_14 : REFCOUNT_ZERO;
	r = check_layout(m, &info.probe);
	if (r < 0)
		return r;
	*ret = info;
	return 0;
}
