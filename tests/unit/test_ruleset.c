/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "bpf/event.h"
#include "rule/rule.h"
#include "test.h"

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
	"  { name = \"alloc-storm\";  kind = \"alloc_rate\";    scope = \"process\"; window = \"10s\"; fire_above = \"2000/s\"; },\n"
	"  { name = \"huge-alloc\";   kind = \"single_alloc\";  fire_above = \"16GiB\"; severity = \"notice\"; },\n"
	"  { name = \"alloc-failed\"; kind = \"alloc_failure\"; count = 1; window = \"1m\"; for = \"0s\"; severity = \"error\"; },\n"
	"  { name = \"leak-suspected\"; kind = \"leak\"; scope = \"stack\";   epoch = \"1m\";  epochs = 30; severity = \"notice\"; },\n"
	"  { name = \"leak\"; kind = \"leak\"; scope = \"process\"; epoch = \"10m\"; epochs = 8; occupancy = 1; keep_ratio = 0.7;\n"
	"    min_growth = \"32MiB\"; for_epochs = 5; escalate = { full_in = \"6h\"; severity = \"error\"; };\n"
	"    inhibits = [ \"leak-suspected\" ]; },\n"
	"  { name = \"exit-with-live\"; kind = \"exit\"; live_above = \"256MiB\"; never_freed_above = 0.5; "
	"min_runtime = \"1m\"; severity = \"notice\"; },\n"
	"  { name = \"rate of bytes\"; kind = \"alloc_rate\"; class = [ \"async\", \"managed\" ]; fire_above = \"100MiB/m\"; "
	"resolve_below = \"50MiB/m\"; message = \"%{comm} at %{value}, 100% sure\\n\\x22\"; runbook = \"https://wiki/x\"; "
	"tags = [ \"a\", \"b\" ]; },\n"
	"  { name = \"gone\"; kind = \"alloc_failure\"; enabled = false; }\n"
	");\n";

struct result {
	struct errors errors;
	struct ruleset *rs;
	char *text; /* of the errors */
	int r;
};

static void finish(struct result *res)
{
	size_t len;
	FILE *f = open_memstream(&res->text, &len);

	if (!f)
		abort();
	errors_print(&res->errors, f);
	fclose(f);
}

static struct result parse(const char *text)
{
	struct result res = {};

	res.r = ruleset_parse("t.conf", text, &res.errors, &res.rs);
	finish(&res);
	return res;
}

static struct result load(const char *root, char *const *paths, size_t len)
{
	struct result res = {};

	res.r = ruleset_load(root, paths, len, &res.errors, &res.rs);
	finish(&res);
	return res;
}

static void result_done(struct result *res)
{
	errors_done(&res->errors);
	ruleset_free(res->rs);
	free(res->text);
	*res = (struct result){};
}

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

/* ---- a directory of one's own ---- */

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

/* ---- good input ---- */

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

	EXPECT_STR(res.text,
		   "t.conf:14: warning: escalate is not evaluated in this version: the rule keeps its severity\n"
		   "t.conf:15: warning: inhibits is not evaluated in this version: both rules will speak\n");
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
	EXPECT(r->resolve_below.unit == LIMIT_BYTES && r->resolve_below.value == 40804941824.0);
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
	EXPECT(strstr(text, "    message = \"%{comm} at %{value}, 100% sure\\x0a\\\"\";\n"));
	free(text);
	result_done(&res);
	result_done(&again);
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
		"kind = \"leak\"; class = [ \"device\", \"host\", \"imported\" ];",
	};

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		struct result res, again;
		char text[512], *printed;

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
		free(printed);
		result_done(&res);
		result_done(&again);
	}
}

/* Never less than what can be gone below. */
TEST(default_resolve_can_be_reached)
{
	struct result res = parse("version = 1; rules = ( { name = \"x\"; kind = \"live_bytes\"; fire_above = \"1B\"; } );");

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
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; }; scope = \"process\"; for = \"0ms\";",
	};
	static const char *const text_only[] = {
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; }; severity = \"error\";",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; }; message = \"m\";",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; }; runbook = \"https://a\";",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; }; tags = \"t\";",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; }; repeat = \"5m\";",
		"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"^a\"; }; budget = \"5/5m\";",
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
	EXPECT_STR(digest, "0");
	EXPECT_EQ(m, 0);
}

