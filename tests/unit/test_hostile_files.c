/* SPDX-License-Identifier: MIT */
/*
 * Files that were made to hurt, or written by a program gone wrong. What is merely wrong is in
 * test_ruleset_errors.c and test_ruleset_files.c, what there is too much of in test_hostile_rules.c.
 */
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ruleset_load.h" /* before the directory is called root */
#include "hostile_load.h"
#include "rule/conf.h"
#include "stack/site_key.h"

TEST(large_files)
{
	fresh_root();
	put_many("a.conf", V, " ", 10 * MIB, "\n");
	expect_load("~/a.conf: error: ~/a.conf is larger than 1 MiB: split it into several files\n");
	put_many("a.conf", V, "# ", MIB / 2 - 10, "\n");
	expect_load("warning: there are no rules: nothing will be reported\n0 rules\n");
}

/* What is told of a long value is its start and the cure. */
TEST(long_values_are_cut)
{
	static struct answer a;

	fresh_root();
	put_many("a.conf", V "rules = ( { name = \"x\"; kind = \"", "k", 1000000, "\"; } );\n");
	load_as(0, NULL, &a);
	EXPECT_EQ(a.r, -EINVAL);
	EXPECT(strlen(a.text) < 1200);
	EXPECT(strstr(a.text, "a.conf:2: error: unknown kind \"kkkkkk"));
	EXPECT(strstr(a.text, "kkkk ... kkkk"));
	EXPECT(strstr(a.text, "kkkk\": known are live_bytes, "));

	/* Not within a character: three bytes each. */
	for (int shift = 0; shift < 3; shift++) {
		char head[64];

		snprintf(head, sizeof(head), V "rules = ( { name = \"x\"; kind = \"%.*s", shift, "kk");
		put_many("a.conf", head, "\xe2\x82\xac", 1000, "\"; } );\n");
		load_as(0, NULL, &a);
		EXPECT(strstr(a.text, "\xe2\x82\xac ... \xe2\x82\xac"));
		EXPECT(!strstr(a.text, "\\x"));
	}
}

TEST(many_files)
{
	char name[32];

	fresh_root();
	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "%d.conf", i);
		put(name, "", 0);
	}
	expect_load("~: error: holds more than 4096 rule files\n");
}

/* Ten in each of ten in each of ten ... */
TEST(includes_that_multiply)
{
	char name[32], one[32];

	fresh_root();
	put_many("a.conf", V, "@include \"0.inc\"\n", 10, "");
	for (int i = 0; i < 7; i++) {
		snprintf(name, sizeof(name), "%d.inc", i);
		snprintf(one, sizeof(one), "@include \"%d.inc\"\n", i + 1);
		put_many(name, "", one, 10, "");
	}
	put_text("7.inc", "# nothing\n");
	expect_load("~/6.inc:3: error: more than 64 files are included in all\n");

	fresh_root();
	put_text("b.inc", "# nothing\n");
	put_many("a.conf", V, "@include \"b.inc\"\n", 64, "rules = ( { name = \"x\"; kind = \"leak\"; } );\n");
	expect_load("1 rules\n");
	put_many("a.conf", V, "@include \"b.inc\"\n", 65, "");
	expect_load("~/a.conf:66: error: more than 64 files are included in all\n");

	put_many("b.inc", "#", "#", 1000000, "\n");
	put_many("a.conf", V, "@include \"b.inc\"\n", 5000, "");
	expect_load("~/a.conf:4: error: with what is included this is larger than 2 MiB: split it into several files\n");
}

TEST(includes_in_a_circle)
{
	fresh_root();
	if (mkdir(in_root("d"), 0700) < 0 || symlink("../a.conf", in_root("d/link")) < 0 || symlink("..", in_root("d/up")) < 0)
		abort();
	put_text("a.conf", V "@include \"a.conf\"\n@include \"d/link\"\n@include \"d/up/a.conf\"\n@include \"d/../a.conf\"\n"
			   "@include \"b.inc\"\n");
	put_text("b.inc", "@include \"d/up/d/up/b.inc\"\n\n@include \"d/link\"\n");
	expect_load("~/a.conf:2: error: @include \"a.conf\" goes in a circle\n"
		    "~/a.conf:3: error: @include \"d/link\" goes in a circle\n"
		    "~/a.conf:4: error: @include \"d/up/a.conf\" goes in a circle\n"
		    "~/a.conf:5: error: @include \"d/../a.conf\" goes in a circle\n"
		    "~/b.inc:1: error: @include \"d/up/d/up/b.inc\" goes in a circle\n"
		    "~/b.inc:3: error: @include \"d/link\" goes in a circle\n");
	/* The same twice is no circle. */
	put_text("a.conf", V "@include \"b.inc\"\n@include \"b.inc\"\nrules = ( { name = \"x\"; kind = \"leak\"; } );\n");
	put_text("b.inc", "# nothing\n");
	expect_load("1 rules\n");
}

