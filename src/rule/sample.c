/* SPDX-License-Identifier: MIT */
#include "rule/sample.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "model/saturate.h"
#include "rule/engine_private.h"
#include "rule/sample_fill.h"

/* Below this no change is worth a record. */
#define FLOOR_BYTES (UINT64_C(1) << 20)
#define MOVED_SHARE 20 /* one part in so many */
#define MINUTE_NS (60 * NSEC_PER_SEC)
#define FIRST_NS NSEC_PER_SEC
/* Without any change a process is looked at so often: its figures from the driver, and what is told each hour. */
#define LOOK_NS (240 * NSEC_PER_SEC)

void engine_set_history(struct engine *e, uint64_t interval_ns)
{
	e->sampling.interval_ns = interval_ns;
	e->sampling.stretch = 1;
}

void engine_set_boot_offset(struct engine *e, uint64_t ns)
{
	e->sampling.boot_offset_ns = ns;
}

void engine_history_stats(const struct engine *e, struct history_stats *ret)
{
	*ret = (struct history_stats){ .told = e->sampling.told, .last_minute = e->sampling.said,
				       .delayed = e->sampling.delayed, .lost = e->sampling.lost,
				       .stretch = MAX(e->sampling.stretch, 1u) };
}

void sample_done(struct engine *e)
{
	map64_done(&e->sampling.sites);
}

void sample_tick_begin(struct engine *e, uint64_t now_ns)
{
	struct sampling *s = &e->sampling;
	uint32_t max = e->limits.history_per_minute;

	s->turn = s->next_turn ? s->next_turn - 1 : 0;
	s->next_turn = 0;
	s->burst = 0;
	if (now_ns - s->minute_ns < MINUTE_NS)
		return;
	if (s->wanted > max)
		s->stretch = MIN(s->stretch * 2, (uint32_t)SAMPLE_STRETCH_MAX);
	else if (s->wanted <= max / 2)
		s->stretch = MAX(s->stretch / 2, 1u);
	s->minute_ns = now_ns;
	s->said = s->wanted = 0;
}

/* Ends and failures cannot wait for the next minute: they may have as much again. */
static bool admit(struct engine *e, bool can_wait)
{
	struct sampling *s = &e->sampling;

	s->wanted++;
	if (s->said >= e->limits.history_per_minute * (can_wait ? 1 : 2))
		return false;
	s->said++;
	return true;
}

/* Its turn in this tick is over: it comes first in the next one. */
static void put_off(struct engine *e, const struct process *p)
{
	if (!e->sampling.next_turn)
		e->sampling.next_turn = p->index + 1;
	p->watch->is_due = true;
}

/* Not more in one tick than the queue of records has room for beside others. */
static bool has_turn(struct engine *e, const struct process *p)
{
	struct sampling *s = &e->sampling;

	if (p->index < s->turn) {
		p->watch->is_due = true;
		return false;
	}
	if (s->burst < e->limits.queue / 2)
		return true;
	put_off(e, p);
	return false;
}

static bool differs(uint64_t a, uint64_t b)
{
	uint64_t larger = MAX(a, b), by = larger - MIN(a, b);

	return by > 0 && (by >= MAX(larger / MOVED_SHARE, FLOOR_BYTES) || MIN(a, b) == 0);
}

static bool is_known(uint64_t bytes)
{
	return bytes != UINT64_MAX;
}

static bool holds(const struct process_device *pd)
{
	return pd->held > 0 || (is_known(pd->driver_bytes) && pd->driver_bytes > 0);
}

/* Only the driver has named it, and one of the process's own ordinals means the same device: told with that. */
static bool is_second(const struct process *p, const struct process_device *pd)
{
	if (pd->ordinal != PROCESS_DEVICE_DRIVER)
		return false;
	for (size_t i = 0; i < p->devices_len; i++) {
		if (&p->devices[i] != pd && p->devices[i].device == pd->device)
			return true;
	}
	return false;
}

static uint64_t host_bytes(const struct process *p)
{
	return sat_sum(p->live, (1u << CLASS_HOST) | (1u << CLASS_MANAGED));
}

