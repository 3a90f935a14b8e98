/* SPDX-License-Identifier: MIT */
/* Stacks of recorded traces. */
#include "record/stack_lines.h"
#include "replay/trace_store.h"
#include "stack/stack_text.h"
#include "test.h"
#include "trace_items.h"

TEST(stacks_as_read)
{
	static const char text[] = HEAD "stack 3 main+0x1 (a b);x\n1 7 exec\nstack 18446744073709551615 y\nstack 4\n"
					"stack 3 main+0x1 (a b);x\nstack 0x5  z \n2 7 exit\nstack 6 late";
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	_cleanup_(trace_closep) struct trace_reader *r = reader_of(text, strlen(text));
	struct trace_item item;
	const char *first;

	ASSERT(trace_read(r, &errors, &item) == 1);
	first = trace_stack(r, 3);
	EXPECT_STR(first, "main+0x1 (a b);x");
	EXPECT(!trace_stack(r, 4) && !trace_stack(r, 0));
	ASSERT(trace_read(r, &errors, &item) == 1);
	EXPECT_STR(trace_stack(r, UINT64_MAX), "y");
	EXPECT_STR(trace_stack(r, 4), "");
	EXPECT_STR(trace_stack(r, 5), " z ");
	EXPECT(!trace_stack(r, 6));
	ASSERT(trace_read(r, &errors, &item) == 0);
	EXPECT_STR(trace_stack(r, 6), "late");
	EXPECT(trace_stack(r, 3) == first);
}

TEST(stacks_are_bounded)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	_cleanup_(trace_closep) struct trace_reader *r = NULL;
	struct trace_store store = { .max_count = 3, .max_bytes = 10 };
	struct trace_item item;

	EXPECT_EQ(trace_store_add(&store, 1, "abcd", 4), 0);
	EXPECT_EQ(trace_store_add(&store, 2, "abcde", 5), -ENOSPC);
	EXPECT_EQ(trace_store_add(&store, 2, "abcd", 4), 0);
	EXPECT_EQ(trace_store_add(&store, 3, "", 0), -ENOSPC);
	EXPECT_EQ(trace_store_add(&store, 2, "abcd", 4), 0);
	trace_store_done(&store);

	strbuf_adds(&sb, HEAD);
	for (unsigned i = 1; i <= TRACE_STACKS_MAX + 1; i++)
		strbuf_addf(&sb, "stack %u\n", i);
	r = reader_of(strbuf_str(&sb), sb.len);
	EXPECT_EQ(trace_read(r, &errors, &item), -EINVAL);
	ASSERT(errors.len == 1);
	EXPECT_EQ(errors.list[0].line, TRACE_STACKS_MAX + 2);
	EXPECT_STR(errors.list[0].text,
		   "too many stacks: at most 1048576, of 1073741824 bytes together; cut the trace in parts");
	EXPECT(trace_stack(r, TRACE_STACKS_MAX) && !trace_stack(r, TRACE_STACKS_MAX + 1));
}

static char *lines_of(const struct stack_text *st)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	char *s;

	stack_lines_add(st, NULL, 2000, 12, &sb);
	if (strbuf_steal(&sb, &s) < 0)
		abort();
	return s;
}

/* Writes it as stack 9 and reads that line; also the text that was written. */
static void reread(const struct stack_text *st, struct strbuf *line, struct stack_text **ret)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	_cleanup_(trace_closep) struct trace_reader *r = NULL;
	struct trace_item item;

	strbuf_adds(&sb, HEAD);
	trace_write_stack(&sb, 9, st);
	r = reader_of(strbuf_str(&sb), sb.len);
	EXPECT_EQ(trace_read(r, &errors, &item), 0);
	EXPECT_EQ(trace_line(r), 2);
	if (!trace_stack(r, 9) || trace_stack_text(trace_stack(r, 9), UINT64_C(0xab), ret) < 0)
		abort();
	strbuf_adds(line, strbuf_str(&sb) + strlen(HEAD));
}

TEST(stack_lines_as_written)
{
	struct text_frame frames[] = {
		{ .text = "cuMemAlloc_v2+0x0 (libcuda.so.1)", .is_allocator = true },
		{ .text = "~Cache() (x;y)+0x4 (a)", .is_allocator = true },
		{ .text = "~Foo()+0x4 (a)" },
		{ .text = "<impl [T; 4]>::f+0x4 (a) at a.rs:3" },
		{ .text = "f (~train.py:3)", .is_python = true },
		{ .text = "bad\x01\x5cx0a\xff" },
		{ .text = "" },
		{ .text = NULL },
	};
	struct stack_text st = { .frames = frames, .len = ARRAY_SIZE(frames) };
	_cleanup_(stack_text_freep) struct stack_text *again = NULL, *none = NULL;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	_cleanup_free_ char *first = lines_of(&st), *second = NULL;

	reread(&st, &line, &again);
	EXPECT_STR(strbuf_str(&line),
		   "stack 9 ~cuMemAlloc_v2+0x0 (libcuda.so.1);~\\x7eCache() (x\\x3by)+0x4 (a);\\x7eFoo()+0x4 (a);"
		   "<impl [T\\x3b 4]>::f+0x4 (a) at a.rs:3;f (~train.py:3);bad\\x01\\x0a\\xff;?;?\n");
	ASSERT(again->len == st.len);
	for (size_t i = 0; i < st.len; i++) {
		EXPECT_EQ(again->frames[i].is_allocator, frames[i].is_allocator);
		EXPECT_EQ(again->frames[i].is_python, frames[i].is_python);
		if (i < 5)
			EXPECT_STR(again->frames[i].text, frames[i].text);
	}
	second = lines_of(again);
	EXPECT_STR(second, first);
	EXPECT_STR(again->id, "00000000000000ab");
	EXPECT(!again->info);

	strbuf_reset(&line);
	st.len = 0;
	reread(&st, &line, &none);
	EXPECT_STR(strbuf_str(&line), "stack 9\n");
	EXPECT_EQ(none->len, 0);
	strbuf_reset(&line);
	trace_write_stack(&line, 1, NULL);
	EXPECT_STR(strbuf_str(&line), "stack 1\n");
}

