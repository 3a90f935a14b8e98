/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "model/saturate.h"
#include "rule/match.h"
#include "rule/watch.h"

/* What fit_process puts together before anything is changed. */
struct fit {
	struct slot *slots;
	size_t slots_len;
	struct membership *members;
	size_t members_len, members_cap;
	bool is_waiting;
};

static void fit_done(struct fit *f)
{
	free(f->slots);
	free(f->members);
}

static bool is_filtered(const struct rule_state *rs)
{
	return rs->has_process_keys || (rs->has_device_keys && rs->rule->scope != SCOPE_DEVICE);
}

static const char *scope_key(enum rule_scope scope, const struct identity *id)
{
	if (!id)
		return NULL;
	switch (scope) {
	case SCOPE_CGROUP:
		return id->cgroup;
	case SCOPE_UNIT:
		return id->unit ? id->unit : id->user_unit;
	case SCOPE_USER:
		return id->user;
	case SCOPE_CONTAINER:
		return id->container;
	default:
		return NULL;
	}
}

static bool matches_device(const struct rule *r, const struct process *p, const struct device *dev)
{
	return dev && rule_matches(r, p->id, dev->uuid, dev->index);
}

static int fit_member(struct engine *e, struct fit *f, struct rule_state *rs, const char *key, struct device *device,
		      int device_slot, const struct occasion *o)
{
	struct group *g;
	int r;

	r = group_get(e, rs->rule->scope, is_filtered(rs) ? rs : NULL, key, device, o, &g);
	if (r < 0)
		return r;
	for (size_t i = 0; i < f->members_len; i++) {
		if (f->members[i].g == g && f->members[i].slot == device_slot)
			return 0;
	}
	if (f->members_len >= f->members_cap) {
		size_t cap = f->members_cap ? f->members_cap * 2 : 4;
		struct membership *members = realloc(f->members, cap * sizeof(*members));

		if (!members)
			return -ENOMEM;
		f->members = members;
		f->members_cap = cap;
	}
	f->members[f->members_len++] = (struct membership){ .g = g, .slot = device_slot };
	return 0;
}

static int fit_group_rule(struct engine *e, struct fit *f, struct rule_state *rs, struct process *p,
			  const struct occasion *o)
{
	const struct rule *rule = rs->rule;
	const char *key = scope_key(rule->scope, p->id);
	int r;

	if (rule->scope != SCOPE_DEVICE && !rs->has_device_keys) {
		if (!key || !rule_matches(rule, p->id, NULL, -1))
			return 0;
		return fit_member(e, f, rs, key, NULL, -1, o);
	}
	if (rule->scope != SCOPE_DEVICE && !key)
		return 0;
	for (size_t i = 0; i < p->devices_len; i++) {
		struct device *dev = p->devices[i].device;

		if (!matches_device(rule, p, dev))
			continue;
		if (rule->scope == SCOPE_DEVICE)
			r = fit_member(e, f, rs, dev->uuid, dev, (int)i, o);
		else
			r = fit_member(e, f, rs, key, NULL, (int)i, o);
		if (r < 0)
			return r;
	}
	return 0;
}

static void fit_slot(struct fit *f, struct rule_state *rs, struct process *p, bool must_wait)
{
	struct slot slot = { .rs = rs, .is_waiting = must_wait };
	const struct process_watch *w = p->watch;

	if (!must_wait && rs->has_device_keys) {
		for (size_t i = 0; i < p->devices_len; i++) {
			if (matches_device(rs->rule, p, p->devices[i].device))
				slot.devices |= UINT64_C(1) << i;
		}
		if (!slot.devices)
			return;
	} else if (!must_wait && !rule_matches(rs->rule, p->id, NULL, -1)) {
		return;
	}
	for (size_t i = 0; i < w->slots_len; i++) {
		if (w->slots[i].rs != rs)
			continue;
		slot = (struct slot){ .rs = rs, .is_waiting = must_wait, .devices = slot.devices,
				      .is_fresh = w->slots[i].is_waiting && !must_wait, .rate = w->slots[i].rate,
				      .incident = w->slots[i].incident, .streak = w->slots[i].streak,
				      .calm = w->slots[i].calm, .group = w->slots[i].group };
		break;
	}
	f->slots[f->slots_len++] = slot;
}

static int fit_rules(struct engine *e, struct fit *f, struct process *p, const struct occasion *o)
{
	int r;

	f->slots = calloc(e->states_len + 1, sizeof(*f->slots));
	if (!f->slots)
		return -ENOMEM;
	for (size_t i = 0; i < e->states_len; i++) {
		struct rule_state *rs = e->states[i];
		bool must_wait = rs->has_process_keys && !p->watch->is_identified;

		if (rule_is_of_group(rs->rule)) {
			f->is_waiting = f->is_waiting || must_wait;
			r = must_wait ? 0 : fit_group_rule(e, f, rs, p, o);
			if (r < 0)
				return r;
			continue;
		}
		f->is_waiting = f->is_waiting || must_wait;
		fit_slot(f, rs, p, must_wait);
	}
	return 0;
}

/* Puts the new slots in place; what the old ones hold and the new ones did not take over ends. */
static void adopt_slots(struct engine *e, struct process *p, struct fit *f, const struct occasion *o)
{
	struct process_watch *w = p->watch;

	for (size_t i = 0; i < w->slots_len; i++) {
		struct slot *old = &w->slots[i];
		bool is_kept = false;

		for (size_t k = 0; k < f->slots_len && !is_kept; k++)
			is_kept = f->slots[k].rs == old->rs;
		if (is_kept)
			continue;
		if (old->incident)
			incident_vanish(e, old->incident, o);
		slot_done(old);
	}
	free(w->slots);
	w->slots = TAKE_PTR(f->slots);
	w->slots_len = f->slots_len;
	slots_link(w->slots, w->slots_len);
	w->is_waiting = f->is_waiting;
}

