/* SPDX-License-Identifier: MIT */
#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-id128.h>
#include <systemd/sd-journal.h>

#include "base/clock.h"
#include "history/journal_files.h"

/* A file's times are those of its first and last entry: what was written while the clock was set may lie a little beside,
 * and what is being written comes after. */
#define MARGIN_USEC (600 * USEC_PER_SEC)

static const char *const roots[] = { "/var/log/journal", "/run/log/journal" };

void journal_files_done(struct journal_files *f)
{
	for (size_t i = 0; i < f->len; i++)
		free(f->list[i].path);
	free(f->list);
	free(f->denied_path);
	free(f->damaged_path);
	*f = (struct journal_files){};
}

static int look_into(const char *path, struct journal_file *ret)
{
	const char *paths[] = { path, NULL };
	sd_journal *j = NULL;
	struct stat st;
	int r;

	if (stat(path, &st) < 0)
		return -errno;
	if (access(path, R_OK) < 0)
		return -errno;
	r = sd_journal_open_files(&j, paths, 0);
	if (r >= 0)
		r = sd_journal_get_cutoff_realtime_usec(j, &ret->first_usec, &ret->last_usec);
	sd_journal_close(j);
	ret->size = (uint64_t)st.st_size;
	return r;
}

/* is_asked_for: by its name, so that it is missed where it is not there. */
static int add_file(struct journal_files *f, const char *path, bool is_asked_for)
{
	struct journal_file file = {};
	int r = look_into(path, &file);

	/* Gone since it was listed, or empty. */
	if (r == 0 || (r == -ENOENT && !is_asked_for))
		return 0;
	if (r == -EACCES || r == -EPERM) {
		if (f->denied++ == 0)
			f->denied_path = strdup(path);
		return 0;
	}
	if (r < 0) {
		if (f->damaged++ == 0)
			f->damaged_path = strdup(path);
		f->damaged_error = r;
		return r == -ENOMEM ? r : 0;
	}
	if (f->len == f->cap) {
		size_t cap = f->cap ? f->cap * 2 : 16;
		struct journal_file *more = reallocarray(f->list, cap, sizeof(*more));

		if (!more)
			return -ENOMEM;
		f->list = more;
		f->cap = cap;
	}
	file.path = strdup(path);
	if (!file.path)
		return -ENOMEM;
	f->list[f->len++] = file;
	return 0;
}

static int add_pattern(struct journal_files *f, const char *pattern, int flags)
{
	glob_t g = {};
	int r = glob(pattern, flags, NULL, &g);

	if (r == GLOB_NOSPACE)
		r = -ENOMEM;
	else
		r = 0;
	for (size_t i = 0; i < g.gl_pathc && r == 0; i++)
		r = add_file(f, g.gl_pathv[i], flags & GLOB_NOCHECK);
	globfree(&g);
	return r;
}

/* Files in use and archived, and those that were found damaged once and put aside ("~"): of them what can be read is. */
static int add_directory(struct journal_files *f, const char *directory, const char *below)
{
	static const char *const suffixes[] = { "*.journal", "*.journal~" };

	/* The directory is a name, not a pattern. */
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
		int r;

		for (const char *p = directory; *p; p++) {
			if (strchr("*?[\\", *p))
				strbuf_addc(&sb, '\\');
			strbuf_addc(&sb, *p);
		}
		strbuf_addf(&sb, "/%s%s", below, suffixes[i]);
		r = sb.error ? sb.error : add_pattern(f, sb.buf, 0);
		if (r < 0)
			return r;
	}
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const struct journal_file *x = a, *y = b;

	if (x->last_usec != y->last_usec)
		return x->last_usec < y->last_usec ? -1 : 1;
	return strcmp(x->path, y->path);
}

static int add_local(struct journal_files *f)
{
	char below[SD_ID128_STRING_MAX + 1];
	sd_id128_t id;
	int r = sd_id128_get_machine(&id);

	/* A container without one of its own: whatever is there. */
	if (r < 0)
		strcpy(below, "*/");
	else
		snprintf(below, sizeof(below), "%s/", SD_ID128_TO_STRING(id));
	r = 0;
	for (size_t i = 0; i < ARRAY_SIZE(roots) && r == 0; i++)
		r = add_directory(f, roots[i], below);
	return r;
}

int journal_files_find(const struct journal_options *o, struct journal_files *ret)
{
	int r = 0;

	for (size_t i = 0; i < o->files_len && r == 0; i++)
		r = add_pattern(ret, o->files[i], GLOB_NOCHECK);
	if (o->directory) {
		r = add_directory(ret, o->directory, "");
		if (r == 0)
			r = add_directory(ret, o->directory, "*/");
	} else if (o->files_len == 0 && o->is_merged) {
		/* "remote" is below it too. */
		for (size_t i = 0; i < ARRAY_SIZE(roots) && r == 0; i++)
			r = add_directory(ret, roots[i], "*/");
	} else if (o->files_len == 0) {
		r = add_local(ret);
	}
	if (r == 0 && ret->len)
		qsort(ret->list, ret->len, sizeof(*ret->list), by_time);
	return r;
}

const char **journal_files_of(const struct journal_files *f, uint64_t from_usec, uint64_t until_usec, size_t max)
{
	const char **paths = calloc(f->len + 1, sizeof(*paths));
	size_t len = 0;

	for (size_t i = f->len; paths && i-- > 0 && len < max;) {
		const struct journal_file *file = &f->list[i];

		if (file->first_usec < until_usec && file->last_usec + MARGIN_USEC >= from_usec)
			paths[len++] = file->path;
	}
	return paths;
}
