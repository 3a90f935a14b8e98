/* SPDX-License-Identifier: MIT */
/* Which frames of a stack a record keeps where not all of them fit. */
#include "record/fields.h"
#include "record_build.h"

TEST(deep_stack_says_what_is_missing)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_SINGLE_ALLOC);
	_cleanup_(stack_text_freep) struct stack_text *st = make_stack(200), *exact = make_stack(8);
	_cleanup_(record_freep) struct record *rec = NULL, *rec8 = NULL;
	const char *s;
	size_t lines = 1, left;

	rec = build(r, st, true);
	rec8 = build(r, exact, true);
	ASSERT(rec && rec8);
	EXPECT_SOUND(rec);
	EXPECT_STACK(rec, 200);
	EXPECT_STACK(rec8, 8);
	s = record_get(rec, "GPUXRAY_STACK");
	for (const char *p = s; *p; p++)
		lines += *p == '\n';
	ASSERT(strrchr(s, '['));
	left = strtoul(strrchr(s, '[') + 1, NULL, 10);
	EXPECT_EQ(lines - 1 + left, 200);
	EXPECT(lines > 100);
	EXPECT(strstr(record_get(rec, "MESSAGE"), "frame_6+0x60 (libmodel.so)\n[193 more frames]"));
	EXPECT(!strstr(record_get(rec, "MESSAGE"), "frame_7"));
	EXPECT(!strstr(record_get(rec8, "MESSAGE"), "more"));
}

static void set_python(struct stack_text *st, size_t i, const char *text)
{
	set(&st->frames[i].text, text);
	st->frames[i].is_python = true;
}

/* As of a training step: 61 native frames with long names, 15 of Python. It is those that say where in the model. */
TEST(python_frames_are_kept)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_SINGLE_ALLOC);
	_cleanup_(stack_text_freep) struct stack_text *st = make_stack(76);
	_cleanup_(record_freep) struct record *rec = NULL;
	_cleanup_free_ char *name = repeat('T', 190);
	const char *s;

	for (size_t i = 1; i < 76; i++)
		set(&st->frames[i].text, name);
	for (size_t i = 1; i < 6; i++)
		st->frames[i].is_allocator = true;
	for (size_t i = 0; i < 15; i++) {
		char text[64];

		(void)snprintf(text, sizeof(text), "forward_%zu (nn/modules/module_%zu.py:%zu)", i, i, 100 + i);
		/* In pairs, native frames between them. */
		set_python(st, 40 + i / 2 * 4 + i % 2, text);
	}
	rec = build(r, st, true);
	ASSERT(rec);
	EXPECT_SOUND(rec);
	EXPECT_STACK(rec, 76);
	s = record_get(rec, "GPUXRAY_STACK");
	EXPECT(strncmp(s, "frame_0+0x0 (libmodel.so)\n[", 27) == 0);
	for (size_t i = 0; i < 15; i++) {
		char text[32];

		(void)snprintf(text, sizeof(text), "\nforward_%zu (", i);
		EXPECT(strstr(s, text));
	}
	EXPECT(strlen(s) > 3800);
	EXPECT(strstr(s, "TTT\nforward_0 ("));
	s = strstr(record_get(rec, "MESSAGE"), "\n\n");
	ASSERT(s);
	EXPECT_STR(s, "\n\nframe_0+0x0 (libmodel.so)\n[39 more frames]\n"
		      "forward_0 (nn/modules/module_0.py:100)\nforward_1 (nn/modules/module_1.py:101)\n[2 more frames]\n"
		      "forward_2 (nn/modules/module_2.py:102)\nforward_3 (nn/modules/module_3.py:103)\n[30 more frames]");
}

/* The same without Python: who called the allocator. */
TEST(allocators_are_left_out_first)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_SINGLE_ALLOC);
	_cleanup_(stack_text_freep) struct stack_text *st = make_stack(20);
	_cleanup_(record_freep) struct record *rec = NULL;
	const char *s;

	for (size_t i = 0; i < 9; i++)
		st->frames[i].is_allocator = true;
	rec = build(r, st, true);
	ASSERT(rec);
	EXPECT_STACK(rec, 20);
	s = strstr(record_get(rec, "MESSAGE"), "\n\n");
	ASSERT(s);
	EXPECT(strncmp(s, "\n\nframe_0+0x0 (libmodel.so)\n[8 more frames]\nframe_9+0x90 (libmodel.so)\n", 71) == 0);
	EXPECT(strstr(s, "\nframe_13+0xd0 (libmodel.so)\n[6 more frames]"));
	EXPECT(strstr(record_get(rec, "GPUXRAY_STACK"), "frame_8+0x80"));
}

TEST_MAIN()
