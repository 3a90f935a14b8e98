/* SPDX-License-Identifier: MIT */
/*
 * Reads the manual pages of contrib/man for what can be checked of them. Comments in a page say what follows:
 *
 *	.\" keys: SET
 *		tags of the paragraphs up to the next such line are names of that set; a tag may be "name = default"
 *	.\" names: SET
 *		the same of all bold words, up to ".\" names: end"
 *	.\" example: KIND FILE [bad] [same FILE] [with FILE...]
 *		the next .EX is such a file (rules, conf, test, trace), or, KIND being output, what is said of it.
 *		bad: it has errors. same: as rules it is the same as that one. with: rules that come before it
 *
 * Nothing is freed: a test ends soon.
 */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/strbuf.h"

struct docs_name {
	char *set, *name;
	char *value; /* of a tag "name = default", or NULL */
	const char *page;
	int line;
};

struct docs_example {
	char *kind, *file; /* kind NULL: it is no file, but what one types */
	char *words;	   /* what else the comment says */
	char *text;
	const char *page;
	int line;
};

struct docs {
	struct docs_name *names; /* of sets */
	size_t names_len;
	struct docs_name *bold; /* set NULL */
	size_t bold_len;
	struct docs_example *examples;
	size_t examples_len;
	size_t errors; /* told */
};

static const char *const docs_pages[] = { "contrib/man/gpuxray.conf.5", "contrib/man/gpuxray-rules.5",
					  "contrib/man/gpuxray-test.5", "contrib/man/gpuxray-trace.5" };

struct docs_place {
	struct docs *docs;
	const char *page;
	int line;
	char keys[64], names[64]; /* "" = none */
	char example[256];	  /* what the last such comment says */
	bool is_tag;		  /* the line behind .TP */
	struct strbuf *text;	  /* of the .EX that we are in */
};

static inline void docs_bad(struct docs_place *at, const char *what, const char *text)
{
	printf("# %s:%d: %s: %s\n", at->page, at->line, what, text);
	at->docs->errors++;
}

static inline void *docs_more(void *list, size_t len, size_t size)
{
	void *more = realloc(list, (len + 1) * size);

	if (!more)
		abort();
	return more;
}

static inline char *docs_copy(const char *s, size_t len)
{
	char *copy = strndup(s, len);

	if (!copy)
		abort();
	return copy;
}

/* Of a name: letters of it from s on. */
static inline size_t docs_name_len(const char *s)
{
	return strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_-");
}

static inline void docs_add_name(struct docs_place *at, const char *set, const char *text)
{
	struct docs *d = at->docs;
	const size_t len = docs_name_len(text);
	const char *value = strncmp(text + len, " = ", 3) == 0 ? text + len + 3 : NULL;

	if (len == 0) {
		docs_bad(at, "this is no name", text);
		return;
	}
	d->names = docs_more(d->names, d->names_len, sizeof(*d->names));
	d->names[d->names_len++] = (struct docs_name){ .set = docs_copy(set, strlen(set)), .name = docs_copy(text, len),
						       .value = value ? docs_copy(value, strlen(value)) : NULL,
						       .page = at->page, .line = at->line };
}

/* Of roff's escapes those that a page needs. */
static inline void docs_plain(struct docs_place *at, const char *s, size_t len, struct strbuf *sb)
{
	static const struct {
		const char *roff, *plain;
	} escapes[] = {
		{ "e", "\\" },	  { "-", "-" },	   { "&", "" },	   { "(aq", "'" },  { "(dq", "\"" },
		{ "(ha", "^" },	  { "(ti", "~" },  { "(ga", "`" }, { "(bu", "*" },  { "(lq", "\"" },
		{ "(rq", "\"" },
	};

	for (const char *end = s + len; s < end; s++) {
		size_t i = 0;

		if (*s != '\\') {
			strbuf_addc(sb, *s);
			continue;
		}
		while (i < ARRAY_SIZE(escapes) && strncmp(s + 1, escapes[i].roff, strlen(escapes[i].roff)) != 0)
			i++;
		if (i == ARRAY_SIZE(escapes)) {
			docs_bad(at, "unknown escape", s);
			return;
		}
		strbuf_adds(sb, escapes[i].plain);
		s += strlen(escapes[i].roff);
	}
}

static inline void docs_bold(struct docs_place *at, const char *s, size_t len)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct docs *d = at->docs;
	const char *text;

	docs_plain(at, s, len, &sb);
	text = strbuf_str(&sb);
	d->bold = docs_more(d->bold, d->bold_len, sizeof(*d->bold));
	d->bold[d->bold_len++] = (struct docs_name){ .name = docs_copy(text, sb.len), .page = at->page,
						     .line = at->line };
	if (at->names[0])
		docs_add_name(at, at->names, text);
	if (at->is_tag && at->keys[0])
		docs_add_name(at, at->keys, text);
}

