/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

#include "unwind_library.h"

TEST(frames_of_any_size)
{
	_cleanup_(fixture_done) struct fixture f = {};
	struct unwound u, v;
	struct raw_stack s;
	char name[16];

	ASSERT(fixture_new(&f, ""));
	for (int depth = 0; depth < 20; depth++) {
		EXPECT_EQ(call(&f, "step0", depth), depth + 1);
		ASSERT(unwind_taken(&f, &s, &u));
		expect_as_backtrace(&s, &u);
		for (int i = 0; i <= depth; i++) {
			(void)snprintf(name, sizeof(name), "step%d", (depth - i) % 8);
			EXPECT_IN(&u, (size_t)i + 1, name);
		}
		EXPECT(u.frames[0].is_exact && !u.frames[1].is_exact);
		EXPECT_EQ(u.frames[0].return_slot, 0);
		EXPECT_EQ(u.frames[0].cfa, s.sp + 8);
	}
	/* From what is remembered the same. */
	ASSERT(again(&f, &s, &v));
	expect_as_backtrace(&s, &v);
	/* The rules of the entry say what at_entry does. */
	s.at_entry = false;
	ASSERT(again(&f, &s, &v));
	expect_as_backtrace(&s, &v);
}

TEST(frames_of_variable_size)
{
	_cleanup_(fixture_done) struct fixture f = {};
	struct unwound u;
	struct raw_stack s;
	uint64_t word;

	ASSERT(fixture_new(&f, ""));
	call(&f, "vla", 8);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	for (size_t i = 1; i <= 4; i++)
		EXPECT_IN(&u, i, "vla");
	/* The innermost frame's base is in bp, each other's was saved in the frame inside of it. */
	EXPECT(u.register_mask & 1u << 6);
	ASSERT(u.address_slot_count >= 3);
	for (size_t i = 0; i < 3; i++) {
		memcpy(&word, taken.copy + u.address_slots[i], 8);
		EXPECT_EQ(word, u.frames[i + 2].cfa - 16);
	}

	call(&f, "aligned", 8);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	for (size_t i = 1; i <= 4; i++)
		EXPECT_IN(&u, i, "aligned");
	EXPECT(u.address_slot_count >= 3);
}

