/* SPDX-License-Identifier: MIT */
/*
 * A strict reader of expositions: what OpenMetrics 1.0 and the text format 0.0.4 demand of one, and of what both leave open
 * only what metrics_write() promises (metadata for all, no NaN, no exponents but in "le").
 */
#pragma once

#include <ctype.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "test.h"
#include "view/metrics.h"

struct exposition {
	enum metrics_format format;
	char family[128], type[16], sample[128]; /* of the current family; the name of its samples */
	bool has_type, has_unit, has_help, has_samples;
	char *names[256];  /* of all families */
	size_t names_len;
	char *series[100000]; /* name and sorted labels of each sample */
	size_t series_len;
	/* Of a histogram that is being read. */
	double le, cumulated;
	bool is_in_histogram;
	const char *problem;
};

static inline bool is_name(const char *s, size_t len, bool may_have_colon)
{
	for (size_t i = 0; i < len; i++)
		if (!isalpha((unsigned char)s[i]) && s[i] != '_' && !(i > 0 && isdigit((unsigned char)s[i])) &&
		    !(may_have_colon && s[i] == ':'))
			return false;
	return len > 0;
}

static inline bool is_utf8(const char *s)
{
	for (const unsigned char *p = (const unsigned char *)s; *p;) {
		int n = *p < 0x80 ? 0 : *p >= 0xc2 && *p < 0xe0 ? 1 : (*p & 0xf0) == 0xe0 ? 2 : *p >= 0xf0 && *p < 0xf5 ? 3 : -1;

		if (n < 0)
			return false;
		for (p++; n > 0; n--, p++)
			if ((*p & 0xc0) != 0x80)
				return false;
	}
	return true;
}

static inline bool ends_in(const char *name, const char *word)
{
	size_t n = strlen(name), w = strlen(word);

	return w > 0 && n > w && name[n - w - 1] == '_' && strcmp(name + n - w, word) == 0;
}

static inline void family_ends(struct exposition *e)
{
	if (e->family[0] && (!e->has_type || !e->has_help || !e->has_samples))
		e->problem = "a family without type, help or samples";
	if (e->is_in_histogram)
		e->problem = "a histogram without its count";
}

static inline void family_begins(struct exposition *e, const char *name, const char *type)
{
	const bool is_open = e->format == METRICS_OPENMETRICS;

	family_ends(e);
	for (size_t i = 0; i < e->names_len; i++)
		if (strcmp(e->names[i], name) == 0)
			e->problem = "a family stands twice, or in pieces";
	if (e->names_len == ARRAY_SIZE(e->names))
		abort();
	e->names[e->names_len++] = strdup(name);
	snprintf(e->family, sizeof(e->family), "%s", name);
	snprintf(e->type, sizeof(e->type), "%s", type);
	snprintf(e->sample, sizeof(e->sample), "%s%s", name,
		 !is_open ? "" : strcmp(type, "counter") == 0 ? "_total" : strcmp(type, "info") == 0 ? "_info" : "");
	e->has_type = true;
	e->has_unit = e->has_help = e->has_samples = false;
	if (!is_name(name, strlen(name), true))
		e->problem = "no name of a family";
	if (strcmp(type, "gauge") != 0 && strcmp(type, "counter") != 0 && strcmp(type, "histogram") != 0 &&
	    !(is_open && strcmp(type, "info") == 0))
		e->problem = "no such type";
	if (is_open && (ends_in(name, "total") || ends_in(name, "info")))
		e->problem = "a family has a suffix that only samples have";
}

/* "# TYPE name value", "# HELP ...", "# UNIT ..." in this order. */
static inline void read_metadata(struct exposition *e, char *line)
{
	char *what = line + 2, *name = strchr(what, ' '), *value = name ? strchr(name + 1, ' ') : NULL;

	if (!value) {
		e->problem = "no metadata";
		return;
	}
	*name++ = '\0';
	*value++ = '\0';
	if (strcmp(what, "TYPE") == 0) {
		family_begins(e, name, value);
		return;
	}
	if (strcmp(name, e->family) != 0 || e->has_samples || !value[0])
		e->problem = "metadata of another family, late or empty";
	if (strcmp(what, "UNIT") == 0) {
		if (e->format != METRICS_OPENMETRICS || e->has_unit || e->has_help || !ends_in(e->family, value))
			e->problem = "a unit that is not right";
		e->has_unit = true;
	} else if (strcmp(what, "HELP") == 0) {
		if (e->has_help || strpbrk(value, "\\\""))
			e->problem = "a help text that is not right";
		e->has_help = true;
	} else {
		e->problem = "no such metadata";
	}
}

/* The labels from behind "{" in order of their names, each of them ended by a tab. What is behind "}", or NULL. */
static inline char *read_labels(char *s, char *labels[16], size_t *ret_len)
{
	*ret_len = 0;
	if (*s == '}')
		return NULL; /* allowed, but not promised */
	for (;;) {
		char *key = s;

		s += strcspn(s, "=");
		if (!is_name(key, (size_t)(s - key), false) || strncmp(key, "__", 2) == 0 || s[0] != '=' || s[1] != '"')
			return NULL;
		for (s += 2; *s && *s != '"'; s++)
			if ((unsigned char)*s < 0x20 || (*s == '\\' && !strchr("n\"\\", *++s)))
				return NULL;
		if (*s != '"' || *ret_len == 16)
			return NULL;
		labels[(*ret_len)++] = key;
		s++;
		if (*s == '}')
			break;
		if (*s != ',')
			return NULL;
		*s++ = '\0';
	}
	*s++ = '\0';
	return s;
}

