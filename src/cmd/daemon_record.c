/* SPDX-License-Identifier: MIT */
/* What the engine is told, to a file: beside the daemon's own work, or as all of it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "cmd/daemon_internal.h"
#include "proc/procfs.h"
#include "trace/calls.h"

static const char *call_cb(uint32_t call, void *userdata)
{
	return call_symbol(call);
}

/* Whom to wait for. One that is not there is a mistake of the caller's. */
static int note_pids(struct daemon *d)
{
	const struct daemon_options *o = d->options;
	struct proc_stat st;

	d->tap.start_ticks = calloc(o->pids_len + 1, sizeof(*d->tap.start_ticks));
	if (!d->tap.start_ticks)
		return -ENOMEM;
	for (size_t i = 0; i < o->pids_len; i++) {
		int r = proc_stat_read("/proc", o->pids[i], &st);

		if (r < 0) {
			log_error("--pid %u: no such process", o->pids[i]);
			return r;
		}
		d->tap.start_ticks[i] = st.start_ticks;
	}
	return 0;
}

int daemon_record_start(struct daemon *d)
{
	const struct daemon_recording *o = &d->options->recording;
	struct recorder_options ro = { .path = o->path, .pids = d->options->pids, .pids_len = d->options->pids_len,
				       .identity = o->identity, .start_ns = d->started_ns, .objects = d->objects,
				       .redact = d->redact, .call_name = call_cb };
	int r = o->is_all ? note_pids(d) : 0;

	if (r < 0 || !o->path)
		return r;
	r = recorder_new(&ro, &d->tap.recorder);
	if (r < 0) {
		log_error("%s: cannot be written: %s", o->path, strerror(-r));
		return r;
	}
	engine_set_tap(d->engine, recorder_tap, d->tap.recorder);
	if (o->duration_ns)
		d->tap.end_ns = clock_monotonic_ns() + o->duration_ns;
	return 0;
}

void daemon_record_stack(struct daemon *d, struct stack *s)
{
	if (d->tap.recorder)
		recorder_stack(d->tap.recorder, s);
}

/* A zombie does nothing any more. */
static bool has_ended(struct daemon *d, size_t i)
{
	struct proc_stat st;

	if (d->tap.start_ticks[i] &&
	    (proc_stat_read("/proc", d->options->pids[i], &st) < 0 || st.start_ticks != d->tap.start_ticks[i] ||
	     st.state == 'Z' || st.state == 'X'))
		d->tap.start_ticks[i] = 0;
	return !d->tap.start_ticks[i];
}

static bool is_over(struct daemon *d)
{
	size_t ended = 0;

	if (d->tap.end_ns && d->now_ns >= d->tap.end_ns)
		return true;
	for (size_t i = 0; i < d->options->pids_len; i++)
		ended += has_ended(d, i);
	return d->options->pids_len && ended == d->options->pids_len;
}

static void show_progress(struct daemon *d, const struct recorder_stats *s)
{
	char time[FORMAT_UNITS_MAX], bytes[FORMAT_UNITS_MAX];

	if (!isatty(STDERR_FILENO))
		return;
	d->tap.has_progress = true;
	fprintf(stderr, "\r%s: %llu events, %llu stacks, %s, %llu dropped\x1b[K",
		format_duration(time, (d->now_ns - d->started_ns) / NSEC_PER_SEC * NSEC_PER_SEC),
		(unsigned long long)s->events, (unsigned long long)s->stacks, format_bytes(bytes, s->file_bytes),
		(unsigned long long)s->dropped);
}

static void close_recorder(struct daemon *d)
{
	const struct daemon_recording *o = &d->options->recording;
	const char *name = strcmp(o->path, "-") == 0 ? "standard output" : o->path;
	struct recorder_stats s;

	engine_set_tap(d->engine, NULL, NULL);
	d->tap.error = recorder_close(TAKE_PTR(d->tap.recorder), &s);
	if (d->tap.has_progress)
		fputs("\r\x1b[K", stderr);
	if (o->stats)
		*o->stats = s;
	if (d->tap.error)
		log_error("%s: the recording ends early: %s", name, strerror(-d->tap.error));
	/* After an error nothing is written: that has been said. */
	else if (s.dropped)
		log_warning("%s: %llu lines are missing: they came faster than they could be written", name,
			    (unsigned long long)s.dropped);
}

void daemon_record_tick(struct daemon *d)
{
	struct recorder_stats s;

	if (!d->tap.recorder)
		return;
	recorder_stats(d->tap.recorder, &s);
	if (d->options->recording.is_all) {
		show_progress(d, &s);
		if (s.error || is_over(d))
			(void)sd_event_exit(d->event, 0);
	} else if (s.error) {
		close_recorder(d);
	}
}

int daemon_record_stop(struct daemon *d)
{
	if (d->tap.recorder)
		close_recorder(d);
	return d->tap.error;
}
