/* SPDX-License-Identifier: MIT */
/* Views made by hand, and their expositions, each of which is held against both formats. */
#pragma once

#include "exposition_check.h"

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

static const enum metrics_format formats[] = { METRICS_PROMETHEUS, METRICS_OPENMETRICS };

static inline char *render(const struct view *v, enum metrics_format format, uint32_t max, bool has_args)
{
	struct metrics_options o = { .format = format, .processes_max = max, .has_args = has_args };
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	char *text = NULL;

	metrics_write(v, &o, &sb);
	if (strbuf_steal(&sb, &text) < 0)
		abort();
	return text;
}

/* It is a good exposition in both formats; the older one, which the caller frees. */
static inline char *rendered(const struct view *v, uint32_t max, bool has_args)
{
	char *text = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		const char *problem;

		free(text);
		text = render(v, formats[ARRAY_SIZE(formats) - 1 - i], max, has_args);
		problem = exposition_problem(text, formats[ARRAY_SIZE(formats) - 1 - i]);
		if (problem)
			printf("# %s\n", problem);
		EXPECT(!problem);
	}
	return text;
}

static inline size_t count(const char *text, const char *part)
{
	size_t n = 0;

	for (const char *s = text; (s = strstr(s, part)); s++)
		n++;
	return n;
}

static inline bool has_line(const char *text, const char *line)
{
	const size_t len = strlen(line);

	for (const char *s = text; (s = strstr(s, line)); s++)
		if ((s == text || s[-1] == '\n') && s[len] == '\n')
			return true;
	printf("# there is no line %s\n", line);
	return false;
}

static inline struct view_process *add_process(struct view *v, uint32_t pid, const char *comm, uint64_t bytes)
{
	struct view_process *p = view_add_process(v);

	if (!p || view_set(&p->comm, comm) < 0)
		abort();
	p->pid = pid;
	p->start_ticks = 100 + pid;
	p->is_covered = p->is_exact = true;
	p->live_bytes = p->device_bytes = bytes;
	return p;
}

static inline struct view_process_device *add_on(struct view_process *p, const char *uuid, int64_t index, uint64_t bytes)
{
	struct view_process_device *d = view_add_process_device(p);

	if (!d || view_set(&d->uuid, uuid) < 0)
		abort();
	d->index = index;
	d->live_bytes = bytes;
	return d;
}

static inline void add_incident(struct view *v, const char *rule, const char *severity, const char *kind, const char *state)
{
	struct view_incident *i = view_add_incident(v);

	if (!i || view_set(&i->rule, rule) < 0 || view_set(&i->severity, severity) < 0 || view_set(&i->kind, kind) < 0 ||
	    view_set(&i->state, state) < 0)
		abort();
}

static inline void make_totals(struct view *v)
{
	v->totals.is_daemon = v->totals.is_exact = true;
	if (view_set(&v->totals.version, "0.1.0") < 0)
		abort();
}

#define _cleanup_view_ _cleanup_(view_freep)

static inline struct view *make_view(void)
{
	struct view *v = view_new();

	if (!v)
		abort();
	make_totals(v);
	return v;
}

/* ---- one of everything */

static inline void make_devices(struct view *v)
{
	for (int i = 0; i < 2; i++) {
		struct view_device *d = view_add_device(v);

		if (!d || view_set(&d->uuid, i ? "GPU-2" : "GPU-1") < 0 || view_set(&d->name, "NVIDIA H200") < 0 ||
		    view_set(&d->driver, "nvidia") < 0)
			abort();
		d->index = i;
		d->total_bytes = 140 * GIB;
		d->used_bytes = i ? 1 * GIB : 42 * GIB;
		d->live_bytes = i ? 0 : 40 * GIB;
		d->celsius = 61;
		if (i)
			continue;
		d->busy_percent = 97;
		d->memory_busy_percent = 40;
		d->milliwatts = 412500;
		d->milliwatts_max = 700000;
	}
}

