/* SPDX-License-Identifier: MIT */
#include "rule/rule_parse.h"

#include <string.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "bpf/event.h"
#include "model/process.h"
#include "rule/match.h"
#include "rule/rule_names.h"
#include "rule/window.h"

#define MINUTE_NS (60 * NSEC_PER_SEC)
#define DAY_NS (24 * 60 * MINUTE_NS)
#define TICK_NS NSEC_PER_SEC /* the engine looks at its rules once a second */
#define TIME_MAX_NS (366 * DAY_NS)

/* Bounds of what the engine keeps per subject. */
#define COUNT_MAX COUNT_WINDOW_MAX
#define INCIDENTS_MAX 100000

#define BIT(k) (1u << (k))
#define KINDS_ALL (BIT(RULE_KIND_MAX) - 1)
#define KINDS_STATE                                                                                                    \
	(BIT(RULE_LIVE_BYTES) | BIT(RULE_ALLOC_RATE) | BIT(RULE_LEAK) | BIT(RULE_UNTRACKED_GROWTH) | BIT(RULE_ORPHAN))
#define KINDS_RESOLVE_BELOW (BIT(RULE_LIVE_BYTES) | BIT(RULE_ALLOC_RATE) | BIT(RULE_UNTRACKED_GROWTH))
#define KINDS_EVENT (BIT(RULE_SINGLE_ALLOC) | BIT(RULE_ALLOC_FAILURE) | BIT(RULE_EXIT))

static int parse_for(struct rule_builder *b, const config_setting_t *s)
{
	int r;

	r = conf_duration(b->errors, s, 0, TIME_MAX_NS, &b->rule->for_ns);
	if (r == 0 && b->rule->for_ns > 0 && b->rule->for_ns < TICK_NS)
		conf_warn(b->errors, s,
			  "for = \"%s\" is shorter than the 1 s between two looks: write \"0s\" or \"1s\"",
			  config_setting_get_string(s));
	return r;
}

static int parse_keep_firing_for(struct rule_builder *b, const config_setting_t *s)
{
	return conf_duration(b->errors, s, 0, TIME_MAX_NS, &b->rule->keep_firing_for_ns);
}

static int parse_repeat(struct rule_builder *b, const config_setting_t *s)
{
	int r;

	r = conf_duration(b->errors, s, 0, TIME_MAX_NS, &b->rule->repeat_ns);
	if (r == 0 && b->rule->repeat_ns > 0 && b->rule->repeat_ns < TICK_NS)
		return conf_error(b->errors, s, "repeat is at least 1s, or \"0s\" for never");
	return r;
}

static int parse_window(struct rule_builder *b, const config_setting_t *s)
{
	return conf_duration(b->errors, s, TICK_NS, DAY_NS, &b->rule->window_ns);
}

static int parse_count(struct rule_builder *b, const config_setting_t *s)
{
	return conf_count(b->errors, s, 1, COUNT_MAX, &b->rule->count);
}

static int parse_budget_key(struct rule_builder *b, const config_setting_t *s)
{
	const char *text = NULL;
	uint32_t count = 0;
	uint64_t window_ns = 0;

	if (config_setting_type(s) == CONFIG_TYPE_STRING)
		text = config_setting_get_string(s);
	if (!text || parse_budget(text, &count, &window_ns) < 0)
		return conf_error(b->errors, s, "budget needs records per time, such as \"10/10m\"");
	if (count == 0)
		return conf_error(b->errors, s,
				  "budget = \"%s\" would let nothing through: write enabled = false to "
				  "silence a rule",
				  text);
	b->rule->budget_count = count;
	b->rule->budget_ns = window_ns;
	return 0;
}

static int parse_max_incidents(struct rule_builder *b, const config_setting_t *s)
{
	return conf_count(b->errors, s, 1, INCIDENTS_MAX, &b->rule->max_incidents);
}

