/* SPDX-License-Identifier: MIT */
#include "rule/conf_text.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/file.h"
#include "rule/conf.h"
#include "rule/conf_scan.h"

static bool is_dev_null(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
}

/* Where errors about a file are told: at the include that names it, else at the file itself. */
struct place {
	const char *file;
	int line;
	bool is_include;
};

static int check_type(const char *path, const struct stat *st, unsigned flags, const struct place *at,
		      struct errors *errors)
{
	if (S_ISDIR(st->st_mode))
		return errors_add(errors, at->file, at->line, "%s is a directory where a file is wanted", path);
	if (!S_ISREG(st->st_mode) && !is_dev_null(st) && !(flags & CONF_F_SPECIAL && S_ISFIFO(st->st_mode)))
		return errors_add(errors, at->file, at->line, "%s is not a regular file", path);
	return 0;
}

static int read_error(const char *path, int r, const struct place *at, struct errors *errors)
{
	if (r == -ENOMEM)
		return r;
	if (r == -E2BIG)
		return errors_add(errors, at->file, at->line, "%s is larger than 1 MiB: split it into several files", path);
	if (at->is_include)
		return errors_add(errors, at->file, at->line, "cannot include %s: %s", path, strerror(-r));
	return errors_add(errors, at->file, at->line, "cannot read it: %s", strerror(-r));
}

/* The text of a file that is safe to hand to libconfig, and which file that was. */
static int read_file(const char *path, unsigned flags, const struct place *at, struct errors *errors, char **ret,
		     struct stat *ret_st)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = -1;
	struct stat st;
	size_t len = 0;
	int r;

	/* Some devices do something when they are opened. */
	if (stat(path, &st) < 0)
		return read_error(path, -errno, at, errors);
	r = check_type(path, &st, flags, at, errors);
	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return read_error(path, -errno, at, errors);
	/* It may have become another one meanwhile. */
	r = check_type(path, &st, flags, at, errors);
	if (r < 0)
		return r;
	r = file_read_fd(fd, CONF_SIZE_MAX, &text, &len);
	if (r < 0)
		return read_error(path, r, at, errors);
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

struct expansion {
	const char *dir; /* NULL = no includes */
	struct errors *errors;
	struct conf_text *text;
	int line; /* at the end of text */
	unsigned files;
	size_t bytes;
	bool is_over; /* too much, which has been told */
};

static void add_text(struct expansion *x, const char *s, size_t len)
{
	const char *end = s + len;

	strbuf_add(&x->text->sb, s, len);
	while ((s = memchr(s, '\n', (size_t)(end - s)))) {
		s++;
		x->line++;
	}
}

/* What comes now is of this file from this line on. */
static int add_part(struct expansion *x, const char *file, int file_line)
{
	struct conf_part *parts = realloc(x->text->parts, (x->text->len + 1) * sizeof(*parts));
	char *name;

	if (!parts)
		return -ENOMEM;
	x->text->parts = parts;
	name = strdup(file);
	if (!name)
		return -ENOMEM;
	parts[x->text->len++] = (struct conf_part){ .line = x->line, .file = name, .file_line = file_line };
	return 0;
}

/* A file that is named ten times in each of ten files is read a hundred times. */
static int count_include(struct expansion *x, const char *path, int line, const char *text)
{
	x->bytes += strlen(text);
	if (x->files < CONF_FILES_MAX && x->bytes <= CONF_TOTAL_MAX) {
		x->files++;
		return 0;
	}
	x->is_over = true;
	if (x->files >= CONF_FILES_MAX)
		return errors_add(x->errors, path, line, "more than %d files are included in all", CONF_FILES_MAX);
	return errors_add(x->errors, path, line,
			  "with what is included this is larger than %u MiB: split it into several files",
			  CONF_TOTAL_MAX >> 20);
}

static int expand(struct expansion *x, const char *path, const char *text, const struct include_chain *chain, int depth);

