/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "rule/match.h"
#include "test.h"

static struct pattern *compile(const char *text)
{
	char error[PATTERN_ERROR_MAX] = "";
	struct pattern *p = NULL;

	if (pattern_new(text, error, &p) < 0)
		printf("# %s: %s\n", text, error);
	return p;
}

static int match(const char *pattern, const char *text)
{
	_cleanup_(pattern_freep) struct pattern *p = compile(pattern);

	return p ? pattern_match(p, text, strlen(text)) : -EINVAL;
}

TEST(patterns)
{
	EXPECT_EQ(match("^train", "train.py"), 1);
	EXPECT_EQ(match("^train", "retrain"), 0);
	EXPECT_EQ(match("train", "retraining"), 1);
	EXPECT_EQ(match("(?i)^TRAIN$", "train"), 1);
	EXPECT_EQ(match("^(?!kworker)", "kworker/0"), 0);
	EXPECT_EQ(match("^$", ""), 1);
}

TEST(values_are_bytes)
{
	/* One byte for each dot, whatever UTF-8 would make of it, and no trouble with what is not UTF-8. */
	EXPECT_EQ(match("^..$", "\xc3\xa9"), 1);
	EXPECT_EQ(match("^.$", "\xff"), 1);
	EXPECT_EQ(match("^\\xff\\xfe$", "\xff\xfe"), 1);
	EXPECT_EQ(match("^\xc3\xa9$", "\xc3\xa9"), 1);
}

/* A process chooses its name: a newline in it neither hides it nor lets it pass for another. */
TEST(a_newline_is_a_byte)
{
	EXPECT_EQ(match("^ok$", "ok\n"), 0);
	EXPECT_EQ(match("^ok$", "x\nok"), 0);
	EXPECT_EQ(match("^python.*--evil", "python\n--evil"), 1);
}

TEST(bad_patterns)
{
	char error[PATTERN_ERROR_MAX];
	struct pattern *p = NULL;

	EXPECT_EQ(pattern_new("a(b", error, &p), -EINVAL);
	EXPECT_STR(error, "missing closing parenthesis at character 4");
	EXPECT_EQ(pattern_new("(*UTF)a", error, &p), -EINVAL);
	EXPECT_EQ(pattern_new("*", error, &p), -EINVAL);
	EXPECT(!p);
}

TEST(catastrophic_pattern_gives_up_quickly)
{
	static const char *const patterns[] = { "^(a+)+$", "^(a|aa)+$", "^(a*)*$", "^(.*a){30}$",
						"^((a{1,10}){1,10}){1,100}$" };
	uint64_t start = clock_monotonic_ns();
	char text[4096];

	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 2] = '!';
	text[sizeof(text) - 1] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
		EXPECT_EQ(match(patterns[i], text), -ELOOP);
	EXPECT(clock_monotonic_ns() - start < 2 * NSEC_PER_SEC);
}

/* Compiled patterns have a small stack; deep but harmless ones are interpreted instead. */
TEST(deep_recursion_is_still_matched)
{
	char text[4097];
	int r;

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	r = match("^(?:(a)|b)*+$", text);
	EXPECT_EQ(r, 1);
	r = match("^((a|b)(?1)?)$", text);
	EXPECT(r == 1 || r == -ELOOP);
}

TEST(find_gives_bounds)
{
	_cleanup_(pattern_freep) struct pattern *p = compile("b+");
	size_t start = 0, end = 0;

	ASSERT(p);
	EXPECT_EQ(pattern_find(p, "abbacb", 6, 0, &start, &end), 1);
	EXPECT(start == 1 && end == 3);
	EXPECT_EQ(pattern_find(p, "abbacb", 6, end, &start, &end), 1);
	EXPECT(start == 5 && end == 6);
	EXPECT_EQ(pattern_find(p, "abbacb", 6, end, &start, &end), 0);
}

