/* SPDX-License-Identifier: MIT */
/*
 * From an engine's input to a line. Processes have no start time in a trace: one incarnation ends with its exit or exec,
 * which is written too where the engine concludes it from the start time of the next.
 */
#include "replay/recorder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/map64.h"
#include "base/strbuf.h"
#include "record/record.h"
#include "replay/recorder_out.h"
#include "replay/trace.h"

#define PENDING_BYTES_DEFAULT (64u << 20)
/* Nobody has more; what comes after them is one device. */
#define DEVICES_MAX 1024
/* Ticks go on for so long after the last other line: verdicts that wait for a time are found at the same moments then. */
#define TICKS_NS (60 * NSEC_PER_SEC)
/* Of a process that only the driver has named the start is known to the tick. */
#define ENDED_MAX 64 /* processes whose stacks may still be resolved */
#define START_TICK_NS (10 * NSEC_PER_MSEC)

struct recorded {
	uint32_t pid;
	uint64_t start_ns;
	bool is_covered; /* it has had events */
	uint64_t dropped; /* lines about it, since the last that was written */
	struct map64 stacks; /* number -> that in the trace */
};

struct recorder {
	struct recorder_options o;
	struct recorder_out *out;
	bool has_clock;
	struct trace_clock clock;
	struct map64 processes; /* the newest bearer of each pid */
	struct recorded *last;
	struct recorded *ended[ENDED_MAX]; /* the oldest makes room */
	size_t ended_next;
	uint64_t stacks; /* the last number given */
	char *devices[DEVICES_MAX]; /* uuids, by the number they are given in place of it */
	size_t devices_len;
	uint64_t other_ns; /* time of the last line that was no tick */
	uint64_t tick_ns;  /* of a tick that was not written, 0 = none */
	uint64_t dropped_now; /* not told of yet */
	/* Read by others. */
	_Atomic uint64_t events, lines, dropped;
	struct strbuf line;
};

static void recorded_free(struct recorded *p)
{
	if (!p)
		return;
	map64_done(&p->stacks);
	free(p);
}

/* ---- lines */

static void count_dropped(struct recorder *r, struct recorded *p)
{
	r->dropped++;
	r->dropped_now++;
	if (p)
		p->dropped++;
}

static int put(struct recorder *r, const struct trace_item *item, bool is_vital)
{
	int q;

	strbuf_reset(&r->line);
	q = trace_write(&r->line, item);
	if (q == 0)
		q = r->line.error;
	if (q == 0)
		q = recorder_out_add(r->out, strbuf_str(&r->line), r->line.len, is_vital);
	if (q == 0)
		r->lines++;
	return q;
}

static void put_text(struct recorder *r, const char *text, size_t len)
{
	(void)recorder_out_add(r->out, text, len, true);
}

/* There is room again: of whom something is missing. */
static void tell_dropped(struct recorder *r, uint64_t time_ns)
{
	size_t iter = 0;
	void *value;
	char text[160];
	int n;

	if (!recorder_out_has_room(r->out))
		return;
	n = snprintf(text, sizeof(text), "# %llu lines are missing here: they came faster than they could be written\n",
		     (unsigned long long)r->dropped_now);
	put_text(r, text, (size_t)n);
	r->dropped_now = 0;
	while (map64_next(&r->processes, &iter, NULL, &value)) {
		struct recorded *p = value;
		struct trace_item item = { .type = TRACE_LOST, .pid = p->pid, .time_ns = time_ns, .count = p->dropped };

		p->dropped = 0;
		if (item.count)
			(void)put(r, &item, true);
	}
}

static uint64_t trace_time(const struct recorder *r, uint64_t ns)
{
	return ns > r->clock.monotonic_ns ? ns - r->clock.monotonic_ns : 0;
}

static void put_tick(struct recorder *r)
{
	struct trace_item item = { .type = TRACE_TICK, .time_ns = trace_time(r, r->tick_ns) };

	if (r->tick_ns && put(r, &item, true) < 0)
		count_dropped(r, NULL);
	r->tick_ns = 0;
}

/* Without a pass's begin and end, and without the end of a process, what follows means something else. */
static bool is_vital(enum trace_type t)
{
	switch (t) {
	case TRACE_EXEC:
	case TRACE_EXIT:
	case TRACE_LOST:
	case TRACE_REBUILD:
	case TRACE_REBUILT:
	case TRACE_GPUS_END:
	case TRACE_DRIVER_BEGIN:
	case TRACE_DRIVER_END:
		return true;
	default:
		return false;
	}
}