static int expand_include(struct expansion *x, const char *path, const struct scan_include *inc,
			  const struct include_chain *chain, int depth)
{
	const struct place at = { .file = path, .line = inc->line, .is_include = true };
	_cleanup_free_ char *target = NULL, *text = NULL;
	struct include_chain here = { .by = chain };
	struct errors *errors = x->errors;
	struct stat st;
	int r;

	if (!x->dir)
		return errors_add(errors, path, inc->line, "@include is not possible here");
	if (inc->path[0] == '/')
		return errors_add(errors, path, inc->line, "@include \"%s\" is absolute: write it relative to %s",
				  inc->path, x->dir);
	if (inc->path[0] == '\0' || strchr(inc->path, '\\'))
		return errors_add(errors, path, inc->line, "@include needs a plain file name");
	if (asprintf(&target, "%s/%s", x->dir, inc->path) < 0) {
		target = NULL;
		return -ENOMEM;
	}
	if (depth >= CONF_INCLUDE_MAX)
		return errors_add(errors, path, inc->line, "@include is nested more than %d files deep",
				  CONF_INCLUDE_MAX);
	r = read_file(target, 0, &at, errors, &text, &st);
	if (r < 0)
		return r;
	here.dev = st.st_dev;
	here.ino = st.st_ino;
	for (const struct include_chain *c = chain; c; c = c->by) {
		if (c->dev == here.dev && c->ino == here.ino)
			return errors_add(errors, path, inc->line, "@include \"%s\" goes in a circle", inc->path);
	}
	r = count_include(x, path, inc->line, text);
	if (r < 0)
		return r;
	/* On lines of its own, so that each line is of one file. */
	add_text(x, "\n", 1);
	r = expand(x, target, text, &here, depth + 1);
	add_text(x, "\n", 1);
	return r;
}

static int expand_all(struct expansion *x, const char *path, const char *text, const struct scan_include *list, size_t len,
		      const struct include_chain *chain, int depth)
{
	size_t done = 0;
	int ret = 0;

	for (size_t i = 0; i < len && !x->is_over; i++) {
		int r;

		add_text(x, text + done, list[i].start - done);
		done = list[i].end;
		r = expand_include(x, path, &list[i], chain, depth);
		if (r == 0)
			r = add_part(x, path, list[i].line);
		if (r == -ENOMEM)
			return r;
		ret = r < 0 ? r : ret;
	}
	add_text(x, text + done, strlen(text + done));
	return ret;
}

/* Adds the text of a file and of all that it includes. Goes on after errors, for the sake of further ones. */
static int expand(struct expansion *x, const char *path, const char *text, const struct include_chain *chain, int depth)
{
	struct scan_include *list = NULL;
	size_t len = 0;
	int r;

	r = scan_text(path, text, x->errors, &list, &len);
	if (r < 0)
		return r;
	r = add_part(x, path, 1);
	if (r == 0)
		r = expand_all(x, path, text, list, len, chain, depth);
	scan_includes_free(list, len);
	return r;
}

static int expand_first(const char *dir, const char *path, const char *text, const struct include_chain *chain,
			struct errors *errors, struct conf_text *ret)
{
	struct expansion x = { .dir = dir, .errors = errors, .text = ret, .line = 1, .bytes = strlen(text) };
	int r;

	*ret = (struct conf_text){ .sb = STRBUF_INIT };
	r = expand(&x, path, text, chain, 0);
	return ret->sb.error ? ret->sb.error : r;
}

int conf_text_load(const char *path, unsigned flags, const char *dir, struct errors *errors, struct conf_text *ret)
{
	const struct place at = { .file = path };
	_cleanup_free_ char *text = NULL;
	struct include_chain first = { 0 };
	struct stat st;
	int r;

	*ret = (struct conf_text){ .sb = STRBUF_INIT };
	r = read_file(path, flags, &at, errors, &text, &st);
	if (r < 0)
		return r;
	first.dev = st.st_dev;
	first.ino = st.st_ino;
	return expand_first(dir, path, text, &first, errors, ret);
}

int conf_text_parse(const char *name, const char *text, struct errors *errors, struct conf_text *ret)
{
	int r;

	*ret = (struct conf_text){ .sb = STRBUF_INIT };
	r = scan_bytes(name, text, strlen(text), errors);
	if (r < 0)
		return r;
	return expand_first(NULL, name, text, NULL, errors, ret);
}

const struct conf_part *conf_text_part(const struct conf_text *t, int line)
{
	size_t low = 0, high = t->len;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (t->parts[middle].line <= line)
			low = middle;
		else
			high = middle;
	}
	return &t->parts[low];
}

void conf_text_done(struct conf_text *t)
{
	for (size_t i = 0; i < t->len; i++)
		free(t->parts[i].file);
	free(t->parts);
	strbuf_done(&t->sb);
	*t = (struct conf_text){ .sb = STRBUF_INIT };
}