TEST(no_rules_is_a_warning)
{
	struct result res = parse("# nothing\n");

	EXPECT_EQ(res.r, 0);
	EXPECT(res.rs && res.rs->len == 0 && res.rs->file_count == 0);
	EXPECT_STR(res.text, "warning: there are no rules: nothing will be reported\n");
	result_done(&res);
}

/* ---- bad input: exact lines ---- */

static const struct {
	const char *keys, *text; /* on line 3 of the file */
} bad_rules[] = {
	{ "kind = \"live_bytes\"; fire_above = 100;",
	  "fire_above needs a unit, in a string: a bare number does not say of what, write \"100MiB\" or \"92%\"" },
	{ "kind = \"alloc_rate\"; fire_above = 100;",
	  "fire_above needs a unit, in a string: a bare number does not say of what, write \"2000/s\" or \"8GiB/s\"" },
	{ "kind = \"live_bytes\"; fire_above = true;", "fire_above needs a string in double quotes" },
	{ "kind = \"live_bytes\"; fire_above = \"100\";",
	  "fire_above = \"100\" is not a size: write a number and B, KiB, MiB, GiB, TiB or %, such as \"100MiB\" or \"92%\"" },
	{ "kind = \"live_bytes\"; fire_above = \"8GiB/s\";",
	  "fire_above = \"8GiB/s\": live_bytes compares bytes, not a rate: write \"40GiB\", or use kind = \"alloc_rate\"" },
	{ "kind = \"alloc_rate\"; fire_above = \"8GiB\";",
	  "fire_above = \"8GiB\": alloc_rate compares a rate, write calls as \"2000/s\" or bytes as \"8GiB/s\"" },
	{ "kind = \"alloc_rate\"; fire_above = \"92%\";",
	  "fire_above = \"92%\": alloc_rate compares a rate, write calls as \"2000/s\" or bytes as \"8GiB/s\"" },
	{ "kind = \"alloc_rate\"; fire_above = \"fast\";",
	  "fire_above = \"fast\" is not a rate: write calls as \"2000/s\" or bytes as \"8GiB/s\"" },
	{ "kind = \"live_bytes\"; fire_above = \"120%\";",
	  "fire_above = \"120%\" is out of range: a share goes from 0% to 100%" },
	{ "kind = \"live_bytes\"; fire_above = \"100%\";",
	  "fire_above = \"100%\" is unreachable: nothing holds more than the device" },
	{ "kind = \"live_bytes\"; fire_above = \"0B\";",
	  "fire_above must be more than 0: write \"1B\" to fire on any use" },
	{ "kind = \"live_bytes\"; fire_above = \"99999999TiB\";", "fire_above = \"99999999TiB\" is too large" },
	{ "kind = \"live_bytes\"; fire_above = \"92%\"; scope = \"unit\";",
	  "fire_above = \"92%\": a share is that of a device, which scope = \"unit\" does not name: use scope = \"device\" "
	  "or write a size" },
	{ "kind = \"live_bytes\"; fire_above = \"92%\"; scope = \"device\"; class = \"host\";",
	  "fire_above = \"92%\": a share is that of a device, where memory of this class does not lie: write a size" },
	{ "kind = \"live_bytes\"; fire_above = \"1GiB\"; resolve_below = \"1GiB\";",
	  "resolve_below is not below fire_above, so that the resolved state is unreachable: lower it, or leave it out for "
	  "95% of fire_above" },
	{ "kind = \"live_bytes\"; fire_above = \"90%\"; resolve_below = \"1GiB\";",
	  "resolve_below is not of the same unit as fire_above: write both as sizes, both as shares or both as rates of the "
	  "same thing" },
	{ "kind = \"alloc_rate\"; fire_above = \"5/s\"; resolve_below = \"1MiB/s\";",
	  "resolve_below is not of the same unit as fire_above: write both as sizes, both as shares or both as rates of the "
	  "same thing" },
	{ "kind = \"live_bytes\"; fire_above = \"1GiB\"; resolve_below = \"0B\";",
	  "resolve_below is unreachable: nothing is less than 0, write \"1B\" or more" },
	{ "kind = \"live_bytes\";", "rule \"x\" needs fire_above, such as fire_above = \"40GiB\"" },
	{ "kind = \"alloc_rate\";", "rule \"x\" needs fire_above, such as fire_above = \"2000/s\"" },
	{ "kind = \"exit\";", "rule \"x\" needs live_above, such as live_above = \"256MiB\"" },
	{ "fire_above = \"1GiB\";", "rule \"x\" needs a kind, such as kind = \"live_bytes\"" },
	{ "kind = \"live_byte\";", "unknown kind \"live_byte\": did you mean \"live_bytes\"?" },
	{ "kind = \"orphan\";", "unknown kind \"orphan\": known are live_bytes, single_alloc, alloc_rate, alloc_failure, leak, "
				"exit" },
	{ "kind = 1;", "kind needs a string in double quotes" },
	{ "kind = \"alloc_failure\"; scope = \"stack\";", "scope = \"stack\" is for kind = \"leak\" only: use \"process\"" },
	{ "kind = \"alloc_failure\"; scope = \"pod\";",
	  "unknown scope \"pod\": known are process, device, cgroup, unit, user, container, stack" },
	{ "kind = \"leak\"; scope = \"unit\";", "scope = \"unit\": a leak is judged by \"process\" or \"stack\"" },
	{ "kind = \"exit\"; live_above = \"1B\"; scope = \"user\";", "scope = \"user\": an exit is that of a \"process\"" },
	{ "kind = \"alloc_failure\"; class = \"hots\";", "unknown class \"hots\": did you mean \"host\"?" },
	{ "kind = \"alloc_failure\"; class = [];", "class is empty: leave it out for \"device\"" },
	{ "kind = \"alloc_failure\"; fire_above = \"1GiB\";",
	  "fire_above does not belong to kind = \"alloc_failure\" but to live_bytes, single_alloc, alloc_rate: remove it" },
	{ "kind = \"alloc_failure\"; epochs = 3;",
	  "epochs does not belong to kind = \"alloc_failure\" but to leak: remove it" },
	{ "kind = \"alloc_failure\"; for = \"1s\";",
	  "for does not belong to kind = \"alloc_failure\", which fires at once and does not last: remove it or write \"0s\"" },
	{ "kind = \"single_alloc\"; fire_above = \"1GiB\"; resolve_below = \"1MiB\";",
	  "resolve_below does not belong to kind = \"single_alloc\" but to live_bytes, alloc_rate: remove it" },
	{ "kind = \"alloc_failure\"; widnow = \"1m\";", "unknown key \"widnow\": did you mean \"window\"?" },
	{ "kind = \"alloc_failure\"; window = 60;", "window is a time: write a string with a unit, such as \"30s\"" },
	{ "kind = \"alloc_failure\"; window = \"60\";",
	  "window = \"60\" is not a time: write a number and ms, s, m, h or d, such as \"1m30s\"" },
	{ "kind = \"alloc_failure\"; window = \"10ms\";", "window = \"10ms\" is out of range: it goes from 1s to 1d" },
	{ "kind = \"alloc_failure\"; count = \"3\";", "count is a count: write a plain number, without quotes or unit" },
	{ "kind = \"alloc_failure\"; count = 0;", "count = 0 is out of range: it goes from 1 to 65536" },
	{ "kind = \"alloc_failure\"; count = 99999999999;",
	  "99999999999 is too large a number: sizes and times are strings with a unit, such as \"40GiB\" or \"30s\"" },
	{ "kind = \"alloc_failure\"; budget = \"10\";", "budget needs records per time, such as \"10/10m\"" },
	{ "kind = \"alloc_failure\"; budget = 10;", "budget needs records per time, such as \"10/10m\"" },
	{ "kind = \"alloc_failure\"; budget = \"0/1m\";",
	  "budget = \"0/1m\" would let nothing through: write enabled = false to silence a rule" },
	{ "kind = \"alloc_failure\"; severity = \"debug\";",
	  "unknown severity \"debug\": known are info, notice, warning, error, critical" },
	{ "kind = \"alloc_failure\"; enabled = \"no\";", "enabled needs true or false, without quotes" },
	{ "kind = \"leak\"; occupancy = \"90%\";",
	  "occupancy is a fraction: write a plain number from 0 to 1, such as 0.9" },
	{ "kind = \"leak\"; keep_ratio = 1.5;", "keep_ratio is out of range: it goes from 0 to 1" },
	{ "kind = \"leak\"; min_growth = 32;",
	  "min_growth is a size: a bare number does not say of what, write \"100MiB\"" },
	{ "kind = \"leak\"; min_growth = \"3GiB/s\";",
	  "min_growth = \"3GiB/s\" is not a size: write a number and B, KiB, MiB, GiB or TiB, such as \"100MiB\"" },
	{ "kind = \"leak\"; repeat = \"5ms\";", "repeat is at least 1s, or \"0s\" for never" },
	{ "kind = \"leak\"; escalate = { full_in = \"6h\"; };",
	  "escalate needs both: { full_in = \"6h\"; severity = \"error\"; }" },
	{ "kind = \"leak\"; escalate = { full_in = \"6h\"; severity = \"bad\"; };",
	  "unknown severity \"bad\": known are info, notice, warning, error, critical" },
	{ "kind = \"leak\"; inhibits = \"lake\";", "unknown rule in inhibits \"lake\": known are x" },
	{ "kind = \"alloc_failure\"; match = { com = \"^a\"; };", "unknown match key \"com\": did you mean \"comm\"?" },
	{ "kind = \"alloc_failure\"; match = \"^a\";", "match needs a group: { key = value; ... }" },
	{ "kind = \"alloc_failure\"; match = { };", "match is empty: leave it out, or say { comm = \"^name$\"; }" },
	{ "kind = \"alloc_failure\"; match = { comm = \"^(a\"; };",
	  "pattern \"^(a\" is not a regular expression: missing closing parenthesis at character 4" },
	{ "kind = \"alloc_failure\"; match = { comm = \"(*UTF)^a\"; };",
	  "pattern \"(*UTF)^a\" is not a regular expression: using UTF is disabled by the application at character 7" },
	{ "kind = \"alloc_failure\"; match = { comm = \"\"; };", "an empty pattern matches everything: leave comm out" },
	{ "kind = \"alloc_failure\"; match = { comm = []; };", "comm is empty and would match nothing: leave it out" },
	{ "kind = \"alloc_failure\"; match = { comm = [ 1 ]; };", "comm may hold strings only" },
	{ "kind = \"alloc_failure\"; match = { comm = \"@nobody\"; };", "unknown list \"nobody\": known are none" },
	{ "kind = \"alloc_failure\"; match = { tag = \"^a\"; };",
	  "matching by tag is not evaluated in this version: remove it" },
	{ "kind = \"alloc_failure\"; except = \"^a\";",
	  "except needs groups: ( { comm = \"^a$\"; user = \"^b$\"; }, ... )" },
	{ "kind = \"alloc_failure\"; except = ();", "except is empty: leave it out" },
	{ "kind = \"alloc_failure\"; except = ( 1 );", "except needs a group: { key = value; ... }" },
	{ "kind = \"alloc_failure\"; message = \"%{command}\";",
	  "unknown name in message \"command\": known are comm, pid, value, limit, rule, user, unit, cgroup, container, "
	  "device, exe, live, peak, function, error, host, uid, scope" },
	{ "kind = \"alloc_failure\"; message = \"%{pdi} died\";", "unknown name in message \"pdi\": did you mean \"pid\"?" },
	{ "kind = \"alloc_failure\"; message = \"of %{pid\";", "message: the \"%{\" of \"%{pid\" is never closed" },
	{ "kind = \"alloc_failure\"; message = \"\";", "message is empty: leave it out for the built-in text" },
	{ "kind = \"alloc_failure\"; runbook = \"see wiki\";",
	  "runbook needs a URL, such as \"https://wiki.example/gpu-full\"" },
	{ "kind = \"alloc_failure\"; tags = [ \"a\\x1b\" ];",
	  "tags \"a?\" must be plain text: no control characters, quotes or backslashes, no blank at either end" },
	{ "kind = \"alloc_failure\"; override = \"replace\";",
	  "there is no rule \"x\" to override: it must come before, in this file or in one whose name sorts earlier" },
	{ "kind = \"alloc_failure\"; override = \"off\";",
	  "override = \"off\" removes rule \"x\": leave the other keys out" },
	{ "kind = \"alloc_failure\"; override = \"append\";",
	  "unknown override \"append\": known are replace, merge, off" },
};

