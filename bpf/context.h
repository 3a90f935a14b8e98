/* SPDX-License-Identifier: MIT */
/* Which device a call goes to: contexts, primary contexts, pools; and what a reset or a destroyed context takes along. */
#ifndef GPUXRAY_CONTEXT_H
#define GPUXRAY_CONTEXT_H

#include "object.h"
#include "pool.h"

#define CONTEXT_GREEN 1 /* object_value.ref of a green context's handle */

static __always_inline void context_set(struct books *b, struct thread_state *ts, __u64 ctx)
{
	struct object_value *o = ctx ? object_find(b, OBJECT_CTX, ctx) : NULL;

	ts->ctx = ctx;
	ts->owner = o && o->ref == CONTEXT_GREEN ? 0 : ctx;
	ts->device = o ? o->device : EVENT_NO_DEVICE;
}

static __always_inline void context_push(struct books *b, struct thread_state *ts, __u64 ctx)
{
	ts->ctx_below[ts->ctx_depth & (CTX_DEPTH - 1)] = ts->ctx;
	ts->ctx_depth++;
	context_set(b, ts, ctx);
}

static __always_inline void context_pop(struct books *b, struct thread_state *ts)
{
	if (!ts->ctx_depth) { /* pushed before the tracer came */
		context_set(b, ts, 0);
		return;
	}
	ts->ctx_depth--;
	context_set(b, ts, ts->ctx_below[ts->ctx_depth & (CTX_DEPTH - 1)]);
}

/* The device of the thread's current context; another thread may have taught us since the context was set. */
static __always_inline __s32 current_device(struct books *b, struct thread_state *ts, const struct call_desc *d)
{
	if (ts->device == EVENT_NO_DEVICE && ts->ctx)
		ts->device = object_device(b, OBJECT_CTX, ts->ctx);
	if (ts->device == EVENT_NO_DEVICE && !ts->ctx && d->flags & CALL_F_DEVICE0)
		return 0;
	return ts->device;
}

struct sweep {
	__u64 ctx; /* 0 = any context unknown to us */
	__u32 pid;
	__u32 gen;
	__u32 call;
	__s32 device; /* EVENT_NO_DEVICE: only by ctx */
	__u32 with_pools; /* stream-ordered and graph memory too */
	__u32 pad;
	__u64 before_ns; /* what was born later is of another context, that has the handle of the one that has ended */
};

/*
 * Memory made by cuMemCreate belongs to no context, stream-ordered memory to its pool, a graph's to none: they outlive the
 * context and its reset. Device, managed, pinned and registered memory and arrays go, and what was imported into the
 * context. Seen on driver 580 (tests/gpu/driver_facts.c).
 */
static __always_inline bool goes_with_context(const struct live_key *k, const struct live_value *v)
{
	if (k->kind != ADDR_POINTER && k->kind != ADDR_OBJECT)
		return false;
	return v->class != CLASS_ASYNC && v->class != CLASS_GRAPH && !(v->flags & LIVE_F_POOLED);
}

static long sweep_one(void *map, struct live_key *key, struct live_value *v, struct sweep *s)
{
	struct live_key k = *key;
	struct live_value was = *v;
	struct books *b;

	if (k.gen != s->gen || was.birth_ns > s->before_ns)
		return 0;
	if (goes_with_context(&k, &was)) {
		if (was.ctx ? was.ctx != s->ctx : (s->device == EVENT_NO_DEVICE || was.device != s->device))
			return 0;
	} else if (!s->with_pools || k.kind != ADDR_POINTER || was.device != s->device) {
		return 0;
	}
	b = bpf_map_lookup_elem(&processes, &s->pid);
	if (!b || b->gen != k.gen)
		return 1;
	if (live_remove(&k)) {
		pool_give(b, &was);
		book_free_all(b, s->pid, &k, &was, s->call, 0);
	}
	return 0;
}