TEST(things_that_are_no_files)
{
	static struct answer a;
	char name[300];

	fresh_root();
	if (mkdir(in_root("dir"), 0700) < 0 || mkfifo(in_root("pipe"), 0600) < 0 ||
	    symlink("/proc/self/mem", in_root("mem")) < 0 || symlink("loop", in_root("loop")) < 0)
		abort();
	put_text("a.conf", V "@include \"dir\"\n@include \"pipe\"\n@include \"mem\"\n@include \"loop\"\n");
	expect_load("~/a.conf:2: error: ~/dir is a directory where a file is wanted\n"
		    "~/a.conf:3: error: ~/pipe is not a regular file\n"
		    "~/a.conf:4: error: cannot include ~/mem: Input/output error\n"
		    "~/a.conf:5: error: cannot include ~/loop: Too many levels of symbolic links\n");

	fresh_root();
	if (symlink("/proc/self/mem", in_root("1.conf")) < 0 || symlink("2.conf", in_root("2.conf")) < 0 ||
	    symlink("4.conf", in_root("3.conf")) < 0 || symlink("3.conf", in_root("4.conf")) < 0 ||
	    mkfifo(in_root("5.conf"), 0600) < 0)
		abort();
	expect_load("~/1.conf: error: cannot read it: Input/output error\n"
		    "~/2.conf: error: cannot read it: Too many levels of symbolic links\n"
		    "~/3.conf: error: cannot read it: Too many levels of symbolic links\n"
		    "~/4.conf: error: cannot read it: Too many levels of symbolic links\n"
		    "~/5.conf: error: ~/5.conf is not a regular file\n");

	/* Named on purpose a pipe may be read, and not for ever. */
	load_as(0, in_root("5.conf"), &a);
	expect_answer(&a, "warning: there are no rules: nothing will be reported\n0 rules\n");

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	load_as(0, in_root(name), &a);
	EXPECT_EQ(a.r, -EINVAL);
	EXPECT(strstr(a.text, "xxx: error: cannot read it: File name too long\n"));
}

TEST(paths_beyond_the_limit)
{
	static struct answer a;

	fresh_root();
	put_many("a.conf", V "@include \"", "x/", 3000, "y\"\n");
	load_as(0, NULL, &a);
	EXPECT_EQ(a.r, -EINVAL);
	EXPECT(strstr(a.text, "a.conf:2: error: cannot include "));
	EXPECT(strstr(a.text, "x/x ... "));
	EXPECT(strstr(a.text, "y: File name too long\n"));
	EXPECT(strlen(a.text) < 1200);
}

TEST(files_that_may_not_be_read)
{
	static struct answer a;
	uid_t uid = geteuid() == 0 ? 65534 : 0;

	fresh_root();
	put_text("a.conf", V);
	put_text("b.conf", V "@include \"a.conf\"\n");
	if (chmod(root, 0755) < 0 || chmod(in_root("a.conf"), 0) < 0 || chmod(in_root("b.conf"), 0644) < 0)
		abort();
	load_as(uid, NULL, &a);
	expect_answer(&a, "~/a.conf: error: cannot read it: Permission denied\n"
			  "~/b.conf:2: error: cannot include ~/a.conf: Permission denied\n");
	if (chmod(root, 0) < 0)
		abort();
	load_as(uid, NULL, &a);
	if (chmod(root, 0700) < 0)
		abort();
	EXPECT_EQ(a.r, -EINVAL);
	EXPECT(strstr(a.text, ": error: cannot read it: Permission denied\n"));
}

