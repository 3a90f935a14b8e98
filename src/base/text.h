/* SPDX-License-Identifier: MIT */
/* Text from foreign processes made safe to put in a log, and a small JSON writer. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

/*
 * Appends data as clean UTF-8: control characters (newline too), DEL, C1 controls, bytes that are not valid UTF-8, and
 * bidirectional controls (U+061C U+200E U+200F U+202A-202E U+2066-2069) become \xNN per byte; backslash becomes \x5c so
 * that nothing can be forged. At most max bytes are appended, cut only between characters; when cut the text ends in
 * "[N bytes cut]" (which counts into max). max 0 = no limit.
 */
void text_escape(struct strbuf *sb, const void *data, size_t len, size_t max);

/* For words of ours with foreign ones in them, on a terminal or in a log: one line stays one line and a terminal a terminal.
 * Control characters of ASCII become "?", all else that text_escape() would not let through \xNN; backslashes stay. */
void text_one_line(struct strbuf *sb, const char *s);

/* A JSON string with its quotes; input is any bytes, invalid UTF-8 becomes U+FFFD. All control characters and bidirectional
 * controls are written as \uXXXX. */
void json_string(struct strbuf *sb, const char *s);
/* "key": with a comma before it unless the last character is { or [ . */
void json_key(struct strbuf *sb, const char *key);
void json_u64(struct strbuf *sb, const char *key, uint64_t value);
void json_str(struct strbuf *sb, const char *key, const char *value); /* NULL -> null */
void json_bool(struct strbuf *sb, const char *key, int value);
/* A number, or null where it is UINT64_MAX: not known. */
void json_known(struct strbuf *sb, const char *key, uint64_t value);
/* Starts an object in an array, with a comma before it unless it is the first. */
void json_open(struct strbuf *sb);
/* An element of the status's list of limits; userdata: the struct strbuf it goes to. */
void json_limit(const char *name, uint64_t used, uint64_t max, uint64_t overflows, void *userdata);