static inline void make_trained(struct view *v)
{
	struct view_process *p = add_process(v, 4711, "python3", 40 * GIB);
	struct view_process_device *d;

	if (view_set(&p->user, "ada") < 0 || view_set(&p->unit, "train.service") < 0 || view_set(&p->exe, "/usr/bin/python3") < 0 ||
	    view_set(&p->cmdline, "python3 train.py --name=\"a b\"") < 0 || view_set(&p->container, "c0ffee") < 0 ||
	    view_set(&p->pod, "9b1d") < 0 || view_set(&p->pod_name, "train-0") < 0 || view_set(&p->pod_namespace, "ml") < 0 ||
	    view_set(&p->container_name, "main") < 0 || view_set(&p->runtime, "containerd") < 0 ||
	    view_set(&p->slurm_job, "77") < 0 || view_set(&p->tag, "nightly") < 0 || view_set(&p->parent, "bash") < 0 ||
	    view_set(&p->conditions, "parent_gone,uninterruptible") < 0)
		abort();
	p->start_usec = 1796037215637944;
	p->device_bytes = 38 * GIB;
	p->host_bytes = 5 * MIB;
	p->managed_bytes = p->array_bytes = p->physical_bytes = p->graph_bytes = p->imported_bytes = MIB;
	p->async_bytes = 2 * GIB;
	p->framework_bytes = 30 * GIB;
	p->peak_bytes = 41 * GIB;
	p->driver_bytes = 41 * GIB;
	p->baseline_bytes = 0;
	p->untracked_bytes = 1 * GIB;
	p->live_count = 44;
	p->alloc_count = 50;
	p->free_count = 6;
	p->fail_count = 1;
	p->unknown_free_count = 2;
	p->allocated_bytes = 60 * GIB;
	p->lost_events = 3;
	p->growth_bytes_per_min = -100;
	p->firing = 1;
	p->sites_count = 12;
	d = add_on(p, "GPU-1", 0, 40 * GIB);
	d->driver_bytes = 41 * GIB;
	d->sm_percent = 93;
	(void)add_on(p, "GPU-2", 1, 0);
}

static inline void make_edges(struct view *v)
{
	struct view_process *p = add_process(v, 99, "Xorg", 0);
	struct view_limit *l = view_add_limit(v);
	struct view_counter *c = view_add_counter(v);
	struct view_latency *t = view_add_latency(v);

	p->is_covered = false;
	p->driver_bytes = 10 * MIB;
	add_on(p, "GPU-1", 0, 0)->driver_bytes = 10 * MIB;
	if (!l || !c || !t || view_set(&p->uncovered_reason, "static library") < 0 || view_set(&l->name, "queue") < 0 ||
	    view_set(&c->name, "stacks_lost") < 0 || view_set(&t->function, "cuMemAlloc_v2") < 0)
		abort();
	l->used = 1;
	l->max = 256;
	c->value = 7;
	t->buckets[0] = 5;
	t->buckets[2] = 3;
	t->buckets[VIEW_LATENCY_BUCKETS - 1] = 1;
	t->count = 10; /* read later than the buckets */
	t->sum_ns = 20000123000;
	add_incident(v, "quota", "critical", "live_bytes", "firing");
	add_incident(v, "quota", "critical", "live_bytes", "resolving");
	add_incident(v, "leak", "warning", "leak", "pending");
	add_incident(v, "oom", "error", "alloc_failure", "inhibited");
}

static inline struct view *make_full(void)
{
	struct view *v = make_view();

	make_devices(v);
	make_trained(v);
	make_edges(v);
	v->totals.start_usec = 1796037200000000;
	v->totals.events = 1209;
	v->totals.lost_events = 3;
	v->totals.processes = 2;
	v->totals.uncovered = 1;
	v->totals.rules = 4;
	v->totals.records_written = 4;
	v->totals.records_suppressed = 2;
	v->totals.libraries = 1;
	v->totals.cpu_ns = 1500000000;
	v->totals.resident_bytes = 20 * MIB;
	v->totals.kernel_bytes_max = 90 * MIB;
	v->totals.fds = 31;
	return v;
}
