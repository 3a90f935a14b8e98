/* SPDX-License-Identifier: MIT */
#include "base/when.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define TEXT_MAX 128
#define WORDS_MAX 5
#define DAY_SEC 86400
#define ZONE_NAME_MAX 64
#define FRACTION_SCALE UINT64_C(1000000000)

__extension__ typedef unsigned __int128 u128;

static const char why_form[] = "not a time: \"2026-11-30 22:00\", \"22:00\", \"yesterday\", \"-2h\", \"3h ago\" and "
			       "\"@1796000000\" are";
static const char why_span[] = "not a length of time: \"90s\", \"30min\", \"2h 30min\", \"1.5d\", \"2w\" are";
static const char why_day[] = "there is no such day";
static const char why_time[] = "there is no such time of day";
static const char why_weekday[] = "weekday and date do not agree";
static const char why_zone[] = "no time zone of this host";
static const char why_range[] = "too far away";

enum zone_kind {
	ZONE_LOCAL,
	ZONE_FIXED, /* by its offset */
	ZONE_NAMED, /* of the time zone database */
};

/* What the words say, before it is a moment. */
struct calendar {
	int weekday; /* 0 = Sunday; -1 = none */
	bool has_date;
	int year, month, day;
	int day_shift; /* against today, without a date */
	int hour, minute, second;
	uint32_t usec;
	const char *zone; /* NULL */
	enum zone_kind zone_kind;
	long offset; /* seconds east */
};

