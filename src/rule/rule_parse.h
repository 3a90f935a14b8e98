/* SPDX-License-Identifier: MIT */
/*
 * From libconfig settings to rules, in two steps: files give drafts (which key is set where), overrides are settled on
 * drafts, and only what remains is built into rules. The files stay open until then, so that each error names the line
 * that wrote the value, whichever file that was.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rule/conf.h"
#include "rule/name_map.h"
#include "rule/pattern_pool.h"
#include "rule/rule.h"

enum rule_key {
	KEY_NAME,
	KEY_KIND,
	KEY_SCOPE,
	KEY_CLASS,
	KEY_FIRE_ABOVE,
	KEY_RESOLVE_BELOW,
	KEY_FOR,
	KEY_KEEP_FIRING_FOR,
	KEY_REPEAT,
	KEY_WINDOW,
	KEY_COUNT,
	KEY_BUDGET,
	KEY_MAX_INCIDENTS,
	KEY_SEVERITY,
	KEY_EPOCH,
	KEY_EPOCHS,
	KEY_OCCUPANCY,
	KEY_KEEP_RATIO,
	KEY_MIN_GROWTH,
	KEY_FOR_EPOCHS,
	KEY_FULL_IN,
	KEY_MIN_CONFIDENCE,
	KEY_LIVE_ABOVE,
	KEY_NEVER_FREED_ABOVE,
	KEY_MIN_RUNTIME,
	KEY_CONDITIONS,
	KEY_MATCH,
	KEY_EXCEPT,
	KEY_MESSAGE,
	KEY_RUNBOOK,
	KEY_TAGS,
	KEY_ENABLED,
	KEY_ESCALATE,
	KEY_INHIBITS,
	KEY_OVERRIDE,
	KEY_MAX,
};

extern const char *const rule_key_names[]; /* ends with NULL */

struct draft {
	const char *name;	       /* in the settings' memory */
	const config_setting_t *group; /* the rule as last defined */
	const config_setting_t *slot[KEY_MAX];
	bool is_default[KEY_MAX]; /* from the file's defaults, not from the rule itself */
	const config_setting_t *off; /* the override that switched it off: it is no rule any more, but may be named still */
};

/* A named list of patterns. */
struct pattern_list {
	const char *name;
	const config_setting_t *setting;
	bool is_bad;	/* has been reported */
	bool is_used;	/* some rule names it, whatever becomes of the rule */
	bool is_warned; /* a pattern without an anchor has been reported */
};

struct rule_loader {
	struct errors *errors;
	struct conf **files;
	size_t files_len;
	struct draft *drafts;
	size_t drafts_len, drafts_cap;
	struct name_map drafts_by_name; /* to place in drafts: of those of one name the last */
	struct pattern_list *lists;
	size_t lists_len, lists_cap;
	struct name_map lists_by_name; /* to place in lists */
	struct pattern_pool patterns;
	uint64_t compared; /* by rule_check.c: pairs of patterns */
	bool is_full;	    /* more rules than there may be, which has been told: nothing more is read */
	bool is_incomplete; /* not all could be read: that a name is missing means nothing then */
};

#define RULE_LOADER_INIT(e) \
	{ \
		.errors = (e) \
	}

void rule_loader_done(struct rule_loader *l);

/* Takes the file and its drafts and lists. 0, -EINVAL (errors added; what is good is kept), -ENOMEM. */
int rule_loader_add(struct rule_loader *l, struct conf *c);
/* The rule of this name, be it switched off or not; NULL. Valid until the next file is added. */
struct draft *rule_loader_find(const struct rule_loader *l, const char *name);
struct pattern_list *rule_loader_find_list(const struct rule_loader *l, const char *name);
/* Names of all rules, for conf_suggest(). The caller frees the list. NULL when out of memory. */
const char **rule_loader_names(const struct rule_loader *l);

struct rule_builder {
	struct rule_loader *loader;
	struct errors *errors; /* the loader's */
	struct rule *rule;
	const config_setting_t *group;
	bool is_enabled;
};

/* 0 with *ret NULL when the rule is not enabled; -EINVAL, -ENOMEM. */
int rule_build(struct rule_loader *l, const struct draft *d, struct rule **ret);
/* The value of one key of `defaults`. */
int rule_check_default(struct rule_loader *l, enum rule_key k, const config_setting_t *s);
bool rule_key_may_default(enum rule_key k);
void rule_free(struct rule *r); /* accepts NULL */
DEFINE_CLEANUP(struct rule, rule_free)

/* Parsers of single keys, by subject: limits, leaks, matches, texts, what an incident does. */
int rule_parse_fire_above(struct rule_builder *b, const config_setting_t *s);
int rule_parse_resolve_below(struct rule_builder *b, const config_setting_t *s);
/* What resolve_below is when it is not given. */
struct limit rule_default_resolve(const struct limit *fire);
/* Fills in resolve_below and holds the two against each other. */
int rule_settle_limits(struct rule_builder *b, const struct draft *d);
/* rule_parse_leak.c */
int rule_parse_epoch(struct rule_builder *b, const config_setting_t *s);
int rule_parse_epochs(struct rule_builder *b, const config_setting_t *s);
int rule_parse_occupancy(struct rule_builder *b, const config_setting_t *s);
int rule_parse_keep_ratio(struct rule_builder *b, const config_setting_t *s);
int rule_parse_min_growth(struct rule_builder *b, const config_setting_t *s);
int rule_parse_full_in(struct rule_builder *b, const config_setting_t *s);
int rule_parse_min_confidence(struct rule_builder *b, const config_setting_t *s);
int rule_parse_for_epochs(struct rule_builder *b, const config_setting_t *s);
int rule_parse_match(struct rule_builder *b, const config_setting_t *s);
int rule_parse_except(struct rule_builder *b, const config_setting_t *s);
int rule_check_list(struct rule_loader *l, struct pattern_list *list);
int rule_check_name(struct errors *errors, const config_setting_t *s, const char **ret);
int rule_parse_message(struct rule_builder *b, const config_setting_t *s);
int rule_parse_runbook(struct rule_builder *b, const config_setting_t *s);
int rule_parse_tags(struct rule_builder *b, const config_setting_t *s);
int rule_parse_escalate(struct rule_builder *b, const config_setting_t *s);
int rule_parse_inhibits(struct rule_builder *b, const config_setting_t *s);
/* A size, share or rate as fire_above of this rule is one. */
int rule_parse_limit(struct rule_builder *b, const config_setting_t *s, struct limit *ret);

/* rule_check.c: what is good by itself and makes no sense together. */
/* Warnings about one rule. */
void rule_check_sense(struct rule_builder *b, const struct draft *d);
/* Rules about each other: circles are errors, the rest are warnings. 0, -EINVAL, -ENOMEM. */
int rule_check_set(struct rule_loader *l, const struct ruleset *rs);
/* Lists that no rule names. */
void rule_check_lists(struct rule_loader *l);
