/* SPDX-License-Identifier: MIT */
/* The wording of frames and of what is missing. */
#include "bpf/event.h"
#include "frames_make.h"

/* Python frames by hand: what is in them stays there. */
static struct stack *python_stack(struct address_space *as, uint64_t ip, const struct frame *python, size_t n)
{
	struct frames *f = frames_new(as, (uint64_t[17]){ [16] = ip }, n + 1);

	if (!f)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		f->list[i] = python[i];
		f->list[i].kind = FRAME_PYTHON;
	}
	f->list[n].pc = ip;
	f->list[n].is_allocator = true;
	f->list[n].mapping = address_space_find(as, ip - 1);
	return stack_new_done(1, (uint32_t)getpid(), f);
}

TEST(python_frames_between_native_ones)
{
	char long_name[2000], long_file[2000];
	const struct frame python[] = {
		{ .function = "Model.forward", .file = "/opt/x/site-packages/torch/nn.py", .line = 12,
		  .is_allocator = true },
		{ .function = "<module>", .file = "/srv/train.py", .line = 4000000000 },
		{ .function = "f", .file = "/srv/train.py" },
		{ .function = "f" },
		{ .file = "t.py", .line = 3 },
		{},
		{ .function = "f", .line = 9 },
		{ .function = "a\nb\x1b[31m\\c\xe2\x80\xae", .file = "/x\n/\xff.py", .line = 1 },
		{ .function = long_name, .file = long_file, .line = 1 },
		{ .function = "", .file = "", .line = 1 },
	};
	_cleanup_(address_space_unrefp) struct address_space *as = NULL;
	_cleanup_(stack_unrefp) struct stack *stack = NULL;
	_cleanup_(symbolizer_freep) struct symbolizer *s = NULL;
	_cleanup_(stack_text_freep) struct stack_text *t = NULL;

	memset(long_name, 'n', sizeof(long_name) - 1);
	memset(long_file, 'f', sizeof(long_file) - 1);
	long_name[sizeof(long_name) - 1] = long_file[sizeof(long_file) - 1] = 0;
	ASSERT(maps_read("/proc", (uint32_t)getpid(), 0, &as) == 0);
	stack = python_stack(as, (uint64_t)stack_new_done + 1, python, ARRAY_SIZE(python));
	ASSERT(stack && new_symbolizer("/proc", &s) == 0);
	ASSERT(symbolizer_resolve(s, stack, STACK_OK, &t) == 0);
	ASSERT(t->len == ARRAY_SIZE(python) + 1);
	EXPECT_STR(t->frames[0].text, "Model.forward (torch/nn.py:12)");
	EXPECT_STR(t->frames[1].text, "<module> (/srv/train.py:4000000000)");
	EXPECT_STR(t->frames[2].text, "f (/srv/train.py:?)");
	EXPECT_STR(t->frames[3].text, "f (?)");
	EXPECT_STR(t->frames[4].text, "? (t.py:3)");
	EXPECT_STR(t->frames[5].text, "? (?)");
	EXPECT_STR(t->frames[6].text, "f (?:9)");
	EXPECT_STR(t->frames[7].text, "a\\x0ab\\x1b[31m\\x5cc\\xe2\\x80\\xae (/x\\x0a/\\xff.py:1)");
	EXPECT(strlen(t->frames[8].text) < 600);
	EXPECT(strstr(t->frames[8].text, "nnn[") && strstr(t->frames[8].text, " bytes cut] (fff"));
	EXPECT_STR(t->frames[9].text, " (:1)");
	EXPECT(strncmp(t->frames[10].text, "stack_new_done+0x1 (test_stack_text)", 36) == 0);
	for (size_t i = 0; i < t->len; i++) {
		EXPECT_EQ(t->frames[i].is_python, i < ARRAY_SIZE(python));
		EXPECT_EQ(t->frames[i].is_allocator, i == 0 || i == ARRAY_SIZE(python));
	}
	EXPECT(!t->info);
}

