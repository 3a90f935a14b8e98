/* SPDX-License-Identifier: MIT */
#include "base/units.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

/* Digits after the point that count; more are accepted and dropped. 10^9 keeps every product below within 128 bits. */
#define DECIMAL_DIGITS 9
#define DECIMAL_SCALE UINT64_C(1000000000)

__extension__ typedef unsigned __int128 u128;

/* A decimal number: whole + frac / DECIMAL_SCALE. No sign, no exponent, no locale. */
struct decimal {
	uint64_t whole, frac;
};

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit size_units[] = {
	{ "B", 1 },
	{ "kB", UINT64_C(1000) },
	{ "MB", UINT64_C(1000000) },
	{ "GB", UINT64_C(1000000000) },
	{ "TB", UINT64_C(1000000000000) },
	{ "KiB", UINT64_C(1) << 10 },
	{ "MiB", UINT64_C(1) << 20 },
	{ "GiB", UINT64_C(1) << 30 },
	{ "TiB", UINT64_C(1) << 40 },
};

/* Largest first: a duration of several parts must descend. */
static const struct unit time_units[] = {
	{ "d", 86400 * NSEC_PER_SEC }, { "h", 3600 * NSEC_PER_SEC }, { "m", 60 * NSEC_PER_SEC },
	{ "s", NSEC_PER_SEC },	       { "ms", NSEC_PER_MSEC },	     { "us", NSEC_PER_USEC },
	{ "ns", 1 },
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static const char *skip_blanks(const char *s)
{
	while (*s == ' ' || *s == '\t')
		s++;
	return s;
}

/* Moves *s behind the number. */
static int decimal_parse(const char **s, struct decimal *ret)
{
	struct decimal d = { 0 };
	const char *p = *s;
	bool is_over = false;

	if (!is_digit(*p))
		return -EINVAL;
	for (; is_digit(*p); p++) {
		if (__builtin_mul_overflow(d.whole, 10, &d.whole) ||
		    __builtin_add_overflow(d.whole, (uint64_t)(*p - '0'), &d.whole))
			is_over = true;
	}
	if (*p == '.') {
		uint64_t place = DECIMAL_SCALE / 10;

		p++;
		if (!is_digit(*p))
			return -EINVAL;
		for (; is_digit(*p); p++, place /= 10)
			d.frac += place * (uint64_t)(*p - '0');
	}
	*s = p;
	if (is_over)
		return -ERANGE;
	*ret = d;
	return 0;
}

/* d * factor to the nearest whole. */
static int decimal_scale(const struct decimal *d, uint64_t factor, uint64_t *ret)
{
	u128 v = (u128)d->whole * factor + ((u128)d->frac * factor + DECIMAL_SCALE / 2) / DECIMAL_SCALE;

	if (v > UINT64_MAX)
		return -ERANGE;
	*ret = (uint64_t)v;
	return 0;
}

static double decimal_double(const struct decimal *d)
{
	return (double)d->whole + (double)d->frac / (double)DECIMAL_SCALE;
}

/* The unit at *s, letters only; moves *s behind it. NULL when it is none of the table. */
static const struct unit *unit_parse(const char **s, const struct unit *table, size_t count)
{
	size_t len = 0;

	while (is_letter((*s)[len]))
		len++;
	for (size_t i = 0; i < count; i++) {
		if (strlen(table[i].name) == len && memcmp(*s, table[i].name, len) == 0) {
			*s += len;
			return &table[i];
		}
	}
	return NULL;
}

/* "1.5 GiB" at *s; moves *s behind it. */
static int size_parse(const char **s, uint64_t *ret_bytes)
{
	const struct unit *u;
	struct decimal d;
	int r;

	r = decimal_parse(s, &d);
	if (r == -EINVAL)
		return r;
	*s = skip_blanks(*s);
	u = unit_parse(s, size_units, ARRAY_SIZE(size_units));
	if (!u)
		return -EINVAL;
	if (r < 0)
		return r;
	/* There is no half byte. */
	if (u->factor == 1 && d.frac > 0)
		return -EINVAL;
	return decimal_scale(&d, u->factor, ret_bytes);
}

int parse_size(const char *s, uint64_t *ret_bytes)
{
	uint64_t bytes = 0;
	int r;

	r = size_parse(&s, &bytes);
	if (r == -EINVAL || *s)
		return -EINVAL;
	if (r < 0)
		return r;
	*ret_bytes = bytes;
	return 0;
}

int parse_share(const char *s, double *ret_share)
{
	bool is_negative = *s == '-';
	struct decimal d;
	int r;

	if (is_negative)
		s++;
	r = decimal_parse(&s, &d);
	if (r == -EINVAL)
		return r;
	s = skip_blanks(s);
	if (strcmp(s, "%") != 0)
		return -EINVAL;
	if (r < 0)
		return r;
	if (d.whole > 100 || (d.whole == 100 && d.frac > 0) || (is_negative && (d.whole > 0 || d.frac > 0)))
		return -ERANGE;
	*ret_share = decimal_double(&d) / 100;
	return 0;
}

int parse_duration(const char *s, uint64_t *ret_ns)
{
	const struct unit *last = NULL;
	uint64_t total = 0;
	bool is_over = false;

	do {
		const struct unit *u;
		struct decimal d = { 0 };
		uint64_t part = 0;
		int r;

		r = decimal_parse(&s, &d);
		if (r == -EINVAL)
			return r;
		is_over = is_over || r < 0;
		s = skip_blanks(s);
		u = unit_parse(&s, time_units, ARRAY_SIZE(time_units));
		if (!u || (last && u <= last))
			return -EINVAL;
		last = u;
		if (decimal_scale(&d, u->factor, &part) < 0 || __builtin_add_overflow(total, part, &total))
			is_over = true;
		if (*s == ' ') {
			s = skip_blanks(s);
			if (!*s)
				return -EINVAL;
		}
	} while (*s);
	if (is_over)
		return -ERANGE;
	*ret_ns = total;
	return 0;
}

int parse_rate(const char *s, double *ret_per_sec, int *ret_is_bytes)
{
	const struct unit *u;
	struct decimal d = { 0 };
	const char *p = s;
	uint64_t bytes = 0;
	bool is_bytes;
	double value;
	int r;

	r = decimal_parse(&p, &d);
	if (r == -EINVAL)
		return r;
	is_bytes = is_letter(*skip_blanks(p));
	if (is_bytes) {
		p = s;
		r = size_parse(&p, &bytes);
		if (r == -EINVAL)
			return r;
	}
	p = skip_blanks(p);
	if (*p != '/')
		return -EINVAL;
	p = skip_blanks(p + 1);
	u = unit_parse(&p, time_units, ARRAY_SIZE(time_units));
	if (!u || *p)
		return -EINVAL;
	if (r < 0)
		return r;
	value = is_bytes ? (double)bytes : decimal_double(&d);
	*ret_per_sec = value / ((double)u->factor / (double)NSEC_PER_SEC);
	*ret_is_bytes = is_bytes;
	return 0;
}

int parse_budget(const char *s, uint32_t *ret_count, uint64_t *ret_window_ns)
{
	struct decimal d = { 0 };
	uint64_t window = 0;
	int r, q;

	r = decimal_parse(&s, &d);
	if (r == -EINVAL || d.frac > 0)
		return -EINVAL;
	s = skip_blanks(s);
	if (*s != '/')
		return -EINVAL;
	q = parse_duration(skip_blanks(s + 1), &window);
	if (q < 0)
		return q;
	if (r < 0 || d.whole > UINT32_MAX)
		return -ERANGE;
	/* A budget per no time at all is no budget. */
	if (window == 0)
		return -EINVAL;
	*ret_count = (uint32_t)d.whole;
	*ret_window_ns = window;
	return 0;
}

int parse_u64(const char *s, uint64_t *ret)
{
	uint64_t value = 0;
	bool is_over = false;

	if (!is_digit(*s))
		return -EINVAL;
	for (; is_digit(*s); s++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*s - '0'), &value))
			is_over = true;
	}
	if (*s)
		return -EINVAL;
	if (is_over)
		return -ERANGE;
	*ret = value;
	return 0;
}

