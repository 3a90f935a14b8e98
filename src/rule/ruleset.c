/* SPDX-License-Identifier: MIT */
/* Finds rule files, settles which of them count, and makes a set of what they say. */
#include <string.h>
#include <sys/stat.h>

#include "base/map64.h"
#include "rule/rule_parse.h"
#include "rule/rule_print.h"
#include "rule/watch.h"

/* Earlier masks later. */
static const char *const search_dirs[] = { "/etc/gpuxray/rules.d", "/run/gpuxray/rules.d", "/usr/lib/gpuxray/rules.d" };

#define FILES_MAX 4096

struct rule_path {
	char *name; /* without the directory: decides order and masking */
	char *path;
	unsigned flags; /* CONF_F_* */
};

struct rule_paths {
	struct rule_path *list;
	size_t len;
};

static void rule_paths_done(struct rule_paths *p)
{
	for (size_t i = 0; i < p->len; i++) {
		free(p->list[i].name);
		free(p->list[i].path);
	}
	free(p->list);
	*p = (struct rule_paths){ 0 };
}

/* Takes the strings of the entry, also on failure. */
static int rule_paths_push(struct rule_paths *p, struct rule_path entry)
{
	struct rule_path *list = NULL;

	if (entry.name && entry.path)
		list = realloc(p->list, (p->len + 1) * sizeof(*list));
	if (!list) {
		free(entry.name);
		free(entry.path);
		return -ENOMEM;
	}
	p->list = list;
	p->list[p->len++] = entry;
	return 0;
}

/* dir NULL: name is the path. */
static int rule_paths_add(struct rule_paths *p, const char *dir, const char *name, unsigned flags)
{
	char *path = NULL;

	if (!dir)
		path = strdup(name);
	else if (asprintf(&path, "%s%s%s", dir, dir[0] && dir[strlen(dir) - 1] == '/' ? "" : "/", name) < 0)
		path = NULL;
	return rule_paths_push(p, (struct rule_path){ strdup(name), path, flags });
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct rule_path *)a)->name, ((const struct rule_path *)b)->name);
}

static bool is_rule_file_name(const char *name)
{
	size_t len = strlen(name);

	return name[0] != '.' && len > 5 && strcmp(name + len - 5, ".conf") == 0;
}

/* The *.conf files of a directory, sorted. 0, -EINVAL, -ENOMEM; may_lack: no such directory is no error. */
static int scan_dir(const char *dir, bool may_lack, struct errors *errors, struct rule_paths *p)
{
	_cleanup_closedir_ DIR *d = opendir(dir);
	size_t first = p->len;
	struct dirent *de;
	int r;

	if (!d && errno == ENOMEM)
		return -ENOMEM;
	if (!d && errno == ENOENT && may_lack)
		return 0;
	if (!d)
		return errors_add(errors, dir, 0, "cannot read it: %s", strerror(errno));
	for (errno = 0; (de = readdir(d)); errno = 0) {
		if (!is_rule_file_name(de->d_name))
			continue;
		if (p->len - first >= FILES_MAX)
			return errors_add(errors, dir, 0, "holds more than %d rule files", FILES_MAX);
		r = rule_paths_add(p, dir, de->d_name, 0);
		if (r < 0)
			return r;
	}
	if (errno)
		return errors_add(errors, dir, 0, "cannot read it: %s", strerror(errno));
	if (p->len > first)
		qsort(p->list + first, p->len - first, sizeof(*p->list), by_name);
	return 0;
}

/* An empty file or a link to /dev/null stands for "no such rules". */
static bool switches_off(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && (S_ISCHR(st.st_mode) || (S_ISREG(st.st_mode) && st.st_size == 0));
}

