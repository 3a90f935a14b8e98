/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/text.h"
#include "record/foreign.h"

static bool is_continuation(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* Shortens to end, or a little before it where that would fall within a character or an escape "\xNN"; then "...". */
static void cut_at(struct strbuf *sb, size_t start, size_t end)
{
	while (end > start && is_continuation(sb->buf[end]))
		end--;
	for (size_t back = 1; back <= 3 && end >= start + back; back++) {
		if (sb->buf[end - back] == '\\') {
			end -= back;
			break;
		}
	}
	strbuf_truncate(sb, end);
	strbuf_adds(sb, "...");
}

void foreign_text(struct strbuf *sb, const struct redact *redact, const char *s, size_t max)
{
	_cleanup_strbuf_ struct strbuf clear = STRBUF_INIT;

	redact_text(redact, s, &clear);
	if (clear.error)
		sb->error = clear.error;
	else
		text_escape(sb, strbuf_str(&clear), clear.len, max);
}

void foreign_escaped(struct strbuf *sb, const struct redact *redact, const char *s, size_t max)
{
	_cleanup_strbuf_ struct strbuf clear = STRBUF_INIT;
	size_t start = sb->len;

	redact_text(redact, s, &clear);
	for (const char *p = strbuf_str(&clear); *p;) {
		size_t len = strcspn(p, "\\");

		text_escape(sb, p, len, 0);
		p += len;
		if (*p) {
			strbuf_addc(sb, '\\');
			p++;
		}
	}
	if (clear.error)
		sb->error = clear.error;
	if (!sb->error && sb->len - start > max)
		cut_at(sb, start, start + max - 3);
}

void foreign_word(struct strbuf *sb, const struct redact *redact, const char *s, size_t max)
{
	size_t start = sb->len;

	foreign_text(sb, redact, s, 0);
	utf8_cut(sb, start, max);
}

bool is_unit_name(const char *s)
{
	size_t len = strlen(s);

	/* 255: UNIT_NAME_MAX of systemd. */
	return len > 0 && len <= 255 &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\@") == len;
}

void foreign_unit(struct strbuf *sb, const struct redact *redact, const char *s, size_t max)
{
	_cleanup_strbuf_ struct strbuf clear = STRBUF_INIT;

	redact_text(redact, s, &clear);
	if (clear.error)
		sb->error = clear.error;
	else if (is_unit_name(strbuf_str(&clear)) && clear.len <= max)
		strbuf_add(sb, clear.buf, clear.len);
	else
		text_escape(sb, strbuf_str(&clear), clear.len, max);
}

size_t utf8_count(const char *s, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += !is_continuation(s[i]);
	return n;
}

void utf8_cut(struct strbuf *sb, size_t start, size_t max)
{
	size_t i = start, n = 0;

	if (sb->error || utf8_count(strbuf_str(sb) + start, sb->len - start) <= max)
		return;
	while (is_continuation(sb->buf[i]) || n++ < max - 3)
		i++;
	cut_at(sb, start, i);
}
