/* SPDX-License-Identifier: MIT */
#include "rule/conf.h"

#include <stdarg.h>
#include <string.h>

static int conf_syntax_error(const struct conf *c, struct errors *errors)
{
	const struct conf_part *part = conf_text_part(&c->text, config_error_line(&c->cfg));
	const char *text = config_error_text(&c->cfg), *hint = "";

	if (!text)
		text = "cannot be parsed";
	if (strcmp(text, "syntax error") == 0)
		hint = " at this line or just before it: a missing \";\", quote or bracket, or a comma before \")\"?";
	else if (strcmp(text, "duplicate setting name") == 0)
		hint = ": remove one of the two";
	return errors_add(errors, part->file, config_error_line(&c->cfg) - part->line + part->file_line, "%s%s", text,
			  hint);
}

/* libconfig saw one text: each setting is told the file and line that it came from. No deeper than CONF_DEPTH_MAX. */
static void conf_place(const struct conf *c, config_setting_t *s)
{
	const struct conf_part *part = conf_text_part(&c->text, (int)s->line);

	s->file = part->file;
	s->line = s->line - (unsigned)part->line + (unsigned)part->file_line;
	for (int i = 0; config_setting_is_aggregate(s) && i < config_setting_length(s); i++)
		conf_place(c, config_setting_get_elem(s, (unsigned)i));
}

/* Takes path and dir. */
static int conf_new(char *path, char *dir, struct conf **ret)
{
	_cleanup_(conf_freep) struct conf *c = calloc(1, sizeof(*c));

	if (!c || !path) {
		free(path);
		free(dir);
		return -ENOMEM;
	}
	c->path = path;
	c->dir = dir;
	config_init(&c->cfg);
	if (!c->cfg.root)
		return -ENOMEM;
	*ret = TAKE_PTR(c);
	return 0;
}

static int conf_read(struct conf *c, struct errors *errors)
{
	if (!config_read_string(&c->cfg, strbuf_str(&c->text.sb)))
		return conf_syntax_error(c, errors);
	if (c->text.len > 1)
		conf_place(c, config_root_setting(&c->cfg));
	config_setting_set_hook(config_root_setting(&c->cfg), c);
	strbuf_done(&c->text.sb);
	return 0;
}

int conf_load(const char *path, unsigned flags, struct errors *errors, struct conf **ret)
{
	_cleanup_(conf_freep) struct conf *c = NULL;
	const char *slash = strrchr(path, '/');
	char *dir;
	int r;

	dir = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
	if (!dir)
		return -ENOMEM;
	r = conf_new(strdup(path), dir, &c);
	if (r == 0)
		r = conf_text_load(path, flags, dir, errors, &c->text);
	if (r == 0)
		r = conf_read(c, errors);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(c);
	return 0;
}

int conf_parse(const char *name, const char *text, struct errors *errors, struct conf **ret)
{
	_cleanup_(conf_freep) struct conf *c = NULL;
	int r;

	r = conf_new(strdup(name), NULL, &c);
	if (r == 0)
		r = conf_text_parse(name, text, errors, &c->text);
	if (r == 0)
		r = conf_read(c, errors);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(c);
	return 0;
}

void conf_free(struct conf *c)
{
	if (!c)
		return;
	if (c->cfg.root)
		config_destroy(&c->cfg);
	conf_text_done(&c->text);
	free(c->path);
	free(c->dir);
	free(c);
}

config_setting_t *conf_root(const struct conf *c)
{
	return config_root_setting(&c->cfg);
}

bool conf_is_empty(const struct conf *c)
{
	return config_setting_length(conf_root(c)) == 0;
}

int conf_source(const config_setting_t *s, char **ret_file, int *ret_line)
{
	const struct conf *c = config_setting_get_hook(config_root_setting(s->config));
	const char *file = config_setting_source_file(s);

	*ret_file = strdup(file ? file : c->path);
	if (!*ret_file)
		return -ENOMEM;
	*ret_line = (int)config_setting_source_line(s);
	return 0;
}

char *conf_where(const config_setting_t *s)
{
	_cleanup_free_ char *file = NULL;
	char *where;
	int line;

	if (conf_source(s, &file, &line) < 0 || asprintf(&where, "%s:%d", file, line) < 0)
		return NULL;
	return where;
}

static int _printf_(4, 0)
	conf_report(struct errors *errors, const config_setting_t *s, bool is_warning, const char *fmt, va_list ap)
{
	_cleanup_free_ char *file = NULL, *text = NULL;
	int line = 0;

	if (conf_source(s, &file, &line) < 0)
		return -ENOMEM;
	if (vasprintf(&text, fmt, ap) < 0) {
		text = NULL;
		return -ENOMEM;
	}
	if (!is_warning)
		return errors_add(errors, file, line, "%s", text);
	errors_warn(errors, file, line, "%s", text);
	return 0;
}

int conf_error(struct errors *errors, const config_setting_t *s, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = conf_report(errors, s, false, fmt, ap);
	va_end(ap);
	return r;
}

void conf_warn(struct errors *errors, const config_setting_t *s, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)conf_report(errors, s, true, fmt, ap);
	va_end(ap);
}
