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

/*
 * The first that a change adds to: one of the counts that the daemon compares. The room in the ring is taken before it, and
 * filled after all other sums. So whoever reads the count finds the news in the ring, or the place where it will be, and
 * whoever finds a sum changed finds the count changed too; or else a program that is interrupted between the two, as when a
 * hypervisor takes its processor away, looks like books that are wrong. What is fetched orders memory, on processors that
 * would put an add without it before the stores of the reservation.
 */
static __always_inline void add_first(__u64 *p, __u64 n)
{
	__u64 was = __sync_fetch_and_add(p, n);

	asm volatile("" : : "r"(was));
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

/*
 * Each process may wake the daemon WAKES_BURST times at once, and every WAKE_NS for ever. News beyond that wait until the
 * daemon looks by itself, which is soon after it was woken (drain_interval): a loop of failing calls, or of allocations
 * that cross a limit, costs it no more than so many wakes.
 */
#define WAKE_NS 10000000
#define WAKES_BURST 32

/* Pays once out of a budget that holds so many times the price. */
static __always_inline bool may_pay(__u64 *paid_ns, __u64 now_ns, __u64 price_ns, __u64 times)
{
	__u64 paid = *paid_ns;

	/* Two threads may pay for one: so what. */
	if (paid < now_ns)
		paid = now_ns;
	if (paid - now_ns >= times * price_ns)
		return false;
	*paid_ns = paid + price_ns;
	return true;
}

static __always_inline bool may_wake(struct books *b, __u64 now_ns)
{
	return may_pay(&b->wakes_paid_ns, now_ns, WAKE_NS, WAKES_BURST);
}

/* The same for all processes that come and go, together: when there are very many each wake finds several. */
#define LIFE_NS 5000000
#define LIVES_BURST 64

static __always_inline bool may_wake_for_life(__u64 now_ns)
{
	return may_pay(&lives_paid_ns, now_ns, LIFE_NS, LIVES_BURST);
}

#define PID_LEVELS_MAX 32 /* MAX_PID_NS_LEVEL of the kernel */

/* The number of a task's thread id structure in the daemon's PID namespace; 0 = it is not in there. */
static __noinline __u32 number_in_namespace(struct pid *p)
{
	__u32 level = BPF_CORE_READ(p, level);

	for (__u32 i = 0; i <= PID_LEVELS_MAX; i++) {
		struct upid *u = (void *)p + bpf_core_field_offset(struct pid, numbers) + i * bpf_core_type_size(struct upid);

		if (i > level)
			break;
		if (BPF_CORE_READ(u, ns, ns.inum) == pid_ns)
			return BPF_CORE_READ(u, nr);
	}
	return 0;
}

/* Pid and tid are those of the daemon's PID namespace, so that they mean something in its /proc. */
static __always_inline __u32 pid_of(struct task_struct *t)
{
	return pid_ns ? number_in_namespace(BPF_CORE_READ(t, group_leader, thread_pid)) : t->tgid;
}

static __always_inline __u32 current_pid(void)
{
	return pid_ns ? pid_of(bpf_get_current_task_btf()) : bpf_get_current_pid_tgid() >> 32;
}

static __always_inline __u32 current_tid(void)
{
	return pid_ns ? number_in_namespace(BPF_CORE_READ(bpf_get_current_task_btf(), thread_pid)) :
			(__u32)bpf_get_current_pid_tgid();
}

static __always_inline void event_fill(struct event *ev, __u32 type, __u32 pid, __u64 start_ns, __u64 now_ns)
{
	__builtin_memset(ev, 0, sizeof(*ev));
	ev->type = type;
	ev->pid = pid;
	ev->tid = current_tid();
	ev->start_ns = start_ns;
	ev->time_ns = now_ns;
	ev->device = EVENT_NO_DEVICE;
	ev->stack_reason = STACK_NONE;
}

static __always_inline struct event *event_reserve(struct books *b, __u32 pid, __u32 type, __u64 now_ns)
{
	struct event *ev = bpf_ringbuf_reserve(&ring, sizeof(*ev), 0);

	if (!ev) {
		lost(b);
		return NULL;
	}
	event_fill(ev, type, pid, b->start_ns, now_ns);
	return ev;
}

/*
 * The same where sums are changed between it and the submit. ret_there: whether it is there, to be asked in the place of the
 * pointer. Linux 6.1 thinks that a pointer that was tested may still be NULL at a second test, and that its room is then kept
 * for ever; the compiler must not know that the two are one. If not, it is for the caller to count the loss, as the last that
 * it does: a rebuild that has seen the loss must see the sums too.
 */
static __always_inline struct event *event_room(struct books *b, __u32 pid, __u32 type, __u64 now_ns, __u64 *ret_there)
{
	struct event *ev = bpf_ringbuf_reserve(&ring, sizeof(*ev), 0);
	__u64 there = 0;

	if (ev) {
		event_fill(ev, type, pid, b->start_ns, now_ns);
		there = 1;
	}
	asm volatile("" : "+r"(there));
	*ret_there = there;
	return ev;
}

static __always_inline void event_submit(struct event *ev, bool urgent)
{
	count(COUNTER_EVENTS);
	bpf_ringbuf_submit(ev, wake_flags(urgent));
}

static __always_inline void say(struct books *b, __u32 pid, __u32 type)
{
	struct event *ev = event_reserve(b, pid, type, bpf_ktime_get_ns());

	if (!ev)
		return;
	ev->live_bytes = b->device_bytes;
	event_submit(ev, may_wake_for_life(ev->time_ns));
}

static __always_inline void mark_dead(__u32 gen, __u32 has_live)
{
	if (bpf_map_update_elem(&dead, &gen, &has_live, BPF_ANY))
		count(COUNTER_MAP_FULL);
}

/* The books of the current process, if it has any. */
static __always_inline struct books *books_find(__u32 pid)
{
	struct books *b = bpf_map_lookup_elem(&processes, &pid);

	return b && b->start_ns == bpf_get_current_task_btf()->group_leader->start_boottime ? b : NULL;
}

static __always_inline bool is_traced(__u32 pid)
{
	return !filter_pids || bpf_map_lookup_elem(&pid_filter, &pid);
}

/* ... made at its first call. NULL: no room (counted). They are filled in the thread's own memory: a program's stack has
 * no room for them on kernels before 6.12. */
static __noinline struct books *books_make(__u32 pid, struct thread_state *ts)
{
	struct books *b = bpf_map_lookup_elem(&processes, &pid), *fresh;
	long r;

	_Static_assert(sizeof(*b) <= sizeof(ts->chunk), "books in the chunk");
	if (!ts)
		return NULL;
	if (b && b->start_ns == bpf_get_current_task_btf()->group_leader->start_boottime)
		return b; /* another thread was quicker */
	if (b) { /* the pid was reused and its exit was not seen */
		mark_dead(b->gen, b->live_count + b->framework_live_count > 0);
		bpf_map_delete_elem(&processes, &pid);
	}
	fresh = (void *)ts->chunk;
	__builtin_memset(fresh, 0, sizeof(*fresh));
	fresh->gen = __sync_fetch_and_add(&next_gen, 1);
	fresh->start_ns = bpf_get_current_task_btf()->group_leader->start_boottime;
	fresh->bound_high = ~0ull;
	fresh->bound_single = ~0ull;
	r = bpf_map_update_elem(&processes, &pid, fresh, BPF_NOEXIST);

	b = bpf_map_lookup_elem(&processes, &pid);
	if (!b) {
		count(COUNTER_PROCESS_FULL);
		return NULL;
	}
	if (r == 0)
		say(b, pid, EVENT_PROCESS);
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

/* A block has left the live map: take it out of the totals and say so. Imported memory that was opened several times and
 * goes all at once is n blocks, with one event. */
static __always_inline void book_end(struct books *b, __u32 pid, const struct live_key *key, const struct live_value *v,
				     __u32 call, __u32 flags, __u64 n)
{
	__u64 bytes = v->bytes, before, after, there;
	struct event *ev = event_room(b, pid, EVENT_FREE, bpf_ktime_get_ns(), &there);

	if (v->class == CLASS_FRAMEWORK) {
		add_first(&b->framework_free_count, 1);
		add(&b->framework_live_count, -1ull);
	} else {
		add_first(&b->free_count, n);
		add(&b->live_count, -n);
	}
	add(&b->live_bytes[v->class & (CLASS_SLOTS - 1)], -(n * bytes));
	if (is_device_class(v->class)) {
		before = __sync_fetch_and_add(&b->device_bytes, -bytes);
		after = before - bytes;
	} else {
		before = after = b->device_bytes;
	}
	if (!there) {
		lost(b);
		return;
	}
	ev->class = v->class;
	ev->kind = key->kind;
	ev->flags = flags | (crossed(b, before, after) ? EVENT_F_CROSSED : 0);
	ev->call = call;
	ev->addr = key->addr;
	ev->bytes = bytes;
	ev->stack = v->stack;
	ev->birth_ns = v->birth_ns;
	ev->live_bytes = after;
	ev->device = v->device;
	event_submit(ev, ev->flags & EVENT_F_CROSSED && may_wake(b, ev->time_ns));
}

static __always_inline void book_free(struct books *b, __u32 pid, const struct live_key *key, const struct live_value *v,
				      __u32 call, __u32 flags)
{
	book_end(b, pid, key, v, call, flags, 1);
}

static __always_inline void book_free_all(struct books *b, __u32 pid, const struct live_key *key,
					  const struct live_value *v, __u32 call, __u32 flags)
{
	book_end(b, pid, key, v, call, flags, v->refs > 1 ? v->refs : 1);
}

static __always_inline void book_unknown_free(struct books *b, __u32 pid, const struct live_key *key, __u32 call,
					      __u32 class)
{
	struct event *ev;
	__u64 there;

	if (class == CLASS_FRAMEWORK) { /* as many as a framework's cache held before us: no news */
		count(COUNTER_FRAMEWORK_UNKNOWN);
		return;
	}
	ev = event_room(b, pid, EVENT_FREE, bpf_ktime_get_ns(), &there);
	add_first(&b->unknown_free_count, 1);
	if (!there) {
		lost(b);
		return;
	}
	ev->class = class;
	ev->kind = key->kind;
	ev->flags = EVENT_F_UNKNOWN;
	ev->call = call;
	ev->addr = key->addr;
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

/* All that enter and leave the live map do it here, so that its entries are counted. */
static __always_inline bool live_add(const struct live_key *key, const struct live_value *v)
{
	if (bpf_map_update_elem(&live, key, v, BPF_NOEXIST))
		return false;
	add(&live_blocks, 1);
	return true;
}

static __always_inline bool live_remove(const struct live_key *key)
{
	if (bpf_map_delete_elem(&live, key))
		return false;
	add(&live_blocks, -1ull);
	return true;
}

/*
 * Whoever takes most leaves room for the others: of the last 1/32 of the map a process gets more only while it holds less
 * than what is left (the dynamic threshold of shared buffers, Choudhury and Hahne, 1998). Large ones stop there, however
 * many they are; each further process may take half of the rest.
 */
#define LIVE_RESERVE 32

static __always_inline bool has_its_share(struct books *b)
{
	__u64 own = b->live_count + b->framework_live_count, used = live_blocks, left = used < live_max ? live_max - used : 0;

	return left <= live_max / LIVE_RESERVE && own && own >= left;
}

/* pool.h */
static __always_inline void pool_give(struct books *b, const struct live_value *v);

/* Imported memory is opened again at the same address: a block of its own, that needs a free of its own. */
static __always_inline bool share_block(const struct live_key *key, const struct live_value *v)
{
	struct live_value *old = bpf_map_lookup_elem(&live, key);

	if (!old || old->class != v->class || old->bytes != v->bytes)
		return false;
	__sync_fetch_and_add(&old->refs, 1);
	return true;
}

/* Puts the block into the live map; false: it is not in there. */
static __always_inline bool keep_block(struct books *b, __u32 pid, const struct live_key *key, struct live_value *v,
				       bool is_shared)
{
	struct live_value *old;

	if (v->bytes > BYTES_MAX)
		return false;
	if (has_its_share(b)) {
		count(COUNTER_LIVE_SHARE);
		return false;
	}
	if (live_add(key, v))
		return true;
	if (is_shared && share_block(key, v))
		return true;
	/* The address is still in the books (its free was not seen), or there is no room. */
	old = bpf_map_lookup_elem(&live, key);
	if (old) {
		struct live_value was = *old;

		if (live_remove(key)) {
			pool_give(b, &was);
			book_free_all(b, pid, key, &was, v->call, EVENT_F_REPLACED);
		}
	}
	if (live_add(key, v))
		return true;
	count(COUNTER_LIVE_FULL);
	return false;
}

/* False: it is not in the live map, nor in the totals. */
static __always_inline bool book_alloc(struct books *b, __u32 pid, const struct live_key *key, struct live_value *v,
				       __u32 stack_reason, bool is_shared)
{
	__u64 before, after, there;
	bool tracked, urgent;
	struct event *ev;

	v->birth_ns = bpf_ktime_get_ns();
	tracked = keep_block(b, pid, key, v, is_shared);
	ev = event_room(b, pid, EVENT_ALLOC, v->birth_ns, &there);
	if (v->class == CLASS_FRAMEWORK)
		add_first(&b->framework_alloc_count, 1);
	else
		add_first(&b->alloc_count, 1);
	before = after = b->device_bytes;
	if (!tracked) {
		add(&b->untracked_count, 1);
		add(&b->untracked_bytes, v->bytes > BYTES_MAX ? BYTES_MAX : v->bytes);
	} else {
		add(&b->live_bytes[v->class & (CLASS_SLOTS - 1)], v->bytes);
		add(v->class == CLASS_FRAMEWORK ? &b->framework_live_count : &b->live_count, 1);
		if (is_device_class(v->class)) {
			before = __sync_fetch_and_add(&b->device_bytes, v->bytes);
			after = before + v->bytes;
			raise_peak(b, after);
		}
	}
	if (!there) {
		lost(b);
		return tracked;
	}
	urgent = crossed(b, before, after) || (is_device_class(v->class) && v->bytes >= b->bound_single);
	ev->class = v->class;
	ev->kind = key->kind;
	ev->flags = (urgent ? EVENT_F_CROSSED : 0) | (tracked ? 0 : EVENT_F_UNTRACKED);
	ev->call = v->call;
	ev->addr = key->addr;
	ev->bytes = v->bytes;
	ev->stack = v->stack;
	ev->stack_reason = stack_reason;
	ev->birth_ns = v->birth_ns;
	ev->live_bytes = after;
	ev->device = v->device;
	event_submit(ev, urgent && may_wake(b, v->birth_ns));
	return tracked;
}

static __always_inline void book_fail(struct books *b, __u32 pid, __u64 bytes, __s32 error, __u32 call, __u32 class,
				      __s32 device, __u64 stack, __u32 stack_reason)
{
	__u64 there;
	struct event *ev = event_room(b, pid, EVENT_FAIL, bpf_ktime_get_ns(), &there);

	add_first(&b->fail_count, 1);
	if (!there) {
		lost(b);
		return;
	}
	ev->class = class;
	ev->call = call;
	ev->bytes = bytes;
	ev->error = error;
	ev->stack = stack;
	ev->stack_reason = stack_reason;
	ev->live_bytes = b->device_bytes;
	ev->device = device;
	event_submit(ev, may_wake(b, ev->time_ns));
}

#endif
