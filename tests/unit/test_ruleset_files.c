/* SPDX-License-Identifier: MIT */
/* Which files are read, in which order, and what one may change of another. */
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "ruleset_load.h"

#define SEC NSEC_PER_SEC

static char root[] = "/tmp/test_ruleset.XXXXXX";
static bool has_root;

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	return remove(path);
}

static void remove_root(void)
{
	if (has_root)
		(void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void fresh_root(void)
{
	if (!has_root) {
		if (!mkdtemp(root))
			abort();
		has_root = true;
		atexit(remove_root);
		return;
	}
	remove_root();
	if (mkdir(root, 0700) < 0)
		abort();
}

static const char *in_root(const char *name)
{
	static char path[4][512];
	static int next;
	char *p = path[next++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s", root, name);
	return p;
}

static void put(const char *name, const void *data, size_t len)
{
	const char *path = in_root(name);
	char dir[512];
	FILE *f;

	snprintf(dir, sizeof(dir), "%s", path);
	for (char *p = dir + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		if (mkdir(dir, 0700) < 0 && errno != EEXIST)
			abort();
		*p = '/';
	}
	f = fopen(path, "w");
	if (!f || (len && fwrite(data, len, 1, f) != 1) || fclose(f) != 0)
		abort();
}

static void put_text(const char *name, const char *text)
{
	put(name, text, strlen(text));
}

static void put_rule(const char *file, const char *rule)
{
	char text[2048];

	snprintf(text, sizeof(text), "version = 1;\nrules = (\n%s\n);\n", rule);
	put_text(file, text);
}

/* Expected text with %s for the root. */
static void expect_text(const char *text, const char *format)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	for (const char *p = format; *p; p++) {
		if (*p == '~')
			strbuf_adds(&sb, root);
		else
			strbuf_addc(&sb, *p);
	}
	EXPECT_STR(text, strbuf_str(&sb));
}

TEST(override_over_files)
{
	struct result res;
	const struct rule *r;

	fresh_root();
	put_rule("usr/lib/gpuxray/rules.d/10-a.conf", "{ name = \"one\"; kind = \"live_bytes\"; fire_above = \"1GiB\"; "
						      "for = \"7s\"; },\n"
						      "{ name = \"two\"; kind = \"leak\"; },\n{ name = \"three\"; kind "
						      "= \"leak\"; }");
	put_text("etc/gpuxray/rules.d/50-b.conf", "version = 1;\ndefaults = { for = \"1m\"; };\nrules = (\n"
						  "{ name = \"one\"; override = \"merge\"; severity = \"critical\"; "
						  "},\n"
						  "{ name = \"two\"; override = \"replace\"; kind = \"alloc_rate\"; "
						  "fire_above = \"1/s\"; },\n"
						  "{ name = \"three\"; override = \"off\"; } );\n");
	res = load(root, NULL, 0);
	EXPECT_STR(res.text, "");
	ASSERT(res.rs && res.rs->len == 2);
	EXPECT_EQ(res.rs->file_count, 2);
	r = res.rs->rules[0];
	EXPECT_EQ(r->severity, SEVERITY_CRITICAL);
	EXPECT_EQ(r->for_ns, 7 * SEC); /* the other file's default is not for it */
	EXPECT_EQ(r->line, 4);
	EXPECT(strstr(r->file, "50-b.conf"));
	r = res.rs->rules[1];
	EXPECT_EQ(r->kind, RULE_ALLOC_RATE);
	EXPECT_EQ(r->for_ns, 60 * SEC);
	result_done(&res);

	/* Off, and then anew without override. */
	put_rule("etc/gpuxray/rules.d/60-c.conf", "{ name = \"three\"; kind = \"alloc_failure\"; }");
	res = load(root, NULL, 0);
	EXPECT_STR(res.text, "");
	EXPECT(res.rs && res.rs->len == 3);
	result_done(&res);

	put_rule("run/gpuxray/rules.d/70-d.conf", "{ name = \"one\"; kind = \"leak\"; }");
	res = load(root, NULL, 0);
	expect_text(res.text, "~/run/gpuxray/rules.d/70-d.conf:3: error: rule \"one\" is defined twice, first at "
			      "~/etc/gpuxray/rules.d/50-b.conf:4: rename one, or write override = \"replace\" | "
			      "\"merge\" | \"off\"\n");
	result_done(&res);
}

/* What a broken file would have defined is not said to be missing. */
TEST(no_errors_out_of_other_errors)
{
	struct result res;

	fresh_root();
	put_text("etc/gpuxray/rules.d/1.conf", "version = 1;\nlists = { l = [ \"^a\" ] };\nrules = (\n");
	put_rule("etc/gpuxray/rules.d/2.conf", "{ name = \"a\"; override = \"off\"; },\n"
					       "{ name = \"b\"; kind = \"leak\"; match = { comm = \"@l\"; }; epochs = "
					       "1; }");
	res = load(root, NULL, 0);
	expect_text(res.text, "~/etc/gpuxray/rules.d/1.conf:4: error: syntax error at this line or just before it: a "
			      "missing \";\", "
			      "quote or bracket, or a comma before \")\"?\n"
			      "~/etc/gpuxray/rules.d/2.conf:4: error: epochs = 1 is out of range: it goes from 4 to "
			      "64\n");
	result_done(&res);
}

TEST(lists_are_shared_by_all_files)
{
	struct result res;

	fresh_root();
	put_rule("etc/gpuxray/rules.d/1.conf", "{ name = \"a\"; kind = \"leak\"; match = { comm = \"@l\"; }; }");
	put_text("etc/gpuxray/rules.d/2.conf", "version = 1;\nlists = { l = \"^a\"; };\n");
	res = load(root, NULL, 0);
	EXPECT_STR(res.text, "");
	EXPECT(res.rs && res.rs->rules[0]->match->key[MATCH_COMM].len == 1);
	result_done(&res);
	put_text("etc/gpuxray/rules.d/3.conf", "version = 1;\nlists = { l = \"^a\"; };\n");
	res = load(root, NULL, 0);
	expect_text(res.text, "~/etc/gpuxray/rules.d/3.conf:2: error: list \"l\" is defined twice, first at "
			      "~/etc/gpuxray/rules.d/2.conf:2: rename one, lists are shared by all files\n");
	result_done(&res);
}

TEST(search_path_masks)
{
	struct result res;

	fresh_root();
	res = load(root, NULL, 0);
	EXPECT_EQ(res.r, 0);
	EXPECT_STR(res.text, "warning: there are no rules: nothing will be reported\n");
	result_done(&res);

	put_rule("usr/lib/gpuxray/rules.d/30-c.conf", "{ name = \"usr-c\"; kind = \"leak\"; }");
	put_rule("usr/lib/gpuxray/rules.d/10-a.conf", "{ name = \"usr-a\"; kind = \"leak\"; }");
	put_rule("usr/lib/gpuxray/rules.d/40-d.conf", "{ name = \"usr-d\"; kind = \"leak\"; }");
	put_rule("usr/lib/gpuxray/rules.d/50-e.conf", "broken");
	put_rule("usr/lib/gpuxray/rules.d/README", "broken");
	put_rule("usr/lib/gpuxray/rules.d/.50-e.conf", "broken");
	put_rule("run/gpuxray/rules.d/20-b.conf", "{ name = \"run-b\"; kind = \"leak\"; }");
	put_rule("run/gpuxray/rules.d/30-c.conf", "{ name = \"run-c\"; kind = \"leak\"; }");
	put_rule("etc/gpuxray/rules.d/20-b.conf", "{ name = \"etc-b\"; kind = \"leak\"; }");
	put("etc/gpuxray/rules.d/40-d.conf", "", 0);
	if (symlink("/dev/null", in_root("etc/gpuxray/rules.d/50-e.conf")) < 0)
		abort();
	res = load(root, NULL, 0);
	EXPECT_EQ(res.r, 0);
	expect_text(res.text, "~/run/gpuxray/rules.d/20-b.conf: warning: masked by ~/etc/gpuxray/rules.d/20-b.conf\n"
			      "~/usr/lib/gpuxray/rules.d/30-c.conf: warning: masked by "
			      "~/run/gpuxray/rules.d/30-c.conf\n"
			      "~/usr/lib/gpuxray/rules.d/40-d.conf: warning: switched off by "
			      "~/etc/gpuxray/rules.d/40-d.conf\n"
			      "~/usr/lib/gpuxray/rules.d/50-e.conf: warning: switched off by "
			      "~/etc/gpuxray/rules.d/50-e.conf\n");
	ASSERT(res.rs && res.rs->len == 3);
	EXPECT_EQ(res.rs->file_count, 3);
	EXPECT_STR(res.rs->rules[0]->name, "usr-a");
	EXPECT_STR(res.rs->rules[1]->name, "etc-b");
	EXPECT_STR(res.rs->rules[2]->name, "run-c");
	result_done(&res);
}

TEST(paths_replace_the_search_path)
{
	char dir[512], file[512], missing[512];
	char *paths[] = { dir, file, missing };
	struct result res;

	fresh_root();
	put_rule("etc/gpuxray/rules.d/1.conf", "{ name = \"etc\"; kind = \"leak\"; }");
	put_rule("d/2.conf", "{ name = \"two\"; kind = \"leak\"; }");
	put_rule("d/1.conf", "{ name = \"one\"; kind = \"leak\"; }");
	put_rule("three", "{ name = \"three\"; kind = \"leak\"; }");
	snprintf(dir, sizeof(dir), "%s", in_root("d"));
	snprintf(file, sizeof(file), "%s", in_root("three"));
	snprintf(missing, sizeof(missing), "%s", in_root("missing"));
	res = load(root, paths, 2);
	EXPECT_STR(res.text, "");
	ASSERT(res.rs && res.rs->len == 3);
	EXPECT_STR(res.rs->rules[0]->name, "one");
	EXPECT_STR(res.rs->rules[1]->name, "two");
	EXPECT_STR(res.rs->rules[2]->name, "three");
	result_done(&res);
	res = load(root, paths, 3);
	EXPECT_EQ(res.r, -EINVAL);
	expect_text(res.text, "~/missing: error: cannot read it: No such file or directory\n");
	result_done(&res);
}

TEST(files_that_are_no_rule_files)
{
	static char big[(1 << 20) + 1];
	struct result res;

	fresh_root();
	memset(big, ' ', sizeof(big));
	put("etc/gpuxray/rules.d/1-big.conf", big, sizeof(big));
	put("etc/gpuxray/rules.d/2-nul.conf", "version = 1;\nrules\0 = ();\n", 24);
	if (mkfifo(in_root("etc/gpuxray/rules.d/3-pipe.conf"), 0600) < 0 ||
	    mkdir(in_root("etc/gpuxray/rules.d/4-dir.conf"), 0700) < 0 ||
	    symlink("/dev/zero", in_root("etc/gpuxray/rules.d/5-zero.conf")) < 0 ||
	    symlink("nowhere", in_root("etc/gpuxray/rules.d/6-link.conf")) < 0)
		abort();
	res = load(root, NULL, 0);
	EXPECT_EQ(res.r, -EINVAL);
	expect_text(res.text, "~/etc/gpuxray/rules.d/1-big.conf: error: ~/etc/gpuxray/rules.d/1-big.conf is larger "
			      "than 1 MiB: split it "
			      "into several files\n"
			      "~/etc/gpuxray/rules.d/2-nul.conf:2: error: holds a NUL byte: this is not a text file\n"
			      "~/etc/gpuxray/rules.d/3-pipe.conf: error: ~/etc/gpuxray/rules.d/3-pipe.conf is not a "
			      "regular file\n"
			      "~/etc/gpuxray/rules.d/4-dir.conf: error: ~/etc/gpuxray/rules.d/4-dir.conf is a "
			      "directory where a file is "
			      "wanted\n"
			      "~/etc/gpuxray/rules.d/5-zero.conf: error: ~/etc/gpuxray/rules.d/5-zero.conf is not a "
			      "regular file\n"
			      "~/etc/gpuxray/rules.d/6-link.conf: error: cannot read it: No such file or directory\n");
	result_done(&res);
}

TEST(includes)
{
	struct result res;

	fresh_root();
	put_text("etc/gpuxray/rules.d/1.conf", "version = 1;\n@include \"parts/lists.inc\"\n"
					       "rules = (\n@include \"parts/rule.inc\"\n);\n");
	put_text("etc/gpuxray/rules.d/parts/lists.inc", "lists = { l = \"^a\"; };\n");
	put_text("etc/gpuxray/rules.d/parts/rule.inc", "\n{ name = \"in\"; kind = \"leak\"; match = { comm = \"@l\"; "
						       "};\n}\n");
	res = load(root, NULL, 0);
	EXPECT_STR(res.text, "");
	ASSERT(res.rs && res.rs->len == 1);
	expect_text(res.rs->rules[0]->file, "~/etc/gpuxray/rules.d/parts/rule.inc");
	EXPECT_EQ(res.rs->rules[0]->line, 2);
	result_done(&res);

	put_text("etc/gpuxray/rules.d/parts/rule.inc", "\n{ name = \"in\"; kind = \"leak\";\nepochs = \"x\"; }\n");
	res = load(root, NULL, 0);
	expect_text(res.text, "~/etc/gpuxray/rules.d/parts/rule.inc:3: error: epochs needs a plain number, without "
			      "quotes or unit\n");
	result_done(&res);

	put_text("etc/gpuxray/rules.d/parts/rule.inc", "\n{ name = \"in\" kind = ; }\n");
	res = load(root, NULL, 0);
	expect_text(res.text, "~/etc/gpuxray/rules.d/parts/rule.inc:2: error: syntax error at this line or just before "
			      "it: a "
			      "missing \";\", quote or bracket, or a comma before \")\"?\n");
	result_done(&res);

	put_text("etc/gpuxray/rules.d/parts/rule.inc", "\n@include \"1.conf\"\n");
	put("etc/gpuxray/rules.d/parts/lists.inc", "\n\0", 2);
	res = load(root, NULL, 0);
	expect_text(res.text, "~/etc/gpuxray/rules.d/parts/lists.inc:2: error: holds a NUL byte: this is not a text "
			      "file\n"
			      "~/etc/gpuxray/rules.d/parts/rule.inc:2: error: @include \"1.conf\" goes in a circle\n");
	result_done(&res);

	put_text("etc/gpuxray/rules.d/1.conf", "@include \"/etc/passwd\"\n  @include \"none\"\n\t@include\t\"\"\n");
	res = load(root, NULL, 0);
	expect_text(res.text, "~/etc/gpuxray/rules.d/1.conf:1: error: @include \"/etc/passwd\" is absolute: write it "
			      "relative to "
			      "~/etc/gpuxray/rules.d\n"
			      "~/etc/gpuxray/rules.d/1.conf:2: error: cannot include ~/etc/gpuxray/rules.d/none: No "
			      "such file or "
			      "directory\n"
			      "~/etc/gpuxray/rules.d/1.conf:3: error: @include needs a plain file name\n");
	result_done(&res);

	/* Opening these would never come back. */
	if (symlink("/dev/zero", in_root("etc/gpuxray/rules.d/zero")) < 0 ||
	    mkfifo(in_root("etc/gpuxray/rules.d/pipe"), 0600) < 0)
		abort();
	put_text("etc/gpuxray/rules.d/1.conf", "@include \"zero\"\n@include \"pipe\"\n");
	res = load(root, NULL, 0);
	expect_text(res.text, "~/etc/gpuxray/rules.d/1.conf:1: error: ~/etc/gpuxray/rules.d/zero is not a regular "
			      "file\n"
			      "~/etc/gpuxray/rules.d/1.conf:2: error: ~/etc/gpuxray/rules.d/pipe is not a regular "
			      "file\n");
	result_done(&res);
}

TEST(includes_end_somewhere)
{
	struct result res;

	fresh_root();
	for (int i = 0; i < 10; i++) {
		char name[64], text[64];

		snprintf(name, sizeof(name), "etc/gpuxray/rules.d/%d.%s", i, i ? "inc" : "conf");
		snprintf(text, sizeof(text), "@include \"%d.inc\"\n", i + 1);
		put_text(name, text);
	}
	res = load(root, NULL, 0);
	expect_text(res.text, "~/etc/gpuxray/rules.d/8.inc:1: error: @include is nested more than 8 files deep\n");
	result_done(&res);
}

TEST_MAIN()