/* One of names by its place. */
static int parse_name_of(struct rule_builder *b, const config_setting_t *s, const char *const *names, int *ret)
{
	const char *text;
	int r, i;

	r = conf_string(b->errors, s, &text);
	if (r < 0)
		return r;
	i = rule_name_find(names, text);
	if (i < 0)
		return conf_unknown(b->errors, s, conf_name(s), text, names);
	*ret = i;
	return 0;
}

static int parse_severity(struct rule_builder *b, const config_setting_t *s)
{
	int i = 0, r;

	r = parse_name_of(b, s, severity_names, &i);
	if (r == 0)
		b->rule->severity = (enum severity)i;
	return r;
}

static int parse_live_above(struct rule_builder *b, const config_setting_t *s)
{
	return conf_size(b->errors, s, &b->rule->live_above_bytes);
}

static int parse_never_freed_above(struct rule_builder *b, const config_setting_t *s)
{
	return conf_fraction(b->errors, s, &b->rule->never_freed_above);
}

static int parse_min_runtime(struct rule_builder *b, const config_setting_t *s)
{
	return conf_duration(b->errors, s, 0, TIME_MAX_NS, &b->rule->min_runtime_ns);
}

/* One name or several of names; empty: what to say of a list without any. mask_of: the bits of a name. */
static int parse_mask(struct rule_builder *b, const config_setting_t *s, const char *what, const char *empty,
		      const char *const *names, uint32_t (*mask_of)(int name), uint32_t *ret)
{
	uint32_t mask = 0;
	size_t len = 0;
	int r;

	r = conf_strings(b->errors, s, &len);
	if (r < 0)
		return r;
	if (len == 0)
		return conf_error(b->errors, s, "%s", empty);
	for (size_t i = 0; i < len; i++) {
		const config_setting_t *e;
		const char *text = conf_strings_get(s, i, &e);
		int n = rule_name_find(names, text);

		if (n < 0)
			r = conf_unknown(b->errors, e, what, text, names);
		else
			mask |= mask_of(n);
	}
	if (r < 0)
		return r;
	*ret = mask;
	return 0;
}

static uint32_t condition_mask(int condition)
{
	return UINT32_C(1) << condition;
}

static int parse_conditions(struct rule_builder *b, const config_setting_t *s)
{
	return parse_mask(b, s, "condition", "conditions is empty: leave it out for all of them", rule_condition_names,
			  condition_mask, &b->rule->conditions);
}

static int parse_enabled(struct rule_builder *b, const config_setting_t *s)
{
	return conf_bool(b->errors, s, &b->is_enabled);
}

static int parse_class(struct rule_builder *b, const config_setting_t *s)
{
	return parse_mask(b, s, "class", "class is empty: leave it out for \"device\"", rule_class_names, rule_class_mask,
			  &b->rule->classes);
}

static int parse_kind(struct rule_builder *b, const config_setting_t *s)
{
	int i = 0, r;

	r = parse_name_of(b, s, rule_kind_names, &i);
	if (r == 0)
		b->rule->kind = (enum rule_kind)i;
	return r;
}

static int parse_scope(struct rule_builder *b, const config_setting_t *s)
{
	enum rule_kind kind = b->rule->kind;
	int i = 0, r;

	r = parse_name_of(b, s, rule_scope_names, &i);
	if (r < 0)
		return r;
	if (kind == RULE_LEAK && i != SCOPE_PROCESS && i != SCOPE_STACK)
		return conf_error(b->errors, s, "scope = \"%s\": a leak is judged by \"process\" or \"stack\"",
				  rule_scope_names[i]);
	if (kind == RULE_EXIT && i != SCOPE_PROCESS)
		return conf_error(b->errors, s, "scope = \"%s\": an exit is that of a \"process\"",
				  rule_scope_names[i]);
	if ((kind == RULE_UNTRACKED_GROWTH || kind == RULE_ORPHAN) && i != SCOPE_PROCESS)
		return conf_error(b->errors, s, "scope = \"%s\": kind = \"%s\" looks at each \"process\"",
				  rule_scope_names[i], rule_kind_name(kind));
	if (kind != RULE_LEAK && i == SCOPE_STACK)
		return conf_error(b->errors, s, "scope = \"stack\" is for kind = \"leak\" only: use \"process\"");
	b->rule->scope = (enum rule_scope)i;
	return 0;
}

