/* SPDX-License-Identifier: MIT */
/* User stacks by frame pointer, each sent once. */
#ifndef GPUXRAY_STACK_H
#define GPUXRAY_STACK_H

#include "books.h"

#define CHUNK_BYTES sizeof(((struct thread_state *)0)->chunk)
/* No real frame is larger: a saved frame pointer that jumps further is not one. */
#define FRAME_BYTES_MAX (1ull << 20)
#define FRAMES_INLINE 24
#define USER_ADDRESS_MAX (1ull << 56)

struct walk {
	struct thread_state *ts;
	__u64 base; /* address of ts->chunk[0] */
	__u64 fp;
	__u64 hash;
	__u32 n;
	__u32 len; /* bytes of the chunk that are filled */
	__u32 is_cut;
	__u32 pad;
};

static __always_inline void walk_add(struct walk *w, __u64 ip)
{
	w->ts->out.ip[w->n & 127] = ip;
	w->n++;
	w->hash = (w->hash ^ ip) * 0x9e3779b97f4a7c15ull;
	w->hash ^= w->hash >> 29;
}

/* Fills the chunk from addr to the end of its page at most: what lies there can be read, and the page behind the top of a
 * stack, which cannot, is never touched. */
static __always_inline bool fill_chunk(struct walk *w, __u64 addr)
{
	__u64 len = 4096 - (addr & 4095);

	if (len > CHUNK_BYTES)
		len = CHUNK_BYTES;
	if (bpf_probe_read_user(w->ts->chunk, len, (void *)addr))
		return false;
	w->base = addr;
	w->len = len;
	return true;
}

/* One frame: saved frame pointer and return address. 1 at the end of the chain. For bpf_loop(), which has the verifier look
 * at it once and not a hundred times. */
static long walk_one(__u64 index, struct walk *w)
{
	__u64 frame[2], off = w->fp - w->base;

	if (off + sizeof(frame) > w->len || off > w->len) {
		if ((w->fp & 4095) > 4096 - sizeof(frame)) { /* lies across two pages */
			if (bpf_probe_read_user(frame, sizeof(frame), (void *)w->fp))
				return 1;
			goto got;
		}
		if (!fill_chunk(w, w->fp))
			return 1;
		off = 0;
	}
	off &= CHUNK_BYTES - 8;
	if (off > CHUNK_BYTES - sizeof(frame))
		return 1;
	frame[0] = w->ts->chunk[off / 8];
	frame[1] = w->ts->chunk[off / 8 + 1];
got:
	if (!frame[1] || frame[1] >= USER_ADDRESS_MAX)
		return 1;
	walk_add(w, frame[1]);
	if (frame[0] <= w->fp || frame[0] - w->fp > FRAME_BYTES_MAX || (frame[0] & 7))
		return 1;
	w->fp = frame[0];
	w->is_cut = index + 1 == EVENT_STACK_MAX - 2 - FRAMES_INLINE;
	return 0;
}

/* The first frames without the cost of bpf_loop(), which is that of a frame. */
static __always_inline void walk_all(struct walk *w)
{
	for (__u32 i = 0; i < FRAMES_INLINE; i++)
		if (walk_one(0, w))
			return;
	bpf_loop(EVENT_STACK_MAX - 2 - FRAMES_INLINE, walk_one, w, 0);
}

/*
 * Takes the stack at the entry of the probed function, by frame pointers. Not by bpf_get_stack(): its walk ends where a
 * read faults (main's frame pointer is libc's garbage), and that one exception costs more than the whole walk (1.2 us of
 * 1.9 us measured for 20 frames in a virtual machine); kernels before 6.10 also skip the caller. Here the stack is
 * copied in pieces and walked in the copy, and the chain ends where it stops going up.
 */
static __always_inline void take_stack(struct pt_regs *ctx, struct books *b, __u32 pid, struct thread_state *ts)
{
	struct event_stack *out = &ts->out;
	__u64 sp, ra = 0, key;
	__u32 n, reason, one = 1;
	struct walk w = { .ts = ts, .hash = 0xcbf29ce484222325ull ^ b->gen };

	ts->stack = 0;
	sp = PT_REGS_SP(ctx);
	w.fp = PT_REGS_FP(ctx);
	w.base = sp;
	w.len = 0;
	if (!fill_chunk(&w, sp)) {
		ts->stack_reason = STACK_FAULT;
		count(COUNTER_STACK_FAULT);
		return;
	}
#if defined(__TARGET_ARCH_arm64)
	ra = ctx->user_regs.regs[30];
#else
	ra = ts->chunk[0];
#endif
	walk_add(&w, PT_REGS_IP(ctx));
	walk_add(&w, ra);
	if (w.fp > sp && w.fp - sp <= FRAME_BYTES_MAX && !(w.fp & 7))
		walk_all(&w);
	reason = w.is_cut ? STACK_DEPTH : STACK_OK;
	n = w.n;
	key = w.hash | 1; /* 0 means no stack */
	ts->stack = key;
	ts->stack_reason = reason;
	if (bpf_map_lookup_elem(&stacks, &key))
		return;

	out->head.type = EVENT_STACK;
	out->head.class = 0;
	out->head.flags = 0;
	out->head.stack_reason = reason;
	out->head.call = ts->call;
	out->head.pid = pid;
	out->head.tid = (__u32)bpf_get_current_pid_tgid();
	out->head.start_ns = b->start_ns;
	out->head.time_ns = bpf_ktime_get_ns();
	out->head.stack = key;
	out->head.device = EVENT_NO_DEVICE;
	out->count = n;
	__u64 size = offsetof(struct event_stack, ip) + (__u64)(n & 127) * sizeof(__u64);

	if (bpf_ringbuf_output(&ring, out, size, BPF_RB_FORCE_WAKEUP)) {
		ts->stack = 0;
		ts->stack_reason = STACK_LOST;
		count(COUNTER_STACK_LOST);
		return;
	}
	bpf_map_update_elem(&stacks, &key, &one, BPF_ANY);
}

#endif
