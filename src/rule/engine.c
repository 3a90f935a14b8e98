/* SPDX-License-Identifier: MIT */
#include "rule/engine.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "model/saturate.h"
#include "rule/engine_private.h"

int engine_new(const struct limits *limits, const struct engine_ops *ops, void *userdata, struct engine **ret)
{
	struct engine *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->limits = *limits;
	e->ops = *ops;
	e->userdata = userdata;
	*ret = e;
	return 0;
}

void engine_free(struct engine *e)
{
	if (!e)
		return;
	for (size_t i = 0; i < e->states_len; i++) {
		struct incident *inc = e->states[i]->incidents, *next;

		for (; inc; inc = next) {
			next = inc->next;
			free(inc);
		}
	}
	for (size_t i = 0; i < e->processes.len; i++)
		watch_free(e->processes.list[i]);
	for (size_t i = 0; i < e->groups_len; i++)
		group_free(e->groups[i]);
	free(e->groups);
	map64_done(&e->groups_by_hash);
	processes_done(&e->processes);
	devices_done(&e->devices);
	for (size_t i = 0; i < e->states_len; i++)
		free(e->states[i]);
	free(e->states);
	free(e->inhibitors);
	ruleset_free(e->rules);
	restored_done(e);
	leak_bounds_done(e);
	sample_done(e);
	leak_young_done(&e->leak_young);
	free(e);
}

static void take_from_devices(struct process *p)
{
	for (size_t i = 0; i < p->devices_len; i++) {
		for (size_t c = 0; p->devices[i].device && c < CLASS_MAX; c++)
			(void)sat_sub(&p->devices[i].device->live[c], p->devices[i].live[c]);
	}
}

/* Its device references go, and devices that only it has named. */
static void release_devices(struct engine *e, struct process *p, const struct occasion *o)
{
	for (size_t i = 0; i < p->devices_len; i++) {
		struct device *dev = TAKE_PTR(p->devices[i].device);

		if (!dev)
			continue;
		dev->refs--;
		engine_put_device(e, dev, o);
	}
}

/* Says what is to say of its end and forgets it. */
static void end_process(struct engine *e, struct process *p, const struct occasion *o)
{
	struct occasion end = *o;

	end.is_end = true;
	if (p->watch->is_waiting) {
		/* Nobody will tell its identity any more. */
		p->watch->is_identified = true;
		(void)fit_process(e, p, &end);
	}
	/* First, since it may silence what exit rules would say. */
	leak_exit(e, p, &end);
	condition_exit(e, p, &end);
	watch_vanish(e, p, &end);
	restored_end(e, p->pid, p->start_ns, &end);
	sample_exit(e, p, &end);
	if (e->ops.ended)
		e->ops.ended(p, e->userdata);
	if (p->is_rebuilding)
		e->rebuilding--;
	p->is_rebuilding = false;
	take_from_devices(p);
	fit_leave(e, p, o);
	release_devices(e, p, o);
	e->overflow_sites += p->sites_overflow;
	e->overflow_stacks += p->stacks_overflow;
	e->ended_allocs += p->alloc_count;
	e->ended_frees += p->free_count;
	e->ended_fails += p->fail_count;
	watch_free(p);
	processes_remove(&e->processes, p);
	if (e->is_summed_badly)
		group_sum(e);
}

int engine_get_process(struct engine *e, uint32_t pid, uint64_t start_ns, const struct occasion *o,
		       struct process **ret)
{
	struct process *p = processes_find(&e->processes, pid, start_ns), *newest;
	int r;

	if (p) {
		*ret = p;
		return 0;
	}
	newest = processes_newest(&e->processes, pid);
	if (newest && engine_adopt_process(newest, start_ns)) {
		*ret = newest;
		return 0;
	}
	if (newest && newest->start_ns > start_ns)
		return -ESRCH; /* late news of one that is gone */
	if (newest)
		end_process(e, newest, o); /* its exit was lost: the pid is another's now */
	if (e->processes.len >= e->limits.processes) {
		e->overflow_processes++;
		return -ENOSPC;
	}
	r = processes_add(&e->processes, pid, start_ns, o->time_ns, &p);
	if (r < 0)
		return r;
	r = watch_new(p);
	if (r < 0) {
		processes_remove(&e->processes, p);
		return r;
	}
	p->forget_stack = e->ops.forget_stack;
	p->userdata = e->userdata;
	/* Without memory it is fitted again at the next tick. */
	(void)fit_process(e, p, o);
	*ret = p;
	return 0;
}

