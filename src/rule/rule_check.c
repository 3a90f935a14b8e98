/* SPDX-License-Identifier: MIT */
/*
 * Rules that are good key by key and make no sense together: what can never fire, never end or never be heard. All of
 * it is warnings but for rules that silence each other.
 */
#include <string.h>

#include "base/strbuf.h"
#include "base/units.h"
#include "bpf/event.h"
#include "model/saturate.h"
#include "rule/incident.h"
#include "rule/match.h"
#include "rule/rule_names.h"
#include "rule/rule_parse.h"

#define CIRCLE_MAX 8		    /* rules of a circle worth naming */
#define COMPARED_MAX (400u << 20)   /* pairs of patterns: a fifth of a second */
#define UNUSED_MAX 20		    /* lists without use that are worth a line each */

static bool has_state(const struct rule *r)
{
	return r->kind == RULE_LIVE_BYTES || r->kind == RULE_ALLOC_RATE || r->kind == RULE_LEAK ||
	       r->kind == RULE_UNTRACKED_GROWTH || r->kind == RULE_ORPHAN;
}

static const config_setting_t *place_of(const struct draft *d, enum rule_key k)
{
	return d->slot[k] ? d->slot[k] : d->group;
}

/* match_group_within(), or false where that would take too long: what rests on it are warnings. */
static bool is_within(struct rule_loader *l, const struct match_group *a, const struct match_group *b)
{
	for (size_t k = 0; a && b && k < MATCH_KEY_MAX; k++)
		l->compared += (uint64_t)a->key[k].len * b->key[k].len;
	return l->compared <= COMPARED_MAX && match_group_within(a, b);
}

static void check_match(struct rule_builder *b, const struct draft *d)
{
	const struct rule *r = b->rule;

	for (size_t i = 0; i < r->except_len; i++) {
		if (is_within(b->loader, r->match, &r->except[i])) {
			conf_warn(b->errors, place_of(d, KEY_EXCEPT),
				  "rule \"%s\" can never fire: except takes out all that match lets in, remove one of "
				  "the two",
				  r->name);
			break;
		}
	}
}

static void check_full_in(struct rule_builder *b, const struct draft *d)
{
	const struct rule *r = b->rule;

	if ((r->full_in_ns > 0 || r->escalate.full_in_ns > 0) && !rule_fills_device(r))
		conf_warn(b->errors, place_of(d, r->full_in_ns > 0 ? KEY_FULL_IN : KEY_ESCALATE),
			  "rule \"%s\" has a full_in that is ignored: memory of its class fills no device, remove it",
			  r->name);
	else if (r->full_in_ns > 0 && r->escalate.full_in_ns >= r->full_in_ns)
		conf_warn(b->errors, place_of(d, KEY_ESCALATE),
			  "rule \"%s\" would never fire without escalating: the full_in of escalate is no less than its "
			  "own, lower it or raise the rule's severity",
			  r->name);
}

static void check_leak(struct rule_builder *b, const struct draft *d)
{
	const struct rule *r = b->rule;
	uint64_t window_ns = r->epoch_ns * r->epochs;
	char is[FORMAT_UNITS_MAX], window[FORMAT_UNITS_MAX];

	if (r->for_ns > window_ns)
		conf_warn(b->errors, place_of(d, KEY_FOR),
			  "rule \"%s\" waits %s after it has found a leak, longer than the %s that it looks back: write a "
			  "shorter for, or raise for_epochs",
			  r->name, format_duration(is, r->for_ns), format_duration(window, window_ns));
	check_full_in(b, d);
}

void rule_check_sense(struct rule_builder *b, const struct draft *d)
{
	const struct rule *r = b->rule;

	check_match(b, d);
	if (r->kind == RULE_LEAK)
		check_leak(b, d);
	if (r->kind == RULE_EXIT && r->never_freed_above >= 1)
		conf_warn(b->errors, place_of(d, KEY_NEVER_FREED_ABOVE),
			  "rule \"%s\" can never fire: no process keeps more than all of what it allocated, write less "
			  "than 1",
			  r->name);
	if (r->repeat_ns > 0 && r->budget_ns / r->repeat_ns > r->budget_count)
		conf_warn(b->errors, place_of(d, KEY_REPEAT),
			  "rule \"%s\" would spend its budget on repeats of one incident, and others would not be heard: "
			  "repeat less often, or raise the budget",
			  r->name);
	if (r->inhibits_len > 0 && !has_state(r))
		conf_warn(b->errors, place_of(d, KEY_INHIBITS),
			  "rule \"%s\" never inhibits: its kind \"%s\" does not last, remove inhibits", r->name,
			  rule_kind_name(r->kind));
}

