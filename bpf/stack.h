/* SPDX-License-Identifier: MIT */
/* User stacks by frame pointer, each sent once. */
#ifndef GPUXRAY_STACK_H
#define GPUXRAY_STACK_H

#include "books.h"

/*
 * Takes the stack at the entry of the probed function. The kernel's walk starts from the frame pointer, which at entry is
 * still the caller's, so kernels before 6.10 miss the caller itself: the return address is read from the stack and put
 * back where it is missing. Two slots are kept free before the walk for that.
 */
static __always_inline void take_stack(struct pt_regs *ctx, struct books *b, __u32 pid, struct thread_state *ts)
{
	struct event_stack *out = &ts->out;
	__u64 hash = 0xcbf29ce484222325ull ^ b->gen, ra = 0, key;
	__u32 first, n, reason = STACK_OK, one = 1;
	long bytes;

	ts->stack = 0;
	bytes = bpf_get_stack(ctx, &out->ip[1], (EVENT_STACK_MAX - 1) * sizeof(__u64), BPF_F_USER_STACK);
	if (bytes < (long)sizeof(__u64)) {
		ts->stack_reason = STACK_FAULT;
		count(COUNTER_STACK_FAULT);
		return;
	}
	n = ((__u32)bytes / sizeof(__u64)) & 127;
	first = 1;
#if defined(__TARGET_ARCH_x86)
	if (bpf_probe_read_user(&ra, sizeof(ra), (void *)PT_REGS_SP(ctx)) == 0 && ra && (n < 2 || out->ip[2] != ra)) {
		out->ip[0] = out->ip[1];
		out->ip[1] = ra;
		first = 0;
		n++;
	}
#endif
	if (n >= EVENT_STACK_MAX - 1)
		reason = STACK_DEPTH;
	for (__u32 i = 0; i < EVENT_STACK_MAX; i++) {
		if (i >= n + first)
			break;
		if (i >= first)
			hash = (hash ^ out->ip[i]) * 0x9e3779b97f4a7c15ull, hash ^= hash >> 29;
	}
	key = hash | 1; /* 0 means no stack */
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
	out->pad = first; /* words to skip */
	out->count = n;
	__u64 size = offsetof(struct event_stack, ip) + (n + first) * sizeof(__u64);

	if (size > sizeof(*out))
		size = sizeof(*out);
	if (bpf_ringbuf_output(&ring, out, size, BPF_RB_FORCE_WAKEUP)) {
		ts->stack = 0;
		ts->stack_reason = STACK_LOST;
		count(COUNTER_STACK_LOST);
		return;
	}
	bpf_map_update_elem(&stacks, &key, &one, BPF_ANY);
}

#endif
