/* SPDX-License-Identifier: MIT */
/* A new set of rules in the place of the old one, without forgetting what still holds. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "rule/engine_private.h"

/* All that is built before anything is changed. */
struct plan {
	struct rule_state **states; /* by rule; those not yet the engine's are marked dead */
	size_t len;
	struct leak_scale scales[WATCH_SCALES_MAX];
	size_t scales_len;
	struct rule_state **inhibitors; /* room for all lists of them */
	struct rule_state **order;	/* room for the states in the order in which they are judged */
};

static void look_at_keys(const struct match_group *g, bool *process, bool *device)
{
	for (size_t k = 0; g && k < MATCH_KEY_MAX; k++) {
		if (g->key[k].len == 0)
			continue;
		if (k == MATCH_DEVICE)
			*device = true;
		else
			*process = true;
	}
}

static int plan_scale(struct plan *plan, const struct rule *r)
{
	struct leak_scale s;

	if (r->kind != RULE_LEAK)
		return -1;
	leak_scale_init(&s, r);
	for (size_t i = 0; i < plan->scales_len; i++) {
		if (plan->scales[i].epoch_ns == s.epoch_ns && plan->scales[i].epochs == s.epochs &&
		    plan->scales[i].classes == s.classes)
			return (int)i;
	}
	if (plan->scales_len >= WATCH_SCALES_MAX)
		return -ENOSPC;
	plan->scales[plan->scales_len] = s;
	return (int)plan->scales_len++;
}

/* What is derived from the rule; the state of its incidents stays. */
static void set_rule(struct engine *e, struct rule_state *rs, struct rule *r, int scale, bool is_new)
{
	rs->rule = r;
	rs->has_process_keys = rs->has_device_keys = false;
	look_at_keys(r->match, &rs->has_process_keys, &rs->has_device_keys);
	for (size_t i = 0; i < r->except_len; i++)
		look_at_keys(&r->except[i], &rs->has_process_keys, &rs->has_device_keys);
	rs->is_plain = r->classes == CLASS_DEVICE_MASK && !rs->has_device_keys &&
		       r->fire_above.unit != LIMIT_SHARE && r->resolve_below.unit != LIMIT_SHARE;
	rs->scale = scale;
	if (is_new && scale >= 0)
		rs->leak_epoch = watch_leak_time(e, e->now_ns) / e->scales[scale].epoch_ns;
}

static struct rule_state *find_state(const struct engine *e, const struct rule *r)
{
	for (size_t i = 0; i < e->states_len; i++) {
		if (strcmp(e->states[i]->rule->name, r->name) == 0 && e->states[i]->rule->meaning == r->meaning &&
		    e->states[i]->rule->kind == r->kind)
			return e->states[i];
	}
	return NULL;
}

/* Incidents of rules that are no more, or mean something else now. */
static void end_rule(struct engine *e, struct rule_state *rs, const struct occasion *o)
{
	struct incident *inc = rs->incidents, *next;

	rs->is_dead = true;
	for (; inc; inc = next) {
		next = inc->next;
		incident_vanish(e, inc, o);
	}
}

static void move_rings(const struct engine *e, const struct plan *plan, struct leak_ring **rings)
{
	struct leak_ring *moved[WATCH_SCALES_MAX] = { 0 };

	for (size_t i = 0; i < e->scales_len; i++) {
		for (size_t k = 0; k < plan->scales_len && rings[i]; k++) {
			if (memcmp(&e->scales[i], &plan->scales[k], sizeof(plan->scales[k])) == 0)
				moved[k] = TAKE_PTR(rings[i]);
		}
		free(rings[i]);
	}
	memcpy(rings, moved, sizeof(moved));
}

static void drop_dead(struct engine *e, const struct plan *plan)
{
	for (size_t i = 0; i < e->processes.len; i++) {
		struct process *p = e->processes.list[i];
		struct process_watch *w = p->watch;
		struct site *s;
		size_t iter = 0;

		w->slots_len = slots_drop_dead(w->slots, w->slots_len);
		move_rings(e, plan, w->rings);
		move_rings(e, plan, w->untold);
		w->has_suspects = false;
		while ((s = process_next_site(p, &iter))) {
			if (!s->watch)
				continue;
			s->watch->slots_len = slots_drop_dead(s->watch->slots, s->watch->slots_len);
			move_rings(e, plan, s->watch->rings);
			/* Its bits are places in the list of scales. */
			s->watch->suspected = 0;
		}
	}
	for (size_t i = 0; i < e->groups_len; i++)
		e->groups[i]->slots_len = slots_drop_dead(e->groups[i]->slots, e->groups[i]->slots_len);
}

static void fit_all(struct engine *e, const struct occasion *o)
{
	/* The daemon's rules first: a group that is there already is fitted to them, one made now is born so. */
	for (size_t i = e->groups_len; i-- > 0;) {
		struct group *g = e->groups[i];

		if (!(g->filter && g->filter->is_dead))
			(void)fit_group(e, g, o);
	}
	for (size_t i = 0; i < e->devices.len; i++)
		(void)fit_device(e, e->devices.list[i], o);
	for (size_t i = 0; i < e->processes.len; i++) {
		/* Without memory it is out of all groups, so that none of a dead rule is left, and tried again. */
		if (fit_process(e, e->processes.list[i], o) < 0)
			fit_leave(e, e->processes.list[i], o);
	}
	/* A group made for a process whose fit then failed has no member to take it along. */
	for (size_t i = e->groups_len; i-- > 0;)
		group_put(e, e->groups[i], o);
}

