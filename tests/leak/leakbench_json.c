// SPDX-License-Identifier: MIT
/* What the bench has found, for machines; and the floor below which it must not fall. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "leakbench.h"

#define FLOOR_BYTES_MAX (1u << 20)

static void json_double(struct strbuf *sb, const char *key, double value)
{
	json_key(sb, key);
	if (isnan(value))
		strbuf_adds(sb, "null");
	else
		strbuf_addf(sb, "%.6g", value);
}

static void json_tally(struct strbuf *sb, const struct tally *t)
{
	json_double(sb, "traces", t->traces);
	json_double(sb, "leaks", t->leaks);
	json_double(sb, "benign_days", t->benign_days);
	json_double(sb, "stopping", t->stopping);
	json_double(sb, "fast", t->fast);
	for (enum level level = 0; level < LEVEL_MAX; level++) {
		json_key(sb, level_names[level]);
		strbuf_addc(sb, '{');
		for (const struct metric *m = metrics; m->name; m++)
			json_double(sb, m->name, metric_value(&t->level[level], m));
		strbuf_addc(sb, '}');
	}
}

static int json_families(struct strbuf *sb, const struct bench *b, const char *set)
{
	for (int is_benign = 0; is_benign < 2; is_benign++) {
		const char *names[FAMILIES_MAX];
		size_t n = bench_families(b, set, !is_benign, names, FAMILIES_MAX);

		for (size_t i = 0; i < n; i++) {
			struct tally t;
			int r = tally_make(b->list, b->len, set, names[i], &t);

			if (r < 0)
				return r;
			json_open(sb);
			json_str(sb, "family", names[i]);
			json_tally(sb, &t);
			strbuf_addc(sb, '}');
		}
	}
	return 0;
}

static void json_trace(struct strbuf *sb, const struct outcome *o)
{
	json_open(sb);
	json_str(sb, "set", o->set);
	json_str(sb, "family", o->family);
	json_u64(sb, "number", o->number);
	json_bool(sb, "leak", o->is_leak);
	json_u64(sb, "length_ns", o->length_ns);
	json_u64(sb, "leaked_bytes", o->leaked_bytes);
	json_u64(sb, "device_bytes", o->device_bytes);
	json_u64(sb, "events", o->events);
	for (enum level level = 0; level < LEVEL_MAX; level++) {
		const struct verdict *v = &o->level[level];

		json_key(sb, level_names[level]);
		strbuf_addc(sb, '{');
		json_bool(sb, "found", v->is_found);
		json_u64(sb, "false", v->false_count);
		json_u64(sb, "wrong_site", v->wrong_count);
		if (v->is_found) {
			json_u64(sb, "after_ns", v->after_ns);
			json_u64(sb, "lost_bytes", v->lost_bytes);
			json_u64(sb, "rank", v->rank);
			json_double(sb, "confidence", v->confidence < 0 ? NAN : v->confidence);
			json_bool(sb, "closed", v->is_closed);
		}
		strbuf_addc(sb, '}');
	}
	strbuf_addc(sb, '}');
}

/* Whole or not at all, as far as a plain write can say. */
static int write_file(const char *path, struct strbuf *sb)
{
	FILE *f = sb->error ? NULL : fopen(path, "we");
	bool is_written;

	if (!f)
		return sb->error ? sb->error : -errno;
	is_written = fwrite(sb->buf, 1, sb->len, f) == sb->len;
	return fclose(f) == 0 && is_written ? 0 : -EIO;
}

