/* SPDX-License-Identifier: MIT */
#include "cmd/resync.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "trace/calls.h"
#include "base/map64.h"

/* Between a block's entry into the map and its event in the ring lie some hundred ns, or a preemption. */
#define SETTLE_NS (2 * NSEC_PER_SEC)

struct one {
	uint32_t pid, gen;
	uint64_t start_ns, until_ns;
	struct map64 births; /* by address and kind -> birth_ns as a pointer; never 0 */
};

struct resync {
	struct tracer *tracer;
	struct engine *engine;
	struct one **settling;
	size_t settling_len;
	struct one **wanted;
	size_t wanted_len;
	struct map64 by_gen; /* of the run in progress */
};

static void one_free(struct one *o)
{
	if (!o)
		return;
	map64_done(&o->births);
	free(o);
}
DEFINE_CLEANUP(struct one, one_free)

int resync_new(struct tracer *t, struct engine *e, struct resync **ret)
{
	struct resync *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->tracer = t;
	r->engine = e;
	*ret = r;
	return 0;
}

void resync_free(struct resync *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->settling_len; i++)
		one_free(r->settling[i]);
	for (size_t i = 0; i < r->wanted_len; i++)
		one_free(r->wanted[i]);
	free(r->settling);
	free(r->wanted);
	map64_done(&r->by_gen);
	free(r);
}

