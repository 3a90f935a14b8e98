/* SPDX-License-Identifier: MIT */
/*
 * Looks at processes as lines for eyes. Lines of the table begin with the time, all else with a blank. LC_CTYPE and the time zone are those of the process; else pure.
 */
#pragma once

#include "base/units.h"
#include "history/render_text_pen.h"
#include "memtrace/past.h"

#define TEXT_WIDTH_ALL 10000 /* nothing is cut */
#define TEXT_SITES_TOLD 3    /* of one that has ended, where stacks are not asked for */

struct memtrace_text {
	struct text_options options;
	struct pen pen;
	bool is_wide;
	bool has_stacks;
	unsigned digits; /* of the second's fraction: 0 to 3 */
};

/* t does not move from then on. Appends to sb; out of memory is its error. */
void memtrace_text_init(struct memtrace_text *t, size_t width, bool is_ascii, struct strbuf *sb);
void memtrace_text_done(struct memtrace_text *t);

/* The names above the columns. */
void memtrace_text_header(struct memtrace_text *t);
/* Its line, what is new about it, and its call sites if asked for. Notes in pp which news were told; the caller takes the
 * look over. */
void memtrace_text_process(struct memtrace_text *t, const struct view *v, const struct view_process *p,
			   struct past_process *pp);
/* Its last line and what it did not free. is_late: these are the figures of the last look, its end was not told. */
void memtrace_text_end(struct memtrace_text *t, const struct view *v, const struct view_process *p,
		       struct past_process *pp, bool is_late);
/* What happened to each while it was looked at, the first to start first. */
void memtrace_text_summaries(struct memtrace_text *t, const struct past *past);

/* For text*.c alone. */
void memtrace_text_note(struct memtrace_text *t, size_t indent, const char *fmt, ...) _printf_(3, 4);
void memtrace_text_line(struct memtrace_text *t, const struct view *v, const struct view_process *p,
			struct past_process *pp);
void memtrace_text_sites(struct memtrace_text *t, const struct view *v, const struct view_process *p,
			 const struct past_process *pp);
/* The largest ones, a line each. */
void memtrace_text_sites_short(struct memtrace_text *t, const struct view_process *p);
/* "4711 python3" */
void memtrace_text_name(uint32_t pid, const char *comm, struct strbuf *sb);
#define SIGNED_BYTES_MAX (FORMAT_UNITS_MAX + 1)
/* "+16 MiB", "-4 MiB", "0 B"; "-" where it is not known. */
const char *memtrace_signed_bytes(char buf[SIGNED_BYTES_MAX], int64_t bytes);