/* Who inhibits whom, by place in the set; and how far the walk has come with each. */
struct graph {
	const struct ruleset *rs;
	struct errors *errors;
	size_t **to;
	size_t *to_len;
	enum { UNSEEN, ON_PATH, DONE } *state;
	size_t *path, *next; /* of the walk: rules, and which of their edges comes next */
};

static void graph_done(struct graph *g)
{
	for (size_t i = 0; g->to && i < g->rs->len; i++)
		free(g->to[i]);
	free(g->to);
	free(g->to_len);
	free(g->state);
	free(g->path);
	free(g->next);
}

static int graph_new(const struct ruleset *rs, struct errors *errors, struct graph *ret)
{
	_cleanup_(name_map_done) struct name_map by_name = NAME_MAP_INIT;

	*ret = (struct graph){ .rs = rs, .errors = errors };
	ret->to = calloc(rs->len + 1, sizeof(*ret->to));
	ret->to_len = calloc(rs->len + 1, sizeof(*ret->to_len));
	ret->state = calloc(rs->len + 1, sizeof(*ret->state));
	ret->path = calloc(rs->len + 1, sizeof(*ret->path));
	ret->next = calloc(rs->len + 1, sizeof(*ret->next));
	if (!ret->to || !ret->to_len || !ret->state || !ret->path || !ret->next)
		return -ENOMEM;
	for (size_t i = 0; i < rs->len; i++) {
		if (name_map_put(&by_name, rs->rules[i]->name, i) < 0)
			return -ENOMEM;
	}
	for (size_t i = 0; i < rs->len; i++) {
		const struct rule *r = rs->rules[i];

		if (r->inhibits_len == 0)
			continue;
		ret->to[i] = calloc(r->inhibits_len, sizeof(**ret->to));
		if (!ret->to[i])
			return -ENOMEM;
		for (size_t k = 0; k < r->inhibits_len; k++) {
			size_t n;

			if (name_map_get(&by_name, r->inhibits[k], &n))
				ret->to[i][ret->to_len[i]++] = n;
		}
	}
	return 0;
}

static int circle(const struct graph *g, size_t len, size_t again)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const struct rule *first = g->rs->rules[again];
	size_t i = 0, shown = 0;

	/* Nobody would see it. */
	if (g->errors->len >= ERRORS_MAX)
		return errors_add(g->errors, first->file, first->line, "rules silence each other in a circle");
	while (g->path[i] != again)
		i++;
	for (; i < len; i++) {
		const struct rule *r = g->rs->rules[g->path[i]];

		if (shown++ == CIRCLE_MAX && i + 1 < len) {
			strbuf_addf(&sb, "%zu more, the last of which inhibits ", len - i);
			break;
		}
		strbuf_addf(&sb, "\"%s\" (%s:%d) inhibits ", r->name, r->file, r->line);
	}
	strbuf_addf(&sb, "\"%s\"", first->name);
	if (sb.error)
		return sb.error;
	return errors_add(g->errors, first->file, first->line, "rules silence each other in a circle: %s: remove one of "
			  "these", strbuf_str(&sb));
}

/* A walk in depth without recursion: rules there may be thousands. */
static int walk(struct graph *g, size_t from)
{
	size_t len = 0;
	int r = 0;

	g->path[len] = from;
	g->next[len++] = 0;
	g->state[from] = ON_PATH;
	while (len > 0 && r != -ENOMEM) {
		size_t at = g->path[len - 1], to;

		if (g->next[len - 1] >= g->to_len[at]) {
			g->state[at] = DONE;
			len--;
			continue;
		}
		to = g->to[at][g->next[len - 1]++];
		if (g->state[to] == ON_PATH) {
			r = circle(g, len, to);
		} else if (g->state[to] == UNSEEN) {
			g->state[to] = ON_PATH;
			g->path[len] = to;
			g->next[len++] = 0;
		}
	}
	return r;
}

static int check_circles(struct graph *g)
{
	int r = 0;

	for (size_t i = 0; i < g->rs->len && r != -ENOMEM; i++) {
		int q = g->state[i] == UNSEEN && g->to_len[i] > 0 ? walk(g, i) : 0;

		r = q < 0 ? q : r;
	}
	return r;
}

