/* SPDX-License-Identifier: MIT */
/*
 * A screen as values: cells of characters with a style, which the terminal is given, tests compare and `--once` prints.
 * LC_CTYPE of the process says how wide a character is.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#include "base/strbuf.h"

enum grid_style {
	GRID_PLAIN,
	GRID_BOLD,
	GRID_DIM,
	GRID_TITLE, /* of columns */
	GRID_ALARM,
	GRID_WARNING,
	GRID_GOOD,
	GRID_STYLES,
};

#define GRID_CHARS_MAX 5 /* a character and marks on it; further marks are left out */

struct grid_cell {
	wchar_t chars[GRID_CHARS_MAX + 1]; /* ends with 0 */
	uint8_t width;			   /* 1 or 2; 0: the cell before reaches into this one */
	uint8_t style;			   /* enum grid_style */
	bool is_chosen;			   /* shown the other way round: what keys act on */
	bool is_set;
};

struct grid {
	size_t width, height;
	struct grid_cell *cells; /* row after row */
	bool is_ascii;		 /* nothing beyond ASCII can be shown */
	uint64_t clashes;	 /* cells that were written twice: a fault of the layout */
	int error;		 /* 0 or -ENOMEM, sticky */
};

/* All blank. 0 or -ENOMEM; to be freed with grid_done() either way. */
int grid_init(struct grid *g, size_t width, size_t height, bool is_ascii);
void grid_done(struct grid *g);

/*
 * Puts text at a row and column, into at most so many columns and never beyond the grid: escaped, and cut with an ellipsis
 * where it is longer. Returns the columns it took.
 */
size_t grid_put(struct grid *g, size_t row, size_t column, size_t columns, enum grid_style style, const char *text);
/* The same, at the right end of these columns. */
void grid_put_right(struct grid *g, size_t row, size_t column, size_t columns, enum grid_style style, const char *text);
/* Columns the whole text would take, at most `most`, which is as far as it is looked at. */
size_t grid_measure(const struct grid *g, const char *text, size_t most);
/* Marks a whole row as what keys act on. */
void grid_choose(struct grid *g, size_t row);

/* Lines without blanks at their ends, as bytes of LC_CTYPE. */
void grid_text(const struct grid *g, struct strbuf *sb);

#define _cleanup_grid_ _cleanup_(grid_done)