/* Arguments of a macro: every one of them is bold, or every other one from first on. */
static inline void docs_macro(struct docs_place *at, const char *s, int first, int step)
{
	const size_t all = strlen(s);

	if (step == 0) {
		docs_bold(at, s, all);
		return;
	}
	for (int i = 0; *s; i++) {
		const bool is_quoted = *s == '"';
		const size_t len = strcspn(s += is_quoted, is_quoted ? "\"" : " ");

		if (i % step == first)
			docs_bold(at, s, len);
		s += len;
		s += is_quoted && *s;
		s += strspn(s, " ");
	}
}

static inline void docs_text(struct docs_place *at, const char *s)
{
	while ((s = strstr(s, "\\fB"))) {
		const char *end = strstr(s += 3, "\\fR");

		if (!end) {
			docs_bad(at, "bold without an end", s);
			return;
		}
		docs_bold(at, s, (size_t)(end - s));
		s = end;
	}
}

/* "word: rest" of a comment, into a set that "end" closes. */
static inline bool docs_mark(const char *line, const char *word, char *ret, size_t size)
{
	const size_t len = strlen(word);

	if (strncmp(line, word, len) != 0)
		return false;
	(void)snprintf(ret, size, "%s", strcmp(line + len, "end") == 0 ? "" : line + len);
	return true;
}

static inline void docs_end_example(struct docs_place *at)
{
	struct docs *d = at->docs;
	struct docs_example e = { .page = at->page, .line = at->line };
	char *rest = NULL;

	if (at->example[0]) {
		e.kind = docs_copy(at->example, strcspn(at->example, " "));
		rest = at->example + strlen(e.kind);
		rest += *rest == ' ';
		e.file = docs_copy(rest, strcspn(rest, " "));
		rest += strlen(e.file);
		e.words = docs_copy(rest, strlen(rest));
	}
	if (strbuf_steal(at->text, &e.text) < 0)
		abort();
	d->examples = docs_more(d->examples, d->examples_len, sizeof(*d->examples));
	d->examples[d->examples_len++] = e;
	at->example[0] = '\0';
}

static inline void docs_line(struct docs_place *at, const char *line, bool *is_example)
{
	if (*is_example) {
		*is_example = strcmp(line, ".EE") != 0;
		if (!*is_example) {
			docs_end_example(at);
			return;
		}
		docs_plain(at, line, strlen(line), at->text);
		strbuf_addc(at->text, '\n');
		return;
	}
	if (strncmp(line, ".\\\" ", 4) == 0) {
		line += 4;
		if (!docs_mark(line, "keys: ", at->keys, sizeof(at->keys)) &&
		    !docs_mark(line, "names: ", at->names, sizeof(at->names)))
			(void)docs_mark(line, "example: ", at->example, sizeof(at->example));
		return;
	}
	*is_example = strcmp(line, ".EX") == 0;
	if (at->is_tag && at->keys[0] && strncmp(line, ".B ", 3) != 0)
		docs_bad(at, "a key's tag must be .B", line);
	if (strncmp(line, ".B ", 3) == 0)
		docs_macro(at, line + 3, 0, 0);
	else if (strncmp(line, ".BR ", 4) == 0 || strncmp(line, ".BI ", 4) == 0)
		docs_macro(at, line + 4, 0, 2);
	else if (strncmp(line, ".RB ", 4) == 0 || strncmp(line, ".IB ", 4) == 0)
		docs_macro(at, line + 4, 1, 2);
	else if (line[0] != '.')
		docs_text(at, line);
	at->is_tag = strcmp(line, ".TP") == 0 || strcmp(line, ".TQ") == 0;
}

/* 0 or -errno. */
static inline int docs_read(struct docs *d, const char *path)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct docs_place at = { .docs = d, .page = path, .text = &text };
	_cleanup_free_ char *all = NULL;
	bool is_example = false;
	size_t len;
	int r;

	r = file_read(AT_FDCWD, path, 1 << 20, &all, &len);
	if (r < 0)
		return r;
	for (char *line = all, *end; *line; line = end) {
		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = '\0';
		at.line++;
		docs_line(&at, line, &is_example);
	}
	if (is_example || at.keys[0] || at.names[0] || at.example[0])
		docs_bad(&at, "the page ends within",
			 is_example ? ".EX" : at.keys[0] ? at.keys : at.names[0] ? at.names : at.example);
	return 0;
}

/* All of them; what cannot be read counts as an error. */
static inline void docs_read_all(struct docs *d)
{
	for (size_t i = 0; i < ARRAY_SIZE(docs_pages); i++) {
		int r = docs_read(d, docs_pages[i]);

		if (r < 0)
			printf("# %s: %s\n", docs_pages[i], strerror(-r));
		d->errors += r < 0;
	}
}
