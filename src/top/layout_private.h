/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/units.h"
#include "top/layout.h"
#include "top/table.h"

/* Rows of a grid. */
struct area {
	size_t top, height;
};

/* A line made of parts: what does not fit whole is left out, and so is all behind it. */
struct layout_line {
	struct grid *g;
	size_t row;
	size_t start, column, end; /* column: where the next part comes, start before the first */
	bool is_full;
};

/* The first part is cut rather than left out. */
void layout_line_add(struct layout_line *l, enum grid_style style, const char *fmt, ...) _printf_(3, 4);

/* What all tables say where a number is not known. */
#define UNKNOWN "-"

/* "41.2 GiB"; "-" for VIEW_NONE. */
const char *show_bytes(char buf[FORMAT_UNITS_MAX], uint64_t bytes);
/* "+1.2 GiB", "-300 MiB", "0", "-" for VIEW_NONE_INT. */
const char *show_change(char buf[FORMAT_UNITS_MAX], int64_t bytes);
/* "9999999", "12M"; "-" for VIEW_NONE. */
const char *show_count(char buf[FORMAT_UNITS_MAX], uint64_t n);
/* "93 %"; "-" for VIEW_NONE_32. */
const char *show_percent(char buf[FORMAT_UNITS_MAX], uint32_t percent);

/* Titles of columns that are in. */
void table_titles(struct grid *g, size_t row, const struct table_column *columns, size_t len);
/* Text of a cell, where its column says. */
void table_put(struct grid *g, size_t row, const struct table_column *c, enum grid_style style, const char *text);

/* layout_devices.c: with titles where there are more lines than devices. */
void layout_devices(const struct top_model *m, struct grid *g, struct area a);

/* layout_processes.c: titles and rows from m->scroll on. */
void layout_processes(struct top_model *m, struct grid *g, struct area a, bool has_choice);

/* layout_pane.c */
void layout_pane(struct top_model *m, struct grid *g, struct area a);

/* layout_help.c: all of the grid but its last row */
void layout_help(struct top_model *m, struct grid *g);
