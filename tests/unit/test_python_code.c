/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "fake_memory.h"
#include "stack/python_code.h"

#define CODE (FAKE_BASE + 0x100)
#define NAME (FAKE_BASE + 0x400)
#define FILE_NAME (FAKE_BASE + 0x500)
#define TABLE (FAKE_BASE + 0x600)
#define TYPE (FAKE_BASE + 0x800)
#define TYPE_NAME (FAKE_BASE + 0x900)
#define VERSION 77
#define UNITS 6

/* 3.12, as python_layout_of() gives it. */
static const struct python_info info = {
	.probe = { .serial = 5 },
	.code_type = TYPE,
	.layout = { .lines = PYTHON_LINES_LOCATIONS, .code_bytes = 144, .code_filename = 112, .code_name = 120,
		    .code_qualname = 128, .code_table = 136, .code_first_line = 68, .code_check = 92,
		    .code_instrs = 192, .code_units = 16, .str_length = 16, .str_state = 32, .str_ascii = 40,
		    .str_wide = 56, .bytes_length = 16, .bytes_data = 32, .refcount_zero = 0xffffffff00000000 },
};

static void put_ascii(struct fake_memory *f, uint64_t addr, const char *s)
{
	fake_word(f, addr + 16, strlen(s));
	fake_half(f, addr + 32, 0x64);
	fake_put(f, addr + 40, s, strlen(s) + 1);
}

/* Two instructions a line, from line 10 on: three entries of two units without columns. */
static void put_code(struct fake_memory *f, uint64_t code, uint32_t version)
{
	static const uint8_t table[] = { 0xe9, 0x00, 0xe9, 0x02, 0xe9, 0x02 };

	put_ascii(f, NAME, "Net.forward");
	put_ascii(f, FILE_NAME, "/src/net.py");
	fake_word(f, TABLE + 16, sizeof(table));
	fake_put(f, TABLE + 32, table, sizeof(table));
	fake_put(f, TABLE + 32 + sizeof(table), "", 1);
	fake_word(f, code, 3);
	fake_word(f, code + 8, TYPE);
	fake_word(f, code + 16, UNITS);
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
	/* No instruction of this code: it is not the frame's. */
	struct python_frame past = frame_at(CODE, 2 * UNITS), before = frame_at(CODE, -4);

	EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &past, &n), -ESTALE);
	EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &before, &n), -ESTALE);
}

TEST(an_instruction_without_a_line)
{
	static const uint8_t table[] = { 0xe9, 0x00, 0xf9, 0xe9, 0x02 };
	_cleanup_(python_codes_freep) struct python_codes *c = NULL;
	struct python_frame fr = frame_at(CODE, 4);
	struct python_name n = { .line = 5 };
	struct fake_memory f;

	fake_init(&f);
	put_code(&f, CODE, VERSION);
	fake_word(&f, TABLE + 16, sizeof(table));
	fake_put(&f, TABLE + 32, table, sizeof(table));
	fake_put(&f, TABLE + 32 + sizeof(table), "", 1);
	ASSERT(python_codes_new(1 << 20, &c) == 0);
	ASSERT(python_codes_resolve(c, &f.memory, &info, &fr, &n) == 0);
	EXPECT_STR(n.function, "Net.forward");
	EXPECT_EQ(n.line, 0);
	EXPECT_EQ(n.first_line, 10);
}

TEST(what_it_costs)
{
	_cleanup_(python_codes_freep) struct python_codes *c = NULL;
	struct python_frame fr = frame_at(CODE, 0);
	struct python_info own_type = info;
	struct python_name n;
	struct fake_memory f;

	fake_init(&f);
	put_code(&f, CODE, VERSION);
	ASSERT(python_codes_new(1 << 20, &c) == 0);
	ASSERT(python_codes_resolve(c, &f.memory, &info, &fr, &n) == 0);
	EXPECT_EQ(f.reads, 5); /* the code object twice, two names, a table */
	fr.instr += 4;
	ASSERT(python_codes_resolve(c, &f.memory, &info, &fr, &n) == 0);
	EXPECT_EQ(f.reads, 5);
	/* Where the type is not known by its address, by its name. */
	own_type.probe.serial++;
	own_type.code_type = 0;
	fake_word(&f, TYPE + 24, TYPE_NAME);
	fake_put(&f, TYPE_NAME, "code", 5);
	ASSERT(python_codes_resolve(c, &f.memory, &own_type, &fr, &n) == 0);
	EXPECT_EQ(f.reads, 12);
}