struct occasion engine_occasion(const struct engine *e, const struct event *ev, uint64_t now_ns, uint64_t real_usec)
{
	struct occasion o = { .time_ns = now_ns, .real_usec = real_usec, .ev = ev };

	if (ev && ev->time_ns) {
		o.time_ns = watch_event_time(e, ev->time_ns);
		o.real_usec = real_usec - MIN(sat_diff(now_ns, ev->time_ns) / NSEC_PER_USEC, real_usec);
	}
	return o;
}

static int on_change(struct engine *e, struct process *p, const struct event *ev, const struct occasion *o)
{
	struct process_watch *w = p->watch;
	struct change c;
	bool is_crossed;
	int r;

	r = ev->type == EVENT_ALLOC ? process_alloc(p, ev, &e->limits, &c) : process_free(p, ev, &c);
	w->is_dirty = true;
	if (c.site) {
		leak_book(e, p, &c, c.is_free ? ev->birth_ns : ev->time_ns);
		group_apply(e, p, &c, o);
	}
	is_crossed = p->live_bytes > w->high || p->live_bytes < w->low;
	if (is_crossed || (w->odd_classes & (1u << ev->class)))
		condition_process(e, p, o);
	if (ev->type == EVENT_ALLOC) {
		condition_count(p, ev, c.slot);
		condition_single(e, p, o, false);
	}
	if (is_crossed || (ev->flags & EVENT_F_CROSSED))
		bound_arm(e, p, o);
	return r;
}

int engine_event(struct engine *e, const struct event *ev, uint64_t now_ns, uint64_t real_usec)
{
	struct occasion o;
	struct process *p;
	int r;

	engine_tell_at(e, now_ns, real_usec, .type = INPUT_EVENT, .pid = ev->pid, .start_ns = ev->start_ns, .event = ev);
	watch_clock(e, now_ns, real_usec);
	if (ev->type < EVENT_ALLOC || ev->type > EVENT_EXIT || ev->class >= CLASS_MAX)
		return 0;
	e->events++;
	o = engine_occasion(e, ev, now_ns, real_usec);

	if (ev->type == EVENT_EXEC || ev->type == EVENT_EXIT) {
		p = processes_find(&e->processes, ev->pid, ev->start_ns);
		if (p)
			end_process(e, p, &o);
		else
			restored_end(e, ev->pid, ev->start_ns, &o);
		return 0;
	}
	r = engine_get_process(e, ev->pid, ev->start_ns, &o, &p);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	p->last_ns = MAX(p->last_ns, o.time_ns);
	if (!p->is_covered)
		engine_cover(p);
	if (p->first_ns == 0)
		p->first_ns = o.time_ns;
	if (p->watch->is_waiting && o.time_ns >= p->first_ns + WATCH_IDENTITY_NS) {
		p->watch->is_identified = true;
		(void)fit_process(e, p, &o);
	}
	switch (ev->type) {
	case EVENT_ALLOC:
	case EVENT_FREE:
		return on_change(e, p, ev, &o);
	case EVENT_FAIL:
		process_fail(p, ev);
		p->watch->is_dirty = true;
		condition_single(e, p, &o, false);
		sample_failure(e, p, ev, &o);
		return 0;
	default:
		return 0;
	}
}

static void tick_process(struct engine *e, struct process *p, uint32_t leak_delay, bool is_group_dirty,
			 const struct occasion *o)
{
	struct process_watch *w = p->watch;

	if (w->is_waiting && o->time_ns >= p->first_ns + WATCH_IDENTITY_NS) {
		w->is_identified = true;
		w->needs_refit = true;
	}
	if (w->needs_refit && fit_process(e, p, o) == 0)
		w->is_dirty = true;
	if (w->is_dirty || w->incidents > 0 || w->has_rates) {
		condition_tick_process(e, p, o);
		condition_tick_driver(e, p, o);
		is_group_dirty = true;
	}
	leak_tick(e, p, leak_delay, o);
	if (w->is_dirty || w->is_due || o->time_ns >= w->sample_ns)
		sample_look(e, p, o);
	if (is_group_dirty)
		bound_arm(e, p, o);
	w->is_dirty = false;
}

