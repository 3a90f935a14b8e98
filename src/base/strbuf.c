/* SPDX-License-Identifier: MIT */
#include "base/strbuf.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#define STRBUF_CAP_MIN 64

/* Room for extra more bytes and the NUL. */
static bool strbuf_reserve(struct strbuf *sb, size_t extra)
{
	size_t need, cap;
	char *buf;

	if (sb->error)
		return false;
	if (extra >= SIZE_MAX / 2 - sb->len) {
		sb->error = -ENOMEM;
		return false;
	}
	need = sb->len + extra + 1;
	if (need <= sb->cap)
		return true;

	cap = MAX(MAX(need, sb->cap + sb->cap / 2), (size_t)STRBUF_CAP_MIN);
	buf = realloc(sb->buf, cap);
	if (!buf) {
		sb->error = -ENOMEM;
		return false;
	}
	sb->buf = buf;
	sb->cap = cap;
	return true;
}

void strbuf_add(struct strbuf *sb, const void *data, size_t len)
{
	if (!strbuf_reserve(sb, len))
		return;
	if (len > 0)
		memcpy(sb->buf + sb->len, data, len);
	sb->len += len;
	sb->buf[sb->len] = '\0';
}

void strbuf_adds(struct strbuf *sb, const char *s)
{
	strbuf_add(sb, s, strlen(s));
}

void strbuf_addc(struct strbuf *sb, char c)
{
	strbuf_add(sb, &c, 1);
}

void strbuf_vaddf(struct strbuf *sb, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	if (!strbuf_reserve(sb, STRBUF_CAP_MIN))
		return;
	va_copy(again, ap);
	n = vsnprintf(sb->buf + sb->len, sb->cap - sb->len, fmt, ap);
	if (n >= 0 && (size_t)n >= sb->cap - sb->len) {
		/* Cut: undo, and once more with the room it asked for. */
		sb->buf[sb->len] = '\0';
		if (strbuf_reserve(sb, (size_t)n))
			n = vsnprintf(sb->buf + sb->len, sb->cap - sb->len, fmt, again);
		else
			n = -1;
	}
	va_end(again);
	if (n < 0) {
		sb->buf[sb->len] = '\0';
		sb->error = -ENOMEM;
		return;
	}
	sb->len += (size_t)n;
}

void strbuf_addf(struct strbuf *sb, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	strbuf_vaddf(sb, fmt, ap);
	va_end(ap);
}

void strbuf_truncate(struct strbuf *sb, size_t len)
{
	if (len >= sb->len)
		return;
	sb->len = len;
	sb->buf[len] = '\0';
}

void strbuf_reset(struct strbuf *sb)
{
	sb->error = 0;
	strbuf_truncate(sb, 0);
}

int strbuf_steal(struct strbuf *sb, char **ret)
{
	if (!strbuf_reserve(sb, 0))
		return sb->error;
	sb->buf[sb->len] = '\0';
	*ret = TAKE_PTR(sb->buf);
	sb->len = 0;
	sb->cap = 0;
	return 0;
}

const char *strbuf_str(const struct strbuf *sb)
{
	return sb->buf ? sb->buf : "";
}

void strbuf_done(struct strbuf *sb)
{
	free(sb->buf);
	*sb = (struct strbuf)STRBUF_INIT;
}