/* Done on the spot, in the call that freed it, so that the books are right before the program goes on. It walks the whole
 * table (about 10 ms for a million slots): resets and destroyed contexts are rare and slow in themselves. A process that
 * makes and destroys them all the time without holding a block does not walk. */
static __always_inline void sweep_context(struct books *b, __u32 pid, __u64 ctx, __s32 device, struct call_state *cs)
{
	struct sweep s = { .ctx = ctx, .pid = pid, .gen = b->gen, .call = cs->call, .device = device,
			   .before_ns = cs->entry_ns };

	if (!b->live_count)
		return;
	bpf_for_each_map_elem(&live, sweep_one, &s, 0);
}

/* A runtime without visible contexts ends all that is on the device. */
static __always_inline void sweep_device(struct books *b, __u32 pid, __s32 device, struct call_state *cs)
{
	struct sweep s = { .pid = pid, .gen = b->gen, .call = cs->call, .device = device, .with_pools = 1,
			   .before_ns = cs->entry_ns };

	if (b->live_count)
		bpf_for_each_map_elem(&live, sweep_one, &s, 0);
}

/* A program asks once for each device, or a few times. Of one that asks for ever so many are told at once, then one in each
 * UUID_NS. */
#define UUID_NS 1000000
#define UUIDS_BURST 1024

static __always_inline void uuid_return(struct books *b, __u32 pid, struct call_state *cs)
{
	struct uuid_key key = { .gen = b->gen, .ordinal = (__s32)cs->arg[1] };
	struct uuid_value v = { .call = cs->call };
	struct event_uuid *ev;

	if (bpf_probe_read_user(v.uuid, sizeof(v.uuid), (void *)cs->arg[0])) {
		count(COUNTER_FAULT);
		return;
	}
	if (bpf_map_update_elem(&uuids, &key, &v, BPF_EXIST) && may_have_object(b) &&
	    bpf_map_update_elem(&uuids, &key, &v, BPF_NOEXIST))
		__sync_fetch_and_add(&b->object_count, -1);
	if (!may_pay(&b->uuids_paid_ns, bpf_ktime_get_ns(), UUID_NS, UUIDS_BURST)) {
		count(COUNTER_UUID_SKIPPED);
		return;
	}
	ev = bpf_ringbuf_reserve(&ring, sizeof(*ev), 0);
	if (!ev) {
		lost(b);
		return;
	}
	__builtin_memset(ev, 0, sizeof(*ev));
	ev->head.type = EVENT_UUID;
	ev->head.call = cs->call;
	ev->head.pid = pid;
	ev->head.tid = current_tid();
	ev->head.start_ns = b->start_ns;
	ev->head.time_ns = bpf_ktime_get_ns();
	ev->head.device = (__s32)cs->arg[1];
	__builtin_memcpy(ev->uuid, v.uuid, sizeof(ev->uuid));
	bpf_ringbuf_submit(ev, BPF_RB_NO_WAKEUP);
}

/* References of a process that was there before us are not known: never the last one. */
#define REFS_UNKNOWN (1ull << 32)

static __always_inline void context_learn(struct books *b, __u64 ctx, __s32 device)
{
	struct object_value *o = object_find(b, OBJECT_CTX, ctx);

	if (!o)
		object_set(b, OBJECT_CTX, ctx, device, 0);
	else
		o->device = device;
}

static __always_inline void context_end(struct books *b, __u32 pid, struct thread_state *ts, struct call_state *cs)
{
	struct object_value *o = object_find(b, OBJECT_CTX, cs->arg[0]);

	sweep_context(b, pid, cs->arg[0], EVENT_NO_DEVICE, cs);
	if (ts->ctx == cs->arg[0])
		context_pop(b, ts);
	if (o && o->born_ns <= cs->entry_ns)
		object_remove(b, OBJECT_CTX, cs->arg[0]);
}

/* Device ordinals begin at 0, handles do not. */
static __always_inline __u64 primary_name(__u64 device)
{
	return (__u64)(__u32)device + 1;
}

