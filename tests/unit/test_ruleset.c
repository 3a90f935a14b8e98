/* SPDX-License-Identifier: MIT */
/* Rule files that are good: what they mean, how they print, what their digests tell apart. */
#include "base/clock.h"
#include "bpf/event.h"
#include "ruleset_load.h"

#define SEC NSEC_PER_SEC
#define MIB (UINT64_C(1) << 20)

static const char minimal[] =
	"version = 1;\n"
	"rules = (\n"
	"  { name = \"quota\";  kind = \"live_bytes\";    scope = \"process\"; fire_above = \"100MiB\"; "
	"resolve_below = \"80MiB\"; for = \"0s\"; severity = \"critical\"; },\n"
	"  { name = \"oom\";    kind = \"alloc_failure\"; count = 1; window = \"1m\"; severity = \"error\"; },\n"
	"  { name = \"huge\";   kind = \"single_alloc\";  fire_above = \"1GiB\"; severity = \"notice\"; "
	"match = { comm = \"^train\"; }; },\n"
	"  { name = \"leak\";   kind = \"leak\"; scope = \"process\"; epoch = \"2s\"; epochs = 8; occupancy = 0.9; "
	"keep_ratio = 0.7; min_growth = \"4MiB\"; for_epochs = 3; severity = \"warning\"; }\n"
	");\n";

/* All keys that there are, as the documentation shows them. */
static const char full[] =
	"version = 1;\n"
	"defaults = { for = \"30s\"; keep_firing_for = \"2m\"; repeat = \"20m\"; severity = \"warning\"; "
	"budget = \"10/10m\"; max_incidents = 50; };\n"
	"lists    = { trainers = [ \"^python3?$\", \"^torchrun$\" ]; };\n"
	"rules = (\n"
	"  { name = \"device-nearly-full\"; kind = \"live_bytes\"; scope = \"device\";\n"
	"    fire_above = \"92%\"; resolve_below = \"88%\"; for = \"1m\"; severity = \"critical\"; },\n"
	"  { name = \"process-quota\"; kind = \"live_bytes\"; scope = \"process\"; fire_above = \"40GiB\";\n"
	"    match  = { unit = \"^train-.*\\\\.service$\"; };\n"
	"    except = ( { comm = \"@trainers\"; user = \"^ci$\"; }, { exe = \"^/opt/vendor/\"; } ); },\n"
	"  { name = \"alloc-storm\";  kind = \"alloc_rate\";    scope = \"process\"; window = \"10s\"; fire_above = "
	"\"2000/s\"; },\n"
	"  { name = \"huge-alloc\";   kind = \"single_alloc\";  fire_above = \"16GiB\"; severity = \"notice\"; },\n"
	"  { name = \"alloc-failed\"; kind = \"alloc_failure\"; count = 1; window = \"1m\"; for = \"0s\"; severity = "
	"\"error\"; },\n"
	"  { name = \"leak-suspected\"; kind = \"leak\"; scope = \"stack\";   epoch = \"1m\";  epochs = 30; severity = "
	"\"notice\"; },\n"
	"  { name = \"leak\"; kind = \"leak\"; scope = \"process\"; epoch = \"10m\"; epochs = 8; occupancy = 1; "
	"keep_ratio = 0.7;\n"
	"    min_growth = \"2%\"; full_in = \"7d\"; min_confidence = 0.8; for_epochs = 5; escalate = { full_in = \"6h\"; severity = \"error\"; };\n"
	"    inhibits = [ \"leak-suspected\" ]; },\n"
	"  { name = \"exit-with-live\"; kind = \"exit\"; live_above = \"256MiB\"; never_freed_above = 0.5; "
	"min_runtime = \"1m\"; severity = \"notice\"; },\n"
	"  { name = \"rate of bytes\"; kind = \"alloc_rate\"; class = [ \"async\", \"managed\" ]; fire_above = "
	"\"100MiB/m\"; "
	"resolve_below = \"50MiB/m\"; message = \"%{comm} at %{value}, 100% sure\\n\\x22\"; runbook = "
	"\"https://wiki/x\"; "
	"tags = [ \"a\", \"b\" ]; },\n"
	"  { name = \"gone\"; kind = \"alloc_failure\"; enabled = false; }\n"
	");\n";

