// SPDX-License-Identifier: MIT
/* tests/traces/leaks/labels.txt: which recordings there are, and what is true of them. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/pattern.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "leakbench.h"

#define LABELS_BYTES_MAX (4u << 20)

static void label_done(struct label *l)
{
	free(l->path);
	free(l->family);
	free(l->set);
	free(l->site);
	free(l->losses);
}

void labels_done(struct labels *l)
{
	for (size_t i = 0; i < l->len; i++)
		label_done(&l->list[i]);
	free(l->list);
	*l = (struct labels){ 0 };
}

struct place {
	struct errors *errors;
	const char *file;
	int line;
};

static int bad(const struct place *p, const char *key, const char *value, const char *wanted)
{
	return errors_add(p->errors, p->file, p->line, "%s=%s: %s", key, value, wanted);
}

/* Not negative, and all of the text. */
static int read_number(const char *text, char **ret_end, double *ret)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || !(v >= 0) || !isfinite(v) || (!ret_end && *end))
		return -EINVAL;
	if (ret_end)
		*ret_end = end;
	*ret = v;
	return 0;
}

/* "12.5:1048576,13:2097152" */
static int read_losses(struct label *l, const struct place *p, const char *value)
{
	double time = 0, before = 0, bytes;

	for (char *at = (char *)value; *at;) {
		struct gen_loss *losses;

		if (read_number(at, &at, &time) < 0 || *at++ != ':' || read_number(at, &at, &bytes) < 0 ||
		    (*at && *at++ != ',') || time < before)
			return bad(p, "losses", value, "seconds:bytes,... in the order of time");
		losses = realloc(l->losses, (l->losses_len + 1) * sizeof(*losses));
		if (!losses)
			return -ENOMEM;
		l->losses = losses;
		losses[l->losses_len++] =
			(struct gen_loss){ .time_ns = (uint64_t)(time * 1e9), .bytes = (uint64_t)bytes };
		before = time;
	}
	return 0;
}

static int read_text(char **slot, const char *value)
{
	free(*slot);
	*slot = strdup(value);
	return *slot ? 0 : -ENOMEM;
}

static int read_site(struct label *l, const struct place *p, const char *value)
{
	char why[PATTERN_ERROR_MAX];
	struct pattern *site = NULL;
	int r = pattern_new(value, why, &site);

	pattern_free(site);
	if (r == -EINVAL)
		return bad(p, "site", value, why);
	return r < 0 ? r : read_text(&l->site, value);
}

static int read_key(struct label *l, const struct place *p, const char *key, const char *value)
{
	if (strcmp(key, "family") == 0)
		return read_text(&l->family, value);
	if (strcmp(key, "set") == 0)
		return read_text(&l->set, value);
	if (strcmp(key, "site") == 0)
		return read_site(l, p, value);
	if (strcmp(key, "losses") == 0)
		return read_losses(l, p, value);
	if (strcmp(key, "leak") == 0) {
		l->is_leak = strcmp(value, "1") == 0;
		return l->is_leak || strcmp(value, "0") == 0 ? 0 : bad(p, key, value, "0 or 1");
	}
	if (strcmp(key, "start") == 0)
		return read_number(value, NULL, &l->start_sec) < 0 ? bad(p, key, value, "seconds") : 0;
	if (strcmp(key, "stretch") == 0)
		return read_number(value, NULL, &l->stretch) < 0 || l->stretch == 0 ? bad(p, key, value, "a factor")
										    : 0;
	if (strcmp(key, "leaked") == 0)
		return parse_u64(value, &l->leaked_bytes) < 0 ? bad(p, key, value, "bytes") : 0;
	if (strcmp(key, "pid") == 0)
		return parse_u32(value, &l->pid) < 0 ? bad(p, key, value, "a pid") : 0;
	return errors_add(p->errors, p->file, p->line, "no such key: %s", key);
}

static int check_label(const struct label *l, const struct place *p)
{
	if (!l->family || !l->set)
		return errors_add(p->errors, p->file, p->line, "family= and set= are needed");
	if (l->is_leak && l->leaked_bytes == 0 && l->losses_len == 0)
		return errors_add(p->errors, p->file, p->line,
				  "how much leaks? leaked=bytes or losses=seconds:bytes,...");
	return 0;
}

static int read_label(struct label *l, const struct place *p, char *line)
{
	const char *slash = strrchr(p->file, '/');
	char *save, *word = strtok_r(line, " \t", &save);
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	int r = 0, q;

	*l = (struct label){ .line = p->line, .stretch = 1 };
	if (slash && *word != '/')
		strbuf_add(&path, p->file, (size_t)(slash - p->file) + 1);
	strbuf_adds(&path, word);
	q = strbuf_steal(&path, &l->path);
	while (q == 0 && (word = strtok_r(NULL, " \t", &save))) {
		char *value = strchr(word, '=');

		if (!value) {
			r = errors_add(p->errors, p->file, p->line, "not key=value: %s", word);
			continue;
		}
		*value++ = '\0';
		q = read_key(l, p, word, value);
		if (q == -EINVAL) {
			r = q;
			q = 0;
		}
	}
	return q < 0 ? q : r < 0 ? r : check_label(l, p);
}

int labels_read(const char *path, struct errors *errors, struct labels *ret)
{
	_cleanup_(labels_done) struct labels labels = { 0 };
	_cleanup_free_ char *text = NULL;
	struct place p = { errors, path, 0 };
	size_t len;
	int r = file_read(AT_FDCWD, path, LABELS_BYTES_MAX, &text, &len), bad_lines = 0;

	if (r < 0)
		return r;
	for (char *line = text, *next; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		p.line++;
		line += strspn(line, " \t\r");
		if (*line == '\0' || *line == '#')
			continue;
		if (labels.len >= labels.cap) {
			struct label *list = realloc(labels.list, (labels.cap + 64) * sizeof(*list));

			if (!list)
				return -ENOMEM;
			labels.list = list;
			labels.cap += 64;
		}
		r = read_label(&labels.list[labels.len++], &p, line);
		if (r == -ENOMEM)
			return r;
		bad_lines += r < 0;
	}
	if (bad_lines)
		return -EINVAL;
	*ret = labels;
	labels = (struct labels){ 0 };
	return 0;
}
