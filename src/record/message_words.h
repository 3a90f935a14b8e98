/* SPDX-License-Identifier: MIT */
/* Words of a message that depend on the kind of its rule alone. */
#pragma once

#include "base/strbuf.h"
#include "rule/report.h"

/* Which memory the rule looks at, where that is none of a device; else NULL. */
const char *message_memory(const struct report *r);
/* "37 more processes over the limit": one line for all that were too many to get a record each. */
void message_add_others(const struct report *r, struct strbuf *sb);
