/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/saturate.h"
#include "rule/watch.h"

DEFINE_CLEANUP(struct group, group_free)

static uint64_t group_hash(enum rule_scope scope, const struct rule_state *filter, const char *key)
{
	return hash_str(hash64((uint64_t)(uintptr_t)filter + scope), key);
}

struct group *group_find(struct engine *e, enum rule_scope scope, struct rule_state *filter, const char *key)
{
	struct group *g = map64_get(&e->groups_by_hash, group_hash(scope, filter, key));

	while (g && !(g->scope == scope && g->filter == filter && strcmp(g->key, key) == 0))
		g = g->next;
	return g;
}

void group_free(struct group *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->slots_len; i++)
		slot_done(&g->slots[i]);
	free(g->slots);
	free(g->key);
	free(g);
}

int group_get(struct engine *e, enum rule_scope scope, struct rule_state *filter, const char *key,
	      struct device *device, const struct occasion *o, struct group **ret)
{
	_cleanup_(group_freep) struct group *g = NULL;
	struct group *found = group_find(e, scope, filter, key), **list;

	if (found) {
		*ret = found;
		return 0;
	}
	g = calloc(1, sizeof(*g));
	if (!g || !(g->key = strdup(key)))
		return -ENOMEM;
	g->scope = scope;
	g->filter = filter;
	g->device = device;
	g->high = UINT64_MAX;
	g->hash = group_hash(scope, filter, key);
	list = realloc(e->groups, (e->groups_len + 1) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	e->groups = list;
	g->next = map64_get(&e->groups_by_hash, g->hash);
	if (map64_put(&e->groups_by_hash, g->hash, g) < 0)
		return -ENOMEM;
	g->index = e->groups_len;
	found = list[e->groups_len++] = TAKE_PTR(g);
	/* Without memory for its slots it is fitted again at the next tick. */
	(void)fit_group(e, found, o);
	*ret = found;
	return 0;
}

void group_remove(struct engine *e, struct group *g, const struct occasion *o)
{
	struct group *first = map64_get(&e->groups_by_hash, g->hash);
	struct occasion end = *o;

	end.is_end = true;
	for (size_t i = 0; i < g->slots_len; i++) {
		if (g->slots[i].incident)
			incident_vanish(e, g->slots[i].incident, &end);
	}
	if (first == g) {
		if (g->next)
			(void)map64_put(&e->groups_by_hash, g->hash, g->next);
		else
			(void)map64_remove(&e->groups_by_hash, g->hash);
	} else {
		while (first->next != g)
			first = first->next;
		first->next = g->next;
	}
	e->groups[g->index] = e->groups[--e->groups_len];
	e->groups[g->index]->index = g->index;
	group_free(g);
}

void group_put(struct engine *e, struct group *g, const struct occasion *o)
{
	if (g->members == 0 && !(g->scope == SCOPE_DEVICE && !g->filter))
		group_remove(e, g, o);
}

uint64_t group_value(const struct group *g, uint32_t classes)
{
	/* What the driver says counts for the device as a whole, whoever uses it; not for some processes or classes. */
	if (g->scope == SCOPE_DEVICE && !g->filter && classes == CLASS_DEVICE_MASK)
		return device_used(g->device, classes);
	return sat_sum(g->live, classes);
}

static void add(struct engine *e, uint64_t *total, uint64_t n)
{
	if (sat_add(total, n) < n)
		e->is_summed_badly = true;
}

static const uint64_t *member_live(const struct process *p, const struct membership *m)
{
	return m->slot < 0 ? p->live : p->devices[m->slot].live;
}

void group_join(struct engine *e, struct process *p, const struct membership *m)
{
	const uint64_t *live = member_live(p, m);

	for (size_t c = 0; c < CLASS_MAX; c++)
		add(e, &m->g->live[c], live[c]);
	m->g->members++;
	m->g->is_dirty = true;
}

void group_leave(struct engine *e, struct process *p, const struct membership *m)
{
	const uint64_t *live = member_live(p, m);

	for (size_t c = 0; c < CLASS_MAX; c++)
		(void)sat_sub(&m->g->live[c], live[c]);
	m->g->members--;
	m->g->is_dirty = true;
}

void group_apply(struct engine *e, struct process *p, const struct change *c, const struct occasion *o)
{
	struct process_watch *w = p->watch;
	struct device *dev = c->slot >= 0 ? p->devices[c->slot].device : NULL;

	if (dev && c->is_free)
		(void)sat_sub(&dev->live[c->class], c->device_bytes);
	else if (dev)
		add(e, &dev->live[c->class], c->device_bytes);

	for (size_t i = 0; i < w->members_len; i++) {
		struct group *g = w->members[i].g;
		uint64_t bytes = w->members[i].slot < 0 ? c->bytes : c->device_bytes, value;

		if (w->members[i].slot >= 0 && w->members[i].slot != c->slot)
			continue;
		if (c->is_free)
			(void)sat_sub(&g->live[c->class], bytes);
		else
			add(e, &g->live[c->class], bytes);
		g->is_dirty = true;
		value = group_value(g, CLASS_DEVICE_MASK);
		if (value > g->high || value < g->low || (g->odd_classes & (1u << c->class)))
			condition_group(e, g, o);
	}
}

void group_sum(struct engine *e)
{
	e->is_summed_badly = false;
	for (size_t i = 0; i < e->groups_len; i++)
		memset(e->groups[i]->live, 0, sizeof(e->groups[i]->live));
	for (size_t i = 0; i < e->devices.len; i++)
		memset(e->devices.list[i]->live, 0, sizeof(e->devices.list[i]->live));
	for (size_t i = 0; i < e->processes.len; i++) {
		struct process *p = e->processes.list[i];

		for (size_t k = 0; k < p->devices_len; k++) {
			for (size_t c = 0; p->devices[k].device && c < CLASS_MAX; c++)
				add(e, &p->devices[k].device->live[c], p->devices[k].live[c]);
		}
		for (size_t k = 0; k < p->watch->members_len; k++) {
			const struct membership *m = &p->watch->members[k];

			for (size_t c = 0; c < CLASS_MAX; c++)
				add(e, &m->g->live[c], member_live(p, m)[c]);
			m->g->is_dirty = true;
		}
	}
}

bool group_is_exact(const struct engine *e, const struct group *g)
{
	for (size_t i = 0; i < e->processes.len; i++) {
		const struct process *p = e->processes.list[i];

		for (size_t k = 0; !p->exact && k < p->watch->members_len; k++) {
			if (p->watch->members[k].g == g)
				return false;
		}
	}
	return true;
}
