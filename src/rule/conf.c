/* SPDX-License-Identifier: MIT */
#include "rule/conf.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "rule/conf_scan.h"

static bool is_dev_null(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
}

/* The text of a file that is safe to hand to libconfig. by is the file that includes it, NULL for the first. */
static int conf_read(const char *path, unsigned flags, const char *by, int by_line, struct errors *errors, char **ret)
{
	const char *file = by ? by : path;
	_cleanup_free_ char *text = NULL;
	struct stat st;
	size_t len = 0;
	int r;

	if (stat(path, &st) < 0) {
		r = -errno;
	} else if (S_ISDIR(st.st_mode)) {
		return errors_add(errors, file, by_line, "%s is a directory where a file is wanted", path);
	} else if (!S_ISREG(st.st_mode) && !is_dev_null(&st) && !(flags & CONF_F_SPECIAL && S_ISFIFO(st.st_mode))) {
		return errors_add(errors, file, by_line, "%s is not a regular file", path);
	} else {
		r = file_read(AT_FDCWD, path, CONF_SIZE_MAX, &text, &len);
	}
	if (r == -ENOMEM)
		return r;
	if (r == -E2BIG)
		return errors_add(errors, file, by_line, "%s is larger than 1 MiB: split it into several files", path);
	if (r < 0 && by)
		return errors_add(errors, file, by_line, "cannot include %s: %s", path, strerror(-r));
	if (r < 0)
		return errors_add(errors, file, 0, "cannot read it: %s", strerror(-r));
	r = scan_bytes(path, text, len, errors);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(text);
	return 0;
}

/* Chain of files being included, innermost first. */
struct include_chain {
	const char *path;
	const struct include_chain *by;
};

static int conf_check_includes(const char *path, const char *dir, const char *text, const struct include_chain *by,
			       int depth, struct errors *errors);

static int conf_check_include(const char *path, const char *dir, const struct scan_include *inc,
			      const struct include_chain *chain, int depth, struct errors *errors)
{
	_cleanup_free_ char *target = NULL, *text = NULL;
	int r;

	if (!dir)
		return errors_add(errors, path, inc->line, "@include is not possible here");
	if (inc->path[0] == '/')
		return errors_add(errors, path, inc->line, "@include \"%s\" is absolute: write it relative to %s",
				  inc->path, dir);
	if (inc->path[0] == '\0' || strchr(inc->path, '\\'))
		return errors_add(errors, path, inc->line, "@include needs a plain file name");
	if (asprintf(&target, "%s/%s", dir, inc->path) < 0) {
		target = NULL;
		return -ENOMEM;
	}
	for (const struct include_chain *c = chain; c; c = c->by) {
		if (strcmp(c->path, target) == 0)
			return errors_add(errors, path, inc->line, "@include \"%s\" goes in a circle", inc->path);
	}
	if (depth >= CONF_INCLUDE_MAX)
		return errors_add(errors, path, inc->line, "@include is nested more than %d files deep",
				  CONF_INCLUDE_MAX);
	r = conf_read(target, 0, path, inc->line, errors, &text);
	if (r < 0)
		return r;
	return conf_check_includes(target, dir, text, chain, depth + 1, errors);
}

/* What libconfig would open by itself is looked at first, so that a pipe, a device or a circle cannot hold it. */
static int conf_check_includes(const char *path, const char *dir, const char *text, const struct include_chain *by,
			       int depth, struct errors *errors)
{
	const struct include_chain chain = { path, by };
	struct scan_include *list = NULL;
	size_t len = 0;
	int r, ret = 0;

	r = scan_text(path, text, errors, &list, &len);
	if (r < 0)
		return r;
	for (size_t i = 0; i < len; i++) {
		r = conf_check_include(path, dir, &list[i], &chain, depth, errors);
		if (r == -ENOMEM || ret == 0)
			ret = r;
		if (r == -ENOMEM)
			break;
	}
	scan_includes_free(list, len);
	return ret;
}

/* libconfig names an included file as written (1.5) or joined to the directory (1.6 and later). 0 or -ENOMEM. */
static int conf_file_name(const struct conf *c, const char *file, char **ret)
{
	char *name = NULL;

	if (!file)
		name = strdup(c->path);
	else if (!c->dir || strncmp(file, c->dir, strlen(c->dir)) == 0)
		name = strdup(file);
	else if (asprintf(&name, "%s/%s", c->dir, file) < 0)
		name = NULL;
	if (!name)
		return -ENOMEM;
	*ret = name;
	return 0;
}

static int conf_syntax_error(const struct conf *c, struct errors *errors)
{
	const char *text = config_error_text(&c->cfg), *hint = "";
	_cleanup_free_ char *file = NULL;

	if (conf_file_name(c, config_error_file(&c->cfg), &file) < 0)
		return -ENOMEM;
	if (!text)
		text = "cannot be parsed";
	if (strcmp(text, "syntax error") == 0)
		hint = " at this line or just before it: a missing \";\", quote or bracket, or a comma before \")\"?";
	else if (strcmp(text, "duplicate setting name") == 0)
		hint = ": remove one of the two";
	return errors_add(errors, file, config_error_line(&c->cfg), "%s%s", text, hint);
}

/* Takes path and dir. */
static int conf_new(char *path, char *dir, const char *text, struct errors *errors, struct conf **ret)
{
	_cleanup_(conf_freep) struct conf *c = calloc(1, sizeof(*c));
	int r;

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
	r = conf_check_includes(path, dir, text, NULL, 0, errors);
	if (r < 0)
		return r;
	if (dir)
		config_set_include_dir(&c->cfg, dir);
	if (!config_read_string(&c->cfg, text))
		return conf_syntax_error(c, errors);
	config_setting_set_hook(config_root_setting(&c->cfg), c);
	*ret = TAKE_PTR(c);
	return 0;
}

int conf_load(const char *path, unsigned flags, struct errors *errors, struct conf **ret)
{
	_cleanup_free_ char *text = NULL;
	const char *slash = strrchr(path, '/');
	char *dir;
	int r;

	r = conf_read(path, flags, NULL, 0, errors, &text);
	if (r < 0)
		return r;
	dir = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
	if (!dir)
		return -ENOMEM;
	return conf_new(strdup(path), dir, text, errors, ret);
}

int conf_parse(const char *name, const char *text, struct errors *errors, struct conf **ret)
{
	int r;

	r = scan_bytes(name, text, strlen(text), errors);
	if (r < 0)
		return r;
	return conf_new(strdup(name), NULL, text, errors, ret);
}

void conf_free(struct conf *c)
{
	if (!c)
		return;
	if (c->cfg.root)
		config_destroy(&c->cfg);
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
	int r;

	r = conf_file_name(c, config_setting_source_file(s), ret_file);
	if (r < 0)
		return r;
	*ret_line = (int)s->line;
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
