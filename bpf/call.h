/* SPDX-License-Identifier: MIT */
/* Entry and return of a probed call: its arguments, the block it makes or ends. */
#ifndef GPUXRAY_CALL_H
#define GPUXRAY_CALL_H

#include "context.h"
#include "graph.h"
#include "import.h"
#include "pool.h"
#include "size.h"
#include "stack.h"

static __always_inline void read_arguments(struct pt_regs *ctx, struct call_state *cs, const struct call_desc *d)
{
	cs->arg[0] = PT_REGS_PARM1(ctx);
	cs->arg[1] = PT_REGS_PARM2(ctx);
	cs->arg[2] = PT_REGS_PARM3(ctx);
	cs->arg[3] = PT_REGS_PARM4(ctx);
	cs->arg[4] = PT_REGS_PARM5(ctx);
#if defined(__TARGET_ARCH_x86)
	cs->arg[5] = ctx->r9;
	/* above the return address */
	if (d->flags & CALL_F_ARGS &&
	    bpf_probe_read_user(&cs->arg[ARG_STACK], (ARG_MAX - ARG_STACK) * 8, (void *)(PT_REGS_SP(ctx) + 8)))
		count(COUNTER_FAULT);
#elif defined(__TARGET_ARCH_arm64)
	/* eight arguments are in registers; structures passed by value lie elsewhere, and have no rows */
	cs->arg[5] = ctx->user_regs.regs[5];
	cs->arg[6] = ctx->user_regs.regs[6];
	cs->arg[7] = ctx->user_regs.regs[7];
#endif
	if (d->flags & CALL_F_SIZE32)
		for (int i = 1; i < 4; i++)
			cs->arg[i] = i == 1 && d->size_how != SIZE_ARG ? cs->arg[i] : (__u32)cs->arg[i];
}

static __always_inline __u64 stream_argument(struct call_state *cs, const struct call_desc *d)
{
	return cs->arg[d->stream_arg & (ARG_MAX - 1)];
}

static __always_inline __u64 freed_address(struct call_state *cs, const struct call_desc *d)
{
	__u64 addr = cs->arg[d->addr_arg & (ARG_MAX - 1)];

	return d->flags & CALL_F_ADDR32 ? (__u32)addr : addr;
}

static __always_inline void end_block(struct books *b, __u32 pid, struct call_state *cs)
{
	book_free(b, pid, &cs->taken_key, &cs->taken, cs->call, 0);
	pool_give(b, &cs->taken);
}

/* Effects of a call whose return was never seen (longjmp, a thread's exception, a missed return probe): its frame is gone,
 * so it has ended. A free is taken to have succeeded; an allocation's address is not known. */
static __always_inline void settle_stale(struct books *b, __u32 pid, struct call_state *cs, const struct call_desc *was)
{
	cs->sp = 0;
	count(COUNTER_RETURN_MISSED);
	if (was && was->op == CALL_ALLOC && !(was->slot & 1))
		add(&b->missed_count, 1);
	if (cs->has_taken == TAKEN_BLOCK || cs->has_taken == TAKEN_SHARE)
		end_block(b, pid, cs);
	cs->has_taken = TAKEN_NOTHING;
}

/* A free takes its block out at entry: once the driver has it back, another thread may be given the same address, and its
 * return may be seen before ours. A physical handle goes only with its last reference. */
static __always_inline void take_block(struct books *b, __u32 pid, struct call_state *cs, const struct call_desc *d)
{
	struct live_value *v;

	cs->taken_key.gen = b->gen;
	cs->taken_key.kind = d->kind;
	cs->taken_key.addr = freed_address(cs, d);
	cs->has_taken = TAKEN_NOTHING;
	v = bpf_map_lookup_elem(&live, &cs->taken_key);
	if (!v)
		return;
	if (d->kind == ADDR_HANDLE) {
		if (__sync_fetch_and_add(&v->refs, -1) > 1) {
			cs->has_taken = TAKEN_REFERENCE;
			return;
		}
	} else if (v->refs > 1 && __sync_fetch_and_add(&v->refs, -1) > 1) {
		cs->taken = *v;
		cs->has_taken = TAKEN_SHARE;
		return;
	}
	cs->taken = *v;
	if (!live_remove(&cs->taken_key))
		return;
	cs->has_taken = TAKEN_BLOCK;
	if (cs->taken.flags & LIVE_F_BINDINGS)
		unbind_all(b, pid, cs->taken_key.addr, cs->call);
}

