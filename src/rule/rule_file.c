/* SPDX-License-Identifier: MIT */
/* The top level of rule files: version, defaults, lists, rules; and which definition of a rule counts. */
#include <string.h>

#include "rule/rule_names.h"
#include "rule/rule_parse.h"
#include "rule/settings.h"

#define RULE_FILE_VERSION 1
#define RULES_MAX 10000 /* definitions, those that are switched off later included */

static const char unnamed[] = "?"; /* a rule without a usable name, kept so that its other errors are told too */

static const char *const top_names[] = { "version", "defaults", "lists", "rules", NULL };

static int top_key_error(struct errors *errors, const config_setting_t *s)
{
	const char *name = config_setting_name(s);

	if (rule_name_find(settings_key_names, name) >= 0)
		return conf_error(errors, s,
				  "\"%s\" is a key of the daemon's configuration, not of a rule file: move it "
				  "to gpuxray.conf",
				  name);
	if (rule_name_find(rule_key_names, name) >= 0)
		return conf_error(errors, s, "\"%s\" is a key of a rule: put it in rules = ( { ... } );", name);
	return conf_unknown(errors, s, "key", name, top_names);
}

static int read_version(struct rule_loader *l, const struct conf *c)
{
	const config_setting_t *s = config_setting_get_member(conf_root(c), "version");
	uint32_t version;

	if (!s) {
		errors_warn(l->errors, c->path, 1, "version is missing: write version = %d; at the top",
			    RULE_FILE_VERSION);
		return 0;
	}
	if (config_setting_type(s) == CONFIG_TYPE_INT && config_setting_get_int(s) > RULE_FILE_VERSION)
		return conf_error(l->errors, s,
				  "version = %d is newer than this program, which knows version %d: update it",
				  config_setting_get_int(s), RULE_FILE_VERSION);
	return conf_count(l->errors, s, RULE_FILE_VERSION, RULE_FILE_VERSION, &version);
}

/* Fills the slots that s sets; they apply to the rules of the same file. */
static int read_defaults(struct rule_loader *l, const config_setting_t *s, struct draft *defaults)
{
	const char *names[KEY_MAX + 1] = { 0 };
	size_t n = 0;
	int r;

	for (size_t k = 0; k < KEY_MAX; k++) {
		if (rule_key_may_default((enum rule_key)k))
			names[n++] = rule_key_names[k];
	}
	r = conf_group(l->errors, s);
	if (r < 0)
		return r;
	for (int i = 0; r != -ENOMEM && i < config_setting_length(s); i++) {
		const config_setting_t *e = config_setting_get_elem(s, (unsigned)i);
		const char *name = config_setting_name(e);
		int k = rule_name_find(rule_key_names, name), q;

		if (k >= 0 && !rule_key_may_default((enum rule_key)k))
			q = conf_error(l->errors, e, "%s cannot have a default: write it in each rule", name);
		else if (k < 0)
			q = conf_unknown(l->errors, e, "key of defaults", name, names);
		else
			q = rule_check_default(l, (enum rule_key)k, e);
		if (q == 0)
			defaults->slot[k] = e;
		r = q < 0 ? q : r;
	}
	return r;
}

static int add_list(struct rule_loader *l, const config_setting_t *s)
{
	const char *name = config_setting_name(s);
	const struct pattern_list *old = rule_loader_find_list(l, name);
	_cleanup_free_ char *where = NULL;

	if (old) {
		where = conf_where(old->setting);
		if (!where)
			return -ENOMEM;
		return conf_error(l->errors, s,
				  "list \"%s\" is defined twice, first at %s: rename one, lists are shared "
				  "by all files",
				  name, where);
	}
	if (l->lists_len == l->lists_cap) {
		size_t cap = l->lists_cap ? l->lists_cap * 2 : 16;
		struct pattern_list *lists = realloc(l->lists, cap * sizeof(*lists));

		if (!lists)
			return -ENOMEM;
		l->lists = lists;
		l->lists_cap = cap;
	}
	if (name_map_put(&l->lists_by_name, name, l->lists_len) < 0)
		return -ENOMEM;
	l->lists[l->lists_len++] = (struct pattern_list){ .name = name, .setting = s };
	return rule_check_list(l, &l->lists[l->lists_len - 1]);
}

static int read_lists(struct rule_loader *l, const config_setting_t *s)
{
	int r;

	r = conf_group(l->errors, s);
	if (r < 0)
		return r;
	for (int i = 0; r != -ENOMEM && i < config_setting_length(s); i++) {
		int q = add_list(l, config_setting_get_elem(s, (unsigned)i));

		r = q < 0 ? q : r;
	}
	return r;
}