static char *print(const struct ruleset *rs)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		abort();
	ruleset_print(rs, f);
	fclose(f);
	return text;
}

static const struct rule *find(const struct ruleset *rs, const char *name)
{
	for (size_t i = 0; rs && i < rs->len; i++) {
		if (strcmp(rs->rules[i]->name, name) == 0)
			return rs->rules[i];
	}
	return NULL;
}

TEST(minimal_file_loads_without_a_word)
{
	struct result res = parse(minimal);
	const struct rule *r;

	EXPECT_EQ(res.r, 0);
	EXPECT_STR(res.text, "");
	ASSERT(res.rs && res.rs->len == 4);
	EXPECT_EQ(res.rs->file_count, 1);
	r = res.rs->rules[0];
	EXPECT_STR(r->name, "quota");
	EXPECT_STR(r->file, "t.conf");
	EXPECT_EQ(r->line, 3);
	EXPECT_EQ(r->kind, RULE_LIVE_BYTES);
	EXPECT_EQ(r->scope, SCOPE_PROCESS);
	EXPECT_EQ(r->severity, SEVERITY_CRITICAL);
	EXPECT_EQ(r->classes, CLASS_DEVICE_MASK);
	EXPECT_EQ(r->fire_above.unit, LIMIT_BYTES);
	EXPECT(r->fire_above.value == 100.0 * MIB);
	EXPECT(r->resolve_below.value == 80.0 * MIB);
	EXPECT_EQ(r->for_ns, 0);
	EXPECT_EQ(r->repeat_ns, 1800 * SEC);
	EXPECT_EQ(r->max_incidents, 100);
	r = res.rs->rules[1];
	EXPECT_EQ(r->kind, RULE_ALLOC_FAILURE);
	EXPECT_EQ(r->count, 1);
	EXPECT_EQ(r->window_ns, 60 * SEC);
	EXPECT_EQ(r->repeat_ns, 0);
	r = res.rs->rules[2];
	EXPECT(r->match && r->match->key[MATCH_COMM].len == 1 && r->match->key[MATCH_EXE].len == 0);
	EXPECT_EQ(r->except_len, 0);
	r = res.rs->rules[3];
	EXPECT_EQ(r->epoch_ns, 2 * SEC);
	EXPECT_EQ(r->epochs, 8);
	EXPECT(r->occupancy == 0.9 && r->keep_ratio == 0.7);
	EXPECT_EQ(r->min_growth_bytes, 4 * MIB);
	EXPECT_EQ(r->for_epochs, 3);
	result_done(&res);
}

