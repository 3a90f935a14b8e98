/* SPDX-License-Identifier: MIT */
#include "history/render_text_pen.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <wchar.h>

#include "base/clock.h"
#include "base/when.h"
#include "record/foreign.h"
#include "stack/site_key.h"

/* Marks on one character; what is more is left out, as it would take no column for any length. */
#define MARKS_MAX 4
#define DAY_USEC (86400 * USEC_PER_SEC)

struct glyph {
	size_t len; /* bytes */
	uint32_t c;
};

/* Of clean UTF-8. */
static struct glyph glyph_at(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	struct glyph g = { .len = 1, .c = p[0] };

	if (p[0] >= 0xc0) {
		g.len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
		g.c = p[0] & (0x7fu >> g.len);
		for (size_t i = 1; i < g.len; i++)
			g.c = g.c << 6 | (p[i] & 0x3f);
	}
	return g;
}

/* Negative: it cannot be shown. */
static int glyph_width(uint32_t c)
{
	return c < 0x80 ? 1 : wcwidth((wchar_t)c);
}

static void add_clean(const struct pen *p, const char *text, struct strbuf *ret)
{
	_cleanup_strbuf_ struct strbuf clean = STRBUF_INIT;
	size_t marks = 0;
	struct glyph g;

	foreign_escaped(&clean, NULL, text, SIZE_MAX);
	for (const char *s = strbuf_str(&clean); *s; s += g.len) {
		int width;

		g = glyph_at(s);
		width = p->o->is_ascii && g.c >= 0x80 ? -1 : glyph_width(g.c);
		marks = width == 0 ? marks + 1 : 0;
		if (width < 0)
			strbuf_addc(ret, '?');
		else if (marks <= MARKS_MAX)
			strbuf_add(ret, s, g.len);
	}
	if (clean.error)
		ret->error = clean.error;
}

/* Columns of the first len bytes. */
static size_t columns_of(const char *clean, size_t len)
{
	size_t columns = 0;

	for (size_t i = 0; i < len;) {
		struct glyph g = glyph_at(clean + i);

		columns += (size_t)glyph_width(g.c);
		i += g.len;
	}
	return columns;
}

/* Bytes that fit so many columns, with the marks on the last. */
static size_t fitting(const char *clean, size_t columns)
{
	const char *s = clean;
	size_t used = 0;

	while (*s) {
		struct glyph g = glyph_at(s);

		used += (size_t)glyph_width(g.c);
		if (used > columns)
			break;
		s += g.len;
	}
	return (size_t)(s - clean);
}

static const char *style_code(enum pen_style style)
{
	static const char *const codes[] = {
		[PEN_PLAIN] = "\x1b[0m",	[PEN_BOLD] = "\x1b[0;1m",  [PEN_DIM] = "\x1b[0;2m",
		[PEN_RED] = "\x1b[0;1;31m", [PEN_YELLOW] = "\x1b[0;33m", [PEN_GREEN] = "\x1b[0;32m",
	};

	return codes[style];
}

static void show_style(struct pen *p, enum pen_style style)
{
	if (p->shown != style && p->o->has_colour)
		strbuf_adds(p->sb, style_code(style));
	p->shown = style;
}

static void put(struct pen *p, const char *clean, size_t len)
{
	for (size_t i = 0; i < len;) {
		struct glyph g = glyph_at(clean + i);

		p->column += (size_t)glyph_width(g.c);
		if (g.c == ' ') {
			p->blanks++;
		} else {
			for (; p->blanks > 0; p->blanks--)
				strbuf_addc(p->sb, ' ');
			show_style(p, p->style);
			strbuf_add(p->sb, clean + i, g.len);
		}
		i += g.len;
	}
}

static void put_cut(struct pen *p, const char *clean, size_t columns)
{
	const char *dots = p->o->is_ascii || glyph_width(0x2026) != 1 ? "..." : "…";
	const size_t dots_columns = columns_of(dots, strlen(dots)), room = p->width > p->column ? p->width - p->column : 0;

	columns = MIN(columns, room);
	if (columns_of(clean, strlen(clean)) <= columns) {
		put(p, clean, strlen(clean));
	} else if (columns > dots_columns) {
		size_t len = fitting(clean, columns - dots_columns);

		while (len > 0 && clean[len - 1] == ' ')
			len--;
		put(p, clean, len);
		put(p, dots, strlen(dots));
	} else {
		put(p, clean, fitting(clean, columns));
	}
}