TEST(deep_recursion_and_its_limit)
{
	_cleanup_(fixture_done) struct fixture f = {};
	_cleanup_(unwinder_freep) struct unwinder *small = NULL;
	struct unwinder_limits limits = UNWINDER_LIMITS_DEFAULT;
	struct unwound u;
	struct raw_stack s;

	ASSERT(fixture_new(&f, ""));
	call(&f, "step0", 240);
	ASSERT(unwind_taken(&f, &s, &u));
	EXPECT(u.count > 242);
	expect_as_backtrace(&s, &u);
	call(&f, "step0", 600);
	ASSERT(unwind_taken(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_DEPTH);
	EXPECT_EQ(u.count, 512);
	expect_consistent(&s, &u);

	/* Everything there is room for just once. */
	limits.depth = 10;
	limits.files = 1;
	limits.rows = 1;
	ASSERT(unwinder_new(f.objects, &limits, &small) == 0);
	ASSERT(unwind(small, &s, &u) == 0);
	EXPECT_EQ(u.count, 10);
	for (size_t i = 1; i < u.count; i++)
		EXPECT_EQ(u.frames[i].pc, (uint64_t)taken.trace[i]);
}

TEST(through_the_c_library_and_cleanups)
{
	_cleanup_(fixture_done) struct fixture f = {};
	struct unwound u;
	struct raw_stack s;

	ASSERT(fixture_new(&f, ""));
	call(&f, "sorted", 0);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	EXPECT_IN(&u, 6, "step3");
	EXPECT(u.count > 9);

	call(&f, "searched", 0);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	EXPECT_IN(&u, 6, "step3");

	call(&f, "thrown", 6);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	for (size_t i = 5; i < 12; i++)
		EXPECT_IN(&u, i, "thrown");
}

TEST(signal_frames)
{
	_cleanup_(fixture_done) struct fixture f = {};
	_cleanup_free_ char *other = malloc(1 << 16);
	stack_t stack = { .ss_sp = other, .ss_size = 1 << 16 }, old;
	struct unwound u;
	struct raw_stack s;
	size_t at = 0;

	ASSERT(fixture_new(&f, "") && other);
	call(&f, "signalled", 0);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	while (at < u.count && !u.frames[at].is_signal)
		at++;
	EXPECT_EQ(at, 7); /* probe_point, step0 of step1(4), ... handler */
	ASSERT(at + 2 < u.count);
	EXPECT(u.frames[at + 1].is_exact && !u.frames[at + 2].is_exact);

	call(&f, "trapped", 0);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	EXPECT_IN(&u, 6, "trap");
	EXPECT(u.frames[5].is_signal && u.frames[6].is_exact);
	EXPECT_IN(&u, 7, "trapped");

	/* The handler on a stack of its own: the copy has no more than that. */
	ASSERT(sigaltstack(&stack, &old) == 0);
	call(&f, "signalled", SA_ONSTACK);
	ASSERT(sigaltstack(&old, NULL) == 0);
	taken.len = (size_t)((uint64_t)other + (1 << 16) - probe_registers.sp);
	ASSERT(taken.len < 1 << 16 && unwind_taken(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_OUTSIDE);
	EXPECT_EQ(u.count, 8);
	expect_consistent(&s, &u);
}

static void *thread_main(void *arg)
{
	call(arg, "step0", 12);
	return arg;
}

TEST(another_thread)
{
	_cleanup_(fixture_done) struct fixture f = {};
	struct unwound u;
	struct raw_stack s;
	pthread_t thread;

	ASSERT(fixture_new(&f, ""));
	ASSERT(pthread_create(&thread, NULL, thread_main, &f) == 0 && pthread_join(thread, NULL) == 0);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	EXPECT(u.count >= 16);
}

static void expect_library(const char *flags)
{
	_cleanup_(fixture_done) struct fixture f = {};
	struct unwound u;
	struct raw_stack s;

	ASSERT(fixture_new(&f, flags));
	call(&f, "step0", 30);
	ASSERT(unwind_taken(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_COMPLETE);
	EXPECT(u.count > 33);
	for (size_t i = 1; i < 32; i++)
		EXPECT_IN(&u, i, ((const char *[]){ "step0", "step1", "step2", "step3", "step4", "step5", "step6",
						    "step7" })[(31 - i) % 8]);
	expect_consistent(&s, &u);
	call(&f, "signalled", 0);
	ASSERT(unwind_taken(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_COMPLETE);
	expect_consistent(&s, &u);
}

TEST(stripped_library)
{
	expect_library("-s");
}

/* backtrace() sees nothing here: the names are the oracle. */
TEST(library_without_a_search_table)
{
	expect_library("-Wl,--no-eh-frame-hdr");
	expect_library("-s -Wl,--no-eh-frame-hdr");
}

TEST(library_with_large_displacements)
{
	expect_library("-mcmodel=large -Wl,-z,noseparate-code");
}

TEST(rules_by_hand)
{
	_cleanup_(fixture_done) struct fixture f = {};
	struct unwound u;
	struct raw_stack s;
	int (*run)(void (*)(void));

	ASSERT(fixture_new(&f, ""));
	run = dlsym(f.library, "plt_like");
	ASSERT(run);
	run(probe_point);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	EXPECT_IN(&u, 1, "plt_like");

	static const struct {
		const char *name;
		enum unwind_reason reason;
	} ends[] = {
		{ "last", UNWIND_COMPLETE }, { "circle", UNWIND_LOOP },		{ "lost", UNWIND_NO_REGISTER },
		{ "silent", UNWIND_NO_INFO }, { "silent_root", UNWIND_COMPLETE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		run = dlsym(f.library, ends[i].name);
		ASSERT(run);
		taken.is_untraced = true;
		run(probe_point);
		taken.is_untraced = false;
		for (int twice = 0; twice < 2; twice++) {
			ASSERT(unwind_taken(&f, &s, &u));
			EXPECT_EQ(u.reason, ends[i].reason);
			EXPECT_EQ(u.count, 2);
			EXPECT_IN(&u, 1, ends[i].name);
			ASSERT(u.at);
			EXPECT(strstr(u.at->path, "/lib.so"));
			EXPECT_EQ(!unwind_reason_text(u.reason), u.reason == UNWIND_COMPLETE);
		}
	}
}

TEST(generated_code)
{
	/* push rbp; mov rbp, rsp; call rdi; pop rbp; ret */
	static const uint8_t framed[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
	/* push rbp; mov ebp, 1; call rdi; pop rbp; ret */
	static const uint8_t unframed[] = { 0x55, 0xbd, 1, 0, 0, 0, 0xff, 0xd7, 0x5d, 0xc3 };
	_cleanup_(fixture_done) struct fixture f = {};
	struct unwound u;
	struct raw_stack s;
	uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT(fixture_new(&f, "") && code != MAP_FAILED);
	memcpy(code, framed, sizeof(framed));
	memcpy(code + 64, unframed, sizeof(unframed));
	((void (*)(void (*)(void)))code)(probe_point);
	ASSERT(unwind_taken(&f, &s, &u));
	ASSERT(u.count > 2);
	EXPECT_EQ(u.reason, UNWIND_COMPLETE);
	EXPECT_EQ(u.frames[1].pc, (uint64_t)code + 6);
	EXPECT(u.frames[1].is_guessed && !u.frames[0].is_guessed && !u.frames[2].is_guessed);
	EXPECT(u.frames[2].pc > (uint64_t)test_generated_code && u.frames[2].pc < (uint64_t)test_generated_code + 8192);
	expect_consistent(&s, &u);

	((void (*)(void (*)(void)))(code + 64))(probe_point);
	ASSERT(unwind_taken(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_NO_FILE);
	EXPECT_EQ(u.count, 2);
	EXPECT_EQ(u.frames[1].pc, (uint64_t)code + 64 + 8);

	/* Mapped after the maps were read. */
	for (size_t i = 0; i < f.space->count; i++) {
		if (f.space->mappings[i].start <= (uint64_t)code && f.space->mappings[i].end > (uint64_t)code)
			f.space->mappings[i].end = f.space->mappings[i].start + 1;
	}
	ASSERT(again(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_NOT_MAPPED);
	EXPECT_EQ(u.count, 1);
	s.space = NULL;
	ASSERT(again(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_NO_MAPS);
	EXPECT_EQ(u.count, 1);
	(void)munmap(code, 4096);
}

TEST(truncated_copy)
{
	_cleanup_(fixture_done) struct fixture f = {};
	struct unwound whole, u;
	struct unwound_frame frames[256];
	struct raw_stack s;

	ASSERT(fixture_new(&f, ""));
	call(&f, "step0", 20);
	ASSERT(unwind_taken(&f, &s, &whole));
	expect_as_backtrace(&s, &whole);
	ASSERT(whole.count > 20 && whole.count < ARRAY_SIZE(frames));
	memcpy(frames, whole.frames, whole.count * sizeof(*frames));
	s.is_truncated = true;
	for (size_t len = 0; len < frames[15].return_slot; len += 4) {
		_cleanup_free_ uint8_t *copy = malloc(len ? len : 1);
		size_t want = 1;

		/* Exactly as long, for the sanitizer to see a read behind it. */
		ASSERT(copy);
		memcpy(copy, taken.copy, len);
		s.copy = copy;
		s.copy_len = len;
		while (frames[want - 1].return_slot + 8 <= len)
			want++;
		ASSERT(again(&f, &s, &u));
		EXPECT_EQ(u.reason, UNWIND_COPY_END);
		EXPECT_EQ(u.count, want);
		for (size_t i = 0; i < u.count; i++)
			EXPECT_EQ(u.frames[i].pc, frames[i].pc);
	}
	s.copy = taken.copy;
	s.is_truncated = false;
	s.copy_len = 64;
	ASSERT(again(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_OUTSIDE);
	s.copy_len = (size_t)1 << 40;
	EXPECT_EQ(unwind(f.unwinder, &s, &u), -E2BIG);
}

static uint32_t page_of(const struct raw_stack *s, uint32_t slot)
{
	return (uint32_t)((s->sp % STACK_PIECE + slot) / STACK_PIECE);
}

/* Each page in turn could not be read, and is zeros: which would be the end of the stack if they were believed. */
static void expect_pages_missed(struct fixture *f, bool has_address_slots)
{
	struct unwound whole, u;
	struct unwound_frame frames[512];
	bool is_needed[31] = {};
	struct raw_stack s;
	uint32_t pages;

	ASSERT(unwind_taken(f, &s, &whole));
	expect_as_backtrace(&s, &whole);
	ASSERT(whole.count <= ARRAY_SIZE(frames));
	memcpy(frames, whole.frames, whole.count * sizeof(*frames));
	pages = page_of(&s, frames[whole.count - 2].return_slot) + 1;
	ASSERT(pages >= 2 && pages <= ARRAY_SIZE(is_needed));
	EXPECT(!has_address_slots || whole.address_slot_count > 40);
	for (size_t i = 0; i + 1 < whole.count; i++)
		is_needed[page_of(&s, frames[i].return_slot)] = true;
	for (size_t i = 0; i < whole.address_slot_count; i++)
		is_needed[page_of(&s, whole.address_slots[i])] = true;
	for (uint32_t page = 0; page < pages; page++) {
		_cleanup_free_ uint8_t *copy = malloc(s.copy_len);
		size_t want = 1;

		ASSERT(copy);
		for (size_t i = 0; i < s.copy_len; i++)
			copy[i] = page_of(&s, (uint32_t)i) == page ? 0 : taken.copy[i];
		s.copy = copy;
		s.missing = 1u << page;
		ASSERT(again(f, &s, &u));
		EXPECT_EQ(u.reason, is_needed[page] ? UNWIND_MISSING : UNWIND_COMPLETE);
		while (want < whole.count && page_of(&s, frames[want - 1].return_slot) != page)
			want++;
		if (has_address_slots)
			EXPECT(u.count <= want);
		else
			EXPECT_EQ(u.count, want);
		for (size_t i = 0; i < u.count; i++)
			EXPECT_EQ(u.frames[i].pc, frames[i].pc);
		for (size_t i = 0; i < u.address_slot_count; i++)
			EXPECT(page_of(&s, u.address_slots[i]) != page);
		s.copy = taken.copy;
	}
	/* All others, which nobody needs. */
	for (uint32_t page = 0; page < pages; page++)
		s.missing &= ~(1u << page);
	s.missing |= ~0u << pages;
	ASSERT(again(f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_COMPLETE);
	EXPECT_STR(unwind_reason_text(UNWIND_MISSING), "part of the stack could not be read");
}

TEST(missing_pages)
{
	_cleanup_(fixture_done) struct fixture f = {};

	ASSERT(fixture_new(&f, ""));
	call(&f, "step0", 300);
	expect_pages_missed(&f, false);
	call(&f, "vla", 60);
	expect_pages_missed(&f, true);
}

static bool new_frame_pointer_unwinder(struct objects *objects, struct unwinder **ret)
{
	struct unwinder_limits limits = UNWINDER_LIMITS_DEFAULT;

	limits.frame_pointers_only = true;
	return unwinder_new(objects, &limits, ret) == 0;
}

TEST(frame_pointers_alone)
{
	_cleanup_(fixture_done) struct fixture f = {};
	_cleanup_(unwinder_freep) struct unwinder *frame_pointers = NULL;
	struct unwound u;
	struct raw_stack s;

	ASSERT(fixture_new(&f, "-fno-omit-frame-pointer"));
	ASSERT(new_frame_pointer_unwinder(f.objects, &frame_pointers));
	call(&f, "step0", 300);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	/* The C library may be compiled without. */
	ASSERT(unwind(frame_pointers, &s, &u) == 0);
	ASSERT(u.count >= 302);
	for (size_t i = 0; i < 302; i++) {
		EXPECT(i == 0 || u.frames[i].pc == (uint64_t)taken.trace[i]);
		EXPECT_EQ(u.frames[i].is_guessed, i > 0 && i + 1 < u.count);
	}
	expect_consistent(&s, &u);
	EXPECT_EQ(u.register_mask, 1u << 6);

	s.missing = 2;
	ASSERT(unwind(frame_pointers, &s, &u) == 0);
	EXPECT_EQ(u.reason, UNWIND_MISSING);
	EXPECT(u.count < 302);
	expect_consistent(&s, &u);
}

#define CODE UINT64_C(0x7f0000400000)
#define SP UINT64_C(0x7ffc00001fc0) /* 64 bytes below the end of a page */
#define SIGNED UINT64_C(0x3a91000000000000)

/* Stacks put together by hand, as on arm64 too: there a record lies at the bottom of its frame. */
TEST(frame_records_by_hand)
{
	static const char maps[] = "7f0000400000-7f0000500000 r-xp 00000000 00:00 0 \n";
	_cleanup_(objects_unrefp) struct objects *objects = NULL;
	_cleanup_(unwinder_freep) struct unwinder *unwinder = NULL;
	_cleanup_(address_space_unrefp) struct address_space *space = NULL;
	uint64_t words[24] = { [2] = SP + 8 * 10, CODE + 0x21, [10] = SP + 8 * 16, CODE + 0x31, [16] = 0, CODE + 0x41 };
	struct raw_stack s = { .ip = CODE, .sp = SP, .bp = SP + 16, .copy = (const uint8_t *)words,
			       .copy_len = sizeof(words), .at_entry = true };
	struct unwound u;

	ASSERT(maps_parse(maps, 1, 0, &space) == 0 && objects_new("/nonexistent", 1, &objects) == 0);
	ASSERT(new_frame_pointer_unwinder(objects, &unwinder));
	s.space = space;
	for (int is_link = 0; is_link < 2; is_link++) {
		const uint64_t cfas[2][5] = { { SP + 8, SP + 32, SP + 96, SP + 144, 0 },
					      { SP, SP + 80, SP + 128, 0, 0 } };
		const uint32_t slots[2][5] = { { 0, 24, 88, 136, UNWIND_NO_SLOT },
					       { UNWIND_NO_SLOT, 24, 88, 136, UNWIND_NO_SLOT } };

		/* Signed, as the return addresses in memory are. */
		s.lr = is_link ? SIGNED | (CODE + 0x11) : 0;
		words[0] = is_link ? 1 : CODE + 0x11;
		words[3] |= is_link ? SIGNED : 0;
		ASSERT(unwind(unwinder, &s, &u) == 0);
		EXPECT_EQ(u.reason, UNWIND_COMPLETE);
		ASSERT(u.count == 5);
		for (size_t i = 0; i < 5; i++) {
			EXPECT_EQ(u.frames[i].pc, CODE + 0x10 * i + (i > 0));
			EXPECT_EQ(u.frames[i].cfa, cfas[is_link][i]);
			EXPECT_EQ(u.frames[i].return_slot, slots[is_link][i]);
		}
		s.missing = 2; /* from word 8 on */
		ASSERT(unwind(unwinder, &s, &u) == 0);
		EXPECT_EQ(u.reason, UNWIND_MISSING);
		EXPECT_EQ(u.count, 3);
		s.missing = 0;
	}

	static const struct {
		uint64_t bp;
		enum unwind_reason reason;
	} ends[] = {
		{ 0, UNWIND_COMPLETE },	    { SP + 19, UNWIND_NO_INFO },	{ SP - 8, UNWIND_OUTSIDE },
		{ SP + 8, UNWIND_NOT_MAPPED }, { SP + 8 * 23, UNWIND_OUTSIDE }, { UINT64_MAX - 7, UNWIND_OUTSIDE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		s.bp = ends[i].bp;
		ASSERT(unwind(unwinder, &s, &u) == 0);
		EXPECT_EQ(u.reason, ends[i].reason);
		EXPECT_EQ(u.count, 2);
	}
	s.bp = SP + 16;
	words[2] = SP + 16; /* to itself */
	ASSERT(unwind(unwinder, &s, &u) == 0);
	EXPECT_EQ(u.reason, UNWIND_LOOP);
	EXPECT_EQ(u.count, 3);
	s.lr = SIGNED; /* nobody called it */
	ASSERT(unwind(unwinder, &s, &u) == 0);
	EXPECT_EQ(u.reason, UNWIND_COMPLETE);
	EXPECT_EQ(u.count, 1);
}

TEST(return_probe)
{
	_cleanup_(fixture_done) struct fixture f = {};
	_cleanup_(strbuf_done) struct strbuf maps = {};
	_cleanup_(address_space_unrefp) struct address_space *space = NULL;
	struct unwind_fix fix = {};
	const uint64_t trampoline = 0x7fffffffe000;
	struct unwound u;
	struct raw_stack s;
	uint32_t slot;

	ASSERT(fixture_new(&f, ""));
	call(&f, "step0", 9);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	slot = u.frames[4].return_slot;
	fix.address = s.sp + slot;
	fix.value = u.frames[5].pc;
	memcpy(taken.copy + slot, &trampoline, 8);
	for (size_t i = 0; i < f.space->count; i++) {
		const struct mapping *m = &f.space->mappings[i];

		if (m->end <= trampoline)
			strbuf_addf(&maps, "%llx-%llx r-xp %llx %x:%x %llu %s\n", (unsigned long long)m->start,
				    (unsigned long long)m->end, (unsigned long long)m->offset, m->dev_major,
				    m->dev_minor, (unsigned long long)m->inode, m->path);
	}
	strbuf_addf(&maps, "%llx-%llx --xp 00000000 00:00 0 [uprobes]\n", (unsigned long long)trampoline,
		    (unsigned long long)trampoline + 4096);
	ASSERT(maps_parse(strbuf_str(&maps), (uint32_t)getpid(), 0, &space) == 0);
	s.space = space;
	ASSERT(again(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_RETURN_PROBE);
	EXPECT_EQ(u.count, 5);
	EXPECT_EQ(u.frames[4].return_slot, slot);
	ASSERT(u.at);
	EXPECT_STR(u.at->path, "[uprobes]");

	s.fixes = &fix;
	s.fix_count = 1;
	ASSERT(again(&f, &s, &u));
	memcpy(taken.copy + slot, &fix.value, 8);
	expect_as_backtrace(&s, &u);
}

TEST(vdso)
{
	_cleanup_(fixture_done) struct fixture f = {};
	void *vdso = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD);
	void *function = vdso ? dlsym(vdso, "__vdso_clock_gettime") : NULL;
	struct unwound u;
	struct raw_stack s;

	ASSERT(fixture_new(&f, ""));
	ASSERT(function);
	call(&f, "step0", 5);
	ASSERT(unwind_taken(&f, &s, &u));
	/* As if step5 had called it. */
	s.ip = (uint64_t)function;
	s.at_entry = false;
	ASSERT(again(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_COMPLETE);
	EXPECT_EQ(u.count, taken.trace_len);
	EXPECT_IN(&u, 1, "step5");
	(void)dlclose(vdso);
}

TEST_MAIN()