/* Whom a key belongs to, and who reads it. Kind, scope and class are built first, the rest depends on them. */
static const struct {
	unsigned kinds;
	bool may_default;
	int (*parse)(struct rule_builder *b, const config_setting_t *s);
} keys[KEY_MAX] = {
	[KEY_NAME] = { KINDS_ALL, false, NULL },
	[KEY_KIND] = { KINDS_ALL, false, NULL },
	[KEY_SCOPE] = { KINDS_ALL, false, NULL },
	[KEY_CLASS] = { KINDS_ALL, false, NULL },
	[KEY_FIRE_ABOVE] = { KINDS_RESOLVE_BELOW | BIT(RULE_SINGLE_ALLOC), false, rule_parse_fire_above },
	[KEY_RESOLVE_BELOW] = { KINDS_RESOLVE_BELOW, false, rule_parse_resolve_below },
	[KEY_FOR] = { KINDS_STATE, true, parse_for },
	[KEY_KEEP_FIRING_FOR] = { KINDS_STATE, true, parse_keep_firing_for },
	[KEY_REPEAT] = { KINDS_STATE, true, parse_repeat },
	[KEY_WINDOW] = { BIT(RULE_ALLOC_RATE) | BIT(RULE_ALLOC_FAILURE) | BIT(RULE_UNTRACKED_GROWTH), true,
			 parse_window },
	[KEY_COUNT] = { BIT(RULE_ALLOC_FAILURE), false, parse_count },
	[KEY_BUDGET] = { KINDS_ALL, true, parse_budget_key },
	[KEY_MAX_INCIDENTS] = { KINDS_ALL, true, parse_max_incidents },
	[KEY_SEVERITY] = { KINDS_ALL, true, parse_severity },
	[KEY_EPOCH] = { BIT(RULE_LEAK), false, rule_parse_epoch },
	[KEY_EPOCHS] = { BIT(RULE_LEAK), false, rule_parse_epochs },
	[KEY_OCCUPANCY] = { BIT(RULE_LEAK), false, rule_parse_occupancy },
	[KEY_KEEP_RATIO] = { BIT(RULE_LEAK), false, rule_parse_keep_ratio },
	[KEY_MIN_GROWTH] = { BIT(RULE_LEAK), false, rule_parse_min_growth },
	[KEY_FOR_EPOCHS] = { BIT(RULE_LEAK), false, rule_parse_for_epochs },
	[KEY_FULL_IN] = { BIT(RULE_LEAK), false, rule_parse_full_in },
	[KEY_MIN_CONFIDENCE] = { BIT(RULE_LEAK), false, rule_parse_min_confidence },
	[KEY_LIVE_ABOVE] = { BIT(RULE_EXIT) | BIT(RULE_ORPHAN), false, parse_live_above },
	[KEY_NEVER_FREED_ABOVE] = { BIT(RULE_EXIT), false, parse_never_freed_above },
	[KEY_MIN_RUNTIME] = { BIT(RULE_EXIT) | BIT(RULE_UNTRACKED_GROWTH), false, parse_min_runtime },
	[KEY_CONDITIONS] = { BIT(RULE_ORPHAN), false, parse_conditions },
	[KEY_MATCH] = { KINDS_ALL, false, rule_parse_match },
	[KEY_EXCEPT] = { KINDS_ALL, false, rule_parse_except },
	[KEY_MESSAGE] = { KINDS_ALL, false, rule_parse_message },
	[KEY_RUNBOOK] = { KINDS_ALL, true, rule_parse_runbook },
	[KEY_TAGS] = { KINDS_ALL, true, rule_parse_tags },
	[KEY_ENABLED] = { KINDS_ALL, false, parse_enabled },
	[KEY_ESCALATE] = { KINDS_STATE, false, rule_parse_escalate },
	[KEY_INHIBITS] = { KINDS_ALL, false, rule_parse_inhibits },
	[KEY_OVERRIDE] = { KINDS_ALL, false, NULL },
};