static inline int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline bool is_number(const char *s)
{
	s += *s == '-';
	if (!isdigit((unsigned char)*s))
		return false;
	s += strspn(s, "0123456789");
	if (*s == '.' && isdigit((unsigned char)s[1]))
		s += 1 + strspn(s + 1, "0123456789");
	return *s == '\0';
}

static inline void read_histogram(struct exposition *e, const char *suffix, const char *le, double value)
{
	if (strcmp(suffix, "_bucket") == 0) {
		double end = le ? strtod(le + 4, NULL) : -1; /* also of "+Inf" */

		if (!e->is_in_histogram)
			e->le = e->cumulated = 0;
		if (end <= e->le || value < e->cumulated)
			e->problem = "buckets that are not cumulated";
		e->le = end;
		e->cumulated = value;
		e->is_in_histogram = true;
	} else if (strcmp(suffix, "_count") == 0) {
		if (!e->is_in_histogram || e->le < 1e300 || value != e->cumulated)
			e->problem = "a count that is not that of its buckets";
		e->is_in_histogram = false;
	} else if (strcmp(suffix, "_sum") != 0 || !e->is_in_histogram) {
		e->problem = "not a sample of a histogram";
	}
}

static inline void read_sample(struct exposition *e, char *line)
{
	_cleanup_strbuf_ struct strbuf key = STRBUF_INIT;
	char *labels[16], *s = line + strcspn(line, "{ ");
	const size_t name_len = (size_t)(s - line), base = strlen(e->sample);
	const char *suffix, *le = NULL;
	size_t len = 0;

	if (!e->family[0] || name_len < base || strncmp(line, e->sample, base) != 0) {
		e->problem = "a sample outside of its family";
		return;
	}
	strbuf_add(&key, line, name_len);
	if (*s == '{') {
		*s = '\0';
		s = read_labels(s + 1, labels, &len);
		if (!s || *s != ' ') {
			e->problem = "labels that cannot be read";
			return;
		}
	}
	*s++ = '\0';
	suffix = line + base;
	qsort(labels, len, sizeof(*labels), by_text);
	for (size_t i = 0; i < len; i++) {
		if (i > 0 && strncmp(labels[i], labels[i - 1], strcspn(labels[i], "=") + 1) == 0)
			e->problem = "a label stands twice";
		if (strncmp(labels[i], "le=", 3) == 0)
			le = labels[i];
		strbuf_addc(&key, '\t');
		strbuf_adds(&key, labels[i]);
	}
	if (!is_number(s))
		e->problem = "not a number, or one that is not promised";
	if (e->type[0] != 'g' && s[0] == '-')
		e->problem = "a negative count";
	if (strcmp(e->type, "info") == 0 && strcmp(s, "1") != 0)
		e->problem = "an info that is not 1";
	if (strcmp(e->type, "histogram") == 0)
		read_histogram(e, suffix, le, strtod(s, NULL));
	else if (*suffix || le)
		e->problem = "a suffix or a bucket outside of a histogram";
	e->has_samples = true;
	if (e->series_len == ARRAY_SIZE(e->series))
		abort();
	e->series[e->series_len++] = strdup(strbuf_str(&key));
}

static inline void find_duplicates(struct exposition *e)
{
	qsort(e->series, e->series_len, sizeof(*e->series), by_text);
	for (size_t i = 1; i < e->series_len; i++)
		if (strcmp(e->series[i], e->series[i - 1]) == 0) {
			printf("# %s stands twice\n", e->series[i]);
			e->problem = "the same series twice";
		}
}

/* Why it is not a good one, after saying where; NULL = it is. */
static inline const char *exposition_problem(const char *text, enum metrics_format format)
{
	_cleanup_free_ struct exposition *e = calloc(1, sizeof(*e));
	_cleanup_free_ char *copy = strdup(text);
	bool is_ended = false;

	if (!e || !copy)
		abort();
	e->format = format;
	if (!is_utf8(text) || strchr(text, '\r') || (text[0] && text[strlen(text) - 1] != '\n'))
		e->problem = "no lines of UTF-8";
	for (char *line = copy, *end; !e->problem && *line; line = end) {
		const size_t len = strcspn(line, "\n");
		_cleanup_free_ char *shown = strndup(line, len);

		end = line + len;
		if (*end)
			*end++ = '\0';
		if (is_ended)
			e->problem = "text behind the end";
		else if (format == METRICS_OPENMETRICS && strcmp(line, "# EOF") == 0)
			is_ended = true;
		else if (line[0] == '#' && line[1] == ' ')
			read_metadata(e, line);
		else
			read_sample(e, line);
		if (e->problem)
			printf("# at: %s\n", shown);
	}
	if (!e->problem)
		family_ends(e);
	if (!e->problem && is_ended != (format == METRICS_OPENMETRICS))
		e->problem = "no end, or one that the format does not have";
	if (!e->problem)
		find_duplicates(e);
	for (size_t i = 0; i < e->series_len; i++)
		free(e->series[i]);
	for (size_t i = 0; i < e->names_len; i++)
		free(e->names[i]);
	return e->problem;
}
