/* SPDX-License-Identifier: MIT */
#include "rule/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/saturate.h"

/* A tick comes once a second; so much more than that is not a busy machine but a sleeping one. */
#define WATCH_JUMP_NS (11 * NSEC_PER_SEC)

uint64_t watch_leak_time(const struct engine *e, uint64_t time_ns)
{
	for (size_t i = e->jumps_len; i-- > 0;) {
		const struct jump *j = &e->jumps[i];

		if (time_ns >= j->end_ns)
			return sat_diff(time_ns, j->before_ns + (j->end_ns - j->start_ns));
		if (time_ns >= j->start_ns)
			return sat_diff(j->start_ns, j->before_ns);
	}
	/* Before the oldest jump that is remembered: so old that no epoch is left of it. */
	return e->jumps_len ? sat_diff(time_ns, e->jumps[0].before_ns) : time_ns;
}

uint64_t watch_event_time(const struct engine *e, uint64_t time_ns)
{
	const struct jump *j = e->jumps_len ? &e->jumps[e->jumps_len - 1] : NULL;

	return j && time_ns >= j->start_ns && time_ns < j->end_ns ? j->end_ns : time_ns;
}

static void rates_clear(struct slot *slots, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (slots[i].rs->rule->kind == RULE_ALLOC_RATE && slots[i].rate)
			rate_window_clear(slots[i].rate);
		if (slots[i].rs->rule->kind == RULE_UNTRACKED_GROWTH && slots[i].growth)
			growth_restart(slots[i].growth);
	}
}

static void watch_jump(struct engine *e, uint64_t now_ns)
{
	struct jump j = { .start_ns = e->now_ns, .end_ns = now_ns };

	if (e->jumps_len) {
		const struct jump *last = &e->jumps[e->jumps_len - 1];

		j.before_ns = last->before_ns + (last->end_ns - last->start_ns);
	}
	if (e->jumps_len == WATCH_JUMPS_MAX)
		memmove(e->jumps, e->jumps + 1, --e->jumps_len * sizeof(j));
	e->jumps[e->jumps_len++] = j;

	for (size_t i = 0; i < e->states_len; i++) {
		for (struct incident *inc = e->states[i]->incidents; inc; inc = inc->next)
			incident_restart(inc, now_ns);
	}
	for (size_t i = 0; i < e->processes.len; i++)
		rates_clear(e->processes.list[i]->watch->slots, e->processes.list[i]->watch->slots_len);
	for (size_t i = 0; i < e->groups_len; i++)
		rates_clear(e->groups[i]->slots, e->groups[i]->slots_len);
}

void watch_clock(struct engine *e, uint64_t now_ns, uint64_t real_usec)
{
	if (e->now_ns && now_ns > e->now_ns + WATCH_JUMP_NS)
		watch_jump(e, now_ns);
	if (now_ns > e->now_ns)
		e->now_ns = now_ns;
	e->real_usec = real_usec;
}

static void site_watch_free(struct site *s)
{
	if (!s->watch)
		return;
	for (size_t i = 0; i < WATCH_SCALES_MAX; i++)
		free(s->watch->rings[i]);
	free(s->watch->slots);
	free(s->watch);
	s->watch = NULL;
}

static bool release_site_watch(struct site *s)
{
	for (size_t i = 0; s->watch && i < s->watch->slots_len; i++) {
		if (s->watch->slots[i].incident)
			return false;
	}
	site_watch_free(s);
	return true;
}

int watch_new(struct process *p)
{
	struct process_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->high = UINT64_MAX;
	/* As the kernel's books start. */
	w->armed_high = w->armed_single = UINT64_MAX;
	p->watch = w;
	p->release_site = release_site_watch;
	return 0;
}

void slot_done(struct slot *slot)
{
	if (slot->rs->rule->kind == RULE_ALLOC_RATE)
		free(slot->rate);
	else if (slot->rs->rule->kind == RULE_ALLOC_FAILURE)
		free(slot->count);
	else if (slot->rs->rule->kind == RULE_UNTRACKED_GROWTH)
		free(slot->growth);
	slot->rate = NULL;
}

void slots_link(struct slot *slots, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (slots[i].incident)
			slots[i].incident->slot = &slots[i];
	}
}

size_t slots_drop_dead(struct slot *slots, size_t len)
{
	size_t kept = 0;

	for (size_t i = 0; i < len; i++) {
		if (slots[i].rs->is_dead)
			slot_done(&slots[i]);
		else
			slots[kept++] = slots[i];
	}
	slots_link(slots, kept);
	return kept;
}

