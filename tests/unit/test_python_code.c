/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/cleanup.h"
#include "fake_memory.h"
#include "stack/python_code.h"

#define CODE (FAKE_BASE + 0x100)
#define NAME (FAKE_BASE + 0x400)
#define FILE_NAME (FAKE_BASE + 0x500)
#define TABLE (FAKE_BASE + 0x600)
#define VERSION 77

/* 3.12, as python_layout_of() gives it. */
static const struct python_info info = {
	.probe = { .serial = 5 },
	.layout = { .lines = PYTHON_LINES_LOCATIONS, .code_bytes = 144, .code_filename = 112, .code_name = 120,
		    .code_qualname = 128, .code_table = 136, .code_first_line = 68, .code_check = 92,
		    .code_instrs = 192, .str_length = 16, .str_state = 32, .str_ascii = 40, .str_wide = 56,
		    .bytes_length = 16, .bytes_data = 32 },
};

static void put_ascii(struct fake_memory *f, uint64_t addr, const char *s)
{
	fake_word(f, addr + 16, strlen(s));
	fake_half(f, addr + 32, 0x64);
	fake_put(f, addr + 40, s, strlen(s));
}

/* Two instructions a line, from line 10 on: three entries of two units without columns. */
static void put_code(struct fake_memory *f, uint64_t code, uint32_t version)
{
	static const uint8_t table[] = { 0xe9, 0x00, 0xe9, 0x02, 0xe9, 0x02 };

	put_ascii(f, NAME, "Net.forward");
	put_ascii(f, FILE_NAME, "/src/net.py");
	fake_word(f, TABLE + 16, sizeof(table));
	fake_put(f, TABLE + 32, table, sizeof(table));
	fake_half(f, code + 68, 10);
	fake_half(f, code + 92, version);
	fake_word(f, code + 112, FILE_NAME);
	fake_word(f, code + 120, FILE_NAME); /* not asked for: there is a qualified name */
	fake_word(f, code + 128, NAME);
	fake_word(f, code + 136, TABLE);
}

static struct python_frame frame_at(uint64_t code, int offset)
{
	return (struct python_frame){ .code = code, .instr = code + 192 + (uint64_t)(int64_t)offset, .check = VERSION };
}

TEST(a_frame_has_a_name_and_a_line)
{
	_cleanup_(python_codes_freep) struct python_codes *c = NULL;
	struct python_name n = { 0 };
	struct fake_memory f;
	static const int offsets[] = { -2, 0, 2, 4, 8, 10 }, lines[] = { 10, 10, 10, 11, 12, 12 };

	fake_init(&f);
	put_code(&f, CODE, VERSION);
	ASSERT(python_codes_new(1 << 20, &c) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(offsets); i++) {
		struct python_frame fr = frame_at(CODE, offsets[i]);

		ASSERT(python_codes_resolve(c, &f.memory, &info, &fr, &n) == 0);
		EXPECT_STR(n.function, "Net.forward");
		EXPECT_STR(n.file, "/src/net.py");
		EXPECT_EQ(n.first_line, 10);
		EXPECT_EQ(n.line, lines[i]);
	}
	struct python_frame past = frame_at(CODE, 12);

	ASSERT(python_codes_resolve(c, &f.memory, &info, &past, &n) == 0);
	EXPECT_EQ(n.line, 0);
}

TEST(names_outlive_the_process)
{
	_cleanup_(python_codes_freep) struct python_codes *c = NULL;
	struct python_frame known = frame_at(CODE, 0), new = frame_at(CODE + 0x200, 0);
	struct python_name n = { 0 };
	struct fake_memory f;

	fake_init(&f);
	put_code(&f, CODE, VERSION);
	ASSERT(python_codes_new(1 << 20, &c) == 0);
	ASSERT(python_codes_resolve(c, &f.memory, &info, &known, &n) == 0);
	f.read_error = -ESRCH;
	EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &known, &n), 0);
	EXPECT_STR(n.function, "Net.forward");
	EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &new, &n), -ESRCH);
	f.read_error = -EPERM;
	EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &new, &n), -EPERM);
}

TEST(another_process_with_the_same_pid)
{
	_cleanup_(python_codes_freep) struct python_codes *c = NULL;
	struct python_frame fr = frame_at(CODE, 0);
	struct python_info next = info;
	struct python_name n = { 0 };
	struct fake_memory f;

	fake_init(&f);
	put_code(&f, CODE, VERSION);
	ASSERT(python_codes_new(1 << 20, &c) == 0);
	f.check_error = -ESRCH;
	EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &fr, &n), -ESRCH);
	f.check_error = 0;
	ASSERT(python_codes_resolve(c, &f.memory, &info, &fr, &n) == 0);
	/* The next image may have another function at the same place, with the same version. */
	next.probe.serial = 6;
	put_ascii(&f, NAME, "other_funct");
	ASSERT(python_codes_resolve(c, &f.memory, &next, &fr, &n) == 0);
	EXPECT_STR(n.function, "other_funct");
	ASSERT(python_codes_resolve(c, &f.memory, &info, &fr, &n) == 0);
	EXPECT_STR(n.function, "Net.forward");
}