void pen_style(struct pen *p, enum pen_style style)
{
	p->style = style;
}

void pen_go(struct pen *p, size_t column)
{
	if (p->column >= column)
		return;
	p->blanks += column - p->column;
	p->column = column;
}

static void note_error(struct pen *p, const struct strbuf *sb)
{
	if (sb->error)
		p->sb->error = sb->error;
}

void pen_cell(struct pen *p, const char *text, size_t columns)
{
	_cleanup_strbuf_ struct strbuf clean = STRBUF_INIT;

	add_clean(p, text, &clean);
	put_cut(p, strbuf_str(&clean), columns);
	note_error(p, &clean);
}

void pen_right(struct pen *p, const char *text, size_t columns)
{
	_cleanup_strbuf_ struct strbuf clean = STRBUF_INIT;
	size_t needed;

	add_clean(p, text, &clean);
	needed = columns_of(strbuf_str(&clean), clean.len);
	if (needed < columns)
		pen_go(p, p->column + columns - needed);
	put_cut(p, strbuf_str(&clean), columns);
	note_error(p, &clean);
}

void pen_add(struct pen *p, const char *text)
{
	pen_cell(p, text, SIZE_MAX);
}

void pen_add_tail(struct pen *p, const char *text, size_t tail)
{
	_cleanup_strbuf_ struct strbuf before = STRBUF_INIT, behind = STRBUF_INIT, head = STRBUF_INIT;
	const size_t room = p->width > p->column ? p->width - p->column : 0;
	size_t tail_columns;

	strbuf_add(&head, text, tail);
	add_clean(p, strbuf_str(&head), &before);
	add_clean(p, text + tail, &behind);
	tail_columns = columns_of(strbuf_str(&behind), behind.len);
	if (tail_columns * 3 > room * 2) {
		pen_add(p, text);
	} else {
		put_cut(p, strbuf_str(&before), room - tail_columns);
		put(p, strbuf_str(&behind), behind.len);
	}
	note_error(p, &before);
	note_error(p, &behind);
	note_error(p, &head);
}

void pen_addf(struct pen *p, const char *fmt, ...)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	strbuf_vaddf(&text, fmt, ap);
	va_end(ap);
	note_error(p, &text);
	pen_add(p, strbuf_str(&text));
}

/* "41 GiB", "52 %", "Tue 02:30:00" stay together. */
static bool is_bound(const char *text, const char *blank)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "%" };
	const char *next = blank + 1;
	const size_t len = strcspn(next, " ,;:)");

	if (blank == text)
		return false;
	if (strspn(next, "0123456789") == 2 && next[2] == ':')
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(units) && strchr("0123456789", blank[-1]); i++) {
		if (strlen(units[i]) == len && memcmp(units[i], next, len) == 0)
			return true;
	}
	return false;
}

/* Where a line of at most len bytes may end; NULL = nowhere. */
static const char *last_blank(const char *text, size_t len)
{
	const char *first = text[len] == ' ' ? text + len : memrchr(text, ' ', len), *blank = first;

	while (blank && is_bound(text, blank))
		blank = memrchr(text, ' ', (size_t)(blank - text));
	return blank ?: first;
}

void pen_wrap(struct pen *p, const char *text, size_t indent, size_t lines)
{
	_cleanup_strbuf_ struct strbuf clean = STRBUF_INIT;
	const char *rest;

	add_clean(p, text, &clean);
	for (rest = strbuf_str(&clean); lines > 1; lines--) {
		const size_t room = p->width > p->column ? p->width - p->column : 0;
		size_t len = fitting(rest, room);
		const char *blank;

		if (!rest[len])
			break;
		/* Between words; else before this word, if that helps; else within it. */
		blank = last_blank(rest, len);
		if (blank)
			len = (size_t)(blank - rest);
		else if (p->column > indent)
			len = 0;
		put(p, rest, len);
		pen_end(p);
		pen_go(p, indent);
		rest += len;
		rest += strspn(rest, " ");
	}
	put_cut(p, rest, SIZE_MAX);
	note_error(p, &clean);
}

