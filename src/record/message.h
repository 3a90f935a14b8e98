/* SPDX-License-Identifier: MIT */
/* The words of a record. */
#pragma once

#include <stddef.h>

#include "base/strbuf.h"
#include "record/fields.h"

#define MESSAGE_LINE_MAX 200 /* characters of the first line */
#define MESSAGE_FRAMES_MAX 8

/* First line, complete in itself; then a blank line and the first frames. At most max bytes, which is 1024 or more. */
void message_build(const struct field_input *in, size_t max, struct strbuf *sb);
/* The first count frames, one a line without a final newline, at most max bytes; what was left out is said in a last line. */
void message_frames(const struct field_input *in, size_t count, size_t max, struct strbuf *sb);
