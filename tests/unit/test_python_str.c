/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "fake_memory.h"
#include "stack/python_str.h"

#define COMPACT 0x20u
#define ASCII 0x40u

/* 3.12 and later. */
static const struct python_layout layout = { .str_length = 16, .str_state = 32, .str_ascii = 40, .str_wide = 56,
					     .bytes_length = 16, .bytes_data = 32 };

static void check_chars(const void *data, size_t chars, unsigned int width, const char *want)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	python_chars(&sb, data, chars, width);
	EXPECT_STR(strbuf_str(&sb), want);
}

TEST(characters_of_each_width)
{
	static const uint16_t two[] = { 'a', 0xe9, 0x6f22, 0xffff };
	static const uint32_t four[] = { 'a', 0x7f, 0x80, 0x7ff, 0x800, 0x1f600, 0x10ffff };

	check_chars("abc", 3, 1, "abc");
	check_chars("caf\xe9", 4, 1, "caf\xc3\xa9");
	check_chars(two, 4, 2, "a\xc3\xa9\xe6\xbc\xa2\xef\xbf\xbf");
	check_chars(four, 7, 4, "a\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf");
	check_chars("", 0, 1, "");
}

TEST(bytes_that_were_no_utf8_come_back)
{
	static const uint16_t raw[] = { 'x', 0xdc80, 0xdcff, 'y' };

	check_chars(raw, 4, 2, "x\x80\xffy");
}

TEST(what_is_no_character)
{
	static const uint32_t bad[] = { 0, 0xd800, 0xdc7f, 0xdd00, 0xdfff, 0x110000, 0xffffffff };

	check_chars(bad, 7, 4,
		    "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

static void put_str(struct fake_memory *f, uint64_t addr, uint64_t length, uint32_t state, const void *data, size_t len)
{
	fake_word(f, addr + 16, length);
	fake_half(f, addr + 32, state);
	fake_put(f, addr + (state & ASCII ? 40 : 56), data, len);
	fake_word(f, addr + (state & ASCII ? 40 : 56) + len, 0);
}

static int read_str(struct fake_memory *f, size_t max, struct strbuf *sb)
{
	strbuf_reset(sb);
	return python_str_read(&f->memory, &layout, FAKE_BASE, max, sb);
}

TEST(str_objects)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct fake_memory f;

	fake_init(&f);
	put_str(&f, FAKE_BASE, 5, COMPACT | ASCII | 1 << 2, "hello", 5);
	EXPECT_EQ(read_str(&f, 100, &sb), 0);
	EXPECT_STR(strbuf_str(&sb), "hello");
	EXPECT_EQ(read_str(&f, 5, &sb), 0);
	EXPECT_STR(strbuf_str(&sb), "hello");
	EXPECT_EQ(read_str(&f, 4, &sb), 0);
	EXPECT_STR(strbuf_str(&sb), "hell...");

	put_str(&f, FAKE_BASE, 4, COMPACT | 1 << 2 | 3, "caf\xe9", 4);
	EXPECT_EQ(read_str(&f, 100, &sb), 0);
	EXPECT_STR(strbuf_str(&sb), "caf\xc3\xa9");
	put_str(&f, FAKE_BASE, 1, COMPACT | 2 << 2, "\x22\x6f", 2);
	EXPECT_EQ(read_str(&f, 100, &sb), 0);
	EXPECT_STR(strbuf_str(&sb), "\xe6\xbc\xa2");
	put_str(&f, FAKE_BASE, 1, COMPACT | 4 << 2, "\x00\xf6\x01\x00", 4);
	EXPECT_EQ(read_str(&f, 100, &sb), 0);
	EXPECT_STR(strbuf_str(&sb), "\xf0\x9f\x98\x80");
	/* Where "interned" has 16 bits, the others follow it. */
	put_str(&f, FAKE_BASE, 5, (COMPACT | ASCII | 1 << 2) << 14, "", 0);
	fake_put(&f, FAKE_BASE + 40, "world", 6);
	EXPECT_EQ(read_str(&f, 100, &sb), 0);
	EXPECT_STR(strbuf_str(&sb), "world");
}

/* Most come with one read, and none is read beyond its page for nothing. */
TEST(str_objects_anywhere)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	char text[1200];
	struct fake_memory f;

	fake_init(&f);
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)('a' + i % 26);
	for (uint64_t before = 48; before < 200; before += 8) { /* the end of all memory */
		const uint64_t addr = FAKE_BASE + FAKE_BYTES - before;

		fake_word(&f, addr + 16, before - 41);
		fake_half(&f, addr + 32, COMPACT | ASCII | 1 << 2);
		fake_put(&f, addr + 40, text, before - 41);
		fake_put(&f, addr + before - 1, "", 1);
		strbuf_reset(&sb);
		f.reads = 0;
		EXPECT_EQ(python_str_read(&f.memory, &layout, addr, 4096, &sb), 0);
		EXPECT_EQ(f.reads, 1);
		EXPECT(sb.len == before - 41 && memcmp(sb.buf, text, sb.len) == 0);
	}
	for (uint64_t addr = FAKE_BASE + 3000; addr < FAKE_BASE + 4200; addr += 8) {
		put_str(&f, addr, sizeof(text), COMPACT | ASCII | 1 << 2, text, sizeof(text));
		strbuf_reset(&sb);
		f.reads = 0;
		EXPECT_EQ(python_str_read(&f.memory, &layout, addr, 4096, &sb), 0);
		EXPECT_EQ(f.reads, 2);
		EXPECT(sb.len == sizeof(text) && memcmp(sb.buf, text, sb.len) == 0);
	}
}