/* The wall clock of the peaks, while the two clocks are still known to belong together: sleep moves them apart. */
static void note_peaks(struct process *p, const struct occasion *o)
{
	struct process_watch *w = p->watch;

	if (p->peak_ns != w->peak_ns) {
		w->peak_ns = p->peak_ns;
		w->peak_usec = sample_wall_usec(o, p->peak_ns);
	}
	for (size_t i = 0; i < p->devices_len; i++) {
		struct process_device *pd = &p->devices[i];

		if (pd->peak_ns) {
			pd->peak_usec = sample_wall_usec(o, pd->peak_ns);
			pd->peak_ns = 0;
		}
		if (!pd->since.high_usec)
			pd->since.high_usec = sample_wall_usec(o, pd->since.high_ns);
	}
}

static void push(struct engine *e, struct report *r)
{
	if (e->sampling.held > 0 && r->event != REPORT_SITE) {
		r->suppressed = e->sampling.held;
		e->sampling.held = 0;
	}
	e->sampling.told++;
	e->sampling.burst++;
	e->ops.report(r, e->userdata);
}

/* The stacks of the sites that it names, those that have not been told of late. */
static void say_sites(struct engine *e, const struct process *p, struct site *const sites[REPORT_SITES_MAX], size_t len,
		      const struct occasion *o)
{
	struct sampling *s = &e->sampling;

	for (size_t i = 0; i < len; i++) {
		const struct frames *f = sites[i]->stack ? stack_frames(sites[i]->stack) : NULL;
		uint64_t now_sec = o->time_ns / NSEC_PER_SEC, told_sec;
		struct report *r;

		if (!f || !f->id)
			continue;
		told_sec = (uint64_t)(uintptr_t)map64_get(&s->sites, f->id);
		if (told_sec && now_sec + 1 - told_sec < SAMPLE_SITE_NS / NSEC_PER_SEC)
			continue;
		if (!admit(e, true))
			return;
		/* Forgotten are all together: they are told again, that is all. */
		if (s->sites.len >= MAX(e->limits.sites, 1024u))
			map64_done(&s->sites);
		r = sample_fill_site(e, p, sites[i], o);
		if (r && map64_put(&s->sites, f->id, (void *)(uintptr_t)(now_sec + 1)) == 0)
			push(e, r);
		else
			report_free(r);
	}
}

/* pd NULL: a process without any device. */
static void say(struct engine *e, struct process *p, struct process_device *pd, bool can_wait, const struct occasion *o)
{
	struct process_watch *w = p->watch;
	struct site *sites[REPORT_SITES_MAX];
	struct report *r;
	size_t len = 0;

	if (!admit(e, can_wait)) {
		e->sampling.delayed += !w->is_delayed;
		w->is_delayed = true;
		put_off(e, p);
		return;
	}
	note_peaks(p, o);
	r = sample_fill(e, p, pd, sites, &len, o);
	if (!r)
		return;
	say_sites(e, p, sites, len, o);
	push(e, r);
	w->samples++;
	w->is_delayed = false;
	w->said_ns = o->time_ns;
	w->said_host = host_bytes(p);
	w->is_who_said = w->is_who_said || p->id;
	if (!pd)
		return;
	pd->said = (struct held_said){ .low = pd->look.low, .high = pd->look.high, .held = pd->held,
				       .driver_bytes = pd->driver_bytes, .ns = o->time_ns,
				       .samples = pd->said.samples + 1 };
	process_begin_ranges(pd, o->time_ns);
	pd->since.high_usec = o->real_usec;
}

/* How long after its last sample the next may come: the first ones soon, since programs take their memory at the start. */
static uint64_t rest_ns(const struct engine *e, uint32_t samples)
{
	uint64_t interval = e->sampling.interval_ns * MAX(e->sampling.stretch, 1u);

	return samples < 10 ? MIN(interval, FIRST_NS << samples) : interval;
}

/* What the driver counts beyond the calls: it moves without them. */
static uint64_t untracked(uint64_t driver_bytes, uint64_t held)
{
	return is_known(driver_bytes) ? sat_diff(driver_bytes, held) : 0;
}

