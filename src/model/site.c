/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "model/process.h"
#include "model/saturate.h"

bool site_release(struct process *p, struct site *s)
{
	return s->blocks == 0 && s->bytes == 0 && s->framework_bytes == 0 &&
	       (!s->watch || (p->release_site && p->release_site(s)));
}

void site_remove(struct process *p, struct site *s)
{
	if (s->is_resolved)
		(void)map64_remove(&p->sites_by_key, s->key);
	p->sites[s->index] = p->sites[--p->sites_len];
	p->sites[s->index]->index = s->index;
	p->all->sites--;
	stack_unref(s->stack);
	free(s);
}

static void entry_leave(struct stack_entry *e)
{
	if (e->site && e->site->is_going)
		e->site = NULL;
}

/* Sites without a block can make room: a program that compiles as it runs has ever new stacks. */
static size_t process_sweep_sites(struct process *p)
{
	size_t iter = 0, gone = 0;
	void *value;

	for (size_t i = 0; i < p->sites_len; i++) {
		p->sites[i]->is_going = site_release(p, p->sites[i]);
		gone += p->sites[i]->is_going;
	}
	if (gone == 0)
		return 0;
	entry_leave(&p->none);
	while (map64_next(&p->stacks, &iter, NULL, &value))
		entry_leave(value);
	for (size_t i = p->sites_len; i-- > 0;) {
		if (p->sites[i]->is_going)
			site_remove(p, p->sites[i]);
	}
	return gone;
}

int site_set_key(struct process *p, struct site *s, uint64_t key)
{
	int r = map64_put(&p->sites_by_key, key, s);

	if (r < 0)
		return r;
	s->key = key;
	s->is_resolved = true;
	return 0;
}

void site_offer_stack(struct site *s, struct stack *stack)
{
	if (s->stack && (stack_frames(s->stack) || !stack_frames(stack)))
		return;
	stack_unref(s->stack);
	s->stack = stack_ref(stack);
}

static struct site *process_new_site(struct process *p, const struct stack_entry *e, uint64_t birth_ns, int *r)
{
	struct site *s = NULL, **list;

	if (p->sites_len >= p->sites_cap) {
		size_t cap = p->sites_cap ? p->sites_cap * 2 : 16;

		list = realloc(p->sites, cap * sizeof(*list));
		if (!list)
			goto no_memory;
		p->sites = list;
		p->sites_cap = cap;
	}
	s = calloc(1, sizeof(*s));
	if (!s || (e->is_resolved && site_set_key(p, s, e->key) < 0))
		goto no_memory;
	if (!e->is_resolved)
		s->key = e->number;
	s->stack = stack_ref(e->stack);
	s->first_ns = s->last_ns = birth_ns;
	s->index = p->sites_len;
	p->sites[p->sites_len++] = s;
	p->all->sites++;
	return s;

no_memory:
	free(s);
	*r = -ENOMEM;
	return NULL;
}

struct site *process_resolved_site(const struct process *p, uint64_t key)
{
	return map64_get(&p->sites_by_key, key);
}

static bool process_has_site_room(const struct process *p, const struct limits *limits)
{
	return p->sites_len < limits->sites_per_process &&
	       processes_has_room(limits->sites, p->all->sites, p->sites_len);
}

/* The entry's site, found or made; NULL when there is no room or memory. */
static struct site *entry_site(struct process *p, struct stack_entry *e, const struct limits *limits,
			       uint64_t birth_ns, int *r)
{
	if (e->site)
		return e->site;
	if (e->is_resolved)
		e->site = process_resolved_site(p, e->key);
	if (e->site) {
		if (e->stack)
			site_offer_stack(e->site, e->stack);
		return e->site;
	}
	if (!process_has_site_room(p, limits) && p->sites_overflow >= p->sites_sweep) {
		/* A sweep that found little is not tried again at once. */
		if (process_sweep_sites(p) < limits->sites_per_process / 8)
			p->sites_sweep = p->sites_overflow + limits->sites_per_process;
	}
	if (process_has_site_room(p, limits))
		e->site = process_new_site(p, e, birth_ns, r);
	if (!e->site) {
		p->sites_overflow++;
		p->all->sites_overflow += p->sites_len < limits->sites_per_process;
	}
	return e->site;
}

struct site *process_site(struct process *p, struct stack_entry *e, const struct limits *limits, uint64_t birth_ns,
			  int *r)
{
	struct site *s = e ? entry_site(p, e, limits, birth_ns, r) : NULL;

	if (s)
		return s;
	if (!p->other.is_other) {
		p->other.is_other = true;
		p->other.first_ns = p->other.last_ns = birth_ns;
	}
	return &p->other;
}

/* A block may have been booked on "other" before its own site found room. Which one it was is not kept, so what the
 * number lacks on its site is taken there: the sum over the sites stays that of the blocks. */