TEST(bad_rules_are_told_with_line_and_cure)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad_rules); i++) {
		struct result res;
		char text[1024], expected[1024];

		snprintf(text, sizeof(text), "version = 1;\nrules = (\n{ name = \"x\"; %s }\n);\n", bad_rules[i].keys);
		snprintf(expected, sizeof(expected), "t.conf:3: error: %s\n", bad_rules[i].text);
		res = parse(text);
		EXPECT_EQ(res.r, -EINVAL);
		EXPECT(!res.rs);
		EXPECT_STR(res.text, expected);
		result_done(&res);
	}
}

static const struct {
	const char *text, *errors;
} bad_files[] = {
	{ "version = 2;", "t.conf:1: error: version = 2 is newer than this program, which knows version 1: update it\n" },
	{ "version = \"1\";", "t.conf:1: error: version is a count: write a plain number, without quotes or unit\n" },
	{ "version = 1;\nsink = \"json\";",
	  "t.conf:2: error: \"sink\" is a key of the daemon's configuration, not of a rule file: move it to gpuxray.conf\n" },
	{ "version = 1;\nkind = \"leak\";", "t.conf:2: error: \"kind\" is a key of a rule: put it in rules = ( { ... } );\n" },
	{ "version = 1;\nrule = ();", "t.conf:2: error: unknown key \"rule\": did you mean \"rules\"?\n" },
	{ "version = 1;\nrules = { };",
	  "t.conf:2: error: rules needs a list in round brackets: rules = ( { ... }, { ... } );\n" },
	{ "version = 1;\nrules = ( 1 );", "t.conf:2: error: a rule is a group: { name = \"...\"; kind = \"...\"; }\n" },
	{ "version = 1;\nrules = ( { } );",
	  "t.conf:2: error: a rule needs a name: name = \"...\"\n"
	  "t.conf:2: error: rule \"?\" needs a kind, such as kind = \"live_bytes\"\n" },
	{ "version = 1;\nrules = ( { name = \"a\\nb\"; kind = \"leak\"; } );",
	  "t.conf:2: error: name \"a?b\" must be plain text: no control characters, quotes or backslashes, no blank at "
	  "either end\n" },
	{ "version = 1;\ndefaults = { fore = \"1s\"; fire_above = \"1B\"; for = \"x\"; };\n"
	  "rules = ( { name = \"a\"; kind = \"leak\"; }, { name = \"b\"; kind = \"leak\"; } );",
	  "t.conf:2: error: unknown key of defaults \"fore\": did you mean \"for\"?\n"
	  "t.conf:2: error: fire_above cannot have a default: write it in each rule\n"
	  "t.conf:2: error: for = \"x\" is not a time: write a number and ms, s, m, h or d, such as \"1m30s\"\n" },
	{ "version = 1;\nlists = { a = [ \"^(\" ];\n b = [];\n c = \"@a\"; };\n"
	  "rules = ( { name = \"a\"; kind = \"leak\"; match = { comm = \"@a\"; }; } );",
	  "t.conf:2: error: pattern \"^(\" is not a regular expression: missing closing parenthesis at character 3\n"
	  "t.conf:3: error: list \"b\" is empty and would match nothing: remove it\n"
	  "t.conf:4: error: \"@a\": a list cannot refer to a list: write its patterns here, or \"[@]\" for the character\n" },
	{ "version = 1;\nrules = ( { name = \"a\"; kind = \"leak\"; },\n{ name = \"a\"; kind = \"laek\"; } );",
	  "t.conf:3: error: rule \"a\" is defined twice, first at t.conf:2: rename one, or write override = \"replace\" | "
	  "\"merge\" | \"off\"\n"
	  "t.conf:3: error: unknown kind \"laek\": did you mean \"leak\"?\n" },
	{ "version = 1;\nrules = ( { name = \"abc\"; kind = \"leak\"; },\n{ name = \"abd\"; override = \"off\"; } );",
	  "t.conf:3: error: there is no rule \"abd\" to override: did you mean \"abc\"?\n" },
	{ "version = 1;\nrules = ( { name = \"a\"; kind = \"leak\"; },\n"
	  "{ name = \"a\"; override = \"merge\"; kind = \"exit\"; } );",
	  "t.conf:3: error: a merge cannot change the kind, which is \"leak\": use override = \"replace\"\n" },
	/* Each line of its own, in the order of the file. */
	{ "version = 1;\nrules = (\n{ name = \"a\"; kind = \"live_bytes\"; fire_above = 1; },\n"
	  "{ name = \"b\"; kind = \"leak\";\n epochs = 2;\n sope = \"x\"; },\n{ kind = \"leak\"; } );",
	  "t.conf:3: error: fire_above needs a unit, in a string: a bare number does not say of what, write \"100MiB\" or "
	  "\"92%\"\n"
	  "t.conf:5: error: epochs = 2 is out of range: it goes from 4 to 64\n"
	  "t.conf:6: error: unknown key \"sope\": did you mean \"scope\"?\n"
	  "t.conf:7: error: a rule needs a name: name = \"...\"\n" },
	/* Syntax */
	{ "version = 1;\nversion = 1;\n", "t.conf:2: error: duplicate setting name: remove one of the two\n" },
	{ "version = 1;\nrules = ( { name = \"a\"; }, );\n",
	  "t.conf:2: error: syntax error at this line or just before it: a missing \";\", quote or bracket, or a comma before "
	  "\")\"?\n" },
	{ "version = 1;\nrules = (\n\"a\n);\n", "t.conf:3: error: the string that starts here never ends\n" },
	{ "version = 1;\n/* rules = (\n);\n", "t.conf:2: error: the comment that starts here never ends\n" },
	{ "version = 1;\na = 4294967297;\nb = 0x100000000;\n",
	  "t.conf:2: error: 4294967297 is too large a number: sizes and times are strings with a unit, such as \"40GiB\" or "
	  "\"30s\"\n"
	  "t.conf:3: error: 0x100000000 is too large a number: sizes and times are strings with a unit, such as \"40GiB\" or "
	  "\"30s\"\n" },
	{ "\xef\xbb\xbfversion = 1;\n", "t.conf:1: error: starts with a byte order mark: save it as plain UTF-8\n" },
	{ "@include \"other.conf\"\n", "t.conf:1: error: @include is not possible here\n" },
};

