/* SPDX-License-Identifier: MIT */
/* What the driver and /proc say of processes: the other side of the books, and who is in none. */
#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "model/saturate.h"
#include "rule/engine_private.h"

/* A process that has just come may be slow with its first call. */
#define COVERAGE_NS (30 * NSEC_PER_SEC)
/* A host full of processes that were there before us must not use up what the daemon may write: so many records, and one
 * for all others; their turn is later. */
#define COVERAGE_RECORDS 20
#define COVERAGE_BUDGET_NS (600 * NSEC_PER_SEC)
/* Its start as /proc tells it is so coarse. */
#define START_TICK_NS (10 * NSEC_PER_MSEC)

bool engine_adopt_process(struct process *p, uint64_t start_ns)
{
	if (p->is_covered || start_ns < p->start_ns || start_ns - p->start_ns >= START_TICK_NS)
		return false;
	p->start_ns = start_ns;
	return true;
}

void engine_cover(struct process *p)
{
	p->is_covered = true;
	p->uncovered_reason = NULL;
}

void engine_driver_begin(struct engine *e)
{
	engine_tell(e, .type = INPUT_DRIVER_BEGIN);
	e->is_driver_pass = true;
	for (size_t i = 0; i < e->processes.len; i++)
		e->processes.list[i]->watch->is_named = false;
}

/* The first word of the pass about a process: what was said in the last one is over. */
static void name_process(struct process *p)
{
	struct process_watch *w = p->watch;

	if (w->is_named)
		return;
	w->is_named = true;
	w->named_bytes = 0;
	for (size_t i = 0; i < p->devices_len; i++)
		p->devices[i].driver_bytes = 0;
}

static int name_device(struct engine *e, struct process *p, const char *uuid, uint64_t bytes)
{
	struct device *dev;
	bool is_new;
	int r, slot;

	r = devices_get(&e->devices, uuid, &dev);
	if (r < 0)
		return r;
	slot = process_driver_slot(p, dev, &is_new);
	if (slot < 0) {
		(void)devices_put(&e->devices, dev);
		return slot;
	}
	if (is_new) {
		dev->refs++;
		/* Rules that look at devices get to see it at the next tick. */
		p->watch->needs_refit = true;
		p->devices[slot].driver_bytes = 0;
	}
	if (bytes == UINT64_MAX || p->devices[slot].driver_bytes == UINT64_MAX)
		p->devices[slot].driver_bytes = UINT64_MAX;
	else
		(void)sat_add(&p->devices[slot].driver_bytes, bytes);
	return 0;
}

int engine_driver(struct engine *e, uint32_t pid, uint64_t start_ns, const char *uuid, uint64_t bytes, bool older)
{
	struct process *p = processes_find(&e->processes, pid, start_ns);
	struct occasion o = engine_now(e);
	int r;

	engine_tell(e, .type = INPUT_DRIVER, .pid = pid, .start_ns = start_ns,
		    .driver = { .uuid = uuid, .bytes = bytes, .is_older = older });
	if (!p) {
		p = processes_newest(&e->processes, pid);
		if (p && !engine_adopt_process(p, start_ns))
			p = NULL;
	}
	if (!p) {
		r = engine_get_process(e, pid, start_ns, &o, &p);
		if (r < 0)
			return r;
		p->is_covered = false;
	}
	name_process(p);
	p->watch->is_older = older;
	if (bytes == UINT64_MAX)
		p->watch->named_bytes = UINT64_MAX;
	else if (p->watch->named_bytes != UINT64_MAX && sat_add(&p->watch->named_bytes, bytes) < bytes)
		p->watch->named_bytes = UINT64_MAX - 1;
	return uuid ? name_device(e, p, uuid, bytes) : 0;
}

static void settle_unnamed(struct engine *e, struct process *p, bool is_complete, const struct occasion *o)
{
	p->driver_bytes = is_complete ? 0 : UINT64_MAX;
	p->is_listed = false;
	for (size_t i = 0; i < p->devices_len; i++)
		p->devices[i].driver_bytes = p->driver_bytes;
	p->watch->was_less = p->watch->is_overcounted = false;
	p->watch->is_dirty = p->watch->is_dirty || p->condition;
	condition_untracked(e, p, o);
}