void process_free_site(struct process *p, const struct event *ev, struct change *c)
{
	struct stack_entry *e = process_stack_entry(p, ev->stack);
	struct site *s = e ? e->site : NULL;
	bool is_framework = ev->class == CLASS_FRAMEWORK;
	uint64_t bytes = ev->class == CLASS_IMPORTED ? 0 : ev->bytes, own = 0;
	uint64_t *other = is_framework ? &p->other.framework_bytes : &p->other.bytes;

	if (!s) {
		c->site = &p->other;
		(void)sat_sub(&p->other.blocks, 1);
		c->site_bytes = sat_sub(other, bytes);
		return;
	}
	c->site = s;
	(void)sat_sub(sat_sub(&e->blocks, 1) ? &s->blocks : &p->other.blocks, 1);
	own = sat_sub(is_framework ? &e->framework_bytes : &e->bytes, bytes);
	c->site_bytes = sat_sub(is_framework ? &s->framework_bytes : &s->bytes, own);
	c->other_bytes = sat_sub(other, bytes - own);
}

void site_merge(struct process *p, struct site *to, struct site *from)
{
	bool is_more = from->bytes > 0 || to->bytes == 0; /* than a framework's blocks */

	if (sat_add(&to->bytes, from->bytes) < from->bytes ||
	    sat_add(&to->framework_bytes, from->framework_bytes) < from->framework_bytes)
		p->exact = false;
	to->blocks += from->blocks;
	to->alloc_count += from->alloc_count;
	if (from->last_ns >= to->last_ns && is_more) {
		to->call = from->call;
		to->device = from->device;
		to->class = from->class;
		to->stack_reason = from->stack_reason;
	}
	to->first_ns = MIN(to->first_ns, from->first_ns);
	to->last_ns = MAX(to->last_ns, from->last_ns);
	if (from->stack)
		site_offer_stack(to, from->stack);
	site_remove(p, from);
}

struct site *process_next_site(const struct process *p, size_t *iter)
{
	if (*iter == SIZE_MAX)
		return NULL;
	if (*iter < p->sites_len)
		return p->sites[(*iter)++];
	*iter = SIZE_MAX;
	return p->other.is_other ? (struct site *)&p->other : NULL;
}

uint64_t site_live_bytes(const struct site *s, uint32_t classes)
{
	uint64_t sum = classes & ~(1u << CLASS_FRAMEWORK) ? s->bytes : 0;

	if (classes & (1u << CLASS_FRAMEWORK))
		(void)sat_add(&sum, s->framework_bytes);
	return sum;
}

struct site *process_top_site(const struct process *p, uint32_t classes)
{
	struct site *best = NULL, *s;
	size_t iter = 0;

	while ((s = process_next_site(p, &iter))) {
		uint64_t bytes = site_live_bytes(s, classes);
		bool is_of = classes & (1u << s->class), best_is_of = best && (classes & (1u << best->class));

		if (bytes > 0 && (!best || is_of > best_is_of ||
				  (is_of == best_is_of && bytes > site_live_bytes(best, classes))))
			best = s;
	}
	return best;
}

static int site_compare(const void *a, const void *b)
{
	const struct site *x = *(struct site *const *)a, *y = *(struct site *const *)b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	if (x->framework_bytes != y->framework_bytes)
		return x->framework_bytes < y->framework_bytes ? 1 : -1;
	return x->key < y->key ? -1 : x->key > y->key;
}

int process_sort_sites(const struct process *p, struct site ***ret, size_t *ret_len)
{
	struct site **list = calloc(p->sites_len + 1, sizeof(*list)), *s;
	size_t iter = 0, len = 0;

	if (!list)
		return -ENOMEM;
	while ((s = process_next_site(p, &iter))) {
		if (s->bytes > 0 || s->framework_bytes > 0)
			list[len++] = s;
	}
	qsort(list, len, sizeof(*list), site_compare);
	*ret = list;
	*ret_len = len;
	return 0;
}

void process_forget_blocks(struct process *p)
{
	struct site *s;
	size_t iter = 0;
	void *value;

	memset(p->live, 0, sizeof(p->live));
	p->live_bytes = 0;
	p->live_count = p->framework_live_count = 0;
	for (size_t i = 0; i < p->devices_len; i++)
		memset(p->devices[i].live, 0, sizeof(p->devices[i].live));
	while ((s = process_next_site(p, &iter)))
		s->bytes = s->framework_bytes = s->blocks = 0;
	p->none.bytes = p->none.framework_bytes = p->none.blocks = 0;
	for (iter = 0; map64_next(&p->stacks, &iter, NULL, &value);) {
		struct stack_entry *e = value;

		e->bytes = e->framework_bytes = e->blocks = 0;
	}
}
