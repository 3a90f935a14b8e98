/* SPDX-License-Identifier: MIT */
/* Rules that are silent about a subject because another one has said what matters. For "the same subject" see rule.h. */
#include "model/saturate.h"
#include "rule/match.h"
#include "rule/watch.h"

/* To whoever listens it fires. */
static bool is_heard(const struct incident *inc)
{
	return inc && inc->is_said && inc->state != INCIDENT_PENDING;
}

static bool is_heard_in(const struct slot *slots, size_t len, const struct rule_state *by)
{
	for (size_t i = 0; i < len; i++) {
		if (slots[i].rs == by)
			return is_heard(slots[i].incident);
	}
	return false;
}

static bool is_heard_of_site(const struct rule_state *by, const struct process *p)
{
	for (const struct incident *inc = p->watch->incidents > 0 ? by->incidents : NULL; inc; inc = inc->next) {
		if (inc->subject.p == p && is_heard(inc))
			return true;
	}
	return false;
}

bool membership_holds(const struct process *p, const struct membership *m)
{
	const struct process_device *pd;

	if (!m->g || m->g->scope != SCOPE_DEVICE || m->slot < 0)
		return m->g;
	pd = &p->devices[m->slot];
	if (pd->driver_bytes == UINT64_MAX)
		return pd->ordinal == PROCESS_DEVICE_DRIVER || sat_sum(pd->live, CLASS_DEVICE_MASK) > 0;
	return pd->driver_bytes > 0 || sat_sum(pd->live, CLASS_DEVICE_MASK) > 0;
}

static bool silences_process(const struct rule_state *by, const struct process *p)
{
	const struct process_watch *w = p->watch;

	if (by->rule->scope == SCOPE_STACK)
		return is_heard_of_site(by, p);
	if (!rule_is_of_group(by->rule))
		return is_heard_in(w->slots, w->slots_len, by);
	for (size_t i = 0; i < w->members_len; i++) {
		const struct membership *m = &w->members[i];

		if (membership_holds(p, m) && is_heard_in(m->g->slots, m->g->slots_len, by))
			return true;
	}
	return false;
}

static bool silences_group(struct engine *e, struct rule_state *by, const struct group *g)
{
	/* With a match the other rule has groups of its own. */
	struct rule_state *const filters[] = { NULL, by };

	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		const struct group *same = group_find(e, g->scope, filters[i], g->key);

		if (same && is_heard_in(same->slots, same->slots_len, by))
			return true;
	}
	return false;
}

bool incident_is_inhibited(struct engine *e, const struct rule_state *rs, const struct subject *s)
{
	for (size_t i = 0; i < rs->inhibitors_len; i++) {
		struct rule_state *by = rs->inhibitors[i];

		if (s->p ? silences_process(by, s->p) : silences_group(e, by, s->g))
			return true;
		if (e->restored_len && restored_inhibits(e, by, s))
			return true;
	}
	return false;
}
