/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Length of the well-formed UTF-8 character at p (not overlong, no surrogate, at most U+10FFFF), or 0. */
static size_t utf8_char(const unsigned char *p, size_t len, uint32_t *ret)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t c = p[0];
	size_t n;

	if (c < 0x80) {
		*ret = c;
		return 1;
	}
	if (c >= 0xc2 && c < 0xe0) {
		n = 2;
		c &= 0x1f;
	} else if (c >= 0xe0 && c < 0xf0) {
		n = 3;
		c &= 0x0f;
	} else if (c >= 0xf0 && c < 0xf5) {
		n = 4;
		c &= 0x07;
	} else {
		return 0;
	}
	if (len < n)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < smallest[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*ret = c;
	return n;
}

static bool is_bidi_control(uint32_t c)
{
	return c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

/* Readers of the journal take a field with one of these for binary and show no text at all. */
static bool is_noncharacter(uint32_t c)
{
	return (c & 0xfffe) == 0xfffe || (c >= 0xfdd0 && c <= 0xfdef);
}

static bool is_plain(uint32_t c)
{
	return c >= 0x20 && c != '\\' && !(c >= 0x7f && c <= 0x9f) && !is_bidi_control(c) && !is_noncharacter(c);
}

static size_t cut_note(char note[48], size_t count)
{
	return (size_t)snprintf(note, 48, "[%zu bytes cut]", count);
}

void text_escape(struct strbuf *sb, const void *data, size_t len, size_t max)
{
	static const char hex[] = "0123456789abcdef";
	const unsigned char *p = data;
	const size_t base = sb->len;
	/* Where to cut if it comes to that: offsets in the output and in data with room for the note behind them. */
	size_t cut_out = 0, cut_in = 0, note_max;
	char note[48];

	/* Where the note alone would be too long the text is cut without one. */
	note_max = cut_note(note, len);
	if (note_max > max)
		note_max = 0;
	for (size_t i = 0; i < len;) {
		uint32_t c = 0;
		size_t n = utf8_char(p + i, len - i, &c);
		bool is_ok = n > 0 && is_plain(c);

		if (n == 0)
			n = 1;
		if (sb->len - base + note_max <= max) {
			cut_out = sb->len - base;
			cut_in = i;
		}
		if (is_ok) {
			strbuf_add(sb, p + i, n);
		} else {
			for (size_t k = 0; k < n; k++) {
				const char escape[] = { '\\', 'x', hex[p[i + k] >> 4], hex[p[i + k] & 0xf] };

				strbuf_add(sb, escape, sizeof(escape));
			}
		}
		i += n;
		if (sb->error)
			return;
		if (max > 0 && sb->len - base > max) {
			strbuf_truncate(sb, base + cut_out);
			if (note_max > 0)
				strbuf_add(sb, note, cut_note(note, len - cut_in));
			return;
		}
	}
}

void text_one_line(struct strbuf *sb, const char *s)
{
	while (*s) {
		size_t n = 0;

		while ((unsigned char)s[n] >= 0x80)
			n++;
		if (n > 0) {
			text_escape(sb, s, n, 0);
		} else {
			strbuf_addc(sb, (unsigned char)*s < 0x20 || *s == 0x7f ? '?' : *s);
			n = 1;
		}
		s += n;
	}
}

void json_string(struct strbuf *sb, const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t len;

	if (!s) {
		strbuf_adds(sb, "null");
		return;
	}
	len = strlen(s);
	strbuf_addc(sb, '"');
	for (size_t i = 0; i < len;) {
		uint32_t c = 0;
		size_t n = utf8_char(p + i, len - i, &c);

		if (n == 0) {
			strbuf_adds(sb, "\xef\xbf\xbd");
			n = 1;
		} else if (c == '"' || c == '\\') {
			strbuf_addc(sb, '\\');
			strbuf_addc(sb, (char)c);
		} else if (c == '\n') {
			strbuf_adds(sb, "\\n");
		} else if (c < 0x20 || (c >= 0x7f && c <= 0x9f) || is_bidi_control(c)) {
			/* Beyond what JSON asks for: people look at it on terminals. */
			strbuf_addf(sb, "\\u%04x", c);
		} else {
			strbuf_add(sb, p + i, n);
		}
		i += n;
	}
	strbuf_addc(sb, '"');
}

void json_key(struct strbuf *sb, const char *key)
{
	char last = sb->len > 0 ? sb->buf[sb->len - 1] : '{';

	if (last != '{' && last != '[')
		strbuf_addc(sb, ',');
	json_string(sb, key);
	strbuf_addc(sb, ':');
}

void json_u64(struct strbuf *sb, const char *key, uint64_t value)
{
	json_key(sb, key);
	strbuf_addf(sb, "%llu", (unsigned long long)value);
}

void json_str(struct strbuf *sb, const char *key, const char *value)
{
	json_key(sb, key);
	json_string(sb, value);
}

void json_bool(struct strbuf *sb, const char *key, int value)
{
	json_key(sb, key);
	strbuf_adds(sb, value ? "true" : "false");
}

void json_known(struct strbuf *sb, const char *key, uint64_t value)
{
	if (value == UINT64_MAX)
		json_str(sb, key, NULL);
	else
		json_u64(sb, key, value);
}

void json_open(struct strbuf *sb)
{
	if (sb->len > 0 && sb->buf[sb->len - 1] != '[')
		strbuf_addc(sb, ',');
	strbuf_addc(sb, '{');
}

void json_limit(const char *name, uint64_t used, uint64_t max, uint64_t overflows, void *userdata)
{
	struct strbuf *sb = userdata;

	json_open(sb);
	json_str(sb, "name", name);
	json_u64(sb, "used", used);
	json_u64(sb, "max", max);
	json_u64(sb, "overflows", overflows);
	strbuf_addc(sb, '}');
}
