/* SPDX-License-Identifier: MIT */
/*
 * The start of a daemon that had a predecessor. The kernel's maps are the books; the state file has the names. What
 * waits in the ring is older than the maps as they are now: allocations and frees in it are in the maps already and are
 * passed over, but for processes that began meanwhile, whose whole story is there; what else is told (failures, ends,
 * stacks) is told now.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/pack.h"
#include "cmd/daemon_internal.h"
#include "model/process.h"
#include "model/saturate.h"
#include "proc/procfs.h"
#include "rule/incident_pack.h"
#include "stack/stack_keep.h"
#include "stack/used_space.h"

/* An incident of which nothing more is heard for so long is over. */
#define WAIT_NS (30 * NSEC_PER_SEC)
/* Failures meanwhile that are told with what the process then holds; more are told without. */
#define HELD_MAX 4096

struct adoption {
	struct daemon *d;
	bool is_ours; /* the state is of this boot */
	bool has_names; /* ... and of these maps */
	const char *incidents; /* the last list, in the file's text */
	size_t incidents_len;
	struct address_space *used; /* of the process of the last stack */
	struct map64 begun; /* pid -> start of processes whose beginning is in the ring */
	struct event *held;
	size_t held_len;
	uint32_t restored, stacks;
};

static void take_head(struct adoption *a, struct unpack *u)
{
	char id[BOOT_ID_LEN], ours[BOOT_ID_LEN];
	const uint32_t version = unpack_u32(u);
	uint8_t maps[16];

	boot_id(ours);
	unpack_bytes(u, id, sizeof(id));
	unpack_bytes(u, maps, sizeof(maps));
	a->is_ours = unpack_is_good(u) && version == KEPT_VERSION && memcmp(id, ours, sizeof(id)) == 0;
	a->has_names = a->is_ours && tracer_is_kept(a->d->tracer) && memcmp(maps, tracer_id(a->d->tracer), sizeof(maps)) == 0;
}

/* In the kernel's books, and hence in ours. */
static bool is_there(struct adoption *a, uint32_t pid, uint64_t start_ns)
{
	struct books b;

	if (a->d->last && a->d->last->pid == pid && a->d->last->start_ns == start_ns)
		return true;
	return tracer_books(a->d->tracer, pid, &b) == 0 && b.start_ns == start_ns && daemon_known(a->d, pid, start_ns);
}

static void put_stack(struct adoption *a, uint32_t pid, uint64_t start_ns, uint64_t number, struct frames *frames)
{
	struct daemon *d = a->d;
	const uint64_t site = frames->site;
	_cleanup_(stack_unrefp) struct stack *s = stack_new_done(number, pid, frames);

	if (!s)
		return;
	s->start_ns = start_ns;
	if (engine_set_stack(d->engine, pid, start_ns, s) == 0 &&
	    engine_set_site(d->engine, pid, start_ns, number, site) == 0)
		a->stacks++;
}

static void take_stack(struct adoption *a, struct unpack *u)
{
	const uint32_t pid = unpack_u32(u);
	const uint64_t start_ns = unpack_u64(u), number = unpack_u64(u);
	struct frames *f;

	(void)unpack_u64(u); /* the site, which the frames have too */
	if (u->is_bad || !number || !is_there(a, pid, start_ns) || frames_unpack(u, pid, start_ns, &f) < 0)
		return;
	if (a->used && (a->used->pid != pid || a->used->start_ns != start_ns)) {
		address_space_unref(a->used);
		a->used = NULL;
	}
	/* One picture of the process for all its stacks; without memory each keeps its own. */
	if (f->space)
		(void)used_space_take(&a->used, f, pid, start_ns);
	put_stack(a, pid, start_ns, number, f);
}

static void take_copy(struct adoption *a, struct unpack *u)
{
	const uint32_t pid = unpack_u32(u);
	const uint64_t start_ns = unpack_u64(u), number = unpack_u64(u), first = unpack_u64(u);
	const struct process *p;
	const struct stack *s;

	if (!unpack_is_good(u) || !number || !first || !is_there(a, pid, start_ns))
		return;
	p = engine_process(a->d->engine, pid, start_ns);
	s = p ? process_stack(p, first) : NULL;
	if (s && stack_frames(s))
		put_stack(a, pid, start_ns, number, stack_frames_ref(s));
}

static void take_ordinal(struct adoption *a, struct unpack *u)
{
	const uint32_t pid = unpack_u32(u);
	const uint64_t start_ns = unpack_u64(u);
	const int ordinal = (int)unpack_u32(u);
	_cleanup_free_ char *uuid = unpack_str(u);

	if (unpack_is_good(u) && uuid && is_there(a, pid, start_ns))
		daemon_set_ordinal(a->d, daemon_known(a->d, pid, start_ns), ordinal, uuid);
}