/* Attaching to a primary context, and detaching, changes nothing. */
static __always_inline void context_keep(struct books *b, __u64 ctx)
{
	struct object_value *o = object_find(b, OBJECT_CTX, ctx);

	if (o)
		o->refs = REFS_UNKNOWN;
}

static __always_inline void primary_retain(struct books *b, struct call_state *cs)
{
	__u64 ctx = read_word(cs->arg[0]);
	__s32 device = (__s32)cs->arg[1];
	struct object_key key = { .gen = b->gen, .kind = OBJECT_PRIMARY, .handle = primary_name(device) };
	struct object_value v = { .device = device, .ref = ctx, .refs = b->start_ns < since_ns ? REFS_UNKNOWN : 0 }, *o;

	context_learn(b, ctx, device);
	context_keep(b, ctx);
	/* Two threads may be the first together: what counts is added by each. */
	o = object_add(b, &key, &v);
	if (!o)
		return;
	o->ref = ctx;
	__sync_fetch_and_add(&o->refs, 1);
}

static __always_inline void primary_end(struct books *b, __u32 pid, struct call_state *cs, bool is_release)
{
	__s32 device = (__s32)cs->arg[0];
	struct object_value *o = object_find(b, OBJECT_PRIMARY, primary_name(device));
	__u64 ctx = o ? o->ref : 0;

	if (is_release) {
		if (!o || __sync_fetch_and_add(&o->refs, -1) > 1)
			return;
		object_remove(b, OBJECT_PRIMARY, primary_name(device));
	}
	sweep_context(b, pid, ctx, device, cs);
}

/* Successful calls that say something about contexts and devices. */
static __noinline int context_return(struct books *b, __u32 pid, struct thread_state *ts, struct call_state *cs,
					   const struct call_desc *d)
{
	__u64 handle = cs->arg[0];
	struct object_value *o;
	__s32 device = EVENT_NO_DEVICE;

	switch (d->op) {
	case CALL_CTX_CREATE:
		handle = read_word(handle);
		object_set(b, OBJECT_CTX, handle, (__s32)cs->arg[d->device_arg & (ARG_MAX - 1)], 0);
		context_push(b, ts, handle);
		break;
	case CALL_CTX_DESTROY:
		context_end(b, pid, ts, cs);
		break;
	case CALL_CTX_ATTACH:
		o = object_find(b, OBJECT_CTX, read_word(handle));
		if (o)
			__sync_fetch_and_add(&o->refs, 1);
		break;
	case CALL_CTX_DETACH:
		o = object_find(b, OBJECT_CTX, handle);
		if (o && __sync_fetch_and_add(&o->refs, -1) == 1)
			context_end(b, pid, ts, cs);
		break;
	case CALL_CTX_GET:
		handle = read_word(handle);
		if (handle && handle != ts->ctx)
			context_set(b, ts, handle);
		break;
	case CALL_CTX_DEVICE:
	case CALL_CTX_DEVICE_OF:
		if (bpf_probe_read_user(&device, sizeof(device), (void *)handle)) {
			count(COUNTER_FAULT);
			break;
		}
		if (d->op == CALL_CTX_DEVICE_OF && cs->arg[1] && cs->arg[1] != ts->ctx) {
			context_learn(b, cs->arg[1], device);
			break;
		}
		if (ts->ctx && current_device(b, ts, d) == EVENT_NO_DEVICE)
			context_learn(b, ts->ctx, device);
		ts->device = device;
		break;
	case CALL_PRIMARY_RETAIN:
		primary_retain(b, cs);
		break;
	case CALL_PRIMARY_RELEASE:
	case CALL_PRIMARY_RESET:
		primary_end(b, pid, cs, d->op == CALL_PRIMARY_RELEASE);
		break;
	case CALL_GREEN_CREATE:
		object_set(b, OBJECT_GREEN, read_word(handle), (__s32)cs->arg[2], 0);
		break;
	case CALL_GREEN_CTX:
		object_set(b, OBJECT_CTX, read_word(handle), object_device(b, OBJECT_GREEN, cs->arg[1]), CONTEXT_GREEN);
		break;
	case CALL_DEVICE_UUID:
		uuid_return(b, pid, cs);
		break;
	case CALL_DEVICE_SET:
		ts->device = (__s32)handle;
		ts->ctx = ts->owner = 0;
		break;
	case CALL_DEVICE_RESET:
		sweep_device(b, pid, current_device(b, ts, d), cs);
		break;
	case CALL_CTX_SET: /* none at all: the one below it, as the driver does; HIP changes nothing then */
		if (handle)
			context_set(b, ts, handle);
		else if (!(d->flags & CALL_F_DEVICE0))
			context_pop(b, ts);
		break;
	case CALL_CTX_PUSH:
		context_push(b, ts, handle);
		break;
	case CALL_CTX_POP:
		context_pop(b, ts);
		break;
	}
	return 0;
}

