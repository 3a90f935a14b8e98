/* SPDX-License-Identifier: MIT */
#include "model/process.h"

#include <errno.h>
#include <string.h>

#include "model/saturate.h"

#define ROOM_RESERVE 32
/* The driver keeps what of these is freed. */
#define POOL_CLASSES ((1u << CLASS_ASYNC) | (1u << CLASS_GRAPH))
#define IS_DEVICE_CLASS(c) ((CLASS_DEVICE_MASK >> (c)) & 1)

/* Slot that holds an ordinal, or -1. */
static int process_find_slot(const struct process *p, int ordinal)
{
	for (size_t i = 0; i < p->devices_len; i++) {
		if (p->devices[i].ordinal == ordinal)
			return (int)i;
	}
	return -1;
}

int process_device_slot(struct process *p, int ordinal)
{
	struct process_device *list;
	int slot;

	if (ordinal < 0)
		ordinal = EVENT_NO_DEVICE;
	slot = process_find_slot(p, ordinal);
	if (slot >= 0)
		return slot;
	/* The last slot is for those that do not fit. Slots are never given back, so a free finds its allocation's. */
	if (ordinal != EVENT_NO_DEVICE && p->devices_len >= PROCESS_DEVICES_MAX - 1)
		return process_device_slot(p, EVENT_NO_DEVICE);
	list = realloc(p->devices, (p->devices_len + 1) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	p->devices = list;
	list[p->devices_len] = (struct process_device){ .ordinal = ordinal, .driver_bytes = UINT64_MAX };
	return (int)p->devices_len++;
}

int process_driver_slot(struct process *p, struct device *dev, bool *ret_is_new)
{
	struct process_device *list;
	int found = -1;

	*ret_is_new = false;
	/* One of its own ordinals before one that only the driver has named. */
	for (size_t i = 0; i < p->devices_len; i++) {
		if (p->devices[i].device == dev && (found < 0 || p->devices[found].ordinal == PROCESS_DEVICE_DRIVER))
			found = (int)i;
	}
	if (found >= 0)
		return found;
	if (p->devices_len >= PROCESS_DEVICES_MAX - 1)
		return -ENOSPC;
	list = realloc(p->devices, (p->devices_len + 1) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	p->devices = list;
	list[p->devices_len] = (struct process_device){ .ordinal = PROCESS_DEVICE_DRIVER, .device = dev,
							.driver_bytes = UINT64_MAX };
	*ret_is_new = true;
	return (int)p->devices_len++;
}

bool process_holds_memory(const struct process *p)
{
	return p->live_bytes > 0 || (p->is_listed && p->driver_bytes > 0);
}

int process_main_device(const struct process *p, uint32_t classes)
{
	uint64_t most = 0;
	int best = -1;

	for (size_t i = 0; i < p->devices_len; i++) {
		const struct process_device *pd = &p->devices[i];
		uint64_t bytes = sat_sum(pd->live, classes);

		if (best < 0 || (pd->device && !p->devices[best].device) ||
		    (bytes > most && !pd->device == !p->devices[best].device)) {
			best = (int)i;
			most = bytes;
		}
	}
	return best;
}

static void process_add_total(struct process *p, uint8_t class, uint64_t bytes, int slot, struct change *c)
{
	c->bytes = sat_add(&p->live[class], bytes);
	if (c->bytes < bytes)
		p->exact = false;
	c->slot = slot;
	if (slot >= 0)
		c->device_bytes = sat_add(&p->devices[slot].live[class], bytes);
	if (IS_DEVICE_CLASS(class))
		p->live_bytes = sat_sum(p->live, CLASS_DEVICE_MASK);
	if (POOL_CLASSES & (1u << class))
		p->pool_peak_bytes = MAX(p->pool_peak_bytes, sat_sum(p->live, POOL_CLASSES));
}

/* What the site's last allocation was. A tensor says nothing of where the driver's memory comes from. */
static void process_describe_site(struct site *s, const struct event *ev)
{
	if (ev->class == CLASS_FRAMEWORK && s->bytes > 0)
		return;
	s->class = ev->class;
	s->call = ev->call;
	s->device = ev->device;
	s->stack_reason = ev->stack_reason;
}

/* Books a block; the entry that its stack has, NULL if none, goes to *ret_entry. */
static int process_book(struct process *p, const struct event *ev, const struct limits *limits, struct change *ret,
			struct stack_entry **ret_entry)
{
	uint64_t birth_ns = ev->birth_ns ? ev->birth_ns : ev->time_ns;
	bool is_framework = ev->class == CLASS_FRAMEWORK;
	struct stack_entry *e;
	struct site *site;
	int slot, r;

	*ret = (struct change){ .class = ev->class, .slot = -1 };
	slot = process_device_slot(p, ev->device);
	r = slot < 0 ? slot : 0;
	process_add_total(p, ev->class, ev->bytes, slot, ret);
	(*(is_framework ? &p->framework_live_count : &p->live_count))++;

	e = process_use_stack(p, ev->stack, limits, &r);
	site = process_site(p, e, limits, birth_ns, &r);
	process_describe_site(site, ev);
	site->blocks++;
	if (birth_ns < site->first_ns)
		site->first_ns = birth_ns;
	if (birth_ns > site->last_ns)
		site->last_ns = birth_ns;
	ret->site = site;
	if (ev->class != CLASS_IMPORTED)
		ret->site_bytes = sat_add(is_framework ? &site->framework_bytes : &site->bytes, ev->bytes);
	if (!site->is_other) {
		e->blocks++;
		(void)sat_add(is_framework ? &e->framework_bytes : &e->bytes, ret->site_bytes);
	}
	*ret_entry = e;
	if (r < 0)
		p->exact = false;
	return r;
}

static void widen(struct held_range *r, uint64_t held, uint64_t time_ns)
{
	if (held < r->low)
		r->low = held;
	if (held > r->high) {
		r->high = held;
		r->high_ns = time_ns;
		r->high_usec = 0;
	}
}

void process_begin_look(struct process_device *pd, uint64_t time_ns)
{
	pd->look = (struct held_range){ .low = pd->held, .high = pd->held, .high_ns = time_ns };
	pd->look_ns = time_ns;
}

void process_begin_ranges(struct process_device *pd, uint64_t time_ns)
{
	process_begin_look(pd, time_ns);
	pd->since = pd->look;
}

void process_note_held(struct process_device *pd, uint64_t time_ns)
{
	pd->held = sat_sum(pd->live, CLASS_DEVICE_MASK);
	widen(&pd->look, pd->held, time_ns);
	widen(&pd->since, pd->held, time_ns);
	if (pd->held > pd->peak_bytes) {
		pd->peak_bytes = pd->held;
		pd->peak_ns = time_ns;
	}
}

/* Between begin and end of a rebuild totals mean nothing. */
static void note_change(struct process *p, const struct event *ev, const struct change *c)
{
	if (c->slot >= 0 && IS_DEVICE_CLASS(ev->class) && !p->is_rebuilding)
		process_note_held(&p->devices[c->slot], ev->time_ns);
}

int process_restore(struct process *p, const struct event *ev, const struct limits *limits, struct change *ret)
{
	struct stack_entry *e;

	return process_book(p, ev, limits, ret, &e);
}

int process_alloc(struct process *p, const struct event *ev, const struct limits *limits, struct change *ret)
{
	bool is_framework = ev->class == CLASS_FRAMEWORK;
	struct stack_entry *e;
	int r;

	(*(is_framework ? &p->framework_alloc_count : &p->alloc_count))++;
	(void)sat_add(&p->allocated[ev->class], ev->bytes);
	if (ev->flags & EVENT_F_UNTRACKED) {
		/* Its free will be unknown to the kernel too. */
		p->untracked_count += !is_framework;
		(void)sat_add(&p->untracked_bytes, is_framework ? 0 : ev->bytes);
		p->exact = false;
		process_name_stack(p, process_stack_entry(p, ev->stack), ev->stack);
		*ret = (struct change){ .class = ev->class, .slot = -1 };
		return 0;
	}
	r = process_book(p, ev, limits, ret, &e);
	if (e)
		process_name_stack(p, e, ev->stack);
	ret->site->alloc_count++;
	note_change(p, ev, ret);
	if (p->live_bytes > p->peak_bytes && !p->is_rebuilding) {
		p->peak_bytes = p->live_bytes;
		p->peak_ns = ev->time_ns;
		p->peak_stack = ev->stack;
	}
	return r;
}

void process_fail(struct process *p, const struct event *ev)
{
	p->fail_count += ev->class != CLASS_FRAMEWORK;
	process_name_stack(p, process_stack_entry(p, ev->stack), ev->stack);
}

int process_free(struct process *p, const struct event *ev, struct change *ret)
{
	bool is_framework = ev->class == CLASS_FRAMEWORK;

	*ret = (struct change){ .is_free = true, .class = ev->class, .slot = -1 };
	if (ev->flags & EVENT_F_UNKNOWN) {
		p->unknown_free_count += !is_framework;
		return 0;
	}
	(*(is_framework ? &p->framework_free_count : &p->free_count))++;
	if (sat_sub(is_framework ? &p->framework_live_count : &p->live_count, 1) < 1)
		p->exact = false;
	ret->bytes = sat_sub(&p->live[ev->class], ev->bytes);
	if (ret->bytes < ev->bytes)
		p->exact = false;
	ret->slot = process_find_slot(p, ev->device < 0 ? EVENT_NO_DEVICE : ev->device);
	if (ret->slot < 0)
		ret->slot = process_find_slot(p, EVENT_NO_DEVICE);
	if (ret->slot >= 0)
		ret->device_bytes = sat_sub(&p->devices[ret->slot].live[ev->class], ev->bytes);
	if (IS_DEVICE_CLASS(ev->class))
		p->live_bytes = sat_sum(p->live, CLASS_DEVICE_MASK);

	note_change(p, ev, ret);

	process_free_site(p, ev, ret);
	return 0;
}

static void process_destroy(struct process *p)
{
	size_t iter = 0;
	void *value;

	if (!p)
		return;
	p->all->sites -= p->sites_len;
	p->all->stacks -= p->stacks.len;
	for (size_t i = 0; i < p->sites_len; i++) {
		stack_unref(p->sites[i]->stack);
		free(p->sites[i]);
	}
	free(p->sites);
	map64_done(&p->sites_by_key);
	while (map64_next(&p->stacks, &iter, NULL, &value)) {
		stack_unref(((struct stack_entry *)value)->stack);
		free(value);
	}
	map64_done(&p->stacks);
	map64_done(&p->firsts);
	identity_unref(p->id);
	free(p->devices);
	free(p);
}

bool processes_has_room(size_t max, size_t used, size_t own)
{
	size_t left = used < max ? max - used : 0;

	return max == 0 || left > max / ROOM_RESERVE || own < left;
}

struct process *processes_newest(const struct processes *ps, uint32_t pid)
{
	return map64_get(&ps->by_pid, pid);
}

struct process *processes_find(const struct processes *ps, uint32_t pid, uint64_t start_ns)
{
	struct process *p = map64_get(&ps->by_pid, pid);

	while (p && p->start_ns != start_ns)
		p = p->next;
	return p;
}

int processes_add(struct processes *ps, uint32_t pid, uint64_t start_ns, uint64_t now_ns, struct process **ret)
{
	struct process *p;

	if (ps->len >= ps->cap) {
		size_t cap = ps->cap ? ps->cap * 2 : 64;
		struct process **list = realloc(ps->list, cap * sizeof(*list));

		if (!list)
			return -ENOMEM;
		ps->list = list;
		ps->cap = cap;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->pid = pid;
	p->start_ns = start_ns;
	p->first_ns = p->last_ns = now_ns;
	p->driver_bytes = p->baseline_bytes = UINT64_MAX;
	p->is_covered = true;
	p->exact = true;
	p->other.device = EVENT_NO_DEVICE;
	p->all = ps;
	p->next = map64_get(&ps->by_pid, pid);
	if (map64_put(&ps->by_pid, pid, p) < 0) {
		free(p);
		return -ENOMEM;
	}
	p->index = ps->len;
	ps->list[ps->len++] = p;
	*ret = p;
	return 0;
}

void processes_remove(struct processes *ps, struct process *p)
{
	struct process *first = map64_get(&ps->by_pid, p->pid);

	if (first == p) {
		/* Replacing or removing an existing key needs no memory. */
		if (p->next)
			(void)map64_put(&ps->by_pid, p->pid, p->next);
		else
			(void)map64_remove(&ps->by_pid, p->pid);
	} else {
		while (first->next != p)
			first = first->next;
		first->next = p->next;
	}
	ps->list[p->index] = ps->list[--ps->len];
	ps->list[p->index]->index = p->index;
	process_destroy(p);
}

void processes_done(struct processes *ps)
{
	for (size_t i = 0; i < ps->len; i++)
		process_destroy(ps->list[i]);
	free(ps->list);
	map64_done(&ps->by_pid);
	*ps = (struct processes){};
}