static void take_totals(struct adoption *a, struct unpack *u)
{
	const uint32_t pid = unpack_u32(u);
	const uint64_t start_ns = unpack_u64(u), first_ns = unpack_u64(u), baseline = unpack_u64(u);
	const uint32_t n = unpack_u32(u);
	uint64_t allocated[CLASS_MAX] = {};
	struct process *p;

	for (uint32_t c = 0; c < n && !u->is_bad; c++) {
		const uint64_t v = unpack_u64(u);

		if (c < CLASS_MAX)
			allocated[c] = v;
	}
	if (!unpack_is_good(u) || !is_there(a, pid, start_ns))
		return;
	p = engine_process(a->d->engine, pid, start_ns);
	if (!p)
		return;
	p->first_ns = MIN(p->first_ns, first_ns);
	p->baseline_bytes = baseline;
	memcpy(p->allocated, allocated, sizeof(allocated));
}

static int one_record(uint32_t type, const char *data, size_t len, void *userdata)
{
	struct adoption *a = userdata;
	struct unpack u = { .at = data, .left = len };

	if (type == KEPT_HEAD)
		take_head(a, &u);
	else if (type == KEPT_INCIDENTS && a->is_ours) {
		a->incidents = data;
		a->incidents_len = len;
	}
	if (!a->has_names)
		return a->is_ours ? 0 : -ESTALE;
	if (type == KEPT_STACK)
		take_stack(a, &u);
	else if (type == KEPT_COPY)
		take_copy(a, &u);
	else if (type == KEPT_ORDINAL)
		take_ordinal(a, &u);
	else if (type == KEPT_TOTALS)
		take_totals(a, &u);
	return 0;
}

/* Does it live? Without kept maps, and of a process that has made no call, only /proc can tell. */
static bool is_alive(struct adoption *a, const struct incident_saved *s)
{
	struct proc_stat st;

	if (tracer_is_kept(a->d->tracer) && is_there(a, s->pid, s->start_ns))
		return true;
	return proc_stat_read("/proc", s->pid, &st) == 0 && st.start_ticks == ticks_from_ns(s->start_ns);
}

static void restore_one(struct adoption *a, struct unpack *u)
{
	_cleanup_(incident_saved_done) struct incident_saved s;

	if (incident_unpack(u, &s) == 0 &&
	    engine_restore_incident(a->d->engine, &s, a->d->now_ns, s.pid && s.start_ns && !is_alive(a, &s) ? 0 : WAIT_NS) == 0)
		a->restored++;
}

static void restore_incidents(struct adoption *a)
{
	struct unpack u = { .at = a->incidents, .left = a->incidents_len };

	while (a->incidents && unpack_u8(&u) && !u.is_bad)
		restore_one(a, &u);
}

/* Reads what is there, then has the file to itself. */
static void take_state(struct adoption *a)
{
	struct daemon *d = a->d;
	_cleanup_free_ char *dir = strdup(d->options->socket), *text = NULL;
	size_t len = 0, valid = 0;
	int r;

	if (!dir || asprintf(&d->kept.path, "%s/state", dirname(dir)) < 0) {
		d->kept.path = NULL;
		return;
	}
	(void)mkdir(dir, 0755);
	r = state_open(d->kept.path, &d->kept.state);
	if (r < 0) {
		log_line(r == -EWOULDBLOCK ? 6 : 4, "%s: %s: names of stacks and firing incidents will not outlive this run",
			 d->kept.path, r == -EWOULDBLOCK ? "another gpuxray keeps its own there" : strerror(-r));
		return;
	}
	r = state_read(d->kept.path, &text, &len);
	if (r < 0)
		log_warning("%s: not read (%s): what it says of the last run is lost", d->kept.path, strerror(-r));
	(void)state_parse(text, len, one_record, a, &valid);
	if (a->is_ours && valid < len)
		log_info("%s: the last %zu bytes are torn and were left out", d->kept.path, len - valid);
	restore_incidents(a);
}

static bool has_begun(const struct adoption *a, const struct event *ev)
{
	return (uintptr_t)map64_get(&a->begun, ev->pid) == (uintptr_t)ev->start_ns;
}

static void hold(struct adoption *a, const struct event *ev, size_t size)
{
	if (!a->held)
		a->held = calloc(HELD_MAX, sizeof(*a->held));
	if (a->held && a->held_len < HELD_MAX)
		a->held[a->held_len++] = *ev;
	else
		daemon_event(a->d, ev, size);
}

/* The maps have the block, but not how much was ever allocated. */
static void note_allocated(struct adoption *a, const struct event *ev)
{
	struct process *p;

	if (ev->type != EVENT_ALLOC || ev->class >= CLASS_MAX)
		return;
	p = engine_process(a->d->engine, ev->pid, ev->start_ns);
	if (p)
		(void)sat_add(&p->allocated[ev->class], ev->bytes);
}

