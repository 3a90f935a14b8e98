/* SPDX-License-Identifier: MIT */
/* Looks at processes as lines for programs. The time zone is that of the process; else pure. */
#pragma once

#include "memtrace/past.h"

/* One object and a newline: view_json_process() with "time" (ISO 8601, microseconds, offset from UTC) before it and
 * "growth_bytes" in each of its sites, null where it is not known. Out of memory is sb's error. */
void memtrace_json(const struct view *v, const struct view_process *p, const struct past_process *pp, struct strbuf *sb);
