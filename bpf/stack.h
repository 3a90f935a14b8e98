/* SPDX-License-Identifier: MIT */
/*
 * User stacks: known again by the words at learned slots (stack_event.h), else sent as a copy for the daemon to unwind.
 * Not by frame pointers: in a real PyTorch process those gave 7 right frames of 61.
 */
#ifndef GPUXRAY_STACK_H
#define GPUXRAY_STACK_H

#include "books.h"
#include "python.h"

/* A stack is not larger: if its end seems to be further away, it is another stack (a coroutine's, a signal's). */
#define STACK_BYTES_MAX (16ull << 20)
#define SLOTS_INLINE 24
#define SLOTS_AT_ONCE 4
/* The last quarter of the budget is kept for allocations of this size. */
#define LARGE_BYTES (1ull << 20)
#define CHECK_EVERY 4096 /* hits of a thread */

struct reader { /* pointers only: see struct thread_state */
	struct pt_regs *ctx;
	struct thread_state *ts;
	const struct stack_path *path;
};

/* Fills the chunk from addr to the last slot, but not beyond the end of the page: what lies there can be read, and the page
 * behind the top of a stack, which cannot, is never touched. An exception costs more than all the rest. */
static __always_inline bool fill_chunk(struct reader *r, __u64 addr)
{
	__u64 len = STACK_PIECE - (addr & (STACK_PIECE - 1)), wanted = r->ts->stack_limit - addr;

	if (wanted < len)
		len = wanted;
	if (len > CHUNK_WORDS * 8)
		len = CHUNK_WORDS * 8;
	if (!len || bpf_probe_read_user(r->ts->chunk, len, (void *)addr))
		return false;
	r->ts->chunk_base = addr;
	r->ts->chunk_bytes = len;
	return true;
}

/* A word of the stack as it enters the hash. Slots ascend, so each page is read once. */
static __always_inline __u64 slot_word(struct reader *r, __u32 slot)
{
	struct thread_state *ts = r->ts;
	__u64 addr = ts->stack_sp + (slot & STACK_SLOT_OFFSET) * 8ull, off = addr - ts->chunk_base, word;

	if (off >= ts->chunk_bytes) {
		if (!fill_chunk(r, addr)) {
			ts->is_unreadable = 1;
			return 0;
		}
		off = 0;
	}
	word = ts->chunk[(off / 8) & (CHUNK_WORDS - 1)];
	return slot & STACK_SLOT_RELATIVE ? word - ts->stack_sp : word;
}

static long hash_slot(__u64 index, struct reader *r)
{
	if (index >= r->path->slots)
		return 1;
	r->ts->stack_hash = stack_hash_word(r->ts->stack_hash, slot_word(r, r->path->slot[index & (STACK_SLOTS_MAX - 1)]));
	return r->ts->is_unreadable & 1; /* a bound the verifier can see */
}

/* Without a branch on whether it is there: beyond the end it hashes the last one to no effect. */
static __always_inline __u64 hash_if(struct reader *r, __u64 hash, __u64 index)
{
	__u64 n = r->path->slots, take = -(__u64)(index < n), at = (index & take) | ((n - 1) & ~take), with;

	asm volatile("" : "+r"(take), "+r"(at));
	with = stack_hash_word(hash, slot_word(r, r->path->slot[at & (STACK_SLOTS_MAX - 1)]));
	return (with & take) | (hash & ~take);
}

/* For bpf_loop(), which has the verifier look at it once; several at a time, as its call costs more than a slot. */
static long hash_slots(__u64 index, struct reader *r)
{
	__u64 hash = r->ts->stack_hash;

	index = SLOTS_INLINE + index * SLOTS_AT_ONCE;
	if (index >= r->path->slots)
		return 1;
	hash = hash_if(r, hash, index);
	hash = hash_if(r, hash, index + 1);
	hash = hash_if(r, hash, index + 2);
	hash = hash_if(r, hash, index + 3);
	r->ts->stack_hash = hash;
	return r->ts->is_unreadable & 1;
}

/* Registers that unwind rules may need, by DWARF number; on arm64, where frames are found by frame pointers, x29 and,
 * at a function's entry, x30. */
static __always_inline void load_registers(struct reader *r)
{
	__u64 *reg = r->ts->reg;
#if defined(__TARGET_ARCH_x86)
	reg[3] = r->ctx->bx;
	reg[6] = r->ctx->bp;
	reg[12] = r->ctx->r12;
	reg[13] = r->ctx->r13;
	reg[14] = r->ctx->r14;
	reg[15] = r->ctx->r15;
#else
	reg[29] = PT_REGS_FP(r->ctx);
	/* A code address: it is the distance plus sp. */
	reg[30] = r->ctx->user_regs.regs[30] + r->ts->stack_sp;
#endif
}

