/* SPDX-License-Identifier: MIT */
/* Text that came from a traced process or a user's file, on its way into a record: first redacted, then escaped. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"
#include "record/record.h"

/* At most max bytes, cut as text_escape does. */
void foreign_text(struct strbuf *sb, const struct redact *redact, const char *s, size_t max);
/* What was escaped when it was made, as frames are: backslashes stay as they are, all else that is not clean is escaped
 * all the same. At most max bytes (at least 8), cut with "...". */
void foreign_escaped(struct strbuf *sb, const struct redact *redact, const char *s, size_t max);
/* For the one line people read: at most max characters (at least 4), cut with "...". */
void foreign_word(struct strbuf *sb, const struct redact *redact, const char *s, size_t max);
/* A systemd unit's name consists of these alone, and "\x2d" in it is part of the name: it must not be escaped again, or
 * `journalctl -u` would not find it. */
bool is_unit_name(const char *s);
void foreign_unit(struct strbuf *sb, const struct redact *redact, const char *s, size_t max);

/* Characters (not bytes) of clean UTF-8. */
size_t utf8_count(const char *s, size_t len);
/* Cuts what sb holds from offset start on to max characters (at least 4) with "..." at the end; never within an escape. */
void utf8_cut(struct strbuf *sb, size_t start, size_t max);