TEST(bad_files_are_told_with_line_and_cure)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad_files); i++) {
		struct result res = parse(bad_files[i].text);

		EXPECT_EQ(res.r, -EINVAL);
		EXPECT(!res.rs);
		EXPECT_STR(res.text, bad_files[i].errors);
		result_done(&res);
	}
}

TEST(deep_nesting_is_refused)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct result res;

	strbuf_adds(&sb, "rules =\n");
	for (int i = 0; i < 100000; i++)
		strbuf_addc(&sb, '(');
	res = parse(strbuf_str(&sb));
	EXPECT_STR(res.text, "t.conf:2: error: brackets are nested more than 32 deep\n");
	result_done(&res);
}

TEST(things_that_only_look_bad)
{
	struct result res = parse("# 99999999999 /* \" (((\n// @include \"x\"\nversion = 1; /* \"\n@include \"y\"\n*/\n"
				  "rules = ( { name = \"a 99999999999 \\\" /* #\" \"\"; kind = \"leak\"; override = \"off\"; } );\n"
				  "a99999999999 = 99999999999L; b = 99999999999.5; c = 0x7fffffff;\n");

	EXPECT_STR(res.text,
		   "t.conf:6: error: name \"a 99999999999 \" /* #\" must be plain text: no control characters, quotes or "
		   "backslashes, no blank at either end\n"
		   "t.conf:7: error: unknown key \"a99999999999\": known are version, defaults, lists, rules\n"
		   "t.conf:7: error: unknown key \"b\": known are version, defaults, lists, rules\n"
		   "t.conf:7: error: unknown key \"c\": known are version, defaults, lists, rules\n");
	result_done(&res);
}

