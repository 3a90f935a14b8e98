/* SPDX-License-Identifier: MIT */
#include "memtrace/select.h"

#include <string.h>

#include "base/map64.h"

#define ANCESTORS_MAX 256 /* further up nobody looks; ppids that form a ring are left as well */

/* The newest bearer of a pid that is meant: its children are found by it when it has ended, too. */
struct member {
	uint64_t start_ticks;
};

struct selection {
	struct selection_options options;
	struct map64 family; /* pid -> struct member */
};

void selection_free(struct selection *s)
{
	size_t iter = 0;
	void *value;

	if (!s)
		return;
	while (map64_next(&s->family, &iter, NULL, &value))
		free(value);
	map64_done(&s->family);
	free(s);
}

static int join(struct selection *s, uint32_t pid, uint64_t start_ticks)
{
	struct member *m = map64_get(&s->family, pid);
	int r;

	if (!m) {
		m = calloc(1, sizeof(*m));
		r = m ? map64_put(&s->family, pid, m) : -ENOMEM;
		if (r < 0) {
			free(m);
			return r;
		}
	}
	m->start_ticks = MAX(m->start_ticks, start_ticks);
	return 0;
}

int selection_new(const struct selection_options *o, struct selection **ret)
{
	_cleanup_(selection_freep) struct selection *s = calloc(1, sizeof(*s));
	int r = s ? 0 : -ENOMEM;

	if (s)
		s->options = *o;
	for (size_t i = 0; i < o->named_len && r == 0; i++)
		r = join(s, o->named[i].pid, o->named[i].start_ticks);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(s);
	return 0;
}

static bool is_member(const struct selection *s, uint32_t pid, uint64_t start_ticks)
{
	const struct member *m = map64_get(&s->family, pid);

	return m && m->start_ticks == start_ticks;
}

static bool is_unit(const char *unit, const char *wanted)
{
	const size_t len = strlen(wanted);

	return unit && strncmp(unit, wanted, len) == 0 && (unit[len] == '\0' || strcmp(unit + len, ".service") == 0);
}

static bool is_asked_for(const struct selection *s, const struct view_process *p)
{
	const struct selection_options *o = &s->options;

	if (o->unit && is_unit(p->unit, o->unit))
		return true;
	return o->comm && p->comm && pattern_match(o->comm, p->comm, strlen(p->comm)) == 1;
}

/* The bearer of the pid in the view who was there at that moment; NULL = none. */
static const struct view_process *bearer(const struct view *v, uint32_t pid, uint64_t at_ticks)
{
	const struct view_process *found = NULL;

	for (size_t i = 0; i < v->processes_len; i++) {
		const struct view_process *p = &v->processes[i];

		if (p->pid == pid && p->start_ticks <= at_ticks && (!found || p->start_ticks > found->start_ticks))
			found = p;
	}
	return found;
}

/* Who was there at that moment under that pid; *ret_ppid may be VIEW_NONE_32. */
static bool find_ancestor(const struct view *v, ancestor_fn ancestor, void *userdata, uint32_t pid, uint64_t at_ticks,
			  uint32_t *ret_ppid, uint64_t *ret_start)
{
	const struct view_process *p = bearer(v, pid, at_ticks);

	if (p && p->ppid != VIEW_NONE_32) {
		*ret_ppid = p->ppid;
		*ret_start = p->start_ticks;
		return true;
	}
	return ancestor && ancestor(pid, ret_ppid, ret_start, userdata) == 0 && *ret_start <= at_ticks;
}

/* Does the one that is known by this pid belong to the family? at_ticks: when its child began. */
static bool is_family(const struct selection *s, uint32_t pid, uint64_t at_ticks, bool is_known, uint64_t start_ticks)
{
	const struct member *m = map64_get(&s->family, pid);

	/* Where it is not known it has ended since, and nobody of whom we know has borne the pid later. */
	return m && (is_known ? m->start_ticks == start_ticks : m->start_ticks <= at_ticks);
}

struct chain {
	struct named list[ANCESTORS_MAX];
	size_t len;
};

static int join_chain(struct selection *s, const struct chain *c)
{
	int r = 0;

	for (size_t i = 0; i < c->len && r == 0; i++)
		r = join(s, c->list[i].pid, c->list[i].start_ticks);
	return r;
}

/* 1 it is, 0 it is not, or -ENOMEM. Those between join too: who knows how long they live. */
static int is_descendant(struct selection *s, const struct view *v, const struct view_process *p, ancestor_fn ancestor,
			 void *userdata)
{
	uint32_t pid = p->ppid;
	uint64_t at_ticks = p->start_ticks, start = 0;
	struct chain c = { .len = 0 };

	if (pid == VIEW_NONE_32 && (!ancestor || ancestor(p->pid, &pid, &start, userdata) < 0 || start != p->start_ticks))
		return 0;
	while (pid != VIEW_NONE_32 && pid > 0) {
		uint32_t ppid = VIEW_NONE_32;
		const bool is_known = find_ancestor(v, ancestor, userdata, pid, at_ticks, &ppid, &start);

		if (is_family(s, pid, at_ticks, is_known, start))
			return join_chain(s, &c) ?: 1;
		if (!is_known || c.len == ANCESTORS_MAX)
			return 0;
		c.list[c.len++] = (struct named){ .pid = pid, .start_ticks = start };
		pid = ppid;
		at_ticks = start;
	}
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct view_process *p = *(struct view_process *const *)a, *q = *(struct view_process *const *)b;

	if (p->start_ticks != q->start_ticks)
		return p->start_ticks < q->start_ticks ? -1 : 1;
	if (p->pid != q->pid)
		return p->pid < q->pid ? -1 : 1;
	return (int)q->is_ended - (int)p->is_ended;
}

int selection_choose(struct selection *s, const struct view *v, ancestor_fn ancestor, void *userdata,
		     struct view_process ***ret, size_t *ret_len)
{
	_cleanup_free_ struct view_process **sorted = calloc(v->processes_len + 1, sizeof(struct view_process *));
	size_t len = 0;
	int r;

	if (!sorted)
		return -ENOMEM;
	/* Parents begin before their children. */
	for (size_t i = 0; i < v->processes_len; i++)
		sorted[i] = &v->processes[i];
	qsort(sorted, v->processes_len, sizeof(*sorted), by_start);
	for (size_t i = 0; i < v->processes_len; i++) {
		struct view_process *p = sorted[i];

		r = is_member(s, p->pid, p->start_ticks) || is_asked_for(s, p);
		if (r == 0 && s->options.has_descendants)
			r = is_descendant(s, v, p, ancestor, userdata);
		if (r == 0)
			continue;
		if (r > 0)
			r = join(s, p->pid, p->start_ticks);
		if (r < 0)
			return r;
		sorted[len++] = p;
	}
	*ret = TAKE_PTR(sorted);
	*ret_len = len;
	return 0;
}
