/* SPDX-License-Identifier: MIT */
/* The file that remembers where growth stopped: what is written is read, and nothing else is taken. */
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "cmd/bounds_file.h"
#include "cmd/state_file.h"
#include "temp_proc.h"
#include "test.h"

#define HEAD "gpuxray bounds 1\n"
#define ID "00000000000000aa"

struct seen {
	struct bound_line last;
	size_t len;
	uint64_t bytes;
};

static void note(const struct bound_line *l, void *userdata)
{
	struct seen *s = userdata;

	s->last = *l;
	s->len++;
	s->bytes += l->bytes;
}

static int parse(const char *text, uint32_t today, struct seen *ret, size_t *ret_bad)
{
	/* Not terminated: nothing beyond its end may be looked at. */
	size_t len = strlen(text);
	_cleanup_free_ char *copy = malloc(len ?: 1);
	int r;

	if (!copy)
		abort();
	memcpy(copy, text, len);
	*ret = (struct seen){};
	r = bounds_parse(copy, len, today, note, ret, ret_bad);
	return r;
}

TEST(written_and_read)
{
	const struct bound_line lines[] = { { 1, 1, 100 }, { UINT64_MAX, UINT64_MAX, 30 }, { 0xabcdef, 1 << 20, 0 } };
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct seen s;
	size_t bad = 7;

	bounds_begin(&sb);
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		bounds_add(&sb, &lines[i]);
	EXPECT_STR(strbuf_str(&sb), HEAD "0000000000000001 1 100\nffffffffffffffff 18446744073709551615 30\n"
					 "0000000000abcdef 1048576 0\n");
	EXPECT_EQ(parse(strbuf_str(&sb), 90, &s, &bad), 0);
	EXPECT_EQ(bad, 0);
	EXPECT_EQ(s.len, 3);
	EXPECT(s.last.id == 0xabcdef && s.last.bytes == 1 << 20 && s.last.day == 0);
	EXPECT_EQ(parse(HEAD, 90, &s, &bad), 0);
	EXPECT_EQ(s.len, 0);
}

TEST(old_ones_go_and_those_to_come_are_of_today)
{
	struct seen s;
	size_t bad;

	EXPECT_EQ(parse(HEAD ID " 5 1000\n", 1000 + BOUNDS_DAYS_MAX, &s, &bad), 0);
	EXPECT_EQ(s.len, 1);
	EXPECT_EQ(s.last.day, 1000);
	EXPECT_EQ(parse(HEAD ID " 5 1000\n", 1001 + BOUNDS_DAYS_MAX, &s, &bad), 0);
	EXPECT_EQ(s.len, 0);
	EXPECT_EQ(bad, 0);
	EXPECT_EQ(parse(HEAD ID " 5 4294967295\n", 1000, &s, &bad), 0);
	EXPECT_EQ(s.len, 1);
	EXPECT_EQ(s.last.day, 1000);
}

TEST(lines_that_are_none)
{
	static const char *const bad_lines[] = {
		"", " ", ID, ID " ", ID " 5", ID " 5 ", ID " 5 7 ", ID " 5 7 8", ID "  5 7", ID " 5  7", " " ID " 5 7",
		ID " -5 7", ID " +5 7", ID " 5 -7", ID " 5.0 7", ID " 0x5 7", ID " 5k 7", ID "\t5\t7", ID " 5 7\r",
		"aa 5 7", "0" ID " 5 7", "00000000000000AA 5 7", "0000000000000000 5 7", "000000000000000g 5 7",
		ID " 0 7", ID " 18446744073709551616 7", ID " 99999999999999999999999999 7", ID " 5 4294967296",
		"-000000000000aaa 5 7", "0x000000000000aa 5 7", ID " \xff 7", "# " ID " 5 7", "gpuxray bounds 1",
	};
	struct seen s;
	size_t bad;

	for (size_t i = 0; i < ARRAY_SIZE(bad_lines); i++) {
		char text[256];

		/* Those around it are taken all the same. */
		snprintf(text, sizeof(text), HEAD ID " 1 7\n%s\n" ID " 2 7\n", bad_lines[i]);
		EXPECT_EQ(parse(text, 7, &s, &bad), 0);
		if (s.len != 2 || bad != 1)
			printf("# \"%s\"\n", bad_lines[i]);
		EXPECT(s.len == 2 && s.bytes == 3);
		EXPECT_EQ(bad, 1);
	}
	/* The last one is not whole. */
	EXPECT_EQ(parse(HEAD ID " 1 7\n" ID " 2 7", 7, &s, &bad), 0);
	EXPECT(s.len == 1 && bad == 1);
}

TEST(other_files)
{
	static const char *const others[] = { "", "g", "gpuxray bounds 1", "gpuxray bounds 2\n", "gpuxray bounds 10\n",
					      "GPUXRAY bounds 1\n", "\ngpuxray bounds 1\n", ID " 5 7\n" };
	struct seen s;
	size_t bad = 99;

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		EXPECT_EQ(parse(others[i], 7, &s, &bad), -EINVAL);
		EXPECT_EQ(s.len, 0);
	}
	EXPECT_EQ(bad, 99);
}

TEST(so_many_lines_and_no_more)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const struct bound_line longest = { UINT64_MAX, UINT64_MAX, UINT32_MAX };
	struct seen s;
	size_t bad;

	bounds_begin(&sb);
	for (size_t i = 0; i < BOUNDS_LINES_MAX; i++)
		bounds_add(&sb, &longest);
	EXPECT(sb.len <= BOUNDS_FILE_MAX);
	bounds_add(&sb, &longest);
	bounds_add(&sb, &longest);
	EXPECT_EQ(parse(strbuf_str(&sb), UINT32_MAX, &s, &bad), 0);
	EXPECT_EQ(s.len, BOUNDS_LINES_MAX);
	EXPECT_EQ(bad, 2);
}

TEST(replaced_at_once_or_not_at_all)
{
	_cleanup_(temp_proc_done) struct temp_proc dir;
	_cleanup_free_ char *text = NULL;
	char path[128], path_new[160];
	struct stat st;
	size_t len;

	ASSERT(temp_proc_new(&dir));
	snprintf(path, sizeof(path), "%s/bounds", dir.root);
	snprintf(path_new, sizeof(path_new), "%s.new", path);
	EXPECT_EQ(bounds_write(path, "first", 5), 0);
	/* What an interrupted one has left, or a trap. */
	EXPECT_EQ(symlink("/dev/null", path_new), 0);
	EXPECT_EQ(bounds_write(path, "second", 6), 0);
	EXPECT_EQ(state_read(path, &text, &len), 0);
	EXPECT(len == 6 && memcmp(text, "second", 6) == 0);
	EXPECT_EQ(stat(path, &st), 0);
	EXPECT_EQ(st.st_mode & 0777, 0600);
	EXPECT(access(path_new, F_OK) < 0);
	/* No room for a new one: a folder is in its place. */
	EXPECT_EQ(mkdir(path_new, 0700), 0);
	EXPECT_EQ(bounds_write(path, "third", 5), -EEXIST);
	EXPECT_EQ(stat(path, &st), 0);
	EXPECT_EQ(st.st_size, 6);
	snprintf(path, sizeof(path), "%s/none/bounds", dir.root);
	EXPECT_EQ(bounds_write(path, "x", 1), -ENOENT);
}

TEST_MAIN()