int parse_u32(const char *s, uint32_t *ret)
{
	uint64_t value;
	int r;

	r = parse_u64(s, &value);
	if (r < 0)
		return r;
	if (value > UINT32_MAX)
		return -ERANGE;
	*ret = (uint32_t)value;
	return 0;
}

const char *format_bytes(char buf[FORMAT_UNITS_MAX], uint64_t bytes)
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	uint64_t tenths;
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(names) && bytes >> (10 * (i + 1)) > 0)
		i++;
	tenths = (uint64_t)(((u128)bytes * 10 + (i > 0 ? UINT64_C(1) << (10 * i - 1) : 0)) >> (10 * i));
	/* 1023.97 MiB rounds up to 1 GiB, not to 1024 MiB. */
	if (tenths >= 10240 && i + 1 < ARRAY_SIZE(names)) {
		i++;
		tenths = 10;
	}
	if (tenths % 10 == 0)
		(void)snprintf(buf, FORMAT_UNITS_MAX, "%llu %s", (unsigned long long)(tenths / 10), names[i]);
	else
		(void)snprintf(buf, FORMAT_UNITS_MAX, "%llu.%llu %s", (unsigned long long)(tenths / 10),
			       (unsigned long long)(tenths % 10), names[i]);
	return buf;
}

const char *format_duration(char buf[FORMAT_UNITS_MAX], uint64_t ns)
{
	for (size_t i = 0; i < ARRAY_SIZE(time_units); i++) {
		const struct unit *u = &time_units[i], *next = u + 1;
		/* Both fit: 64 bits of nanoseconds are 213,503 days. */
		unsigned int count = (unsigned int)(ns / u->factor), rest = 0;

		if (count == 0)
			continue;
		if (i + 1 < ARRAY_SIZE(time_units))
			rest = (unsigned int)(ns % u->factor / next->factor);
		if (rest > 0)
			(void)snprintf(buf, FORMAT_UNITS_MAX, "%u%s %u%s", count, u->name, rest, next->name);
		else
			(void)snprintf(buf, FORMAT_UNITS_MAX, "%u%s", count, u->name);
		return buf;
	}
	(void)snprintf(buf, FORMAT_UNITS_MAX, "0s");
	return buf;
}
