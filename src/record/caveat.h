/* SPDX-License-Identifier: MIT */
/* How sure a leak is: the words of it. */
#pragma once

#include "base/strbuf.h"
#include "rule/report.h"

#define CAVEAT_ROOM 768 /* bytes of the longest line: all doubts together */

/* What would make the verdict wrong: "...; ...". */
void caveat_add(const struct report *r, struct strbuf *sb);
/* "93 % sure; what would make it wrong: ...". */
void caveat_add_line(const struct report *r, struct strbuf *sb);
/* The sites with most of the growth, a line each: share in percent, bytes, GPUXRAY_STACK_ID ("-" = not known). */
void caveat_add_sites(const struct report *r, struct strbuf *sb);