/* What has rested is forgotten and read again, which takes its five reads; what is in use is not. */
TEST(what_rests_is_forgotten)
{
	_cleanup_(python_codes_freep) struct python_codes *c = NULL;
	struct python_frame old = frame_at(CODE, 0), used = frame_at(CODE + 0x200, 0);
	struct python_name n;
	struct fake_memory f;
	uint64_t between;

	fake_init(&f);
	put_code(&f, CODE, VERSION);
	put_code(&f, CODE + 0x200, VERSION);
	ASSERT(python_codes_new(1 << 20, &c) == 0);
	ASSERT(python_codes_resolve(c, &f.memory, &info, &used, &n) == 0);
	ASSERT(python_codes_resolve(c, &f.memory, &info, &old, &n) == 0);
	python_codes_trim(c, 0);
	between = clock_monotonic_ns();
	ASSERT(python_codes_resolve(c, &f.memory, &info, &used, &n) == 0);
	EXPECT_EQ(f.reads, 10);
	python_codes_trim(c, between);
	ASSERT(python_codes_resolve(c, &f.memory, &info, &used, &n) == 0);
	EXPECT_EQ(f.reads, 10);
	ASSERT(python_codes_resolve(c, &f.memory, &info, &old, &n) == 0);
	EXPECT_EQ(f.reads, 15);
	python_codes_trim(c, UINT64_MAX);
	ASSERT(python_codes_resolve(c, &f.memory, &info, &old, &n) == 0);
	EXPECT_EQ(f.reads, 20);
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
	static const struct {
		uint16_t at;
		uint64_t word;
	} changes[] = {
		{ 88, 0 },		   /* another version */
		{ 0, 0 },		   /* nobody's, or the last free block */
		{ 0, 0x7f0000001000 },	   /* another free block is linked */
		{ 8, 0x7f0000001000 },	   /* ... from the second word */
		{ 112, FILE_NAME + 0x100 }, /* another code object that has the same version */
		{ 128, NAME + 0x10 },
		{ 136, 0x1234 },
	};

	for (size_t j = 0; j < ARRAY_SIZE(changes); j++)
		for (int i = 0; i < 5; i++) {
			put_code(&f, CODE, VERSION);
			f.flip_addr = CODE + changes[j].at;
			f.flip_word = changes[j].word;
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

/* Each way that an object's first word may look when it lives, and when it does not. */
TEST(reference_counts)
{
	static const struct {
		uint64_t word;
		bool lives, lives_14;
	} counts[] = {
		{ 1, true, true },
		{ 0xffffffff, true, true }, /* immortal in 3.12 and 3.13 */
		{ 999999999, true, true },
		{ 0x0005000000000001, false, true }, /* flags */
		{ 0x00050000c0000000, false, true },
		{ 0, false, false },
		{ 0x0005000000000000, false, false },
		{ 0x0000000100000000, false, false },
		{ 0x00007f0000001000, false, false },
		{ 0xdddddddddddddddd, false, false },
	};
	struct python_frame fr = frame_at(CODE, 0);
	struct python_info later = info;
	struct fake_memory f;

	later.layout.refcount_zero = 0x0000ffff00000000;
	fake_init(&f);
	put_code(&f, CODE, VERSION);
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		_cleanup_(python_codes_freep) struct python_codes *c = NULL, *c14 = NULL;
		struct python_name n;

		ASSERT(python_codes_new(1 << 20, &c) == 0 && python_codes_new(1 << 20, &c14) == 0);
		fake_word(&f, CODE, counts[i].word);
		EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &fr, &n), counts[i].lives ? 0 : -ESTALE);
		EXPECT_EQ(python_codes_resolve(c14, &f.memory, &later, &fr, &n), counts[i].lives_14 ? 0 : -ESTALE);
	}
}

TEST(other_objects_are_no_code)
{
	_cleanup_(python_codes_freep) struct python_codes *c = NULL;
	struct python_frame fr = frame_at(CODE, 0);
	struct python_name n;
	struct fake_memory f;

	fake_init(&f);
	put_code(&f, CODE, VERSION);
	ASSERT(python_codes_new(1 << 20, &c) == 0);
	fake_word(&f, CODE + 8, TYPE + 8);
	EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &fr, &n), -ESTALE);
	fake_word(&f, TYPE + 8 + 24, TYPE_NAME);
	fake_put(&f, TYPE_NAME, "coder", 6);
	EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &fr, &n), -ESTALE);
	fake_word(&f, CODE + 8, 0x1234);
	EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &fr, &n), -ESTALE);
	/* Strings and tables that are none. */
	static const uint64_t lengths[] = { NAME + 16, FILE_NAME + 16, TABLE + 16 };

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		put_code(&f, CODE, VERSION);
		fake_word(&f, lengths[i], 1ull << 40);
		EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &fr, &n), -ESTALE);
		fake_word(&f, lengths[i], 3); /* does not end there */
		EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &fr, &n), -ESTALE);
	}
	put_code(&f, CODE, VERSION);
	EXPECT_EQ(python_codes_resolve(c, &f.memory, &info, &fr, &n), 0);
}

