/* SPDX-License-Identifier: MIT */
/* match, except and the lists they refer to as "@name". */
#include <string.h>

#include "rule/match.h"
#include "rule/rule_names.h"
#include "rule/rule_parse.h"

/* Told once: all that follows would be over it as well. */
static int too_many(struct pattern_pool *pool, struct errors *errors, const config_setting_t *s)
{
	const bool is_first = !pool->is_over;

	pool->is_over = true;
	if (!is_first)
		return -EINVAL;
	if (pool->bytes >= PATTERNS_BYTES_MAX)
		return conf_error(errors, s,
				  "the patterns of all rules take more than %u MiB: write fewer or simpler ones",
				  (unsigned)(PATTERNS_BYTES_MAX >> 20));
	return conf_error(errors, s,
			  "the rules ask more than %u patterns in all, those of a list counted wherever it is named: make "
			  "one pattern of several, or name long lists in fewer rules",
			  PATTERNS_USES_MAX);
}

static int pattern_compile(struct rule_loader *l, const config_setting_t *s, const char *text, struct pattern **ret)
{
	char error[PATTERN_ERROR_MAX];
	int r;

	if (!text[0])
		return conf_error(l->errors, s, "an empty pattern matches everything: leave %s out", conf_name(s));
	r = pattern_pool_get(&l->patterns, text, error, ret);
	if (r == -EINVAL)
		return conf_error(l->errors, s, "pattern \"%s\" is not a regular expression: %s", text, error);
	return r == -E2BIG ? too_many(&l->patterns, l->errors, s) : r;
}

int rule_check_list(struct rule_loader *l, struct pattern_list *list)
{
	const config_setting_t *s = list->setting;
	size_t len = 0;
	int r;

	r = conf_strings(l->errors, s, &len);
	if (r == 0 && len == 0)
		r = conf_error(l->errors, s, "list \"%s\" is empty and would match nothing: remove it", list->name);
	for (size_t i = 0; r != -ENOMEM && i < len; i++) {
		_cleanup_(pattern_freep) struct pattern *p = NULL;
		const config_setting_t *e;
		const char *text = conf_strings_get(s, i, &e);
		int q;

		if (text[0] == '@')
			q = conf_error(l->errors, e,
				       "\"%s\": a list cannot refer to a list: write its patterns here, or "
				       "\"[@]\" for the character",
				       text);
		else
			q = pattern_compile(l, e, text, &p);
		r = q < 0 ? q : r;
	}
	list->is_bad = r < 0;
	return r;
}

static int unknown_list(struct rule_builder *b, const config_setting_t *s, const char *name)
{
	/* Beyond that nobody would see the guess. */
	size_t len = b->errors->len < ERRORS_MAX ? b->loader->lists_len : 0;
	_cleanup_free_ const char **names = NULL;

	if (b->loader->is_incomplete)
		return -EINVAL;
	names = calloc(len + 1, sizeof(*names));
	if (!names)
		return -ENOMEM;
	for (size_t i = 0; i < len; i++)
		names[i] = b->loader->lists[i].name;
	return conf_unknown(b->errors, s, "list", name, names);
}

/* Where a pattern that fits anywhere within a name surprises people; of paths and command lines parts are usual. */
static bool wants_anchor(enum match_key k)
{
	return k == MATCH_COMM || k == MATCH_EXE || k == MATCH_UNIT || k == MATCH_SLICE || k == MATCH_SLURM_JOB ||
	       k == MATCH_PARENT || k == MATCH_TAG || k == MATCH_POD_NAME || k == MATCH_POD_NAMESPACE ||
	       k == MATCH_CONTAINER_NAME;
}

/* Into the room that parse_match_key() has made. */
static int add_pattern(struct rule_builder *b, struct match_group *g, enum match_key k, const config_setting_t *s,
		       const char *text, bool *warned)
{
	struct pattern *p = NULL;
	int r;

	r = pattern_compile(b->loader, s, text, &p);
	if (r < 0)
		return r;
	g->key[k].patterns[g->key[k].len++] = p;
	if (wants_anchor(k) && !*warned && !pattern_is_anchored(text)) {
		conf_warn(b->errors, s,
			  "pattern \"%s\" has no anchor and fits anywhere within %s: write \"^%s\" or "
			  "\"(^|/)%s$\" to say where",
			  text, match_key_names[k], text, text);
		*warned = true;
	}
	return 0;
}

