/* SPDX-License-Identifier: MIT */
/*
 * A recorded trace, as it is and compressed: any bytes can be read to their end, what was read is the same when it is
 * written and read again, and so are its stacks.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "../unit/trace_items.h"
#include "record/stack_lines.h"

#define STACKS 9 /* numbers from 1 on that are looked at */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool is_true, const char *what, const char *text)
{
	if (is_true)
		return;
	fprintf(stderr, "%s: %s\n", what, text);
	abort();
}

/* The next item, whatever is wrong before it. */
static bool next(struct trace_reader *r, struct errors *errors, struct trace_item *ret)
{
	uint64_t before = trace_line(r);
	int n;

	do {
		n = trace_read(r, errors, ret);
		expect(n == 0 || n == 1 || (n == -EINVAL && errors->error_count), "result", strerror(-n));
		expect(trace_line(r) >= before, "lines go back", "");
		before = trace_line(r);
	} while (n < 0);
	return n == 1;
}

static struct stack_text *stack_of(const struct trace_reader *r, uint64_t stack)
{
	const char *frames = trace_stack(r, stack);
	struct stack_text *st = NULL;

	if (!frames)
		return NULL;
	expect(trace_site_key(frames) != 0, "no key", frames);
	if (trace_stack_text(frames, stack, &st) < 0)
		abort();
	return st;
}

/* All that is in a trace, as it is written. */
static void rewrite(struct trace_reader *r, struct errors *errors, struct strbuf *sb)
{
	struct trace_item item;

	trace_write_head(sb, trace_clock(r));
	while (next(r, errors, &item))
		expect(trace_write(sb, &item) == 0, "cannot be written", trace_type_name(item.type));
	expect(trace_read(r, errors, &item) == 0, "something behind the end", "");
	for (uint64_t i = 1; i <= STACKS; i++) {
		_cleanup_(stack_text_freep) struct stack_text *st = stack_of(r, i);

		if (st)
			trace_write_stack(sb, i, st);
	}
}

static char *lines_of(const struct stack_text *st)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	char *s;

	stack_lines_add(st, NULL, 3000, 20, &sb);
	if (strbuf_steal(&sb, &s) < 0)
		abort();
	return s;
}

static void compare_stacks(const struct trace_reader *a, const struct trace_reader *b)
{
	for (uint64_t i = 1; i <= STACKS; i++) {
		_cleanup_(stack_text_freep) struct stack_text *st = stack_of(a, i), *again = stack_of(b, i);
		_cleanup_free_ char *first = NULL, *second = NULL;

		expect(!st == !again, "stack cannot be read again", "");
		/* Escapes may make it too long for a line. */
		if (!st || strlen(trace_stack(a, i)) > TRACE_LINE_MAX / 5)
			continue;
		expect(st->len == again->len, "number of frames", trace_stack(b, i));
		for (size_t k = 0; k < st->len; k++)
			expect(st->frames[k].is_allocator == again->frames[k].is_allocator, "allocator", trace_stack(b, i));
		first = lines_of(st);
		second = lines_of(again);
		expect(strcmp(first, second) == 0, first, second);
	}
}

/* What is read, and what is read of its lines, is the same, and so are the lines of that. */
static void read_all(const char *data, size_t size)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT, none = ERRORS_INIT;
	_cleanup_strbuf_ struct strbuf first = STRBUF_INIT, second = STRBUF_INIT;
	_cleanup_(trace_closep) struct trace_reader *r = reader_of(data, size), *again = NULL, *written = NULL, *last = NULL;
	struct trace_item a, b;

	rewrite(r, &errors, &first);
	again = reader_of(data, size);
	written = reader_of(strbuf_str(&first), first.len);
	while (next(written, &none, &b)) {
		const char *wrong;

		expect(next(again, &errors, &a), "items that were not there", "");
		wrong = item_difference(&a, &b);
		expect(!wrong, wrong, trace_type_name(a.type));
	}
	expect(!next(again, &errors, &a) && !none.len, "items are missing", none.len ? none.list[0].text : "");
	compare_stacks(r, written);
	last = reader_of(strbuf_str(&first), first.len);
	rewrite(last, &none, &second);
	expect(strcmp(strbuf_str(&first), strbuf_str(&second)) == 0, "written anew", strbuf_str(&second));
}

/* Without compression, so that what is changed in the input shows in the text. */
static void read_compressed(const uint8_t *data, size_t size)
{
	const size_t max = size + size / 100 + 1000;
	char *packed = malloc(max);
	z_stream z = { .next_in = (Bytef *)data, .avail_in = (uInt)size, .avail_out = (uInt)max };

	z.next_out = (Bytef *)packed;
	if (!packed || deflateInit2(&z, Z_NO_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
	    deflate(&z, Z_FINISH) != Z_STREAM_END)
		abort();
	read_all(packed, z.total_out);
	if (size) {
		read_all(packed, z.total_out - 1 - data[0] % 20);
		packed[data[0] * 7u % z.total_out] ^= 0x10;
		read_all(packed, z.total_out);
	}
	(void)deflateEnd(&z);
	free(packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Exact size: the reader must not touch what is behind it. */
	read_all((const char *)data, size);
	if (size % 4 == 0 && size < 3000) /* it takes most of the time */
		read_compressed(data, size);
	return 0;
}
