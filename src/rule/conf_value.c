/* SPDX-License-Identifier: MIT */
/* Typed values out of a libconfig file. */
#include <string.h>

#include "base/strbuf.h"
#include "base/units.h"
#include "rule/conf.h"

#define SUGGEST_MAX 40 /* bytes of a word worth comparing */
#define SUGGEST_NAMES_MAX 1000 /* names worth comparing with: more may be the rules of a large file */
#define KNOWN_NAMES_MAX 64 /* names worth listing */

const char *conf_name(const config_setting_t *s)
{
	while (s && !config_setting_name(s))
		s = config_setting_parent(s);
	return s ? config_setting_name(s) : "value";
}

int conf_string(struct errors *errors, const config_setting_t *s, const char **ret)
{
	if (config_setting_type(s) != CONFIG_TYPE_STRING)
		return conf_error(errors, s, "%s needs a string in double quotes", conf_name(s));
	*ret = config_setting_get_string(s);
	return 0;
}

int conf_bool(struct errors *errors, const config_setting_t *s, bool *ret)
{
	if (config_setting_type(s) != CONFIG_TYPE_BOOL)
		return conf_error(errors, s, "%s needs true or false, without quotes", conf_name(s));
	*ret = config_setting_get_bool(s);
	return 0;
}

int conf_group(struct errors *errors, const config_setting_t *s)
{
	if (!config_setting_is_group(s))
		return conf_error(errors, s, "%s needs a group: { key = value; ... }", conf_name(s));
	return 0;
}

int conf_count(struct errors *errors, const config_setting_t *s, uint32_t min, uint32_t max, uint32_t *ret)
{
	long long value;

	if (config_setting_type(s) == CONFIG_TYPE_INT)
		value = config_setting_get_int(s);
	else if (config_setting_type(s) == CONFIG_TYPE_INT64)
		value = config_setting_get_int64(s);
	else
		return conf_error(errors, s, "%s needs a plain number, without quotes or unit", conf_name(s));
	if (value < min || value > max)
		return conf_error(errors, s, "%s = %lld is out of range: it goes from %u to %u", conf_name(s), value,
				  min, max);
	*ret = (uint32_t)value;
	return 0;
}

int conf_fraction(struct errors *errors, const config_setting_t *s, double *ret)
{
	double value;

	if (config_setting_type(s) == CONFIG_TYPE_FLOAT)
		value = config_setting_get_float(s);
	else if (config_setting_type(s) == CONFIG_TYPE_INT)
		value = config_setting_get_int(s);
	else
		return conf_error(errors, s, "%s is a fraction: write a plain number from 0 to 1, such as 0.9",
				  conf_name(s));
	/* So written that a NaN fails too. */
	if (!(value >= 0 && value <= 1))
		return conf_error(errors, s, "%s is out of range: it goes from 0 to 1", conf_name(s));
	*ret = value;
	return 0;
}

int conf_duration(struct errors *errors, const config_setting_t *s, uint64_t min_ns, uint64_t max_ns, uint64_t *ret)
{
	char low[FORMAT_UNITS_MAX], high[FORMAT_UNITS_MAX];
	const char *text;
	uint64_t ns = 0;
	int r;

	if (config_setting_type(s) != CONFIG_TYPE_STRING)
		return conf_error(errors, s, "%s is a time: write a string with a unit, such as \"30s\"", conf_name(s));
	text = config_setting_get_string(s);
	r = parse_duration(text, &ns);
	if (r == -EINVAL)
		return conf_error(errors, s,
				  "%s = \"%s\" is not a time: write a number and ms, s, m, h or d, such as \"1m30s\"",
				  conf_name(s), text);
	if (r < 0 || ns < min_ns || ns > max_ns)
		return conf_error(errors, s, "%s = \"%s\" is out of range: it goes from %s to %s", conf_name(s), text,
				  format_duration(low, min_ns), format_duration(high, max_ns));
	*ret = ns;
	return 0;
}

int conf_size(struct errors *errors, const config_setting_t *s, uint64_t *ret)
{
	const char *text;
	uint64_t bytes = 0;
	int r;

	if (config_setting_is_number(s))
		return conf_error(errors, s, "%s is a size: a bare number does not say of what, write \"100MiB\"",
				  conf_name(s));
	r = conf_string(errors, s, &text);
	if (r < 0)
		return r;
	r = parse_size(text, &bytes);
	if (r == -ERANGE)
		return conf_error(errors, s, "%s = \"%s\" is too large", conf_name(s), text);
	if (r < 0)
		return conf_error(errors, s,
				  "%s = \"%s\" is not a size: write a number and B, KiB, MiB, GiB or TiB, "
				  "such as \"100MiB\"",
				  conf_name(s), text);
	*ret = bytes;
	return 0;
}