/* Can the two be about the same subject? See rule.h. */
static bool can_meet(const struct rule *by, const struct rule *r)
{
	return !rule_is_of_group(r) || (rule_is_of_group(by) && by->scope == r->scope);
}

/* What by leaves out, r leaves out as well. */
static bool excepts_less(struct rule_loader *l, const struct rule *by, const struct rule *r)
{
	for (size_t i = 0; i < by->except_len; i++) {
		bool is_found = false;

		for (size_t k = 0; k < r->except_len && !is_found; k++)
			is_found = is_within(l, &by->except[i], &r->except[k]);
		if (!is_found)
			return false;
	}
	return true;
}

/* Wherever r fires, by has fired already. */
static bool is_always_first(struct rule_loader *l, const struct rule *by, const struct rule *r)
{
	bool same_scope = rule_is_of_group(by) == rule_is_of_group(r) && (!rule_is_of_group(r) || by->scope == r->scope);

	return by->kind == r->kind && by->fire_above.unit != LIMIT_NONE && same_scope && by->classes == r->classes &&
	       by->fire_above.unit == r->fire_above.unit && by->fire_above.value <= r->fire_above.value &&
	       by->for_ns <= r->for_ns && by->window_ns == r->window_ns && by->min_runtime_ns <= r->min_runtime_ns &&
	       is_within(l, r->match, by->match) && excepts_less(l, by, r);
}

static void check_pair(struct rule_loader *l, const struct rule *by, const struct rule *r)
{
	const struct draft *d = rule_loader_find(l, by->name);

	if (!d || !has_state(by))
		return;
	if (!can_meet(by, r))
		conf_warn(l->errors, place_of(d, KEY_INHIBITS),
			  "rule \"%s\" never inhibits \"%s\": what the one is about is never what the other is about (%s, "
			  "%s), remove the name",
			  by->name, r->name, rule_scope_name(by->scope), rule_scope_name(r->scope));
	else if (is_always_first(l, by, r))
		errors_warn(l->errors, r->file, r->line,
			    "rule \"%s\" can never be heard: \"%s\" (%s:%d), which inhibits it, is about the same and "
			    "fires no later: take it out of inhibits, or raise the limit there",
			    r->name, by->name, by->file, by->line);
}

int rule_check_set(struct rule_loader *l, const struct ruleset *rs)
{
	_cleanup_(graph_done) struct graph g;
	int r;

	r = graph_new(rs, l->errors, &g);
	if (r == 0)
		r = check_circles(&g);
	for (size_t i = 0; i < rs->len && r == 0; i++) {
		for (size_t k = 0; k < g.to_len[i]; k++)
			check_pair(l, rs->rules[i], rs->rules[g.to[i][k]]);
	}
	return r;
}

/* All that refers to a list by "@name", however deep. */
static void mark_lists(struct rule_loader *l, const config_setting_t *s)
{
	const char *text = config_setting_type(s) == CONFIG_TYPE_STRING ? config_setting_get_string(s) : NULL;

	struct pattern_list *list = text && text[0] == '@' ? rule_loader_find_list(l, text + 1) : NULL;

	if (list)
		list->is_used = true;
	for (int i = 0; config_setting_is_aggregate(s) && i < config_setting_length(s); i++)
		mark_lists(l, config_setting_get_elem(s, (unsigned)i));
}

void rule_check_lists(struct rule_loader *l)
{
	const struct pattern_list *more = NULL;
	size_t n = 0;

	for (size_t i = 0; i < l->files_len; i++) {
		const config_setting_t *rules = config_setting_get_member(conf_root(l->files[i]), "rules");

		if (rules)
			mark_lists(l, rules);
	}
	/* Of a file that could not be read nobody knows what it names. */
	for (size_t i = 0; i < l->lists_len && !l->is_incomplete; i++) {
		const struct pattern_list *list = &l->lists[i];

		if (list->is_used || list->is_bad)
			continue;
		n++;
		if (n <= UNUSED_MAX)
			conf_warn(l->errors, list->setting, "list \"%s\" is used by no rule: remove it", list->name);
		else if (n == UNUSED_MAX + 1)
			more = list;
	}
	if (more && n == UNUSED_MAX + 1)
		conf_warn(l->errors, more->setting, "list \"%s\" is used by no rule: remove it", more->name);
	else if (more)
		conf_warn(l->errors, more->setting, "list \"%s\" and %zu more are used by no rule: remove them",
			  more->name, n - UNUSED_MAX - 1);
}
