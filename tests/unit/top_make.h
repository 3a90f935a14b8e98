/* SPDX-License-Identifier: MIT */
/* A hand-made view for what `top` shows: two devices, four processes, one of each oddity. */
#pragma once

#include "base/clock.h"
#include "view/view.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static struct view_process *make_process(struct view *v, uint32_t pid, uint32_t ppid, const char *comm, uint64_t live)
{
	struct view_process *p = view_add_process(v);

	p->pid = pid;
	p->ppid = ppid;
	p->start_ticks = pid * UINT64_C(10);
	p->is_covered = p->is_exact = true;
	p->live_bytes = p->device_bytes = p->peak_bytes = live;
	(void)view_set(&p->comm, comm);
	return p;
}

static _unused_ void make_on_device(struct view_process *p, int64_t index, uint32_t sm_percent)
{
	struct view_process_device *d = view_add_process_device(p);

	d->index = index;
	d->live_bytes = p->live_bytes;
	d->sm_percent = sm_percent;
}

static _unused_ struct view_site *make_site(struct view_process *p, uint64_t id, uint64_t bytes, const char *stack)
{
	struct view_site *s = view_add_site(p);

	s->stack_id = id;
	s->bytes = bytes;
	s->blocks = 3;
	s->age_ns = 90 * NSEC_PER_SEC;
	s->idle_ns = NSEC_PER_SEC;
	(void)view_set(&s->function, "cuMemAlloc_v2");
	(void)view_set(&s->class_name, "device");
	(void)view_set(&s->stack, stack);
	p->sites_count++;
	return s;
}

static _unused_ void make_device(struct view *v, int64_t index, uint64_t total, uint64_t used, uint64_t live)
{
	struct view_device *d = view_add_device(v);

	d->index = index;
	d->total_bytes = total;
	d->used_bytes = used;
	d->live_bytes = live;
	(void)view_set(&d->uuid, "GPU-0");
}

static _unused_ void make_incident(struct view *v, const char *state, const char *rule, uint32_t pid)
{
	struct view_incident *i = view_add_incident(v);

	(void)view_set(&i->state, state);
	(void)view_set(&i->rule, rule);
	(void)view_set(&i->severity, "critical");
	(void)view_set(&i->scope, "process");
	(void)view_set(&i->value_unit, "bytes");
	i->pid = pid;
	i->value = 41 * GIB;
	i->limit = 40 * GIB;
	i->age_ns = 75 * NSEC_PER_SEC;
}

static _unused_ struct view *make_view(void)
{
	struct view *v = view_new();
	struct view_process *p;

	v->totals.is_daemon = v->totals.is_exact = true;
	v->totals.uptime_ns = 3 * 3600 * NSEC_PER_SEC + 12 * 60 * NSEC_PER_SEC;
	v->totals.real_usec = UINT64_C(1796073330) * USEC_PER_SEC;
	v->totals.processes = 4;
	v->totals.uncovered = v->totals.firing = 1;
	(void)view_set(&v->totals.host, "gpu01");
	make_device(v, 1, 80 * GIB, 10 * GIB, 0);
	make_device(v, 0, 80 * GIB, 60 * GIB, 50 * GIB);
	v->devices[1].busy_percent = 93;
	v->devices[1].celsius = 64;
	v->devices[1].milliwatts = 312000;
	v->devices[1].milliwatts_max = 700000;
	(void)view_set(&v->devices[1].name, "NVIDIA H200");

	p = make_process(v, 4711, 1, "python3", 41 * GIB + 200 * MIB);
	(void)view_set(&p->user, "alice");
	(void)view_set(&p->unit, "train.service");
	(void)view_set(&p->cmdline, "python3 train.py --epochs 3");
	(void)view_set(&p->recent, "1000,2000,3000,4000,5000,6000,7000,8000,9000,10000,11000,44000000000");
	make_on_device(p, 0, 88);
	make_on_device(p, 1, 12);
	p->host_bytes = 512 * MIB;
	p->driver_bytes = 42 * GIB;
	p->growth_bytes_per_min = 1280 * (int64_t)MIB;
	p->allocs_per_min = 15000000;
	p->firing = 1;

	p = make_process(v, 4720, 4711, "worker", 8 * GIB);
	(void)view_set(&p->user, "alice");
	(void)view_set(&p->pod_name, "infer-0");
	(void)view_set(&p->pod_namespace, "prod");
	make_on_device(p, 0, VIEW_NONE_32);
	p->growth_bytes_per_min = -300 * (int64_t)MIB;
	p->allocs_per_min = 0;
	p->is_exact = false;
	p->fail_count = 2;

	p = make_process(v, 99, 1, "x", 800 * MIB);
	/* A command of characters that take two columns, one with a mark, an escape sequence. */
	(void)view_set(&p->cmdline, "\xe6\xa8\xa1\xe5\x9e\x8b e\xcc\x81 \x1b[31m");
	p->growth_bytes_per_min = 0;

	p = make_process(v, 300000, 1, "old", 0);
	p->is_covered = false;
	p->driver_bytes = 10 * GIB;
	make_incident(v, "firing", "process-quota", 4711);
	return v;
}
