/* SPDX-License-Identifier: MIT */
/* What an incident does beyond firing: escalate raises its severity, inhibits silences other rules. */
#include <string.h>

#include "base/clock.h"
#include "rule/rule_names.h"
#include "rule/rule_parse.h"

#define TIME_MAX_NS (366 * UINT64_C(86400) * NSEC_PER_SEC)

enum escalate_key { ESCALATE_SEVERITY, ESCALATE_FULL_IN, ESCALATE_ABOVE, ESCALATE_AFTER, ESCALATE_MAX };

static const char *const escalate_names[] = { "severity", "full_in", "above", "after", NULL };
_Static_assert(ARRAY_SIZE(escalate_names) == ESCALATE_MAX + 1, "names of enum escalate_key, in its order");

static int escalate_severity(struct rule_builder *b, const config_setting_t *s)
{
	const char *text;
	int i, r;

	r = conf_string(b->errors, s, &text);
	if (r < 0)
		return r;
	i = rule_name_find(severity_names, text);
	if (i < 0)
		return conf_unknown(b->errors, s, "severity", text, severity_names);
	if ((enum severity)i <= b->rule->severity)
		return conf_error(b->errors, s,
				  "escalate: severity = \"%s\" is not higher than the rule's own, which is \"%s\"", text,
				  severity_name(b->rule->severity));
	b->rule->escalate.severity = (enum severity)i;
	return 0;
}

static int escalate_full_in(struct rule_builder *b, const config_setting_t *s)
{
	if (b->rule->kind != RULE_LEAK)
		return conf_error(b->errors, s,
				  "escalate: full_in does not belong to kind = \"%s\" but to leak: use above or after",
				  rule_kind_name(b->rule->kind));
	return conf_duration(b->errors, s, NSEC_PER_SEC, TIME_MAX_NS, &b->rule->escalate.full_in_ns);
}

static int escalate_above(struct rule_builder *b, const config_setting_t *s)
{
	const struct rule *r = b->rule;
	struct limit above;
	int q;

	if (r->kind != RULE_LIVE_BYTES && r->kind != RULE_ALLOC_RATE && r->kind != RULE_UNTRACKED_GROWTH)
		return conf_error(b->errors, s,
				  "escalate: above does not belong to kind = \"%s\", which has no fire_above: use %safter",
				  rule_kind_name(r->kind), r->kind == RULE_LEAK ? "full_in or " : "");
	q = rule_parse_limit(b, s, &above);
	/* A bad fire_above has been told already. */
	if (q < 0 || r->fire_above.unit == LIMIT_NONE)
		return q;
	if (above.unit != r->fire_above.unit)
		return conf_error(b->errors, s,
				  "escalate: above is not of the same unit as fire_above: write both as sizes, both as "
				  "shares or both as rates of the same thing");
	if (above.value <= r->fire_above.value)
		return conf_error(b->errors, s,
				  "escalate: above is not over fire_above, so that the rule would never fire without: "
				  "raise it, or raise the rule's severity");
	if (above.unit == LIMIT_SHARE && above.value >= 1)
		return conf_error(b->errors, s,
				  "escalate: above = \"100%%\" is unreachable: nothing holds more than the device");
	b->rule->escalate.above = above;
	return 0;
}

static int escalate_after(struct rule_builder *b, const config_setting_t *s)
{
	return conf_duration(b->errors, s, NSEC_PER_SEC, TIME_MAX_NS, &b->rule->escalate.after_ns);
}