/* Without branches: the verifier would walk each way through them. */
static __always_inline void hash_register(struct reader *r, __u32 mask, __u32 number)
{
	struct thread_state *ts = r->ts;
	__u64 take = -(__u64)(mask >> number & 1), with = stack_hash_word(ts->stack_hash, ts->reg[number] - ts->stack_sp);

	asm volatile("" : "+r"(take));
	ts->stack_hash = (with & take) | (ts->stack_hash & ~take);
}

static __always_inline void hash_registers(struct reader *r, __u32 mask)
{
	load_registers(r);
#if defined(__TARGET_ARCH_x86)
	hash_register(r, mask, 3);
	hash_register(r, mask, 6);
	hash_register(r, mask, 12);
	hash_register(r, mask, 13);
	hash_register(r, mask, 14);
	hash_register(r, mask, 15);
#else
	hash_register(r, mask, 29);
	hash_register(r, mask, 30);
#endif
}

static __always_inline bool is_this(struct reader *r, const struct stack_path *path)
{
	r->path = path;
	if (path->slots)
		r->ts->stack_limit = r->ts->stack_sp +
				     8 + (path->slot[(path->slots - 1) & (STACK_SLOTS_MAX - 1)] & STACK_SLOT_OFFSET) * 8ull;
	r->ts->stack_hash = STACK_HASH_INIT;
	/* Unrolled, because Linux 6.1 wants the head of a loop to be reached by jumps only, and clang decides that. */
#pragma clang loop unroll(full)
	for (__u32 i = 0; i < SLOTS_INLINE; i++)
		if (hash_slot(i, r))
			goto hashed;
	bpf_loop((STACK_SLOTS_MAX - SLOTS_INLINE) / SLOTS_AT_ONCE, hash_slots, r, 0);
hashed:
	if (path->registers)
		hash_registers(r, path->registers);
	return !r->ts->is_unreadable && r->ts->stack_hash == path->hash;
}

static __always_inline __u64 branch_key(struct reader *r, const struct stack_path *branch, __u64 key)
{
	__u64 word;

	if (branch->slots) {
		r->ts->stack_limit = r->ts->stack_sp + 8 + (branch->slot[0] & STACK_SLOT_OFFSET) * 8ull;
		word = slot_word(r, branch->slot[0]);
	} else {
		load_registers(r);
		word = r->ts->reg[branch->hash & 31] - r->ts->stack_sp;
	}
	return stack_hash_word(key, word);
}

/* One branch of the tree, for bpf_loop(). */
static long descend(__u64 index, struct reader *r)
{
	const struct stack_path *path = r->path;
	__u64 key;

	if (!path || path->stack)
		return 1;
	key = branch_key(r, path, r->ts->stack_hash);
	r->ts->stack_hash = key;
	r->path = bpf_map_lookup_elem(&paths, &key);
	return r->ts->is_unreadable & 1;
}

/* The number of the stack, 0 = not known. */
static __always_inline __u64 known_stack(struct reader *r)
{
	__u64 key = r->ts->stack_path, number;

	r->path = bpf_map_lookup_elem(&paths, &key);
	if (r->path && !r->path->stack) {
		r->ts->stack_hash = key;
		bpf_loop(STACK_TREE_DEPTH, descend, r, 0);
	}
	if (!r->path)
		return 0;
	/* The map may give the memory to another path meanwhile: numbers are never used twice, so the same one before and
	 * after means that what was between them belonged to it. */
	number = *(volatile const __u64 *)&r->path->stack;
	return number && is_this(r, r->path) && *(volatile const __u64 *)&r->path->stack == number ? number : 0;
}

/*
 * Where the stack ends: the main thread's below its arguments; any other's, with glibc and musl, at the thread's own
 * control block, to which the thread pointer points. The nearer one above sp is it, also in a child forked by a thread.
 * 0: neither, within reason.
 */
static __always_inline __u64 stack_end(__u64 sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 main_end = task->mm->start_stack, thread_end = python_self();
	__u64 a = main_end - sp, b = thread_end - sp;

	if (main_end <= sp || a > STACK_BYTES_MAX)
		a = ~0ull;
	if (thread_end <= sp || b > STACK_BYTES_MAX)
		b = ~0ull;
	if (b < a)
		a = b;
	return a == ~0ull ? 0 : sp + a;
}