TEST(warnings)
{
	struct result res = parse("rules = (\n"
				  "{ name = \"a\"; kind = \"leak\"; for = \"200ms\"; match = {\n"
				  "  comm = \"train\";\n"
				  "  cmdline = \"train\"; }; },\n"
				  "{ name = \"b\"; kind = \"leak\"; match = { comm = \"@l\"; exe = \"@l\"; }; } );\n"
				  "lists = { l = [ \"^good\",\n \"bad\" ]; };\n");

	EXPECT_EQ(res.r, 0);
	EXPECT(res.rs && res.rs->len == 2);
	EXPECT_STR(res.text,
		   "t.conf:1: warning: version is missing: write version = 1; at the top\n"
		   "t.conf:2: warning: for = \"200ms\" is shorter than the 1 s between two looks: write \"0s\" or \"1s\"\n"
		   "t.conf:3: warning: pattern \"train\" has no anchor and fits anywhere within comm: write \"^train\" or "
		   "\"(^|/)train$\" to say where\n"
		   "t.conf:7: warning: pattern \"bad\" has no anchor and fits anywhere within comm: write \"^bad\" or "
		   "\"(^|/)bad$\" to say where\n");
	result_done(&res);
}

TEST(default_with_a_warning_warns_once)
{
	struct result res = parse("version = 1;\ndefaults = { for = \"200ms\"; };\n"
				  "rules = ( { name = \"a\"; kind = \"leak\"; }, { name = \"b\"; kind = \"leak\"; } );");

	EXPECT(res.rs && res.rs->rules[1]->for_ns == 200 * NSEC_PER_MSEC);
	EXPECT_STR(res.text,
		   "t.conf:2: warning: for = \"200ms\" is shorter than the 1 s between two looks: write \"0s\" or \"1s\"\n");
	result_done(&res);
}