static const struct {
	const char *text;
	size_t len;
	const char *errors;
} bytes[] = {
#define BYTES(text, errors) { text, sizeof(text) - 1, errors }
	BYTES("\0" V, "~/a.conf:1: error: holds a NUL byte: this is not a text file\n"),
	BYTES(V "rules = (\0 );\n", "~/a.conf:2: error: holds a NUL byte: this is not a text file\n"),
	BYTES(V "rules = ( );\n\0", "~/a.conf:3: error: holds a NUL byte: this is not a text file\n"),
	BYTES(V "#\rrules = ( );\n", "~/a.conf:2: error: holds a carriage return that ends no line: save it with Unix line "
				     "ends\n"),
	BYTES("version = 1;\r\n\r", "~/a.conf:2: error: holds a carriage return that ends no line: save it with Unix line "
				    "ends\n"),
	BYTES("version = 1;\r\nrules = ( { name = \"x\";\r\nkind = \"leak\"; } );\r\n", "1 rules\n"),
	BYTES("\xff\xfev\0e\0", "~/a.conf:1: error: is UTF-16 text: save it as plain UTF-8\n"),
	BYTES("\xfe\xff\0v\0e", "~/a.conf:1: error: is UTF-16 text: save it as plain UTF-8\n"),
	BYTES("v\0e\0r\0", "~/a.conf:1: error: holds a NUL byte: this is not a text file\n"),
	/* Neither bytes that are no UTF-8 nor what turns a terminal's colour or direction is printed as it is. */
	BYTES(V "rules = ( { name = \"a\xff\xc2\x9b\x31m\xe2\x80\xae\xc3\xa9\"; kind = \"leak\"; } );\n",
	      "~/a.conf:2: error: name \"a\\xff\\xc2\\x9b1m\\xe2\\x80\\xae\xc3\xa9\" must be plain text: no control "
	      "characters, quotes or backslashes, no blank at either end\n"),
	BYTES(V "x = 0x80000000;\n", "~/a.conf:2: error: 0x80000000 is too large a number: sizes and times are strings with a "
				     "unit, such as \"40GiB\" or \"30s\"\n"),
	BYTES("@include \"a", "~/a.conf:1: error: the string that starts here never ends\n"),
	BYTES("\"\\", "~/a.conf:1: error: the string that starts here never ends\n"),
};

TEST(bytes_that_are_no_text)
{
	for (size_t i = 0; i < ARRAY_SIZE(bytes); i++) {
		fresh_root();
		put("a.conf", bytes[i].text, bytes[i].len);
		expect_load(bytes[i].errors);
	}
}

static const struct {
	const char *kind, *key, *text;
} edges[] = {
	{ "alloc_failure", "count = -1", "count = -1 is out of range: it goes from 1 to 100000" },
	{ "alloc_failure", "count = 2147483647", "count = 2147483647 is out of range: it goes from 1 to 100000" },
	{ "alloc_failure", "count = 2147483648", "2147483648 is too large a number: sizes and times are strings with a unit, "
						 "such as \"40GiB\" or \"30s\"" },
	{ "alloc_failure", "count = 9223372036854775808L", "count = 9223372036854775807 is out of range: it goes from 1 to "
							   "100000" },
	{ "alloc_failure", "count = 1e309", "count needs a plain number, without quotes or unit" },
	{ "alloc_failure", "window = \"1e5s\"", "window = \"1e5s\" is not a time: write a number and ms, s, m, h or d, such "
						"as \"1m30s\"" },
	{ "alloc_failure", "window = \"99999999999999999999d\"", "window = \"99999999999999999999d\" is out of range: it goes "
								 "from 1s to 1d" },
	{ "alloc_failure", "window = \"213504d\"", "window = \"213504d\" is out of range: it goes from 1s to 1d" },
	{ "alloc_failure", "window = \"-1s\"", "window = \"-1s\" is not a time: write a number and ms, s, m, h or d, such as "
					       "\"1m30s\"" },
	{ "leak", "occupancy = 1e309", "occupancy is out of range: it goes from 0 to 1" },
	{ "leak", "occupancy = -1e309", "occupancy is out of range: it goes from 0 to 1" },
	{ "live_bytes", "fire_above = \"99999999999999999999GiB\"", "fire_above = \"99999999999999999999GiB\" is too large" },
	{ "live_bytes", "fire_above = \"18446744073709551616B\"", "fire_above = \"18446744073709551616B\" is too large" },
	{ "live_bytes", "fire_above = \"-5%\"", "fire_above = \"-5%\" is out of range: a share goes from 0% to 100%" },
	{ "live_bytes", "fire_above = \"100.0001%\"", "fire_above = \"100.0001%\" is out of range: a share goes from 0% to "
						      "100%" },
	{ "live_bytes", "fire_above = \"NaN%\"", "fire_above = \"NaN%\" is not a size: write a number and B, KiB, MiB, GiB, "
						 "TiB or %, such as \"100MiB\" or \"92%\"" },
	{ "live_bytes", "fire_above = \"1e5GiB\"", "fire_above = \"1e5GiB\" is not a size: write a number and B, KiB, MiB, "
						   "GiB, TiB or %, such as \"100MiB\" or \"92%\"" },
};