static int fail(int error, const char *why, const char **ret_why)
{
	*ret_why = why;
	return error;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A number of at most so many digits at *s, moved behind it; -1 = there is none. */
static int take_number(const char **s, size_t digits)
{
	int n = 0;
	size_t len = 0;

	for (; len < digits && is_digit((*s)[len]); len++)
		n = n * 10 + ((*s)[len] - '0');
	*s += len;
	return len > 0 && !is_digit(**s) ? n : -1;
}

/* Digits behind a point, in parts of FRACTION_SCALE; what is finer is dropped. */
static uint64_t take_fraction(const char **s)
{
	uint64_t frac = 0, place = FRACTION_SCALE / 10;

	for (; is_digit(**s); (*s)++, place /= 10)
		frac += place * (uint64_t)(**s - '0');
	return frac;
}

/* ---- spans */

static const struct span_unit {
	const char *names; /* blanks around each */
	uint64_t usec;
} span_units[] = {
	{ " usec us µs μs ", 1 },
	{ " msec ms ", 1000 },
	{ " seconds second sec s ", USEC_PER_SEC },
	{ " minutes minute min m ", 60 * USEC_PER_SEC },
	{ " hours hour hr h ", 3600 * USEC_PER_SEC },
	{ " days day d ", DAY_SEC * USEC_PER_SEC },
	{ " weeks week w ", 7 * DAY_SEC * USEC_PER_SEC },
	{ " months month M ", UINT64_C(2629800) * USEC_PER_SEC },
	{ " years year y ", UINT64_C(31557600) * USEC_PER_SEC },
};

static uint64_t take_unit(const char **s)
{
	char word[16];
	size_t len = strcspn(*s, " \t0123456789.");

	if (len == 0)
		return USEC_PER_SEC;
	if (len > sizeof(word) - 3)
		return 0;
	(void)snprintf(word, sizeof(word), " %.*s ", (int)len, *s);
	*s += len;
	for (size_t i = 0; i < ARRAY_SIZE(span_units); i++) {
		if (strstr(span_units[i].names, word))
			return span_units[i].usec;
	}
	return 0;
}

static int parse_span(const char *s, uint64_t *ret_usec, const char **ret_why)
{
	u128 total = 0;

	s += strspn(s, " \t");
	do {
		uint64_t whole, frac = 0, unit;
		char *end;

		if (!is_digit(*s))
			return fail(-EINVAL, why_span, ret_why);
		errno = 0;
		whole = strtoull(s, &end, 10);
		if (errno)
			return fail(-ERANGE, why_range, ret_why);
		s = end;
		if (*s == '.' && is_digit(s[1])) {
			s++;
			frac = take_fraction(&s);
		}
		s += strspn(s, " \t");
		unit = take_unit(&s);
		if (unit == 0)
			return fail(-EINVAL, why_span, ret_why);
		total += (u128)whole * unit + (u128)frac * unit / FRACTION_SCALE;
		if (total > INT64_MAX)
			return fail(-ERANGE, why_range, ret_why);
		s += strspn(s, " \t");
	} while (*s);
	*ret_usec = (uint64_t)total;
	return 0;
}

static int add_span(const char *span, bool is_back, uint64_t now_usec, uint64_t *ret_usec, const char **ret_why)
{
	uint64_t usec = 0;
	int r = parse_span(span, &usec, ret_why);

	if (r < 0)
		return r;
	if (is_back ? usec > now_usec : usec > INT64_MAX - now_usec)
		return fail(-ERANGE, why_range, ret_why);
	*ret_usec = is_back ? now_usec - usec : now_usec + usec;
	return 0;
}

/* ---- words */

static int find_name(const char *const *names, size_t len, const char *word)
{
	for (size_t i = 0; i < len; i++) {
		if (strcasecmp(names[i], word) == 0)
			return (int)i;
	}
	return -1;
}

static int weekday_from_word(const char *word)
{
	static const char *const names[] = { "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday",	"Saturday",
					     "Sun",    "Mon",	 "Tue",	    "Wed",	 "Thu",	     "Fri",	"Sat" };
	int i = find_name(names, ARRAY_SIZE(names), word);

	return i < 0 ? -1 : i % 7;
}

/* "+02:00", "-0530", "+2", "Z", "UTC". */
static bool offset_from_word(const char *word, long *ret)
{
	const char *s = word + 1;
	int hours, minutes = 0;

	if (strcasecmp(word, "UTC") == 0 || strcasecmp(word, "Z") == 0) {
		*ret = 0;
		return true;
	}
	if (*word != '+' && *word != '-')
		return false;
	if (strlen(s) == 4 && strspn(s, "0123456789") == 4) {
		const int n = take_number(&s, 4);

		hours = n / 100;
		minutes = n % 100;
	} else {
		hours = take_number(&s, 2);
		if (*s == ':') {
			s++;
			minutes = take_number(&s, 2);
		}
	}
	if (*s || hours < 0 || hours > 23 || minutes < 0 || minutes > 59)
		return false;
	*ret = (*word == '-' ? -1 : 1) * (hours * 3600L + minutes * 60L);
	return true;
}

static int days_of(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	return days[month - 1] + (month == 2 && is_leap);
}

/* "2026-11-30" or "26-11-30" at *s, moved behind it. -ENOENT = that is no date. */
static int take_date(const char **s, struct calendar *c, const char **ret_why)
{
	const size_t len = strspn(*s, "0123456789");

	if ((*s)[len] != '-' || len == 0)
		return -ENOENT;
	if (len != 2 && len != 4)
		return fail(-EINVAL, why_form, ret_why);
	c->year = take_number(s, 4);
	if (len == 2)
		c->year += c->year < 69 ? 2000 : 1900;
	(*s)++;
	c->month = take_number(s, 2);
	if (c->month < 0 || **s != '-')
		return fail(-EINVAL, why_form, ret_why);
	(*s)++;
	c->day = take_number(s, 2);
	if (c->day < 0)
		return fail(-EINVAL, why_form, ret_why);
	if (c->month < 1 || c->month > 12 || c->day < 1 || c->day > days_of(c->year, c->month))
		return fail(-EINVAL, why_day, ret_why);
	c->has_date = true;
	return 0;
}

/* "22:00", "22:00:05", "22:00:05.25" at *s, moved behind it. */
static int take_time(const char **s, struct calendar *c, const char **ret_why)
{
	c->hour = take_number(s, 2);
	if (c->hour < 0 || **s != ':')
		return fail(-EINVAL, why_form, ret_why);
	(*s)++;
	c->minute = take_number(s, 2);
	if (**s == ':') {
		(*s)++;
		c->second = take_number(s, 2);
		if (c->second >= 0 && **s == '.' && is_digit((*s)[1])) {
			(*s)++;
			c->usec = (uint32_t)(take_fraction(s) / (FRACTION_SCALE / USEC_PER_SEC));
		}
	}
	if (c->minute < 0 || c->second < 0)
		return fail(-EINVAL, why_form, ret_why);
	/* 60: a leap second. */
	if (c->hour > 23 || c->minute > 59 || c->second > 60)
		return fail(-EINVAL, why_time, ret_why);
	return 0;
}

/* A time, and in the same word its offset. */
static int read_time(const char *s, struct calendar *c, const char **ret_why)
{
	int r = take_time(&s, c, ret_why);

	if (r < 0)
		return r;
	if (!*s)
		return 0;
	if (!offset_from_word(s, &c->offset))
		return fail(-EINVAL, why_form, ret_why);
	c->zone_kind = ZONE_FIXED;
	return 0;
}

/* Day and, behind a T, time. 1 = it says both, 0 = the day alone. */
static int read_day(const char *s, struct calendar *c, const char **ret_why)
{
	static const char *const days[] = { "yesterday", "today", "tomorrow" };
	int r, day = find_name(days, ARRAY_SIZE(days), s);

	if (day >= 0) {
		c->day_shift = day - 1;
		return 0;
	}
	r = take_date(&s, c, ret_why);
	if (r < 0 || !*s)
		return r;
	if (*s != 'T' && *s != 't')
		return fail(-EINVAL, why_form, ret_why);
	r = read_time(s + 1, c, ret_why);
	return r < 0 ? r : 1;
}

static int read_words(char **words, size_t len, struct calendar *c, const char **ret_why)
{
	bool has_time = false;
	size_t i = 0;
	int r;

	c->weekday = weekday_from_word(words[0]);
	if (c->weekday >= 0)
		i++;
	if (i == len)
		return fail(-EINVAL, why_form, ret_why);
	r = read_day(words[i], c, ret_why);
	if (r < 0 && r != -ENOENT)
		return r;
	if (r >= 0) {
		has_time = r > 0;
		i++;
	}
	if (r == -ENOENT || (!has_time && i < len && is_digit(words[i][0]))) {
		r = read_time(words[i], c, ret_why);
		if (r < 0)
			return r;
		i++;
	}
	if (i < len && c->zone_kind == ZONE_LOCAL)
		c->zone = words[i++];
	return i < len ? fail(-EINVAL, why_form, ret_why) : 0;
}

/* ---- time zones */

static bool local_at(int64_t sec, struct tm *ret)
{
	time_t t = (time_t)sec;

	return localtime_r(&t, ret) != NULL;
}

/* Offset that local time has under this name, looked for around that moment. */
static bool offset_of_abbreviation(const char *name, int64_t sec, long *ret)
{
	static const int days[] = { 0, 1, 30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 330, 360 };
	struct tm tm;

	for (size_t i = 0; i < ARRAY_SIZE(days); i++) {
		for (int sign = -1; sign <= 1; sign += 2) {
			if (!local_at(sec + (int64_t)sign * days[i] * DAY_SEC, &tm) || strcasecmp(tm.tm_zone, name) != 0)
				continue;
			*ret = tm.tm_gmtoff;
			return true;
		}
	}
	return false;
}

static bool is_zone_name(const char *name)
{
	const char *dir = getenv("TZDIR") ?: "/usr/share/zoneinfo";
	char path[PATH_MAX];
	struct stat st;

	if (strlen(name) > ZONE_NAME_MAX || !strcmp(name, ".") || strstr(name, "..") || *name == '/' ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-_/") != strlen(name))
		return false;
	return snprintf(path, sizeof(path), "%s/%s", dir, name) < (int)sizeof(path) && stat(path, &st) == 0 &&
	       S_ISREG(st.st_mode);
}

static int64_t utc_seconds(const struct calendar *c)
{
	struct tm tm = { .tm_year = c->year - 1900, .tm_mon = c->month - 1, .tm_mday = c->day,
			 .tm_hour = c->hour,	    .tm_min = c->minute,    .tm_sec = c->second };

	return (int64_t)timegm(&tm);
}

static int find_zone(struct calendar *c, int64_t now_sec, const char **ret_why)
{
	if (!c->zone)
		return 0;
	/* Those of local time first: the database's CET has a summer time. */
	if (offset_from_word(c->zone, &c->offset) ||
	    offset_of_abbreviation(c->zone, c->has_date ? utc_seconds(c) : now_sec, &c->offset))
		c->zone_kind = ZONE_FIXED;
	else if (is_zone_name(c->zone))
		c->zone_kind = ZONE_NAMED;
	else
		return fail(-EINVAL, why_zone, ret_why);
	return 0;
}

/* mktime() will not do: which of two moments it picks depends on what it was asked before. */
static int64_t seconds_from_local(int64_t shown)
{
	struct tm before, after, tm;
	int64_t first, second;

	if (!local_at(shown - DAY_SEC, &before) || !local_at(shown + DAY_SEC, &after))
		return shown;
	first = shown - before.tm_gmtoff;
	second = shown - after.tm_gmtoff;
	if (local_at(first, &tm) && tm.tm_gmtoff == before.tm_gmtoff)
		return first;
	return local_at(second, &tm) && tm.tm_gmtoff == after.tm_gmtoff ? second : first;
}

static int set_day(struct calendar *c, int64_t now_sec)
{
	struct tm tm;
	time_t day;

	if (c->has_date)
		return 0;
	if (c->zone_kind == ZONE_FIXED) {
		day = (time_t)(now_sec + c->offset);
		if (!gmtime_r(&day, &tm))
			return -ERANGE;
	} else if (!local_at(now_sec, &tm)) {
		return -ERANGE;
	}
	tm = (struct tm){ .tm_year = tm.tm_year, .tm_mon = tm.tm_mon, .tm_mday = tm.tm_mday + c->day_shift };
	day = timegm(&tm);
	if (!gmtime_r(&day, &tm))
		return -ERANGE;
	c->year = tm.tm_year + 1900;
	c->month = tm.tm_mon + 1;
	c->day = tm.tm_mday;
	return 0;
}

static int to_usec(struct calendar *c, int64_t now_sec, uint64_t *ret_usec, const char **ret_why)
{
	time_t noon;
	int64_t shown, sec;
	struct tm tm;

	if (set_day(c, now_sec) < 0)
		return fail(-ERANGE, why_range, ret_why);
	noon = (time_t)utc_seconds(&(struct calendar){ .year = c->year, .month = c->month, .day = c->day, .hour = 12 });
	if (c->weekday >= 0 && (!gmtime_r(&noon, &tm) || tm.tm_wday != c->weekday))
		return fail(-EINVAL, why_weekday, ret_why);
	shown = utc_seconds(c);
	sec = c->zone_kind == ZONE_FIXED ? shown - c->offset : seconds_from_local(shown);
	if (sec < 0)
		return fail(-ERANGE, why_range, ret_why);
	*ret_usec = (uint64_t)sec * USEC_PER_SEC + c->usec;
	return 0;
}

static int in_zone(struct calendar *c, int64_t now_sec, uint64_t *ret_usec, const char **ret_why)
{
	const char *set = getenv("TZ");
	_cleanup_free_ char *old = set ? strdup(set) : NULL;
	char name[ZONE_NAME_MAX + 2];
	int r;

	if (set && !old)
		return -ENOMEM;
	(void)snprintf(name, sizeof(name), ":%s", c->zone);
	if (setenv("TZ", name, 1) < 0)
		return -ENOMEM;
	tzset();
	r = to_usec(c, now_sec, ret_usec, ret_why);
	if (old)
		(void)setenv("TZ", old, 1);
	else
		(void)unsetenv("TZ");
	tzset();
	return r;
}

static int parse_calendar(char *text, uint64_t now_usec, uint64_t *ret_usec, const char **ret_why)
{
	const int64_t now_sec = (int64_t)(now_usec / USEC_PER_SEC);
	struct calendar c = {};
	char *words[WORDS_MAX], *save = NULL;
	size_t len = 0;
	int r;

	for (char *w = strtok_r(text, " \t", &save); w; w = strtok_r(NULL, " \t", &save)) {
		if (len == WORDS_MAX)
			return fail(-EINVAL, why_form, ret_why);
		words[len++] = w;
	}
	if (len == 0)
		return fail(-EINVAL, why_form, ret_why);
	tzset();
	r = read_words(words, len, &c, ret_why);
	if (r == 0)
		r = find_zone(&c, now_sec, ret_why);
	if (r < 0)
		return r;
	return c.zone_kind == ZONE_NAMED ? in_zone(&c, now_sec, ret_usec, ret_why) : to_usec(&c, now_sec, ret_usec, ret_why);
}

/* Removes a word of the end. */
static bool cut_word(char *text, const char *word)
{
	size_t len = strlen(text), end = strlen(word);

	if (len < end || strcmp(text + len - end, word) != 0)
		return false;
	text[len - end] = '\0';
	return true;
}

int when_parse(const char *text, uint64_t now_usec, uint64_t *ret_usec, const char **ret_why)
{
	char buf[TEXT_MAX];
	size_t len;

	*ret_why = "not enough memory";
	if (now_usec > INT64_MAX)
		return fail(-ERANGE, why_range, ret_why);
	text += strspn(text, " \t");
	len = strlen(text);
	while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
		len--;
	if (len == 0 || len >= sizeof(buf))
		return fail(-EINVAL, why_form, ret_why);
	memcpy(buf, text, len);
	buf[len] = '\0';
	if (*buf == '@')
		return parse_span(buf + 1, ret_usec, ret_why);
	if (strcmp(buf, "now") == 0) {
		*ret_usec = now_usec;
		return 0;
	}
	if (*buf == '-' || *buf == '+')
		return add_span(buf + 1, *buf == '-', now_usec, ret_usec, ret_why);
	if (cut_word(buf, " ago"))
		return add_span(buf, true, now_usec, ret_usec, ret_why);
	if (cut_word(buf, " left"))
		return add_span(buf, false, now_usec, ret_usec, ret_why);
	return parse_calendar(buf, now_usec, ret_usec, ret_why);
}

bool when_local(uint64_t usec, struct tm *ret)
{
	return local_at((int64_t)(usec / USEC_PER_SEC), ret);
}