TEST(str_objects_that_are_none)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	static const uint32_t states[] = { 0, ASCII | 1 << 2, COMPACT, COMPACT | 3 << 2, COMPACT | 7 << 2,
					   COMPACT | ASCII | 2 << 2 };
	struct fake_memory f;

	fake_init(&f);
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		put_str(&f, FAKE_BASE, 3, states[i], "abc", 3);
		EXPECT_EQ(read_str(&f, 100, &sb), -EBADMSG);
	}
	put_str(&f, FAKE_BASE, UINT64_MAX, COMPACT | ASCII | 1 << 2, "abc", 3);
	EXPECT_EQ(read_str(&f, 100, &sb), -EBADMSG);
	put_str(&f, FAKE_BASE, 1ull << 31, COMPACT | ASCII | 1 << 2, "abc", 3);
	EXPECT_EQ(read_str(&f, 100, &sb), -EBADMSG);
	put_str(&f, FAKE_BASE, 2, COMPACT | ASCII | 1 << 2, "abc", 3); /* does not end there */
	EXPECT_EQ(read_str(&f, 100, &sb), -EBADMSG);
	put_str(&f, FAKE_BASE, 1, COMPACT | 2 << 2, "\x22\x6f\0\1", 4);
	EXPECT_EQ(read_str(&f, 100, &sb), -EBADMSG);
	put_str(&f, FAKE_BASE, 3, COMPACT | ASCII | 1 << 2, "ab\xe9", 3);
	EXPECT_EQ(read_str(&f, 100, &sb), -EBADMSG);
	/* Longer than the memory there. */
	put_str(&f, FAKE_BASE, FAKE_BYTES, COMPACT | ASCII | 1 << 2, "abc", 3);
	EXPECT_EQ(read_str(&f, FAKE_BYTES, &sb), -EFAULT);
	EXPECT_EQ(python_str_read(&f.memory, &layout, 0, 10, &sb), -EBADMSG);
	EXPECT_EQ(python_str_read(&f.memory, &layout, FAKE_BASE - 1, 10, &sb), -EFAULT);
	f.read_error = -ESRCH;
	EXPECT_EQ(read_str(&f, 100, &sb), -ESRCH);
	EXPECT_EQ(sb.len, 0);
}

TEST(bytes_objects)
{
	_cleanup_free_ uint8_t *data = NULL, *cut = NULL;
	struct fake_memory f;
	size_t len = 0;

	fake_init(&f);
	fake_word(&f, FAKE_BASE + 16, 6);
	fake_put(&f, FAKE_BASE + 32, "\0\1\2\3\4\5", 6);
	ASSERT(python_bytes_read(&f.memory, &layout, FAKE_BASE, 100, &data, &len) == 0);
	EXPECT_EQ(len, 6);
	EXPECT(memcmp(data, "\0\1\2\3\4\5", 6) == 0);
	ASSERT(python_bytes_read(&f.memory, &layout, FAKE_BASE, 2, &cut, &len) == 0);
	EXPECT_EQ(len, 2);
	fake_word(&f, FAKE_BASE + 16, 5);
	EXPECT_EQ(python_bytes_read(&f.memory, &layout, FAKE_BASE, 100, &data, &len), -EBADMSG);
	fake_word(&f, FAKE_BASE + 16, UINT64_MAX);
	EXPECT_EQ(python_bytes_read(&f.memory, &layout, FAKE_BASE, 100, &data, &len), -EBADMSG);
	EXPECT_EQ(python_bytes_read(&f.memory, &layout, 0, 100, &data, &len), -EBADMSG);
	EXPECT_EQ(python_bytes_read(&f.memory, &layout, FAKE_BASE + FAKE_BYTES, 100, &data, &len), -EFAULT);
}

TEST_MAIN()
