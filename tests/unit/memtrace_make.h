/* SPDX-License-Identifier: MIT */
/* Views by hand, in a world of UTC and UTF-8. */
#pragma once

#include <locale.h>
#include <time.h>

#include "base/clock.h"
#include "memtrace/past.h"
#include "test.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define NOW UINT64_C(1796068805250000) /* 2026-11-30 20:00:05.25 UTC */
#define TRACED (NOW - 3600 * USEC_PER_SEC)

static inline struct view *new_view(uint64_t usec)
{
	struct view *v = view_new();

	if (!v)
		abort();
	v->totals.real_usec = usec;
	v->totals.start_usec = v->totals.traced_usec = TRACED;
	v->totals.is_exact = true;
	return v;
}

static inline void set(char **p, const char *s)
{
	if (view_set(p, s) < 0)
		abort();
}

static inline struct view_process *add(struct view *v, uint32_t pid, uint64_t start, uint32_t ppid, const char *comm)
{
	struct view_process *p = view_add_process(v);

	if (!p)
		abort();
	p->pid = pid;
	p->ppid = ppid;
	p->start_ticks = start;
	p->start_usec = v->totals.real_usec - 65 * USEC_PER_SEC;
	p->is_covered = p->is_exact = true;
	p->baseline_bytes = 0;
	set(&p->comm, comm);
	set(&p->user, "ann");
	return p;
}

static inline void on(struct view_process *p, int64_t index, int64_t ordinal, uint64_t live, uint64_t driver)
{
	struct view_process_device *d = view_add_process_device(p);

	if (!d)
		abort();
	d->index = index;
	d->ordinal = ordinal;
	d->live_bytes = live;
	d->driver_bytes = driver;
}

static inline struct view_site *site(struct view_process *p, uint64_t id, uint64_t bytes, uint64_t blocks, const char *stack)
{
	struct view_site *s = view_add_site(p);

	if (!s)
		abort();
	s->stack_id = id;
	s->bytes = bytes;
	s->blocks = blocks;
	s->age_ns = 90 * NSEC_PER_SEC;
	set(&s->function, "cuMemAlloc_v2");
	set(&s->class_name, "device");
	set(&s->stack, stack);
	p->sites_count++;
	return s;
}

#define STACK_A "cuMemAlloc_v2+0x1a (libcuda.so.1)\ngrow+0x41 (train) at train.c:40\nmain+0x10 (train) at train.c:90"
#define STACK_B "cuMemAlloc_v2+0x1a (libcuda.so.1)\nload (/srv/train.py:12)\n<module> (/srv/train.py:80)"

static inline struct view_process *fill_sites(struct view *v, uint64_t a, uint64_t b)
{
	struct view_process *p = add(v, 4711, 1, 1, "train");

	p->live_bytes = a + b;
	p->live_count = 3;
	p->alloc_count = 9;
	p->free_count = 6;
	p->peak_bytes = 100 * MIB;
	site(p, 7, a, 2, STACK_A);
	site(p, 8, b, 1, STACK_B)->age_ns = 1500 * NSEC_PER_MSEC;
	return p;
}

__attribute__((constructor)) static void make_world(void)
{
	setenv("TZ", "UTC", 1);
	tzset();
	(void)setlocale(LC_CTYPE, "C.UTF-8");
}