/* The slot of a rule; a new one where there was none, for which there is room. */
static struct slot *slot_of(struct site_watch *w, struct rule_state *rs)
{
	for (size_t i = 0; i < w->slots_len; i++) {
		if (w->slots[i].rs == rs)
			return &w->slots[i];
	}
	w->slots[w->slots_len] = (struct slot){ .rs = rs };
	return &w->slots[w->slots_len++];
}

static void slot_merge(struct engine *e, struct slot *to, struct slot *from, struct site *site,
		       const struct occasion *o)
{
	bool is_moved = from->incident && !to->incident;

	if (from->incident && to->incident)
		incident_vanish(e, from->incident, o);
	if (is_moved) {
		to->incident = TAKE_PTR(from->incident);
		to->incident->slot = to;
		to->incident->subject.site = site;
	}
	if (is_moved || (!to->incident && from->streak > to->streak)) {
		to->streak = from->streak;
		to->calm = from->calm;
		to->group = from->group;
	}
}

/* A watch for both, and room for the slots of from. */
static int merge_prepare(struct site *to, const struct site *from)
{
	size_t more = from->watch->slots_len;
	struct slot *slots;

	if (!to->watch && !(to->watch = calloc(1, sizeof(*to->watch))))
		return -ENOMEM;
	if (more == 0)
		return 0;
	slots = realloc(to->watch->slots, (to->watch->slots_len + more) * sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	to->watch->slots = slots;
	slots_link(slots, to->watch->slots_len);
	return 0;
}

int watch_merge_sites(struct engine *e, struct site *to, struct site *from, const struct occasion *o)
{
	int r;

	if (!to->watch && !from->watch)
		return 0;
	if (!from->watch && !(from->watch = calloc(1, sizeof(*from->watch))))
		return -ENOMEM;
	r = merge_prepare(to, from);
	if (r < 0)
		return r;
	leak_merge_rings(e, to, from);
	to->watch->suspected |= from->watch->suspected;
	for (int i = 0; i < LEAK_LIVES; i++)
		to->watch->lives.bytes[i] += from->watch->lives.bytes[i];
	for (size_t i = 0; i < from->watch->slots_len; i++) {
		struct slot *slot = &from->watch->slots[i];

		slot_merge(e, slot_of(to->watch, slot->rs), slot, to, o);
	}
	site_watch_free(from);
	return 0;
}

static void slots_vanish(struct engine *e, struct slot *slots, size_t len, const struct occasion *o)
{
	for (size_t i = 0; i < len; i++) {
		if (slots[i].incident)
			incident_vanish(e, slots[i].incident, o);
	}
}

/* What an incident last found may be as old as the last time that its verdict could have changed: its end says what is. */
static void slots_refresh(struct engine *e, struct process *p)
{
	for (size_t i = 0; i < p->watch->slots_len && !p->is_rebuilding; i++) {
		struct slot *slot = &p->watch->slots[i];
		struct finding f;

		if (slot->rs->rule->kind != RULE_LIVE_BYTES || !slot->incident)
			continue;
		condition_measure(e, p, slot, &f);
		f.device = NULL;
		slot->incident->last = f;
		slot->incident->peak_value = MAX(slot->incident->peak_value, f.value);
	}
}

void watch_vanish(struct engine *e, struct process *p, const struct occasion *o)
{
	struct site *s;
	size_t iter = 0;

	slots_refresh(e, p);
	slots_vanish(e, p->watch->slots, p->watch->slots_len, o);
	while (p->watch->incidents > 0 && (s = process_next_site(p, &iter))) {
		if (s->watch)
			slots_vanish(e, s->watch->slots, s->watch->slots_len, o);
	}
}

void watch_free(struct process *p)
{
	struct process_watch *w = p->watch;
	struct site *s;
	size_t iter = 0;

	if (!w)
		return;
	while ((s = process_next_site(p, &iter)))
		site_watch_free(s);
	for (size_t i = 0; i < w->slots_len; i++)
		slot_done(&w->slots[i]);
	for (size_t i = 0; i < WATCH_SCALES_MAX; i++) {
		free(w->rings[i]);
		free(w->untold[i]);
	}
	free(w->slots);
	free(w->members);
	free(w->deferred);
	free(w);
	p->watch = NULL;
}