/* Takes the strings of found when it adds it. */
static int add_unmasked(struct rule_paths *all, struct rule_path *found, struct errors *errors)
{
	for (size_t i = 0; i < all->len; i++) {
		const char *by = all->list[i].path;

		if (strcmp(all->list[i].name, found->name) != 0)
			continue;
		errors_warn(errors, found->path, 0, "%s by %s", switches_off(by) ? "switched off" : "masked", by);
		return 0;
	}
	return rule_paths_push(all, (struct rule_path){ TAKE_PTR(found->name), TAKE_PTR(found->path), found->flags });
}

static int find_search_path(const char *root, struct errors *errors, struct rule_paths *all)
{
	int r = 0;

	for (size_t i = 0; r != -ENOMEM && i < ARRAY_SIZE(search_dirs); i++) {
		_cleanup_(rule_paths_done) struct rule_paths here = { 0 };
		_cleanup_free_ char *dir = NULL;
		int q;

		if (asprintf(&dir, "%s%s", root ? root : "", search_dirs[i]) < 0) {
			dir = NULL;
			return -ENOMEM;
		}
		q = scan_dir(dir, true, errors, &here);
		r = q < 0 ? q : r;
		for (size_t k = 0; r != -ENOMEM && k < here.len; k++) {
			q = add_unmasked(all, &here.list[k], errors);
			r = q < 0 ? q : r;
		}
	}
	if (all->len > 0)
		qsort(all->list, all->len, sizeof(*all->list), by_name);
	return r;
}

static int find_paths(char *const *paths, size_t n_paths, struct errors *errors, struct rule_paths *all)
{
	int r = 0;

	for (size_t i = 0; r != -ENOMEM && i < n_paths; i++) {
		struct stat st;
		int q;

		if (stat(paths[i], &st) == 0 && S_ISDIR(st.st_mode))
			q = scan_dir(paths[i], false, errors, all);
		else
			q = rule_paths_add(all, NULL, paths[i], CONF_F_SPECIAL);
		r = q < 0 ? q : r;
	}
	return r;
}

void ruleset_free(struct ruleset *rs)
{
	if (!rs)
		return;
	for (size_t i = 0; i < rs->len; i++)
		rule_free(rs->rules[i]);
	free(rs->rules);
	free(rs);
}

/* Digests are made of text, so that they are the same on every machine. */
static int ruleset_hash(struct ruleset *rs)
{
	uint64_t digest = hash_str(0, "gpuxray rules 1");

	for (size_t i = 0; i < rs->len; i++) {
		_cleanup_strbuf_ struct strbuf meaning = STRBUF_INIT, text = STRBUF_INIT;
		struct rule *r = rs->rules[i];

		rule_write_meaning(&meaning, r);
		rule_write(&text, r);
		if (meaning.error || text.error)
			return -ENOMEM;
		r->meaning = hash64(hash_str(0, strbuf_str(&meaning)));
		digest = hash64(hash_str(digest, strbuf_str(&text)));
	}
	(void)snprintf(rs->digest, sizeof(rs->digest), "%016llx", (unsigned long long)digest);
	return 0;
}

/* The engine keeps counters of births for so many different scales. */
static int check_leak_scales(const struct ruleset *rs, struct errors *errors)
{
	const struct rule *seen[WATCH_SCALES_MAX];
	size_t len = 0;

	for (size_t i = 0; i < rs->len; i++) {
		const struct rule *r = rs->rules[i];
		size_t k = 0;

		if (r->kind != RULE_LEAK)
			continue;
		while (k < len && (seen[k]->epoch_ns != r->epoch_ns || seen[k]->epochs != r->epochs ||
				   seen[k]->classes != r->classes))
			k++;
		if (k < len)
			continue;
		if (len == ARRAY_SIZE(seen))
			return errors_add(errors, r->file, r->line,
					  "leak rules differ in epoch, epochs or class in more "
					  "than %zu ways: give some of them the same",
					  ARRAY_SIZE(seen));
		seen[len++] = r;
	}
	return 0;
}

