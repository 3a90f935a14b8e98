/* SPDX-License-Identifier: MIT */
/* The rules that are tested: files, or written in the test as in a rule file. */
#include <errno.h>
#include <string.h>

#include "replay/rule_test_private.h"
#include "rule/rule.h"

#define LINES_MAX 1000000

/* Settings as text again, each in the line it came from, so that the errors of who reads it name the right one. */
struct writer {
	struct strbuf sb;
	unsigned int line;
};

static void write_setting(struct writer *w, const config_setting_t *s);

static void go_to_line(struct writer *w, const config_setting_t *s)
{
	unsigned int line = config_setting_source_line(s);

	for (; w->line < line && w->line < LINES_MAX; w->line++)
		strbuf_addc(&w->sb, '\n');
}

static void write_string(struct writer *w, const char *text)
{
	strbuf_addc(&w->sb, '"');
	for (const char *p = text; *p; p++) {
		if ((unsigned char)*p < ' ')
			strbuf_addf(&w->sb, "\\x%02x", (unsigned)(unsigned char)*p);
		else if (*p == '"' || *p == '\\')
			strbuf_addf(&w->sb, "\\%c", *p);
		else
			strbuf_addc(&w->sb, *p);
	}
	strbuf_addc(&w->sb, '"');
}

static void write_elements(struct writer *w, const config_setting_t *s, char open, char close)
{
	int len = config_setting_length(s);

	strbuf_addc(&w->sb, open);
	for (int i = 0; i < len; i++) {
		write_setting(w, config_setting_get_elem(s, (unsigned)i));
		if (open != '{' && i + 1 < len)
			strbuf_addc(&w->sb, ',');
	}
	strbuf_addc(&w->sb, close);
}

static void write_float(struct writer *w, double value)
{
	size_t start = w->sb.len;

	strbuf_addf(&w->sb, "%.17g", value);
	/* Without a point it would be a whole number. */
	if (!w->sb.error && strcspn(w->sb.buf + start, ".e") == w->sb.len - start)
		strbuf_adds(&w->sb, ".0");
}

static void write_setting(struct writer *w, const config_setting_t *s)
{
	go_to_line(w, s);
	if (config_setting_name(s))
		strbuf_addf(&w->sb, "%s = ", config_setting_name(s));
	switch (config_setting_type(s)) {
	case CONFIG_TYPE_INT:
		strbuf_addf(&w->sb, "%d", config_setting_get_int(s));
		break;
	case CONFIG_TYPE_INT64:
		strbuf_addf(&w->sb, "%lldL", (long long)config_setting_get_int64(s));
		break;
	case CONFIG_TYPE_FLOAT:
		write_float(w, config_setting_get_float(s));
		break;
	case CONFIG_TYPE_STRING:
		write_string(w, config_setting_get_string(s));
		break;
	case CONFIG_TYPE_BOOL:
		strbuf_adds(&w->sb, config_setting_get_bool(s) ? "true" : "false");
		break;
	case CONFIG_TYPE_ARRAY:
		write_elements(w, s, '[', ']');
		break;
	case CONFIG_TYPE_LIST:
		write_elements(w, s, '(', ')');
		break;
	default:
		write_elements(w, s, '{', '}');
		break;
	}
	if (config_setting_name(s))
		strbuf_adds(&w->sb, "; ");
}

/* By line: those of a test may stand before or behind what all tests share. */
static int by_line(const void *a, const void *b)
{
	const config_setting_t *x = *(const config_setting_t *const *)a, *y = *(const config_setting_t *const *)b;
	unsigned int i = config_setting_source_line(x), k = config_setting_source_line(y);

	return i < k ? -1 : i > k;
}

static int check_included(struct rule_test *t, const config_setting_t *s)
{
	const char *file = config_setting_source_file(s);

	/* Lines of two files cannot be told apart in one text. */
	if (file && strcmp(file, t->conf->path) != 0)
		return conf_error(t->errors, s, "rules in an included file: name it in rules = [ \"FILE\" ]; instead");
	for (int i = 0; config_setting_is_aggregate(s) && i < config_setting_length(s); i++) {
		int r = check_included(t, config_setting_get_elem(s, (unsigned)i));

		if (r < 0)
			return r;
	}
	return 0;
}

static int load_inline(struct rule_test *t, const config_setting_t *rules)
{
	const config_setting_t *parts[] = { rules, test_setting(t, "defaults"), test_setting(t, "lists") };
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct writer w = { .line = 1 };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts) && r == 0; i++)
		r = parts[i] ? check_included(t, parts[i]) : 0;
	if (r < 0)
		return r;
	strbuf_adds(&w.sb, "version = 1; ");
	/* Those that are not there sort first. */
	for (size_t i = 1; i < ARRAY_SIZE(parts); i++)
		parts[i] = parts[i] ? parts[i] : parts[0];
	qsort(parts, ARRAY_SIZE(parts), sizeof(*parts), by_line);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (i == 0 || parts[i] != parts[i - 1])
			write_setting(&w, parts[i]);
	text = w.sb;
	if (text.error)
		return text.error;
	return ruleset_parse(t->conf->path, text.buf, t->errors, &t->rules);
}

static int load_files(struct rule_test *t, const config_setting_t *s)
{
	_cleanup_free_ char **paths = NULL;
	size_t len = 0;
	int r;

	r = conf_strings(t->errors, s, &len);
	if (r < 0)
		return r;
	if (len == 0)
		return conf_error(t->errors, s, "rules names no file");
	paths = calloc(len, sizeof(*paths));
	if (!paths)
		return -ENOMEM;
	for (size_t i = 0; i < len && r == 0; i++) {
		const config_setting_t *e;
		const char *path = conf_strings_get(s, i, &e);

		r = test_path(t, e, path, &paths[i]);
	}
	if (r == 0)
		r = ruleset_load("", paths, len, t->errors, &t->rules);
	for (size_t i = 0; i < len; i++)
		free(paths[i]);
	return r;
}

int test_load_rules(struct rule_test *t)
{
	const config_setting_t *s = test_setting(t, "rules");

	if (!s)
		return conf_error(t->errors, t->group,
				  "rules is missing: rules = [ \"FILE\" ]; or rules = ( { name = ...; } ); as in a "
				  "rule file");
	if (config_setting_is_list(s) && config_setting_length(s) > 0 &&
	    config_setting_is_group(config_setting_get_elem(s, 0)))
		return load_inline(t, s);
	return load_files(t, s);
}
