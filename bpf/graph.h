/* SPDX-License-Identifier: MIT */
/*
 * Memory of graphs. What is allocated while a stream is captured, or by a node, is an address only; it is memory from the
 * launch on, and its own free alone gives it back: one within the same graph (then nobody outside sees it), one in another
 * graph, or an ordinary one. Seen on driver 580 (tests/gpu/memory_facts.c).
 */
#ifndef GPUXRAY_GRAPH_H
#define GPUXRAY_GRAPH_H

#include "object.h"

/* Other streams join a capture through events, which are not probed: a program may wait for thousands a second. What is
 * allocated on them is told by its address: graphs have a range of their own. */
#define GRAPH_NEAR (1ull << 30)

#define STREAM_LEGACY 1 /* that of all threads: never captured */
#define STREAM_PER_THREAD 2

/* Some handles are only names: of a thread's own stream, which has two. */
static __always_inline __u64 stream_name(__u64 stream, const struct call_desc *d)
{
	if (stream > STREAM_PER_THREAD)
		return stream;
	if (stream == STREAM_PER_THREAD || (!stream && d->flags & CALL_F_PTSZ))
		return (__u64)current_tid() << 32 | 4;
	return STREAM_LEGACY;
}

static __always_inline struct capture_value *capture_find(struct books *b, __u64 id)
{
	struct capture_key key = { .gen = b->gen, .id = id };

	return id ? bpf_map_lookup_elem(&captures, &key) : NULL;
}

/* The capture that a stream is in, 0 = none. */
static __always_inline __u64 capture_of(struct books *b, __u64 stream, const struct call_desc *d)
{
	struct object_value *o = b->captures ? object_find(b, OBJECT_STREAM, stream_name(stream, d)) : NULL;

	return o ? o->ref : 0;
}

/* The capture that a stream of this thread is in, if it has joined one: the thread's own, else the last one begun. */
static __always_inline __u64 capture_guess(struct books *b, struct thread_state *ts)
{
	return !b->captures ? 0 : ts->capture ? ts->capture : b->capture;
}

/* A new capture with one reference; 0 when there is no room. */
static __always_inline __u64 capture_new(struct books *b)
{
	struct capture_key key = { .gen = b->gen, .id = __sync_fetch_and_add(&next_capture, 1) };
	struct capture_value v = { .refs = 1 };

	if (!may_have_object(b))
		return 0;
	if (bpf_map_update_elem(&captures, &key, &v, BPF_NOEXIST)) {
		__sync_fetch_and_add(&b->object_count, -1);
		count(COUNTER_MAP_FULL);
		return 0;
	}
	return key.id;
}

struct capture_walk {
	struct books *b;
	__u64 id;
	__u64 addr; /* sought */
	__u32 count;
	__u32 is_found;
	__u32 is_newest;
	__u32 pad;
};

static long drop_entry(__u64 index, struct capture_walk *w)
{
	struct graph_key key = { .gen = w->b->gen, .index = index, .capture = w->id };

	if (!bpf_map_delete_elem(&graph_blocks, &key))
		__sync_fetch_and_add(&w->b->object_count, -1);
	return 0;
}

/* One reference less; with the last one its entries go. */
static __noinline int capture_unref(struct books *b, __u64 id)
{
	struct capture_walk w = { .b = b, .id = id };
	struct capture_key key = { .id = id };
	struct capture_value *c;

	if (!b)
		return 0;
	key.gen = b->gen;
	c = capture_find(b, id);
	if (!c || __sync_fetch_and_add(&c->refs, -1) > 1)
		return 0;
	bpf_loop(c->count, drop_entry, &w, 0);
	if (!bpf_map_delete_elem(&captures, &key))
		__sync_fetch_and_add(&b->object_count, -1);
	return 0;
}

/* The handle is a graph, or an executable, with what this capture allocates. */
static __always_inline void graph_learn(struct books *b, __u64 handle, __u64 id)
{
	struct capture_value *c = capture_find(b, id);
	struct object_value *o;

	if (!c || !handle)
		return;
	o = object_find(b, OBJECT_GRAPH, handle);
	if (o && o->ref == id)
		return;
	if (o) /* its destruction was not seen */
		capture_unref(b, o->ref);
	object_set(b, OBJECT_GRAPH, handle, EVENT_NO_DEVICE, id);
	o = object_find(b, OBJECT_GRAPH, handle);
	if (o && o->ref == id)
		__sync_fetch_and_add(&c->refs, 1);
}

static __always_inline __u64 graph_capture(struct books *b, __u64 handle)
{
	struct object_value *o = object_find(b, OBJECT_GRAPH, handle);

	return o ? o->ref : 0;
}

/* ... made when its first node that holds memory comes. */
static __always_inline __u64 graph_capture_get(struct books *b, __u64 handle)
{
	__u64 id = graph_capture(b, handle);

	if (id)
		return id;
	id = capture_new(b);
	graph_learn(b, handle, id);
	capture_unref(b, id);
	return id;
}

