/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "model/process.h"
#include "model/saturate.h"

/* Sites without a block can make room: a program that compiles as it runs has ever new stacks. */
static size_t process_sweep_sites(struct process *p)
{
	_cleanup_free_ uint64_t *keys = NULL;
	size_t iter = 0, len = 0;
	uint64_t key;
	void *value;

	keys = malloc(p->sites.len * sizeof(*keys) + 1);
	if (!keys)
		return 0;
	while (map64_next(&p->sites, &iter, &key, &value)) {
		struct site *s = value;

		if (s->blocks == 0 && s->bytes == 0 && (!s->watch || (p->release_site && p->release_site(s))))
			keys[len++] = key;
	}
	for (size_t i = 0; i < len; i++)
		free(map64_remove(&p->sites, keys[i]));
	return len;
}

static struct site *process_new_site(struct process *p, uint64_t key, uint64_t birth_ns, int *r)
{
	struct site *s = calloc(1, sizeof(*s));

	if (!s || map64_put(&p->sites, key, s) < 0) {
		free(s);
		*r = -ENOMEM;
		return NULL;
	}
	s->key = key;
	s->first_ns = s->last_ns = birth_ns;
	return s;
}

struct site *process_site(struct process *p, uint64_t key, const struct limits *limits, uint64_t birth_ns, int *r)
{
	struct site *s = map64_get(&p->sites, key);

	if (s)
		return s;
	if (p->sites.len >= limits->sites_per_process && p->sites_overflow >= p->sites_sweep) {
		/* A sweep that found little is not tried again at once. */
		if (process_sweep_sites(p) < limits->sites_per_process / 8)
			p->sites_sweep = p->sites_overflow + limits->sites_per_process;
	}
	if (p->sites.len < limits->sites_per_process) {
		s = process_new_site(p, key, birth_ns, r);
		if (s)
			return s;
	}
	p->sites_overflow++;
	if (!p->other.is_other) {
		p->other.is_other = true;
		p->other.first_ns = p->other.last_ns = birth_ns;
	}
	return &p->other;
}

/* A block may have been booked on "other" before its own site found room. Which one it was is not kept, so what the
 * site lacks is taken there: the sum over the sites stays that of the blocks. */
void process_free_site(struct process *p, const struct event *ev, struct change *c)
{
	struct site *s = map64_get(&p->sites, ev->stack);
	uint64_t bytes = ev->class == CLASS_IMPORTED ? 0 : ev->bytes;

	c->site = s ? s : &p->other;
	if (sat_sub(&c->site->blocks, 1) < 1)
		(void)sat_sub(&p->other.blocks, 1);
	c->site_bytes = sat_sub(&c->site->bytes, bytes);
	if (s)
		c->other_bytes = sat_sub(&p->other.bytes, bytes - c->site_bytes);
}

struct site *process_next_site(const struct process *p, size_t *iter)
{
	void *value;

	if (*iter == SIZE_MAX)
		return NULL;
	if (map64_next(&p->sites, iter, NULL, &value))
		return value;
	*iter = SIZE_MAX;
	return p->other.is_other ? (struct site *)&p->other : NULL;
}

struct site *process_top_site(const struct process *p)
{
	struct site *best = NULL, *s;
	size_t iter = 0;

	while ((s = process_next_site(p, &iter))) {
		if (s->bytes > 0 && (!best || s->bytes > best->bytes))
			best = s;
	}
	return best;
}

static int site_compare(const void *a, const void *b)
{
	const struct site *x = *(struct site *const *)a, *y = *(struct site *const *)b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x->key < y->key ? -1 : x->key > y->key;
}

int process_sort_sites(const struct process *p, struct site ***ret, size_t *ret_len)
{
	struct site **list = calloc(p->sites.len + 1, sizeof(*list)), *s;
	size_t iter = 0, len = 0;

	if (!list)
		return -ENOMEM;
	while ((s = process_next_site(p, &iter))) {
		if (s->bytes > 0)
			list[len++] = s;
	}
	qsort(list, len, sizeof(*list), site_compare);
	*ret = list;
	*ret_len = len;
	return 0;
}

int process_add_stack(struct process *p, struct stack *s, const struct limits *limits)
{
	int r;

	if (map64_get(&p->stacks, s->key))
		return 0;
	if (p->stacks.len >= limits->stacks_per_process) {
		p->stacks_overflow++;
		return -ENOSPC;
	}
	r = map64_put(&p->stacks, s->key, s);
	if (r < 0)
		return r;
	(void)stack_ref(s);
	return 0;
}

struct stack *process_stack(const struct process *p, uint64_t key)
{
	return map64_get(&p->stacks, key);
}

void process_forget_blocks(struct process *p)
{
	struct site *s;
	size_t iter = 0;

	memset(p->live, 0, sizeof(p->live));
	p->live_bytes = 0;
	p->live_count = 0;
	for (size_t i = 0; i < p->devices_len; i++)
		memset(p->devices[i].live, 0, sizeof(p->devices[i].live));
	while ((s = process_next_site(p, &iter)))
		s->bytes = s->blocks = 0;
}
