/* SPDX-License-Identifier: MIT */
/* A story as text, JSON, folded stacks or a page. Pure but for the time zone, which is that of the process. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"
#include "history/story.h"

struct text_options {
	unsigned width;	   /* columns, 60 to 300; 80 where nobody says */
	bool has_colour;
	bool is_ascii;	   /* no block characters for sparklines */
	size_t processes;  /* told of at most, each by itself; 0 = 20, and further ones that are alike are one */
	const char *about; /* what the story was narrowed to, "process 4711"; NULL = nothing */
};

/* For eyes; see the README for what it looks like. */
void render_text(const struct story *s, const struct text_options *o, struct strbuf *sb);
/* One object; its members are described in the man page and are a contract. */
void render_json(const struct story *s, struct strbuf *sb);
/* "process;outermost frame;...;innermost frame bytes", one line a site: what flame-graph tools read. */
void render_folded(const struct story *s, struct strbuf *sb);
/* One self-contained page: the same JSON, with what draws it. */
void render_html(const struct story *s, struct strbuf *sb);
