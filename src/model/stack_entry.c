/* SPDX-License-Identifier: MIT */
/* Stacks of a process by number, and which call site each belongs to. */
#include <errno.h>

#include "model/process.h"

/* Nobody keeps the stack: the probe must send it anew rather than name it. */
static void entry_forget(const struct process *p, uint64_t number, const struct stack *s)
{
	const struct stack bare = { .key = number, .pid = p->pid, .start_ns = p->start_ns };

	if (p->forget_stack)
		p->forget_stack(s && s->key == number ? s : &bare, p->userdata);
}

/* What its frames are told apart by; false while there are none. */
static bool entry_exact(const struct stack_entry *e, uint64_t *ret)
{
	const struct frames *f = e->stack && e->is_resolved ? stack_frames(e->stack) : NULL;

	if (f)
		*ret = f->exact;
	return f;
}

static void entry_drop(struct process *p, struct stack_entry *e)
{
	uint64_t exact;

	(void)map64_remove(&p->stacks, e->number);
	p->all->stacks--;
	if (e->is_copy)
		p->copies--;
	else if (entry_exact(e, &exact) && map64_get(&p->firsts, exact) == e)
		(void)map64_remove(&p->firsts, exact);
	p->copies_kept = MIN(p->copies_kept, p->copies);
	if (e->site && !e->site->is_resolved)
		site_remove(p, e->site);
	stack_unref(e->stack);
	free(e);
}

static bool entry_is_idle(struct process *p, const struct stack_entry *e)
{
	if (e->blocks > 0 || e->bytes > 0 || e->framework_bytes > 0)
		return false;
	/* A site that is not resolved has no other stack, and goes with it. */
	return !e->site || e->site->is_resolved || site_release(p, e->site);
}

/* The one allocation that names a copy has come and gone. */
static bool entry_is_spent(const struct stack_entry *e)
{
	return e->is_copy && e->named == 1;
}

/* Entries without a block make room: copies, and those not named in the last max_age uses. */
static size_t process_sweep_stacks(struct process *p, uint64_t max_age)
{
	_cleanup_free_ struct stack_entry **list = NULL;
	size_t iter = 0, len = 0;
	void *value;

	list = malloc(p->stacks.len * sizeof(struct stack_entry *) + 1);
	if (!list)
		return 0;
	while (map64_next(&p->stacks, &iter, NULL, &value)) {
		struct stack_entry *e = value;

		if ((entry_is_spent(e) || p->stack_uses - e->use > max_age) && entry_is_idle(p, e))
			list[len++] = e;
	}
	for (size_t i = 0; i < len; i++) {
		p->stacks_dropped += !entry_is_spent(list[i]);
		/* A copy too may have been learned under its own number, if what was learned before was forgotten. */
		entry_forget(p, list[i]->number, list[i]->stack);
		entry_drop(p, list[i]);
	}
	return len;
}

void process_drop_copies(struct process *p, const struct limits *limits)
{
	if (p->copies - p->copies_kept <= limits->stacks_per_process / 8)
		return;
	(void)process_sweep_stacks(p, UINT64_MAX);
	p->copies_kept = p->copies;
}

static bool process_has_stack_room(const struct process *p, const struct limits *limits)
{
	return p->stacks.len < limits->stacks_per_process &&
	       processes_has_room(limits->sites, p->all->stacks, p->stacks.len);
}

static bool process_has_room(struct process *p, const struct limits *limits)
{
	uint32_t max = limits->stacks_per_process;

	if (process_has_stack_room(p, limits))
		return true;
	/* A rebuild may be about to name what has no block at the moment. */
	if (p->is_rebuilding || p->stacks_overflow < p->stacks_sweep)
		return false;
	/* A sweep that found little is not tried again at once. */
	if (process_sweep_stacks(p, max) < MAX(max / 8, 1u))
		p->stacks_sweep = p->stacks_overflow + max;
	return process_has_stack_room(p, limits);
}

static int process_new_entry(struct process *p, uint64_t number, const struct limits *limits, struct stack_entry **ret)
{
	struct stack_entry *e;

	if (!process_has_room(p, limits)) {
		p->stacks_overflow++;
		p->all->stacks_overflow += p->stacks.len < limits->stacks_per_process;
		return -ENOSPC;
	}
	e = calloc(1, sizeof(*e));
	if (!e || map64_put(&p->stacks, number, e) < 0) {
		free(e);
		return -ENOMEM;
	}
	e->number = number;
	p->all->stacks++;
	*ret = e;
	return 0;
}

struct stack_entry *process_stack_entry(struct process *p, uint64_t number)
{
	return number ? map64_get(&p->stacks, number) : &p->none;
}

struct stack *process_stack(const struct process *p, uint64_t number)
{
	const struct stack_entry *e = number ? map64_get(&p->stacks, number) : NULL;

	return e ? e->stack : NULL;
}

int process_add_stack(struct process *p, struct stack *s, const struct limits *limits)
{
	struct stack_entry *e;
	int r;

	if (s->key == 0)
		return -EINVAL;
	e = map64_get(&p->stacks, s->key);
	if (e && e->stack)
		return 0;
	p->stack_uses++;
	if (!e) {
		r = process_new_entry(p, s->key, limits, &e);
		if (r < 0)
			return r;
	}
	e->use = p->stack_uses;
	e->stack = stack_ref(s);
	if (e->site)
		site_offer_stack(e->site, s);
	return 0;
}

struct stack_entry *process_use_stack(struct process *p, uint64_t number, const struct limits *limits, int *r)
{
	struct stack_entry *e = process_stack_entry(p, number);
	int q;

	p->stack_uses++;
	if (!e) {
		q = process_new_entry(p, number, limits, &e);
		if (q == -ENOMEM)
			*r = q;
		if (q < 0)
			return NULL;
	}
	e->use = p->stack_uses;
	return e;
}

void process_name_stack(struct process *p, struct stack_entry *e, uint64_t number)
{
	if (number == 0)
		return;
	/* The probe knows what we do not, and would never tell. */
	if (!e || (!e->stack && e->named == 0))
		entry_forget(p, number, NULL);
	if (!e)
		return;
	e->use = p->stack_uses;
	e->named = e->named ? 2 : 1;
}

/* The first number of a stack will be named again, any other but once: the copies share its frames. */
static void entry_compare(struct process *p, struct stack_entry *e)
{
	struct stack_entry *first;
	uint64_t exact;

	if (!entry_exact(e, &exact))
		return;
	first = map64_get(&p->firsts, exact);
	if (!first) {
		/* Without memory the next one is the first. */
		(void)map64_put(&p->firsts, exact, e);
		return;
	}
	if (first == e || first->key != e->key)
		return;
	stack_unref(e->stack);
	e->stack = stack_ref(first->stack);
	e->is_copy = true;
	p->copies++;
}

int process_set_site(struct process *p, struct stack_entry *e, uint64_t key)
{
	struct site *to = process_resolved_site(p, key), *from = e->site;
	int r;

	if (e->is_resolved)
		return 0;
	if (from && !to) {
		r = site_set_key(p, from, key);
		if (r < 0)
			return r;
		to = from;
	} else if (from) {
		site_merge(p, to, from);
	}
	e->site = to;
	e->key = key;
	e->is_resolved = true;
	entry_compare(p, e);
	if (to && e->stack)
		site_offer_stack(to, e->stack);
	return 0;
}