static int append(struct one ***list, size_t *len, struct one *o)
{
	struct one **more = realloc(*list, (*len + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	more[(*len)++] = o;
	*list = more;
	return 0;
}

int resync_want(struct resync *r, uint32_t pid, uint64_t start_ns)
{
	_cleanup_(one_freep) struct one *o = NULL;

	for (size_t i = 0; i < r->wanted_len; i++)
		if (r->wanted[i]->pid == pid && r->wanted[i]->start_ns == start_ns)
			return 0;
	o = calloc(1, sizeof(*o));
	if (!o || append(&r->wanted, &r->wanted_len, o) < 0)
		return -ENOMEM;
	o->pid = pid;
	o->start_ns = start_ns;
	TAKE_PTR(o);
	return 0;
}

/* Bit 63 is never set in a user address. */
static uint64_t block_key(uint32_t kind, uint64_t addr)
{
	return kind == ADDR_HANDLE ? addr ^ (1ull << 63) : addr;
}

/* Handles and pointers share event.addr; the class tells them apart. */
static uint64_t event_key(const struct event *ev)
{
	return block_key(ev->class == CLASS_PHYSICAL ? ADDR_HANDLE : ADDR_POINTER, ev->addr);
}

static int add_block(const struct live_key *k, const struct live_value *v, void *userdata)
{
	struct resync *r = userdata;
	struct one *o = map64_get(&r->by_gen, k->gen);
	struct event ev = {
		.type = EVENT_ALLOC,
		.class = (uint8_t)v->class,
		.stack_reason = v->stack ? STACK_OK : call_takes_stack(v->call) ? STACK_SAMPLED : STACK_NONE,
		.call = v->call,
		.tid = v->tid,
		.time_ns = v->birth_ns,
		.addr = k->addr,
		.bytes = v->bytes,
		.stack = v->stack,
		.birth_ns = v->birth_ns,
		.device = v->device,
	};
	int e;

	if (!o)
		return 0;
	ev.pid = o->pid;
	ev.start_ns = o->start_ns;
	e = map64_put(&o->births, event_key(&ev), (void *)(uintptr_t)(v->birth_ns ?: 1));
	if (e == 0)
		e = engine_rebuild_add(r->engine, &ev);
	return e;
}

static void drop_settling(struct resync *r, uint32_t pid, uint64_t start_ns)
{
	for (size_t i = 0; i < r->settling_len;) {
		struct one *o = r->settling[i];

		if (o->pid != pid || o->start_ns != start_ns) {
			i++;
			continue;
		}
		one_free(o);
		r->settling[i] = r->settling[--r->settling_len];
	}
}

int resync_run(struct resync *r, uint64_t now_ns, uint64_t real_usec)
{
	struct books b;
	int n = 0, e = 0;

	if (!r->wanted_len)
		return 0;
	for (size_t i = 0; i < r->wanted_len; i++) {
		struct one *o = r->wanted[i];

		drop_settling(r, o->pid, o->start_ns);
		map64_done(&o->births);
		o->births = (struct map64)MAP64_INIT;
		o->gen = 0;
		/* The process may have ended meanwhile: its EXIT event is on its way. */
		if (tracer_books(r->tracer, o->pid, &b) < 0 || b.start_ns != o->start_ns)
			continue;
		e = engine_rebuild_begin(r->engine, o->pid, o->start_ns);
		if (e == -ENOSPC || e == -ESRCH) { /* the engine does not keep it */
			e = 0;
			continue;
		}
		o->gen = b.gen;
		if (e == 0)
			e = map64_put(&r->by_gen, o->gen, o);
		if (e < 0)
			break;
	}
	if (e == 0)
		e = tracer_each_live(r->tracer, add_block, r);
	if (e < 0) { /* they stay "rebuilding", so nothing is judged by what is there of them, until the next run */
		map64_done(&r->by_gen);
		r->by_gen = (struct map64)MAP64_INIT;
		return e;
	}
	for (size_t i = 0; i < r->wanted_len; i++) {
		struct one *o = r->wanted[i];

		if (!o->gen)
			continue;
		if (tracer_books(r->tracer, o->pid, &b) < 0 || b.gen != o->gen)
			memset(&b, 0, sizeof(b));
		(void)engine_rebuild_end(r->engine, o->pid, o->start_ns, &b, now_ns, real_usec);
		n++;
	}
	map64_done(&r->by_gen);
	r->by_gen = (struct map64)MAP64_INIT;
	for (size_t i = 0; i < r->wanted_len; i++) {
		struct one *o = r->wanted[i];

		o->until_ns = now_ns + SETTLE_NS;
		if (!o->gen || append(&r->settling, &r->settling_len, o) < 0)
			one_free(o);
	}
	r->wanted_len = 0;
	return n;
}

void resync_forget(struct resync *r, uint32_t pid, uint64_t start_ns)
{
	drop_settling(r, pid, start_ns);
}

static struct one *find_settling(const struct resync *r, uint32_t pid, uint64_t start_ns)
{
	for (size_t i = 0; i < r->settling_len; i++)
		if (r->settling[i]->pid == pid && r->settling[i]->start_ns == start_ns)
			return r->settling[i];
	return NULL;
}

bool resync_filter(struct resync *r, const struct event *ev)
{
	struct one *o;
	uint64_t key, birth;

	if (!r->settling_len || (ev->type != EVENT_ALLOC && ev->type != EVENT_FREE))
		return true;
	if (ev->flags & (EVENT_F_UNKNOWN | EVENT_F_UNTRACKED))
		return true;
	o = find_settling(r, ev->pid, ev->start_ns);
	if (!o)
		return true;
	key = event_key(ev);
	birth = (uintptr_t)map64_get(&o->births, key);
	if (ev->type == EVENT_ALLOC) {
		if (birth == ev->birth_ns)
			return false;
		return map64_put(&o->births, key, (void *)(uintptr_t)(ev->birth_ns ?: 1)) == 0;
	}
	if (birth != ev->birth_ns)
		return false;
	(void)map64_remove(&o->births, key);
	return true;
}

void resync_tick(struct resync *r, uint64_t now_ns)
{
	for (size_t i = 0; i < r->settling_len;) {
		if (now_ns < r->settling[i]->until_ns) {
			i++;
			continue;
		}
		one_free(r->settling[i]);
		r->settling[i] = r->settling[--r->settling_len];
	}
}

bool resync_is_settling(const struct resync *r, uint32_t pid, uint64_t start_ns)
{
	return find_settling(r, pid, start_ns) != NULL;
}