/* Names of symbols and of modules are the traced process's too. */
TEST(hostile_names)
{
	_cleanup_(temp_proc_done) struct temp_proc dir = {};
	_cleanup_(symbolizer_freep) struct symbolizer *s = NULL;
	_cleanup_(stack_text_freep) struct stack_text *t = NULL;
	_cleanup_strbuf_ struct strbuf maps = STRBUF_INIT;
	const uint64_t ips[] = { 0x10001000, 0x10001012 };
	char name[1001], path[128];
	struct made m;
	bool ok;

	memset(name, 'x', 1000);
	name[1000] = 0;
	ASSERT(temp_proc_new(&dir));
	(void)snprintf(path, sizeof(path), "%s/a\x1b\\b.so", dir.root);
	made_init(&m, 64, SHT_SYMTAB);
	made_symbol(&m, "two\nlines\x1b\xff", MADE_TEXT_VADDR, 16, MADE_FUNC, 1);
	made_symbol(&m, name, MADE_TEXT_VADDR + 16, 16, MADE_FUNC, 1);
	ok = made_write(&m, path);
	made_done(&m);
	ASSERT(ok);
	maps_line(&maps, dir.root, "a\x1b\\b.so", 0x10000000);
	ASSERT(new_symbolizer("/proc", &s) == 0);
	t = resolve_at(s, strbuf_str(&maps), (uint32_t)getpid(), ips, 2);
	ASSERT(t);
	EXPECT_STR(t->frames[0].text, "two\\x0alines\\x1b\\xff+0x0 (a\\x1b\\x5cb.so)");
	(void)snprintf(name + 253, sizeof(name) - 253, "...+0x2 (a\\x1b\\x5cb.so)");
	EXPECT_STR(t->frames[1].text, name);
}

TEST(info_says_why)
{
	static const struct {
		uint8_t reason;
		const char *info;
	} cases[] = {
		{ STACK_OK, "no stack was kept" },
		{ STACK_NONE, "this kind of event carries no stack" },
		{ STACK_FAULT, "the stack could not be read: fault at its first word" },
		{ STACK_SAMPLED,
		  "sampled: more new stacks a second than stacks_per_second allows; the bytes are exact" },
		{ STACK_LOST, "lost: the event buffer was full" },
		{ STACK_EVICTED, "dropped: too many stacks of this process" },
		{ 200, "unknown reason 200" },
	};
	_cleanup_(symbolizer_freep) struct symbolizer *s = NULL;
	_cleanup_(stack_unrefp) struct stack *stack = NULL;
	const uint64_t ips[5] = {};
	struct event_stack event = { .head.pid = 1 };
	struct stack_text *t = NULL;
	struct frames *f;

	ASSERT(new_symbolizer("/proc", &s) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		ASSERT(symbolizer_resolve(s, NULL, cases[i].reason, &t) == 0);
		EXPECT_STR(t->info, cases[i].info);
		EXPECT_EQ(t->len, 0);
		EXPECT(!t->id);
		stack_text_free(t);
	}
	t = resolve_at(s, "", (uint32_t)getpid(), ips, 0); /* resolved, to nothing */
	ASSERT(t);
	EXPECT_STR(t->info, "no stack was kept");
	EXPECT(!t->id && t->len == 0);
	stack_text_free(t);
	t = resolve_at(s, NULL, 1, ips, 5); /* nothing was known of the process */
	ASSERT(t);
	EXPECT_STR(t->info, "process ended before its files could be opened");
	EXPECT_STR(t->frames[4].text, "0x0");
	stack_text_free(t);

	/* What the resolver says comes first. */
	f = frames_new(NULL, ips, 1);
	ASSERT(f);
	f->info = strdup("stack larger than the copy in libfoo.so");
	stack = stack_new_done(1, 1, f);
	ASSERT(stack && symbolizer_resolve(s, stack, STACK_OK, &t) == 0);
	EXPECT_STR(t->info,
		   "stack larger than the copy in libfoo.so; process ended before its files could be opened");
	stack_text_free(t);
	stack_unref(TAKE_PTR(stack));

	stack = stack_new(&event);
	ASSERT(stack && symbolizer_resolve(s, stack, STACK_OK, &t) == 0);
	EXPECT_STR(t->info, "not unwound in time");
	EXPECT(!t->id && t->len == 0);
	stack_text_free(t);
	stack_set_frames(stack, NULL);
	ASSERT(symbolizer_resolve(s, stack, STACK_OK, &t) == 0);
	EXPECT_STR(t->info, "could not be unwound: too many new stacks were waiting");
	stack_text_free(t);
}

TEST_MAIN()
