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

/* The text of a file that is safe to hand to libconfig, and which file that was. by is the file that includes it, NULL
 * for the first. */
static int conf_read(const char *path, unsigned flags, const char *by, int by_line, struct errors *errors, char **ret,
		     struct stat *ret_st)
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
	*ret_st = st;
	return 0;
}

/* Chain of files being included, innermost first. Known by what they are: the same may go by many names. */
struct include_chain {
	dev_t dev;
	ino_t ino;
	const struct include_chain *by;
};

/* What one file makes us read. */
struct load {
	const char *dir; /* NULL = no includes */
	struct errors *errors;
	unsigned files;
	size_t bytes;
	bool is_over; /* too much, which has been told */
};

static int conf_check_includes(struct load *l, const char *path, const char *text, const struct include_chain *chain,
			       int depth);

/* A file that is named ten times in each of ten files is read a hundred times. */
static int conf_count_include(struct load *l, const char *path, int line, const char *text)
{
	l->bytes += strlen(text);
	if (l->files < CONF_FILES_MAX && l->bytes <= CONF_TOTAL_MAX) {
		l->files++;
		return 0;
	}
	l->is_over = true;
	if (l->files >= CONF_FILES_MAX)
		return errors_add(l->errors, path, line, "more than %d files are included in all", CONF_FILES_MAX);
	return errors_add(l->errors, path, line,
			  "with what is included this is larger than %u MiB: split it into several files",
			  CONF_TOTAL_MAX >> 20);
}

static int conf_check_include(struct load *l, const char *path, const struct scan_include *inc,
			      const struct include_chain *chain, int depth)
{
	_cleanup_free_ char *target = NULL, *text = NULL;
	struct include_chain here = { .by = chain };
	struct errors *errors = l->errors;
	struct stat st;
	int r;

	if (!l->dir)
		return errors_add(errors, path, inc->line, "@include is not possible here");
	if (inc->path[0] == '/')
		return errors_add(errors, path, inc->line, "@include \"%s\" is absolute: write it relative to %s",
				  inc->path, l->dir);
	if (inc->path[0] == '\0' || strchr(inc->path, '\\'))
		return errors_add(errors, path, inc->line, "@include needs a plain file name");
	if (asprintf(&target, "%s/%s", l->dir, inc->path) < 0) {
		target = NULL;
		return -ENOMEM;
	}
	if (depth >= CONF_INCLUDE_MAX)
		return errors_add(errors, path, inc->line, "@include is nested more than %d files deep",
				  CONF_INCLUDE_MAX);
	r = conf_read(target, 0, path, inc->line, errors, &text, &st);
	if (r < 0)
		return r;
	here.dev = st.st_dev;
	here.ino = st.st_ino;
	for (const struct include_chain *c = chain; c; c = c->by) {
		if (c->dev == here.dev && c->ino == here.ino)
			return errors_add(errors, path, inc->line, "@include \"%s\" goes in a circle", inc->path);
	}
	r = conf_count_include(l, path, inc->line, text);
	if (r < 0)
		return r;
	return conf_check_includes(l, target, text, &here, depth + 1);
}

/* What libconfig would open by itself is looked at first, so that a pipe, a device or a circle cannot hold it. */
static int conf_check_includes(struct load *l, const char *path, const char *text, const struct include_chain *chain,
			       int depth)
{
	struct scan_include *list = NULL;
	size_t len = 0;
	int r, ret = 0;

	r = scan_text(path, text, l->errors, &list, &len);
	if (r < 0)
		return r;
	for (size_t i = 0; i < len && !l->is_over; i++) {
		r = conf_check_include(l, path, &list[i], chain, depth);
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

/* Takes path and dir. first: the file, NULL where it is none. */
static int conf_new(char *path, char *dir, const char *text, const struct include_chain *first, struct errors *errors,
		    struct conf **ret)
{
	_cleanup_(conf_freep) struct conf *c = calloc(1, sizeof(*c));
	struct load l = { .dir = dir, .errors = errors, .bytes = strlen(text) };
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
	r = conf_check_includes(&l, path, text, first, 0);
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
	struct include_chain first = { 0 };
	struct stat st;
	char *dir;
	int r;

	r = conf_read(path, flags, NULL, 0, errors, &text, &st);
	if (r < 0)
		return r;
	first.dev = st.st_dev;
	first.ino = st.st_ino;
	dir = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
	if (!dir)
		return -ENOMEM;
	return conf_new(strdup(path), dir, text, &first, errors, ret);
}

int conf_parse(const char *name, const char *text, struct errors *errors, struct conf **ret)
{
	int r;

	r = scan_bytes(name, text, strlen(text), errors);
	if (r < 0)
		return r;
	return conf_new(strdup(name), NULL, text, NULL, errors, ret);
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