/* Frames as the symbolizer words them. */
static void random_frame(struct text_frame *f)
{
	static const char *const names[] = {
		"main", "~Foo", "_ZN2at6native5emptyEN3c108ArrayRefIlEE", "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
		" a (b:3)", "x;y", "a\\x3b;~", "\x80\n", "<lambda>", "Model.forward.<locals>.inner", "?", "operator()", "",
		"_ZN3FooD1Ev", "_RNvXs_C1aAhj4_NtB4_1T1f",
	};
	static const char *const files[] = {
		"/usr/lib/libcuda.so.1", "/opt/a b/train.py", "<string>", "<frozen importlib._bootstrap>", "[vdso]", "",
		"/x/a:12", "/x/(y:12)", "/x/;~", "C:\\x.py", "/tmp/ (deleted)", "[anon:x]",
	};
	const char *name = names[random_below(ARRAY_SIZE(names))], *file = files[random_below(ARRAY_SIZE(files))];
	const struct mapping m = { .path = file, .inode = 1 };
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const uint32_t line = (uint32_t)(random_u64() >> (32 + random_below(32)));

	f->is_allocator = random_below(3) == 0;
	switch (random_below(6)) {
	case 0:
		frame_module(&sb, line, &m);
		break;
	case 1:
		frame_address(&sb, line, random_below(2) ? &m : NULL);
		break;
	case 2:
		frame_symbol(&sb, name, line, &m);
		break;
	case 3:
		frame_symbol(&sb, name, line, &m);
		frame_line(&sb, file, line);
		break;
	default:
		f->is_python = true;
		frame_python(&sb, random_below(8) ? name : NULL, random_below(8) ? file : NULL,
			     random_below(4) ? line : 0);
		break;
	}
	if (strbuf_steal(&sb, &f->text) < 0)
		abort();
}

TEST(random_stacks_are_rendered_as_before)
{
	for (int round = 0; round < 20000; round++) {
		_cleanup_(stack_text_freep) struct stack_text *st = NULL, *again = NULL;
		_cleanup_strbuf_ struct strbuf line = STRBUF_INIT, second_line = STRBUF_INIT;
		_cleanup_free_ char *first = NULL, *second = NULL;

		if (stack_text_new(random_below(20), &st) < 0)
			abort();
		for (size_t i = 0; i < st->len; i++)
			random_frame(&st->frames[i]);
		reread(st, &line, &again);
		trace_write_stack(&second_line, 9, again);
		ASSERT(again->len == st->len);
		for (size_t i = 0; i < st->len; i++) {
			if (again->frames[i].is_python != st->frames[i].is_python)
				printf("# \"%s\"\n", st->frames[i].text);
			ASSERT(again->frames[i].is_python == st->frames[i].is_python);
			ASSERT(again->frames[i].is_allocator == st->frames[i].is_allocator);
			EXPECT_STR(again->frames[i].text, st->frames[i].text[0] ? st->frames[i].text : "?");
		}
		first = lines_of(st);
		second = lines_of(again);
		EXPECT_STR(second, first);
		EXPECT_STR(strbuf_str(&second_line), strbuf_str(&line));
		if (test_failures)
			return;
	}
}

static void cut_stack(size_t text_len)
{
	struct text_frame frames[2000];
	struct stack_text st = { .frames = frames, .len = ARRAY_SIZE(frames) };
	_cleanup_(stack_text_freep) struct stack_text *again = NULL, *third = NULL;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT, second_line = STRBUF_INIT;
	char text[101], note[64];

	memset(text, ';', text_len);
	text[text_len] = '\0';
	for (size_t i = 0; i < st.len; i++)
		frames[i] = (struct text_frame){ .text = text };
	reread(&st, &line, &again);
	EXPECT(line.len <= TRACE_LINE_MAX + 1 && line.len > TRACE_LINE_MAX - 1000);
	ASSERT(again->len > 100);
	(void)snprintf(note, sizeof(note), "[%zu more frames]", st.len - (again->len - 1));
	EXPECT_STR(again->frames[again->len - 1].text, note);
	EXPECT_STR(again->frames[again->len - 2].text, text);
	/* What was cut once is not cut again. */
	reread(again, &second_line, &third);
	EXPECT_STR(strbuf_str(&second_line), strbuf_str(&line));
}

TEST(stack_too_long_for_a_line)
{
	for (size_t len = 60; len <= 100 && !test_failures; len++)
		cut_stack(len);
}

TEST(site_keys)
{
	const uint64_t key = trace_site_key("a;b;c");

	EXPECT(key != 0 && trace_site_key("") != 0 && trace_site_key("~a") != 0);
	EXPECT(trace_site_key("a;b;c") == key);
	EXPECT(trace_site_key("~x;a;~y;b;c;~z") == key);
	EXPECT(trace_site_key("a;c;b") != key);
	EXPECT(trace_site_key("a;b") != key && trace_site_key("ab;c") != trace_site_key("a;bc"));
	EXPECT(trace_site_key("~a;~b") != trace_site_key("~a;~c"));
	EXPECT(trace_site_key("\\x7ea;b") != trace_site_key("b"));
}

TEST_MAIN()