static bool has_left_range(const struct process_device *pd)
{
	const struct held_said *s = &pd->said;

	if (s->samples == 0)
		return holds(pd) || pd->since.high > 0;
	return (pd->look.high > s->high && differs(pd->look.high, s->high)) ||
	       (pd->look.low < s->low && differs(pd->look.low, s->low)) ||
	       differs(untracked(pd->driver_bytes, pd->held), untracked(s->driver_bytes, s->held));
}

/* Of a whole interval: it was well within that of the last sample. */
static bool is_range_narrower(const struct process_device *pd)
{
	return differs(pd->look.high, pd->said.high) || differs(pd->look.low, pd->said.low);
}

static void look_device(struct engine *e, struct process *p, struct process_device *pd, const struct occasion *o)
{
	uint64_t rested = sat_diff(o->time_ns, pd->said.ns), rest = rest_ns(e, pd->said.samples);
	bool is_told = pd->said.samples > 0;
	bool is_over = is_told && rested >= rest && sat_diff(o->time_ns, pd->look_ns) >= rest;
	bool is_due = (is_told && holds(pd) && rested >= SAMPLE_KEEP_NS) || (is_over && is_range_narrower(pd)) ||
		      ((!is_told || rested >= rest) && has_left_range(pd));

	if (is_due && has_turn(e, p))
		say(e, p, pd, true, o);
	else if (!is_due && is_over)
		process_begin_look(pd, o->time_ns);
}

/* Pinned and managed memory are no device's: told with the device it holds most on. */
static void look_host(struct engine *e, struct process *p, const struct occasion *o)
{
	const struct process_watch *w = p->watch;
	int slot = process_main_device(p, CLASS_DEVICE_MASK);
	uint64_t bytes = host_bytes(p);
	bool is_due = differs(bytes, w->said_host) || (bytes > 0 && sat_diff(o->time_ns, w->said_ns) >= SAMPLE_KEEP_NS);

	if (is_due && has_turn(e, p))
		say(e, p, slot >= 0 ? &p->devices[slot] : NULL, true, o);
}

void sample_look(struct engine *e, struct process *p, const struct occasion *o)
{
	struct process_watch *w = p->watch;
	uint64_t rest = rest_ns(e, (uint32_t)MIN(w->samples, UINT64_C(16)));

	if (e->sampling.interval_ns == 0 || p->is_rebuilding ||
	    (!p->id && sat_diff(o->time_ns, p->first_ns) < WATCH_IDENTITY_NS))
		return;
	w->is_due = false;
	note_peaks(p, o);
	for (size_t i = 0; i < p->devices_len; i++) {
		if (!is_second(p, &p->devices[i]))
			look_device(e, p, &p->devices[i], o);
	}
	if (o->time_ns < w->sample_ns)
		return;
	look_host(e, p, o);
	w->sample_ns = o->time_ns + MIN(rest, LOOK_NS);
}

struct holder {
	struct process *p;
	struct process_device *pd;
};

static int by_held(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;

	return (x->pd->held < y->pd->held) - (x->pd->held > y->pd->held);
}

static void say_holders(struct engine *e, const struct device *dev, const struct occasion *o)
{
	_cleanup_free_ struct holder *list = calloc(e->processes.len + 1, sizeof(*list));
	size_t len = 0;

	for (size_t i = 0; list && i < e->processes.len; i++) {
		struct process *p = e->processes.list[i];

		for (size_t k = 0; k < p->devices_len && !p->is_rebuilding; k++) {
			if (p->devices[k].device != dev || !holds(&p->devices[k]) || is_second(p, &p->devices[k]))
				continue;
			list[len++] = (struct holder){ p, &p->devices[k] };
			break;
		}
	}
	if (len > 1)
		qsort(list, len, sizeof(*list), by_held);
	for (size_t i = 0; i < MIN(len, (size_t)SAMPLE_HOLDERS_MAX); i++)
		say(e, list[i].p, list[i].pd, false, o);
}