int rule_parse_escalate(struct rule_builder *b, const config_setting_t *s)
{
	static int (*const parsers[ESCALATE_MAX])(struct rule_builder *b, const config_setting_t *s) = {
		[ESCALATE_SEVERITY] = escalate_severity,
		[ESCALATE_FULL_IN] = escalate_full_in,
		[ESCALATE_ABOVE] = escalate_above,
		[ESCALATE_AFTER] = escalate_after,
	};
	bool has_condition = false;
	int r;

	r = conf_group(b->errors, s);
	if (r < 0)
		return r;
	for (int i = 0; r != -ENOMEM && i < config_setting_length(s); i++) {
		const config_setting_t *e = config_setting_get_elem(s, (unsigned)i);
		int k = rule_name_find(escalate_names, config_setting_name(e)), q;

		if (k < 0)
			q = conf_unknown(b->errors, e, "key of escalate", config_setting_name(e), escalate_names);
		else
			q = parsers[k](b, e);
		has_condition = has_condition || k > ESCALATE_SEVERITY;
		r = q < 0 ? q : r;
	}
	if (r == -ENOMEM)
		return r;
	if (!config_setting_get_member(s, "severity") || !has_condition)
		return conf_error(b->errors, s,
				  "escalate needs a severity, and full_in, above or after: { severity = \"error\"; "
				  "after = \"1h\"; }");
	if (r < 0)
		return r;
	b->rule->escalate.is_set = true;
	return 0;
}

static bool is_enabled(const struct draft *d)
{
	const config_setting_t *s = d->slot[KEY_ENABLED];

	return !s || config_setting_type(s) != CONFIG_TYPE_BOOL || config_setting_get_bool(s);
}

static int unknown_rule(struct rule_builder *b, const config_setting_t *e, const char *name)
{
	const struct rule_loader *l = b->loader;
	static const char *const none[] = { NULL };
	_cleanup_free_ const char **names = NULL;

	if (l->is_incomplete)
		return -EINVAL;
	/* Else nobody would see the guess. */
	if (b->errors->len >= ERRORS_MAX)
		return conf_unknown(b->errors, e, "rule in inhibits", name, none);
	names = rule_loader_names(l);
	if (!names)
		return -ENOMEM;
	return conf_unknown(b->errors, e, "rule in inhibits", name, names);
}

/* 1: is to be kept. */
static int check_inhibited(struct rule_builder *b, const config_setting_t *e, const char *name)
{
	const struct draft *d = rule_loader_find(b->loader, name);
	const config_setting_t *gone;
	_cleanup_free_ char *where = NULL;

	if (strcmp(name, b->rule->name) == 0)
		return conf_error(b->errors, e, "rule \"%s\" inhibits itself and would never speak: remove the name", name);
	if (!d)
		return unknown_rule(b, e, name);
	if (!d->off && is_enabled(d))
		return 1;
	gone = d->off ? d->off : d->slot[KEY_ENABLED];
	where = conf_where(gone);
	if (!where)
		return -ENOMEM;
	conf_warn(b->errors, e, "inhibits names rule \"%s\", which is switched off at %s: remove the name", name, where);
	return 0;
}

int rule_parse_inhibits(struct rule_builder *b, const config_setting_t *s)
{
	_cleanup_(name_map_done) struct name_map seen = NAME_MAP_INIT;
	struct rule *rule = b->rule;
	size_t len = 0;
	int r;

	r = conf_strings(b->errors, s, &len);
	if (r < 0)
		return r;
	rule->inhibits = calloc(len + 1, sizeof(*rule->inhibits));
	if (!rule->inhibits)
		return -ENOMEM;
	for (size_t i = 0; i < len; i++) {
		const config_setting_t *e;
		const char *name = conf_strings_get(s, i, &e);
		int q = check_inhibited(b, e, name);
		size_t at;

		if (q == -ENOMEM)
			return q;
		r = q < 0 ? q : r;
		if (q <= 0 || name_map_get(&seen, name, &at))
			continue;
		if (name_map_put(&seen, name, i) < 0)
			return -ENOMEM;
		rule->inhibits[rule->inhibits_len] = strdup(name);
		if (!rule->inhibits[rule->inhibits_len])
			return -ENOMEM;
		rule->inhibits_len++;
	}
	return r;
}