/* Run by the daemon: clears what dead processes left in the maps. */
static long sweep_dead_live(void *map, struct live_key *key, struct live_value *v, void *unused)
{
	struct live_key k = *key;

	if (bpf_map_lookup_elem(&dead, &k.gen))
		live_remove(&k);
	return 0;
}

static long sweep_dead_object(void *map, struct object_key *key, struct object_value *v, void *unused)
{
	struct object_key k = *key;

	if (bpf_map_lookup_elem(&dead, &k.gen))
		bpf_map_delete_elem(&objects, &k);
	return 0;
}

static long sweep_dead_uuid(void *map, struct uuid_key *key, struct uuid_value *v, void *unused)
{
	struct uuid_key k = *key;

	if (bpf_map_lookup_elem(&dead, &k.gen))
		bpf_map_delete_elem(&uuids, &k);
	return 0;
}

static long sweep_dead_mapping(void *map, struct mapping_key *key, struct mapping_value *v, void *unused)
{
	struct mapping_key k = *key;

	if (bpf_map_lookup_elem(&dead, &k.gen))
		bpf_map_delete_elem(&mappings, &k);
	return 0;
}


static long sweep_dead_capture(void *map, struct capture_key *key, struct capture_value *v, void *unused)
{
	struct capture_key k = *key;

	if (bpf_map_lookup_elem(&dead, &k.gen))
		bpf_map_delete_elem(&captures, &k);
	return 0;
}

static long sweep_dead_graph(void *map, struct graph_key *key, struct graph_block *g, void *unused)
{
	struct graph_key k = *key;

	if (bpf_map_lookup_elem(&dead, &k.gen))
		bpf_map_delete_elem(&graph_blocks, &k);
	return 0;
}

SEC("syscall")
int sweep_dead(struct sweep_args *args)
{
	if (args->has_live)
		bpf_for_each_map_elem(&live, sweep_dead_live, NULL, 0);
	bpf_for_each_map_elem(&mappings, sweep_dead_mapping, NULL, 0);
	bpf_for_each_map_elem(&objects, sweep_dead_object, NULL, 0);
	bpf_for_each_map_elem(&uuids, sweep_dead_uuid, NULL, 0);
	bpf_for_each_map_elem(&captures, sweep_dead_capture, NULL, 0);
	bpf_for_each_map_elem(&graph_blocks, sweep_dead_graph, NULL, 0);
	return 0;
}

/* The daemon must not write books itself: it would overwrite counts that change meanwhile. Returns 1 when the total is
 * already past a new bound: the change that did it is in the ring, not marked. */
SEC("syscall")
int arm_process(struct arm_args *args)
{
	__u32 pid = args->pid;
	struct books *b = bpf_map_lookup_elem(&processes, &pid);
	__u64 high = args->high, low = args->low;

	if (!b || b->start_ns != args->start_ns)
		return 0;
	b->bound_high = high;
	b->bound_low = low;
	b->bound_single = args->single;
	return b->device_bytes > high || b->device_bytes < low;
}

#endif