void sample_failure(struct engine *e, struct process *p, const struct event *ev, const struct occasion *o)
{
	int slot = process_main_device(p, CLASS_DEVICE_MASK);
	struct process_device *pd = slot >= 0 ? &p->devices[slot] : NULL;
	uint64_t *last;

	if (e->sampling.interval_ns == 0 || !((CLASS_DEVICE_MASK >> ev->class) & 1))
		return;
	/* Where the call does not tell, as in its record: the one it holds most on. */
	for (size_t i = 0; i < p->devices_len; i++) {
		if (ev->device >= 0 && p->devices[i].ordinal == ev->device && p->devices[i].device)
			pd = &p->devices[i];
	}
	last = pd && pd->device ? &pd->device->sampled_ns : &e->sampling.fail_ns;
	if (*last && sat_diff(o->time_ns, *last) < SAMPLE_FAILURE_NS)
		return;
	*last = o->time_ns;
	if (pd && pd->device)
		say_holders(e, pd->device, o);
	else if (pd && holds(pd) && !p->is_rebuilding)
		say(e, p, pd, false, o);
}

/* What a last sample would have told, and the record of the end does not: of a peak that was not that of its life. */
static void say_last(struct engine *e, struct process *p, const struct occasion *o)
{
	for (size_t i = 0; i < p->devices_len; i++) {
		struct process_device *pd = &p->devices[i];

		if (pd->said.samples > 0 && !is_second(p, pd) && has_left_range(pd))
			say(e, p, pd, false, o);
	}
}

void sample_rebuilt(struct process_device *pd, uint64_t now_ns)
{
	process_note_held(pd, now_ns);
	if (pd->said.samples > 0)
		return;
	process_begin_ranges(pd, now_ns);
	pd->said.ns = now_ns;
}

void sample_leave_device(struct engine *e, struct process *p, struct process_device *pd, const struct occasion *o)
{
	struct site *sites[REPORT_SITES_MAX];
	struct report *r;
	size_t len;

	if (e->sampling.interval_ns == 0 || pd->said.samples == 0)
		return;
	note_peaks(p, o);
	r = sample_fill(e, p, pd, sites, &len, o);
	if (!r)
		return;
	report_drop_sites(r);
	r->bytes = r->low_bytes = 0;
	r->driver_bytes = ABSENT_U64;
	push(e, r);
	p->watch->samples++;
	pd->said = (struct held_said){ .ns = o->time_ns };
	process_begin_ranges(pd, o->time_ns);
}

void sample_enter_device(struct engine *e, struct process *p, struct process_device *pd, const struct occasion *o)
{
	if (e->sampling.interval_ns > 0 && pd->said.ns == o->time_ns && pd->said.samples == 0 && holds(pd) && !p->is_rebuilding)
		say(e, p, pd, false, o);
}

void sample_exit(struct engine *e, struct process *p, const struct occasion *o)
{
	struct report *r;

	if (e->sampling.interval_ns == 0 ||
	    (p->alloc_count == 0 && p->watch->samples == 0 && !process_holds_memory(p)))
		return;
	note_peaks(p, o);
	if (!p->is_rebuilding)
		say_last(e, p, o);
	if (!admit(e, false)) {
		e->sampling.held++;
		e->sampling.lost++;
		return;
	}
	r = sample_fill_exit(e, p, o);
	if (r)
		push(e, r);
}

void engine_history_flush(struct engine *e, uint64_t now_ns, uint64_t real_usec)
{
	struct occasion o = { .time_ns = now_ns, .real_usec = real_usec };

	if (e->sampling.interval_ns == 0)
		return;
	for (size_t i = 0; i < e->processes.len; i++) {
		struct process *p = e->processes.list[i];

		note_peaks(p, &o);
		for (size_t k = 0; k < p->devices_len && !p->is_rebuilding; k++) {
			struct process_device *pd = &p->devices[k];

			if (!is_second(p, pd) && (has_left_range(pd) || differs(pd->held, pd->said.held)))
				say(e, p, pd, true, &o);
		}
	}
}