/* The driver refused the free: the block is still there. */
static __always_inline void put_back(struct books *b, __u32 pid, struct call_state *cs)
{
	struct live_value *v;

	if (cs->has_taken == TAKEN_BLOCK) {
		cs->taken.refs = 1;
		if (!live_add(&cs->taken_key, &cs->taken)) {
			/* No room any more: its real free will be unknown, so it must leave the totals now. */
			count(COUNTER_LIVE_FULL);
			add(&b->untracked_count, 1);
			add(&b->untracked_bytes, cs->taken.bytes);
			end_block(b, pid, cs);
		}
	} else if (cs->has_taken != TAKEN_NOTHING) {
		v = bpf_map_lookup_elem(&live, &cs->taken_key);
		if (v)
			__sync_fetch_and_add(&v->refs, 1);
	}
	cs->has_taken = TAKEN_NOTHING;
}

/* What is done before the driver does it. */
static __always_inline void call_before(struct books *b, __u32 pid, struct call_state *cs, const struct call_desc *d)
{
	switch (d->op) {
	case CALL_CTX_DESTROY:
	case CALL_CTX_DETACH:
	case CALL_PRIMARY_RELEASE:
	case CALL_PRIMARY_RESET:
	case CALL_DEVICE_RESET:
		cs->entry_ns = bpf_ktime_get_ns();
		break;
	case CALL_FREE:
		if (!cs->capture)
			take_block(b, pid, cs, d);
		break;
	case CALL_ALLOC:
		if (d->device_how != DEVICE_CURRENT)
			read_asked(cs, d);
		break;
	case CALL_POOL_CREATE:
	case CALL_POOL_DEFAULT:
	case CALL_POOL_GET:
	case CALL_POOL_CURRENT:
		read_asked(cs, d);
		break;
	}
}

static __noinline int free_return(struct books *b, __u32 pid, struct call_state *cs, const struct call_desc *d,
				  bool is_done)
{
	if (!is_done) {
		put_back(b, pid, cs);
	} else if (cs->capture) {
		graph_free(b, cs, cs->capture, freed_address(cs, d));
	} else if (cs->has_taken == TAKEN_BLOCK || cs->has_taken == TAKEN_SHARE) {
		end_block(b, pid, cs);
	} else if (cs->has_taken == TAKEN_NOTHING && cs->taken_key.addr) {
		/* On a stream that has joined a capture it is one of the graph's. */
		if (!b->captures || d->stream_arg == ARG_NONE || !graph_free_own(b, cs->guess, cs->taken_key.addr))
			book_unknown_free(b, pid, &cs->taken_key, cs->call, d->class);
	}
	cs->has_taken = TAKEN_NOTHING;
	return 0;
}

/* Drivers have a slot, frameworks that may call them another; frees that are booked at their entry need none that stays. */
static __always_inline struct call_state *call_slot(struct thread_state *ts, const struct call_desc *d)
{
	if (!(d->slot & 1))
		return &ts->slot[0];
	return d->op == CALL_FREE && d->result == RESULT_NONE ? &ts->slot[2] : &ts->slot[1];
}

/* Calls whose latency is told. A framework's own are not: they are a look at its cache, or those of the driver within. */
static __always_inline bool is_timed(const struct call_desc *d)
{
	return (d->op == CALL_ALLOC || d->op == CALL_FREE) && !(d->slot & 1);
}

/* A subprogram, so that the verifier walks what comes after it once and not for each bucket. */
static __noinline int book_latency(__u32 row, __u64 ns)
{
	struct latency *l = bpf_map_lookup_elem(&latencies, &row);
	__u32 i;

	if (!l)
		return 0;
	l->sum_ns += ns;
	for (i = 0; i < LATENCY_BUCKETS - 1; i++) {
		if (ns < 1024)
			break;
		ns >>= 2;
	}
	l->buckets[i & 15]++;
	return 0;
}

static __always_inline void call_entered(struct pt_regs *ctx, struct books *b, __u32 pid, struct thread_state *ts,
					 struct call_state *cs, const struct call_desc *d, __u32 row)
{
	cs->call = row;
	cs->has_taken = TAKEN_NOTHING;
	cs->capture = 0;
	read_arguments(ctx, cs, d);
	if (d->op == CALL_UNMAP) {
		unmap_range(b, pid, cs->arg[0], cs->arg[1], row);
		return;
	}
	if (d->op == CALL_MULTICAST_UNBIND) {
		multicast_unbind(b, pid, cs);
		return;
	}
	if (d->op == CALL_GRAPH_DESTROY) {
		graph_destroy(b, cs->arg[0]);
		return;
	}
	if (d->op == CALL_POOL_DESTROY) {
		pool_destroy(b, cs->arg[0]);
		return;
	}
	if (b->captures && d->stream_arg != ARG_NONE && (d->op == CALL_ALLOC || d->op == CALL_FREE))
		cs->capture = capture_of(b, stream_argument(cs, d), d);
	if (d->stream_arg != ARG_NONE)
		cs->guess = capture_guess(b, ts);
	call_before(b, pid, cs, d);
	if (d->op == CALL_FREE && d->result == RESULT_NONE) { /* cannot fail: no return probe */
		free_return(b, pid, cs, d, true);
		return;
	}
	cs->stack = 0;
	cs->stack_reason = STACK_NONE;
	cs->bytes = d->op == CALL_ALLOC ? bytes_of(cs, d, false) : 0;
	if (d->flags & CALL_F_STACK && (d->op != CALL_GRAPH_NODE || node_type(cs, d) == NODE_ALLOC)) {
		take_stack(ctx, b, pid, ts, row, cs->bytes);
		cs->stack = ts->stack;
		cs->stack_reason = ts->stack_reason;
	}
	if (is_timed(d))
		cs->entry_ns = bpf_ktime_get_ns();
	cs->sp = PT_REGS_SP(ctx);
}

