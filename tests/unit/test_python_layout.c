/* SPDX-License-Identifier: MIT */
/* Which layout a version gets. The table that 3.13 begins with is as 3.13.0 has it; 3.14's is made by its headers. */
#include "test.h"

#include "base/cleanup.h"
#include "fake_memory.h"
#include "stack/image.h"
#include "stack/python_offsets.h"

#include <dlfcn.h>
#include <unistd.h>

#define RUNTIME FAKE_BASE
#define INTERP (FAKE_BASE + 0x2000)
#define THREAD (FAKE_BASE + 0x6000)

/* From its 8th byte on, as CPython 3.13.0 has it in memory; the words up to the unicode object's. */
static const uint64_t table_13[] = {
	51183856, 0, 283320, 608, 632, 194968, 7272, 7264, 7344, 7400, 7656, 7640, 7648, 16, 7752, 0, 7768, 7760, 304,
	0, 8, 16, 72, 152, 160, 232, 32, 80, 8, 0, 56, 72, 70, 208, 112, 120, 128, 136, 68, 52, 96, 104, 200, 16, 8,
	416, 24, 88, 168, 32, 24, 16, 40, 24, 16, 48, 32, 40, 24, 16, 32, 16, 24, 40, 16, 32, 64, 32, 16, 40, 240, 200,
};

struct want {
	uint64_t heads;
	uint16_t threads, thread_id, frame, bytes, back, code, instr, owner, check, words, instrs;
};

static void put_pointers(struct fake_memory *f, uint64_t heads, uint16_t threads)
{
	fake_word(f, RUNTIME + heads, INTERP);
	fake_word(f, INTERP + threads, THREAD);
	fake_word(f, THREAD + 16, INTERP);
}

static void check_version(struct fake_memory *f, uint32_t version, const struct want *w)
{
	struct python_info i = { 0 };

	ASSERT(python_layout_of(&f->memory, RUNTIME, version, &i) == 0);
	EXPECT_EQ(i.version, version);
	EXPECT_EQ(i.runtime, RUNTIME);
	EXPECT_EQ(i.probe.heads, RUNTIME + w->heads);
	EXPECT_EQ(i.probe.interp_threads, w->threads);
	EXPECT_EQ(i.probe.thread_prev, 0);
	EXPECT_EQ(i.probe.thread_next, 8);
	EXPECT_EQ(i.probe.thread_interp, 16);
	EXPECT_EQ(i.probe.thread_id, w->thread_id);
	EXPECT_EQ(i.probe.thread_frame, w->frame);
	EXPECT_EQ(i.probe.frame_bytes, w->bytes);
	EXPECT_EQ(i.probe.frame_back, w->back);
	EXPECT_EQ(i.probe.frame_code, w->code);
	EXPECT_EQ(i.probe.frame_instr, w->instr);
	EXPECT_EQ(i.probe.frame_owner, w->owner);
	EXPECT_EQ(i.probe.code_check, w->check);
	EXPECT_EQ(i.layout.code_check, w->check);
	EXPECT_EQ(i.probe.check_words, w->words);
	EXPECT_EQ(i.layout.check_words, w->words);
	/* From the first line to the line table, or the version. */
	EXPECT(w->words == 0 || (w->check == i.layout.code_first_line && w->words <= PYTHON_CHECK_WORDS_MAX &&
				 w->check + 8 * w->words == i.layout.code_table + 8));
	EXPECT_EQ(i.probe.thread_bytes, w->thread_id + 8);
	EXPECT(i.probe.thread_bytes < PYTHON_THREAD_BYTES_MAX); /* the probe masks it */
	EXPECT_EQ(i.layout.refcount_zero, version >> 16 < 0x030e ? 0xffffffff00000000 : 0x0000ffff00000000);
	EXPECT_EQ(i.layout.code_units, w->instrs ? 16 : 0);
	EXPECT_EQ(i.layout.code_instrs, w->instrs);
	/* What one read takes holds all that is looked at in it. */
	EXPECT(i.probe.frame_bytes <= PYTHON_FRAME_BYTES_MAX);
	EXPECT(i.probe.frame_instr + 8 <= i.probe.frame_bytes && i.probe.frame_owner < i.probe.frame_bytes);
	EXPECT(i.layout.code_bytes <= PYTHON_CODE_BYTES_MAX);
	EXPECT(i.layout.code_table + 8 <= i.layout.code_bytes && i.layout.code_check + 4 <= i.layout.code_bytes);
	EXPECT(i.layout.str_state + 4 <= i.layout.str_ascii && i.layout.str_ascii < i.layout.str_wide);
}