TEST(documented_file_loads)
{
	struct result res = parse(full);
	const struct rule *r;

	EXPECT_STR(res.text, "");
	ASSERT(res.r == 0 && res.rs->len == 9); /* without the one that is not enabled */
	r = find(res.rs, "device-nearly-full");
	ASSERT(r);
	EXPECT_EQ(r->scope, SCOPE_DEVICE);
	EXPECT(r->fire_above.unit == LIMIT_SHARE && r->fire_above.value == 0.92 && r->resolve_below.value == 0.88);
	EXPECT_EQ(r->for_ns, 60 * SEC); /* its own, over the default */
	EXPECT_EQ(r->keep_firing_for_ns, 120 * SEC);
	EXPECT_EQ(r->repeat_ns, 1200 * SEC);
	EXPECT_EQ(r->budget_count, 10);
	EXPECT_EQ(r->budget_ns, 600 * SEC);
	EXPECT_EQ(r->max_incidents, 50);
	r = find(res.rs, "process-quota");
	ASSERT(r);
	EXPECT(r->resolve_below.unit == LIMIT_BYTES && r->resolve_below.value == 40802189312.0);
	EXPECT_EQ(r->except_len, 2);
	EXPECT_EQ(r->except[0].key[MATCH_COMM].len, 2);
	r = find(res.rs, "huge-alloc");
	ASSERT(r);
	EXPECT_EQ(r->for_ns, 0); /* the default is not for those who do not last */
	r = find(res.rs, "leak-suspected");
	ASSERT(r);
	EXPECT(r->scope == SCOPE_STACK && r->for_epochs == 3 && r->min_growth_bytes == 32 * MIB && r->occupancy == 0.9);
	r = find(res.rs, "leak");
	ASSERT(r);
	EXPECT(r->occupancy == 1);
	EXPECT(r->escalate.is_set && r->escalate.severity == SEVERITY_ERROR && r->escalate.full_in_ns == 6 * 3600 * SEC);
	EXPECT(r->escalate.after_ns == 0 && r->escalate.above.unit == LIMIT_NONE);
	EXPECT_EQ(r->min_growth_bytes, 32 * MIB);
	EXPECT(r->min_growth_share == 0.02 && r->full_in_ns == 7 * 86400 * SEC && r->min_confidence == 0.8);
	ASSERT(r->inhibits_len == 1);
	EXPECT_STR(r->inhibits[0], "leak-suspected");
	r = find(res.rs, "exit-with-live");
	ASSERT(r);
	EXPECT(r->live_above_bytes == 256 * MIB && r->never_freed_above == 0.5 && r->min_runtime_ns == 60 * SEC);
	r = find(res.rs, "rate of bytes");
	ASSERT(r);
	EXPECT_EQ(r->classes, 1u << CLASS_ASYNC | 1u << CLASS_MANAGED);
	EXPECT_EQ(r->fire_above.unit, LIMIT_BYTES_PER_SEC);
	EXPECT(r->fire_above.value == 100.0 * MIB / 60);
	EXPECT_EQ(r->window_ns, 10 * SEC);
	EXPECT_STR(r->message, "%{comm} at %{value}, 100% sure\n\"");
	EXPECT_STR(r->runbook, "https://wiki/x");
	EXPECT_EQ(r->tags_len, 2);
	result_done(&res);
}

TEST(shipped_rules_load_without_a_word)
{
	char *paths[] = { (char *)"rules" };
	struct result res = load("", paths, 1);

	EXPECT_STR(res.text, "");
	ASSERT(res.rs);
	EXPECT(find(res.rs, "device-nearly-full"));
	EXPECT(find(res.rs, "alloc-failed"));
	EXPECT(find(res.rs, "leak"));
	EXPECT(find(res.rs, "leak-suspected"));
	result_done(&res);
}

/* The rules that the shipped file offers in its closing comment must work once copied out of it. */
TEST(shipped_examples_load)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	FILE *f = fopen("rules/10-gpuxray.conf", "r");
	struct result res;
	bool is_tail = false;
	char line[512];

	ASSERT(f);
	strbuf_adds(&sb, "version = 1; rules = (\n");
	while (fgets(line, sizeof(line), f)) {
		is_tail = is_tail || strncmp(line, "# Not on by default", 19) == 0;
		if (is_tail && strncmp(line, "#   ", 4) == 0)
			strbuf_adds(&sb, line + 4);
	}
	fclose(f);
	strbuf_adds(&sb, ");\n");
	res = parse(strbuf_str(&sb));
	EXPECT_STR(res.text, "");
	EXPECT(res.rs && res.rs->len == 4);
	result_done(&res);
}