static __always_inline int call_entry(struct pt_regs *ctx)
{
	__u32 row = (__u32)bpf_get_attach_cookie(ctx), pid;
	struct call_desc *d = bpf_map_lookup_elem(&calls, &row);
	struct thread_state *ts;
	struct call_state *cs;
	struct books *b;
	__u64 sp = PT_REGS_SP(ctx), *hit;

	if (!d || d->op == CALL_NONE)
		return 0;
	pid = current_pid();
	if (!pid) {
		count(COUNTER_FOREIGN_NS);
		return 0;
	}
	hit = bpf_map_lookup_elem(&hits, &row);
	if (hit)
		(*hit)++;
	b = books_find(pid);
	if (!b && !is_traced(pid))
		return 0;
	ts = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!ts) {
		count(COUNTER_THREAD_FULL);
		if (b)
			add(&b->missed_count, 1);
		return 0;
	}
	if (!b)
		b = books_make(pid, ts);
	if (!b)
		return 0;
	if (ts->gen != b->gen) { /* new thread, or its process was replaced by exec */
		ts->gen = b->gen;
		ts->slot[0].sp = ts->slot[1].sp = ts->slot[2].sp = 0;
		ts->ctx = ts->owner = ts->capture = 0;
		ts->ctx_depth = 0;
		ts->device = EVENT_NO_DEVICE;
	}
	cs = call_slot(ts, d);
	if (cs->sp) {
		struct call_desc *outer = bpf_map_lookup_elem(&calls, &cs->call);

		/* Inside another probed call (a library wrapping the driver): counted once, outside. A query holds no
		 * allocation inside: if one seems to, its return was missed when its probes were taken off. A framework's
		 * function is not called within itself: an exception has left it. */
		if (cs->sp > sp && !(d->slot & 1 && cs->call == row) && outer && outer->op != CALL_CTX_GET &&
		    outer->op != CALL_CTX_DEVICE && outer->op != CALL_CTX_DEVICE_OF)
			return 0;
		settle_stale(b, pid, cs, outer);
	}
	call_entered(ctx, b, pid, ts, cs, d, row);
	return 0;
}

/* Where the call has put the address; 0 = nowhere. */
static __always_inline __u64 made_address(struct pt_regs *ctx, struct call_state *cs, const struct call_desc *d)
{
	__u64 at = cs->arg[d->addr_arg & (ARG_MAX - 1)], addr = 0;

	if (d->result == RESULT_POINTER)
		return PT_REGS_RC(ctx);
	if (d->flags & CALL_F_ADDR_VALUE)
		return at;
	if (bpf_probe_read_user(&addr, d->flags & CALL_F_ADDR32 ? 4 : 8, (void *)at)) {
		count(COUNTER_FAULT);
		return 0;
	}
	return addr;
}

static __always_inline void fill_device(struct books *b, struct thread_state *ts, struct call_state *cs,
					const struct call_desc *d, struct live_value *v)
{
	v->device = current_device(b, ts, d);
	v->ctx = d->flags & CALL_F_DEVICE0 ? 0 : ts->owner;
	if (d->device_how == DEVICE_CURRENT || d->device_how == DEVICE_POOL)
		return;
	v->ctx = 0;
	v->device = d->device_how == DEVICE_NONE ? EVENT_NO_DEVICE : cs->asked_device;
	if (d->device_how != DEVICE_NONE && cs->asked_class != CLASS_MAX)
		v->class = cs->asked_class;
}

/* A block that stream-ordered calls have made: of a graph, or of a pool. True: it is a graph's, and not there yet. */
static __noinline bool place_block(struct books *b, struct call_state *cs, const struct call_desc *d,
					struct live_value *v, __u64 addr)
{
	__u64 pool;