TEST(numbers_at_the_edges)
{
	for (size_t i = 0; i < ARRAY_SIZE(edges); i++) {
		char text[512], expected[512];
		struct result res;

		snprintf(text, sizeof(text), V "rules = ( { name = \"x\"; kind = \"%s\";\n%s; } );\n", edges[i].kind, edges[i].key);
		snprintf(expected, sizeof(expected), "t.conf:3: error: %s\n", edges[i].text);
		res = parse(text);
		EXPECT_EQ(res.r, -EINVAL);
		EXPECT_STR(res.text, expected);
		result_done(&res);
	}
}

/* Another process writes the file while we read it: what is read is told of, or is whole. */
TEST(file_that_changes)
{
	char *paths[] = { root };
	size_t loaded = 0;
	pid_t pid;

	fresh_root();
	put_text("a.conf", V);
	fflush(stdout);
	if ((pid = fork()) == 0) {
		alarm(HANG_SECONDS);
		for (size_t i = 0;; i++)
			put_numbered("a.conf", V "rules = (\n{ name = \"x\"; kind = \"leak\"; }", ",\n{ name = \"rule-",
				     "\"; kind = \"leak\"; }", i % 2 ? 0 : 300, ");\n");
	}
	for (int i = 0; i < 200; i++) {
		struct result res = load("", paths, 1);

		EXPECT((res.r == 0) == (res.errors.error_count == 0));
		EXPECT(res.r == 0 || res.r == -EINVAL);
		EXPECT(res.r < 0 || res.rs->len == 0 || res.rs->len == 1 || res.rs->len == 301);
		loaded += res.r == 0;
		result_done(&res);
	}
	EXPECT(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	EXPECT(loaded > 0);
}

/* After three times no pattern is asked any more. */
TEST(allocators_that_take_for_ever)
{
	char *patterns[] = { (char *)"^/(a+)+$", (char *)"^/(a|aa)+$", (char *)"^/((((a*)*)*)*)*$" };
	_cleanup_(allocators_freep) struct allocators *a = NULL;
	unsigned strikes = 3;
	char path[1025];
	clock_t start = clock();

	memset(path, 'a', 1024);
	path[0] = '/';
	path[1023] = 'b';
	path[1024] = '\0';
	ASSERT(allocators_new(patterns, ARRAY_SIZE(patterns), &a) == 0);
	for (int i = 0; i < 1000; i++)
		EXPECT(!allocators_match(a, path, 1024, &strikes));
	EXPECT_EQ(strikes, 0);
	EXPECT((double)(clock() - start) / CLOCKS_PER_SEC < SECONDS_MAX);
}

static unsigned distance(const char *a, const char *b)
{
	unsigned change, drop, add;

	if (!*a || !*b)
		return (unsigned)(strlen(a) + strlen(b));
	if (*a == *b)
		return distance(a + 1, b + 1);
	change = distance(a + 1, b + 1);
	drop = distance(a + 1, b);
	add = distance(a, b + 1);
	return 1 + MIN(change, MIN(drop, add));
}

/* The suggestion is that of somebody who looks at all there is. */
TEST(suggestions_are_the_nearest)
{
	unsigned seed = 1, suggested = 0;

	for (int i = 0; i < 20000; i++) {
		char words[4][8];
		const char *names[4] = { words[1], words[2], words[3], NULL }, *best = NULL, *found;
		unsigned least = 3;

		for (size_t w = 0; w < 4; w++) {
			size_t len = (seed = seed * 1103515245 + 12345) / 65536 % 7 + 1;

			for (size_t k = 0; k < len; k++)
				words[w][k] = "abc"[(seed = seed * 1103515245 + 12345) / 65536 % 3];
			words[w][len] = '\0';
		}
		for (size_t w = 0; w < 3; w++) {
			unsigned d = distance(words[0], names[w]);

			if (d < least && d < strlen(words[0]) && d < strlen(names[w])) {
				least = d;
				best = names[w];
			}
		}
		found = conf_suggest(words[0], names);
		EXPECT(found == best);
		suggested += found != NULL;
	}
	EXPECT(suggested > 1000 && suggested < 19000);
}

TEST_MAIN()
