/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <fcntl.h>

#include "base/log.h"
#include "base/text.h"

static void expect_escaped(const void *data, size_t len, size_t max, const char *expected)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	strbuf_adds(&sb, "<");
	text_escape(&sb, data, len, max);
	EXPECT_STR(strbuf_str(&sb) + 1, expected);
}

#define ESCAPES_TO(in, out) expect_escaped(in, sizeof(in) - 1, 0, out)

TEST(plain_text_stays)
{
	ESCAPES_TO("", "");
	ESCAPES_TO("python3 train.py --x=\"1\" /a/b", "python3 train.py --x=\"1\" /a/b");
	ESCAPES_TO("Gr\xc3\xb6\xc3\x9f" "e \xe6\x97\xa5 \xf0\x9f\x98\x80",
		   "Gr\xc3\xb6\xc3\x9f" "e \xe6\x97\xa5 \xf0\x9f\x98\x80");
	ESCAPES_TO("\xc2\xa0\xef\xbf\xbd", "\xc2\xa0\xef\xbf\xbd");
}

TEST(controls)
{
	ESCAPES_TO("a\nMESSAGE=forged", "a\\x0aMESSAGE=forged");
	ESCAPES_TO("\t\r\x1b[2J\x7f", "\\x09\\x0d\\x1b[2J\\x7f");
	ESCAPES_TO("a\0b", "a\\x00b");
	ESCAPES_TO("\xc2\x80\xc2\x9f", "\\xc2\\x80\\xc2\\x9f");
}

TEST(backslash_cannot_forge_an_escape)
{
	ESCAPES_TO("\\x0a", "\\x5cx0a");
	ESCAPES_TO("\\\\", "\\x5c\\x5c");
}

TEST(bidirectional_controls)
{
	ESCAPES_TO("\xd8\x9c", "\\xd8\\x9c");				      /* U+061C */
	ESCAPES_TO("\xe2\x80\x8e\xe2\x80\x8f", "\\xe2\\x80\\x8e\\xe2\\x80\\x8f"); /* U+200E U+200F */
	ESCAPES_TO("\xe2\x80\xaa\xe2\x80\xae", "\\xe2\\x80\\xaa\\xe2\\x80\\xae"); /* U+202A U+202E */
	ESCAPES_TO("\xe2\x81\xa6\xe2\x81\xa9", "\\xe2\\x81\\xa6\\xe2\\x81\\xa9"); /* U+2066 U+2069 */
	ESCAPES_TO("\xe2\x80\x90\xe2\x80\xaf", "\xe2\x80\x90\xe2\x80\xaf");	      /* their neighbours */
}

TEST(invalid_utf8)
{
	ESCAPES_TO("\x80", "\\x80");
	ESCAPES_TO("\xff\xfe", "\\xff\\xfe");
	ESCAPES_TO("\xc0\xaf", "\\xc0\\xaf");		      /* overlong */
	ESCAPES_TO("\xe0\x80\x8a", "\\xe0\\x80\\x8a");	      /* overlong newline */
	ESCAPES_TO("\xf0\x80\x80\x8a", "\\xf0\\x80\\x80\\x8a");
	ESCAPES_TO("\xed\xa0\x80", "\\xed\\xa0\\x80");	      /* surrogate */
	ESCAPES_TO("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* above U+10FFFF */
	ESCAPES_TO("\xe6\x97", "\\xe6\\x97");		      /* cut short */
	ESCAPES_TO("\xe6\x97z", "\\xe6\\x97z");
	ESCAPES_TO("\xef\xbf\xbf", "\\xef\\xbf\\xbf");	      /* U+FFFF is no character */
}

TEST(cutting)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	char in[100];

	memset(in, 'x', sizeof(in));
	expect_escaped(in, 30, 30, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
	expect_escaped(in, 31, 30, "xxxxxxxxxxxxxxxx[15 bytes cut]");
	expect_escaped(in, 100, 17, "xx[98 bytes cut]");
	expect_escaped(in, 100, 5, "xxxxx");
	/* Never inside a character, never inside an escape. */
	expect_escaped("xxxx\n\n\n\n\n\n\n\n\n\n", 14, 24, "xxxx\\x0a[9 bytes cut]");
	expect_escaped("\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5", 21, 20,
		       "\xe6\x97\xa5\xe6\x97\xa5[15 bytes cut]");

	for (size_t max = 1; max < 120; max++) {
		strbuf_reset(&sb);
		memset(in, '\n', sizeof(in));
		text_escape(&sb, in, sizeof(in), max);
		EXPECT(sb.len <= max);
	}
}

TEST(json)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	strbuf_addc(&sb, '{');
	json_u64(&sb, "a", UINT64_MAX);
	json_str(&sb, "b", "x\"y\\z\n\t\x01\x7f \xc3\xb6 \xff\xc2\x9b\xe2\x80\xae");
	json_str(&sb, "c", NULL);
	json_bool(&sb, "d", 1);
	json_bool(&sb, "e", 0);
	json_key(&sb, "f");
	strbuf_addc(&sb, '[');
	json_string(&sb, "");
	strbuf_addc(&sb, ']');
	json_key(&sb, "g");
	strbuf_addc(&sb, '{');
	json_str(&sb, "{", "[");
	strbuf_adds(&sb, "}}");
	EXPECT_STR(strbuf_str(&sb),
		   "{\"a\":18446744073709551615,\"b\":\"x\\\"y\\\\z\\n\\u0009\\u0001\\u007f \xc3\xb6 \xef\xbf\xbd\\u009b\\u202e\","
		   "\"c\":null,\"d\":true,\"e\":false,\"f\":[\"\"],\"g\":{\"{\":\"[\"}}");
}

#define HOSTILE "a\x1b[2J\r\nb\x7f\\x\t \xc3\xb6\xc2\x9b" "2J\xe2\x80\xae" "c\xff"
#define HARMLESS "a?[2J??b?\\x? \xc3\xb6\\xc2\\x9b" "2J\\xe2\\x80\\xae" "c\\xff"

TEST(one_line)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	text_one_line(&sb, HOSTILE);
	EXPECT_STR(strbuf_str(&sb), HARMLESS);
}

/* U+009B begins a command of a terminal as ESC [ does. */
TEST(a_log_line_commands_no_terminal)
{
	char path[] = "/tmp/test_text.XXXXXX", got[256] = "";
	const int fd = mkstemp(path), kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

	ASSERT(fd >= 0 && kept >= 0 && dup2(fd, STDERR_FILENO) >= 0);
	log_warning("%s", HOSTILE);
	ASSERT(dup2(kept, STDERR_FILENO) >= 0);
	EXPECT(pread(fd, got, sizeof(got) - 1, 0) > 0);
	EXPECT_STR(got, HARMLESS "\n");
	(void)close(fd);
	(void)close(kept);
	(void)unlink(path);
}

TEST_MAIN()
