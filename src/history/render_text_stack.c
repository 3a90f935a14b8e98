/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "history/render_text_pen.h"
#include "stack/site_key.h"

#define FRAMES_MAX 512 /* looked at; records have fewer */

/* What is kept first, as in records, of which only the text is known here. */
enum rank {
	RANK_INNERMOST,
	RANK_OWN_FIRST,	   /* the innermost of the user's own */
	RANK_PYTHON_FIRST, /* the innermost of Python outside of allocators */
	RANK_OWN,	   /* the user's own */
	RANK_PYTHON,
	RANK_PYTHON_ALLOCATOR,
	RANK_BELOW_PYTHON, /* nearest to Python first: the other way round */
	RANK_NATIVE,
	RANK_ALLOCATOR,
	RANK_MAX,
};

struct line {
	const char *text;
	size_t len;
	enum rank rank;
	uint64_t frames; /* more than one: it says itself how many are missing */
	bool is_shown;
};

struct lines {
	struct line *list;
	size_t len;
};

/* "[12 more frames]", "[12 frames]": text of a stack that did not fit its record. */
static uint64_t missing_frames(const char *text, size_t len)
{
	static const char *const ends[] = { " more frames]", " more frame]", " frames]", " frame]" };
	unsigned long long n;
	char *end;

	if (text[0] != '[' || text[1] < '0' || text[1] > '9')
		return 0;
	n = strtoull(text + 1, &end, 10);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		if ((size_t)(text + len - end) == strlen(ends[i]) && memcmp(end, ends[i], strlen(ends[i])) == 0)
			return MIN(n, (unsigned long long)UINT32_MAX);
	}
	return 0;
}

/* Module or file: "f+0x8 (libc.so.6) at f.c:3", "f (a/b.py:12)", "libc.so.6+0x8". */
static size_t place_of(const char *text, size_t len, const char **ret)
{
	const char *open = memrchr(text, '(', len), *close = open ? memchr(open, ')', len - (size_t)(open - text)) : NULL;
	const char *plus, *colon;

	if (!close) {
		plus = memmem(text, len, "+0x", 3);
		*ret = text;
		return plus ? (size_t)(plus - text) : 0;
	}
	*ret = open + 1;
	colon = memrchr(open, ':', (size_t)(close - open));
	return (size_t)((colon ?: close) - open) - 1;
}

/* "/srv/train.py", "<stdin>"; not "torch/nn/modules/module.py", "<frozen runpy>". */
static bool is_own(const char *place)
{
	static const char frozen[] = "<frozen ";

	return *place == '/' || (*place == '<' && strncmp(place, frozen, strlen(frozen)) != 0);
}

static enum rank rank_of(struct pen *p, size_t number, const char *text, size_t len)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	bool is_python, is_allocator;
	unsigned int strikes = 1;
	const char *place;
	size_t place_len = place_of(text, len, &place);

	if (number == 0)
		return RANK_INNERMOST;
	strbuf_addc(&path, '/');
	strbuf_add(&path, place, place_len);
	is_python = path.len > 3 && !path.error &&
		    (strcmp(path.buf + path.len - 3, ".py") == 0 || (path.buf[1] == '<' && path.buf[path.len - 1] == '>'));
	is_allocator = !path.error && p->allocators && allocators_match(p->allocators, path.buf, path.len, &strikes);
	if (is_python && !is_allocator && is_own(place))
		return RANK_OWN;
	if (is_python)
		return is_allocator ? RANK_PYTHON_ALLOCATOR : RANK_PYTHON;
	return is_allocator ? RANK_ALLOCATOR : RANK_NATIVE;
}

static void learn_allocators(struct pen *p)
{
	size_t len = 0;

	while (allocators_default[len])
		len++;
	if (!p->allocators && allocators_new((char *const *)allocators_default, len, &p->allocators) == -ENOMEM)
		p->sb->error = -ENOMEM;
}

static void split(struct pen *p, const char *text, struct lines *l)
{
	while (*text && l->len < FRAMES_MAX) {
		struct line *line = &l->list[l->len];
		const uint64_t missing = missing_frames(text, strcspn(text, "\n"));

		*line = (struct line){ .text = text, .len = strcspn(text, "\n"), .frames = missing ?: 1 };
		line->rank = missing ? RANK_MAX : rank_of(p, l->len, text, line->len);
		l->len++;
		text += line->len + (text[line->len] == '\n');
	}
}

