/* SPDX-License-Identifier: MIT */
/* Which processes and devices a rule is about. */
#pragma once

#include "base/pattern.h"
#include "rule/rule.h"

/* Frees what the group holds, not the group. */
void match_group_done(struct match_group *g);
extern const char *const match_key_names[]; /* by enum match_key; ends with NULL */
const char *match_key_name(enum match_key k);
/* Live bytes and rates can be of many processes together, by the rule's scope; all else is of one. */
bool rule_is_of_group(const struct rule *r);
/* Every subject that a matches, b matches too, as far as the texts of their patterns tell. Both are of one ruleset. NULL =
 * matches everything. */
bool match_group_within(const struct match_group *a, const struct match_group *b);
