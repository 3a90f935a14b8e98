// SPDX-License-Identifier: MIT
/*
 * One program for the entry and one for the return of every probed call. The attach cookie is the row of the call table
 * that says what the call does and where its arguments lie. No policy here: only books, bounds and news.
 */
#include "kernel.h"
#include "stack_event.h"
#include "maps.h"
#include "books.h"
#include "python.h"
#include "stack.h"
#include "context.h"

/* Effects of a call whose return was never seen (longjmp, a thread's exception, a missed return probe): its frame is gone,
 * so it has ended. A free is taken to have succeeded; an allocation's address is not known. */
static __always_inline void settle_stale(struct books *b, __u32 pid, struct thread_state *ts)
{
	ts->sp = 0;
	count(COUNTER_RETURN_MISSED);
	if (ts->has_taken == 1)
		book_free(b, pid, ts->taken_key.addr, &ts->taken, ts->call, 0);
	ts->has_taken = 0;
}

/* A free takes its block out at entry: once the driver has it back, another thread may be given the same address, and its
 * return may be seen before ours. A physical handle goes only with its last reference. */
static __always_inline void take_block(struct books *b, struct thread_state *ts, const struct call_desc *d, __u64 addr)
{
	struct live_value *v;

	ts->taken_key.gen = b->gen;
	ts->taken_key.kind = d->kind;
	ts->taken_key.addr = addr;
	ts->has_taken = 0;
	v = bpf_map_lookup_elem(&live, &ts->taken_key);
	if (!v)
		return;
	if (d->kind == ADDR_HANDLE && __sync_fetch_and_add(&v->refs, -1) > 1) {
		ts->has_taken = 2; /* a reference only */
		return;
	}
	ts->taken = *v;
	if (bpf_map_delete_elem(&live, &ts->taken_key) == 0)
		ts->has_taken = 1;
}

/* The driver refused the free: the block is still there. */
static __always_inline void put_back(struct books *b, __u32 pid, struct thread_state *ts)
{
	struct live_value *v;

	if (ts->has_taken == 1) {
		if (ts->taken_key.kind == ADDR_HANDLE)
			ts->taken.refs = 1;
		if (bpf_map_update_elem(&live, &ts->taken_key, &ts->taken, BPF_NOEXIST)) {
			/* No room any more: its real free will be unknown, so it must leave the totals now. */
			count(COUNTER_LIVE_FULL);
			add(&b->untracked_count, 1);
			add(&b->untracked_bytes, ts->taken.bytes);
			book_free(b, pid, ts->taken_key.addr, &ts->taken, ts->call, 0);
		}
	} else if (ts->has_taken == 2) {
		v = bpf_map_lookup_elem(&live, &ts->taken_key);
		if (v)
			__sync_fetch_and_add(&v->refs, 1);
	}
	ts->has_taken = 0;
}

/* CUmemAllocationProp: type, requestedHandleTypes, location.type, location.id (four 32-bit words); CUmemPoolProps has the
 * same start. location.type 1 is a device, 2 to 4 are kinds of host memory. */
static __always_inline void read_props(struct thread_state *ts, __u64 props)
{
	__u32 w[4] = {};

	ts->asked_device = EVENT_NO_DEVICE;
	ts->asked_host = 0;
	if (bpf_probe_read_user(w, sizeof(w), (void *)props)) {
		count(COUNTER_FAULT);
		return;
	}
	if (w[2] == 1)
		ts->asked_device = (__s32)w[3];
	else if (w[2] >= 2 && w[2] <= 4)
		ts->asked_host = 1;
}

struct unmap {
	__u64 addr, end;
	__u32 gen, pid, call;
};

static long unmap_one(__u64 index, struct unmap *u)
{
	struct mapping_key mk = { .gen = u->gen, .addr = u->addr };
	struct mapping_value *m = bpf_map_lookup_elem(&mappings, &mk);
	struct live_key key = { .gen = u->gen, .kind = ADDR_HANDLE };
	__u32 pid = u->pid;
	struct live_value *v, was;
	struct books *b;

	if (!m || !m->size || u->addr >= u->end)
		return 1;
	key.addr = m->handle;
	u->addr += m->size;
	if (bpf_map_delete_elem(&mappings, &mk))
		return 0;
	v = bpf_map_lookup_elem(&live, &key);
	if (!v || __sync_fetch_and_add(&v->refs, -1) > 1)
		return 0;
	was = *v;
	b = bpf_map_lookup_elem(&processes, &pid);
	if (b && bpf_map_delete_elem(&live, &key) == 0)
		book_free(b, pid, key.addr, &was, u->call, 0);
	return 0;
}

