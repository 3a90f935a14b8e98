/* SPDX-License-Identifier: MIT */
/* From the ring to the engine. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "cmd/daemon_internal.h"
#include "model/process.h"
#include "proc/procfs.h"
#include "trace/calls.h"

/* First sight of a process: who it is, while it is there to be asked. */
static void capture(struct daemon *d, struct known *k)
{
	_cleanup_(identity_unrefp) struct identity *id = NULL;

	if (identity_read("/proc", k->pid, k->start_ns, NULL, &id) == -ENOMEM || !id)
		return;
	(void)engine_set_identity(d->engine, k->pid, k->start_ns, id);
}

static void forget(struct daemon *d, uint32_t pid, uint64_t start_ns)
{
	struct known *k = map64_get(&d->known, pid);

	if (!k || k->start_ns != start_ns)
		return;
	(void)map64_remove(&d->known, pid);
	if (d->last == k)
		d->last = NULL;
	free(k);
}

/* EXIT or EXEC. */
static void on_end(struct daemon *d, const struct event *ev)
{
	(void)engine_event(d->engine, ev, d->now_ns, d->real_usec);
	resync_forget(d->resync, ev->pid, ev->start_ns);
	resolver_forget(d->resolver, ev->pid, ev->start_ns);
	forget(d, ev->pid, ev->start_ns);
}

void daemon_end(struct daemon *d, uint32_t pid, uint64_t start_ns)
{
	struct event ev = { .type = EVENT_EXIT, .pid = pid, .start_ns = start_ns, .time_ns = d->now_ns,
			    .device = EVENT_NO_DEVICE };

	on_end(d, &ev);
}

/* Processes looked at in one tick: a user that is not in the table of names is looked for in /etc/passwd. */
#define RENAMES_MAX 256

void daemon_rename_users(struct daemon *d)
{
	const uint64_t names = identity_late_names();
	struct process *p;
	size_t iter, n = 0;

	if (names == d->names_seen && !d->rename_iter)
		return;
	d->names_seen = names;
	iter = d->rename_iter;
	d->rename_iter = 0;
	while ((p = engine_next_process(d->engine, &iter))) {
		_cleanup_(identity_unrefp) struct identity *renamed = NULL;

		if (!p->id)
			continue;
		if (n++ == RENAMES_MAX) { /* the rest at the next tick */
			d->rename_iter = iter - 1;
			break;
		}
		if (identity_rename(p->id, &renamed) == 0 && renamed)
			(void)engine_set_identity(d->engine, p->pid, p->start_ns, renamed);
	}
}

struct known *daemon_known(struct daemon *d, uint32_t pid, uint64_t start_ns)
{
	struct known *k;

	if (d->last && d->last->pid == pid && d->last->start_ns == start_ns)
		return d->last;
	k = map64_get(&d->known, pid);
	if (k && k->start_ns != start_ns) {
		if (k->start_ns > start_ns) /* late news of an earlier bearer of the pid */
			return NULL;
		/* The pid was reused: the end of the one before was lost. */
		daemon_end(d, k->pid, k->start_ns);
		k = NULL;
	}
	if (!k) {
		if (d->known.len >= 2 * (size_t)d->settings->limits.processes)
			return NULL; /* the engine counts it */
		k = calloc(1, sizeof(*k));
		if (!k)
			return NULL;
		k->pid = pid;
		k->start_ns = start_ns;
		if (map64_put(&d->known, pid, k) < 0) {
			free(k);
			return NULL;
		}
		/* Any event will do: the one that announces a process may have been lost. */
		struct event ev = { .type = EVENT_PROCESS, .pid = pid, .start_ns = start_ns, .time_ns = d->now_ns,
				    .device = EVENT_NO_DEVICE };

		(void)engine_event(d->engine, &ev, d->now_ns, d->real_usec);
		resolver_process(d->resolver, pid, start_ns);
		capture(d, k);
	}
	d->last = k;
	return k;
}

