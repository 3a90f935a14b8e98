/* SPDX-License-Identifier: MIT */
/* Which device a call goes to: contexts, primary contexts, pools; and what a reset or a destroyed context takes along. */
#ifndef GPUXRAY_CONTEXT_H
#define GPUXRAY_CONTEXT_H

#include "books.h"

static __always_inline __s32 object_device(struct books *b, __u64 handle, __u32 is_pool)
{
	struct object_key key = { .gen = b->gen, .is_pool = is_pool, .handle = handle };
	struct object_value *o = bpf_map_lookup_elem(&objects, &key);

	return o ? o->device : EVENT_NO_DEVICE;
}

static __always_inline void object_learn(struct books *b, __u64 handle, __u32 is_pool, __s32 device, __u32 is_primary)
{
	struct object_key key = { .gen = b->gen, .is_pool = is_pool, .handle = handle };
	struct object_value o = { .device = device, .is_primary = is_primary };

	if (handle && bpf_map_update_elem(&objects, &key, &o, BPF_ANY))
		count(COUNTER_MAP_FULL);
}

static __always_inline void context_set(struct books *b, struct thread_state *ts, __u64 ctx)
{
	ts->ctx = ctx;
	ts->device = ctx ? object_device(b, ctx, 0) : EVENT_NO_DEVICE;
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
static __always_inline __s32 current_device(struct books *b, struct thread_state *ts)
{
	if (ts->device == EVENT_NO_DEVICE && ts->ctx)
		ts->device = object_device(b, ts->ctx, 0);
	return ts->device;
}

static __always_inline __s32 pool_device(struct books *b, __u64 pool, __s32 otherwise)
{
	__s32 device = object_device(b, pool, 1);

	return device == EVENT_NO_DEVICE ? otherwise : device;
}

struct sweep {
	__u64 ctx; /* 0 = any context unknown to us */
	__u32 pid;
	__u32 gen;
	__u32 call;
	__s32 device; /* EVENT_NO_DEVICE: only by ctx */
};

/*
 * Memory made by cuMemCreate belongs to no context, stream-ordered memory to its pool: both outlive the context and its
 * reset. Device, managed, pinned and registered memory goes. Seen on driver 580 (tests/gpu/driver_facts.c).
 */
static long sweep_one(void *map, struct live_key *key, struct live_value *v, struct sweep *s)
{
	struct live_key k = *key;
	struct live_value was = *v;
	struct books *b;

	if (k.gen != s->gen || k.kind != ADDR_POINTER || was.class == CLASS_ASYNC)
		return 0;
	if (was.ctx ? was.ctx != s->ctx : (s->device == EVENT_NO_DEVICE || was.device != s->device))
		return 0;
	b = bpf_map_lookup_elem(&processes, &s->pid);
	if (!b || b->gen != k.gen)
		return 1;
	if (bpf_map_delete_elem(&live, &k) == 0)
		book_free(b, s->pid, k.addr, &was, s->call, 0);
	return 0;
}

/* Done on the spot, in the call that freed it, so that the books are right before the program goes on. It walks the whole
 * table (about 10 ms for a million slots): resets and destroyed contexts are rare and slow in themselves. */
static __always_inline void sweep_context(struct books *b, __u32 pid, __u64 ctx, __s32 device, __u32 call)
{
	struct sweep s = { .ctx = ctx, .pid = pid, .gen = b->gen, .call = call, .device = device };

	bpf_for_each_map_elem(&live, sweep_one, &s, 0);
}

struct find_primary {
	__u64 ctx;
	__u32 gen;
	__s32 device;
};

static long find_primary_one(void *map, struct object_key *key, struct object_value *o, struct find_primary *f)
{
	if (key->gen != f->gen || key->is_pool || !o->is_primary || o->device != f->device)
		return 0;
	f->ctx = key->handle;
	return 1;
}

static __always_inline void uuid_return(struct books *b, __u32 pid, struct thread_state *ts)
{
	struct event_uuid *ev = bpf_ringbuf_reserve(&ring, sizeof(*ev), 0);

	if (!ev) {
		lost(b);
		return;
	}
	__builtin_memset(ev, 0, sizeof(*ev));
	ev->head.type = EVENT_UUID;
	ev->head.pid = pid;
	ev->head.tid = (__u32)bpf_get_current_pid_tgid();
	ev->head.start_ns = b->start_ns;
	ev->head.time_ns = bpf_ktime_get_ns();
	ev->head.device = (__s32)ts->arg[1];
	if (bpf_probe_read_user(ev->uuid, sizeof(ev->uuid), (void *)ts->arg[0])) {
		count(COUNTER_FAULT);
		bpf_ringbuf_discard(ev, BPF_RB_NO_WAKEUP);
		return;
	}
	bpf_ringbuf_submit(ev, BPF_RB_NO_WAKEUP);
}

static __always_inline __u64 read_out(struct thread_state *ts)
{
	__u64 value = 0;

	if (bpf_probe_read_user(&value, sizeof(value), (void *)ts->arg[0]))
		count(COUNTER_FAULT);
	return value;
}

/* Successful calls that say something about contexts and devices. */
static __always_inline void context_return(struct books *b, __u32 pid, struct thread_state *ts,
					   const struct call_desc *d)
{
	__u64 handle;
	__s32 device = EVENT_NO_DEVICE;

	switch (d->op) {
	case CALL_CTX_CREATE:
		handle = read_out(ts);
		object_learn(b, handle, 0, (__s32)ts->arg[d->addr_arg & 7], 0);
		context_push(b, ts, handle);
		break;
	case CALL_CTX_DESTROY:
		sweep_context(b, pid, ts->arg[0], EVENT_NO_DEVICE, ts->call);
		if (ts->ctx == ts->arg[0])
			context_pop(b, ts);
		break;
	case CALL_CTX_GET:
		handle = read_out(ts);
		if (handle && handle != ts->ctx)
			context_set(b, ts, handle);
		break;
	case CALL_CTX_DEVICE:
	case CALL_CTX_DEVICE_OF:
		if (bpf_probe_read_user(&device, sizeof(device), (void *)ts->arg[0])) {
			count(COUNTER_FAULT);
			break;
		}
		if (d->op == CALL_CTX_DEVICE_OF && ts->arg[1] && ts->arg[1] != ts->ctx) {
			object_learn(b, ts->arg[1], 0, device, 0);
			break;
		}
		if (ts->ctx && current_device(b, ts) == EVENT_NO_DEVICE)
			object_learn(b, ts->ctx, 0, device, 0);
		ts->device = device;
		break;
	case CALL_PRIMARY_RETAIN:
		object_learn(b, read_out(ts), 0, (__s32)ts->arg[1], 1);
		break;
	case CALL_PRIMARY_RESET: {
		struct find_primary f = { .gen = b->gen, .device = (__s32)ts->arg[0] };

		bpf_for_each_map_elem(&objects, find_primary_one, &f, 0);
		sweep_context(b, pid, f.ctx, f.device, ts->call);
		break;
	}
	case CALL_DEVICE_UUID:
		uuid_return(b, pid, ts);
		break;
	case CALL_HANDLE_RETAIN: {
		struct live_key key = { .gen = b->gen, .kind = ADDR_HANDLE, .addr = read_out(ts) };
		struct live_value *v = bpf_map_lookup_elem(&live, &key);

		if (v)
			__sync_fetch_and_add(&v->refs, 1);
		break;
	}
	case CALL_POOL_CREATE:
		object_learn(b, read_out(ts), 1, ts->asked_device, 0);
		break;
	case CALL_POOL_GET:
		object_learn(b, read_out(ts), 1, (__s32)ts->arg[1], 0);
		break;
	case CALL_CTX_SET:
		context_set(b, ts, ts->arg[0]);
		break;
	case CALL_CTX_PUSH:
		context_push(b, ts, ts->arg[0]);
		break;
	case CALL_CTX_POP:
		context_pop(b, ts);
		break;
	}
}

/* Run by the daemon: clears what dead processes left in the maps. */
static long sweep_dead_live(void *map, struct live_key *key, struct live_value *v, void *unused)
{
	struct live_key k = *key;

	if (bpf_map_lookup_elem(&dead, &k.gen))
		bpf_map_delete_elem(&live, &k);
	return 0;
}

static long sweep_dead_object(void *map, struct object_key *key, struct object_value *v, void *unused)
{
	struct object_key k = *key;

	if (bpf_map_lookup_elem(&dead, &k.gen))
		bpf_map_delete_elem(&objects, &k);
	return 0;
}

static long sweep_dead_mapping(void *map, struct mapping_key *key, struct mapping_value *v, void *unused)
{
	struct mapping_key k = *key;

	if (bpf_map_lookup_elem(&dead, &k.gen))
		bpf_map_delete_elem(&mappings, &k);
	return 0;
}


SEC("syscall")
int sweep_dead(struct sweep_args *args)
{
	if (args->has_live)
		bpf_for_each_map_elem(&live, sweep_dead_live, NULL, 0);
	bpf_for_each_map_elem(&mappings, sweep_dead_mapping, NULL, 0);
	bpf_for_each_map_elem(&objects, sweep_dead_object, NULL, 0);
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
