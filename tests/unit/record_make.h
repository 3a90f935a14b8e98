/* SPDX-License-Identifier: MIT */
/* Reports to make records of. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "record/record.h"

#define GIB(n) ((uint64_t)((n) * 1073741824.0))

static inline char *make_str(const char *s)
{
	char *copy = strdup(s);

	if (!copy)
		abort();
	return copy;
}

static inline struct identity *make_identity(void)
{
	struct identity *id = identity_new();

	if (!id)
		abort();
	id->pid = 4711;
	id->start_ticks = 123456;
	id->uid = 1000;
	id->comm = make_str("python3");
	id->exe = make_str("/usr/bin/python3.11");
	id->cmdline = make_str("python3 train.py --epochs 3");
	id->user = make_str("alice");
	id->cgroup = make_str("/system.slice/train.service");
	id->unit = make_str("train.service");
	return id;
}

/* A process quota that fires, with all the numbers that such a report has. */
static inline struct report *make_report(enum report_event event)
{
	struct report *r = report_new(event);

	if (!r)
		abort();
	r->state = STATE_FIRING;
	r->severity = SEVERITY_WARNING;
	r->real_usec = 1796000000123456;
	r->rule = make_str("process-quota");
	for (size_t i = 0; i < sizeof(r->incident); i++)
		r->incident[i] = (uint8_t)(i * 17);
	r->seq = 1;
	r->scope = SCOPE_PROCESS;
	r->id = make_identity();
	r->device_uuid = make_str("GPU-12345678-1234-1234-1234-123456789abc");
	r->device_index = 0;
	r->device_bytes = GIB(80);
	r->device_used_bytes = GIB(60);
	r->value = GIB(41.2);
	r->limit = GIB(40);
	r->bytes = r->live_bytes = GIB(41.2);
	r->live_count = 812;
	r->peak_bytes = GIB(42);
	return r;
}

static inline struct stack_text *make_stack(size_t len)
{
	struct stack_text *st = calloc(1, sizeof(*st));

	if (!st)
		abort();
	st->frames = calloc(len, sizeof(*st->frames));
	if (len > 0 && !st->frames)
		abort();
	for (; st->len < len; st->len++)
		if (asprintf(&st->frames[st->len].text, "frame_%zu+0x%zx (libmodel.so)", st->len, st->len * 16) < 0)
			abort();
	st->id = make_str("0123456789abcdef");
	return st;
}