/* The innermost of that rank; 0 = there is none further out than the first line. */
static size_t innermost(const struct lines *l, enum rank rank)
{
	for (size_t i = 1; i < l->len; i++) {
		if (l->list[i].rank == rank)
			return i;
	}
	return 0;
}

/* "f+0x8 (libmodel.so.2)" */
static bool is_library(const struct line *line)
{
	const char *place;
	size_t len = place_of(line->text, line->len, &place);

	return len == 0 || memmem(place, len, ".so", 3);
}

/* Lines it takes; every run that is not shown is one. */
static size_t count_lines(const struct lines *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->len; i++)
		n += l->list[i].is_shown || i == 0 || l->list[i - 1].is_shown;
	return n;
}

static void set_first_ranks(struct lines *l)
{
	const size_t own = innermost(l, RANK_OWN), library = innermost(l, RANK_PYTHON);
	const size_t first = own && library ? MIN(own, library) : own ?: library;
	const size_t python = first ?: innermost(l, RANK_PYTHON_ALLOCATOR);

	for (size_t i = 1; i < python; i++) {
		if (l->list[i].rank == RANK_NATIVE)
			l->list[i].rank = RANK_BELOW_PYTHON;
	}
	if (first)
		l->list[first].rank = RANK_PYTHON_FIRST;
	if (own)
		l->list[own].rank = RANK_OWN_FIRST;
	for (size_t i = 1; i < l->len && !python; i++) {
		if (l->list[i].rank == RANK_NATIVE && !is_library(&l->list[i])) {
			l->list[i].rank = RANK_OWN_FIRST;
			return;
		}
	}
}

static void choose(struct lines *l, size_t max)
{
	set_first_ranks(l);
	for (enum rank rank = 0; rank < RANK_MAX; rank++) {
		for (size_t n = 0; n < l->len; n++) {
			const size_t i = rank == RANK_BELOW_PYTHON ? l->len - 1 - n : n;

			if (l->list[i].rank != rank)
				continue;
			l->list[i].is_shown = true;
			if (count_lines(l) > max)
				l->list[i].is_shown = false;
		}
	}
}

/* Where a line may be cut at the latest: before the blank and the file. */
static size_t place_at(const char *text)
{
	const char *open = strrchr(text, '(');

	return open && open > text && open[-1] == ' ' ? (size_t)(open - 1 - text) : strlen(text);
}

static void show(struct pen *p, const struct lines *l, size_t indent)
{
	for (size_t i = 0, next; i < l->len; i = next) {
		uint64_t missing = l->list[i].frames;
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

		next = i + 1;
		pen_go(p, indent);
		if (l->list[i].is_shown) {
			strbuf_add(&text, l->list[i].text, l->list[i].len);
			pen_add_tail(p, strbuf_str(&text), place_at(strbuf_str(&text)));
		} else {
			for (; next < l->len && !l->list[next].is_shown; next++)
				missing += l->list[next].frames;
			pen_addf(p, "[%llu more frame%s]", (unsigned long long)missing, missing == 1 ? "" : "s");
		}
		if (text.error)
			p->sb->error = text.error;
		pen_end(p);
	}
}

void pen_stack(struct pen *p, const struct story_stack *stack, size_t indent, size_t lines)
{
	_cleanup_free_ struct line *list = NULL;
	struct lines l = {};

	pen_style(p, PEN_DIM);
	if (stack->text) {
		learn_allocators(p);
		l.list = list = calloc(FRAMES_MAX, sizeof(*list));
		if (!list) {
			p->sb->error = -ENOMEM;
			return;
		}
		split(p, stack->text, &l);
		choose(&l, l.len <= lines ? l.len : lines);
		show(p, &l, indent);
	}
	if (stack->info || !stack->text) {
		pen_go(p, indent);
		pen_addf(p, "[%s]", stack->info ?: "no record tells its frames");
		pen_end(p);
	}
	pen_style(p, PEN_PLAIN);
}