const char *const rule_key_names[] = {
	[KEY_NAME] = "name",
	[KEY_KIND] = "kind",
	[KEY_SCOPE] = "scope",
	[KEY_CLASS] = "class",
	[KEY_FIRE_ABOVE] = "fire_above",
	[KEY_RESOLVE_BELOW] = "resolve_below",
	[KEY_FOR] = "for",
	[KEY_KEEP_FIRING_FOR] = "keep_firing_for",
	[KEY_REPEAT] = "repeat",
	[KEY_WINDOW] = "window",
	[KEY_COUNT] = "count",
	[KEY_BUDGET] = "budget",
	[KEY_MAX_INCIDENTS] = "max_incidents",
	[KEY_SEVERITY] = "severity",
	[KEY_EPOCH] = "epoch",
	[KEY_EPOCHS] = "epochs",
	[KEY_OCCUPANCY] = "occupancy",
	[KEY_KEEP_RATIO] = "keep_ratio",
	[KEY_MIN_GROWTH] = "min_growth",
	[KEY_FOR_EPOCHS] = "for_epochs",
	[KEY_FULL_IN] = "full_in",
	[KEY_MIN_CONFIDENCE] = "min_confidence",
	[KEY_LIVE_ABOVE] = "live_above",
	[KEY_NEVER_FREED_ABOVE] = "never_freed_above",
	[KEY_MIN_RUNTIME] = "min_runtime",
	[KEY_CONDITIONS] = "conditions",
	[KEY_MATCH] = "match",
	[KEY_EXCEPT] = "except",
	[KEY_MESSAGE] = "message",
	[KEY_RUNBOOK] = "runbook",
	[KEY_TAGS] = "tags",
	[KEY_ENABLED] = "enabled",
	[KEY_ESCALATE] = "escalate",
	[KEY_INHIBITS] = "inhibits",
	[KEY_OVERRIDE] = "override",
	[KEY_MAX] = NULL,
};

bool rule_key_may_default(enum rule_key k)
{
	return keys[k].may_default;
}

int rule_check_default(struct rule_loader *l, enum rule_key k, const config_setting_t *s)
{
	_cleanup_(rule_freep) struct rule *rule = calloc(1, sizeof(*rule));
	struct rule_builder b = { .loader = l, .errors = l->errors, .rule = rule };

	if (!rule)
		return -ENOMEM;
	return keys[k].parse(&b, s);
}

/* for, keep_firing_for and repeat of something that has no duration: harmless when zero. */
static bool is_zero_time(enum rule_key k, const config_setting_t *s)
{
	uint64_t ns;

	return (k == KEY_FOR || k == KEY_KEEP_FIRING_FOR || k == KEY_REPEAT) &&
	       config_setting_type(s) == CONFIG_TYPE_STRING && parse_duration(config_setting_get_string(s), &ns) == 0 &&
	       ns == 0;
}

static int foreign_key(struct rule_builder *b, enum rule_key k, const config_setting_t *s)
{
	const char *kind = rule_kind_name(b->rule->kind);
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	if (is_zero_time(k, s))
		return 0;
	if (keys[k].kinds == KINDS_STATE)
		return conf_error(b->errors, s,
				  "%s does not belong to kind = \"%s\", which fires at once and does not "
				  "last: remove it%s",
				  rule_key_names[k], kind, k == KEY_ESCALATE ? "" : " or write \"0s\"");
	for (int i = 0; i < RULE_KIND_MAX; i++) {
		if (keys[k].kinds & BIT(i))
			strbuf_addf(&sb, "%s%s", sb.len > 0 ? ", " : "", rule_kind_names[i]);
	}
	if (sb.error)
		return sb.error;
	return conf_error(b->errors, s, "%s does not belong to kind = \"%s\" but to %s: remove it", rule_key_names[k],
			  kind, strbuf_str(&sb));
}