/* With the name of the file of the code object that is there. */
static uint32_t check_of_old(const struct fake_memory *f, const __u64 *words, uint32_t count)
{
	__u64 text[PYTHON_TEXT_WORDS], file;

	memcpy(&file, f->bytes + (CODE - FAKE_BASE) + info.layout.code_filename, sizeof(file));
	memcpy(text, f->bytes + (file - FAKE_BASE) + PYTHON_TEXT_AT, sizeof(text));
	return python_check_text(python_check_of(words, count), text);
}

/* What never changes in a str goes in, and nothing else. */
TEST(checks_of_text)
{
	__u64 ascii[PYTHON_TEXT_WORDS] = { 10, 77, 1u << 6 | 1u << 2, 0, 0x6867666564636261, 0xffff6a69 };
	__u64 wide[PYTHON_TEXT_WORDS] = { 3, 77, 2u << 2, 0, 1, 2, 3, 0xffff000300020001 };
	const uint32_t a = python_check_text(5, ascii), w = python_check_text(5, wide);

	ascii[1]++; /* the hash, once it is known */
	ascii[5] ^= 1ull << 16; /* behind the string */
	ascii[6]++;
	EXPECT_EQ(python_check_text(5, ascii), a);
	EXPECT(python_check_text(6, ascii) != a);
	ascii[5] ^= 1ull << 15;
	EXPECT(python_check_text(5, ascii) != a);
	wide[4]++; /* its UTF-8 form, once it is known */
	wide[5]++;
	wide[7] ^= 1ull << 48;
	EXPECT_EQ(python_check_text(5, wide), w);
	wide[7] ^= 1ull << 47;
	EXPECT(python_check_text(5, wide) != w);
	wide[7] ^= 1ull << 47;
	wide[0] = ~0ull; /* no length that one can believe */
	EXPECT(python_check_text(5, wide) != w);
}

/* 3.9 to 3.11: the check is made of many words, each of which counts. */
TEST(checks_of_many_words)
{
	enum { FROM = 72, WORDS = 9 };
	_cleanup_(python_codes_freep) struct python_codes *c = NULL;
	struct python_frame fr = frame_at(CODE, 0), first;
	struct python_info old = info;
	struct python_name n;
	struct fake_memory f;
	__u64 words[WORDS];

	old.layout.code_check = FROM;
	old.layout.check_words = WORDS;
	fake_init(&f);
	put_code(&f, CODE, VERSION);
	memcpy(words, f.bytes + (CODE - FAKE_BASE) + FROM, sizeof(words));
	fr.check = check_of_old(&f, words, WORDS);
	first = fr;
	ASSERT(python_codes_new(1 << 20, &c) == 0);
	ASSERT(python_codes_resolve(c, &f.memory, &old, &fr, &n) == 0);
	for (int i = 0; i < WORDS; i++) {
		words[i] ^= 1ull << 40;
		EXPECT(check_of_old(&f, words, WORDS) != first.check);
		fr.check = check_of_old(&f, words, WORDS);
		EXPECT_EQ(python_codes_resolve(c, &f.memory, &old, &fr, &n), -ESTALE);
		words[i] ^= 1ull << 40;
	}
	/* Another one at the same place, from the same line: what is known of the one is not said of the other. */
	put_ascii(&f, NAME + 0x80, "other");
	fake_word(&f, CODE + 128, NAME + 0x80);
	memcpy(words, f.bytes + (CODE - FAKE_BASE) + FROM, sizeof(words));
	fr.check = check_of_old(&f, words, WORDS);
	ASSERT(python_codes_resolve(c, &f.memory, &old, &fr, &n) == 0);
	EXPECT_STR(n.function, "other");
	ASSERT(python_codes_resolve(c, &f.memory, &old, &first, &n) == 0);
	EXPECT_STR(n.function, "Net.forward");
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

	old.layout.code_instrs = old.layout.code_units = 0;
	for (int version = 9; version <= 10; version++) {
		_cleanup_(python_codes_freep) struct python_codes *c = NULL;

		fake_init(&f);
		put_code(&f, CODE, VERSION);
		old.layout.lines = version == 9 ? PYTHON_LINES_LNOTAB : PYTHON_LINES_RANGES;
		size_t len = version == 9 ? sizeof(lnotab) : sizeof(ranges);

		fake_word(&f, TABLE + 16, len);
		fake_put(&f, TABLE + 32, version == 9 ? lnotab : ranges, len);
		fake_put(&f, TABLE + 32 + len, "", 1);
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