int conf_strings(struct errors *errors, const config_setting_t *s, size_t *ret_len)
{
	int len, r = 0;

	if (config_setting_type(s) == CONFIG_TYPE_STRING) {
		*ret_len = 1;
		return 0;
	}
	if (!config_setting_is_array(s) && !config_setting_is_list(s))
		return conf_error(errors, s, "%s needs a string or a list of strings: [ \"one\", \"two\" ]",
				  conf_name(s));
	len = config_setting_length(s);
	if (len > CONF_STRINGS_MAX)
		return conf_error(errors, s, "%s holds %d strings, more than %d: most can be one pattern", conf_name(s),
				  len, CONF_STRINGS_MAX);
	for (int i = 0; i < len; i++) {
		const config_setting_t *e = config_setting_get_elem(s, (unsigned)i);

		if (config_setting_type(e) != CONFIG_TYPE_STRING)
			r = conf_error(errors, e, "%s may hold strings only", conf_name(s));
	}
	if (r < 0)
		return r;
	*ret_len = (size_t)len;
	return 0;
}

const char *conf_strings_get(const config_setting_t *s, size_t i, const config_setting_t **ret_elem)
{
	const config_setting_t *e = s;

	if (config_setting_is_aggregate(s))
		e = config_setting_get_elem(s, (unsigned)i);
	if (ret_elem)
		*ret_elem = e;
	return config_setting_get_string(e);
}

int conf_strings_copy(struct errors *errors, const config_setting_t *s, char ***ret, size_t *ret_len)
{
	size_t len = 0;
	char **list;
	int r;

	r = conf_strings(errors, s, &len);
	if (r < 0)
		return r;
	list = calloc(len + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < len; i++) {
		list[i] = strdup(conf_strings_get(s, i, NULL));
		if (!list[i]) {
			while (i-- > 0)
				free(list[i]);
			free(list);
			return -ENOMEM;
		}
	}
	*ret = list;
	*ret_len = len;
	return 0;
}

/* Levenshtein distance; both at most SUGGEST_MAX bytes. Gives up at limit, which is then returned. */
static unsigned edit_distance(const char *a, const char *b, unsigned limit)
{
	unsigned row[SUGGEST_MAX + 1];
	size_t n = strlen(a), m = strlen(b);

	if (MAX(n, m) - MIN(n, m) >= limit)
		return limit;

	for (size_t j = 0; j <= m; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++) {
		/* Further off the diagonal it is limit or more. */
		size_t first = i >= limit ? i - limit + 1 : 1, last = MIN(m, i + limit - 1);
		unsigned diagonal = row[first - 1], least;

		row[first - 1] = first == 1 ? (unsigned)i : limit;
		least = row[first - 1];
		for (size_t j = first; j <= last; j++) {
			unsigned change = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			row[j] = MIN(change, MIN(row[j], row[j - 1]) + 1);
			least = MIN(least, row[j]);
		}
		/* It never falls from row to row. */
		if (least >= limit)
			return limit;
	}
	return row[m];
}

const char *conf_suggest(const char *word, const char *const *names)
{
	const char *best = NULL;
	unsigned best_distance = 3;

	if (strlen(word) > SUGGEST_MAX)
		return NULL;
	for (size_t i = 0; *names && i < SUGGEST_NAMES_MAX; names++, i++) {
		unsigned d;

		if (strlen(*names) > SUGGEST_MAX)
			continue;
		d = edit_distance(word, *names, best_distance);
		/* As many edits as letters would make anything of anything. */
		if (d < best_distance && d < strlen(*names) && d < strlen(word)) {
			best = *names;
			best_distance = d;
		}
	}
	return best;
}

int conf_unknown(struct errors *errors, const config_setting_t *s, const char *what, const char *word,
		 const char *const *names)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const char *guess;

	/* Nobody will see it: a guess for each of ten thousand is not worth the time. */
	if (errors->len >= ERRORS_MAX)
		return conf_error(errors, s, "unknown %s \"%s\"", what, word);
	guess = conf_suggest(word, names);
	if (guess)
		return conf_error(errors, s, "unknown %s \"%s\": did you mean \"%s\"?", what, word, guess);
	for (size_t i = 0; names[i]; i++) {
		if (i == KNOWN_NAMES_MAX) {
			strbuf_adds(&sb, " and more");
			break;
		}
		strbuf_addf(&sb, "%s%s", i > 0 ? ", " : "", names[i]);
	}
	if (sb.error)
		return sb.error;
	return conf_error(errors, s, "unknown %s \"%s\": known are %s", what, word, sb.len > 0 ? sb.buf : "none");
}
