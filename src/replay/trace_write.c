/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "replay/trace.h"
#include "replay/trace_form.h"

#define DIGITS_MAX 24

static void add_number(struct strbuf *sb, uint64_t n, unsigned base)
{
	char digits[DIGITS_MAX], *at = digits + sizeof(digits);

	do {
		*--at = "0123456789abcdef"[n % base];
		n /= base;
	} while (n);
	strbuf_add(sb, at, (size_t)(digits + sizeof(digits) - at));
}

static void add_hex(struct strbuf *sb, uint64_t n)
{
	strbuf_add(sb, "0x", 2);
	add_number(sb, n, 16);
}

/* Seconds, without zeros at the end; per_second: a power of ten. */
static void add_time(struct strbuf *sb, uint64_t t, uint64_t per_second)
{
	uint64_t fraction = t % per_second;
	char digits[DIGITS_MAX];
	size_t len = 0;

	add_number(sb, t / per_second, 10);
	if (!fraction)
		return;
	digits[len++] = '.';
	while (fraction) {
		per_second /= 10;
		digits[len++] = (char)('0' + fraction / per_second);
		fraction %= per_second;
	}
	strbuf_add(sb, digits, len);
}

static size_t plain_len(const char *s)
{
	size_t len = 0;

	while (s[len] > ' ' && s[len] < '\x7f' && s[len] != '%')
		len++;
	return len;
}

/* What is no plain ASCII, up to where that begins again; there is no backslash in it but for those of escapes. */
static void add_encoded(struct strbuf *sb, const char *s, size_t len)
{
	_cleanup_strbuf_ struct strbuf clean = STRBUF_INIT;

	text_escape(&clean, s, len, 0);
	for (const char *p = strbuf_str(&clean); *p; p++) {
		if (*p == '\\')
			p++; /* "\xNN" */
		if (*p == ' ')
			strbuf_adds(sb, "%20");
		else if (*p == '%')
			strbuf_adds(sb, "%25");
		else
			strbuf_addc(sb, p > clean.buf && p[-1] == '\\' ? '%' : *p);
	}
	if (clean.error)
		sb->error = clean.error;
}

static void add_text(struct strbuf *sb, const char *s)
{
	while (*s) {
		size_t len = plain_len(s);

		strbuf_add(sb, s, len);
		s += len;
		for (len = 0; s[len] && plain_len(s + len) == 0;)
			len++;
		if (len)
			add_encoded(sb, s, len);
		s += len;
	}
}

static int add_value(struct strbuf *sb, const struct trace_key *key, uint64_t n, const char *text)
{
	const char *const *names = trace_value_names(key->value);

	switch (key->value) {
	case VALUE_HEX:
		add_hex(sb, n);
		return 0;
	case VALUE_TEXT:
	case VALUE_OWN_TEXT:
		add_text(sb, text);
		return 0;
	case VALUE_KNOWN:
		if (n == TRACE_UNKNOWN) {
			strbuf_addc(sb, '?');
			return 0;
		}
		break;
	case VALUE_INT:
		if ((int64_t)n < 0) {
			strbuf_addc(sb, '-');
			n = -n;
		}
		add_number(sb, n, 10);
		return 0;
	default:
		break;
	}
	if (n > trace_value_max(key->value))
		return -EINVAL;
	if (names)
		strbuf_adds(sb, names[n]);
	else if (key->value == VALUE_TIME)
		add_time(sb, n, NSEC_PER_SEC);
	else
		add_number(sb, n, 10);
	return 0;
}

static int add_pair(struct strbuf *sb, const struct trace_item *item, const struct trace_form *form,
		    const struct trace_key *key, const void *part)
{
	const bool is_text = key->value == VALUE_TEXT || key->value == VALUE_OWN_TEXT;
	const char *text = is_text ? *(char *const *)((const char *)part + key->offset) : NULL;
	const uint64_t n = is_text ? 0 : trace_load(part, key);
	bool is_blank;

	if (is_text)
		is_blank = !text;
	else if (key->value == VALUE_KIND)
		is_blank = n == trace_kind_follows(item->type, item->class);
	else
		is_blank = n == trace_load(trace_blank(form), key);
	if (is_blank && !key->is_required)
		return 0;
	if (is_text && !text)
		return -EINVAL;
	strbuf_addc(sb, ' ');
	strbuf_add(sb, key->name, key->len);
	strbuf_addc(sb, '=');
	return add_value(sb, key, n, text);
}

static int add_line(struct strbuf *sb, const struct trace_item *item, const struct trace_form *form)
{
	const void *part = item;
	int r = 0;

	if (form->part == PART_IDENTITY)
		part = item->identity;
	else if (form->part == PART_BOOKS)
		part = item->books;
	if (!part || form->is_host != (item->pid == 0) || item->pid > INT32_MAX ||
	    item->time_ns > trace_value_max(VALUE_TIME))
		return -EINVAL;
	add_time(sb, item->time_ns, NSEC_PER_SEC);
	strbuf_addc(sb, ' ');
	add_number(sb, item->pid, 10);
	strbuf_addc(sb, ' ');
	strbuf_adds(sb, form->name);
	for (size_t i = 0; i < form->len && r == 0; i++)
		r = add_pair(sb, item, form, &form->keys[i], part);
	return r;
}

int trace_write(struct strbuf *sb, const struct trace_item *item)
{
	const size_t start = sb->len;
	int r = item->type < TRACE_TYPE_MAX ? add_line(sb, item, &trace_forms[item->type]) : -EINVAL;

	if (r == 0 && !sb->error && sb->len - start > TRACE_LINE_MAX)
		r = -EINVAL;
	if (r < 0)
		strbuf_truncate(sb, start);
	else
		strbuf_addc(sb, '\n');
	return sb->error ? sb->error : r;
}

void trace_write_head(struct strbuf *sb, const struct trace_clock *clock)
{
	strbuf_adds(sb, "# gpuxray trace 1\nclock monotonic=");
	add_time(sb, clock->monotonic_ns, NSEC_PER_SEC);
	strbuf_adds(sb, " real=");
	add_time(sb, clock->real_usec, USEC_PER_SEC);
	strbuf_addc(sb, '\n');
}