static __always_inline void capture_add(struct books *b, __u64 id, const struct graph_block *g)
{
	struct capture_value *c = capture_find(b, id);
	struct graph_key key = { .gen = b->gen, .capture = id };

	if (!c || !may_have_object(b))
		return;
	/* Another thread on a stream that has joined may be about to take the same place. */
	for (int i = 0; i < 4; i++) {
		key.index = c->count + i;
		if (bpf_map_update_elem(&graph_blocks, &key, g, BPF_NOEXIST))
			continue;
		__sync_fetch_and_add(&c->count, 1);
		__sync_fetch_and_add(&c->kept, 1);
		return;
	}
	__sync_fetch_and_add(&b->object_count, -1);
	count(COUNTER_MAP_FULL);
}

static __always_inline void graph_see(struct books *b, __u64 addr, __u64 bytes)
{
	if (!b->graph_low || addr < b->graph_low)
		b->graph_low = addr;
	if (addr + bytes > b->graph_high)
		b->graph_high = addr + bytes;
}

static __always_inline bool is_near_graphs(struct books *b, __u64 addr)
{
	return b->graph_low && addr + GRAPH_NEAR >= b->graph_low && addr < b->graph_high + GRAPH_NEAR;
}

/* An allocation that a graph will make. */
static __always_inline void graph_alloc(struct books *b, struct call_state *cs, __u64 id, __u64 addr, __u64 bytes,
					__s32 device, __u32 tid)
{
	struct graph_block g = { .addr = addr, .bytes = bytes, .stack = cs->stack, .device = device, .tid = tid,
				 .call = cs->call, .state = GRAPH_KEPT, .stack_reason = cs->stack_reason };

	graph_see(b, addr, bytes);
	capture_add(b, id, &g);
}

/* From the newest on: an address may come twice. */
static long find_entry(__u64 index, struct capture_walk *w)
{
	struct graph_key key = { .gen = w->b->gen, .index = w->count - 1 - index, .capture = w->id };
	struct graph_block *g = bpf_map_lookup_elem(&graph_blocks, &key);

	if (!g || g->addr != w->addr || g->state != GRAPH_KEPT)
		return 0;
	g->state = GRAPH_FREED;
	w->is_found = 1;
	/* The newest goes altogether, so that a launch need not look at what is allocated and freed in turns. */
	if (!index && !bpf_map_delete_elem(&graph_blocks, &key)) {
		__sync_fetch_and_add(&w->b->object_count, -1);
		w->is_newest = 1;
	}
	return 1;
}

/* A free within a graph, of its own block; false: it has none at this address. */
static __noinline bool graph_free_own(struct books *b, __u64 id, __u64 addr)
{
	struct capture_walk w = { .b = b, .id = id, .addr = addr };
	struct capture_value *c;

	if (!b)
		return false;
	c = capture_find(b, id);
	if (!c)
		return false;
	w.count = c->count;
	bpf_loop(w.count, find_entry, &w, 0);
	if (w.is_found)
		__sync_fetch_and_add(&c->kept, -1);
	if (w.is_newest)
		__sync_fetch_and_add(&c->count, -1);
	return w.is_found;
}

static __always_inline void graph_free(struct books *b, struct call_state *cs, __u64 id, __u64 addr)
{
	struct graph_block g = { .addr = addr, .device = EVENT_NO_DEVICE, .call = cs->call, .state = GRAPH_FREES };

	if (!graph_free_own(b, id, addr))
		capture_add(b, id, &g);
}

struct launch {
	__u64 id;
	__u32 gen, pid, call, pad;
};

static long launch_one(__u64 index, struct launch *l)
{
	struct graph_key gk = { .gen = l->gen, .index = index, .capture = l->id };
	struct live_key key = { .gen = l->gen, .kind = ADDR_POINTER };
	struct graph_block *g = bpf_map_lookup_elem(&graph_blocks, &gk);
	struct live_value *old, was = {};
	__u32 pid = l->pid;
	struct books *b;

	if (!g || g->state == GRAPH_FREED)
		return 0;
	b = bpf_map_lookup_elem(&processes, &pid);
	if (!b || b->gen != gk.gen)
		return 1;
	key.addr = g->addr;
	old = bpf_map_lookup_elem(&live, &key);
	/* Freed by the graph; or live still, and the graph frees at each launch what the one before has left. */
	if (old) {
		was = *old;
		if (live_remove(&key)) {
			pool_give(b, &was);
			book_free(b, pid, &key, &was, l->call, 0);
		}
	}
	if (g->state == GRAPH_FREES)
		return 0;
	was.flags = 0;
	was.ctx = 0;
	was.bytes = g->bytes;
	was.stack = g->stack;
	was.device = g->device;
	was.tid = g->tid;
	was.class = CLASS_GRAPH;
	was.call = g->call;
	was.refs = 1;
	book_alloc(b, pid, &key, &was, g->stack_reason, false);
	return 0;
}