void pen_end(struct pen *p)
{
	show_style(p, PEN_PLAIN);
	strbuf_addc(p->sb, '\n');
	p->column = p->blanks = 0;
}

void pen_title(struct pen *p, const char *title, const char *note)
{
	pen_end(p);
	pen_style(p, PEN_BOLD);
	pen_add(p, title);
	pen_style(p, PEN_DIM);
	if (*note)
		pen_go(p, p->column + 2);
	pen_add(p, note);
	pen_style(p, PEN_PLAIN);
	pen_end(p);
}

/* ---- moments */

static bool is_one_day(const struct story *s)
{
	struct tm from, last;

	return s->until_usec - s->from_usec <= DAY_USEC && when_local(s->from_usec, &from) &&
	       when_local(s->until_usec - 1, &last) && from.tm_mday == last.tm_mday;
}

static enum moment_form form_of(const struct story *s)
{
	if (is_one_day(s))
		return FORM_TIME;
	if (s->until_usec - s->from_usec <= 6 * DAY_USEC)
		return FORM_WEEKDAY;
	return s->until_usec - s->from_usec <= 300 * DAY_USEC ? FORM_DAY : FORM_DATE;
}

static size_t format_moment(char buf[PEN_MOMENT_MAX], enum moment_form form, const struct tm *tm)
{
	switch (form) {
	case FORM_TIME:
		return strftime(buf, PEN_MOMENT_MAX, "%H:%M:%S", tm);
	case FORM_WEEKDAY:
		return strftime(buf, PEN_MOMENT_MAX, "%a %H:%M:%S", tm);
	case FORM_DAY:
		return strftime(buf, PEN_MOMENT_MAX, "%d %b %H:%M", tm);
	default:
		return strftime(buf, PEN_MOMENT_MAX, "%Y-%m-%d %H:%M", tm);
	}
}

const char *pen_moment(const struct pen *p, char buf[PEN_MOMENT_MAX], uint64_t usec)
{
	bool is_inside = usec >= p->s->from_usec && usec <= p->s->until_usec;
	struct tm tm;

	if (usec == 0 || !when_local(usec, &tm) || format_moment(buf, is_inside ? p->form : FORM_DATE, &tm) == 0)
		(void)snprintf(buf, PEN_MOMENT_MAX, "?");
	return buf;
}

/* ---- words */

void pen_phrase(struct strbuf *sb, const char *fmt, ...)
{
	size_t start = sb->len, end;
	va_list ap;

	strbuf_adds(sb, start > 0 ? ", " : "");
	end = sb->len;
	va_start(ap, fmt);
	strbuf_vaddf(sb, fmt, ap);
	va_end(ap);
	if (sb->len == end)
		strbuf_truncate(sb, start);
}

void pen_count(struct strbuf *sb, uint64_t n, const char *one, const char *many)
{
	pen_phrase(sb, "%llu %s", (unsigned long long)n, n == 1 ? one : many);
}

void pen_process_name(const struct pen *p, const struct story_process *proc, struct strbuf *sb)
{
	if (p->s->hosts_len > 1 && proc->host->name)
		strbuf_addf(sb, "%s ", proc->host->name);
	story_process_name(proc, sb);
}

void pen_init(struct pen *p, const struct story *s, const struct text_options *o, struct strbuf *sb)
{
	static const size_t widths[] = { [FORM_TIME] = 8, [FORM_WEEKDAY] = 12, [FORM_DAY] = 12, [FORM_DATE] = 16 };

	*p = (struct pen){ .s = s, .o = o, .sb = sb, .form = form_of(s) };
	p->width = o->width ? MIN(MAX(o->width, 60u), 300u) : 80;
	p->moment_width = widths[p->form];
}

void pen_done(struct pen *p)
{
	allocators_free(p->allocators);
}
