/* SPDX-License-Identifier: MIT */
#include "replay/trace_parse.h"

#include <string.h>

#include "base/clock.h"
#include "replay/trace_form.h"

#define NAMES_SHOWN 200

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

char *trace_word(char **at)
{
	char *word = *at, *end;

	while (is_blank(*word))
		word++;
	if (!*word) {
		*at = word;
		return NULL;
	}
	for (end = word; *end && !is_blank(*end);)
		end++;
	*at = end;
	if (*end)
		*(*at)++ = '\0';
	return word;
}

/* Value of a hexadecimal digit, 16 if it is none. */
static unsigned hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	if (c >= 'a' && c <= 'f')
		return (unsigned)(c - 'a') + 10;
	if (c >= 'A' && c <= 'F')
		return (unsigned)(c - 'A') + 10;
	return 16;
}

int trace_number(const char *s, uint64_t max, uint64_t *ret)
{
	const unsigned base = s[0] == '0' && (s[1] == 'x' || s[1] == 'X') ? 16 : 10;
	uint64_t n = 0;
	bool is_over = false;

	s += base == 16 ? 2 : 0;
	if (!*s)
		return -EINVAL;
	for (; *s; s++) {
		const unsigned digit = hex_digit(*s);

		if (digit >= base)
			return -EINVAL;
		is_over |= __builtin_mul_overflow(n, base, &n) || __builtin_add_overflow(n, digit, &n);
	}
	if (is_over || n > max)
		return -ERANGE;
	*ret = n;
	return 0;
}

/* Seconds with up to 9 decimals. What is finer than the given number of decimals is cut off. */
static int parse_time(const struct trace_place *p, const char *word, uint64_t max_sec, unsigned decimals, uint64_t *ret)
{
	uint64_t n = 0, fraction = 0, scale = 1;
	const char *s = word;
	unsigned seen = 0;
	bool is_over = false;

	if (*s == '-')
		return trace_error(p, "time " WORD ": times count from the start of the trace and are never negative", word);
	for (; *s >= '0' && *s <= '9'; s++) {
		n = n * 10 + (uint64_t)(*s - '0');
		is_over |= n > max_sec;
		n = is_over ? 0 : n;
	}
	if (s == word || (*s && *s != '.') || (*s == '.' && !s[1]))
		goto bad;
	for (s += *s == '.'; *s >= '0' && *s <= '9'; s++) {
		if (++seen <= decimals)
			fraction = fraction * 10 + (uint64_t)(*s - '0');
	}
	if (*s)
		goto bad;
	if (seen > 9)
		return trace_error(p, "time " WORD ": at most 9 decimals: times are as fine as a nanosecond", word);
	for (unsigned i = 0; i < decimals; i++) {
		scale *= 10;
		fraction *= i < seen ? 1 : 10;
	}
	if (is_over || (n == max_sec && fraction))
		return trace_error(p, "time " WORD " is beyond %llu s: seconds since the start are meant, not a date", word,
				   (unsigned long long)max_sec);
	*ret = n * scale + fraction;
	return 0;
bad:
	return trace_error(p, WORD " is not a time: write seconds, such as 0.25", word);
}

/* Percent-encoding undone in place. */
static int decode(const struct trace_place *p, const struct trace_key *key, char *s)
{
	char *out = strchr(s, '%');

	if (!out)
		return 0;
	for (s = out; *s; s++) {
		unsigned high, low;

		if (*s != '%') {
			*out++ = *s;
			continue;
		}
		high = hex_digit(s[1]);
		low = high < 16 ? hex_digit(s[2]) : 16;
		if (low >= 16)
			return trace_error(p, "%s=: " WORD ": after %% come two hexadecimal digits; for the sign itself write %%25",
					   key->name, s);
		if (high == 0 && low == 0)
			return trace_error(p, "%s=: %%00 cannot be in a text: leave it out", key->name);
		*out++ = (char)(high << 4 | low);
		s += 2;
	}
	*out = '\0';
	return 0;
}

