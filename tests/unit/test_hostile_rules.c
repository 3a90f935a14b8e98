/* SPDX-License-Identifier: MIT */
/* Too much of what is good by itself: rules, lists, patterns, names. Written by a program, or in order to hurt. */
#include "hostile_load.h"

#define LEAK "kind = \"leak\"; }"

/* So many lists a0, a1, ... of line 2 are warned of, and then comes more. */
static void expect_unused(size_t n, const char *more)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	for (size_t i = 0; i < n; i++)
		strbuf_addf(&sb, "~/a.conf:2: warning: list \"a%zu\" is used by no rule: remove it\n", i);
	strbuf_addf(&sb, "%s%s1 rules\n", *more ? "~/a.conf:2: " : "", more);
	expect_load(strbuf_str(&sb));
}

TEST(large_groups)
{
	const char *cure = "use several files, or a list\n";
	char text[256];

	snprintf(text, sizeof(text), "~/a.conf:1001: error: more than 1000 settings in one group: %s", cure);
	fresh_root();
	put_numbered("a.conf", V, "a", " = 1;\n", 80000, "");
	expect_load(text);
	put_numbered("a.conf", V, "a", " : 1\n", 80000, "");
	expect_load(text);
	snprintf(text, sizeof(text), "~/a.conf:2: error: more than 1000 settings in one group: %s", cure);
	put_numbered("a.conf", V "lists = {", "a", "=\"^x\";", 70000, "};\n");
	expect_load(text);
	put_numbered("a.conf", V "rules = ( { name = \"x\"; match = { ", "a", "=1;", 100000, "}; } );\n");
	expect_load(text);
	put_numbered("a.conf", V "lists = { ", "a", "=\"^x\";", 1000,
		     "};\nrules = ( { name = \"=\"; kind = \"leak\"; match = { comm = \"@a999\"; }; } );\n");
	expect_unused(20, "warning: list \"a20\" and 978 more are used by no rule: remove them\n");
}

TEST(unused_lists)
{
	static const char rule[] = "};\nrules = ( { name = \"x\"; kind = \"leak\"; } );\n";

	fresh_root();
	put_numbered("a.conf", V "lists = { ", "a", "=\"^x\";", 20, rule);
	expect_unused(20, "");
	put_numbered("a.conf", V "lists = { ", "a", "=\"^x\";", 21, rule);
	expect_unused(21, "");
	put_numbered("a.conf", V "lists = { ", "a", "=\"^x\";", 22, rule);
	expect_unused(20, "warning: list \"a20\" and 1 more are used by no rule: remove them\n");
}

TEST(long_lists)
{
	static struct answer a;

	fresh_root();
	put_numbered("a.conf", V "lists = { l = [\n\"^a\"", ",\"^", "\"", 95000, "\n]; };\n");
	expect_load("~/a.conf:2: error: l holds 95001 strings, more than 10000: most can be one pattern\n");
	put_numbered("a.conf", V "lists = { l = [\n\"^a\"", ",\"^", "\"", 9999,
		     "\n]; };\nrules = ( { name = \"x\"; kind = \"leak\"; match = { comm = \"@l\"; }; } );\n");
	expect_load("1 rules\n");
	put_many("gpuxray.conf", "redact = [ \"a\"", ", \"a\"", 100000, " ];\n");
	load_as(0, in_root("gpuxray.conf"), &a);
	expect_answer(&a, "~/gpuxray.conf:1: error: redact holds 100001 strings, more than 10000: most can be one pattern\n");
}

TEST(many_errors)
{
	static struct answer a;

	fresh_root();
	put_numbered("a.conf", V "rules = (\n{ name = \"x\"; kind = \"leak\"; }", ",\n{ name = \"rule-",
		     "\"; kind = \"no-such-kind\"; }", 3000, ");\n");
	load_as(0, NULL, &a);
	EXPECT_EQ(a.r, -EINVAL);
	EXPECT(strstr(a.text, "a.conf:4: error: unknown kind \"no-such-kind\": known are live_bytes, "));
	EXPECT(strstr(a.text, "\nerror: 2800 more not shown\n"));
}