TEST(too_many_leak_scales)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct result res;

	strbuf_adds(&sb, "version = 1; rules = (\n");
	for (int i = 0; i < 17; i++)
		strbuf_addf(&sb, "%s{ name = \"l%d\"; kind = \"leak\"; epoch = \"%ds\"; }\n", i ? "," : "", i, i + 1);
	strbuf_adds(&sb, ");\n");
	res = parse(strbuf_str(&sb));
	EXPECT_STR(res.text, "t.conf:18: error: leak rules differ in epoch, epochs or class in more than 16 ways: give some of "
			     "them the same\n");
	result_done(&res);
}

/* ---- overrides ---- */

TEST(override_merge_keeps_what_it_does_not_name)
{
	struct result res = parse(
		"version = 1;\ndefaults = { severity = \"info\"; keep_firing_for = \"9s\"; };\nrules = (\n"
		"{ name = \"a\"; kind = \"live_bytes\"; fire_above = \"2GiB\"; for = \"5s\"; keep_firing_for = \"1s\"; "
		"match = { comm = \"^x\"; }; },\n"
		"{ name = \"b\"; kind = \"leak\"; },\n"
		"{ name = \"a\"; override = \"merge\"; fire_above = \"1GiB\"; severity = \"error\"; } );");
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

TEST(override_over_files)
{
	struct result res;
	const struct rule *r;

	fresh_root();
	put_rule("usr/lib/gpuxray/rules.d/10-a.conf",
		 "{ name = \"one\"; kind = \"live_bytes\"; fire_above = \"1GiB\"; for = \"7s\"; },\n"
		 "{ name = \"two\"; kind = \"leak\"; },\n{ name = \"three\"; kind = \"leak\"; }");
	put_text("etc/gpuxray/rules.d/50-b.conf",
		 "version = 1;\ndefaults = { for = \"1m\"; };\nrules = (\n"
		 "{ name = \"one\"; override = \"merge\"; severity = \"critical\"; },\n"
		 "{ name = \"two\"; override = \"replace\"; kind = \"alloc_rate\"; fire_above = \"1/s\"; },\n"
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
	expect_text(res.text,
		    "~/run/gpuxray/rules.d/70-d.conf:3: error: rule \"one\" is defined twice, first at "
		    "~/etc/gpuxray/rules.d/50-b.conf:4: rename one, or write override = \"replace\" | \"merge\" | \"off\"\n");
	result_done(&res);
}

/* What a broken file would have defined is not said to be missing. */
TEST(no_errors_out_of_other_errors)
{
	struct result res;

	fresh_root();
	put_text("etc/gpuxray/rules.d/1.conf", "version = 1;\nlists = { l = [ \"^a\" ] };\nrules = (\n");
	put_rule("etc/gpuxray/rules.d/2.conf",
		 "{ name = \"a\"; override = \"off\"; },\n"
		 "{ name = \"b\"; kind = \"leak\"; match = { comm = \"@l\"; }; epochs = 1; }");
	res = load(root, NULL, 0);
	expect_text(res.text,
		    "~/etc/gpuxray/rules.d/1.conf:4: error: syntax error at this line or just before it: a missing \";\", "
		    "quote or bracket, or a comma before \")\"?\n"
		    "~/etc/gpuxray/rules.d/2.conf:4: error: epochs = 1 is out of range: it goes from 4 to 64\n");
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

/* ---- files ---- */

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
	expect_text(res.text,
		    "~/run/gpuxray/rules.d/20-b.conf: warning: masked by ~/etc/gpuxray/rules.d/20-b.conf\n"
		    "~/usr/lib/gpuxray/rules.d/30-c.conf: warning: masked by ~/run/gpuxray/rules.d/30-c.conf\n"
		    "~/usr/lib/gpuxray/rules.d/40-d.conf: warning: switched off by ~/etc/gpuxray/rules.d/40-d.conf\n"
		    "~/usr/lib/gpuxray/rules.d/50-e.conf: warning: switched off by ~/etc/gpuxray/rules.d/50-e.conf\n");
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
	expect_text(res.text,
		    "~/etc/gpuxray/rules.d/1-big.conf: error: ~/etc/gpuxray/rules.d/1-big.conf is larger than 1 MiB: split it "
		    "into several files\n"
		    "~/etc/gpuxray/rules.d/2-nul.conf:2: error: holds a NUL byte: this is not a text file\n"
		    "~/etc/gpuxray/rules.d/3-pipe.conf: error: ~/etc/gpuxray/rules.d/3-pipe.conf is not a regular file\n"
		    "~/etc/gpuxray/rules.d/4-dir.conf: error: ~/etc/gpuxray/rules.d/4-dir.conf is a directory where a file is "
		    "wanted\n"
		    "~/etc/gpuxray/rules.d/5-zero.conf: error: ~/etc/gpuxray/rules.d/5-zero.conf is not a regular file\n"
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
	put_text("etc/gpuxray/rules.d/parts/rule.inc", "\n{ name = \"in\"; kind = \"leak\"; match = { comm = \"@l\"; };\n}\n");
	res = load(root, NULL, 0);
	EXPECT_STR(res.text, "");
	ASSERT(res.rs && res.rs->len == 1);
	expect_text(res.rs->rules[0]->file, "~/etc/gpuxray/rules.d/parts/rule.inc");
	EXPECT_EQ(res.rs->rules[0]->line, 2);
	result_done(&res);

	put_text("etc/gpuxray/rules.d/parts/rule.inc", "\n{ name = \"in\"; kind = \"leak\";\nepochs = \"x\"; }\n");
	res = load(root, NULL, 0);
	expect_text(res.text, "~/etc/gpuxray/rules.d/parts/rule.inc:3: error: epochs is a count: write a plain number, without "
			      "quotes or unit\n");
	result_done(&res);

	put_text("etc/gpuxray/rules.d/parts/rule.inc", "\n{ name = \"in\" kind = ; }\n");
	res = load(root, NULL, 0);
	expect_text(res.text, "~/etc/gpuxray/rules.d/parts/rule.inc:2: error: syntax error at this line or just before it: a "
			      "missing \";\", quote or bracket, or a comma before \")\"?\n");
	result_done(&res);

	put_text("etc/gpuxray/rules.d/parts/rule.inc", "\n@include \"1.conf\"\n");
	put("etc/gpuxray/rules.d/parts/lists.inc", "\n\0", 2);
	res = load(root, NULL, 0);
	expect_text(res.text, "~/etc/gpuxray/rules.d/parts/lists.inc:2: error: holds a NUL byte: this is not a text file\n"
			      "~/etc/gpuxray/rules.d/parts/rule.inc:2: error: @include \"1.conf\" goes in a circle\n");
	result_done(&res);

	put_text("etc/gpuxray/rules.d/1.conf", "@include \"/etc/passwd\"\n  @include \"none\"\n\t@include\t\"\"\n");
	res = load(root, NULL, 0);
	expect_text(res.text,
		    "~/etc/gpuxray/rules.d/1.conf:1: error: @include \"/etc/passwd\" is absolute: write it relative to "
		    "~/etc/gpuxray/rules.d\n"
		    "~/etc/gpuxray/rules.d/1.conf:2: error: cannot include ~/etc/gpuxray/rules.d/none: No such file or "
		    "directory\n"
		    "~/etc/gpuxray/rules.d/1.conf:3: error: @include needs a plain file name\n");
	result_done(&res);

	/* Opening these would never come back. */
	if (symlink("/dev/zero", in_root("etc/gpuxray/rules.d/zero")) < 0 ||
	    mkfifo(in_root("etc/gpuxray/rules.d/pipe"), 0600) < 0)
		abort();
	put_text("etc/gpuxray/rules.d/1.conf", "@include \"zero\"\n@include \"pipe\"\n");
	res = load(root, NULL, 0);
	expect_text(res.text,
		    "~/etc/gpuxray/rules.d/1.conf:1: error: ~/etc/gpuxray/rules.d/zero is not a regular file\n"
		    "~/etc/gpuxray/rules.d/1.conf:2: error: ~/etc/gpuxray/rules.d/pipe is not a regular file\n");
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
