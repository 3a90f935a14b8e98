/* SPDX-License-Identifier: MIT */
/* A rule in one canonical form: what is printed, and what the digests are made of. */
#pragma once

#include "base/strbuf.h"
#include "rule/rule.h"

/* The keys that decide when the rule fires and for whom. Not what is said of it, and how loud: neither severity nor
 * escalate nor inhibits, which may change while an incident goes on. */
void rule_write_meaning(struct strbuf *sb, const struct rule *r);
/* Its tags with commas between them. */
void rule_write_tags(struct strbuf *sb, const struct rule *r);
/* Name and keys, all of them, one a line; the inside of a group. */
void rule_write(struct strbuf *sb, const struct rule *r);