/* rule-0, rule-1, ... one a line from line 3 on, and last. */
static void put_rules(const char *name, size_t n, const char *last)
{
	_cleanup_strbuf_ struct strbuf tail = STRBUF_INIT;

	strbuf_addf(&tail, "{ name = \"%s\"; " LEAK " );\n", last);
	put_numbered(name, V "rules = (\n", "{ name = \"rule-", "\"; " LEAK ",\n", n, strbuf_str(&tail));
}

TEST(many_rules)
{
	char name[32], last[32];

	fresh_root();
	put_rules("a.conf", 9999, "last");
	expect_load("10000 rules\n");
	/* What is there may still be changed. */
	put_text("b.conf", V "rules = ( { name = \"rule-7\"; override = \"merge\"; for = \"1m\"; },\n"
			     "{ name = \"rule-8\"; override = \"off\"; } );\n");
	expect_load("9999 rules\n");
	put_rules("a.conf", 10000, "last");
	expect_load("~/a.conf:10003: error: more than 10000 rules: what follows was not looked at\n");

	/* The names in the first file are those of all others: not a word of that. */
	fresh_root();
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "%d.conf", i);
		snprintf(last, sizeof(last), "last-%d", i);
		put_rules(name, 20000, last);
	}
	expect_load("~/0.conf:10003: error: more than 10000 rules: what follows was not looked at\n");
}

/* Of what was not looked at nobody can say that it is missing. */
TEST(names_behind_the_last_rule_looked_at)
{
	fresh_root();
	put_text("a.conf", V "rules = ( { name = \"x\"; kind = \"leak\"; inhibits = \"last\"; match = { comm = \"@l\"; }; } );\n");
	put_rules("b.conf", 10000, "last");
	put_text("c.conf", V "lists = { l = \"^a\"; };\n");
	expect_load("~/b.conf:10002: error: more than 10000 rules: what follows was not looked at\n");
}

#define LIST V "lists = { l = [\n"

/* A list of 10,000 patterns, and so many rules that name it. */
static void put_list_uses(size_t rules, const char *before, const char *after)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	strbuf_adds(&sb, "\"^last\" ]; };\nrules = (\n");
	for (size_t i = 0; i < rules; i++)
		strbuf_addf(&sb, "%s{ name = \"%zu\"; %s match = { comm = \"@l\"; }; %s }\n", i > 0 ? "," : "", i, before, after);
	strbuf_adds(&sb, ");\n");
	put_numbered("a.conf", LIST, "\"^name-", "$\",\n", 9999, strbuf_str(&sb));
}

TEST(long_list_in_many_rules)
{
	static struct answer a;

	fresh_root();
	put_list_uses(100, "kind = \"leak\";", "");
	expect_load("100 rules\n");
	put_list_uses(101, "kind = \"leak\";", "");
	expect_load("~/a.conf:10104: error: the rules ask more than 1000000 patterns in all, those of a list counted "
		    "wherever it is named: make one pattern of several, or name long lists in fewer rules\n");

	/* Looked through for what can never fire, as far as that takes no time. */
	put_list_uses(50, "kind = \"leak\";", "except = { comm = \"@l\"; };");
	load_as(0, NULL, &a);
	EXPECT_EQ(a.r, 0);
	EXPECT(strstr(a.text, "a.conf:10004: warning: rule \"0\" can never fire: except takes out all that match lets in, "));
	EXPECT(!strstr(a.text, "rule \"49\" can never fire"));
	EXPECT(strstr(a.text, "50 rules\n"));
}

