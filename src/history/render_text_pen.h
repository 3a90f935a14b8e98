/* SPDX-License-Identifier: MIT */
/*
 * Writes lines that fit the width: all text is cut or wrapped by the columns it takes, control characters are escaped, and no
 * line ends in blanks. LC_CTYPE of the process says what can be shown: what it cannot is a question mark.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "history/render.h"

enum pen_style { PEN_PLAIN, PEN_BOLD, PEN_DIM, PEN_RED, PEN_YELLOW, PEN_GREEN };

/* Of a moment, by the length of the stretch. */
enum moment_form { FORM_TIME, FORM_WEEKDAY, FORM_DAY, FORM_DATE };

struct kinds;

struct pen {
	const struct story *s;
	const struct text_options *o;
	struct strbuf *sb;
	size_t width;
	size_t column; /* where what comes next stands */
	size_t blanks; /* before it, not written yet */
	enum pen_style style, shown;
	enum moment_form form;
	size_t moment_width; /* columns of a moment within the stretch */
	struct allocators *allocators; /* NULL = not needed yet */
	const struct kinds *kinds;     /* of the processes of s */
};

void pen_init(struct pen *p, const struct story *s, const struct text_options *o, struct strbuf *sb);
void pen_done(struct pen *p);

/* Of what is written from here on. */
void pen_style(struct pen *p, enum pen_style style);
/* Blanks up to that column; none if it is past it. */
void pen_go(struct pen *p, size_t column);
/* At most so many columns of it, "..." at the end where it is cut; never beyond the line. */
void pen_cell(struct pen *p, const char *text, size_t columns);
void pen_right(struct pen *p, const char *text, size_t columns);
/* Up to the end of the line. */
void pen_add(struct pen *p, const char *text);
void pen_addf(struct pen *p, const char *fmt, ...) _printf_(2, 3);
/* The same; what does not fit is cut before tail, a position in text, unless the tail takes most of the room. */
void pen_add_tail(struct pen *p, const char *text, size_t tail);
/* Words on at most so many lines, the further ones from column indent on; the last is cut. */
void pen_wrap(struct pen *p, const char *text, size_t indent, size_t lines);
void pen_end(struct pen *p);
/* A title above what follows, with a note behind it that may be "". */
void pen_title(struct pen *p, const char *title, const char *note);

#define PEN_MOMENT_MAX 64
/* As short as the stretch allows; what lies outside of it with its date. "?" where it is not known. */
const char *pen_moment(const struct pen *p, char buf[PEN_MOMENT_MAX], uint64_t usec);

/* Joins phrases with commas: "", "a", "a, b". */
void pen_phrase(struct strbuf *sb, const char *fmt, ...) _printf_(2, 3);
/* "1 gap", "2 gaps". */
void pen_count(struct strbuf *sb, uint64_t n, const char *one, const char *many);

/* Of several hosts with the host before it. */
void pen_process_name(const struct pen *p, const struct story_process *proc, struct strbuf *sb);

/* A stack of at most so many lines: the first, then the innermost of the user's own code, then the innermost of Python, the
 * further ones of the user, of Python, and native ones outside of allocators as stack_lines.h tells. The order stays; each
 * run that is left out is one line with its count. The user's code is Python files with absolute paths (those of libraries
 * are told below their site-packages), in a stack without Python the program itself rather than its libraries. */
void pen_stack(struct pen *p, const struct story_stack *stack, size_t indent, size_t lines);