static void put_item(struct recorder *r, const struct trace_item *item, struct recorded *p, uint64_t now_ns)
{
	if (r->dropped_now)
		tell_dropped(r, item->time_ns);
	if (r->tick_ns)
		put_tick(r);
	r->other_ns = now_ns;
	if (put(r, item, is_vital(item->type)) < 0)
		count_dropped(r, p);
}

/* ---- processes */

static struct recorded *find(struct recorder *r, uint32_t pid)
{
	if (!r->last || r->last->pid != pid)
		r->last = map64_get(&r->processes, pid);
	return r->last;
}

static void forget(struct recorder *r, struct recorded *p)
{
	(void)map64_remove(&r->processes, p->pid);
	r->last = NULL;
	recorded_free(r->ended[r->ended_next]);
	r->ended[r->ended_next] = p;
	r->ended_next = (r->ended_next + 1) % ENDED_MAX;
}

static void end(struct recorder *r, struct recorded *p, enum trace_type type, uint64_t time_ns, uint64_t now_ns)
{
	struct trace_item item = { .type = type, .pid = p->pid, .time_ns = time_ns };

	put_item(r, &item, p, now_ns);
	forget(r, p);
}

/* The one that the input is about, as the engine finds it. may_add: this input makes it known. NULL: the engine will not
 * heed the input, or there is no memory (counted). */
static struct recorded *process_of(struct recorder *r, const struct engine_input *in, bool may_add)
{
	struct recorded *p = find(r, in->pid);

	if (p && p->start_ns == in->start_ns)
		return p;
	if (!may_add)
		return NULL;
	if (p && !p->is_covered && in->start_ns > p->start_ns && in->start_ns - p->start_ns < START_TICK_NS) {
		p->start_ns = in->start_ns;
		return p;
	}
	if (p && p->start_ns > in->start_ns)
		return NULL;
	if (p)
		end(r, p, TRACE_EXIT, trace_time(r, in->now_ns), in->now_ns);
	p = calloc(1, sizeof(*p));
	if (!p || map64_put(&r->processes, in->pid, p) < 0) {
		free(p);
		count_dropped(r, NULL);
		return NULL;
	}
	p->pid = in->pid;
	p->start_ns = in->start_ns;
	r->last = p;
	return p;
}

/* ---- what is called otherwise in a trace */

/* 0: none, or there are too many. */
static uint64_t stack_number(struct recorder *r, struct recorded *p, uint64_t stack)
{
	uint64_t n;

	if (!stack)
		return 0;
	n = (uintptr_t)map64_get(&p->stacks, stack);
	if (n || r->stacks >= TRACE_STACKS_MAX - 1)
		return n;
	if (map64_put(&p->stacks, stack, (void *)(uintptr_t)(r->stacks + 1)) < 0)
		return 0;
	return ++r->stacks;
}

/* Made up, but the same for the same one: "GPU-00000000-0000-0000-0000-000000000001", where buf has room for it. */
static const char *device_name(struct recorder *r, const char *uuid, char buf[64])
{
	size_t i, prefix;

	if (r->o.identity || !uuid)
		return uuid;
	for (i = 0; i < r->devices_len && strcmp(r->devices[i], uuid) != 0; i++)
		;
	if (i == r->devices_len && i < DEVICES_MAX) {
		r->devices[i] = strdup(uuid);
		r->devices_len += r->devices[i] != NULL;
	}
	/* An instance of a card says so in front. */
	prefix = strncmp(uuid, "MIG-", 4) == 0 ? 4 : 0;
	snprintf(buf, 64, "%s00000000-0000-0000-0000-%012zx", prefix ? "MIG-" : "GPU-", i + 1);
	return buf;
}

/* ---- inputs */

static void take_event(struct recorder *r, const struct engine_input *in, struct trace_item *item)
{
	static const uint8_t types[] = {
		[EVENT_ALLOC] = TRACE_ALLOC, [EVENT_FREE] = TRACE_FREE, [EVENT_FAIL] = TRACE_FAIL,
		[EVENT_PROCESS] = TRACE_PROCESS, [EVENT_EXEC] = TRACE_EXEC, [EVENT_EXIT] = TRACE_EXIT,
	};
	const struct event *ev = in->event;
	struct recorded *p;

	if (in->type == INPUT_EVENT && (ev->type < EVENT_ALLOC || ev->type > EVENT_EXIT || ev->class >= CLASS_MAX))
		return;
	item->type = in->type == INPUT_EVENT ? (enum trace_type)types[ev->type] : TRACE_BLOCK;
	if (in->type == INPUT_EVENT && ev->time_ns)
		item->time_ns = trace_time(r, ev->time_ns);
	if (item->type == TRACE_EXEC || item->type == TRACE_EXIT) {
		p = process_of(r, in, false);
		if (p)
			end(r, p, item->type, item->time_ns, in->now_ns);
		return;
	}
	p = process_of(r, in, in->type == INPUT_EVENT);
	if (!p)
		return;
	p->is_covered = true;
	r->events += item->type == TRACE_ALLOC || item->type == TRACE_FREE || item->type == TRACE_FAIL;
	item->class = ev->class;
	item->kind = ev->kind;
	item->device = ev->device;
	item->error = ev->error;
	item->addr = ev->addr;
	item->bytes = ev->bytes;
	item->birth_ns = trace_time(r, ev->birth_ns);
	if (item->type != TRACE_FREE && item->type != TRACE_PROCESS) {
		item->stack = stack_number(r, p, ev->stack);
		item->reason = ev->stack && !item->stack ? STACK_EVICTED : item->stack ? STACK_OK : ev->stack_reason;
		item->call = r->o.call_name ? r->o.call_name(ev->call, r->o.userdata) : NULL;
	}
	put_item(r, item, p, in->now_ns);
}