static int build_key(struct rule_builder *b, const struct draft *d, enum rule_key k)
{
	const config_setting_t *s = d->slot[k];
	_cleanup_errors_ struct errors told = ERRORS_INIT;
	bool is_own = (keys[k].kinds & BIT(b->rule->kind)) > 0;
	int r;

	if (!s || !keys[k].parse)
		return 0;
	if (!d->is_default[k])
		return is_own ? keys[k].parse(b, s) : foreign_key(b, k, s);
	/* A default is for those whom it fits, and what there is to say of it was said where it was read. */
	if (!is_own)
		return 0;
	b->errors = &told;
	r = keys[k].parse(b, s);
	b->errors = b->loader->errors;
	return r;
}

/* Leak: the two scales that were found to work, fast for a call site and slow for a process. */
static void rule_set_defaults(struct rule *r)
{
	bool is_stack = r->scope == SCOPE_STACK;

	r->severity = r->kind == RULE_EXIT || r->kind == RULE_ORPHAN ? SEVERITY_NOTICE : SEVERITY_WARNING;
	r->repeat_ns = KINDS_STATE & BIT(r->kind) ? 30 * MINUTE_NS : 0;
	/* One record for each incident that may be open. */
	r->budget_count = 100;
	r->budget_ns = 10 * MINUTE_NS;
	r->max_incidents = 100;
	if (r->kind == RULE_ALLOC_RATE)
		r->window_ns = 10 * NSEC_PER_SEC;
	if (r->kind == RULE_ALLOC_FAILURE) {
		r->window_ns = MINUTE_NS;
		r->count = 1;
	}
	if (r->kind == RULE_UNTRACKED_GROWTH) {
		r->window_ns = 60 * MINUTE_NS;
		/* Context, modules and the first kernels are loaded then. */
		r->min_runtime_ns = MINUTE_NS;
	}
	if (r->kind == RULE_ORPHAN) {
		r->for_ns = MINUTE_NS;
		r->conditions = CONDITIONS_ALL;
	}
	if (r->kind == RULE_LEAK) {
		r->epoch_ns = is_stack ? MINUTE_NS : 10 * MINUTE_NS;
		r->epochs = is_stack ? 30 : 8;
		r->for_epochs = is_stack ? 3 : 5;
		r->occupancy = 0.9;
		r->keep_ratio = 0.7;
		r->min_growth_bytes = UINT64_C(32) << 20;
	}
}

/* Without a kind nothing else can be told. */
static int build_kind(struct rule_builder *b, const struct draft *d)
{
	if (!d->slot[KEY_KIND])
		return conf_error(b->errors, d->group, "rule \"%s\" needs a kind, such as kind = \"live_bytes\"",
				  d->name);
	return parse_kind(b, d->slot[KEY_KIND]);
}

/* Scope and class decide what the other keys may say; when they are bad the others are looked at all the same. */
static int build_scope(struct rule_builder *b, const struct draft *d)
{
	int q = 0, p = 0;

	b->rule->classes = CLASS_DEVICE_MASK;
	b->rule->scope = SCOPE_PROCESS;
	if (d->slot[KEY_SCOPE])
		q = parse_scope(b, d->slot[KEY_SCOPE]);
	if (d->slot[KEY_CLASS] && (b->rule->kind == RULE_UNTRACKED_GROWTH || b->rule->kind == RULE_ORPHAN))
		p = conf_error(b->errors, d->slot[KEY_CLASS], "class does not belong to kind = \"%s\": remove it",
			       rule_kind_name(b->rule->kind));
	else if (d->slot[KEY_CLASS] && q != -ENOMEM)
		p = parse_class(b, d->slot[KEY_CLASS]);
	rule_set_defaults(b->rule);
	return p < 0 ? p : q;
}