struct draft *rule_loader_find(const struct rule_loader *l, const char *name)
{
	size_t i;

	return name_map_get(&l->drafts_by_name, name, &i) ? &l->drafts[i] : NULL;
}

struct pattern_list *rule_loader_find_list(const struct rule_loader *l, const char *name)
{
	size_t i;

	return name_map_get(&l->lists_by_name, name, &i) ? &l->lists[i] : NULL;
}

const char **rule_loader_names(const struct rule_loader *l)
{
	const char **names = calloc(l->drafts_len + 1, sizeof(*names));
	size_t n = 0;

	for (size_t i = 0; names && i < l->drafts_len; i++) {
		if (!l->drafts[i].off)
			names[n++] = l->drafts[i].name;
	}
	return names;
}

static int append_draft(struct rule_loader *l, const struct draft *d)
{
	if (l->drafts_len >= RULES_MAX) {
		l->is_full = l->is_incomplete = true;
		return conf_error(l->errors, d->group, "more than %d rules: what follows was not looked at", RULES_MAX);
	}
	if (l->drafts_len == l->drafts_cap) {
		size_t cap = l->drafts_cap ? l->drafts_cap * 2 : 16;
		struct draft *drafts = realloc(l->drafts, cap * sizeof(*drafts));

		if (!drafts)
			return -ENOMEM;
		l->drafts = drafts;
		l->drafts_cap = cap;
	}
	if (d->name != unnamed && name_map_put(&l->drafts_by_name, d->name, l->drafts_len) < 0)
		return -ENOMEM;
	l->drafts[l->drafts_len++] = *d;
	return 0;
}

static int merge_draft(struct rule_loader *l, struct draft *old, const struct draft *d)
{
	const config_setting_t *kind = d->slot[KEY_KIND], *old_kind = old->slot[KEY_KIND];

	if (kind && old_kind && config_setting_type(kind) == CONFIG_TYPE_STRING &&
	    config_setting_type(old_kind) == CONFIG_TYPE_STRING &&
	    strcmp(config_setting_get_string(kind), config_setting_get_string(old_kind)) != 0)
		return conf_error(l->errors, kind,
				  "a merge cannot change the kind, which is \"%s\": use override = "
				  "\"replace\"",
				  config_setting_get_string(old_kind));
	for (size_t k = 0; k < KEY_MAX; k++) {
		/* The defaults of the merging file are for rules that it defines itself. */
		if (!d->slot[k] || d->is_default[k])
			continue;
		old->slot[k] = d->slot[k];
		old->is_default[k] = false;
	}
	old->group = d->group;
	return 0;
}

static int nothing_to_override(struct rule_loader *l, const struct draft *d)
{
	_cleanup_free_ const char **names = NULL;
	const char *guess = NULL;

	if (l->is_incomplete)
		return -EINVAL;
	/* Else nobody would see the guess. */
	if (l->errors->len < ERRORS_MAX) {
		names = rule_loader_names(l);
		if (!names)
			return -ENOMEM;
		guess = conf_suggest(d->name, names);
	}
	if (guess)
		return conf_error(l->errors, d->slot[KEY_OVERRIDE],
				  "there is no rule \"%s\" to override: did you mean "
				  "\"%s\"?",
				  d->name, guess);
	return conf_error(l->errors, d->slot[KEY_OVERRIDE],
			  "there is no rule \"%s\" to override: it must come before, in "
			  "this file or in one whose name sorts earlier",
			  d->name);
}

static int override_draft(struct rule_loader *l, const struct draft *d, struct draft *old, const char *text)
{
	const config_setting_t *s = d->slot[KEY_OVERRIDE];
	int how = rule_name_find(rule_override_names, text);

	if (how < 0)
		return conf_unknown(l->errors, s, "override", text, rule_override_names);
	if (how == OVERRIDE_OFF && config_setting_length(d->group) > 2)
		return conf_error(l->errors, s, "override = \"off\" removes rule \"%s\": leave the other keys out",
				  d->name);
	if (!old)
		return nothing_to_override(l, d);
	if (how == OVERRIDE_MERGE)
		return merge_draft(l, old, d);
	if (how == OVERRIDE_REPLACE)
		*old = *d;
	else
		old->off = d->group;
	return 0;
}