TEST(anchors)
{
	EXPECT(pattern_is_anchored("^a"));
	EXPECT(pattern_is_anchored("a$"));
	EXPECT(pattern_is_anchored("(^|/)a"));
	EXPECT(pattern_is_anchored("\\Aa"));
	EXPECT(pattern_is_anchored("\\ba"));
	EXPECT(!pattern_is_anchored("a"));
	EXPECT(!pattern_is_anchored(""));
	EXPECT(!pattern_is_anchored("[^/]*a"));
	EXPECT(!pattern_is_anchored("[]$^]a"));
	EXPECT(!pattern_is_anchored("[^]$]a"));
	EXPECT(!pattern_is_anchored("[\\]$]a"));
	EXPECT(!pattern_is_anchored("\\^a\\$"));
	EXPECT(!pattern_is_anchored("a\\"));
	EXPECT(!pattern_is_anchored("[$"));
	EXPECT(pattern_is_anchored("[$]^"));
}

/* ---- rules ---- */

static struct ruleset *rule(const char *keys)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	struct ruleset *rs = NULL;
	char text[2048];

	snprintf(text, sizeof(text),
		 "version = 1; lists = { shells = [ \"^bash$\", \"^zsh$\" ]; };"
		 "rules = ( { name = \"x\"; kind = \"alloc_failure\"; %s } );",
		 keys);
	if (ruleset_parse("t", text, &errors, &rs) < 0)
		errors_print(&errors, stdout);
	return rs;
}

static struct identity *trainer(void)
{
	struct identity *id = identity_new();

	if (!id)
		abort();
	id->comm = strdup("python3");
	id->exe = strdup("/usr/bin/python3.11");
	id->cmdline = strdup("python3 train.py --lr 1");
	id->user = strdup("alice");
	id->cgroup = strdup("/system.slice/train-7.service");
	id->unit = strdup("train-7.service");
	id->container = NULL;
	return id;
}

static bool says(const char *keys, const struct identity *id, const char *uuid, int index)
{
	_cleanup_(ruleset_freep) struct ruleset *rs = rule(keys);

	if (!rs || rs->len != 1) {
		EXPECT(rs && rs->len == 1);
		return false;
	}
	return rule_matches(rs->rules[0], id, uuid, index);
}

TEST(all_keys_and_any_pattern)
{
	_cleanup_(identity_unrefp) struct identity *id = trainer();

	EXPECT(says("", id, NULL, -1));
	EXPECT(says("match = { comm = \"^python\"; };", id, NULL, -1));
	EXPECT(says("match = { comm = \"^python\"; user = \"^alice$\"; unit = \"^train-\"; };", id, NULL, -1));
	EXPECT(!says("match = { comm = \"^python\"; user = \"^bob$\"; };", id, NULL, -1));
	EXPECT(says("match = { comm = [ \"^ruby\", \"^python\" ]; };", id, NULL, -1));
	EXPECT(!says("match = { comm = [ \"^ruby\", \"^perl\" ]; };", id, NULL, -1));
	EXPECT(!says("match = { comm = \"@shells\"; };", id, NULL, -1));
	EXPECT(says("match = { comm = [ \"@shells\", \"^python\" ]; };", id, NULL, -1));
	EXPECT(says("match = { exe = \"/python3\\\\.11$\"; cmdline = \"--lr\"; cgroup = \"^/system\\\\.slice/\"; };",
		    id, NULL, -1));
}

TEST(except_is_any_group_of_all_keys)
{
	_cleanup_(identity_unrefp) struct identity *id = trainer();

	EXPECT(!says("except = { comm = \"^python\"; };", id, NULL, -1));
	EXPECT(says("except = { comm = \"^python\"; user = \"^ci$\"; };", id, NULL, -1));
	EXPECT(!says("except = ( { user = \"^ci$\"; }, { exe = \"^/usr/bin/\"; } );", id, NULL, -1));
	EXPECT(says("except = ( { user = \"^ci$\"; }, { exe = \"^/opt/\"; } );", id, NULL, -1));
	EXPECT(!says("match = { comm = \"^python\"; }; except = { unit = \"^train-7\"; };", id, NULL, -1));
	EXPECT(says("match = { comm = \"^python\"; }; except = { unit = \"^train-8\"; };", id, NULL, -1));
}

TEST(what_is_not_known_does_not_match)
{
	_cleanup_(identity_unrefp) struct identity *id = trainer();

	EXPECT(!says("match = { container = \"^\"; };", id, NULL, -1));
	EXPECT(says("except = { container = \"^\"; };", id, NULL, -1));
	EXPECT(says("", NULL, NULL, -1));
	EXPECT(!says("match = { comm = \"^\"; };", NULL, NULL, -1));
	EXPECT(says("except = { comm = \"^\"; };", NULL, NULL, -1));
}

