/* SPDX-License-Identifier: MIT */
/* The books: processes, live blocks, totals, and the news of each change. */
#ifndef GPUXRAY_BOOKS_H
#define GPUXRAY_BOOKS_H

#include "maps.h"

/* A successful call that claims more is not believed: one such size would wrap the totals. 1 PiB. */
#define BYTES_MAX (1ull << 50)

static __always_inline void count(__u32 which)
{
	__u64 *c = bpf_map_lookup_elem(&counters, &which);

	if (c)
		(*c)++;
}

static __always_inline void add(__u64 *p, __u64 n)
{
	__sync_fetch_and_add(p, n);
}

/* Waking the daemon costs 6 us, an event without it 0.15 us: wake only for what cannot wait, or when half full. */
static __always_inline __u64 wake_flags(bool urgent)
{
	__u64 used;

	if (urgent)
		return BPF_RB_FORCE_WAKEUP;
	used = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);
	if (used >= ring_mark_bytes && used < ring_mark_bytes + 4096)
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

static __always_inline void lost(struct books *b)
{
	add(&b->lost_count, 1);
	count(COUNTER_LOST);
}

static __always_inline struct event *event_reserve(struct books *b, __u32 pid, __u32 type, __u64 now_ns)
{
	struct event *ev = bpf_ringbuf_reserve(&ring, sizeof(*ev), 0);

	if (!ev) {
		lost(b);
		return NULL;
	}
	__builtin_memset(ev, 0, sizeof(*ev));
	ev->type = type;
	ev->pid = pid;
	ev->tid = (__u32)bpf_get_current_pid_tgid();
	ev->start_ns = b->start_ns;
	ev->time_ns = now_ns;
	ev->device = EVENT_NO_DEVICE;
	ev->stack_reason = STACK_NONE;
	return ev;
}

static __always_inline void event_submit(struct event *ev, bool urgent)
{
	count(COUNTER_EVENTS);
	bpf_ringbuf_submit(ev, wake_flags(urgent));
}

static __always_inline void say(struct books *b, __u32 pid, __u32 type, bool urgent)
{
	struct event *ev = event_reserve(b, pid, type, bpf_ktime_get_ns());

	if (!ev)
		return;
	ev->live_bytes = b->device_bytes;
	event_submit(ev, urgent);
}

static __always_inline void mark_dead(struct books *b)
{
	__u32 gen = b->gen, has_live = b->live_count > 0;

	if (bpf_map_update_elem(&dead, &gen, &has_live, BPF_ANY))
		count(COUNTER_MAP_FULL);
}

/* The books of the current process, made at its first call. NULL: not to be traced, or no room (counted). */
static __noinline struct books *books_of_current(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	__u64 start = task->group_leader->start_boottime;
	struct books *b = bpf_map_lookup_elem(&processes, &pid);
	struct books fresh = {};

	if (b && b->start_ns == start)
		return b;
	if (filter_pids && !bpf_map_lookup_elem(&pid_filter, &pid))
		return NULL;
	if (b) { /* the pid was reused and its exit was not seen */
		mark_dead(b);
		bpf_map_delete_elem(&processes, &pid);
	}
	fresh.gen = __sync_fetch_and_add(&next_gen, 1);
	fresh.start_ns = start;
	fresh.bound_high = ~0ull;
	fresh.bound_single = ~0ull;
	long r = bpf_map_update_elem(&processes, &pid, &fresh, BPF_NOEXIST);

	b = bpf_map_lookup_elem(&processes, &pid);
	if (!b) {
		count(COUNTER_PROCESS_FULL);
		return NULL;
	}
	if (r == 0)
		say(b, pid, EVENT_PROCESS, true);
	return b;
}

static __always_inline bool is_device_class(__u32 class)
{
	return (CLASS_DEVICE_MASK >> (class & 31)) & 1;
}

static __always_inline bool crossed(struct books *b, __u64 before, __u64 after)
{
	return (after > b->bound_high && before <= b->bound_high) || (after < b->bound_low && before >= b->bound_low);
}