static int unknown(const struct trace_place *p, const char *what, const char *word, const char *const *names)
{
	const char *guess = trace_suggest(word, names);
	char known[NAMES_SHOWN];
	size_t len = 0;

	if (guess)
		return trace_error(p, "unknown %s " WORD ": did you mean \"%s\"?", what, word, guess);
	known[0] = '\0';
	for (size_t i = 0; names[i] && len < sizeof(known); i++)
		len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", i ? ", " : "", names[i]);
	return trace_error(p, "unknown %s " WORD ": known are %s", what, word, known);
}

static int unknown_event(const struct trace_place *p, const char *word)
{
	const char *names[TRACE_TYPE_MAX + 1];

	for (size_t i = 0; i < TRACE_TYPE_MAX; i++)
		names[i] = trace_forms[i].name;
	names[TRACE_TYPE_MAX] = NULL;
	return unknown(p, "event", word, names);
}

static int parse_name(const struct trace_place *p, const struct trace_key *key, const char *s, void *part)
{
	const char *const *names = trace_value_names(key->value);

	for (size_t i = 0; names[i]; i++) {
		if (strcmp(names[i], s) == 0) {
			trace_store(part, key, i);
			return 0;
		}
	}
	return unknown(p, key->name, s, names);
}

static int parse_number(const struct trace_place *p, const struct trace_key *key, const char *s, void *part)
{
	const bool is_negative = key->value == VALUE_INT && *s == '-';
	const uint64_t max = trace_value_max(key->value);
	uint64_t n;
	int r;

	if (key->value == VALUE_KNOWN && strcmp(s, "?") == 0) {
		trace_store(part, key, TRACE_UNKNOWN);
		return 0;
	}
	r = trace_number(s + is_negative, max + is_negative, &n);
	if (r == -ERANGE)
		return trace_error(p, "%s=%.60s is too large: at most %llu", key->name, s, (unsigned long long)max);
	if (r < 0)
		return trace_error(p, "%s=%.60s is not a number: write digits alone, or hexadecimal ones after 0x",
				   key->name, s);
	trace_store(part, key, is_negative ? -n : n);
	return 0;
}

static int parse_value(const struct trace_place *p, const struct trace_key *key, char *s, void *part)
{
	char *at = (char *)part + key->offset;
	int r;

	switch (key->value) {
	case VALUE_CLASS:
	case VALUE_KIND:
	case VALUE_REASON:
		return parse_name(p, key, s, part);
	case VALUE_TIME:
		return parse_time(p, s, TRACE_SECONDS_MAX, 9, (uint64_t *)at);
	case VALUE_TEXT:
		r = decode(p, key, s);
		*(const char **)at = s;
		return r;
	case VALUE_OWN_TEXT:
		r = decode(p, key, s);
		if (r < 0)
			return r;
		*(char **)at = strdup(s);
		return *(char **)at ? 0 : -ENOMEM;
	default:
		return parse_number(p, key, s, part);
	}
}

static int parse_pair(const struct trace_place *p, const struct trace_form *form, char *word, void *part,
		      uint32_t *seen)
{
	char *equals = strchr(word, '=');
	size_t len;

	if (!equals)
		return trace_error(p, WORD " is not key=value; a blank within a value is written %%20", word);
	len = (size_t)(equals - word);
	for (size_t i = 0; i < form->len; i++) {
		const struct trace_key *key = &form->keys[i];

		if (key->len != len || memcmp(key->name, word, len) != 0)
			continue;
		if (*seen & 1u << i)
			return trace_error(p, "%s= is there twice: leave one out", key->name);
		*seen |= 1u << i;
		return parse_value(p, key, equals + 1, part);
	}
	return 0; /* of a later version */
}

static int parse_pairs(const struct trace_place *p, const struct trace_form *form, char *at, void *part)
{
	uint32_t seen = 0;
	char *word;

	while ((word = trace_word(&at))) {
		int r = parse_pair(p, form, word, part, &seen);

		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < form->len; i++) {
		const struct trace_key *key = &form->keys[i];

		if (key->is_required && !(seen & 1u << i))
			return trace_error(p, "%s without %s=", form->name, key->name);
	}
	return 0;
}