TEST(print_reads_back_as_the_same)
{
	struct result res = parse(full), again;
	char *text;

	ASSERT(res.rs);
	text = print(res.rs);
	again = parse(text);
	EXPECT_STR(again.text, "");
	ASSERT(again.rs);
	EXPECT_STR(again.rs->digest, res.rs->digest);
	for (size_t i = 0; i < res.rs->len; i++)
		EXPECT(again.rs->rules[i]->meaning == res.rs->rules[i]->meaning);
	EXPECT(strstr(text, "  # t.conf:5\n  {\n    name = \"device-nearly-full\";\n"));
	EXPECT(strstr(text, "    fire_above = \"100MiB/m\";\n"));
	EXPECT(strstr(text, "    min_growth = \"2%\";\n    for_epochs = 5;\n    full_in = \"7d\";\n    min_confidence = 0.8;\n"));
	EXPECT(strstr(text, "    escalate = { severity = \"error\"; full_in = \"6h\"; };\n"));
	EXPECT(strstr(text, "    inhibits = [ \"leak-suspected\" ];\n"));
	EXPECT(strstr(text, "    message = \"%{comm} at %{value}, 100% sure\\x0a\\\"\";\n"));
	free(text);
	result_done(&res);
	result_done(&again);
}

/* But for where they came from. */
static __attribute__((noinline)) bool is_same_rule(const char *a, const char *b)
{
	a = strchr(a, '{');
	b = strchr(b, '{');
	return a && b && strcmp(a, b) == 0;
}

TEST(odd_numbers_survive_printing)
{
	static const char *const rules[] = {
		"kind = \"live_bytes\"; fire_above = \"1B\";",
		"kind = \"live_bytes\"; fire_above = \"1023B\"; resolve_below = \"7B\"; for = \"1h1m1s1ms\";",
		"kind = \"live_bytes\"; fire_above = \"1.5GiB\"; for = \"1.5s\";",
		"kind = \"live_bytes\"; fire_above = \"92.2%\"; resolve_below = \"33.333333333%\";",
		"kind = \"live_bytes\"; fire_above = \"0.000000001%\";",
		"kind = \"alloc_rate\"; fire_above = \"100/m\"; resolve_below = \"1/d\";",
		"kind = \"alloc_rate\"; fire_above = \"0.25/s\"; window = \"1d\";",
		"kind = \"alloc_rate\"; fire_above = \"7B/h\";",
		"kind = \"leak\"; occupancy = 0.333333333333; keep_ratio = 0.00001;",
		"kind = \"exit\"; live_above = \"0B\"; never_freed_above = 0;",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; class = \"framework\";",
		"kind = \"untracked_growth\"; fire_above = \"4GiB\";",
		"kind = \"untracked_growth\"; fire_above = \"4GiB\"; resolve_below = \"1GiB\"; window = \"2h\";"
		" min_runtime = \"5m\"; for = \"1m\"; keep_firing_for = \"2m\";",
		"kind = \"orphan\";",
		"kind = \"orphan\"; live_above = \"64MiB\"; for = \"5m\"; conditions = [ \"zombie\", \"no_process\" ];",
		"kind = \"leak\"; class = [ \"device\", \"host\", \"imported\" ];",
		"kind = \"leak\"; min_growth = \"2.5%\"; full_in = \"1d12h\"; min_confidence = 0.333333333333;",
		"kind = \"leak\"; min_growth = \"0%\"; full_in = \"0s\"; min_confidence = 1e-12;",
		"kind = \"leak\"; occupancy = 1e-300; keep_ratio = 0.00000000012345;",
		"kind = \"leak\"; escalate = { severity = \"critical\"; full_in = \"6h\"; after = \"90m\"; };",
		"kind = \"live_bytes\"; fire_above = \"92.2%\"; escalate = { after = \"1h\"; above = \"95.123456789%\";"
		" severity = \"error\"; };",
		"kind = \"live_bytes\"; fire_above = \"1B\"; escalate = { above = \"2B\"; severity = \"error\"; };",
		"kind = \"alloc_rate\"; fire_above = \"100/m\"; escalate = { above = \"101/m\"; severity = \"error\"; };",
		"kind = \"alloc_rate\"; fire_above = \"7B/h\"; escalate = { above = \"8B/h\"; severity = \"error\"; };",
		"kind = \"orphan\"; escalate = { severity = \"warning\"; after = \"1d\"; };",
		"kind = \"orphan\"; inhibits = [];",
		"kind = \"orphan\"; match = { slice = \"^a\"; pod = \"b\"; pod_name = \"^t\"; pod_namespace = \"^ml$\";"
		" container_name = \"^m$\"; slurm_job = \"^12(\\\\.|$)\"; runtime = \"c\";"
		" parent = \"^d$\"; tag = [ \"^e\", \"^f\" ]; };",
	};

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		struct result res, again;
		char text[1024], *printed, *again_printed;

		snprintf(text, sizeof(text), "version = 1; rules = ( { name = \"x\"; %s } );", rules[i]);
		res = parse(text);
		if (!res.rs)
			printf("# %s: %s", rules[i], res.text);
		ASSERT(res.rs);
		printed = print(res.rs);
		again = parse(printed);
		EXPECT_STR(again.text, "");
		ASSERT(again.rs);
		EXPECT_STR(again.rs->digest, res.rs->digest);
		/* And prints as the same text. */
		again_printed = print(again.rs);
		EXPECT(is_same_rule(again_printed, printed));
		free(again_printed);
		free(printed);
		result_done(&res);
		result_done(&again);
	}
}

