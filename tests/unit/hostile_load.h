/* SPDX-License-Identifier: MIT */
/*
 * Reads a directory of made-up files in a process of its own, which must come back soon, stay small and say why. Include
 * it from one file of a program.
 */
#pragma once

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "rule/rule.h"
#include "rule/settings.h"
#include "test.h"

#ifdef __SANITIZE_ADDRESS__
#define IS_SLOW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_SLOW 1
#endif
#endif
#ifndef IS_SLOW
#define IS_SLOW 0
#endif

/* Of CPU. The sanitizers' own memory and work are no measure of ours. */
#define SECONDS_MAX (IS_SLOW ? 20 : 1)
#define MIB_MAX (IS_SLOW ? 4096 : 100)
#define HANG_SECONDS 120
#define V "version = 1;\n"
#define MIB (1u << 20)

static char root[] = "/tmp/test_hostile.XXXXXX";

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	return remove(path);
}

static void remove_root(void)
{
	(void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void fresh_root(void)
{
	static bool has_root;

	if (has_root)
		remove_root();
	if (has_root ? mkdir(root, 0700) < 0 : !mkdtemp(root) || atexit(remove_root) != 0)
		abort();
	has_root = true;
}

static _unused_ const char *in_root(const char *name)
{
	static char path[4][512];
	static int next;
	char *p = path[next++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s", root, name);
	return p;
}

static void put(const char *name, const void *data, size_t len)
{
	FILE *f = fopen(in_root(name), "w");

	if (!f || (len && fwrite(data, len, 1, f) != 1) || fclose(f) != 0)
		abort();
}

static _unused_ void put_text(const char *name, const char *text)
{
	put(name, text, strlen(text));
}

/* head, so many times before, a number and after, tail. after NULL: no number either. */
static _unused_ void put_numbered(const char *name, const char *head, const char *before, const char *after, size_t times,
			 const char *tail)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	strbuf_adds(&sb, head);
	for (size_t i = 0; i < times; i++) {
		strbuf_adds(&sb, before);
		if (after)
			strbuf_addf(&sb, "%zu%s", i, after);
	}
	strbuf_adds(&sb, tail);
	if (sb.error)
		abort();
	put(name, sb.buf, sb.len);
}

static _unused_ void put_many(const char *name, const char *head, const char *one, size_t times, const char *tail)
{
	put_numbered(name, head, one, NULL, times, tail);
}

struct answer {
	int r;
	char text[256 * 1024];
};

/* In a process of its own. path NULL: the directory; a name that ends in gpuxray.conf is a configuration. */
static void child_load(const char *path, FILE *out)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	_cleanup_(ruleset_freep) struct ruleset *rs = NULL;
	_cleanup_(settings_done) struct settings s = {};
	char *paths[] = { path ? (char *)path : root };
	int r;

	alarm(HANG_SECONDS);
	if (path && strstr(path, "gpuxray.conf")) {
		if (settings_init(&s) < 0)
			abort();
		r = settings_load("", path, &errors, &s);
	} else {
		r = ruleset_load("", paths, 1, &errors, &rs);
	}
	fprintf(out, "%d\n", r);
	errors_print(&errors, out);
	if (r == 0 && rs)
		fprintf(out, "%zu rules\n", rs->len);
	if ((r == 0) != (errors.error_count == 0))
		fputs("an error that was not told, or told and not returned\n", out);
	fclose(out);
}

static void read_answer(int fd, struct answer *a)
{
	size_t len = 0;
	ssize_t n;
	char *end;

	while (len < sizeof(a->text) - 1 && (n = read(fd, a->text + len, sizeof(a->text) - 1 - len)) > 0)
		len += (size_t)n;
	a->text[len] = '\0';
	a->r = (int)strtol(a->text, &end, 10);
	memmove(a->text, end + (*end == '\n'), strlen(end) + (*end != '\n'));
}

static void load_as(uid_t uid, const char *path, struct answer *a)
{
	double seconds;
	struct rusage ru;
	int fds[2], status;
	pid_t pid;

	*a = (struct answer){ .r = 1 };
	fflush(stdout);
	if (pipe(fds) < 0 || (pid = fork()) < 0)
		abort();
	if (pid == 0) {
		close(fds[0]);
		if (uid && setresuid(uid, uid, uid) < 0)
			_exit(99);
		child_load(path, fdopen(fds[1], "w"));
		_exit(0);
	}
	close(fds[1]);
	read_answer(fds[0], a);
	close(fds[0]);
	if (wait4(pid, &status, 0, &ru) != pid)
		abort();
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	seconds = (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
		  (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
	if (seconds >= SECONDS_MAX)
		printf("# %.2f s\n", seconds);
	EXPECT(seconds < SECONDS_MAX);
	if (ru.ru_maxrss / 1024 >= MIB_MAX)
		printf("# %ld MiB\n", ru.ru_maxrss / 1024);
	EXPECT(ru.ru_maxrss / 1024 < MIB_MAX);
	EXPECT(!strstr(a->text, "an error that was not told"));
}

/* ~ in the text is the directory. */
static void put_home(struct strbuf *sb, const char *text)
{
	for (; *text; text++) {
		if (*text == '~')
			strbuf_adds(sb, root);
		else
			strbuf_addc(sb, *text);
	}
}

static void expect_answer(const struct answer *a, const char *format)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	put_home(&sb, format);
	EXPECT_EQ(a->r, strstr(format, "error: ") ? -EINVAL : 0);
	EXPECT_STR(a->text, strbuf_str(&sb));
}

static _unused_ void expect_load(const char *format)
{
	static struct answer a;

	load_as(0, NULL, &a);
	expect_answer(&a, format);
}
