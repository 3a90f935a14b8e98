/* SPDX-License-Identifier: MIT */
#include "view/metrics.h"

#include <string.h>
#include <strings.h>

#include "view/metrics_text.h"

void metrics_write(const struct view *v, const struct metrics_options *o, struct strbuf *sb)
{
	struct metrics_out out = { .sb = sb, .format = o->format };

	metrics_devices(&out, v);
	metrics_processes(&out, v, o);
	metrics_incidents(&out, v);
	metrics_calls(&out, v);
	metrics_totals(&out, v);
	if (o->format == METRICS_OPENMETRICS)
		strbuf_adds(sb, "# EOF\n");
}

const char *metrics_content_type(enum metrics_format f)
{
	return f == METRICS_OPENMETRICS ? "application/openmetrics-text; version=1.0.0; charset=utf-8" :
					  "text/plain; version=0.0.4; charset=utf-8";
}

/* ---- the Accept header */

/* What a client says of one media type. */
struct range {
	const char *type; /* not terminated */
	size_t type_len;
	const char *version; /* NULL = none named */
	size_t version_len;
	unsigned int quality; /* thousandths */
};

static const char *skip_spaces(const char *s)
{
	return s + strspn(s, " \t");
}

static bool is_text(const char *s, size_t len, const char *want)
{
	return len == strlen(want) && strncasecmp(s, want, len) == 0;
}

/* "1", "0.5", "0.125" in thousandths; 0 for what is no such number, as who wrote it wants no guess. */
static unsigned int parse_quality(const char *s, size_t len)
{
	unsigned int n = 0, scale = 1000;

	for (size_t i = 0; i < len && scale > 0; i++) {
		if (i == 1 && s[i] == '.')
			continue;
		if (s[i] < '0' || s[i] > '9')
			return 0;
		n += scale * (unsigned int)(s[i] - '0');
		scale /= 10;
	}
	return MIN(n, 1000u);
}

/* The value of a parameter, which may be in quotes; returns what is behind it. */
static const char *parse_value(const char *s, const char **ret, size_t *ret_len)
{
	const bool is_quoted = *s == '"';

	s += is_quoted;
	*ret = s;
	*ret_len = strcspn(s, is_quoted ? "\"" : " \t;,");
	s += *ret_len;
	return s + (is_quoted && *s == '"');
}

/* One element of the list; returns what is behind it. */
static const char *parse_range(const char *s, struct range *ret)
{
	s = skip_spaces(s);
	*ret = (struct range){ .type = s, .type_len = strcspn(s, " \t;,"), .quality = 1000 };
	s = skip_spaces(s + ret->type_len);
	while (*s == ';') {
		const char *name = skip_spaces(s + 1), *value = "";
		const size_t name_len = strcspn(name, "=;, \t");
		size_t value_len = 0;

		s = skip_spaces(name + name_len);
		if (*s == '=')
			s = skip_spaces(parse_value(skip_spaces(s + 1), &value, &value_len));
		if (is_text(name, name_len, "q"))
			ret->quality = parse_quality(value, value_len);
		else if (is_text(name, name_len, "version")) {
			ret->version = value;
			ret->version_len = value_len;
		}
	}
	s += strcspn(s, ",");
	return s + (*s == ',');
}

static bool is_version(const struct range *r, const char *want)
{
	return !r->version || is_text(r->version, r->version_len, want);
}

enum metrics_format metrics_negotiate(const char *accept)
{
	unsigned int open = 0, plain = 0;

	for (const char *s = accept ?: ""; *s;) {
		struct range r;

		s = parse_range(s, &r);
		if (is_text(r.type, r.type_len, "application/openmetrics-text") && is_version(&r, "1.0.0"))
			open = MAX(open, r.quality);
		else if (is_text(r.type, r.type_len, "text/plain") && is_version(&r, "0.0.4"))
			plain = MAX(plain, r.quality);
	}
	/* Whoever does not name it, a browser or curl, gets what is easier to read. */
	return open > 0 && open >= plain ? METRICS_OPENMETRICS : METRICS_PROMETHEUS;
}
