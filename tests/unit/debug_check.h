/* SPDX-License-Identifier: MIT */
/* What debug information says about one address, as text. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "stack/debug_info.h"

/* Line and file of one address; "?" = none. */
static inline const char *line_at(struct debug_info *d, uint64_t vaddr, char ret[300])
{
	struct debug_line q = { .vaddr = vaddr };

	(void)snprintf(ret, 300, "?");
	if (debug_info_lines(d, &q, 1) < 0)
		(void)snprintf(ret, 300, "error");
	else if (q.file)
		(void)snprintf(ret, 300, "%s:%u", q.file, q.line);
	free(q.file);
	return ret;
}

static inline const char *name_at(struct debug_info *d, uint64_t vaddr, char ret[300])
{
	struct elf_symbol q = { .vaddr = vaddr };

	(void)snprintf(ret, 300, "?");
	if (debug_info_symbols(d, &q, 1) < 0)
		(void)snprintf(ret, 300, "error");
	else if (q.name)
		(void)snprintf(ret, 300, "%s", q.name);
	free(q.name);
	return ret;
}
