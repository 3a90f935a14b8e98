/* SPDX-License-Identifier: MIT */
/* Rules that are good by themselves and make no sense together. */
#include "ruleset_load.h"

#define HEAD "version = 1;\nrules = (\n"
#define LIVE(name, more) "{ name = \"" name "\"; kind = \"live_bytes\"; " more " }"

static const struct {
	const char *rules, *text; /* from line 3 on; "" = not a word */
} warned[] = {
	/* can never fire */
	{ LIVE("a", "fire_above = \"1GiB\"; match = { comm = \"^a\"; user = \"^u\"; };\n except = { comm = \"^a\"; };"),
	  "t.conf:4: warning: rule \"a\" can never fire: except takes out all that match lets in, remove one of the two\n" },
	{ LIVE("a", "fire_above = \"1GiB\"; match = { comm = [ \"^a\", \"^b\" ]; };\n"
		    " except = ( { user = \"^x\"; }, { comm = [ \"^b\", \"^c\", \"^a\" ]; } );"),
	  "t.conf:4: warning: rule \"a\" can never fire: except takes out all that match lets in, remove one of the two\n" },
	{ LIVE("a", "fire_above = \"1GiB\"; match = { comm = [ \"^a\", \"^b\" ]; }; except = { comm = \"^a\"; };"), "" },
	{ LIVE("a", "fire_above = \"1GiB\"; match = { comm = \"^a\"; }; except = { comm = \"^a\"; user = \"^u\"; };"), "" },
	{ LIVE("a", "fire_above = \"1GiB\"; except = { comm = \"^a\"; };"), "" },
	/* Of the device that was current when it was asked for. */
	{ LIVE("a", "fire_above = \"1GiB\"; class = \"host\";\n match = { device = \"^0$\"; };"), "" },
	{ "{ name = \"a\"; kind = \"leak\"; class = \"host\";\n full_in = \"6h\"; }",
	  "t.conf:4: warning: rule \"a\" has a full_in that is ignored: memory of its class fills no device, remove it\n" },
	{ "{ name = \"a\"; kind = \"leak\"; class = [ \"device\", \"managed\" ];\n"
	  " escalate = { severity = \"error\"; full_in = \"6h\"; }; }",
	  "t.conf:4: warning: rule \"a\" has a full_in that is ignored: memory of its class fills no device, remove it\n" },
	{ "{ name = \"a\"; kind = \"leak\"; class = \"framework\"; full_in = \"6h\"; }", "" },
	{ "{ name = \"a\"; kind = \"exit\"; live_above = \"1B\";\n never_freed_above = 1; }",
	  "t.conf:4: warning: rule \"a\" can never fire: no process keeps more than all of what it allocated, write less "
	  "than 1\n" },
	/* too late */
	{ "{ name = \"a\"; kind = \"leak\"; epoch = \"1m\"; epochs = 30;\n for = \"31m\"; }",
	  "t.conf:4: warning: rule \"a\" waits 31m after it has found a leak, longer than the 30m that it looks back: "
	  "write a shorter for, or raise for_epochs\n" },
	{ "{ name = \"a\"; kind = \"leak\"; epoch = \"1m\"; epochs = 30; for = \"30m\"; }", "" },
	{ "{ name = \"a\"; kind = \"leak\"; full_in = \"6h\";\n escalate = { severity = \"error\"; full_in = \"6h\"; }; }",
	  "t.conf:4: warning: rule \"a\" would never fire without escalating: the full_in of escalate is no less than its "
	  "own, lower it or raise the rule's severity\n" },
	{ "{ name = \"a\"; kind = \"leak\"; full_in = \"7d\"; escalate = { severity = \"error\"; full_in = \"6h\"; }; }", "" },
	/* never heard */
	{ LIVE("a", "fire_above = \"1GiB\"; budget = \"5/1h\";\n repeat = \"10m\";"),
	  "t.conf:4: warning: rule \"a\" would spend its budget on repeats of one incident, and others would not be heard: "
	  "repeat less often, or raise the budget\n" },
	{ LIVE("a", "fire_above = \"1GiB\"; budget = \"6/1h\"; repeat = \"10m\";"), "" },
	{ LIVE("low", "fire_above = \"1GiB\"; inhibits = [ \"high\" ];") ",\n" LIVE("high", "fire_above = \"2GiB\";"),
	  "t.conf:4: warning: rule \"high\" can never be heard: \"low\" (t.conf:3), which inhibits it, is about the same "
	  "and fires no later: take it out of inhibits, or raise the limit there\n" },
	{ LIVE("low", "fire_above = \"1GiB\"; match = { comm = \"^a\"; }; inhibits = [ \"high\" ];") ",\n"
	  LIVE("high", "fire_above = \"2GiB\"; match = { comm = \"^a\"; user = \"^u\"; };"),
	  "t.conf:4: warning: rule \"high\" can never be heard: \"low\" (t.conf:3), which inhibits it, is about the same "
	  "and fires no later: take it out of inhibits, or raise the limit there\n" },
	{ LIVE("high", "fire_above = \"2GiB\"; inhibits = [ \"low\" ];") "," LIVE("low", "fire_above = \"1GiB\";"), "" },
	{ LIVE("low", "fire_above = \"1GiB\"; for = \"1m\"; inhibits = [ \"high\" ];") ","
	  LIVE("high", "fire_above = \"2GiB\";"), "" },
	{ LIVE("low", "fire_above = \"1GiB\"; match = { comm = \"^a\"; }; inhibits = [ \"high\" ];") ","
	  LIVE("high", "fire_above = \"2GiB\";"), "" },
	{ LIVE("low", "fire_above = \"1GiB\"; except = { comm = \"^a\"; }; inhibits = [ \"high\" ];") ","
	  LIVE("high", "fire_above = \"2GiB\";"), "" },
	{ LIVE("low", "fire_above = \"1GiB\"; class = \"host\"; inhibits = [ \"high\" ];") ","
	  LIVE("high", "fire_above = \"2GiB\";"), "" },
	{ LIVE("dev", "scope = \"device\"; fire_above = \"1GiB\"; inhibits = [ \"p\" ];") ","
	  LIVE("p", "fire_above = \"2GiB\";"), "" },
	/* never inhibits */
	{ LIVE("p", "fire_above = \"1GiB\";\n inhibits = [ \"dev\" ];") ","
	  LIVE("dev", "scope = \"device\"; fire_above = \"92%\";"),
	  "t.conf:4: warning: rule \"p\" never inhibits \"dev\": what the one is about is never what the other is about "
	  "(process, device), remove the name\n" },
	{ LIVE("u", "scope = \"user\"; fire_above = \"1GiB\";\n inhibits = [ \"dev\" ];") ","
	  LIVE("dev", "scope = \"device\"; fire_above = \"92%\";"),
	  "t.conf:4: warning: rule \"u\" never inhibits \"dev\": what the one is about is never what the other is about "
	  "(user, device), remove the name\n" },
	{ "{ name = \"s\"; kind = \"single_alloc\"; fire_above = \"1GiB\";\n inhibits = [ \"l\" ]; }, { name = \"l\"; kind = "
	  "\"leak\"; }",
	  "t.conf:4: warning: rule \"s\" never inhibits: its kind \"single_alloc\" does not last, remove inhibits\n" },
	{ "{ name = \"l\"; kind = \"leak\"; inhibits = [ \"f\", \"s\" ]; }, { name = \"f\"; kind = \"alloc_failure\"; }, "
	  "{ name = \"s\"; kind = \"leak\"; scope = \"stack\"; }", "" },
	/* what it inhibits is gone */
	{ "{ name = \"l\"; kind = \"leak\";\n inhibits = [ \"f\",\n \"s\" ]; },\n{ name = \"f\"; kind = \"alloc_failure\";\n"
	  " enabled = false; }, { name = \"s\"; kind = \"leak\"; scope = \"stack\"; },\n"
	  "{ name = \"s\"; override = \"off\"; }",
	  "t.conf:4: warning: inhibits names rule \"f\", which is switched off at t.conf:7: remove the name\n"
	  "t.conf:5: warning: inhibits names rule \"s\", which is switched off at t.conf:8: remove the name\n" },
	{ "{ name = \"l\"; kind = \"leak\"; tags = [ \"a\",\n \"b,c\" ]; }",
	  "t.conf:4: warning: tag \"b,c\" has a comma, which stands between tags in GPUXRAY_TAGS: write two tags\n" },
	{ "{ name = \"l\"; kind = \"leak\"; match = { runtime = \"podman\"; pod = \"1-2\";\n tag = \"prod\"; }; }",
	  "t.conf:4: warning: pattern \"prod\" has no anchor and fits anywhere within tag: write \"^prod\" or "
	  "\"(^|/)prod$\" to say where\n" },
};

