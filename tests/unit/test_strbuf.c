/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/strbuf.h"

TEST(empty)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	_cleanup_free_ char *s = NULL;

	EXPECT_STR(strbuf_str(&sb), "");
	strbuf_truncate(&sb, 0);
	strbuf_reset(&sb);
	EXPECT_EQ(strbuf_steal(&sb, &s), 0);
	EXPECT_STR(s, "");
}

TEST(appends)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	strbuf_adds(&sb, "one");
	strbuf_addc(&sb, ' ');
	strbuf_add(&sb, "two three", 3);
	strbuf_addf(&sb, " %d %s", 3, "four");
	EXPECT_STR(strbuf_str(&sb), "one two 3 four");
	EXPECT_EQ(sb.len, 14);
	strbuf_add(&sb, "\0x", 2);
	EXPECT_EQ(sb.len, 16);
	EXPECT_EQ(sb.buf[16], 0);
	strbuf_truncate(&sb, 100);
	EXPECT_EQ(sb.len, 16);
	strbuf_truncate(&sb, 3);
	EXPECT_STR(strbuf_str(&sb), "one");
}

TEST(grows)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	char big[1000];

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	/* Both paths of the formatted append: what fits, and what needs a second try. */
	for (int i = 0; i < 100; i++)
		strbuf_addf(&sb, "%s%03d", big, i);
	EXPECT_EQ(sb.error, 0);
	EXPECT_EQ(sb.len, 100 * 1002);
	EXPECT_STR(strbuf_str(&sb) + 99 * 1002 + 999, "099");
	EXPECT_EQ(strlen(strbuf_str(&sb)), sb.len);
}

TEST(errors_stick)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	char *s = (char *)"untouched";

	strbuf_adds(&sb, "kept");
	strbuf_add(&sb, "x", SIZE_MAX / 2);
	EXPECT_EQ(sb.error, -ENOMEM);
	strbuf_adds(&sb, "ignored");
	strbuf_addf(&sb, "%d", 1);
	EXPECT_STR(strbuf_str(&sb), "kept");
	EXPECT_EQ(strbuf_steal(&sb, &s), -ENOMEM);
	EXPECT_STR(s, "untouched");
	strbuf_reset(&sb);
	EXPECT_EQ(sb.error, 0);
	strbuf_adds(&sb, "again");
	EXPECT_STR(strbuf_str(&sb), "again");
}

TEST(steal_leaves_it_empty)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	_cleanup_free_ char *s = NULL;

	strbuf_adds(&sb, "mine");
	EXPECT_EQ(strbuf_steal(&sb, &s), 0);
	EXPECT_STR(s, "mine");
	EXPECT_STR(strbuf_str(&sb), "");
	strbuf_adds(&sb, "next");
	EXPECT_STR(strbuf_str(&sb), "next");
	EXPECT_STR(s, "mine");
}

/* A fresh folder with a file of len bytes called "f"; -1 when that fails. */
static int temp_dir_with_file(char *path, size_t len)
{
	_cleanup_close_ int dir = -1, fd = -1;

	if (!mkdtemp(path))
		return -1;
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -1;
	fd = openat(dir, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	for (size_t i = 0; i < len; i++) {
		if (write(fd, &"0123456789"[i % 10], 1) != 1)
			return -1;
	}
	return TAKE_FD(dir);
}

TEST(files)
{
	char path[] = "/tmp/gpuxray-test-XXXXXX";
	_cleanup_close_ int dir = temp_dir_with_file(path, 5000);
	char *text = NULL;
	size_t len = 0;

	ASSERT(dir >= 0);
	EXPECT_EQ(file_read(dir, "f", 4999, &text, &len), -E2BIG);
	EXPECT(text == NULL);
	EXPECT_EQ(file_read(dir, "f", 5000, &text, &len), 0);
	EXPECT_EQ(len, 5000);
	ASSERT(text != NULL);
	EXPECT_EQ(strlen(text), 5000);
	EXPECT_EQ(text[4999], '9');
	free(TAKE_PTR(text));
	EXPECT_EQ(file_read_head(dir, "f", 12, &text, &len), 0);
	EXPECT_EQ(len, 12);
	EXPECT_STR(text, "012345678901");
	free(TAKE_PTR(text));
	EXPECT_EQ(file_read_head(dir, "f", 0, &text, &len), 0);
	EXPECT_EQ(len, 0);
	EXPECT_STR(text, "");
	free(TAKE_PTR(text));
	EXPECT_EQ(file_read(dir, "none", 10, &text, &len), -ENOENT);
	EXPECT_EQ(file_read(dir, ".", 10, &text, &len), -EISDIR);
	EXPECT_EQ(file_read(AT_FDCWD, "/proc/self/stat", 4096, &text, &len), 0);
	EXPECT(len > 10);
	free(TAKE_PTR(text));
	(void)unlinkat(dir, "f", 0);
	(void)rmdir(path);
}

TEST(a_pipe_does_not_block)
{
	char path[] = "/tmp/gpuxray-test-XXXXXX";
	_cleanup_close_ int dir = temp_dir_with_file(path, 0);
	_cleanup_free_ char *text = NULL;
	size_t len = 1;

	ASSERT(dir >= 0);
	ASSERT(mkfifoat(dir, "pipe", 0600) == 0);
	alarm(10); /* ends the test program if open() waits for a writer */
	EXPECT_EQ(file_read(dir, "pipe", 10, &text, &len), 0);
	alarm(0);
	EXPECT_EQ(len, 0);
	(void)unlinkat(dir, "pipe", 0);
	(void)unlinkat(dir, "f", 0);
	(void)rmdir(path);
}

TEST(links)
{
	char path[] = "/tmp/gpuxray-test-XXXXXX", target[1001];
	_cleanup_close_ int dir = temp_dir_with_file(path, 0);
	_cleanup_free_ char *s = NULL, *t = NULL;

	ASSERT(dir >= 0);
	memset(target, 'a', sizeof(target) - 1);
	target[sizeof(target) - 1] = '\0';
	ASSERT(symlinkat(target, dir, "long") == 0);
	ASSERT(symlinkat("short", dir, "short") == 0);
	EXPECT_EQ(file_readlink(dir, "long", &s), 0);
	EXPECT_STR(s, target);
	EXPECT_EQ(file_readlink(dir, "short", &t), 0);
	EXPECT_STR(t, "short");
	EXPECT_EQ(file_readlink(dir, "none", &t), -ENOENT);
	EXPECT_EQ(file_readlink(dir, "f", &t), -EINVAL);
	(void)unlinkat(dir, "long", 0);
	(void)unlinkat(dir, "short", 0);
	(void)unlinkat(dir, "f", 0);
	(void)rmdir(path);
}

TEST_MAIN()