TEST(versions_with_a_table_of_ours)
{
	static const struct want want[] = {
		{ 32, 8, 176, 24, 112, 24, 32, 104, 0, 40, 11, 0 },
		{ 32, 8, 176, 24, 104, 24, 32, 96, 0, 40, 11, 0 },
		{ 40, 16, 152, 56, 72, 48, 32, 56, 69, 72, 9, 184 },
		{ 40, 72, 136, 56, 72, 8, 0, 56, 70, 92, 0, 192 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		struct fake_memory f;

		fake_init(&f);
		put_pointers(&f, want[i].heads, want[i].threads);
		check_version(&f, 0x03000000 | (uint32_t)(9 + i) << 16 | 0x05f0, &want[i]);
	}
}

static void put_table_13(struct fake_memory *f)
{
	fake_put(f, RUNTIME, "xdebugpy", 8);
	fake_put(f, RUNTIME + 8, table_13, sizeof(table_13));
	put_pointers(f, 632, 7344);
}

/* Two words more in the interpreter's part from the third on, and so on: see pycore_debug_offsets.h. */
static void put_table_14(struct fake_memory *f)
{
	static const struct {
		uint16_t at, value;
	} words[] = {
		{ 40, 840 }, { 64, 7264 }, { 72, 7352 }, { 184, 0 }, { 192, 8 }, { 200, 16 }, { 208, 72 }, { 216, 152 },
		{ 256, 8 }, { 264, 0 }, { 272, 56 }, { 288, 74 }, { 320, 112 }, { 328, 120 }, { 336, 128 },
		{ 344, 136 }, { 352, 68 }, { 384, 208 }, { 624, 32 }, { 632, 16 }, { 640, 40 },
	};

	fake_put(f, RUNTIME, "xdebugpy", 8);
	fake_word(f, RUNTIME + 8, 0x030e00f0);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		fake_word(f, RUNTIME + words[i].at, words[i].value);
	put_pointers(f, 840, 7352);
}

TEST(versions_that_bring_a_table)
{
	static const struct want want_13 = { 632, 7344, 152, 72, 72, 8, 0, 56, 70, 92, 0, 200 };
	static const struct want want_14 = { 840, 7352, 152, 72, 80, 8, 0, 56, 74, 92, 0, 208 };
	struct fake_memory f;

	fake_init(&f);
	put_table_13(&f);
	check_version(&f, 0x030d00f0, &want_13);
	fake_init(&f);
	put_table_14(&f);
	check_version(&f, 0x030e01f0, &want_14);
}

static int layout_13(struct fake_memory *f)
{
	struct python_info i;

	return python_layout_of(&f->memory, RUNTIME, 0x030d00f0, &i);
}

TEST(tables_that_are_refused)
{
	struct fake_memory f;
	/* frame.instr_ptr, frame.previous, frame.owner, code.filename, code.qualname, firstlineno, unicode.state */
	static const uint16_t large[] = { 248, 232, 264, 280, 296, 312, 544 };

	fake_init(&f);
	put_table_13(&f);
	ASSERT(layout_13(&f) == 0);
	fake_word(&f, RUNTIME + 16, 1); /* free-threaded */
	EXPECT_EQ(layout_13(&f), -EOPNOTSUPP);
	put_table_13(&f);
	fake_word(&f, RUNTIME + 8, 0x030e00f0);
	EXPECT_EQ(layout_13(&f), -EOPNOTSUPP);
	put_table_13(&f);
	fake_word(&f, RUNTIME, 0);
	EXPECT_EQ(layout_13(&f), -EOPNOTSUPP);
	for (size_t i = 0; i < ARRAY_SIZE(large); i++) {
		put_table_13(&f);
		fake_word(&f, RUNTIME + large[i], 1ull << 40);
		EXPECT_EQ(layout_13(&f), -EOPNOTSUPP);
		fake_word(&f, RUNTIME + large[i], PYTHON_CODE_BYTES_MAX);
		EXPECT_EQ(layout_13(&f), -EOPNOTSUPP);
	}
	put_table_13(&f);
	fake_word(&f, RUNTIME + 248, 57); /* the probe reads whole words */
	EXPECT_EQ(layout_13(&f), -EOPNOTSUPP);
	put_table_13(&f);
	fake_word(&f, RUNTIME + 192, 248); /* with the thread's id more than the probe has room for */
	EXPECT_EQ(layout_13(&f), -EOPNOTSUPP);
	put_table_13(&f);
	fake_word(&f, RUNTIME + 312, 72); /* co_version is somewhere else, too */
	EXPECT_EQ(layout_13(&f), -EOPNOTSUPP);
}

TEST(versions_that_are_refused)
{
	static const uint32_t versions[] = { 0x030800f0, 0x030f00f0, 0x020712f0, 0x040900f0, 0, UINT32_MAX };
	struct python_info i;
	struct fake_memory f;

	fake_init(&f);
	for (size_t n = 0; n < ARRAY_SIZE(versions); n++)
		EXPECT_EQ(python_layout_of(&f.memory, RUNTIME, versions[n], &i), -EOPNOTSUPP);
}

TEST(pointers_must_agree)
{
	struct python_info i;
	struct fake_memory f;

	fake_init(&f);
	EXPECT_EQ(python_layout_of(&f.memory, RUNTIME, 0x030b07f0, &i), -EAGAIN); /* no interpreter yet */
	fake_word(&f, RUNTIME + 40, INTERP);
	EXPECT_EQ(python_layout_of(&f.memory, RUNTIME, 0x030b07f0, &i), -EAGAIN); /* nor a thread */
	fake_word(&f, INTERP + 16, THREAD);
	EXPECT_EQ(python_layout_of(&f.memory, RUNTIME, 0x030b07f0, &i), -EOPNOTSUPP);
	fake_word(&f, THREAD + 16, INTERP);
	EXPECT_EQ(python_layout_of(&f.memory, RUNTIME, 0x030b07f0, &i), 0);
	fake_word(&f, INTERP + 16, 8);
	EXPECT_EQ(python_layout_of(&f.memory, RUNTIME, 0x030b07f0, &i), -EOPNOTSUPP);
	fake_word(&f, RUNTIME + 40, 8);
	EXPECT_EQ(python_layout_of(&f.memory, RUNTIME, 0x030b07f0, &i), -EOPNOTSUPP);
	f.read_error = -EPERM;
	EXPECT_EQ(python_layout_of(&f.memory, RUNTIME, 0x030b07f0, &i), -EPERM);
}

TEST(this_process_has_no_python)
{
	struct memory m = memory_of("/proc", (uint32_t)getpid(), 0), gone = memory_of("/proc", 1u << 30, 0),
		      other = memory_of("/proc", (uint32_t)getpid(), 1);
	struct python_info i = { 0 };

	EXPECT_EQ(python_find(&m, 1, &i), -ENOENT);
	EXPECT_EQ(python_find(&gone, 1, &i), -ESRCH);
	EXPECT_EQ(python_find(&other, 1, &i), -ESRCH); /* a process that started at another time */
}

TEST(exported_symbols_are_found)
{
	static const char *const names[] = { "malloc", "printf", "dlsym", "getpid", "environ" };
	struct memory m = memory_of("/proc", (uint32_t)getpid(), 0);
	Dl_info info;
	struct image im;
	uint64_t at;

	/* Through the dynamic linker: a sanitizer puts its own functions first. */
	ASSERT(dladdr((void *)(uintptr_t)dlsym(RTLD_NEXT, "gnu_get_libc_version"), &info) != 0);
	void *libc = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);

	ASSERT(libc && image_open(&m, (uint64_t)(uintptr_t)info.dli_fbase, &im) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		Dl_info found;

		EXPECT_EQ(image_symbol(&m, &im, names[i], &at), 0);
		EXPECT(dladdr((void *)(uintptr_t)at, &found) != 0 && found.dli_fbase == info.dli_fbase);
		if (strcmp(names[i], "printf") != 0 && strcmp(names[i], "malloc") != 0)
			EXPECT_EQ(at, (uint64_t)(uintptr_t)dlsym(libc, names[i]));
	}
	EXPECT_EQ(image_symbol(&m, &im, "_PyRuntime", &at), -ENOENT);
	EXPECT_EQ(image_symbol(&m, &im, "", &at), -ENOENT);
	EXPECT_EQ(image_open(&m, (uint64_t)(uintptr_t)info.dli_fbase + 4096, &im), -ENOEXEC);
	EXPECT_EQ(image_open(&m, 8, &im), -EFAULT);
	dlclose(libc);
}

TEST_MAIN()