TEST(warnings)
{
	for (size_t i = 0; i < ARRAY_SIZE(warned); i++) {
		struct result res;
		char text[2048];

		snprintf(text, sizeof(text), HEAD "%s\n);\n", warned[i].rules);
		res = parse(text);
		EXPECT_EQ(res.r, 0);
		EXPECT_STR(res.text, warned[i].text);
		if (strcmp(res.text, warned[i].text) != 0)
			printf("# of %s\n", warned[i].rules);
		result_done(&res);
	}
}

/* A name that is gone must not come back when the rules are printed. */
TEST(names_that_are_gone_are_dropped)
{
	struct result res = parse(HEAD "{ name = \"l\"; kind = \"leak\"; inhibits = [ \"f\", \"g\" ]; },"
				  "{ name = \"f\"; kind = \"exit\"; live_above = \"1B\"; enabled = false; },"
				  "{ name = \"g\"; kind = \"exit\"; live_above = \"1B\"; } );");

	ASSERT(res.rs && res.rs->len == 2);
	ASSERT(res.rs->rules[0]->inhibits_len == 1);
	EXPECT_STR(res.rs->rules[0]->inhibits[0], "g");
	result_done(&res);
}

TEST(circles_are_errors)
{
	static const struct {
		const char *rules, *text;
	} bad[] = {
		{ "{ name = \"a\"; kind = \"leak\"; inhibits = [ \"b\" ]; },\n"
		  "{ name = \"b\"; kind = \"leak\"; inhibits = [ \"a\" ]; }",
		  "t.conf:3: error: rules silence each other in a circle: \"a\" (t.conf:3) inhibits \"b\" (t.conf:4) inhibits "
		  "\"a\": remove one of these\n" },
		{ "{ name = \"x\"; kind = \"leak\"; inhibits = [ \"a\", \"c\" ]; },\n"
		  "{ name = \"a\"; kind = \"leak\"; inhibits = [ \"b\" ]; },\n"
		  "{ name = \"b\"; kind = \"leak\"; inhibits = [ \"c\" ]; },\n"
		  "{ name = \"c\"; kind = \"leak\"; inhibits = [ \"a\" ]; }",
		  "t.conf:4: error: rules silence each other in a circle: \"a\" (t.conf:4) inhibits \"b\" (t.conf:5) inhibits "
		  "\"c\" (t.conf:6) inhibits \"a\": remove one of these\n" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct result res;
		char text[2048];

		snprintf(text, sizeof(text), HEAD "%s\n);\n", bad[i].rules);
		res = parse(text);
		EXPECT_EQ(res.r, -EINVAL);
		EXPECT(!res.rs);
		EXPECT_STR(res.text, bad[i].text);
		result_done(&res);
	}
}

/* Not a circle: one that is not enabled, and two ways to the same rule. */
TEST(what_only_looks_like_a_circle)
{
	struct result res = parse(HEAD "{ name = \"a\"; kind = \"leak\"; inhibits = [ \"b\", \"c\" ]; },\n"
				  "{ name = \"b\"; kind = \"leak\"; inhibits = [ \"c\" ]; },\n"
				  "{ name = \"c\"; kind = \"leak\"; },\n"
				  "{ name = \"d\"; kind = \"leak\"; enabled = false; inhibits = [ \"a\" ]; } );");

	EXPECT_STR(res.text, "");
	EXPECT(res.rs && res.rs->len == 3);
	result_done(&res);
}

TEST(a_long_chain)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct result res;

	strbuf_adds(&sb, HEAD);
	for (int i = 0; i < 2000; i++)
		strbuf_addf(&sb, "{ name = \"r%d\"; kind = \"leak\"; inhibits = [ \"r%d\" ]; },\n", i, i + 1);
	strbuf_adds(&sb, "{ name = \"r2000\"; kind = \"leak\"; } );");
	res = parse(strbuf_str(&sb));
	EXPECT_STR(res.text, "");
	result_done(&res);
}

TEST(lists_that_nobody_uses)
{
	struct result res = parse("version = 1;\nlists = { a = \"^a\";\n b = \"^b\"; c = \"^c\"; };\nrules = (\n"
				  "{ name = \"x\"; kind = \"leak\"; except = ( { comm = [ \"^d\", \"@a\" ]; } ); },\n"
				  "{ name = \"y\"; kind = \"leak\"; match = { exe = \"@c\"; }; },\n"
				  "{ name = \"y\"; override = \"off\"; } );");

	/* Of a rule that was switched off elsewhere, the list is not to blame. */
	EXPECT_STR(res.text, "t.conf:3: warning: list \"b\" is used by no rule: remove it\n");
	result_done(&res);
}

TEST_MAIN()
