/* SPDX-License-Identifier: MIT */
#include "cmd/resync.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/map64.h"
#include "trace/calls.h"

/* Between a block's entry into the map and its event in the ring lie some hundred ns, or a preemption. */
#define SETTLE_NS (2 * NSEC_PER_SEC)
/* A run over a full table takes most of a second: after each one so many times as long until the next, lest who makes the
 * ring overflow for ever keeps us at it for ever. */
#define REST_TIMES 4

struct one {
	uint32_t pid, gen;
	uint64_t start_ns, until_ns;
	struct map64 blocks; /* that both sides have, by block_name() */
};

struct resync {
	struct tracer *tracer;
	struct engine *engine;
	struct map64 wanted, settling; /* struct one by pid: of an older bearer of the pid there is nothing to rebuild */
	struct map64 by_gen; /* of the run in progress */
	uint64_t rest_until_ns;
};

static void one_free(struct one *o)
{
	if (!o)
		return;
	map64_done(&o->blocks);
	free(o);
}

static void ones_free(struct map64 *ones)
{
	size_t iter = 0;
	void *value;

	while (map64_next(ones, &iter, NULL, &value))
		one_free(value);
	map64_done(ones);
}

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
	ones_free(&r->settling);
	ones_free(&r->wanted);
	map64_done(&r->by_gen);
	free(r);
}

int resync_want(struct resync *r, uint32_t pid, uint64_t start_ns)
{
	struct one *o = map64_get(&r->wanted, pid);

	if (!o) {
		o = calloc(1, sizeof(*o));
		if (!o || map64_put(&r->wanted, pid, o) < 0) {
			free(o);
			return -ENOMEM;
		}
	}
	o->pid = pid;
	o->start_ns = start_ns;
	return 0;
}

/*
 * A number for a block: not its address alone, which is another's before and after. The news of those may lie in the ring
 * yet, and with two threads even behind the news of this one. Addresses of different kinds may coincide; the topmost bits
 * are never set in a user address.
 */
static uint64_t block_name(const struct event *ev)
{
	return ev->addr ^ (uint64_t)ev->kind << 61 ^ hash64(ev->birth_ns);
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
		.kind = (uint8_t)k->kind,
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
	e = map64_put(&o->blocks, block_name(&ev), o);
	/* Imported memory that is open several times is several blocks with one entry. */
	for (uint32_t i = 0; e == 0 && i < (v->class == CLASS_IMPORTED && k->kind == ADDR_POINTER ? v->refs : 1); i++)
		e = engine_rebuild_add(r->engine, &ev);
	return e;
}

static struct one *find_settling(const struct resync *r, uint32_t pid, uint64_t start_ns)
{
	struct one *o = map64_get(&r->settling, pid);

	return o && o->start_ns == start_ns ? o : NULL;
}

static void drop_settling(struct resync *r, uint32_t pid, uint64_t start_ns)
{
	if (find_settling(r, pid, start_ns))
		one_free(map64_remove(&r->settling, pid));
}

/* Forgets the blocks of a wanted process in the engine; its gen stays 0 where there is nothing to rebuild. */
static int begin_one(struct resync *r, struct one *o)
{
	struct books b;
	int e;

	drop_settling(r, o->pid, o->start_ns);
	map64_done(&o->blocks);
	o->gen = 0;
	/* The process may have ended meanwhile: its EXIT event is on its way. */
	if (tracer_books(r->tracer, o->pid, &b) < 0 || b.start_ns != o->start_ns)
		return 0;
	e = engine_rebuild_begin(r->engine, o->pid, o->start_ns);
	if (e == -ENOSPC || e == -ESRCH) /* the engine does not keep it */
		return 0;
	o->gen = b.gen;
	return e < 0 ? e : map64_put(&r->by_gen, o->gen, o);
}

static void end_one(struct resync *r, const struct one *o, uint64_t now_ns, uint64_t real_usec)
{
	struct books b;

	if (tracer_books(r->tracer, o->pid, &b) < 0 || b.gen != o->gen)
		memset(&b, 0, sizeof(b));
	(void)engine_rebuild_end(r->engine, o->pid, o->start_ns, &b, now_ns, real_usec);
}

/* In place of what an older bearer of the pid may have left there. */
static void settle(struct resync *r, struct one *o, uint64_t now_ns)
{
	struct one *old = map64_get(&r->settling, o->pid);

	o->until_ns = now_ns + SETTLE_NS;
	if (!o->gen || map64_put(&r->settling, o->pid, o) < 0)
		one_free(o);
	else
		one_free(old);
}

static int run(struct resync *r, uint64_t now_ns, uint64_t real_usec)
{
	size_t iter = 0;
	int n = 0, e = 0;
	void *value;

	while (e == 0 && map64_next(&r->wanted, &iter, NULL, &value))
		e = begin_one(r, value);
	if (e == 0)
		e = tracer_each_live(r->tracer, add_block, r);
	map64_done(&r->by_gen);
	if (e < 0) /* they stay "rebuilding", so nothing is judged by what is there of them, until the next run */
		return e;
	for (iter = 0; map64_next(&r->wanted, &iter, NULL, &value);) {
		struct one *o = value;

		if (o->gen) {
			end_one(r, o, now_ns, real_usec);
			n++;
		}
		settle(r, o, now_ns);
	}
	map64_done(&r->wanted);
	return n;
}

int resync_run(struct resync *r, uint64_t now_ns, uint64_t real_usec)
{
	uint64_t start_ns;
	int n;

	if (!r->wanted.len || clock_monotonic_ns() < r->rest_until_ns)
		return 0;
	/* Of this thread: where others have the processor too, it is not for the rebuild to wait longer. */
	start_ns = clock_thread_ns();
	n = run(r, now_ns, real_usec);
	r->rest_until_ns = clock_monotonic_ns() + REST_TIMES * (clock_thread_ns() - start_ns);
	return n;
}

void resync_forget(struct resync *r, uint32_t pid, uint64_t start_ns)
{
	drop_settling(r, pid, start_ns);
}

bool resync_filter(struct resync *r, const struct event *ev)
{
	struct one *o;
	uint64_t name;

	if (!r->settling.len || (ev->type != EVENT_ALLOC && ev->type != EVENT_FREE))
		return true;
	if (ev->flags & (EVENT_F_UNKNOWN | EVENT_F_UNTRACKED))
		return true;
	o = find_settling(r, ev->pid, ev->start_ns);
	if (!o)
		return true;
	name = block_name(ev);
	if (ev->type == EVENT_FREE)
		return map64_remove(&o->blocks, name) != NULL;
	return !map64_get(&o->blocks, name) && map64_put(&o->blocks, name, o) == 0;
}

void resync_tick(struct resync *r, uint64_t now_ns)
{
	_cleanup_free_ uint64_t *pids = r->settling.len ? calloc(r->settling.len, sizeof(*pids)) : NULL;
	size_t iter = 0, n = 0;
	uint64_t pid;
	void *value;

	/* Without memory at the next tick. */
	while (pids && map64_next(&r->settling, &iter, &pid, &value))
		if (now_ns >= ((struct one *)value)->until_ns)
			pids[n++] = pid;
	for (size_t i = 0; i < n; i++)
		one_free(map64_remove(&r->settling, pids[i]));
}

bool resync_is_settling(const struct resync *r, uint32_t pid, uint64_t start_ns)
{
	return find_settling(r, pid, start_ns) != NULL;
}
