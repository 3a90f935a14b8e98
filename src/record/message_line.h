/* SPDX-License-Identifier: MIT */
/* The parts that first lines of messages are put together from. Of src/record only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "record/record.h"

struct line {
	const struct report *r;
	const struct redact *redact;
	struct strbuf *sb;
	size_t name_max; /* characters of a unit, cgroup or rule name: shorter on a second try */
};

/* Append to the line; what fails is seen in its strbuf. */
void line_add(struct line *l, const char *s);
void line_add_name(struct line *l, const char *s); /* a foreign name, cut at name_max */
void line_add_bytes(struct line *l, uint64_t bytes);
void line_add_quantity(struct line *l, uint64_t n); /* in the report's unit */
/* "<before>41.2 GiB", or nothing where the number is absent. */
void line_add_optional_bytes(struct line *l, const char *before, uint64_t bytes);
void line_add_optional_quantity(struct line *l, const char *before, uint64_t n);
void line_add_optional_duration(struct line *l, const char *before, uint64_t ns);
/* " on GPU 0", where that is known and not who the line is about */
void line_add_where(struct line *l);
/* Which memory or where: a pinned buffer "on GPU 0" would be looked for there. */
void line_add_place(struct line *l);
/* Whom the report is about, by its scope. */
void line_add_who(struct line *l);
