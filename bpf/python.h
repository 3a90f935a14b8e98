/* SPDX-License-Identifier: MIT */
/*
 * The Python frames of the thread that runs the probe. It walks its own frames, so they stand still; whether the thread
 * holds the interpreter lock does not matter, because the thread state is found by the thread's own id and not as "the
 * current one". Needs kernel.h only.
 */
#ifndef GPUXRAY_PYTHON_H
#define GPUXRAY_PYTHON_H

#include "kernel.h"
#include "python_event.h"

/* Host pid -> layout, filled by the daemon. A process without Python costs one lookup. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 10000);
	__type(key, __u32);
	__type(value, struct python_process);
} python_processes SEC(".maps");

/* A thread's own: what it remembers of its thread state, and room to walk in. Frees itself with the thread. */
struct python_thread {
	__u64 state; /* its thread state as last found, 0 = none */
	/* How the thread states looked when none was found: none was added since if both are the same. */
	__u64 seen_interp;
	__u64 seen_count;
	__u64 seen_until_ns;
	__u32 serial;
	__u32 is_clean; /* the search came to the end of every list */
	/* the search; interp stays that of state */
	__u64 next_interp, interp, at;
	/* the walk */
	__u64 frame, cframe;
	__u8 raw[128];
	struct python_stack out;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct python_thread);
} python_threads SEC(".maps");

/* Thread states and interpreters looked at in one search, and how long "none" is believed at most. */
#define PYTHON_SEARCH_STEPS 4096
#define PYTHON_NONE_NS 1000000000ull
/* Between two frames lies at most one without code; a few more where generators are being set up. */
#define PYTHON_WALK_STEPS (2 * PYTHON_FRAMES_MAX + 16)

/* CO-RE drops what follows the three underscores. */
struct thread_struct___python {
	unsigned long fsbase;
} __attribute__((preserve_access_index));

struct task_struct___python {
	struct thread_struct___python thread;
} __attribute__((preserve_access_index));

/* What lives on the stack during the loops: pointers only, the rest is in the thread's own memory. */
struct python_ctx {
	const struct python_process *p;
	struct python_thread *t;
	__u64 id; /* of the search: pthread_self() */
	__u64 sp;
};

/* pthread_self(), which CPython stores as thread_id: on x86-64 the FS base, with glibc and musl. */
static __always_inline __u64 python_self(void)
{
#if defined(__TARGET_ARCH_x86)
	struct task_struct___python *task = (void *)bpf_get_current_task_btf();

	return task->thread.fsbase;
#else
	return 0; /* no process is in the map there */
#endif
}

static __always_inline __u64 python_word(__u64 addr, __u32 offset, bool *fault)
{
	__u64 w = 0;

	if (bpf_probe_read_user(&w, sizeof(w), (void *)(addr + offset)))
		*fault = true;
	return w;
}

static long python_search_step(__u64 index, struct python_ctx *c)
{
	const struct python_process *p = c->p;
	struct python_thread *t = c->t;
	bool fault = false;

	if (!t->at) {
		t->interp = t->next_interp;
		if (!t->interp) {
			t->is_clean = 1;
			return 1;
		}
		t->at = python_word(t->interp, p->interp_threads, &fault);
		t->next_interp = python_word(t->interp, p->interp_next, &fault);
		return fault;
	}
	/* Other threads come and go meanwhile: what was found must belong where it was found. */
	if (python_word(t->at, p->thread_id, &fault) == c->id &&
	    python_word(t->at, p->thread_interp, &fault) == t->interp && !fault) {
		t->state = t->at;
		return 1;
	}
	t->at = python_word(t->at, p->thread_next, &fault);
	return fault;
}

static __always_inline void python_search(struct python_ctx *c)
{
	struct python_thread *t = c->t;
	bool fault = false;
	__u64 first;

	t->state = 0;
	t->is_clean = 0;
	t->at = 0;
	t->interp = 0;
	t->seen_interp = 0;
	first = python_word(c->p->heads, 0, &fault);
	t->next_interp = first;
	if (fault || !first)
		return;
	/* Before the search, so that a state added meanwhile is seen as new. */
	t->seen_count = python_word(first, c->p->interp_thread_count, &fault);
	bpf_loop(PYTHON_SEARCH_STEPS, python_search_step, c, 0);
	/* One counter speaks for one interpreter; with several, "none" is not remembered. */
	if (!t->state && t->is_clean && python_word(first, c->p->interp_next, &fault) == 0 && !fault) {
		t->seen_interp = first;
		t->seen_until_ns = bpf_ktime_get_ns() + PYTHON_NONE_NS;
	}
}

/* The remembered state is this thread's and still in its interpreter's list; memory that was freed keeps its words. */
static __always_inline bool python_state_holds(struct python_ctx *c)
{
	const struct python_process *p = c->p;
	struct python_thread *t = c->t;
	bool fault = false;
	__u64 prev, link;

	if (python_word(t->state, p->thread_id, &fault) != c->id)
		return false;
	prev = python_word(t->state, p->thread_prev, &fault);
	link = prev ? python_word(prev, p->thread_next, &fault) : python_word(t->interp, p->interp_threads, &fault);
	return link == t->state && !fault;
}

/* A search that found nothing would find nothing now. */
static __always_inline bool python_none_holds(struct python_ctx *c)
{
	struct python_thread *t = c->t;
	bool fault = false, same;

	same = t->seen_interp && python_word(c->p->heads, 0, &fault) == t->seen_interp &&
	       python_word(t->seen_interp, c->p->interp_thread_count, &fault) == t->seen_count;
	return same && !fault && bpf_ktime_get_ns() < t->seen_until_ns;
}