static int on_waiting(const struct event *ev, size_t size, void *userdata)
{
	struct adoption *a = userdata;
	struct books b;

	switch (ev->type) {
	case EVENT_PROCESS:
		(void)map64_put(&a->begun, ev->pid, (void *)(uintptr_t)(ev->start_ns ?: 1));
		break;
	case EVENT_ALLOC:
	case EVENT_FREE:
		if (has_begun(a, ev))
			break;
		note_allocated(a, ev);
		return 0;
	case EVENT_FAIL:
		/* What it holds is only known after the rebuild. */
		if (!has_begun(a, ev) && tracer_books(a->d->tracer, ev->pid, &b) == 0 && b.start_ns == ev->start_ns) {
			hold(a, ev, size);
			return 0;
		}
		break;
	case EVENT_EXIT:
	case EVENT_EXEC:
		(void)map64_remove(&a->begun, ev->pid);
		break;
	}
	daemon_event(a->d, ev, size);
	return 0;
}

static void drain_waiting(struct adoption *a)
{
	const struct limits *l = &a->d->settings->limits;
	uint64_t most = l->ring_bytes / sizeof(struct event), n = 0;
	int r;

	do {
		a->d->now_ns = clock_monotonic_ns();
		a->d->real_usec = clock_real_usec();
		r = tracer_drain(a->d->tracer, DRAIN_EVENTS_MAX, on_waiting, a);
		n += (uint64_t)MAX(r, 0);
	} while (r == DRAIN_EVENTS_MAX && n < most);
	if (r < 0)
		log_warning("reading the ring buffer failed: %s", strerror(-r));
}

static int on_kept_books(uint32_t pid, const struct books *b, void *userdata)
{
	struct daemon *d = ((struct adoption *)userdata)->d;
	struct known *k = daemon_known(d, pid, b->start_ns);

	if (!k)
		return 0;
	d->kept.processes++;
	/* Its bounds are those of rules that may be no more. */
	(void)tracer_arm(d->tracer, pid, b->start_ns, UINT64_MAX, 0, UINT64_MAX);
	k->lost_seen = b->lost_count;
	k->is_changed = true;
	return resync_want(d->resync, pid, b->start_ns);
}

static void tell_held(struct adoption *a)
{
	struct daemon *d = a->d;

	for (size_t i = 0; i < a->held_len; i++) {
		const struct event *ev = &a->held[i];
		struct process *p = engine_process(d->engine, ev->pid, ev->start_ns);
		const uint64_t count = p ? p->fail_count : 0;

		daemon_event(d, ev, sizeof(*ev));
		/* The rebuild has counted it. */
		p = engine_process(d->engine, ev->pid, ev->start_ns);
		if (p)
			p->fail_count = count;
	}
}

static void name_devices(struct daemon *d)
{
	struct process *p;
	size_t iter = 0;

	while ((p = engine_next_process(d->engine, &iter))) {
		struct known *k = map64_get(&d->known, p->pid);

		for (size_t i = 0; k && k->start_ns == p->start_ns && i < p->devices_len; i++)
			daemon_note_ordinal(d, k, p->devices[i].ordinal, UINT32_MAX);
	}
}

static void take_books(struct adoption *a)
{
	struct daemon *d = a->d;
	uint64_t c[COUNTER_MAX];
	int r;

	drain_waiting(a);
	if (tracer_counters(d->tracer, c) == 0)
		d->lost_seen = c[COUNTER_LOST];
	r = tracer_each_books(d->tracer, on_kept_books, a);
	if (r == 0)
		r = resync_run(d->resync, clock_monotonic_ns(), clock_real_usec());
	if (r < 0)
		log_warning("rebuilding the books failed, trying again: %s", strerror(-r));
	tell_held(a);
	name_devices(d);
}

void daemon_adopt(struct daemon *d)
{
	struct adoption a = { .d = d };

	d->now_ns = clock_monotonic_ns();
	d->real_usec = clock_real_usec();
	d->kept.written_ns = d->now_ns;
	d->kept.is_adopting = true;
	daemon_bounds_start(d);
	take_state(&a);
	if (tracer_is_kept(d->tracer))
		take_books(&a);
	if (a.is_ours && (d->kept.processes || a.stacks || a.restored))
		log_info("from before the restart: %zu processes, %u stacks, %u incidents", d->kept.processes, a.stacks, a.restored);
	address_space_unref(a.used);
	map64_done(&a.begun);
	free(a.held);
	daemon_keep_rewrite(d);
}

void daemon_adopt_end(struct daemon *d)
{
	d->kept.is_adopting = false;
	daemon_keep_turn(d);
}
