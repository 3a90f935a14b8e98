/* SPDX-License-Identifier: MIT */
/* A stack as the lines of a field. */
#pragma once

#include <stddef.h>

#include "base/strbuf.h"
#include "record/record.h"

#define STACK_LINES_MIN 32 /* bytes: room to say that nothing fits */

/*
 * Appends one frame a line, innermost first, without a final newline: at most max bytes (STACK_LINES_MIN or more) and
 * max_lines lines (1 or more; SIZE_MAX = any number). Where not all fits, each run of frames left out is one line,
 * "[12 more frames]", in its place, and counts as a line; the order never changes. What is kept first:
 *
 *   the innermost frame, which is the driver's function;
 *   Python frames, innermost first, those within allocators after all others;
 *   native frames outside of allocators: with Python those below its innermost frame, nearest to it first, then those
 *   further out; without Python the innermost first;
 *   native frames within allocators, innermost first.
 *
 * redact may be NULL. Pure; out of memory is sb's error.
 */
void stack_lines_add(const struct stack_text *st, const struct redact *redact, size_t max, size_t max_lines,
		     struct strbuf *sb);
