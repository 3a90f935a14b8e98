/* SPDX-License-Identifier: MIT */
#include "trace/returns.h"

#include <errno.h>
#include <string.h>

struct finding {
	const struct code_range *range, *ranges;
	size_t n, jumps;
	bool wants_jumps;
	uint64_t *list;
	int len;
};

static int add(struct finding *f, uint64_t at)
{
	if (f->len == RETURNS_MAX)
		return -E2BIG;
	f->list[f->len++] = f->range->offset + at;
	return 0;
}

static bool is_within(const struct finding *f, int64_t target)
{
	const uint64_t to = f->range->offset + (uint64_t)target;

	for (size_t i = 0; i < f->n; i++)
		if (to >= f->ranges[i].offset && to - f->ranges[i].offset < f->ranges[i].len)
			return true;
	return to >= f->range->offset && to - f->range->offset < f->range->len;
}

static int note(struct finding *f, enum x86_kind kind, uint64_t at, int64_t target)
{
	if (kind == X86_RETURN)
		return add(f, at);
	if (kind == X86_JUMP && !is_within(f, target))
		f->jumps++;
	else if (kind != X86_JUMP_INDIRECT)
		return 0;
	return f->wants_jumps ? add(f, at) : 0;
}

#if defined(__aarch64__)
static int walk(struct finding *f, const uint8_t *code)
{
	int r = 0;

	if (f->range->len % 4)
		return -EILSEQ;
	for (uint64_t at = 0; at < f->range->len && r == 0; at += 4) {
		uint32_t insn;

		memcpy(&insn, code + at, 4);
		if (insn == 0xd65f03c0 || insn == 0xd65f0bff || insn == 0xd65f0fff) /* ret, retaa, retab */
			r = note(f, X86_RETURN, at, 0);
		else if ((insn & 0xfc000000) == 0x14000000) /* b */
			r = note(f, X86_JUMP, at, (int64_t)at + (int64_t)((int32_t)(insn << 6) >> 4));
		else if ((insn & 0xfffffc1f) == 0xd61f0000) /* br */
			r = note(f, X86_JUMP_INDIRECT, at, 0);
	}
	return r;
}
#else
static int walk(struct finding *f, const uint8_t *code)
{
	int r = 0;

	for (uint64_t at = 0; at < f->range->len && r == 0;) {
		enum x86_kind kind = X86_OTHER;
		int64_t target = 0;
		size_t len = x86_length(code + at, f->range->len - at, &kind, &target);

		if (!len)
			return -EILSEQ;
		r = note(f, kind, at, (int64_t)at + target);
		at += len;
	}
	return r;
}
#endif

int returns_find(const uint8_t *code, const struct code_range *range, const struct code_range *ranges, size_t n,
		 bool wants_jumps, uint64_t ret[RETURNS_MAX], size_t *ret_jumps)
{
	struct finding f = { .range = range, .ranges = ranges, .n = n, .wants_jumps = wants_jumps, .list = ret };
	int r = walk(&f, code);

	*ret_jumps = f.jumps;
	return r < 0 ? r : f.len;
}