/* A tick waits for memory more than it computes: what it will look at of the next processes is asked for meanwhile. */
static void tick_prefetch(const struct processes *ps, size_t i)
{
	if (i + 9 < ps->len) {
		const struct process *p = ps->list[i + 9];

		__builtin_prefetch(&p->live);
		__builtin_prefetch(&p->condition);
		__builtin_prefetch(&p->watch);
	}
	if (i + 6 < ps->len) {
		const struct process_watch *w = ps->list[i + 6]->watch;

		__builtin_prefetch(w, 1);
		__builtin_prefetch(&w->leak_ns, 1);
		__builtin_prefetch(&w->armed_high, 1);
	}
	if (i + 1 < ps->len) {
		const struct process_watch *w = ps->list[i + 1]->watch;

		for (size_t k = 0; k < w->slots_len; k++)
			__builtin_prefetch(w->slots[k].rate);
	}
	if (i + 3 < ps->len) {
		const struct process_watch *w = ps->list[i + 3]->watch;

		for (size_t k = 0; k < w->slots_len; k += 4)
			__builtin_prefetch(&w->slots[k]);
		for (size_t k = 0; k < w->members_len; k += 4)
			__builtin_prefetch(&w->members[k]);
	}
}

static bool tick_groups(struct engine *e, const struct occasion *o)
{
	bool is_any_dirty = false;

	/* A group that goes is replaced by the last one. */
	for (size_t i = e->groups_len; i-- > 0;) {
		struct group *g = e->groups[i];

		is_any_dirty = is_any_dirty || g->is_dirty;
		g->is_dirty = false;
		condition_group(e, g, o);
		group_put(e, g, o);
	}
	return is_any_dirty;
}

void engine_tick(struct engine *e, uint64_t now_ns, uint64_t real_usec)
{
	struct occasion o;
	uint32_t leak_delay = 0;
	bool is_group_dirty;

	engine_tell_at(e, now_ns, real_usec, .type = INPUT_TICK);
	watch_clock(e, now_ns, real_usec);
	o = engine_occasion(e, NULL, now_ns, real_usec);
	if (e->is_summed_badly)
		group_sum(e);
	leak_tick_begin(e, now_ns);
	sample_tick_begin(e, now_ns);
	is_group_dirty = tick_groups(e, &o);
	for (size_t i = 0; i < e->processes.len; i++) {
		tick_prefetch(&e->processes, i);
		tick_process(e, e->processes.list[i], leak_delay, is_group_dirty, &o);
		leak_delay = leak_delay + 1 < e->leak_clock.delays ? leak_delay + 1 : 0;
	}
	for (size_t i = 0; i < e->states_len; i++)
		incident_summarize(e, e->states[i], &o);
	if (e->restored_len)
		restored_tick(e, &o);
}

struct process *engine_process(struct engine *e, uint32_t pid, uint64_t start_ns)
{
	return processes_find(&e->processes, pid, start_ns);
}

struct process *engine_newest_process(struct engine *e, uint32_t pid)
{
	return processes_newest(&e->processes, pid);
}

struct process *engine_next_process(struct engine *e, size_t *iter)
{
	return *iter < e->processes.len ? e->processes.list[(*iter)++] : NULL;
}

void engine_totals(struct engine *e, struct engine_totals *ret)
{
	struct engine_totals t = { .processes = e->processes.len, .events = e->events, .lost_events = e->lost_events,
				   .overflow_processes = e->overflow_processes, .overflow_sites = e->overflow_sites,
				   .overflow_stacks = e->overflow_stacks,
				   .overflow_incidents = e->overflow_incidents, .suppressed = e->suppressed,
				   .sites = e->processes.sites, .stacks = e->processes.stacks,
				   .alloc_count = e->ended_allocs, .free_count = e->ended_frees,
				   .fail_count = e->ended_fails,
				   .overflow_all = e->processes.sites_overflow + e->processes.stacks_overflow,
				   .exact = true };

	for (size_t i = 0; i < e->processes.len; i++) {
		const struct process *p = e->processes.list[i];

		(void)sat_add(&t.live_bytes, p->live_bytes);
		(void)sat_add(&t.host_bytes, p->live[CLASS_HOST]);
		(void)sat_add(&t.managed_bytes, p->live[CLASS_MANAGED]);
		(void)sat_add(&t.framework_bytes, p->live[CLASS_FRAMEWORK]);
		t.alloc_count += p->alloc_count;
		t.free_count += p->free_count;
		t.fail_count += p->fail_count;
		t.uncovered += !p->is_covered && process_holds_memory(p);
		t.overflow_sites += p->sites_overflow;
		t.overflow_stacks += p->stacks_overflow;
		t.exact = t.exact && p->exact;
	}
	for (size_t i = 0; i < e->states_len; i++) {
		t.firing += e->states[i]->firing + e->states[i]->over;
		t.pending += e->states[i]->pending;
	}
	*ret = t;
}