static int plan_make(struct engine *e, struct plan *plan, const struct ruleset *rs, int *scales)
{
	for (size_t i = 0; i < rs->len; i++) {
		scales[i] = plan_scale(plan, rs->rules[i]);
		if (scales[i] == -ENOSPC)
			return -ENOSPC;
		plan->states[i] = find_state(e, rs->rules[i]);
		if (plan->states[i])
			continue;
		plan->states[i] = calloc(1, sizeof(*plan->states[i]));
		if (!plan->states[i])
			return -ENOMEM;
		plan->states[i]->is_dead = true;
	}
	return 0;
}

static void plan_done(struct plan *plan)
{
	for (size_t i = 0; plan->states && i < plan->len; i++) {
		if (plan->states[i] && plan->states[i]->is_dead)
			free(plan->states[i]);
	}
	free(plan->states);
	free(plan->inhibitors);
	free(plan->order);
}

static struct rule_state *plan_find(const struct plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->len; i++) {
		if (strcmp(plan->states[i]->rule->name, name) == 0)
			return plan->states[i];
	}
	return NULL;
}

/* Once all states have their rules: who silences whom. The first round counts, the second fills in. */
static void link_inhibitors(const struct plan *plan)
{
	struct rule_state **at = plan->inhibitors;

	for (size_t i = 0; i < plan->len; i++) {
		plan->states[i]->inhibitors = NULL;
		plan->states[i]->inhibitors_len = 0;
	}
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < plan->len; i++) {
			const struct rule *r = plan->states[i]->rule;

			for (size_t k = 0; k < r->inhibits_len; k++) {
				struct rule_state *to = plan_find(plan, r->inhibits[k]);

				if (to && round == 1)
					to->inhibitors[to->inhibitors_len] = plan->states[i];
				if (to)
					to->inhibitors_len++;
			}
		}
		for (size_t i = 0; i < plan->len && round == 0; i++) {
			plan->states[i]->inhibitors = at;
			at += plan->states[i]->inhibitors_len;
			plan->states[i]->inhibitors_len = 0;
		}
	}
}

/*
 * As they stand in the file, but for those that silence others: they come before those, since one event may make both
 * fire. There are no circles, so each round over what is left places at least one; rules of chains are few.
 */
static void put_in_order(const struct plan *plan)
{
	size_t len = 0, last = SIZE_MAX;

	for (size_t i = 0; i < plan->len; i++)
		plan->states[i]->is_placed = false;
	while (len < plan->len && len != last) {
		last = len;
		for (size_t i = 0; i < plan->len; i++) {
			struct rule_state *rs = plan->states[i];
			bool may = !rs->is_placed;

			for (size_t k = 0; may && k < rs->inhibitors_len; k++)
				may = rs->inhibitors[k]->is_placed;
			if (!may)
				continue;
			rs->is_placed = true;
			plan->order[len++] = rs;
		}
	}
	/* Of a set with a circle, which nobody has checked. */
	for (size_t i = 0; i < plan->len; i++) {
		if (!plan->states[i]->is_placed)
			plan->order[len++] = plan->states[i];
	}
}

static bool is_reused(const struct plan *plan, const struct rule_state *rs)
{
	for (size_t i = 0; i < plan->len; i++) {
		if (plan->states[i] == rs)
			return true;
	}
	return false;
}

int engine_set_rules(struct engine *e, struct ruleset *rs, uint64_t now_ns, uint64_t real_usec)
{
	_cleanup_(ruleset_freep) struct ruleset *owned = rs, *gone = NULL;
	_cleanup_(plan_done) struct plan plan = { 0 };
	_cleanup_free_ struct rule_state **old = NULL;
	_cleanup_free_ int *scales = NULL;
	struct occasion o = { .time_ns = now_ns, .real_usec = real_usec };
	size_t old_len = e->states_len, inhibits = 0;
	int r;

	watch_clock(e, now_ns, real_usec);
	plan.len = rs->len;
	for (size_t i = 0; i < rs->len; i++)
		inhibits += rs->rules[i]->inhibits_len;
	plan.states = calloc(rs->len + 1, sizeof(*plan.states));
	plan.order = calloc(rs->len + 1, sizeof(*plan.order));
	plan.inhibitors = calloc(inhibits + 1, sizeof(*plan.inhibitors));
	scales = calloc(rs->len + 1, sizeof(*scales));
	if (!plan.states || !plan.order || !plan.inhibitors || !scales)
		return -ENOMEM;
	r = plan_make(e, &plan, rs, scales);
	if (r < 0)
		return r;

	for (size_t i = 0; i < e->states_len; i++) {
		if (!is_reused(&plan, e->states[i]))
			end_rule(e, e->states[i], &o);
	}
	drop_dead(e, &plan);
	memcpy(e->scales, plan.scales, sizeof(e->scales));
	e->scales_len = plan.scales_len;
	for (size_t i = 0; i < rs->len; i++) {
		bool is_new = plan.states[i]->is_dead;

		plan.states[i]->is_dead = false;
		set_rule(e, plan.states[i], rs->rules[i], scales[i], is_new);
	}
	link_inhibitors(&plan);
	put_in_order(&plan);
	old = TAKE_PTR(e->states);
	e->states = TAKE_PTR(plan.order);
	free(e->inhibitors);
	e->inhibitors = TAKE_PTR(plan.inhibitors);
	e->states_len = rs->len;
	gone = e->rules;
	e->rules = TAKE_PTR(owned);

	fit_all(e, &o);
	for (size_t i = 0; i < old_len; i++) {
		if (old[i]->is_dead)
			free(old[i]);
	}
	return 0;
}
