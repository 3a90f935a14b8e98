/* SPDX-License-Identifier: MIT */
/* What must hold of every record and of each of its written forms, whatever went in. For unit tests and the fuzzer: each
 * check returns NULL or what is wrong. */
#pragma once

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "record/record.h"

/* Strict UTF-8 without what a reader of the journal would escape or take for binary. */
static inline const char *check_clean(const char *s, size_t len, bool allow_newline)
{
	const unsigned char *p = (const unsigned char *)s;

	for (size_t i = 0; i < len;) {
		uint32_t c = p[i];
		size_t n = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 0;

		if (n == 0 || i + n > len || c > 0xf4)
			return "not UTF-8";
		if (n > 1)
			c &= 0xffu >> (n + 1);
		for (size_t k = 1; k < n; k++) {
			if ((p[i + k] & 0xc0) != 0x80)
				return "not UTF-8";
			c = c << 6 | (p[i + k] & 0x3f);
		}
		if ((n == 3 && c < 0x800) || (n == 4 && c < 0x10000) || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
			return "not UTF-8";
		if ((c < 0x20 && !(c == '\n' && allow_newline)) || (c >= 0x7f && c < 0xa0))
			return "control character";
		if (c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069))
			return "bidirectional control";
		if ((c & 0xfffe) == 0xfffe || (c >= 0xfdd0 && c <= 0xfdef))
			return "noncharacter";
		i += n;
	}
	return NULL;
}

static inline size_t check_chars(const char *s, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += ((unsigned char)s[i] & 0xc0) != 0x80;
	return n;
}

static inline const char *check_field(const struct record *r, size_t i)
{
	const char *f = r->data.buf + r->field[i].offset;
	size_t len = r->field[i].len, name = strcspn(f, "=");
	static const char *const lists[] = { "MESSAGE=", "GPUXRAY_STACK=", "GPUXRAY_LEAK_SITES=", "GPUXRAY_TOP_SITES=",
					     "GPUXRAY_DEVICE_PEAKS=" };
	bool is_list = false;

	for (size_t k = 0; k < sizeof(lists) / sizeof(*lists); k++)
		is_list = is_list || strncmp(f, lists[k], strlen(lists[k])) == 0;

	if (strlen(f) != len)
		return "length of a field";
	if (len >= 4096)
		return "field of 4096 bytes or more";
	if (name == len || name == 0 || name > 64 || !isupper((unsigned char)f[0]))
		return "field name";
	if (strspn(f, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != name)
		return "field name";
	for (size_t k = 0; k < i; k++) {
		const char *g = r->data.buf + r->field[k].offset;

		if (strncmp(f, g, name + 1) == 0)
			return "field twice";
	}
	return check_clean(f, len, is_list);
}

static inline const char *check_record(const struct record *r)
{
	static const char *const always[] = { "MESSAGE", "MESSAGE_ID", "PRIORITY", "SYSLOG_IDENTIFIER", "GPUXRAY_EVENT" };
	const char *message, *wrong;
	size_t total = 0, line;

	if (r->len > RECORD_FIELDS_MAX)
		return "too many fields";
	for (size_t i = 0; i < r->len; i++) {
		wrong = check_field(r, i);
		if (wrong)
			return wrong;
		total += r->field[i].len;
	}
	if (total > RECORD_BYTES_MAX)
		return "record too big";
	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		if (!record_get(r, always[i]))
			return always[i];
	message = record_get(r, "MESSAGE");
	line = strcspn(message, "\n");
	if (line == 0 || check_chars(message, line) > 200)
		return "first line";
	if (message[line] && (message[line + 1] != '\n' || message[line + 2] == '\0'))
		return "no blank line before the frames";
	if (strlen(record_get(r, "MESSAGE_ID")) != 32 || strspn(record_get(r, "MESSAGE_ID"), "0123456789abcdef") != 32)
		return "MESSAGE_ID";
	if (strlen(record_get(r, "PRIORITY")) != 1 || r->priority < 2 || r->priority > 6)
		return "PRIORITY";
	if (record_get(r, "OBJECT_PID") && (record_get(r, "OBJECT_SYSTEMD_UNIT") || record_get(r, "OBJECT_SYSTEMD_USER_UNIT")))
		return "OBJECT_PID and a unit";
	return NULL;
}

/* Frames shown and frames said to be missing are all of them, in as many lines as may be. No frame starts with '['. */
static inline const char *check_frames(const char *s, size_t frames, size_t max_lines)
{
	size_t n = 0, lines = 0;

	for (const char *p = s; p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
		unsigned long missing = 1;

		if (*p == '[' && (sscanf(p, "[%lu ", &missing) != 1 || missing == 0))
			return "stack: neither a frame nor how many are missing";
		n += missing;
		lines++;
	}
	if (lines > max_lines)
		return "stack: too many lines";
	return n == frames ? NULL : "stack: frames left out in silence";
}

/* What the record says of a stack of so many frames. */
static inline const char *check_stack(const struct record *r, size_t frames)
{
	const char *stack = record_get(r, "GPUXRAY_STACK"), *body = strstr(record_get(r, "MESSAGE"), "\n\n"), *wrong;

	if (!stack != (frames == 0) || !body != (frames == 0))
		return "stack: there or not";
	if (frames == 0)
		return NULL;
	wrong = check_frames(stack, frames, SIZE_MAX);
	return wrong ? wrong : check_frames(body + 2, frames, 8);
}

/* One JSON string at *p, decoded into sb (the escapes that json_string writes). False when malformed. */
static inline bool check_json_string(const char **p, struct strbuf *sb)
{
	if (*(*p)++ != '"')
		return false;
	for (; **p && **p != '"'; (*p)++) {
		unsigned v;

		if ((unsigned char)**p < 0x20)
			return false;
		if (**p != '\\') {
			strbuf_addc(sb, **p);
			continue;
		}
		(*p)++;
		if (**p == '"' || **p == '\\' || **p == '/') {
			strbuf_addc(sb, **p);
		} else if (**p == 'n') {
			strbuf_addc(sb, '\n');
		} else if (**p == 'u' && sscanf(*p + 1, "%4x", &v) == 1 && v < 0x80) {
			strbuf_addc(sb, (char)v);
			*p += 4;
		} else {
			return false;
		}
	}
	return *(*p)++ == '"';
}

/* An object of strings from p on, ending at *ret_end; if r is given its fields must be those of r, in order. */
static inline const char *check_json_object(const char *p, const struct record *r, const char **ret_end)
{
	size_t n = 0;

	if (*p++ != '{')
		return "JSON: no object";
	while (*p != '}') {
		_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

		if (n > 0 && *p++ != ',')
			return "JSON: comma";
		if (!check_json_string(&p, &sb) || *p++ != ':')
			return "JSON: name";
		strbuf_addc(&sb, '=');
		if (!check_json_string(&p, &sb))
			return "JSON: value";
		if (r && (n >= r->len || strcmp(strbuf_str(&sb), r->data.buf + r->field[n].offset) != 0))
			return "JSON: not what the record says";
		n++;
	}
	*ret_end = p + 1;
	return r && n != r->len ? "JSON: fields are missing" : NULL;
}

static inline const char *check_json(const struct record *r)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const char *end, *wrong;

	record_json(r, &sb);
	wrong = check_json_object(strbuf_str(&sb), r, &end);
	if (wrong)
		return wrong;
	return strcmp(end, "\n") == 0 ? NULL : "JSON: what follows the object";
}