	if (d->device_how == DEVICE_POOL)
		pool = pool_name(b, cs->arg[d->device_arg & (ARG_MAX - 1)]);
	else if (d->stream_arg != ARG_NONE)
		pool = pool_current(b, v->device);
	else
		return false;
	if (d->class != CLASS_ASYNC) { /* imported from a pool: no use of it here */
		v->flags |= LIVE_F_POOLED;
		v->ctx = 0;
		return false;
	}
	if (cs->capture || (b->captures && is_near_graphs(b, addr))) {
		if (d->device_how == DEVICE_POOL && object_device(b, OBJECT_POOL, pool) != EVENT_NO_DEVICE)
			v->device = object_device(b, OBJECT_POOL, pool);
		if (!cs->capture)
			count(COUNTER_CAPTURE_GUESS);
		graph_alloc(b, cs, cs->capture ? cs->capture : cs->guess, addr, v->bytes, v->device, v->tid);
		return true;
	}
	pool_take(b, v, pool);
	return false;
}

/* A subprogram, as the other returns are: the stacks of one program and what it calls must fit in 512 bytes together. */
static __noinline int alloc_return(struct pt_regs *ctx, struct books *b, struct thread_state *ts, struct call_state *cs,
				   const struct call_desc *d)
{
	struct live_key key = { .gen = b->gen, .kind = d->kind };
	struct live_value v = { .class = d->class, .call = cs->call, .refs = 1, .stack = cs->stack };
	__s32 rc = (__s32)PT_REGS_RC(ctx);
	__u32 pid = current_pid();

	fill_device(b, ts, cs, d, &v);
	v.tid = current_tid();
	if (d->result == RESULT_ZERO && rc != 0) {
		book_fail(b, pid, cs->bytes, rc, cs->call, v.class, v.device, v.stack, cs->stack_reason);
		return 0;
	}
	key.addr = made_address(ctx, cs, d);
	if (d->result != RESULT_ZERO && !key.addr) {
		book_fail(b, pid, cs->bytes, 0, cs->call, v.class, v.device, v.stack, cs->stack_reason);
		return 0;
	}
	if (!key.addr) /* nothing was asked for, and that was given: hipMalloc() of 0 bytes */
		return 0;
	v.bytes = bytes_of(cs, d, true);
	if (place_block(b, cs, d, &v, key.addr))
		return 0;
	if (!book_alloc(b, pid, &key, &v, cs->stack_reason, d->flags & CALL_F_SHARED))
		pool_give(b, &v);
	return 0;
}

/* A call that did what it was asked for, and neither made nor ended a block by itself. */
static __always_inline void other_return(struct books *b, __u32 pid, struct thread_state *ts, struct call_state *cs,
					 const struct call_desc *d)
{
	switch (d->op) {
	case CALL_MAP ... CALL_MULTICAST_UNBIND:
	case CALL_EXPORT:
		import_return(b, pid, cs, d);
		break;
	case CALL_POOL_CREATE ... CALL_POOL_ASK:
		pool_return(b, cs, d);
		break;
	case CALL_CAPTURE_BEGIN ... CALL_GRAPH_DESTROY:
		if (d->op == CALL_GRAPH_LAUNCH) { /* here and not below: what it calls needs the room */
			graph_launch(b, pid, cs->arg[0], cs->call);
			break;
		}
		graph_return(b, cs, d);
		if (d->op == CALL_CAPTURE_BEGIN || d->op == CALL_CAPTURE_INTO)
			ts->capture = capture_of(b, cs->arg[0], d);
		break;
	default:
		context_return(b, pid, ts, cs, d);
		break;
	}
}

static __always_inline int call_return(struct pt_regs *ctx)
{
	__u32 row = (__u32)bpf_get_attach_cookie(ctx), pid;
	struct call_desc *d = bpf_map_lookup_elem(&calls, &row);
	__s32 rc = (__s32)PT_REGS_RC(ctx);
	struct thread_state *ts;
	struct call_state *cs;
	struct books *b;

	if (!d || d->op == CALL_NONE)
		return 0;
	ts = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), NULL, 0);
	if (!ts)
		return 0;
	cs = call_slot(ts, d);
	/* The return of a nested call (lower stack pointer) is not ours. */
	if (!cs->sp || cs->call != row || PT_REGS_SP(ctx) < cs->sp)
		return 0;
	cs->sp = 0;
	pid = current_pid();
	b = bpf_map_lookup_elem(&processes, &pid);
	if (!b || b->gen != ts->gen)
		return 0;

	if (is_timed(d))
		book_latency(row, bpf_ktime_get_ns() - cs->entry_ns);
	if (d->op == CALL_ALLOC)
		alloc_return(ctx, b, ts, cs, d);
	else if (d->op == CALL_FREE)
		free_return(b, pid, cs, d, rc == 0);
	else if (d->op == CALL_CAPTURE_END)
		capture_end(b, ts, cs, d, rc == 0);
	else if (rc == 0)
		other_return(b, pid, ts, cs, d);
	return 0;
}

#endif