static __always_inline bool may_spend(__u64 *paid_ns, __u64 now, __u64 cost, __u64 ahead)
{
	__u64 paid = *paid_ns;

	for (int i = 0; i < 4; i++) {
		__u64 from = paid > now ? paid : now, was;

		if (from - now > ahead)
			return false;
		was = __sync_val_compare_and_swap(paid_ns, paid, from + cost);
		if (was == paid)
			return true;
		paid = was;
	}
	return false;
}

/*
 * One copy more? Each takes its share of a second from the budget, which may be ahead of the clock by STACK_BURST_SEC: a
 * program that starts has hundreds of new stacks at once. (The generic cell rate algorithm, ITU-T I.371.) A quarter is
 * kept for large allocations, and one process cannot take more than three quarters.
 */
static __always_inline bool may_copy(struct books *b, __u64 bytes)
{
	__u64 now = bpf_ktime_get_ns(), ahead = STACK_BURST_SEC * 1000000000ull;

	if (bytes < LARGE_BYTES)
		ahead -= ahead / 4;
	return may_spend(&b->copies_paid_ns, now, copy_ns + copy_ns / 3, ahead) &&
	       may_spend(&copies_paid_ns, now, copy_ns, ahead);
}

struct copy {
	struct pt_regs *ctx;
	struct books *b;
	struct thread_state *ts;
	struct python_stack *python; /* NULL = none known in this process */
	__u32 pid;
	__u32 call;
};

static __always_inline void copy_registers(struct event_stack *ev, struct pt_regs *ctx)
{
	ev->regs.ip = PT_REGS_IP(ctx);
	ev->regs.sp = PT_REGS_SP(ctx);
	ev->regs.bp = PT_REGS_FP(ctx);
#if defined(__TARGET_ARCH_x86)
	ev->regs.bx = ctx->bx;
	ev->regs.r12 = ctx->r12;
	ev->regs.r13 = ctx->r13;
	ev->regs.r14 = ctx->r14;
	ev->regs.r15 = ctx->r15;
	ev->regs.lr = 0;
#else
	ev->regs.bx = ev->regs.r12 = ev->regs.r13 = ev->regs.r14 = ev->regs.r15 = 0;
	ev->regs.lr = ctx->user_regs.regs[30];
#endif
}

#define COPY_FULL 1  /* no room in the ring */
#define COPY_FAULT 2 /* the first word cannot be read */

struct pieces {
	struct event_stack *ev;
	__u64 sp, at, bytes;
	__u32 missing;
	__u32 pad;
};

static __always_inline long copy_piece(__u64 index, struct pieces *p, const __u64 size)
{
	__u64 at = p->at, len = STACK_PIECE - ((p->sp + at) & (STACK_PIECE - 1));

	if (at >= p->bytes || at > size)
		return 1;
	if (len > p->bytes - at)
		len = p->bytes - at;
	if (!len || len > STACK_PIECE)
		return 1;
	if (bpf_probe_read_user(p->ev->copy + at, len, (void *)(p->sp + at))) {
		/* Where the end is not known, this is it. */
		if (p->ev->flags & STACK_F_NO_TOP) {
			p->ev->copy_bytes = at;
			return 1;
		}
		p->missing |= 1u << (index & 31);
	}
	p->at = at + len;
	return 0;
}

/* Page by page, where reading all at once met one that is not there (swapped out, or never touched). */
#define COPY_PIECES(size)                                                                                              \
	static long copy_piece_##size(__u64 index, struct pieces *p)                                                   \
	{                                                                                                              \
		return copy_piece(index, p, size);                                                                     \
	}
COPY_PIECES(4096)
COPY_PIECES(8192)
COPY_PIECES(16384)
COPY_PIECES(32768)
COPY_PIECES(65536)