/* Never less than what can be gone below. */
TEST(default_resolve_can_be_reached)
{
	struct result res = parse("version = 1; rules = ( { name = \"x\"; kind = \"live_bytes\"; fire_above = \"1B\"; "
				  "} );");

	ASSERT(res.rs);
	EXPECT(res.rs->rules[0]->resolve_below.value == 1);
	result_done(&res);
}

static uint64_t meaning_of(const char *keys, char digest[17])
{
	char text[1024];
	struct result res;
	uint64_t m;

	snprintf(text, sizeof(text), "version = 1; rules = ( { name = \"x\"; %s } );", keys);
	res = parse(text);
	if (!res.rs) {
		EXPECT_STR(res.text, "");
		result_done(&res);
		return 0;
	}
	m = res.rs->rules[0]->meaning;
	memcpy(digest, res.rs->digest, 17);
	result_done(&res);
	return m;
}

TEST(meaning_is_what_decides)
{
	static const char base[] = "kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; };";
	static const char *const same[] = {
		"kind = \"live_bytes\"; fire_above = \"1024MiB\"; match = { comm = [ \"^a\" ]; };",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; }; scope = \"process\"; for = "
		"\"0ms\";",
	};
	static const char *const text_only[] = {
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; }; severity = \"error\";",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; }; message = \"m\";",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; }; runbook = \"https://a\";",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; }; tags = \"t\";",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; }; repeat = \"5m\";",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; }; budget = \"5/5m\";",
		("kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; };"
		 " escalate = { severity = \"error\"; after = \"1h\"; };"),
	};
	static const char *const other[] = {
		"kind = \"single_alloc\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; };",
		"kind = \"live_bytes\"; fire_above = \"1025MiB\"; match = { comm = \"^a\"; };",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; resolve_below = \"1MiB\"; match = { comm = \"^a\"; };",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^b\"; };",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { exe = \"^a\"; };",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; except = { comm = \"^a\"; };",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; }; scope = \"unit\";",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; }; for = \"1s\";",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; }; keep_firing_for = \"1s\";",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; }; class = \"host\";",
	};
	char digest[17], d[17];
	uint64_t m = meaning_of(base, digest);

	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		EXPECT(meaning_of(same[i], d) == m);
		EXPECT_STR(d, digest);
	}
	for (size_t i = 0; i < ARRAY_SIZE(text_only); i++) {
		EXPECT(meaning_of(text_only[i], d) == m);
		EXPECT(strcmp(d, digest) != 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
		EXPECT(meaning_of(other[i], d) != m);
		EXPECT(strcmp(d, digest) != 0);
	}
	/* The same on every machine and in every version: incidents live over an update, and fleets compare digests. */
	EXPECT_STR(digest, "4d1cec1dcb1596a8");
	EXPECT(m == UINT64_C(5101664899337211982));
}