static void adopt_members(struct engine *e, struct process *p, struct fit *f, const struct occasion *o)
{
	struct process_watch *w = p->watch;

	for (size_t i = 0; i < f->members_len; i++)
		group_join(e, p, &f->members[i]);
	fit_leave(e, p, o);
	w->members = TAKE_PTR(f->members);
	w->members_len = f->members_len;
	for (size_t i = 0; i < w->members_len; i++)
		condition_group(e, w->members[i].g, o);
}

void fit_leave(struct engine *e, struct process *p, const struct occasion *o)
{
	struct process_watch *w = p->watch;

	for (size_t i = 0; i < w->members_len; i++)
		group_leave(e, p, &w->members[i]);
	for (size_t i = 0; i < w->members_len; i++) {
		struct group *g = w->members[i].g;
		bool is_seen = false;

		/* A group may be named once for each of several devices. */
		for (size_t k = 0; k < i && !is_seen; k++)
			is_seen = w->members[k].g == g;
		if (is_seen)
			w->members[i].g = NULL;
	}
	for (size_t i = 0; i < w->members_len; i++) {
		struct group *g = w->members[i].g;

		if (!g)
			continue;
		if (g->members > 0 || (g->scope == SCOPE_DEVICE && !g->filter))
			condition_group(e, g, o);
		else
			group_put(e, g, o);
	}
	free(w->members);
	w->members = NULL;
	w->members_len = 0;
}

/* Single events that had to wait are judged by the rules that now know. */
static void replay_deferred(struct engine *e, struct process *p, const struct occasion *o)
{
	struct process_watch *w = p->watch;
	size_t len = w->deferred_len;

	w->deferred_len = 0;
	for (size_t i = 0; i < len; i++) {
		struct event ev = w->deferred[i];
		struct occasion then = { .time_ns = ev.time_ns, .ev = &ev, .is_end = o->is_end };

		then.real_usec = o->real_usec - sat_diff(o->time_ns, ev.time_ns) / NSEC_PER_USEC;
		condition_single(e, p, &then, true);
	}
	for (size_t i = 0; i < w->slots_len; i++)
		w->slots[i].is_fresh = false;
	if (!w->is_waiting) {
		free(w->deferred);
		w->deferred = NULL;
		w->deferred_len = 0;
	}
}

int fit_process(struct engine *e, struct process *p, const struct occasion *o)
{
	_cleanup_(fit_done) struct fit f = { 0 };
	struct process_watch *w = p->watch;
	int r;

	r = fit_rules(e, &f, p, o);
	if (r < 0) {
		w->needs_refit = true;
		e->no_memory++;
		return r;
	}
	w->needs_refit = false;
	adopt_slots(e, p, &f, o);
	adopt_members(e, p, &f, o);
	replay_deferred(e, p, o);
	condition_process(e, p, o);
	bound_arm(e, p, o);
	return 0;
}

/* Does the rule speak about this group? A filtered group is its rule's own. */
static bool fits_group(const struct rule_state *rs, const struct group *g)
{
	if (!rule_is_of_group(rs->rule) || rs->rule->scope != g->scope)
		return false;
	if (g->filter || is_filtered(rs))
		return g->filter == rs;
	return g->scope != SCOPE_DEVICE || rule_matches(rs->rule, NULL, g->device->uuid, g->device->index);
}

int fit_group(struct engine *e, struct group *g, const struct occasion *o)
{
	_cleanup_free_ struct slot *slots = calloc(e->states_len + 1, sizeof(*slots));
	size_t len = 0;

	g->is_dirty = true;
	if (!slots) {
		e->no_memory++;
		return -ENOMEM;
	}
	g->has_rates = false;
	for (size_t i = 0; i < e->states_len; i++) {
		struct rule_state *rs = e->states[i];

		if (!fits_group(rs, g))
			continue;
		slots[len].rs = rs;
		g->has_rates = g->has_rates || rs->rule->kind == RULE_ALLOC_RATE;
		for (size_t k = 0; k < g->slots_len; k++) {
			if (g->slots[k].rs != rs)
				continue;
			slots[len] = g->slots[k];
			g->slots[k].incident = NULL;
			g->slots[k].rate = NULL;
		}
		len++;
	}
	for (size_t k = 0; k < g->slots_len; k++) {
		if (g->slots[k].incident)
			incident_vanish(e, g->slots[k].incident, o);
		slot_done(&g->slots[k]);
	}
	free(g->slots);
	g->slots = TAKE_PTR(slots);
	g->slots_len = len;
	slots_link(g->slots, len);
	condition_group(e, g, o);
	return 0;
}

int fit_device(struct engine *e, struct device *dev, const struct occasion *o)
{
	struct group *g = group_find(e, SCOPE_DEVICE, NULL, dev->uuid);

	for (size_t i = 0; !g && i < e->states_len; i++) {
		const struct rule_state *rs = e->states[i];

		if (rule_is_of_group(rs->rule) && rs->rule->scope == SCOPE_DEVICE && !is_filtered(rs))
			return group_get(e, SCOPE_DEVICE, NULL, dev->uuid, dev, o, &g);
	}
	return g ? fit_group(e, g, o) : 0;
}
