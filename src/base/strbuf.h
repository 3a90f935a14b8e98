/* SPDX-License-Identifier: MIT */
/* A growing string. Errors stick: append freely, ask once at the end. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct strbuf {
	char *buf; /* NUL-terminated when not NULL */
	size_t len;
	size_t cap;
	int error; /* 0 or -ENOMEM, sticky; appends do nothing once set */
};

#define STRBUF_INIT {}

/* Appends; without effect once error is set, and sets it where memory is missing. */
void strbuf_add(struct strbuf *sb, const void *data, size_t len);
void strbuf_adds(struct strbuf *sb, const char *s);
void strbuf_addc(struct strbuf *sb, char c);
void strbuf_addf(struct strbuf *sb, const char *fmt, ...) _printf_(2, 3);
void strbuf_vaddf(struct strbuf *sb, const char *fmt, va_list ap) _printf_(2, 0);
/* Shortens to len; no effect if it is shorter already. */
void strbuf_truncate(struct strbuf *sb, size_t len);
/* Empties but keeps the memory and clears the error. */
void strbuf_reset(struct strbuf *sb);
/* Hands the string (never NULL on success) to the caller, who frees it. 0 or the sticky error. */
int strbuf_steal(struct strbuf *sb, char **ret);
/* The text so far, "" when empty; owned by sb. */
const char *strbuf_str(const struct strbuf *sb);
void strbuf_done(struct strbuf *sb);

#define _cleanup_strbuf_ _cleanup_(strbuf_done)