/* The classes have room for one piece more than the largest copy in them, so that any piece fits. */
static __always_inline int send_class(struct copy *c, const __u64 size, void *copy_piece_fn)
{
	/* Copies may fill half of the ring: the other half is for the books. */
	struct event_stack *ev = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > ring_mark_bytes ? NULL :
				 bpf_ringbuf_reserve(&ring, sizeof(*ev) + size + STACK_PIECE, 0);
	__u64 bytes = c->ts->stack_bytes, sp = c->ts->stack_sp;

	if (!ev)
		return COPY_FULL;
	__builtin_memset(&ev->head, 0, sizeof(ev->head));
	ev->head.type = EVENT_STACK;
	ev->head.call = c->call;
	ev->head.pid = c->pid;
	ev->head.tid = current_tid();
	ev->head.start_ns = c->b->start_ns;
	ev->head.time_ns = bpf_ktime_get_ns();
	ev->head.stack = c->ts->stack;
	ev->head.device = EVENT_NO_DEVICE;
	ev->path = c->ts->stack_path;
	copy_registers(ev, c->ctx);
	ev->flags = c->ts->stack_flags;
	ev->missing = 0;
	ev->pad = 0;
	ev->copy_bytes = bytes;
	if (!c->python || bpf_probe_read_kernel(&ev->python, sizeof(ev->python), c->python))
		__builtin_memset(&ev->python, 0, offsetof(struct python_stack, frame));
	if (bytes > size)
		bytes = size;
	if (bpf_probe_read_user(ev->copy, bytes, (void *)sp)) {
		struct pieces p = { .ev = ev, .sp = sp, .bytes = bytes };

		bpf_loop(STACK_PIECES_MAX, copy_piece_fn, &p, 0);
		ev->missing = p.missing;
		if (p.missing & 1 || !ev->copy_bytes) {
			bpf_ringbuf_discard(ev, 0);
			return COPY_FAULT;
		}
	}
	bpf_ringbuf_submit(ev, BPF_RB_FORCE_WAKEUP);
	return 0;
}

static __noinline int send_copy(struct copy *c)
{
	__u64 bytes = c->ts->stack_bytes;

	if (bytes <= 4096)
		return send_class(c, 4096, copy_piece_4096);
	if (bytes <= 8192)
		return send_class(c, 8192, copy_piece_8192);
	if (bytes <= 16384)
		return send_class(c, 16384, copy_piece_16384);
	if (bytes <= 32768)
		return send_class(c, 32768, copy_piece_32768);
	return send_class(c, 65536, copy_piece_65536);
}

/* What the stack is looked for by: where in the code, how deep, and through which Python. */
static __always_inline void find_path(struct pt_regs *ctx, struct books *b, struct thread_state *ts,
				      const struct python_stack *python)
{
	__u64 sp = PT_REGS_SP(ctx), end = stack_end(sp), bytes = end ? end - sp : 0, key = STACK_HASH_INIT;

	key = stack_hash_word(key, b->gen);
	key = stack_hash_word(key, PT_REGS_IP(ctx));
	key = stack_hash_word(key, bytes);
	ts->stack_flags = end ? 0 : STACK_F_NO_TOP;
	if (python) {
		ts->stack_flags |= STACK_F_PYTHON;
		key = stack_hash_word(key, python->hash);
	}
	if (!end || bytes > STACK_COPY_MAX) {
		ts->stack_flags |= STACK_F_TRUNCATED;
		bytes = STACK_COPY_MAX;
	}
	ts->stack_path = key;
	ts->stack_bytes = bytes;
	ts->stack_sp = sp;
	ts->chunk_base = sp;
	ts->chunk_bytes = 0;
	ts->is_unreadable = 0;
}

/* Takes the stack at the entry of the probed function. bytes: of the allocation. */
static __always_inline void take_stack(struct pt_regs *ctx, struct books *b, __u32 pid, struct thread_state *ts,
				       __u32 call, __u64 bytes)
{
	struct copy c = { .ctx = ctx, .b = b, .ts = ts, .pid = pid, .call = call };
	struct reader r = { .ctx = ctx, .ts = ts };
	int failed;

	ts->stack_reason = STACK_OK;
	c.python = python_walk(ctx, pid, b->start_ns);
	find_path(ctx, b, ts, c.python);
	ts->stack = known_stack(&r);
	if (ts->stack) {
		count(COUNTER_STACK_KNOWN);
		if (++ts->known % CHECK_EVERY || !may_copy(b, bytes))
			return;
		ts->stack_flags |= STACK_F_CHECK;
	} else if (!may_copy(b, bytes)) {
		ts->stack_reason = STACK_SAMPLED;
		count(COUNTER_STACK_SAMPLED);
		return;
	} else {
		ts->stack = __sync_fetch_and_add(&next_stack, 1);
	}
	failed = send_copy(&c);
	if (!failed) {
		count(COUNTER_STACK_COPIED);
		return;
	}
	count(failed == COPY_FAULT ? COUNTER_STACK_FAULT : COUNTER_STACK_LOST);
	if (ts->stack_flags & STACK_F_CHECK)
		return;
	ts->stack = 0;
	ts->stack_reason = failed == COPY_FAULT ? STACK_FAULT : STACK_LOST;
}

#endif