static int parse_pid(const struct trace_place *p, const struct trace_form *form, const char *word, uint32_t *ret)
{
	uint64_t pid;

	if (trace_number(word, INT32_MAX, &pid) < 0)
		return trace_error(p, WORD " is not a process id: a line is TIME PID EVENT key=value...", word);
	if (form->is_host && pid)
		return trace_error(p, "%s is about no process: write 0 in place of %llu", form->name,
				   (unsigned long long)pid);
	if (!form->is_host && !pid)
		return trace_error(p, "%s is about a process: its id cannot be 0", form->name);
	*ret = (uint32_t)pid;
	return 0;
}

/* A line that begins with a word: a mistyped one of the two that may. */
static int check_first(const struct trace_place *p, const char *word)
{
	static const char *const names[] = { "clock", "stack", NULL };
	const char *guess = trace_suggest(word, names);

	return guess ? trace_error(p, "unknown line " WORD ": did you mean \"%s\"?", word, guess) : 0;
}

static void *part_of(const struct trace_form *form, struct trace_target *t)
{
	switch (form->part) {
	case PART_IDENTITY:
		return t->identity;
	case PART_BOOKS:
		return &t->books;
	default:
		return &t->item;
	}
}

static int prepare(const struct trace_form *form, struct trace_target *t)
{
	t->item = form->blank;
	if (form->part == PART_BOOKS) {
		memset(&t->books, 0, sizeof(t->books));
		t->item.books = &t->books;
	} else if (form->part == PART_IDENTITY) {
		identity_unref(t->identity);
		t->identity = identity_bare(0, 0);
		t->item.identity = t->identity;
		return t->identity ? 0 : -ENOMEM;
	}
	return 0;
}

int trace_parse_item(const struct trace_place *p, char *line, struct trace_target *t)
{
	const char *time = trace_word(&line), *pid = trace_word(&line), *event = trace_word(&line);
	const struct trace_form *form;
	struct trace_item *item = &t->item;
	uint64_t time_ns;
	int r = check_first(p, time);

	if (r == 0)
		r = parse_time(p, time, TRACE_SECONDS_MAX, 9, &time_ns);
	if (r < 0)
		return r;
	if (!event)
		return trace_error(p, "%s is missing: a line is TIME PID EVENT key=value...",
				   pid ? "the event" : "the process id");
	form = trace_form_find(event);
	if (!form)
		return unknown_event(p, event);
	r = prepare(form, t);
	if (r == 0)
		r = parse_pid(p, form, pid, &item->pid);
	if (r == 0)
		r = parse_pairs(p, form, line, part_of(form, t));
	if (r < 0)
		return r;
	item->time_ns = time_ns;
	if (item->kind == KIND_FOLLOWS)
		item->kind = trace_kind_follows(item->type, item->class);
	if (item->identity) {
		item->identity->pid = item->pid;
		item->identity->start_ns = item->identity->start_ticks * (NSEC_PER_SEC / TICKS_PER_SEC);
	}
	return 0;
}

int trace_parse_clock(const struct trace_place *p, char *rest, struct trace_clock *ret)
{
	struct trace_clock clock = TRACE_CLOCK_DEFAULT;
	char *word;

	while ((word = trace_word(&rest))) {
		char *value = strchr(word, '=');
		int r = 0;

		if (!value)
			return trace_error(p, WORD " is not key=value: clock has monotonic= and real=, in seconds", word);
		*value++ = '\0';
		if (strcmp(word, "monotonic") == 0)
			r = parse_time(p, value, TRACE_SECONDS_MAX, 9, &clock.monotonic_ns);
		else if (strcmp(word, "real") == 0)
			r = parse_time(p, value, TRACE_REAL_SECONDS_MAX, 6, &clock.real_usec);
		if (r < 0)
			return r;
	}
	*ret = clock;
	return 0;
}
