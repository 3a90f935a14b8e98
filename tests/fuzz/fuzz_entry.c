/* SPDX-License-Identifier: MIT */
/*
 * Entries of a journal into a story. First line: from, until, now, pid and unit, e.g. "1000000 9000000 9000000 0 -".
 * Then entries: a line "@USEC", and lines "NAME=value" where \n, \0 and \\ stand for themselves; GPUXRAY_ may be left out.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "history/story.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void set(struct entry *e, char *line, size_t len, char *named, size_t named_size)
{
	const char *value;
	size_t value_len, out = 0;
	int f;

	for (size_t i = 0; i < len; i++, out++) {
		line[out] = line[i];
		if (line[i] != '\\' || i + 1 == len)
			continue;
		i++;
		line[out] = line[i] == 'n' ? '\n' : line[i] == '0' ? '\0' : line[i];
	}
	f = entry_field_from_data(line, out, &value, &value_len);
	if (f < 0) {
		const char *equals = memchr(line, '=', out);
		int n;

		if (!equals)
			return;
		n = snprintf(named, named_size, "GPUXRAY_%.*s=", (int)(equals - line), line);
		if (n < 0 || (size_t)n >= named_size)
			return;
		f = entry_field_from_data(named, (size_t)n, &value, &value_len);
		value = equals + 1;
		value_len = out - (size_t)(equals + 1 - line);
	}
	if (f < 0)
		return;
	e->field[f].data = value;
	e->field[f].len = value_len;
}

static void add(struct story_builder *b, struct entry *e)
{
	if (story_add(b, e) != 0)
		abort();
	*e = (struct entry){};
}

static void check_text(const char *text)
{
	if (!text)
		return;
	if (!*text)
		abort();
	for (const unsigned char *p = (const unsigned char *)text; *p; p++)
		if ((*p < 0x20 && *p != '\n') || *p == 0x7f)
			abort();
}

static void check_series(const struct story *s, const struct story_series *ser)
{
	uint64_t high = 0;

	if (ser->len > STORY_POINTS_MAX)
		abort();
	for (size_t i = 0; i < ser->len; i++) {
		const struct story_point *p = &ser->points[i];

		if (p->low > p->live || p->live > p->high || (i && p->usec <= p[-1].usec) || p->usec < s->from_usec)
			abort();
		high = p->high > high ? p->high : high;
	}
	if (ser->len && (high != ser->peak_bytes || ser->peak_usec < s->from_usec))
		abort();
}

static void check_processes(const struct story *s)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	for (size_t i = 0; i < s->processes_len; i++) {
		const struct story_process *p = s->processes[i];

		if (p->number != i || !p->host || p->first_usec > p->last_usec || (i && p[0].peak_bytes > s->processes[i - 1]->peak_bytes))
			abort();
		story_process_name(p, &sb);
		check_text(p->comm);
		check_text(p->cmdline);
		for (size_t k = 0; k < p->held_len; k++) {
			check_series(s, &p->held[k].series);
			if (p->held[k].series.len == 0 || p->held[k].series.peak_bytes > p->peak_bytes)
				abort();
		}
		for (size_t k = 0; k < p->sites_len; k++)
			if (p->sites[k].peak_bytes < p->sites[k].bytes)
				abort();
	}
	for (size_t i = 0; i < s->devices_len; i++) {
		check_series(s, &s->devices[i]->used);
		story_device_name(s, s->devices[i], &sb);
	}
	check_text(sb.len ? strbuf_str(&sb) : NULL);
}

static void check(const struct story *s)
{
	check_processes(s);
	for (size_t i = 0; i < s->incidents_len; i++) {
		const struct story_incident *in = s->incidents[i];

		check_text(in->message);
		check_text(in->subject);
		check_text(in->severity);
		(void)story_state_name(in->state);
		if (in->begin_usec > in->last_usec || (in->process && s->processes[in->process->number] != in->process))
			abort();
	}
	for (size_t i = 0; i < s->failures_len; i++) {
		const struct story_failure *f = s->failures[i];

		for (size_t k = 0; k < f->holders_len; k++)
			if (s->processes[f->holders[k].process->number] != f->holders[k].process)
				abort();
		if (f->count == 0 || f->usec > f->last_usec || f->holders_len > STORY_HOLDERS_MAX)
			abort();
	}
	for (size_t i = 0; i < s->gaps_len; i++) {
		check_text(s->gaps[i]->text);
		(void)story_gap_name(s->gaps[i]->kind);
		if (!s->gaps[i]->text || s->gaps[i]->from_usec > s->gaps[i]->until_usec || s->gaps[i]->from_usec < s->from_usec)
			abort();
	}
	for (size_t i = 0; i < s->stacks_len; i++)
		check_text(s->stacks[i]->text);
}

static void feed(struct story_builder *b, char *text)
{
	static char named[256][64];
	struct entry e = {};
	bool is_any = false;
	unsigned turn = 0;

	for (char *line = text, *next; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (line[0] == '@') {
			if (is_any)
				add(b, &e);
			e.real_usec = strtoull(line + 1, NULL, 10);
			is_any = true;
		} else {
			set(&e, line, strlen(line), named[turn++ % 256], sizeof(named[0]));
		}
	}
	if (is_any)
		add(b, &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = strndup((const char *)data, size);
	_cleanup_(story_builder_freep) struct story_builder *b = NULL;
	_cleanup_(story_freep) struct story *s = NULL;
	struct story_options o = {};
	uint64_t now;
	char unit[32];
	size_t iter = 0;
	char *rest;

	if (!text)
		return 0;
	rest = strchr(text, '\n');
	if (!rest || sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu32 " %31s", &o.from_usec, &o.until_usec, &now, &o.pid,
			    unit) != 5)
		return 0;
	o.unit = strcmp(unit, "-") ? unit : NULL;
	if (story_builder_new(&o, &b) != 0)
		abort();
	feed(b, rest + 1);
	while (story_next_untold_stack(b, &iter)) {
	}
	if (story_finish(b, now, &s) != 0)
		abort();
	check(s);
	return 0;
}