static void on_stack(struct daemon *d, struct known *k, const struct event *ev, size_t size)
{
	const struct event_stack *es = (const void *)ev;
	struct stack *s;

	if (size < sizeof(*es) || es->copy_bytes > size - sizeof(*es) || es->python.count > PYTHON_FRAMES_MAX)
		return;
	s = stack_new(es);
	if (!s)
		return;
	/* One that the engine cannot keep is not learned either: it will be sent anew when there is room. */
	if (es->flags & STACK_F_CHECK || engine_set_stack(d->engine, k->pid, k->start_ns, s) == 0)
		resolver_push(d->resolver, s);
	else
		stack_set_frames(s, NULL);
	stack_unref(s);
}

static void on_resolved(struct stack *s, void *userdata)
{
	struct daemon *d = userdata;
	const struct frames *f = stack_frames(s);
	int r = -ENOENT;

	if (f)
		r = engine_set_site(d->engine, s->pid, s->start_ns, s->key, f->site);
	if (r == 0)
		daemon_keep_stack(d, s);
	else if (f)
		daemon_record_stack(d, s);
}

void daemon_resolved(struct daemon *d)
{
	(void)resolver_take(d->resolver, on_resolved, d);
}

void daemon_event(struct daemon *d, const struct event *ev, size_t size)
{
	struct known *k;

	d->events++;
	k = daemon_known(d, ev->pid, ev->start_ns);
	if (!k)
		return;
	switch (ev->type) {
	case EVENT_PROCESS: /* daemon_known() has done all of it */
		return;
	case EVENT_UUID:
		daemon_uuid(d, k, ev, size);
		return;
	case EVENT_STACK:
		on_stack(d, k, ev, size);
		return;
	case EVENT_EXIT:
	case EVENT_EXEC:
		on_end(d, ev);
		return;
	case EVENT_ALLOC:
	case EVENT_FAIL:
		daemon_note_ordinal(d, k, ev->device, ev->call);
		break;
	}
	k->is_changed = true;
	if (!resync_filter(d->resync, ev))
		return;
	if (engine_event(d->engine, ev, d->now_ns, d->real_usec) == -ENOMEM)
		(void)resync_want(d->resync, ev->pid, ev->start_ns);
}

static int on_event(const struct event *ev, size_t size, void *userdata)
{
	daemon_event(userdata, ev, size);
	return 0;
}

void daemon_drain(struct daemon *d)
{
	uint64_t end;
	int n, rounds = 0;

	do {
		d->drain_again = false;
		d->now_ns = clock_monotonic_ns();
		d->real_usec = clock_real_usec();
		end = tracer_ring_end(d->tracer);
		n = tracer_drain(d->tracer, DRAIN_EVENTS_MAX, on_event, d);
		if (n < 0) {
			log_warning("reading the ring buffer failed: %s", strerror(-n));
			return;
		}
	} while (d->drain_again && ++rounds < 4);
	d->is_drained = n < DRAIN_EVENTS_MAX && tracer_is_past(d->tracer, end);
	/* Busy, or an event is being written and holds up those behind it: come back soon. Idle: the tick or a wake-up from the
	 * probes will do. */
	if (n > 0 || !d->is_drained)
		(void)sd_event_source_set_time_relative(d->drain_timer, n == DRAIN_EVENTS_MAX ? 0 :
							d->settings->drain_interval_ns / NSEC_PER_USEC);
	(void)sd_event_source_set_enabled(d->drain_timer, n > 0 || !d->is_drained ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

void daemon_mapped(uint32_t pid, const struct mapping *m, void *userdata)
{
	struct daemon *d = userdata;
	int r = libraries_mapped(d->libraries, pid, m);
	struct known *k = map64_get(&d->known, pid);

	if (k)
		resolver_mapped(d->resolver, pid);
	if (r > 0)
		log_info("probing %s, first mapped by process %u", m->path, pid);
	else if (r < 0)
		libraries_tell(m, pid, r);
}
