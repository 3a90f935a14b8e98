/* SPDX-License-Identifier: MIT */
/* The words of a record. */
#pragma once

#include <stddef.h>

#include "base/strbuf.h"
#include "record/fields.h"

#define MESSAGE_LINE_MAX 200 /* characters of the first line */
#define MESSAGE_STACK_LINES 8

/*
 * First line, complete in itself; then a blank line and what of the stack says most, in MESSAGE_STACK_LINES lines: the
 * driver's function, and the innermost Python frames, or without Python the innermost frames outside of allocators. The
 * lines that say how many are missing between them count. Of a leak also how sure that is, in a last line. At most max
 * bytes, which is 2048 or more.
 */
void message_build(const struct field_input *in, size_t max, struct strbuf *sb);