static void take_site(struct recorder *r, const struct engine_input *in, struct trace_item *item)
{
	struct recorded *p = process_of(r, in, false);

	if (!p)
		return;
	item->type = TRACE_SITE;
	item->stack = stack_number(r, p, in->site.stack);
	item->key = in->site.key;
	if (!item->stack)
		return;
	put_item(r, item, p, in->now_ns);
	recorder_out_stack(r->out, item->stack, in->site.resolved);
}

static void take_tick(struct recorder *r, const struct engine_input *in)
{
	r->tick_ns = in->now_ns;
	if (in->now_ns < r->other_ns || in->now_ns - r->other_ns <= TICKS_NS)
		put_tick(r);
}

/* About devices and passes, not about a process. */
static void take_common(struct recorder *r, const struct engine_input *in, struct trace_item *item)
{
	char buf[64];

	switch (in->type) {
	case INPUT_DEVICE:
		item->type = TRACE_GPU;
		item->uuid = device_name(r, in->device.uuid, buf);
		item->name = in->device.name;
		item->device = in->device.index < 0 ? -1 : in->device.index;
		item->total_bytes = in->device.total_bytes;
		item->used_bytes = in->device.used_bytes;
		break;
	case INPUT_DEVICES_END:
		item->type = TRACE_GPUS_END;
		item->flag = !in->is_complete;
		break;
	case INPUT_DRIVER_BEGIN:
		item->type = TRACE_DRIVER_BEGIN;
		break;
	default:
		item->type = TRACE_DRIVER_END;
		item->flag = !in->is_complete;
		break;
	}
	put_item(r, item, NULL, in->now_ns);
}

static void take_process(struct recorder *r, const struct engine_input *in, struct trace_item *item)
{
	_cleanup_(identity_unrefp) struct identity *id = NULL;
	struct recorded *p;
	char buf[64];
	bool may_add = true;

	switch (in->type) {
	case INPUT_IDENTITY:
		item->type = TRACE_IDENTITY;
		if (r->o.identity && redact_identity(r->o.redact, in->identity, &id) < 0) {
			count_dropped(r, NULL);
			return;
		}
		item->identity = id;
		break;
	case INPUT_ORDINAL:
		item->type = TRACE_ORDINAL;
		item->device = in->ordinal.ordinal;
		item->uuid = device_name(r, in->ordinal.uuid, buf);
		break;
	case INPUT_DRIVER:
		item->type = TRACE_DRIVER;
		item->uuid = device_name(r, in->driver.uuid, buf);
		item->bytes = in->driver.bytes;
		item->flag = in->driver.is_older;
		break;
	case INPUT_COVERAGE:
		item->type = TRACE_COVERAGE;
		item->name = in->coverage.reason;
		item->flag = in->coverage.is_expected;
		may_add = false;
		break;
	case INPUT_CONDITION:
		item->type = TRACE_CONDITION;
		item->condition = in->condition;
		may_add = false;
		break;
	case INPUT_LOST:
		item->type = TRACE_LOST;
		item->count = in->lost;
		break;
	case INPUT_REBUILD_BEGIN:
		item->type = TRACE_REBUILD;
		break;
	default:
		item->type = TRACE_REBUILT;
		item->books = in->books;
		may_add = false;
		break;
	}
	p = process_of(r, in, may_add);
	if (p && (item->type != TRACE_IDENTITY || r->o.identity))
		put_item(r, item, p, in->now_ns);
}

static bool is_wanted(const struct recorder *r, uint32_t pid)
{
	for (size_t i = 0; i < r->o.pids_len; i++) {
		if (r->o.pids[i] == pid)
			return true;
	}
	return r->o.pids_len == 0 || pid == 0;
}

