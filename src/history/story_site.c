/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "history/story_private.h"

/* The one that is missed least, where a process has too many: nothing there now, and never much. */
static struct site *least(struct proc *p)
{
	struct site *found = NULL;

	for (size_t i = 0; i < p->sites_len; i++) {
		struct site *s = &p->sites[i];

		if (s->last == 0 && (!found || s->peak < found->peak))
			found = s;
	}
	return found;
}

static int site_find(struct telling *t, struct proc *p, struct held *h, struct call_site *st, struct site **ret)
{
	struct site made = { .stack = st, .held = h };

	*ret = NULL;
	for (size_t i = 0; i < p->sites_len; i++) {
		if (p->sites[i].stack == st && p->sites[i].held == h) {
			*ret = &p->sites[i];
			return 0;
		}
	}
	if (p->sites_len == PROC_SITES_MAX || t->sites == TELLING_SITES_MAX) {
		t->story.left_out.sites++;
		*ret = least(p);
		if (*ret)
			**ret = made;
		return 0;
	}
	if (PUSH(p->sites, p->sites_len, p->sites_cap, made) < 0)
		return -ENOMEM;
	t->sites++;
	*ret = &p->sites[p->sites_len - 1];
	return 0;
}

static uint64_t on_all_devices(const struct proc *p, const struct call_site *st)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->sites_len; i++)
		if (p->sites[i].stack == st)
			sum = add_sat(sum, p->sites[i].last);
	return sum;
}

/* "STACK_ID BYTES BLOCKS" */
static int add_line(struct telling *t, struct proc *p, struct held *h, const char *line, size_t len, bool is_within)
{
	struct entry e = {};
	const char *blank, *second;
	struct site *site = NULL;
	struct call_site *st;
	uint64_t bytes;
	int err = 0;

	blank = memchr(line, ' ', len);
	if (blank) {
		e.field[ENTRY_BYTES].data = blank + 1;
		second = memchr(blank + 1, ' ', len - (size_t)(blank + 1 - line));
		e.field[ENTRY_BYTES].len = (size_t)((second ? second : line + len) - (blank + 1));
	}
	if (!blank || entry_u64(&e, ENTRY_BYTES, &bytes) < 0) {
		t->has_unreadable = true;
		return 0;
	}
	if (blank - line == 1 && *line == '-')
		return 0; /* a call site whose stack was not taken */
	st = stack_find(t, line, (size_t)(blank - line), &err);
	if (st && err == 0)
		err = site_find(t, p, h, st, &site);
	if (err < 0 || !site)
		return err;
	site->last = add_sat(site->last, bytes);
	if (is_within)
		site->peak = MAX(site->peak, on_all_devices(p, st));
	return 0;
}

static int add_lines(struct telling *t, struct proc *p, struct held *h, const struct told *r)
{
	const char *line = r->e->field[ENTRY_TOP_SITES].data;
	const char *end = line ? line + r->e->field[ENTRY_TOP_SITES].len : NULL;

	while (line < end) {
		const char *eol = memchr(line, '\n', (size_t)(end - line));
		int err = 0;

		eol = eol ? eol : end;
		if (eol > line)
			err = add_line(t, p, h, line, (size_t)(eol - line), r->is_within);
		if (err < 0)
			return err;
		line = eol + 1;
	}
	return 0;
}

/* The sites as they are now are those of the most that the process held. From before the stretch the newest counts: it
 * tells how things stood at the beginning. */
static void take_bytes(struct telling *t, struct proc *p, uint64_t usec, uint64_t total)
{
	if (p->sites_usec != 0 && usec >= t->from && total <= p->sites_total)
		return;
	p->sites_usec = usec;
	p->sites_total = total;
	for (size_t i = 0; i < p->sites_len; i++)
		p->sites[i].bytes = p->sites[i].last;
}

int sites_sample(struct telling *t, struct proc *p, struct held *h, const struct told *r, uint64_t total)
{
	int err;

	/* A list says all that it knows of the device; of a site that it no longer names nothing is known. */
	for (size_t i = 0; i < p->sites_len; i++)
		if (p->sites[i].held == h)
			p->sites[i].last = 0;
	err = add_lines(t, p, h, r);
	if (err == 0)
		take_bytes(t, p, r->usec, total);
	return err;
}

int sites_exit(struct telling *t, struct proc *p, const struct told *r)
{
	uint64_t bytes = told_u64(t, r->e, ENTRY_STACK_BYTES, 0);
	struct site *site = NULL;
	struct call_site *st;
	int err = 0;

	for (size_t i = 0; i < p->sites_len; i++)
		p->sites[i].last = 0;
	err = add_lines(t, p, NULL, r);
	st = err == 0 ? told_stack(t, r->e, &err) : NULL;
	if (st)
		p->s.peak_stack = &st->s;
	/* Of a process that came and went between two samples this is the only site there is. */
	if (st && bytes > 0 && !p->has_sample && err == 0) {
		err = site_find(t, p, NULL, st, &site);
		if (site) {
			site->bytes = MAX(site->bytes, bytes);
			site->peak = MAX(site->peak, bytes);
		}
	}
	return err;
}

static int by_bytes(const void *a, const void *b)
{
	const struct story_site *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	if (x->peak_bytes != y->peak_bytes)
		return x->peak_bytes < y->peak_bytes ? 1 : -1;
	return strcmp(x->stack->id, y->stack->id);
}

int sites_finish(struct telling *t, struct proc *p)
{
	struct story_site *all = calloc(p->sites_len + 1, sizeof(*all));
	size_t len = 0;

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < p->sites_len; i++) {
		const struct site *from = &p->sites[i];
		struct story_site *to = all;

		while (to < all + len && to->stack != &from->stack->s)
			to++;
		if (to == all + len)
			all[len++] = (struct story_site){ .stack = &from->stack->s };
		to->bytes = add_sat(to->bytes, from->bytes);
		to->last_bytes = add_sat(to->last_bytes, from->last);
		to->peak_bytes = MAX(to->peak_bytes, MAX(from->peak, to->bytes));
	}
	qsort(all, len, sizeof(*all), by_bytes);
	if (len > STORY_SITES_MAX) {
		t->story.left_out.sites += len - STORY_SITES_MAX;
		len = STORY_SITES_MAX;
	}
	p->s.sites = all;
	p->s.sites_len = len;
	return 0;
}
