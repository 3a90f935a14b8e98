/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

static char *printed(const struct errors *e)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	errors_print(e, f);
	(void)fclose(f);
	return text;
}

TEST(nothing)
{
	_cleanup_errors_ struct errors e = ERRORS_INIT;
	_cleanup_free_ char *s = printed(&e);

	EXPECT_STR(s, "");
}

TEST(one_line_each)
{
	_cleanup_errors_ struct errors e = ERRORS_INIT;
	_cleanup_free_ char *s = NULL;

	EXPECT_EQ(errors_add(&e, "a.rules", 3, "no rule kind \"%s\"", "liv"), -EINVAL);
	errors_warn(&e, "a.rules", 4, "unused");
	EXPECT_EQ(errors_add(&e, "b.rules", 0, "cannot read"), -EINVAL);
	EXPECT_EQ(errors_add(&e, NULL, 0, "a\nb"), -EINVAL);
	EXPECT_EQ(e.len, 4);
	EXPECT_EQ(e.error_count, 3);
	EXPECT_EQ(e.dropped_count, 0);
	s = printed(&e);
	EXPECT_STR(s, "a.rules:3: error: no rule kind \"liv\"\n"
		      "a.rules:4: warning: unused\n"
		      "b.rules: error: cannot read\n"
		      "error: a?b\n");
}

TEST(too_many)
{
	_cleanup_errors_ struct errors e = ERRORS_INIT;
	_cleanup_free_ char *s = NULL;

	for (int i = 0; i < ERRORS_MAX + 5; i++)
		errors_warn(&e, "f", 1, "%d", i);
	EXPECT_EQ(e.error_count, 0);
	EXPECT_EQ(errors_add(&e, "f", 1, "late"), -EINVAL);
	EXPECT_EQ(e.len, ERRORS_MAX);
	EXPECT_EQ(e.dropped_count, 6);
	/* An error counts even where there is no room to keep it. */
	EXPECT_EQ(e.error_count, 1);
	s = printed(&e);
	ASSERT(s != NULL);
	EXPECT(strstr(s, "f:1: warning: 199\nerror: 6 more not shown\n") != NULL);
}

/* What fn writes to stderr, in buf. */
static void captured(void (*fn)(void), char *buf, size_t size)
{
	int fds[2], saved = dup(2);
	ssize_t n;

	if (pipe(fds) < 0)
		return;
	(void)dup2(fds[1], 2);
	(void)close(fds[1]);
	fn();
	(void)dup2(saved, 2);
	(void)close(saved);
	n = read(fds[0], buf, size - 1);
	buf[n > 0 ? n : 0] = '\0';
	(void)close(fds[0]);
}

static void say_things(void)
{
	errno = ENOENT;
	log_warning("cannot open %s: %m", "x\ny\x1b[0m");
	EXPECT_EQ(errno, ENOENT);
	log_debug("not shown");
	log_set_max(7);
	log_debug("shown");
	log_set_max(3);
	log_warning("not shown either");
	log_set_max(6);
}

static void say_much(void)
{
	log_error("%5000d", 1);
}

TEST(log_lines)
{
	char buf[8192] = "";

	captured(say_things, buf, sizeof(buf));
	EXPECT_STR(buf, "cannot open x?y?[0m: No such file or directory\nshown\n");
	EXPECT_EQ(log_max(), 6);
	captured(say_much, buf, sizeof(buf));
	EXPECT_EQ(strlen(buf), 2048);
	EXPECT_STR(buf + 2044, "...\n");
}

TEST_MAIN()