static int check_required(struct rule_builder *b, const struct draft *d)
{
	struct rule *r = b->rule;

	if (keys[KEY_FIRE_ABOVE].kinds & BIT(r->kind) && !d->slot[KEY_FIRE_ABOVE])
		return conf_error(b->errors, d->group, "rule \"%s\" needs fire_above, such as fire_above = \"%s\"",
				  d->name, r->kind == RULE_ALLOC_RATE ? "2000/s" : "40GiB");
	if (r->kind == RULE_EXIT && !d->slot[KEY_LIVE_ABOVE])
		return conf_error(b->errors, d->group, "rule \"%s\" needs live_above, such as live_above = \"256MiB\"",
				  d->name);
	return 0;
}

/* All places that have a say in it, the last one last. */
static int set_origin(struct rule *rule, const struct draft *d)
{
	const config_setting_t *seen[KEY_MAX + 1];
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	size_t len = 0;

	for (size_t k = 0; k <= KEY_MAX; k++) {
		const config_setting_t *s = k < KEY_MAX ? d->slot[k] : NULL;
		const config_setting_t *group = s && !d->is_default[k] ? config_setting_parent(s) : NULL;
		_cleanup_free_ char *where = NULL;
		size_t i = 0;

		if (k == KEY_MAX)
			group = d->group;
		else if (!group || group == d->group)
			continue;
		while (i < len && seen[i] != group)
			i++;
		if (i < len)
			continue;
		seen[len++] = group;
		where = conf_where(group);
		if (!where)
			return -ENOMEM;
		strbuf_addf(&sb, "%s%s", len > 1 ? ", " : "", where);
	}
	return strbuf_steal(&sb, &rule->origin);
}

int rule_build(struct rule_loader *l, const struct draft *d, struct rule **ret)
{
	_cleanup_(rule_freep) struct rule *rule = calloc(1, sizeof(*rule));
	struct rule_builder b = {
		.loader = l,
		.errors = l->errors,
		.rule = rule,
		.group = d->group,
		.is_enabled = true,
	};
	int r, q;

	if (!rule)
		return -ENOMEM;
	rule->name = strdup(d->name);
	if (!rule->name || conf_source(d->group, &rule->file, &rule->line) < 0 || set_origin(rule, d) < 0)
		return -ENOMEM;
	r = build_kind(&b, d);
	if (r < 0)
		return r;
	r = build_scope(&b, d);
	if (r == -ENOMEM)
		return r;
	for (size_t k = 0; k < KEY_MAX; k++) {
		q = build_key(&b, d, (enum rule_key)k);
		if (q == -ENOMEM)
			return q;
		r = q < 0 ? q : r;
	}
	q = check_required(&b, d);
	if (q == -ENOMEM)
		return q;
	r = q < 0 ? q : r;
	q = rule_settle_limits(&b, d);
	r = q < 0 ? q : r;
	if (r < 0)
		return r;
	if (b.is_enabled)
		rule_check_sense(&b, d);
	*ret = b.is_enabled ? TAKE_PTR(rule) : NULL;
	return 0;
}

void rule_free(struct rule *r)
{
	if (!r)
		return;
	if (r->match)
		match_group_done(r->match);
	free(r->match);
	for (size_t i = 0; i < r->except_len; i++)
		match_group_done(&r->except[i]);
	free(r->except);
	for (size_t i = 0; i < r->tags_len; i++)
		free(r->tags[i]);
	free(r->tags);
	for (size_t i = 0; i < r->inhibits_len; i++)
		free(r->inhibits[i]);
	free(r->inhibits);
	free(r->origin);
	free(r->message);
	free(r->runbook);
	free(r->file);
	free(r->name);
	free(r);
}