/* A block has left the live map: take it out of the totals and say so. */
static __always_inline void book_free(struct books *b, __u32 pid, __u64 addr, const struct live_value *v, __u32 call,
				      __u32 flags)
{
	__u64 bytes = v->bytes, before, after;
	struct event *ev;

	add(&b->live_bytes[v->class & (CLASS_MAX - 1)], -bytes);
	add(&b->live_count, -1ull);
	add(&b->free_count, 1);
	if (is_device_class(v->class)) {
		before = __sync_fetch_and_add(&b->device_bytes, -bytes);
		after = before - bytes;
	} else {
		before = after = b->device_bytes;
	}

	ev = event_reserve(b, pid, EVENT_FREE, bpf_ktime_get_ns());
	if (!ev)
		return;
	ev->class = v->class;
	ev->flags = flags | (crossed(b, before, after) ? EVENT_F_CROSSED : 0);
	ev->call = call;
	ev->addr = addr;
	ev->bytes = bytes;
	ev->stack = v->stack;
	ev->birth_ns = v->birth_ns;
	ev->live_bytes = after;
	ev->device = v->device;
	event_submit(ev, ev->flags & EVENT_F_CROSSED);
}

static __always_inline void book_unknown_free(struct books *b, __u32 pid, __u64 addr, __u32 call, __u32 class)
{
	struct event *ev;

	add(&b->unknown_free_count, 1);
	ev = event_reserve(b, pid, EVENT_FREE, bpf_ktime_get_ns());
	if (!ev)
		return;
	ev->class = class;
	ev->flags = EVENT_F_UNKNOWN;
	ev->call = call;
	ev->addr = addr;
	ev->live_bytes = b->device_bytes;
	event_submit(ev, false);
}

static __always_inline void raise_peak(struct books *b, __u64 now)
{
	for (int i = 0; i < 4; i++) {
		__u64 peak = b->peak_bytes;

		if (now <= peak || __sync_val_compare_and_swap(&b->peak_bytes, peak, now) == peak)
			return;
	}
}

static __always_inline void book_alloc(struct books *b, __u32 pid, const struct live_key *key, struct live_value *v,
				       __u32 stack_reason)
{
	__u64 before, after;
	struct live_value *old;
	bool tracked = v->bytes <= BYTES_MAX, urgent;
	struct event *ev;

	v->birth_ns = bpf_ktime_get_ns();
	if (!tracked || bpf_map_update_elem(&live, key, v, BPF_NOEXIST)) {
		/* The address is still in the books (its free was not seen), or there is no room. */
		old = bpf_map_lookup_elem(&live, key);
		if (old) {
			struct live_value was = *old;

			if (bpf_map_delete_elem(&live, key) == 0)
				book_free(b, pid, key->addr, &was, v->call, EVENT_F_REPLACED);
		}
		if (tracked && bpf_map_update_elem(&live, key, v, BPF_ANY)) {
			count(COUNTER_LIVE_FULL);
			tracked = false;
		}
	}
	add(&b->alloc_count, 1);
	before = after = b->device_bytes;
	if (!tracked) {
		add(&b->untracked_count, 1);
		add(&b->untracked_bytes, v->bytes);
	} else {
		add(&b->live_bytes[v->class & (CLASS_MAX - 1)], v->bytes);
		add(&b->live_count, 1);
		if (is_device_class(v->class)) {
			before = __sync_fetch_and_add(&b->device_bytes, v->bytes);
			after = before + v->bytes;
			raise_peak(b, after);
		}
	}

	ev = event_reserve(b, pid, EVENT_ALLOC, v->birth_ns);
	if (!ev)
		return;
	urgent = crossed(b, before, after) || (is_device_class(v->class) && v->bytes >= b->bound_single);
	ev->class = v->class;
	ev->flags = (urgent ? EVENT_F_CROSSED : 0) | (tracked ? 0 : EVENT_F_UNTRACKED);
	ev->call = v->call;
	ev->addr = key->addr;
	ev->bytes = v->bytes;
	ev->stack = v->stack;
	ev->stack_reason = stack_reason;
	ev->birth_ns = v->birth_ns;
	ev->live_bytes = after;
	ev->device = v->device;
	event_submit(ev, urgent);
}

static __always_inline void book_fail(struct books *b, __u32 pid, __u64 bytes, __s32 error, __u32 call, __u32 class,
				      __s32 device, __u64 stack, __u32 stack_reason)
{
	struct event *ev;

	add(&b->fail_count, 1);
	ev = event_reserve(b, pid, EVENT_FAIL, bpf_ktime_get_ns());
	if (!ev)
		return;
	ev->class = class;
	ev->call = call;
	ev->bytes = bytes;
	ev->error = error;
	ev->stack = stack;
	ev->stack_reason = stack_reason;
	ev->live_bytes = b->device_bytes;
	ev->device = device;
	event_submit(ev, true);
}

#endif
