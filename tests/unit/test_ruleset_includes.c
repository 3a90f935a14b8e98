/* SPDX-License-Identifier: MIT */
/* How rule files and what they include are read: where each line came from, and that nothing can hold us. Calls of the
 * libraries go through here, which counts them and can change a file before it is opened. */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>

#include "ruleset_load.h" /* before the directory is called root */
#include "hostile_load.h"

static unsigned opens, fopens, polls; /* of included files; of anything */
static const char *becomes_pipe;
static bool is_not_ready;
static char *paths[] = { root };

static bool is_included(const char *path)
{
	size_t len = strlen(path);

	return len > 4 && strcmp(path + len - 4, ".inc") == 0;
}

int open(const char *path, int flags, ...)
{
	static int (*real)(const char *, int, ...);
	mode_t mode = 0;
	va_list ap;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "open");
	va_start(ap, flags);
	if (flags & O_CREAT)
		mode = va_arg(ap, mode_t);
	va_end(ap);
	opens += is_included(path);
	if (becomes_pipe && strcmp(path, becomes_pipe) == 0) {
		becomes_pipe = NULL;
		if (unlink(path) < 0 || mkfifo(path, 0600) < 0)
			abort();
	}
	return real(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
	static FILE *(*real)(const char *, const char *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "fopen");
	fopens += is_included(path) && mode[0] == 'r';
	return real(path, mode);
}

ssize_t read(int fd, void *buf, size_t len)
{
	static ssize_t (*real)(int, void *, size_t);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "read");
	if (!is_not_ready)
		return real(fd, buf, len);
	errno = EAGAIN;
	return -1;
}

int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	static int (*real)(struct pollfd *, nfds_t, int);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "poll");
	polls++;
	return real(fds, n, timeout);
}

/* ~ in the expected text is the directory. */
static void expect_text(const char *text, const char *format)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	put_home(&sb, format);
	EXPECT_STR(text, strbuf_str(&sb));
}

/* Whatever lies before, within or behind: each line is told as that of its own file. */
TEST(lines_of_files_with_includes)
{
	struct result res;

	fresh_root();
	put_text("a.conf", "version = 1; x = 1;\n"
					       "\t@include \"a.inc\" /* the same line */ y = 1;\n"
					       "z = 1;\n"
					       "@include \"b.inc\"\n"
					       "@include \"b.inc\" rules = ( { name = \"n\"; kind = \"leak\";\n"
					       "epochs = \"y\"; } );\n");
	put_text("a.inc", "a1 = 1;\n\n@include \"c.inc\"\n/*\n*/ a5 = 1; a5b = 1;");
	put_text("b.inc", "");
	put_text("c.inc", "@include \"b.inc\"c1 = 1; \nc2 = {\nc3 = 1; };\n");
	res = load("", paths, 1);
#define UNKNOWN(file, line, name)                                                                                      \
	"~/" file ":" line ": error: unknown key \"" name "\": known are version, defaults, lists, rules\n"
	expect_text(res.text, UNKNOWN("a.conf", "1", "x") UNKNOWN("a.conf", "2", "y") UNKNOWN("a.conf", "3", "z")
			      "~/a.conf:6: error: epochs needs a plain number, without quotes or unit\n"
			      UNKNOWN("a.inc", "1", "a1") UNKNOWN("a.inc", "5", "a5") UNKNOWN("a.inc", "5", "a5b")
			      UNKNOWN("c.inc", "1", "c1") UNKNOWN("c.inc", "2", "c2"));
	result_done(&res);

	put_text("a.conf", "version = 1;\n@include \"d.inc\"\n\nrules = = 1;\n");
	put_text("d.inc", "\n\n\n");
	res = load("", paths, 1);
	expect_text(res.text, "~/a.conf:4: error: syntax error at this line or just before it: a missing "
			      "\";\", quote or bracket, or a comma before \")\"?\n");
	result_done(&res);

	put_text("d.inc", "\n\nversion = 2;\n\n");
	res = load("", paths, 1);
	expect_text(res.text, "~/d.inc:3: error: duplicate setting name: remove one of the two\n");
	result_done(&res);

	/* What libconfig does not take for an include is none. */
	put_text("a.conf", "version = 1;\n@include\"d.inc\"\n");
	res = load("", paths, 1);
	expect_text(res.text, "~/a.conf:2: error: syntax error at this line or just before it: a missing "
			      "\";\", quote or bracket, or a comma before \")\"?\n");
	result_done(&res);
}

/* The library opens nothing: what was looked at could be a pipe by then. */
TEST(included_files_are_opened_once_and_by_us)
{
	struct result res;

	fresh_root();
	put_text("a.conf", "version = 1;\n@include \"a.inc\"\n");
	put_text("a.inc", "rules = ( { name = \"x\"; kind = \"leak\"; } );\n");
	opens = fopens = 0;
	res = load("", paths, 1);
	EXPECT_STR(res.text, "");
	EXPECT(res.rs && res.rs->len == 1);
	EXPECT_EQ(opens, 1);
	EXPECT_EQ(fopens, 0);
	result_done(&res);
}

/* As /proc has files whose type does not say that they wait for what happens next. */
TEST(regular_file_that_is_not_ready)
{
	struct result res;

	fresh_root();
	put_text("a.conf", "version = 1;\n");
	is_not_ready = true;
	polls = 0;
	res = load("", paths, 1);
	is_not_ready = false;
	EXPECT_EQ(polls, 0);
	expect_text(res.text, "~/a.conf: error: cannot read it: Resource temporarily unavailable\n");
	result_done(&res);
}

/* Between the look at a file and its opening it becomes a pipe. */
TEST(file_that_becomes_a_pipe)
{
	struct result res;

	fresh_root();
	put_text("a.conf", "version = 1;\n@include \"a.inc\"\n");
	put_text("a.inc", "\n");
	becomes_pipe = in_root("a.inc");
	res = load("", paths, 1);
	EXPECT(!becomes_pipe);
	expect_text(res.text, "~/a.conf:2: error: ~/a.inc is not a regular file\n");
	result_done(&res);
}

TEST_MAIN()