static int ruleset_build(struct rule_loader *l, struct ruleset **ret)
{
	_cleanup_(ruleset_freep) struct ruleset *rs = calloc(1, sizeof(*rs));
	int r = 0;

	if (!rs)
		return -ENOMEM;
	rs->rules = calloc(l->drafts_len + 1, sizeof(*rs->rules));
	if (!rs->rules)
		return -ENOMEM;
	for (size_t i = 0; i < l->drafts_len; i++) {
		struct rule *rule = NULL;
		int q = l->drafts[i].off ? 0 : rule_build(l, &l->drafts[i], &rule);

		if (q == -ENOMEM)
			return q;
		r = q < 0 ? q : r;
		if (rule)
			rs->rules[rs->len++] = rule;
	}
	if (r == 0)
		r = check_leak_scales(rs, l->errors);
	if (r == 0)
		r = rule_check_set(l, rs);
	if (r < 0)
		return r;
	for (size_t i = 0; i < l->files_len; i++)
		rs->file_count += !conf_is_empty(l->files[i]);
	r = ruleset_hash(rs);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(rs);
	return 0;
}

static int error_order(const struct error *a, const struct error *b)
{
	int c = strcmp(a->file ? a->file : "", b->file ? b->file : "");

	return c ? c : a->line - b->line;
}

/* As they lie in the files, and not as we came upon them. At most ERRORS_MAX. */
static void sort_errors(struct errors *errors, size_t first)
{
	for (size_t i = first + 1; i < errors->len; i++) {
		struct error e = errors->list[i];
		size_t k = i;

		for (; k > first && error_order(&errors->list[k - 1], &e) > 0; k--)
			errors->list[k] = errors->list[k - 1];
		errors->list[k] = e;
	}
}

/* file_error: what reading the files gave. Builds in any case, for the sake of further errors. */
static int ruleset_finish(struct rule_loader *l, size_t first_error, int file_error, struct ruleset **ret)
{
	_cleanup_(ruleset_freep) struct ruleset *rs = NULL;
	int r;

	r = ruleset_build(l, &rs);
	if (r == 0 && file_error == 0)
		rule_check_lists(l);
	sort_errors(l->errors, first_error);
	if (r == 0)
		r = file_error;
	if (r < 0)
		return r;
	if (rs->len == 0)
		errors_warn(l->errors, NULL, 0, "there are no rules: nothing will be reported");
	*ret = TAKE_PTR(rs);
	return 0;
}

int ruleset_load(const char *root, char *const *paths, size_t n_paths, struct errors *errors, struct ruleset **ret)
{
	_cleanup_(rule_loader_done) struct rule_loader l = RULE_LOADER_INIT(errors);
	_cleanup_(rule_paths_done) struct rule_paths all = { 0 };
	size_t first_error = errors->len;
	int r;

	if (paths && n_paths > 0)
		r = find_paths(paths, n_paths, errors, &all);
	else
		r = find_search_path(root, errors, &all);
	for (size_t i = 0; r != -ENOMEM && !l.is_full && i < all.len; i++) {
		struct conf *c = NULL;
		int q;

		q = conf_load(all.list[i].path, all.list[i].flags, errors, &c);
		l.is_incomplete = l.is_incomplete || q < 0;
		if (q == 0)
			q = rule_loader_add(&l, c);
		r = q < 0 ? q : r;
	}
	if (r == -ENOMEM)
		return r;
	return ruleset_finish(&l, first_error, r, ret);
}

int ruleset_parse(const char *name, const char *text, struct errors *errors, struct ruleset **ret)
{
	_cleanup_(rule_loader_done) struct rule_loader l = RULE_LOADER_INIT(errors);
	size_t first_error = errors->len;
	struct conf *c;
	int r;

	r = conf_parse(name, text, errors, &c);
	if (r < 0)
		return r;
	r = rule_loader_add(&l, c);
	if (r == -ENOMEM)
		return r;
	return ruleset_finish(&l, first_error, r, ret);
}