TEST(unit_is_the_system_unit_or_that_of_the_user)
{
	_cleanup_(identity_unrefp) struct identity *id = trainer();

	id->user_unit = strdup("shell.scope");
	EXPECT(!says("match = { unit = \"^shell\\\\.scope$\"; };", id, NULL, -1));
	EXPECT(says("match = { unit = \"^train-7\"; };", id, NULL, -1));
	free(id->unit);
	id->unit = NULL;
	EXPECT(says("match = { unit = \"^shell\\\\.scope$\"; };", id, NULL, -1));
}

TEST(where_it_runs_and_what_it_says)
{
	static const char *const keys[] = { "slice", "pod", "slurm_job", "runtime", "parent", "tag", "pod_name",
					    "pod_namespace", "container_name" };
	_cleanup_(identity_unrefp) struct identity *id = trainer();
	char **const texts[] = { &id->slice, &id->pod, &id->slurm_job, &id->runtime, &id->parent, &id->tag, &id->pod_name,
				 &id->pod_namespace, &id->container_name };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		char mine[64], other[64], any[64];

		snprintf(mine, sizeof(mine), "match = { %s = \"^%s-7$\"; };", keys[i], keys[i]);
		snprintf(other, sizeof(other), "match = { %s = \"^%s-8$\"; };", keys[i], keys[i]);
		snprintf(any, sizeof(any), "except = { %s = \"^\"; };", keys[i]);
		EXPECT(!says(mine, id, NULL, -1));
		EXPECT(says(any, id, NULL, -1));
		ASSERT(asprintf(texts[i], "%s-7", keys[i]) > 0);
		EXPECT(says(mine, id, NULL, -1));
		EXPECT(!says(other, id, NULL, -1));
		EXPECT(!says(any, id, NULL, -1));
	}
}

TEST(device_is_uuid_or_index)
{
	_cleanup_(identity_unrefp) struct identity *id = trainer();
	static const char uuid[] = "GPU-01234567-89ab";

	EXPECT(says("match = { device = \"^GPU-0123\"; };", id, uuid, 3));
	EXPECT(says("match = { device = \"^3$\"; };", id, uuid, 3));
	EXPECT(says("match = { device = \"^3$\"; };", id, NULL, 3));
	EXPECT(!says("match = { device = \"^3$\"; };", id, uuid, 13));
	EXPECT(!says("match = { device = \"^\"; };", id, NULL, -1));
	EXPECT(says("match = { device = \"^0$\"; };", NULL, uuid, 0)); /* a device has no identity */
	EXPECT(!says("except = { device = [ \"^1$\", \"^2$\" ]; };", NULL, NULL, 2));
	EXPECT(!says("match = { device = \"^0$\"; comm = \"^ruby\"; };", id, uuid, 0));
}

static size_t count_lines(FILE *f)
{
	size_t n = 0;
	int c;

	rewind(f);
	while ((c = fgetc(f)) != EOF)
		n += c == '\n';
	return n;
}

TEST(limit_is_no_match_and_is_told_once)
{
	_cleanup_(ruleset_freep) struct ruleset *rs = rule("match = { cmdline = [ \"^(a+)+$\", \"^b\" ]; };");
	_cleanup_(identity_unrefp) struct identity *id = identity_new();
	FILE *f = tmpfile();
	int saved = dup(STDERR_FILENO);
	bool first, second;

	ASSERT(rs && id && f && saved >= 0);
	id->cmdline = malloc(4001);
	ASSERT(id->cmdline);
	memset(id->cmdline, 'a', 3999);
	strcpy(id->cmdline + 3999, "!");
	dup2(fileno(f), STDERR_FILENO);
	first = rule_matches(rs->rules[0], id, NULL, -1);
	second = rule_matches(rs->rules[0], id, NULL, -1);
	dup2(saved, STDERR_FILENO);
	close(saved);
	EXPECT(!first && !second);
	EXPECT_EQ(count_lines(f), 1);
	fclose(f);
	/* The other pattern of the list still works. */
	id->cmdline[0] = 'b';
	EXPECT(rule_matches(rs->rules[0], id, NULL, -1));
}

TEST_MAIN()