/* Unmapping happens at entry (see take_block); a range may cover many mappings. */
static __always_inline void unmap_range(struct books *b, __u32 pid, __u64 addr, __u64 size, __u32 call)
{
	struct unmap u = { .addr = addr, .end = addr + size, .gen = b->gen, .pid = pid, .call = call };

	bpf_loop(65536, unmap_one, &u, 0);
}

static __always_inline __u64 mul_saturate(__u64 a, __u64 c)
{
	__u64 most = a ? ~0ull / a : ~0ull;

	/* Hides the idiom from clang, which would make a 128-bit multiplication of it, and BPF has none. */
	asm volatile("" : "+r"(most));
	return c > most ? ~0ull : a * c;
}

static __always_inline __u64 bytes_of(struct thread_state *ts, const struct call_desc *d, bool ok)
{
	__u64 pitch = 0;

	switch (d->size_how) {
	case SIZE_ARG:
		return ts->arg[d->size_arg & 7];
	case SIZE_PITCH:
		if (!ok)
			return mul_saturate(ts->arg[2], ts->arg[3]);
		if (bpf_probe_read_user(&pitch, sizeof(pitch), (void *)ts->arg[1]))
			count(COUNTER_FAULT);
		return mul_saturate(pitch, ts->arg[3]);
	}
	return 0;
}

static __always_inline int call_entry(struct pt_regs *ctx)
{
	__u32 row = (__u32)bpf_get_attach_cookie(ctx), pid = bpf_get_current_pid_tgid() >> 32;
	struct call_desc *d = bpf_map_lookup_elem(&calls, &row);
	struct thread_state *ts;
	struct books *b;
	__u64 sp = PT_REGS_SP(ctx), *hit;

	if (!d || d->op == CALL_NONE)
		return 0;
	hit = bpf_map_lookup_elem(&hits, &row);
	if (hit)
		(*hit)++;
	b = books_of_current();
	if (!b)
		return 0;
	ts = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!ts) {
		count(COUNTER_THREAD_FULL);
		return 0;
	}
	if (ts->gen != b->gen) { /* new thread, or its process was replaced by exec */
		ts->gen = b->gen;
		ts->sp = 0;
		ts->has_taken = 0;
		ts->ctx = 0;
		ts->ctx_depth = 0;
		ts->device = EVENT_NO_DEVICE;
	}
	if (ts->sp) {
		struct call_desc *outer = bpf_map_lookup_elem(&calls, &ts->call);

		/* Inside another probed call (a library wrapping the driver): counted once, outside. A query holds no
		 * allocation inside: if one seems to, its return was missed when its probes were taken off. */
		if (ts->sp > sp && outer && outer->op != CALL_CTX_GET && outer->op != CALL_CTX_DEVICE &&
		    outer->op != CALL_CTX_DEVICE_OF)
			return 0;
		settle_stale(b, pid, ts);
	}
	ts->call = row;
	ts->arg[0] = PT_REGS_PARM1(ctx);
	ts->arg[1] = PT_REGS_PARM2(ctx);
	ts->arg[2] = PT_REGS_PARM3(ctx);
	ts->arg[3] = PT_REGS_PARM4(ctx);
	ts->arg[4] = PT_REGS_PARM5(ctx);
	ts->has_taken = 0;

	switch (d->op) {
	case CALL_UNMAP:
		unmap_range(b, pid, ts->arg[0], ts->arg[1], row);
		return 0;
	case CALL_FREE:
		take_block(b, ts, d, ts->arg[0]);
		break;
	case CALL_ALLOC:
		if (d->device_how == DEVICE_PROP)
			read_props(ts, ts->arg[2]);
		break;
	case CALL_POOL_CREATE:
		read_props(ts, ts->arg[1]);
		break;
	}
	ts->stack = 0;
	ts->stack_reason = STACK_NONE;
	if (d->flags & CALL_F_STACK)
		take_stack(ctx, b, pid, ts, bytes_of(ts, d, false));
	ts->sp = sp;
	return 0;
}