TEST(patterns_that_take_much_memory)
{
	static struct answer a;

	fresh_root();
	put_numbered("a.conf", LIST, "\"^(?:(a|b|c)?", "){900}\",\n", 9999,
		     "\"^last\" ]; };\nrules = ( { name = \"x\"; kind = \"leak\"; match = { comm = \"@l\"; }; } );\n");
	load_as(0, NULL, &a);
	EXPECT_EQ(a.r, -EINVAL);
	EXPECT(strstr(a.text, ": error: the patterns of all rules take more than 64 MiB: write fewer or simpler ones\n"));
	EXPECT(strchr(a.text, '\n') == a.text + strlen(a.text) - 1);

	/* Each for nothing. */
	put_numbered("a.conf", LIST, "\"^(?:(a|b|c)?", "){3000}\",\n", 9999, "\"^last\" ]; };\n");
	load_as(0, NULL, &a);
	EXPECT_EQ(a.r, -EINVAL);
	EXPECT(strstr(a.text, "?0){3000}\" is not a regular expression: regular expression is too large"));
	EXPECT(strstr(a.text, "\nerror: 9799 more not shown\n"));
}

TEST(many_names_in_inhibits)
{
	static struct answer a;

	fresh_root();
	put_rules("a.conf", 9000, "last");
	put_numbered("b.conf", V "rules = ( { name = \"x\"; kind = \"leak\"; inhibits = [\n", "\"rule-", "\", \n", 9000,
		     "\"last\", \"last\" ]; } );\n");
	expect_load("9002 rules\n");
	put_numbered("b.conf", V "rules = ( { name = \"x\"; kind = \"leak\"; inhibits = [\n", "\"rulf-", "xyz\", \n", 9000,
		     "\"last\", \"lasd\" ]; } );\n");
	load_as(0, NULL, &a);
	EXPECT_EQ(a.r, -EINVAL);
	EXPECT(strstr(a.text, "b.conf:3: error: unknown rule in inhibits \"rulf-0xyz\": known are rule-0, rule-1, "));
	EXPECT(strstr(a.text, "\nerror: 8801 more not shown\n"));
}

TEST(many_overrides)
{
	static struct answer a;

	fresh_root();
	put_rules("a.conf", 9999, "last");
	put_numbered("b.conf", V "rules = (\n", "{ name = \"rule-", "\"; override = \"off\"; },\n", 9990,
		     "{ name = \"last\"; override = \"merge\"; for = \"1m\"; } );\n");
	expect_load("10 rules\n");
	put_numbered("b.conf", V "rules = (\n", "{ name = \"rulf-", "xyz\"; override = \"off\"; },\n", 9990,
		     "{ name = \"lasd\"; override = \"merge\"; for = \"1m\"; } );\n");
	load_as(0, NULL, &a);
	EXPECT_EQ(a.r, -EINVAL);
	EXPECT(strstr(a.text, "b.conf:3: error: there is no rule \"rulf-0xyz\" to override: it must come before, "));
	EXPECT(strstr(a.text, "\nerror: 9791 more not shown\n"));
}

/* Each rule silences the next one and the 20 before. */
TEST(many_circles)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	static struct answer a;

	fresh_root();
	strbuf_adds(&sb, V "rules = (\n");
	for (int i = 0; i < 3000; i++) {
		strbuf_addf(&sb, "%s{ name = \"r%d\"; kind = \"leak\"; inhibits = [ \"r%d\"", i > 0 ? "," : "", i,
			    i < 2999 ? i + 1 : 0);
		for (int k = MAX(0, i - 20); k < i; k++)
			strbuf_addf(&sb, ", \"r%d\"", k);
		strbuf_adds(&sb, " ]; }\n");
	}
	strbuf_adds(&sb, ");\n");
	put_text("a.conf", strbuf_str(&sb));
	load_as(0, NULL, &a);
	EXPECT_EQ(a.r, -EINVAL);
	EXPECT(strstr(a.text, "a.conf:3: error: rules silence each other in a circle: \"r0\" ("));
	EXPECT(strstr(a.text, "inhibits 2992 more, the last of which inhibits \"r0\": remove one of these\n"));
	EXPECT(strstr(a.text, " more not shown\n"));
}

TEST_MAIN()
