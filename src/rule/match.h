/* SPDX-License-Identifier: MIT */
/* Which processes and devices a rule is about. */
#pragma once

#include "base/pattern.h"
#include "rule/rule.h"

/* Frees what the group holds, not the group. */
void match_group_done(struct match_group *g);
const char *match_key_name(enum match_key k);