int bench_json(const struct bench *b, const char *path)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	strbuf_addc(&sb, '{');
	json_str(&sb, "rules", b->rules);
	json_bool(&sb, "again", b->is_again);
	json_key(&sb, "sets");
	strbuf_addc(&sb, '[');
	for (size_t i = 0; i < b->sets_len; i++) {
		struct tally t;
		int r = tally_make(b->list, b->len, b->sets[i], NULL, &t);

		if (r < 0)
			return r;
		json_open(&sb);
		json_str(&sb, "set", b->sets[i]);
		json_tally(&sb, &t);
		json_key(&sb, "families");
		strbuf_addc(&sb, '[');
		r = json_families(&sb, b, b->sets[i]);
		if (r < 0)
			return r;
		strbuf_adds(&sb, "]}");
	}
	strbuf_addc(&sb, ']');
	json_key(&sb, "traces");
	strbuf_addc(&sb, '[');
	for (size_t i = 0; i < b->len; i++) {
		if (b->list[i].error == 0)
			json_trace(&sb, &b->list[i]);
	}
	strbuf_adds(&sb, "]}\n");
	return write_file(path, &sb);
}

/* --- floor --- */

static const struct metric *find_metric(const char *name)
{
	for (const struct metric *m = metrics; m->name; m++) {
		if (strcmp(m->name, name) == 0)
			return m;
	}
	return NULL;
}

static bool has_set(const struct bench *b, const char *set)
{
	for (size_t i = 0; i < b->sets_len; i++) {
		if (strcmp(b->sets[i], set) == 0)
			return true;
	}
	return false;
}

struct floor_line {
	char subject[64], level[16], metric[32], sign[4], rest[2];
	double limit;
};

/* 1 = it does not hold, 2 = its set did not run. */
static int floor_check(const struct bench *b, const char *path, int number, struct floor_line *l, struct errors *errors)
{
	char *family = strchr(l->subject, '/');
	const struct metric *m = find_metric(l->metric);
	bool is_most = strcmp(l->sign, "<=") == 0;
	enum level level = LEVEL_ALARM;
	struct tally t;
	double value;
	int r;

	while (level < LEVEL_MAX && strcmp(level_names[level], l->level) != 0)
		level++;
	if (level == LEVEL_MAX)
		return errors_add(errors, path, number, "level %s: alarm or notice", l->level);
	if (!m)
		return errors_add(errors, path, number, "no such metric: %s", l->metric);
	if (!is_most && strcmp(l->sign, ">=") != 0)
		return errors_add(errors, path, number, "%s: >= or <=", l->sign);
	if (family)
		*family++ = '\0';
	if (!has_set(b, l->subject))
		return 2;
	r = tally_make(b->list, b->len, l->subject, family, &t);
	if (r < 0)
		return r;
	value = metric_value(&t.level[level], m);
	/* Nothing to count is no success. */
	if (is_most ? value <= l->limit : value >= l->limit)
		return 0;
	fprintf(stderr, "%s:%d: %s%s%s %s %s is %g, not %s %g\n", path, number, l->subject, family ? "/" : "",
		family ? family : "", l->level, l->metric, value, l->sign, l->limit);
	return 1;
}

int bench_floor(const struct bench *b, const char *path, struct errors *errors)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int r = file_read(AT_FDCWD, path, FLOOR_BYTES_MAX, &text, &len), number = 0, below = 0, held = 0, bad = 0,
	    unseen = 0;

	if (r < 0) {
		errors_add(errors, path, 0, "%s", strerror(-r));
		return r;
	}
	for (char *line = text, *next; line; line = next) {
		struct floor_line l;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		number++;
		line += strspn(line, " \t\r");
		if (*line == '\0' || *line == '#')
			continue;
		if (sscanf(line, "%63s %15s %31s %3s %lf %1s", l.subject, l.level, l.metric, l.sign, &l.limit,
			   l.rest) != 5)
			r = errors_add(errors, path, number, "not `set level metric >= value`");
		else
			r = floor_check(b, path, number, &l, errors);
		if (r == -ENOMEM)
			return r;
		bad += r < 0;
		held += r == 0;
		below += r == 1;
		unseen += r == 2;
	}
	printf("\nfloor: %d hold, %d do not, %d are about sets that did not run\n", held, below, unseen);
	return bad ? -EINVAL : below;
}