TEST(freed_code_is_known)
{
	_cleanup_(python_codes_freep) struct python_codes *c = NULL;
	struct python_frame fr = frame_at(CODE, 0), away = frame_at(FAKE_BASE + FAKE_BYTES, 0);
	struct python_name n = { 0 };
	struct fake_memory f;

	fake_init(&f);
	ASSERT(python_codes_new(1 << 20, &c) == 0);
	put_code(&f, CODE, VERSION + 1);
	EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &fr, &n), -ESTALE);
	EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &away, &n), -ESTALE); /* unmapped */
	/* Freed while it is read, at any point. */
	for (int i = 1; i < 7; i++) {
		put_code(&f, CODE, VERSION);
		f.flip_addr = CODE + 92;
		f.reads = 0;
		f.flip_after = i;
		EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &fr, &n), -ESTALE);
	}
	f.flip_addr = 0;
	/* The word is right by chance, the rest is not. */
	static const uint16_t fields[] = { 112, 128, 136 };

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		put_code(&f, CODE, VERSION);
		fake_word(&f, CODE + fields[i], 0);
		EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &fr, &n), -ESTALE);
		fake_word(&f, CODE + fields[i], 0x1234);
		EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &fr, &n), -ESTALE);
	}
	put_code(&f, CODE, VERSION);
	EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &fr, &n), 0);
}

/* With the memory gone, only what is remembered has a name. */
static int count_known(struct python_codes *c, struct fake_memory *f, int codes)
{
	struct python_name n;
	int known = 0;

	f->read_error = -ESRCH;
	for (int i = 0; i < codes; i++) {
		struct python_frame fr = frame_at(FAKE_BASE + 0x1000 + 0x100 * (uint64_t)i, 0);

		known += python_codes_resolve(c, &f->memory, &info, &fr, &n) == 0;
	}
	f->read_error = 0;
	return known;
}

TEST(memory_is_bounded)
{
	enum { CODES = 200 };
	_cleanup_(python_codes_freep) struct python_codes *c = NULL;
	struct python_frame first = frame_at(FAKE_BASE + 0x1000, 0);
	struct python_name n = { 0 };
	struct fake_memory f;
	int known;

	fake_init(&f);
	ASSERT(python_codes_new(4096, &c) == 0);
	for (int i = 0; i < CODES; i++) {
		struct python_frame fr = frame_at(FAKE_BASE + 0x1000 + 0x100 * (uint64_t)i, 0);

		put_code(&f, fr.code, VERSION);
		ASSERT(python_codes_resolve(c, &f.memory, &info, &fr, &n) == 0);
		ASSERT(python_codes_resolve(c, &f.memory, &info, &first, &n) == 0); /* used all the time: stays */
	}
	known = count_known(c, &f, CODES);
	EXPECT(known > 5 && known < 40);
	f.read_error = -ESRCH;
	EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &first, &n), 0);
}

TEST(one_larger_than_all_memory_still_has_a_name)
{
	_cleanup_(python_codes_freep) struct python_codes *c = NULL;
	struct python_frame fr = frame_at(CODE, 4);
	struct python_name n = { 0 };
	struct fake_memory f;

	fake_init(&f);
	put_code(&f, CODE, VERSION);
	ASSERT(python_codes_new(1, &c) == 0);
	for (int i = 0; i < 3; i++) {
		ASSERT(python_codes_resolve(c, &f.memory, &info, &fr, &n) == 0);
		EXPECT_STR(n.function, "Net.forward");
		EXPECT_EQ(n.line, 11);
	}
}

TEST(versions_with_an_index_instead_of_an_address)
{
	static const uint8_t lnotab[] = { 4, 1, 4, 1 }, ranges[] = { 4, 0, 4, 1, 4, 1 };
	static const int index[] = { 0, 2, 4, 8 }, line_9[] = { 10, 10, 11, 12 }, line_10[] = { 10, 11, 12, 0 };
	struct python_info old = info;
	struct fake_memory f;

	old.layout.code_instrs = 0;
	for (int version = 9; version <= 10; version++) {
		_cleanup_(python_codes_freep) struct python_codes *c = NULL;

		fake_init(&f);
		put_code(&f, CODE, VERSION);
		old.layout.lines = version == 9 ? PYTHON_LINES_LNOTAB : PYTHON_LINES_RANGES;
		size_t len = version == 9 ? sizeof(lnotab) : sizeof(ranges);

		fake_word(&f, TABLE + 16, len);
		fake_put(&f, TABLE + 32, version == 9 ? lnotab : ranges, len);
		ASSERT(python_codes_new(1 << 20, &c) == 0);
		for (size_t i = 0; i < ARRAY_SIZE(index); i++) {
			struct python_frame fr = { .code = CODE, .instr = (uint64_t)index[i], .check = VERSION };
			struct python_name n = { 0 };

			ASSERT(python_codes_resolve(c, &f.memory, &old, &fr, &n) == 0);
			EXPECT_EQ(n.line, version == 9 ? line_9[i] : line_10[i]);
		}
	}
}

TEST_MAIN()
