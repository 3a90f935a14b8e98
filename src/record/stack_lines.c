/* SPDX-License-Identifier: MIT */
#include "record/stack_lines.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/foreign.h"

/* A demangled name can be longer than all else together. */
#define FRAME_MAX 512
/* Text looked at for one field, in bytes before it is redacted: frames that turn out too long cost time as well. */
#define WORK_MAX (32u << 10)
#define NOTE_MAX 48

/* What is kept first. */
enum rank {
	RANK_INNERMOST,
	RANK_PYTHON,
	RANK_PYTHON_ALLOCATOR,
	RANK_BELOW_PYTHON, /* nearest to Python first: the other way round */
	RANK_NATIVE,
	RANK_ALLOCATOR,
	RANK_MAX,
};

struct line {
	size_t offset, len; /* in lines.text */
	bool is_clean;	    /* its text is there */
	bool is_shown;
};

struct lines {
	const struct stack_text *st;
	const struct redact *redact;
	struct line *list; /* one for each frame */
	struct strbuf text;
	size_t work;
	size_t python; /* index of the innermost Python frame, if possible outside of allocators; 0 = none further out */
	size_t bytes, count; /* of the lines so far, each with a newline; every run that is not shown is one */
	size_t max, max_count;
};

static void lines_done(struct lines *l)
{
	free(l->list);
	strbuf_done(&l->text);
}

static size_t note(char buf[NOTE_MAX], size_t missing, bool has_others)
{
	return (size_t)snprintf(buf, NOTE_MAX, "[%zu %sframe%s]", missing, has_others ? "more " : "",
				missing == 1 ? "" : "s");
}

/* With its newline. */
static size_t note_bytes(size_t missing)
{
	char buf[NOTE_MAX];

	return missing > 0 ? note(buf, missing, true) + 1 : 0;
}

/* Makes the text of a line, once. False when there has been work enough, or no memory. */
static bool clean(struct lines *l, size_t i)
{
	const char *text = l->st->frames[i].text;
	struct line *line = &l->list[i];

	if (line->is_clean)
		return true;
	if (l->work > WORK_MAX)
		return false;
	if (!text || !*text)
		text = "?";
	l->work += strlen(text);
	line->offset = l->text.len;
	foreign_escaped(&l->text, l->redact, text, FRAME_MAX);
	line->len = l->text.len - line->offset;
	line->is_clean = !l->text.error;
	return line->is_clean;
}

/* Lines of so many bytes, at least one: the last goes without its newline. */
static bool fits(const struct lines *l, size_t bytes)
{
	return bytes - 1 <= l->max;
}

static bool all_fit(struct lines *l)
{
	size_t bytes = 0;

	if (l->st->len > l->max_count)
		return false;
	for (size_t i = 0; i < l->st->len; i++) {
		if (!clean(l, i))
			return false;
		bytes += l->list[i].len + 1;
		if (!fits(l, bytes))
			return false;
	}
	return true;
}

/* Shows the frame if there is room for it and for the notes on both sides. */
static void show(struct lines *l, size_t i)
{
	size_t first = i, last = i, bytes, count;

	while (first > 0 && !l->list[first - 1].is_shown)
		first--;
	while (last + 1 < l->st->len && !l->list[last + 1].is_shown)
		last++;
	/* It takes the place of the run's note. */
	count = l->count + (i > first) + (last > i);
	bytes = l->bytes - note_bytes(last - first + 1) + note_bytes(i - first) + note_bytes(last - i) + 1;
	if (count > l->max_count || !fits(l, bytes + 1) || !clean(l, i) || !fits(l, bytes + l->list[i].len))
		return;
	l->list[i].is_shown = true;
	l->count = count;
	l->bytes = bytes + l->list[i].len;
}

static enum rank rank_of(const struct lines *l, size_t i)
{
	const struct text_frame *f = &l->st->frames[i];

	if (i == 0)
		return RANK_INNERMOST;
	if (f->is_python)
		return f->is_allocator ? RANK_PYTHON_ALLOCATOR : RANK_PYTHON;
	if (f->is_allocator)
		return RANK_ALLOCATOR;
	return i < l->python ? RANK_BELOW_PYTHON : RANK_NATIVE;
}

static size_t innermost_python(const struct stack_text *st)
{
	size_t found = 0;

	for (size_t i = 0; i < st->len; i++) {
		if (!st->frames[i].is_python)
			continue;
		if (!st->frames[i].is_allocator)
			return i;
		if (found == 0)
			found = i;
	}
	return found;
}

static void choose(struct lines *l)
{
	const size_t len = l->st->len;

	l->python = innermost_python(l->st);
	l->bytes = note_bytes(len);
	l->count = 1;
	for (enum rank rank = 0; rank < RANK_MAX; rank++) {
		for (size_t n = 0; n < len; n++) {
			size_t i = rank == RANK_BELOW_PYTHON ? len - 1 - n : n;

			if (rank_of(l, i) == rank)
				show(l, i);
		}
	}
}

static void print(const struct lines *l, bool is_all, struct strbuf *sb)
{
	const size_t len = l->st->len;
	bool has_others = false;
	char buf[NOTE_MAX];

	for (size_t i = 0; i < len; i++)
		has_others |= l->list[i].is_shown;
	for (size_t i = 0, next; i < len; i = next) {
		const struct line *line = &l->list[i];

		next = i + 1;
		if (i > 0)
			strbuf_addc(sb, '\n');
		if (is_all || line->is_shown) {
			strbuf_add(sb, strbuf_str(&l->text) + line->offset, line->len);
			continue;
		}
		while (next < len && !l->list[next].is_shown)
			next++;
		strbuf_add(sb, buf, note(buf, next - i, has_others));
	}
}

void stack_lines_add(const struct stack_text *st, const struct redact *redact, size_t max, size_t max_lines,
		     struct strbuf *sb)
{
	_cleanup_(lines_done) struct lines l = { .st = st, .redact = redact, .max = max, .max_count = max_lines };
	bool is_all;

	if (st->len == 0)
		return;
	l.list = calloc(st->len, sizeof(*l.list));
	if (!l.list) {
		sb->error = -ENOMEM;
		return;
	}
	is_all = all_fit(&l);
	if (!is_all)
		choose(&l);
	if (l.text.error)
		sb->error = l.text.error;
	else
		print(&l, is_all, sb);
}