/* At the call and not when the device gets there: the same order, some microseconds early. */
static __noinline int graph_launch(struct books *b, __u32 pid, __u64 exec, __u32 call)
{
	struct launch l = { .pid = pid, .call = call };
	struct capture_value *c;

	if (!b)
		return 0;
	l.gen = b->gen;
	l.id = graph_capture(b, exec);
	c = capture_find(b, l.id);
	if (c && c->kept)
		bpf_loop(c->count, launch_one, &l, 0);
	return 0;
}

/* At its entry: once the driver has it back, another graph may have its handle. */
static __always_inline void graph_destroy(struct books *b, __u64 handle)
{
	__u64 id = graph_capture(b, handle);

	if (!id)
		return;
	object_remove(b, OBJECT_GRAPH, handle);
	capture_unref(b, id);
}

static __always_inline void capture_begin(struct books *b, struct call_state *cs, const struct call_desc *d)
{
	__u64 stream = stream_name(cs->arg[0], d), before = capture_of(b, cs->arg[0], d);
	__u64 id = d->op == CALL_CAPTURE_INTO ? graph_capture(b, cs->arg[1]) : 0;
	struct capture_value *c = capture_find(b, id);
	struct object_value *o;

	if (c)
		__sync_fetch_and_add(&c->refs, 1);
	else
		id = capture_new(b);
	if (!id)
		return;
	if (before) { /* its end was not seen */
		capture_unref(b, before);
		__sync_fetch_and_add(&b->captures, -1);
	}
	object_set(b, OBJECT_STREAM, stream, EVENT_NO_DEVICE, id);
	o = object_find(b, OBJECT_STREAM, stream);
	if (!o || o->ref != id) {
		capture_unref(b, id);
		return;
	}
	b->capture = id;
	__sync_fetch_and_add(&b->captures, 1);
}

/* Ends the capture even where the call fails: it does then too. */
static __noinline int capture_end(struct books *b, struct thread_state *ts, struct call_state *cs,
				  const struct call_desc *d, bool is_good)
{
	__u64 stream = stream_name(cs->arg[0], d), id = capture_of(b, cs->arg[0], d);
	struct capture_value *c = capture_find(b, id);

	if (!id)
		return 0;
	if (ts->capture == id)
		ts->capture = 0;
	object_remove(b, OBJECT_STREAM, stream);
	__sync_fetch_and_add(&b->captures, -1);
	if (c && c->count && is_good)
		graph_learn(b, read_word(cs->arg[1]), id);
	capture_unref(b, id);
	return 0;
}

/* CUDA_MEM_ALLOC_NODE_PARAMS: properties with the location in words 2 and 3, bytes at 104, address at 112. */
static __always_inline void node_alloc(struct books *b, struct call_state *cs, __u64 params)
{
	__u64 size_addr[2] = {}, id;
	__u32 w[4] = {};

	if (bpf_probe_read_user(w, sizeof(w), (void *)params) ||
	    bpf_probe_read_user(size_addr, sizeof(size_addr), (void *)(params + 104))) {
		count(COUNTER_FAULT);
		return;
	}
	id = graph_capture_get(b, cs->arg[1]);
	if (id)
		graph_alloc(b, cs, id, size_addr[1], size_addr[0], w[2] == 1 ? (__s32)w[3] : EVENT_NO_DEVICE,
			    current_tid());
}

static __always_inline void node_free(struct books *b, struct call_state *cs, __u64 addr)
{
	__u64 id = graph_capture_get(b, cs->arg[1]);

	if (id)
		graph_free(b, cs, id, addr);
}

#define NODE_ALLOC 10 /* CUgraphNodeType */
#define NODE_FREE 11

static __always_inline __u32 node_type(struct call_state *cs, const struct call_desc *d)
{
	__u32 type = 0;

	if (bpf_probe_read_user(&type, sizeof(type), (void *)cs->arg[d->addr_arg & (ARG_MAX - 1)]))
		count(COUNTER_FAULT);
	return type;
}

/* Successful calls about graphs. */
static __noinline int graph_return(struct books *b, struct call_state *cs, const struct call_desc *d)
{
	__u64 handle = cs->arg[0], params = cs->arg[d->addr_arg & (ARG_MAX - 1)];
	__u32 type;

	switch (d->op) {
	case CALL_CAPTURE_BEGIN:
	case CALL_CAPTURE_INTO:
		capture_begin(b, cs, d);
		break;
	case CALL_GRAPH_ALLOC:
		node_alloc(b, cs, cs->arg[4]);
		break;
	case CALL_GRAPH_FREE:
		node_free(b, cs, cs->arg[4]);
		break;
	case CALL_GRAPH_NODE: /* CUgraphNodeParams: the type, and what belongs to it from byte 16 on */
		type = node_type(cs, d);
		if (type == NODE_ALLOC)
			node_alloc(b, cs, params + 16);
		else if (type == NODE_FREE)
			node_free(b, cs, read_word(params + 16));
		break;
	case CALL_GRAPH_CLONE:
	case CALL_GRAPH_INSTANTIATE:
		graph_learn(b, read_word(handle), graph_capture(b, cs->arg[1]));
		break;
	}
	return 0;
}

#endif
