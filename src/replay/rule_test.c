/* SPDX-License-Identifier: MIT */
#include "replay/rule_test.h"

#include <errno.h>
#include <string.h>

#include "replay/rule_test_private.h"

#define TESTS_MAX 10000

/* At the top of a file, where what its tests have in common stands too; and in each test. */
static const struct test_key top_keys[] = {
	{ "version", NULL },   { "name", NULL },    { "rules", NULL }, { "defaults", NULL }, { "lists", NULL },
	{ "tick", NULL },      { "devices", NULL }, { "processes", NULL }, { "trace", NULL }, { "stretch", NULL },
	{ "expect", NULL },    { "tests", NULL },   { NULL, NULL },
};

static const struct test_key test_keys[] = {
	{ "name", NULL },      { "rules", NULL }, { "defaults", NULL }, { "lists", NULL },  { "tick", NULL },
	{ "devices", NULL },   { "processes", NULL }, { "trace", NULL }, { "stretch", NULL }, { "expect", NULL },
	{ NULL, NULL },
};

static int read_version(struct rule_test *t)
{
	const config_setting_t *s = config_setting_get_member(t->root, "version");
	uint32_t version;

	return s ? conf_count(t->errors, s, 1, 1, &version) : 0;
}

static int run_one(const struct rule_test *common, const config_setting_t *group, const struct test_key *keys,
		   struct rule_test_counts *counts)
{
	_cleanup_(test_done) struct rule_test t = *common;
	int r, q;

	t.group = group;
	r = test_parse_keys(&t, group, "key", keys, NULL, NULL);
	if (r == -ENOMEM || !config_setting_is_group(group))
		return r;
	q = test_parse(&t);
	r = q < 0 ? q : r;
	return r < 0 ? r : test_play(&t, counts);
}

static int run_tests(const struct rule_test *common, const config_setting_t *tests, struct rule_test_counts *counts)
{
	const config_setting_t *stray;
	int r = 0, len = config_setting_length(tests);

	if (!config_setting_is_list(tests))
		return conf_error(common->errors, tests, "tests needs a list in round brackets: tests = ( { name = \"...\"; "
							 "trace = ...; expect = ...; } );");
	if (len == 0 || len > TESTS_MAX)
		return conf_error(common->errors, tests, "tests holds %s", len ? "too many" : "none");
	/* Beside tests it would be of all of them, and some would not fail for want of their own. */
	stray = config_setting_get_member(common->root, "expect");
	if (stray)
		return conf_error(common->errors, stray, "expect beside tests: write it in each test");
	for (int i = 0; r != -ENOMEM && i < len; i++) {
		int q = run_one(common, config_setting_get_elem(tests, (unsigned)i), test_keys, counts);

		r = q < 0 ? q : r;
	}
	return r;
}

static int run_conf(const struct conf *c, const struct rule_test_options *o, struct errors *errors,
		    struct rule_test_counts *counts)
{
	struct rule_test common = { .errors = errors, .options = o, .conf = c, .root = conf_root(c),
				    .group = conf_root(c) };
	const config_setting_t *tests = config_setting_get_member(common.root, "tests");
	int r = read_version(&common), q;

	if (!tests)
		q = run_one(&common, common.root, top_keys, counts);
	else
		q = test_parse_keys(&common, common.root, "key", top_keys, NULL, NULL);
	r = q < 0 ? q : r;
	if (tests && r != -ENOMEM) {
		q = run_tests(&common, tests, counts);
		r = q < 0 ? q : r;
	}
	return r;
}

/* A file that is no test has passed none. */
static int finish(const char *path, int r, const struct rule_test_options *o, struct rule_test_counts *counts)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	if (r == 0 || r == -ENOMEM)
		return r;
	say_name(&sb, path);
	if (sb.error)
		return sb.error;
	fprintf(o->out, "not ok %zu - %s: has errors\n", counts->passed + counts->failed + 1, sb.buf ? sb.buf : "");
	counts->failed++;
	return -EINVAL;
}

int rule_test_run(const char *path, const struct rule_test_options *o, struct errors *errors,
		  struct rule_test_counts *counts)
{
	_cleanup_(conf_freep) struct conf *c = NULL;
	int r = conf_load(path, 0, errors, &c);

	return finish(path, r < 0 ? r : run_conf(c, o, errors, counts), o, counts);
}

int rule_test_run_text(const char *name, const char *text, const struct rule_test_options *o, struct errors *errors,
		       struct rule_test_counts *counts)
{
	_cleanup_(conf_freep) struct conf *c = NULL;
	int r = conf_parse(name, text, errors, &c);

	return finish(name, r < 0 ? r : run_conf(c, o, errors, counts), o, counts);
}