static int add_list(struct rule_builder *b, struct match_group *g, enum match_key k, const config_setting_t *s,
		    const char *name)
{
	struct pattern_list *list = rule_loader_find_list(b->loader, name);
	bool warned;
	size_t len;
	int r;

	if (!list)
		return unknown_list(b, s, name);
	if (list->is_bad)
		return 0;
	r = conf_strings(b->errors, list->setting, &len);
	warned = list->is_warned;
	for (size_t i = 0; r == 0 && i < len; i++) {
		const config_setting_t *e;
		const char *text = conf_strings_get(list->setting, i, &e);
		bool told = warned;

		r = add_pattern(b, g, k, e, text, &told);
		list->is_warned = list->is_warned || told;
	}
	return r;
}

/* Of a key with so many strings, what its lists hold included. Saturates: it is held against a maximum. */
static size_t count_patterns(const struct rule_loader *l, const config_setting_t *s, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len && n <= PATTERNS_USES_MAX; i++) {
		const char *text = conf_strings_get(s, i, NULL);
		const struct pattern_list *list = text[0] == '@' ? rule_loader_find_list(l, text + 1) : NULL;

		if (!list)
			n++;
		else if (!list->is_bad)
			n += config_setting_is_aggregate(list->setting) ? (size_t)config_setting_length(list->setting) : 1;
	}
	return n;
}

static int parse_match_key(struct rule_builder *b, struct match_group *g, enum match_key k, const config_setting_t *s)
{
	struct pattern_pool *pool = &b->loader->patterns;
	size_t len = 0, n;
	int r;

	r = conf_strings(b->errors, s, &len);
	if (r == 0 && len == 0)
		return conf_error(b->errors, s, "%s is empty and would match nothing: leave it out", conf_name(s));
	if (r < 0)
		return r;
	n = count_patterns(b->loader, s, len);
	if (pool->uses + n > PATTERNS_USES_MAX)
		return too_many(pool, b->errors, s);
	pool->uses += n;
	g->key[k].patterns = calloc(n + 1, sizeof(struct pattern *));
	if (!g->key[k].patterns)
		return -ENOMEM;
	for (size_t i = 0; r != -ENOMEM && i < len; i++) {
		const config_setting_t *e;
		const char *text = conf_strings_get(s, i, &e);
		bool told = false;
		int q;

		if (text[0] == '@')
			q = add_list(b, g, k, e, text + 1);
		else
			q = add_pattern(b, g, k, e, text, &told);
		r = q < 0 ? q : r;
	}
	return r;
}

/* Fills g, which the caller clears in any case. */
static int parse_group(struct rule_builder *b, const config_setting_t *s, struct match_group *g)
{
	int len, r;

	r = conf_group(b->errors, s);
	if (r < 0)
		return r;
	len = config_setting_length(s);
	if (len == 0)
		return conf_error(b->errors, s, "%s is empty: leave it out, or say { comm = \"^name$\"; }",
				  conf_name(s));
	for (int i = 0; r != -ENOMEM && i < len; i++) {
		const config_setting_t *e = config_setting_get_elem(s, (unsigned)i);
		const char *name = config_setting_name(e);
		int k = rule_name_find(match_key_names, name), q;

		if (k >= 0)
			q = parse_match_key(b, g, (enum match_key)k, e);
		else
			q = conf_unknown(b->errors, e, "match key", name, match_key_names);
		r = q < 0 ? q : r;
	}
	return r;
}

int rule_parse_match(struct rule_builder *b, const config_setting_t *s)
{
	struct match_group *g = calloc(1, sizeof(*g));

	if (!g)
		return -ENOMEM;
	b->rule->match = g;
	return parse_group(b, s, g);
}

int rule_parse_except(struct rule_builder *b, const config_setting_t *s)
{
	struct match_group *g;
	int len, r = 0;

	/* One group need not be put in a list. */
	len = config_setting_is_group(s) ? 1 : config_setting_length(s);
	if (!config_setting_is_group(s) && !config_setting_is_list(s))
		return conf_error(b->errors, s, "except needs groups: ( { comm = \"^a$\"; user = \"^b$\"; }, ... )");
	if (len == 0)
		return conf_error(b->errors, s, "except is empty: leave it out");
	g = calloc((size_t)len, sizeof(*g));
	if (!g)
		return -ENOMEM;
	b->rule->except = g;
	b->rule->except_len = (size_t)len;
	for (int i = 0; r != -ENOMEM && i < len; i++) {
		const config_setting_t *e = config_setting_is_group(s) ? s : config_setting_get_elem(s, (unsigned)i);
		int q = parse_group(b, e, &g[i]);

		r = q < 0 ? q : r;
	}
	return r;
}