/* What decides beside the defaults is part of it; what is not said leaves it as it always was. */
TEST(meaning_of_a_leak)
{
	static const char *const other[] = {
		"kind = \"leak\"; min_growth = \"2%\";",
		"kind = \"leak\"; full_in = \"7d\";",
		"kind = \"leak\"; min_confidence = 0.8;",
	};
	char digest[17];
	uint64_t m = meaning_of("kind = \"leak\";", digest);

	EXPECT(m == UINT64_C(14175666605608194818));
	EXPECT(meaning_of("kind = \"leak\"; full_in = \"0s\"; min_confidence = 0;", digest) == m);
	for (size_t i = 0; i < ARRAY_SIZE(other); i++)
		EXPECT(meaning_of(other[i], digest) != m);
}

TEST(print_says_who_had_a_say)
{
	struct result res = parse("version = 1;\nrules = (\n"
				  "{ name = \"a\"; kind = \"live_bytes\"; fire_above = \"2GiB\"; },\n"
				  "{ name = \"a\"; override = \"merge\"; severity = \"error\"; },\n"
				  "{ name = \"a\"; override = \"merge\"; for = \"1m\"; },\n"
				  "{ name = \"b\"; kind = \"leak\"; inhibits = [ \"a\", \"a\" ]; } );");
	char *text;

	ASSERT(res.rs && res.rs->len == 2);
	text = print(res.rs);
	EXPECT(strstr(text, "  # t.conf:3, t.conf:4, t.conf:5\n  {\n    name = \"a\";\n"));
	EXPECT(strstr(text, "  # t.conf:6\n  {\n    name = \"b\";\n"));
	EXPECT(strstr(text, "    inhibits = [ \"a\" ];\n"));
	free(text);
	result_done(&res);
}

TEST(no_rules_is_a_warning)
{
	struct result res = parse("# nothing\n");

	EXPECT_EQ(res.r, 0);
	EXPECT(res.rs && res.rs->len == 0 && res.rs->file_count == 0);
	EXPECT_STR(res.text, "warning: there are no rules: nothing will be reported\n");
	result_done(&res);
}

TEST(override_merge_keeps_what_it_does_not_name)
{
	struct result res = parse("version = 1;\ndefaults = { severity = \"info\"; keep_firing_for = \"9s\"; };\nrules "
				  "= (\n"
				  "{ name = \"a\"; kind = \"live_bytes\"; fire_above = \"2GiB\"; for = \"5s\"; "
				  "keep_firing_for = \"1s\"; "
				  "match = { comm = \"^x\"; }; },\n"
				  "{ name = \"b\"; kind = \"leak\"; },\n"
				  "{ name = \"a\"; override = \"merge\"; fire_above = \"1GiB\"; severity = \"error\"; "
				  "} );");
	const struct rule *r;

	EXPECT_STR(res.text, "");
	ASSERT(res.rs && res.rs->len == 2);
	r = res.rs->rules[0]; /* at its old place */
	EXPECT_STR(r->name, "a");
	EXPECT_EQ(r->line, 6);
	EXPECT(r->fire_above.value == 1024.0 * MIB);
	EXPECT_EQ(r->severity, SEVERITY_ERROR);
	EXPECT_EQ(r->for_ns, 5 * SEC);
	EXPECT_EQ(r->keep_firing_for_ns, 1 * SEC);
	EXPECT(r->match);
	EXPECT_EQ(res.rs->rules[1]->severity, SEVERITY_INFO);
	result_done(&res);
}

TEST_MAIN()