static int add_draft(struct rule_loader *l, const struct draft *d)
{
	struct draft *old = d->name == unnamed ? NULL : rule_loader_find(l, d->name), nameless = *d;
	_cleanup_free_ char *where = NULL;
	int r;

	if (old && old->off)
		old = NULL;
	if (d->slot[KEY_OVERRIDE] && d->name != unnamed) {
		const char *text;

		r = conf_string(l->errors, d->slot[KEY_OVERRIDE], &text);
		return r < 0 ? r : override_draft(l, d, old, text);
	}
	if (!old)
		return append_draft(l, d);
	where = conf_where(old->group);
	if (!where)
		return -ENOMEM;
	/* For its other errors. */
	nameless.name = unnamed;
	r = append_draft(l, &nameless);
	if (r < 0)
		return r;
	return conf_error(l->errors, d->group,
			  "rule \"%s\" is defined twice, first at %s: rename one, or write override = "
			  "\"replace\" | \"merge\" | \"off\"",
			  d->name, where);
}

static int read_rule(struct rule_loader *l, const config_setting_t *s, const struct draft *defaults)
{
	struct draft d = { .name = unnamed, .group = s };
	int r, q;

	if (!config_setting_is_group(s))
		return conf_error(l->errors, s, "a rule is a group: { name = \"...\"; kind = \"...\"; }");
	for (size_t k = 0; k < KEY_MAX; k++) {
		d.slot[k] = defaults->slot[k];
		d.is_default[k] = d.slot[k] != NULL;
	}
	r = 0;
	for (int i = 0; r != -ENOMEM && i < config_setting_length(s); i++) {
		const config_setting_t *e = config_setting_get_elem(s, (unsigned)i);
		int k = rule_name_find(rule_key_names, config_setting_name(e));

		if (k < 0) {
			r = conf_unknown(l->errors, e, "key", config_setting_name(e), rule_key_names);
			continue;
		}
		d.slot[k] = e;
		d.is_default[k] = false;
	}
	if (r == -ENOMEM)
		return r;
	if (!d.slot[KEY_NAME])
		q = conf_error(l->errors, s, "a rule needs a name: name = \"...\"");
	else
		q = rule_check_name(l->errors, d.slot[KEY_NAME], &d.name);
	if (q == -ENOMEM)
		return q;
	r = q < 0 ? q : r;
	q = add_draft(l, &d);
	return q < 0 ? q : r;
}

static int read_rules(struct rule_loader *l, const config_setting_t *s, const struct draft *defaults)
{
	int r = 0;

	if (!config_setting_is_list(s))
		return conf_error(l->errors, s, "rules needs a list in round brackets: rules = ( { ... }, { ... } );");
	for (int i = 0; r != -ENOMEM && !l->is_full && i < config_setting_length(s); i++) {
		int q = read_rule(l, config_setting_get_elem(s, (unsigned)i), defaults);

		r = q < 0 ? q : r;
	}
	return r;
}

int rule_loader_add(struct rule_loader *l, struct conf *c)
{
	const config_setting_t *root = conf_root(c), *rules = NULL;
	struct draft defaults = { 0 };
	struct conf **files;
	int r, q;

	files = realloc(l->files, (l->files_len + 1) * sizeof(struct conf *));
	if (!files) {
		conf_free(c);
		return -ENOMEM;
	}
	l->files = files;
	l->files[l->files_len++] = c;
	if (conf_is_empty(c))
		return 0;
	r = read_version(l, c);
	for (int i = 0; r != -ENOMEM && i < config_setting_length(root); i++) {
		const config_setting_t *s = config_setting_get_elem(root, (unsigned)i);
		const char *name = config_setting_name(s);

		q = 0;
		if (strcmp(name, "defaults") == 0)
			q = read_defaults(l, s, &defaults);
		else if (strcmp(name, "lists") == 0)
			q = read_lists(l, s);
		else if (strcmp(name, "rules") == 0)
			rules = s;
		else if (strcmp(name, "version") != 0)
			q = top_key_error(l->errors, s);
		r = q < 0 ? q : r;
	}
	/* Last, so that defaults written below the rules count as well. */
	if (rules && r != -ENOMEM) {
		q = read_rules(l, rules, &defaults);
		r = q < 0 ? q : r;
	}
	return r;
}

void rule_loader_done(struct rule_loader *l)
{
	for (size_t i = 0; i < l->files_len; i++)
		conf_free(l->files[i]);
	free(l->files);
	free(l->drafts);
	free(l->lists);
	name_map_done(&l->drafts_by_name);
	name_map_done(&l->lists_by_name);
	pattern_pool_done(&l->patterns);
	*l = (struct rule_loader){ 0 };
}