static __always_inline void alloc_return(struct books *b, __u32 pid, struct thread_state *ts, const struct call_desc *d,
					 __s32 rc)
{
	struct live_key key = { .gen = b->gen, .kind = d->kind };
	struct live_value v = { .class = d->class, .call = ts->call, .refs = 1 };

	v.bytes = bytes_of(ts, d, rc == 0);
	v.device = current_device(b, ts);
	v.ctx = ts->ctx;
	if (d->device_how == DEVICE_PROP) {
		v.ctx = 0;
		v.device = ts->asked_device;
		if (ts->asked_host)
			v.class = CLASS_HOST;
	} else if (d->device_how == DEVICE_POOL) {
		v.device = pool_device(b, ts->arg[2], v.device);
	}
	v.stack = ts->stack;
	v.tid = (__u32)bpf_get_current_pid_tgid();
	if (rc != 0) {
		book_fail(b, pid, v.bytes, rc, ts->call, v.class, v.device, v.stack, ts->stack_reason);
		return;
	}
	if (d->flags & CALL_F_ADDR_VALUE) {
		key.addr = ts->arg[d->addr_arg & 7];
	} else if (bpf_probe_read_user(&key.addr, sizeof(key.addr), (void *)ts->arg[d->addr_arg & 7])) {
		count(COUNTER_FAULT);
		return;
	}
	book_alloc(b, pid, &key, &v, ts->stack_reason);
}

static __always_inline void map_return(struct books *b, struct thread_state *ts)
{
	struct mapping_key mk = { .gen = b->gen, .addr = ts->arg[0] };
	struct mapping_value m = { .size = ts->arg[1], .handle = ts->arg[3] };
	struct live_key key = { .gen = b->gen, .kind = ADDR_HANDLE, .addr = ts->arg[3] };
	struct live_value *v = bpf_map_lookup_elem(&live, &key);

	if (!v) /* imported, or older than us: only its size, so that an unmap of a range steps over it */
		m.handle = 0;
	if (bpf_map_update_elem(&mappings, &mk, &m, BPF_ANY)) {
		count(COUNTER_MAP_FULL);
		return;
	}
	if (v)
		__sync_fetch_and_add(&v->refs, 1);
}

static __always_inline int call_return(struct pt_regs *ctx)
{
	__u32 row = (__u32)bpf_get_attach_cookie(ctx), pid = bpf_get_current_pid_tgid() >> 32;
	struct call_desc *d = bpf_map_lookup_elem(&calls, &row);
	__s32 rc = (__s32)PT_REGS_RC(ctx);
	struct thread_state *ts;
	struct books *b;

	if (!d || d->op == CALL_NONE)
		return 0;
	ts = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), NULL, 0);
	/* The return of a nested call (lower stack pointer) is not ours. */
	if (!ts || !ts->sp || ts->call != row || PT_REGS_SP(ctx) < ts->sp)
		return 0;
	ts->sp = 0;
	b = bpf_map_lookup_elem(&processes, &pid);
	if (!b || b->gen != ts->gen)
		return 0;

	if (d->op == CALL_ALLOC) {
		alloc_return(b, pid, ts, d, rc);
	} else if (d->op == CALL_FREE) {
		if (rc != 0)
			put_back(b, pid, ts);
		else if (ts->has_taken == 1)
			book_free(b, pid, ts->taken_key.addr, &ts->taken, row, 0);
		else if (!ts->has_taken && ts->taken_key.addr)
			book_unknown_free(b, pid, ts->taken_key.addr, row, d->class);
		ts->has_taken = 0;
	} else if (rc == 0) {
		if (d->op == CALL_MAP)
			map_return(b, ts);
		else
			context_return(b, pid, ts, d);
	}
	return 0;
}

SEC("uprobe")
int entry_probe(struct pt_regs *ctx)
{
	return call_entry(ctx);
}

SEC("uprobe")
int return_probe(struct pt_regs *ctx)
{
	return call_return(ctx);
}

static __always_inline void process_gone(__u32 pid, __u32 type)
{
	struct books *b = bpf_map_lookup_elem(&processes, &pid), was;

	/* It may be there before the first call: the daemon looks for Python when the driver library is mapped. */
	if (bpf_map_lookup_elem(&python_processes, &pid))
		bpf_map_delete_elem(&python_processes, &pid);
	if (!b)
		return;
	__builtin_memcpy(&was, b, sizeof(was));
	/* Two last threads may come here together: one of them deletes. */
	if (bpf_map_delete_elem(&processes, &pid))
		return;
	mark_dead(&was);
	/* was is on our stack: what is lost now cannot be noted in books that are gone; the global counter has it. */
	say(&was, pid, type, true);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *p)
{
	/* Only the last thread of the process has left nobody alive behind it. */
	if (p->signal->live.counter == 0)
		process_gone(p->tgid, EVENT_EXIT);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *p)
{
	process_gone(p->tgid, EVENT_EXEC);
	return 0;
}

/* An empty probe: what make bench compares ours with. */
SEC("uprobe")
int bare_probe(struct pt_regs *ctx)
{
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