/* An event may be older than what it is told with. */
static void begin(struct recorder *r, const struct engine_input *in)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const uint64_t event_ns = in->type == INPUT_EVENT && in->event->time_ns ? in->event->time_ns : in->now_ns;
	const uint64_t start_ns = MIN(r->o.start_ns ?: event_ns, in->now_ns);

	r->has_clock = true;
	r->clock.monotonic_ns = start_ns;
	r->clock.real_usec = in->real_usec - MIN((in->now_ns - start_ns) / NSEC_PER_USEC, in->real_usec);
	trace_write_head(&sb, &r->clock);
	if (r->o.identity)
		strbuf_adds(&sb, "# names users, command lines and devices: think before sharing it\n");
	if (!sb.error)
		put_text(r, sb.buf, sb.len);
}

void recorder_tap(const struct engine_input *in, void *userdata)
{
	struct recorder *r = userdata;
	struct trace_item item = { .pid = in->pid, .device = EVENT_NO_DEVICE };
	struct engine_input timed;

	if (in->type == INPUT_STACK || !is_wanted(r, in->pid))
		return;
	/* Nobody has told the engine yet what time it is. */
	if (!in->now_ns) {
		timed = *in;
		timed.now_ns = clock_monotonic_ns();
		timed.real_usec = clock_real_usec();
		in = &timed;
	}
	if (!r->has_clock)
		begin(r, in);
	item.time_ns = trace_time(r, in->now_ns);
	switch (in->type) {
	case INPUT_EVENT:
	case INPUT_REBUILD_ADD:
		take_event(r, in, &item);
		break;
	case INPUT_TICK:
		take_tick(r, in);
		break;
	case INPUT_SITE:
		take_site(r, in, &item);
		break;
	case INPUT_DEVICE:
	case INPUT_DEVICES_END:
	case INPUT_DRIVER_BEGIN:
	case INPUT_DRIVER_END:
		take_common(r, in, &item);
		break;
	default:
		take_process(r, in, &item);
		break;
	}
}

void recorder_stack(struct recorder *r, struct stack *s)
{
	for (size_t i = 0; i < ENDED_MAX; i++) {
		struct recorded *p = r->ended[i];
		uint64_t number;

		if (!p || p->pid != s->pid || p->start_ns != s->start_ns)
			continue;
		number = (uintptr_t)map64_get(&p->stacks, s->key);
		if (number)
			recorder_out_stack(r->out, number, s);
	}
}

/* ---- life */

static void recorder_free(struct recorder *r)
{
	size_t iter = 0;
	void *value;

	while (map64_next(&r->processes, &iter, NULL, &value))
		recorded_free(value);
	map64_done(&r->processes);
	for (size_t i = 0; i < ENDED_MAX; i++)
		recorded_free(r->ended[i]);
	for (size_t i = 0; i < r->devices_len; i++)
		free(r->devices[i]);
	strbuf_done(&r->line);
	free(r);
}

int recorder_new(const struct recorder_options *o, struct recorder **ret)
{
	struct recorder_out_options oo = { .path = o->path, .is_private = o->identity, .objects = o->objects,
					   .max_pending_bytes = o->max_pending_bytes ?: PENDING_BYTES_DEFAULT,
					   .redact = o->redact };
	struct recorder *r = calloc(1, sizeof(*r));
	int q;

	if (!r)
		return -ENOMEM;
	r->o = *o;
	r->o.path = NULL; /* the caller's */
	q = recorder_out_new(&oo, &r->out);
	if (q < 0) {
		recorder_free(r);
		return q;
	}
	*ret = r;
	return 0;
}

static void fill_stats(struct recorder *r, const struct recorder_out_stats *out, struct recorder_stats *ret)
{
	*ret = (struct recorder_stats){ .events = r->events, .lines = r->lines, .dropped = r->dropped, .stacks = out->stacks,
					.text_bytes = out->text_bytes, .file_bytes = out->file_bytes, .error = out->error };
}

void recorder_stats(struct recorder *r, struct recorder_stats *ret)
{
	struct recorder_out_stats out;

	recorder_out_stats(r->out, &out);
	fill_stats(r, &out, ret);
}

int recorder_close(struct recorder *r, struct recorder_stats *ret)
{
	struct recorder_out_stats out;
	int q;

	if (r->dropped_now)
		tell_dropped(r, trace_time(r, MAX(r->tick_ns, r->other_ns)));
	/* So that the trace is as long as the recording was. */
	put_tick(r);
	q = recorder_out_close(r->out, &out);
	if (ret)
		fill_stats(r, &out, ret);
	recorder_free(r);
	return q;
}