static __always_inline __u64 python_first_frame(struct python_ctx *c)
{
	const struct python_process *p = c->p;
	bool fault = false;
	__u64 frame;

	frame = python_word(c->t->state, p->thread_frame, &fault);
	if ((p->flags & PYTHON_HAS_CFRAME) && frame && !fault) {
		c->t->cframe = frame;
		frame = python_word(frame, p->cframe_frame, &fault);
	}
	if (fault)
		c->t->out.flags |= PYTHON_F_FAULT;
	return fault ? 0 : frame;
}

static __always_inline __u32 python_place(__u64 addr, __u64 sp)
{
	__u64 d = (addr - sp) & ~7ull;

	/* Not above the stack pointer: the thread has switched stacks. */
	return addr <= sp || d < 8 || d >> 32 ? PYTHON_ENTRY_UNPLACED : (__u32)d;
}

/* The outermost frame of a loop was the one sent last. */
static __always_inline void python_end_loop(struct python_thread *t, __u32 place)
{
	__u32 n = t->out.count;
	struct python_frame *f;

	if (!n || n > PYTHON_FRAMES_MAX)
		return;
	f = &t->out.frame[(n - 1) & (PYTHON_FRAMES_MAX - 1)];
	if (f->entry)
		return;
	f->entry = place;
	t->out.hash = (t->out.hash ^ place) * 0x9e3779b97f4a7c15ull;
}

static __always_inline void python_hash(struct python_stack *out, __u64 w)
{
	__u64 h = (out->hash ^ w) * 0x9e3779b97f4a7c15ull;

	out->hash = h ^ h >> 29;
}

static __always_inline __u64 python_raw(struct python_thread *t, __u32 offset)
{
	return *(__u64 *)(t->raw + (offset & 0x78));
}

static long python_frame_step(__u64 index, struct python_ctx *c)
{
	const struct python_process *p = c->p;
	struct python_thread *t = c->t;
	__u64 at = t->frame, code, instr;
	__u32 n = t->out.count, check = 0;
	struct python_frame *f;
	bool fault = false;

	if (!at)
		return 1;
	if (bpf_probe_read_user(t->raw, p->frame_bytes & 127, (void *)at)) {
		t->out.flags |= PYTHON_F_FAULT;
		t->frame = 0;
		return 1;
	}
	code = python_raw(t, p->frame_code) & ~3ull; /* 3.14 keeps tags in the low bits */
	/* 3 and 4 mean "of the interpreter itself"; the one below the thread's first frame comes after a shim. */
	if ((p->flags & PYTHON_HAS_SHIM) && t->raw[p->frame_owner & 127] >= 3) {
		python_end_loop(t, python_place(at, c->sp));
		code = 0;
	}
	if (code) {
		if (n >= PYTHON_FRAMES_MAX)
			return 1;
		f = &t->out.frame[n & (PYTHON_FRAMES_MAX - 1)];
		instr = python_raw(t, p->frame_instr);
		if (p->flags & PYTHON_INSTR_INT)
			instr &= 0xffffffff;
		if (bpf_probe_read_user(&check, sizeof(check), (void *)(code + p->code_check))) {
			t->out.flags |= PYTHON_F_FAULT;
			t->frame = 0;
			return 1;
		}
		f->code = code;
		f->instr = instr;
		f->check = check;
		f->entry = 0;
		t->out.count = n + 1;
		python_hash(&t->out, code ^ (__u64)check << 32);
		python_hash(&t->out, instr);
		if (p->flags & PYTHON_HAS_ENTRY) {
			if (t->raw[p->frame_entry & 127]) {
				python_end_loop(t, python_place(t->cframe, c->sp));
				t->cframe = python_word(t->cframe, p->cframe_previous, &fault);
			}
		} else if (!(p->flags & PYTHON_HAS_SHIM)) {
			python_end_loop(t, PYTHON_ENTRY_UNPLACED);
		}
	}
	t->frame = python_raw(t, p->frame_back);
	return 0;
}

/*
 * start_ns is that of the current process. NULL: no Python is known in it, or no memory. Else the thread's own stack,
 * valid until its next walk; count may be 0.
 */
static __always_inline struct python_stack *python_walk(struct pt_regs *ctx, __u32 pid, __u64 start_ns)
{
	struct python_ctx c = { .sp = PT_REGS_SP(ctx) };
	struct python_thread *t;

	c.p = bpf_map_lookup_elem(&python_processes, &pid);
	if (!c.p || (c.p->start_ns && c.p->start_ns != start_ns))
		return NULL;
	t = bpf_task_storage_get(&python_threads, bpf_get_current_task_btf(), NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t)
		return NULL;
	c.t = t;
	c.id = python_self();
	t->out.count = 0;
	t->out.flags = 0;
	t->out.hash = c.p->serial;
	t->cframe = 0;
	t->frame = 0;

	if (t->serial != c.p->serial || !(t->state ? python_state_holds(&c) : python_none_holds(&c))) {
		t->serial = c.p->serial;
		python_search(&c);
	}
	if (!t->state) {
		t->out.flags |= PYTHON_F_NO_THREAD;
		return &t->out;
	}
	t->frame = python_first_frame(&c);
	bpf_loop(PYTHON_WALK_STEPS, python_frame_step, &c, 0);
	if (t->frame)
		t->out.flags |= PYTHON_F_TRUNCATED;
	return &t->out;
}

#endif