static void say_uncovered(struct engine *e, struct process *p, const struct occasion *o)
{
	struct process_watch *w = p->watch;
	struct report *r;

	if (p->is_covered || w->is_uncovered_said || w->is_uncovered_fine || !process_holds_memory(p) ||
	    sat_diff(o->time_ns, p->first_ns) < COVERAGE_NS)
		return;
	if (e->coverage.said >= COVERAGE_RECORDS) {
		e->coverage.held++;
		return;
	}
	r = fill_coverage(p, o);
	if (!r) {
		e->no_memory++;
		return;
	}
	w->is_uncovered_said = true;
	e->coverage.said++;
	e->ops.report(r, e->userdata);
}

/* Those that are left for later, once until then. */
static void say_uncovered_others(struct engine *e, const struct occasion *o)
{
	struct report *r;

	if (e->coverage.held == 0 || e->coverage.is_summed_up)
		return;
	r = report_new(REPORT_COVERAGE);
	if (!r) {
		e->no_memory++;
		return;
	}
	r->severity = SEVERITY_NOTICE;
	r->real_usec = o->real_usec;
	r->scope = SCOPE_PROCESS;
	r->others = e->coverage.held;
	e->coverage.is_summed_up = true;
	e->ops.report(r, e->userdata);
}

static void settle_named(struct engine *e, struct process *p, const struct occasion *o)
{
	struct process_watch *w = p->watch;
	bool is_less;

	if (p->first_ns == 0)
		p->first_ns = o->time_ns;
	p->is_listed = true;
	p->driver_bytes = w->named_bytes;
	/* Once may be a matter of when each was read; none at all is a driver that does not tell. */
	is_less = p->driver_bytes > 0 && p->driver_bytes < p->live_bytes;
	w->is_overcounted = is_less && w->was_less;
	w->was_less = is_less;
	if (p->baseline_bytes == UINT64_MAX && p->driver_bytes != UINT64_MAX && !p->is_rebuilding)
		p->baseline_bytes = w->is_older ? sat_diff(p->driver_bytes, p->live_bytes) : 0;
	w->is_dirty = w->is_dirty || p->condition;
	say_uncovered(e, p, o);
	condition_untracked(e, p, o);
}

void engine_driver_end(struct engine *e, bool is_complete, uint64_t now_ns, uint64_t real_usec)
{
	struct occasion o;

	engine_tell_at(e, now_ns, real_usec, .type = INPUT_DRIVER_END, .is_complete = is_complete);
	if (!e->is_driver_pass)
		return;
	e->is_driver_pass = false;
	watch_clock(e, now_ns, real_usec);
	o = engine_occasion(e, NULL, now_ns, real_usec);
	e->coverage.held = 0;
	if (sat_diff(now_ns, e->coverage.start_ns) >= COVERAGE_BUDGET_NS) {
		e->coverage.start_ns = now_ns;
		e->coverage.said = 0;
		e->coverage.is_summed_up = false;
	}
	for (size_t i = 0; i < e->processes.len; i++) {
		struct process *p = e->processes.list[i];

		if (p->watch->is_named)
			settle_named(e, p, &o);
		else
			settle_unnamed(e, p, is_complete, &o);
	}
	say_uncovered_others(e, &o);
}

void engine_set_coverage(struct engine *e, uint32_t pid, uint64_t start_ns, const char *reason, bool is_expected)
{
	struct process *p = processes_find(&e->processes, pid, start_ns);

	engine_tell(e, .type = INPUT_COVERAGE, .pid = pid, .start_ns = start_ns,
		    .coverage = { .reason = reason, .is_expected = is_expected });
	if (!p || p->is_covered)
		return;
	p->uncovered_reason = reason;
	p->watch->is_uncovered_fine = is_expected;
}

void engine_set_condition(struct engine *e, uint32_t pid, uint64_t start_ns, uint32_t condition, uint64_t now_ns)
{
	struct process *p = processes_find(&e->processes, pid, start_ns);

	/* Asked at every look: only what changes is news. */
	if (!p || p->condition == condition)
		return;
	engine_tell_at(e, now_ns, e->real_usec, .type = INPUT_CONDITION, .pid = pid, .start_ns = start_ns,
		       .condition = condition);
	if (!p->condition)
		p->condition_ns = now_ns;
	p->condition = condition;
	p->watch->is_dirty = true;
}
