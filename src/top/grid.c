/* SPDX-License-Identifier: MIT */
#include "top/grid.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "record/foreign.h"

/* A character and the marks on it. */
struct glyph {
	wchar_t chars[GRID_CHARS_MAX + 1];
	size_t width;
};

int grid_init(struct grid *g, size_t width, size_t height, bool is_ascii)
{
	*g = (struct grid){ .width = width, .height = height, .is_ascii = is_ascii };
	if (width == 0 || height == 0)
		return 0;
	if (width > SIZE_MAX / height)
		g->error = -ENOMEM;
	else
		g->cells = calloc(width * height, sizeof(*g->cells));
	if (!g->cells) {
		g->width = g->height = 0;
		return g->error = -ENOMEM;
	}
	for (size_t i = 0; i < width * height; i++) {
		g->cells[i].chars[0] = L' ';
		g->cells[i].width = 1;
	}
	return 0;
}

void grid_done(struct grid *g)
{
	free(g->cells);
	*g = (struct grid){};
}

/* Of clean UTF-8: its bytes, 0 at the end. */
static size_t next_char(const char *s, bool is_ascii, wchar_t *ret)
{
	mbstate_t state = {};
	size_t len;

	*ret = (wchar_t)*s;
	if ((unsigned char)*s < 0x80)
		return *s != '\0';
	len = is_ascii ? 0 : mbrtowc(ret, s, MB_LEN_MAX, &state);
	if (len >= 1 && len <= MB_LEN_MAX)
		return len;
	*ret = L'?';
	for (len = 1; ((unsigned char)s[len] & 0xc0) == 0x80;)
		len++;
	return len;
}

/* Moves *s behind it; false at the end. */
static bool next_glyph(const char **s, bool is_ascii, struct glyph *ret)
{
	size_t len = next_char(*s, is_ascii, &ret->chars[0]), n = 1;
	int width;

	if (len == 0)
		return false;
	*s += len;
	width = ret->chars[0] < 0x80 ? 1 : wcwidth(ret->chars[0]);
	/* A mark without a character before it, or what this terminal's characters lack. */
	if (width <= 0)
		ret->chars[0] = L'?';
	ret->width = width == 2 ? 2 : 1;
	for (wchar_t c; (unsigned char)**s >= 0x80 && (len = next_char(*s, is_ascii, &c)) > 0 && wcwidth(c) == 0; *s += len) {
		if (n < GRID_CHARS_MAX)
			ret->chars[n++] = c;
	}
	ret->chars[n] = 0;
	return true;
}

static size_t measure_clean(const struct grid *g, const char *s, size_t most)
{
	struct glyph glyph;
	size_t columns = 0;

	while (columns < most && next_glyph(&s, g->is_ascii, &glyph))
		columns += glyph.width;
	return columns;
}

static void put_glyph(struct grid *g, size_t row, size_t column, enum grid_style style, const struct glyph *glyph)
{
	struct grid_cell *cell = &g->cells[row * g->width + column];

	for (size_t i = 0; i < glyph->width; i++) {
		g->clashes += cell[i].is_set;
		cell[i] = (struct grid_cell){ .style = (uint8_t)style, .is_chosen = cell[i].is_chosen, .is_set = true };
	}
	memcpy(cell->chars, glyph->chars, sizeof(cell->chars));
	cell->width = (uint8_t)glyph->width;
}

static size_t put_clean(struct grid *g, size_t row, size_t column, size_t columns, enum grid_style style, const char *s)
{
	const bool is_cut = measure_clean(g, s, columns + 1) > columns;
	const char *dots = g->is_ascii ? ".." : "…";
	const size_t room = is_cut && columns > 3 ? columns - measure_clean(g, dots, 3) : columns;
	struct glyph glyph;
	size_t used = 0;

	while (next_glyph(&s, g->is_ascii, &glyph) && used + glyph.width <= room) {
		put_glyph(g, row, column + used, style, &glyph);
		used += glyph.width;
	}
	while (room < columns && next_glyph(&dots, g->is_ascii, &glyph)) {
		put_glyph(g, row, column + used, style, &glyph);
		used += glyph.width;
	}
	return used;
}

/* Most texts are: they need no escapes, and are as wide as they are long. */
static bool is_plain(const char *text)
{
	while (*text >= ' ' && *text < 0x7f)
		text++;
	return *text == '\0';
}

static bool has_room(const struct grid *g, size_t row, size_t column, size_t *columns)
{
	if (row >= g->height || column >= g->width)
		return false;
	*columns = MIN(*columns, g->width - column);
	return *columns > 0;
}

size_t grid_put(struct grid *g, size_t row, size_t column, size_t columns, enum grid_style style, const char *text)
{
	_cleanup_strbuf_ struct strbuf clean = STRBUF_INIT;

	if (!has_room(g, row, column, &columns))
		return 0;
	if (is_plain(text))
		return put_clean(g, row, column, columns, style, text);
	foreign_escaped(&clean, NULL, text, SIZE_MAX);
	g->error = g->error ?: clean.error;
	return put_clean(g, row, column, columns, style, strbuf_str(&clean));
}

void grid_put_right(struct grid *g, size_t row, size_t column, size_t columns, enum grid_style style, const char *text)
{
	const size_t needed = grid_measure(g, text, columns);

	(void)grid_put(g, row, column + columns - needed, needed, style, text);
}

size_t grid_measure(const struct grid *g, const char *text, size_t most)
{
	_cleanup_strbuf_ struct strbuf clean = STRBUF_INIT;

	if (is_plain(text))
		return strnlen(text, most);
	foreign_escaped(&clean, NULL, text, SIZE_MAX);
	return MIN(measure_clean(g, strbuf_str(&clean), most), most);
}

void grid_choose(struct grid *g, size_t row)
{
	for (size_t i = 0; row < g->height && i < g->width; i++)
		g->cells[row * g->width + i].is_chosen = true;
}

static void add_cell(const struct grid_cell *cell, struct strbuf *sb)
{
	for (const wchar_t *c = cell->chars; *c; c++) {
		char bytes[MB_LEN_MAX];
		mbstate_t state = {};
		size_t len = wcrtomb(bytes, *c, &state);

		strbuf_add(sb, len == (size_t)-1 ? "?" : bytes, len == (size_t)-1 ? 1 : len);
	}
}

void grid_text(const struct grid *g, struct strbuf *sb)
{
	for (size_t row = 0; row < g->height; row++) {
		const struct grid_cell *cells = &g->cells[row * g->width];
		size_t end = g->width;

		while (end > 0 && cells[end - 1].width == 1 && cells[end - 1].chars[0] == L' ' && !cells[end - 1].chars[1])
			end--;
		for (size_t i = 0; i < end; i++) {
			if (cells[i].width > 0)
				add_cell(&cells[i], sb);
		}
		strbuf_addc(sb, '\n');
	}
	sb->error = sb->error ?: g->error;
}