/* [id name="value" ...], values with \" \\ \] escaped. */
static inline const char *check_structured(const char *p, const char **ret_end)
{
	if (*p != '[')
		return "SD: no element";
	p += 1 + strcspn(p + 1, " ]");
	while (*p == ' ') {
		size_t name = strcspn(++p, "= ]\"");

		if (name == 0 || name > 32 || p[name] != '=' || p[name + 1] != '"')
			return "SD: name";
		for (p += name + 2; *p && *p != '"'; p++) {
			if (*p == ']')
				return "SD: bracket";
			if (*p == '\\') {
				p++;
				if (*p != '"' && *p != '\\' && *p != ']')
					return "SD: escape";
			}
		}
		if (*p++ != '"')
			return "SD: value without an end";
	}
	if (*p++ != ']')
		return "SD: element without an end";
	*ret_end = p;
	return NULL;
}

static inline const char *check_syslog(const struct record *r, int cee, size_t max)
{
	const struct syslog_format f = { .hostname = "host", .pid = 42, .facility = 3, .is_cee = cee, .max = max };
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const char *message = record_get(r, "MESSAGE"), *p, *wrong;
	size_t line = strcspn(message, "\n");
	int blanks = 0;

	record_syslog(r, &f, &sb);
	if (sb.len > max)
		return "syslog: too long";
	wrong = check_clean(strbuf_str(&sb), sb.len, false);
	if (wrong)
		return wrong;
	if (max < 1024)
		return NULL;
	for (p = strbuf_str(&sb); *p && blanks < 6; p++)
		blanks += *p == ' ';
	if (cee) {
		if (strncmp(p, "- @cee: ", 8) != 0)
			return "syslog: no cookie";
		wrong = check_json_object(p + 8, NULL, &p);
		if (wrong)
			return wrong;
		return *p == '\0' ? NULL : "syslog: what follows the object";
	}
	if (strncmp(p, "- ", 2) == 0) {
		p++;
	} else {
		wrong = check_structured(p, &p);
		if (wrong)
			return wrong;
	}
	if (*p++ != ' ' || strncmp(p, message, line) != 0 || p[line] != '\0')
		return "syslog: message";
	return NULL;
}

static inline const char *check_text(const struct record *r)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	record_text(r, &sb, 0);
	if (sb.len == 0 || sb.buf[sb.len - 1] != '\n')
		return "text: no final newline";
	return check_clean(sb.buf, sb.len, true);
}

static inline const char *check_all(const struct record *r)
{
	static const size_t sizes[] = { 0, 1, 60, 480, 1024, 2048, 8100, 65536 };
	const char *wrong = check_record(r);

	if (!wrong)
		wrong = check_json(r);
	if (!wrong)
		wrong = check_text(r);
	for (size_t i = 0; !wrong && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		wrong = check_syslog(r, 0, sizes[i]);
		if (!wrong)
			wrong = check_syslog(r, 1, sizes[i]);
	}
	return wrong;
}
