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

/*
 * Frames of functions that call each other lie one behind the other in memory of the interpreter's own: several come with
 * one read, which goes back from the innermost and never before its page, where memory may end.
 */
#define PYTHON_CHUNK 1024
#define PYTHON_SINGLE 128
#define PYTHON_NEAR 4096

/*
 * The check word of a code object costs a read of its own, which would be half of the walk. It is read for the innermost
 * frames, where code comes and goes, and for any other frame at one event in so many: only for so long can a code object
 * be taken for one that was freed and had the same address and the same place in it.
 */
#define PYTHON_CHECKED_FRAMES 4
#define PYTHON_CHECK_EVERY 16
#define PYTHON_CHECKS 32

struct python_check {
	__u64 code;
	__u32 check;
	__u32 event; /* at which it was read */
};

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
	__u64 next_interp, interp, next_state;
	/* the walk */
	__u64 frame, cframe;
	__u64 last;	  /* the frame before */
	__u64 chunk_base; /* address of chunk[0] */
	__u32 chunk_bytes; /* that are filled */
	__u32 events;
	struct python_check checks[PYTHON_CHECKS];
	__u64 words[16]; /* PYTHON_CHECK_WORDS_MAX; sixteen so that a mask bounds the index */
	__u64 text[PYTHON_TEXT_WORDS];
	__u8 state_copy[PYTHON_THREAD_BYTES_MAX];
	__u8 chunk[PYTHON_CHUNK];
	__u8 single[PYTHON_SINGLE]; /* behind chunk: one offset leads to both */
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
#if defined(__TARGET_ARCH_x86)
	unsigned long fsbase;
#else
	struct {
		unsigned long tp_value;
	} uw;
#endif
} __attribute__((preserve_access_index));

struct task_struct___python {
	struct thread_struct___python thread;
} __attribute__((preserve_access_index));

/* What lives on the stack during the loops: pointers only, the rest is in the thread's own memory. */
struct python_ctx {
	const struct python_process *p;
	struct python_thread *t;
	__u64 id; /* of the search: the thread pointer */
	__u64 sp;
};

/* The thread pointer. arm64: as it was when another thread last ran here; a thread other than the first has it from its
 * birth, the first sets it before main(). */
static __always_inline __u64 python_self(void)
{
	struct task_struct___python *task = (void *)bpf_get_current_task_btf();

#if defined(__TARGET_ARCH_x86)
	return task->thread.fsbase;
#else
	return task->thread.uw.tp_value;
#endif
}

/*
 * CPython stores pthread_self() as thread_id. With glibc and musl that is the thread pointer on x86-64; on arm64 it lies
 * below by the size of their struct pthread (glibc 2.36: 1,856 bytes, musl less), which no two threads' share.
 */
#define PYTHON_SELF_BYTES 4096
static __always_inline bool python_is_self(__u64 thread_id, __u64 self)
{
#if defined(__TARGET_ARCH_x86)
	return thread_id == self;
#else
	return self - thread_id < PYTHON_SELF_BYTES;
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

	if (!t->next_state) {
		t->interp = t->next_interp;
		if (!t->interp) {
			t->is_clean = 1;
			return 1;
		}
		t->next_state = python_word(t->interp, p->interp_threads, &fault);
		t->next_interp = python_word(t->interp, p->interp_next, &fault);
		return fault;
	}
	/* Other threads come and go meanwhile: what was found must belong where it was found. */
	if (python_is_self(python_word(t->next_state, p->thread_id, &fault), c->id) &&
	    python_word(t->next_state, p->thread_interp, &fault) == t->interp && !fault) {
		t->state = t->next_state;
		return 1;
	}
	t->next_state = python_word(t->next_state, p->thread_next, &fault);
	return fault;
}

static __always_inline void python_search(struct python_ctx *c)
{
	struct python_thread *t = c->t;
	bool fault = false;
	__u64 first;

	t->state = 0;
	t->is_clean = 0;
	t->next_state = 0;
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

static __always_inline __u64 python_state_word(struct python_thread *t, __u32 offset)
{
	return *(__u64 *)(t->state_copy + (offset & (PYTHON_THREAD_BYTES_MAX - 8)));
}

static __always_inline bool python_read_state(struct python_ctx *c)
{
	return bpf_probe_read_user(c->t->state_copy, c->p->thread_bytes & (PYTHON_THREAD_BYTES_MAX - 1),
				   (void *)c->t->state) == 0;
}

/* The remembered state is this thread's and still in its interpreter's list; memory that was freed keeps its words. */
static __always_inline bool python_state_holds(struct python_ctx *c)
{
	const struct python_process *p = c->p;
	struct python_thread *t = c->t;
	bool fault = false;
	__u64 prev, link;

	if (!python_read_state(c) || !python_is_self(python_state_word(t, p->thread_id), c->id))
		return false;
	prev = python_state_word(t, p->thread_prev);
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

	frame = python_state_word(c->t, p->thread_frame);
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
	barrier_var(n); /* see python_frame_step() */
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

static __always_inline bool python_is_near(__u64 a, __u64 b)
{
	return a - b + PYTHON_NEAR < 2 * PYTHON_NEAR;
}

/* Brings the frame into memory: its offset from t->chunk, more than PYTHON_CHUNK if it cannot be read. */
static __always_inline __u32 python_load(struct python_ctx *c, __u64 at)
{
	const __u32 bytes = c->p->frame_bytes & 127;
	struct python_thread *t = c->t;
	__u64 base, len, end = at + bytes;

	if (at >= t->chunk_base && end <= t->chunk_base + t->chunk_bytes)
		return at - t->chunk_base;
	/* A frame by itself: of a generator, or on the C stack. */
	if (!(c->p->flags & (PYTHON_HAS_SHIM | PYTHON_HAS_ENTRY)) ||
	    (t->last && !python_is_near(at, t->last) && !python_is_near(at, t->chunk_base))) {
		t->last = at;
		return bpf_probe_read_user(t->single, bytes, (void *)at) ? ~0u : PYTHON_CHUNK;
	}
	t->last = at;
	base = end - PYTHON_CHUNK;
	if (base < (at & ~4095ull))
		base = at & ~4095ull;
	base = (base + 7) & ~7ull;
	len = end - base;
	if (len > PYTHON_CHUNK || bpf_probe_read_user(t->chunk, len, (void *)base)) {
		t->chunk_bytes = 0;
		return ~0u;
	}
	t->chunk_base = base;
	t->chunk_bytes = len;
	return at - base;
}

/* The start of a str, as far as its page goes. */
static __always_inline const __u64 *python_text(struct python_thread *t, __u64 str)
{
	__u64 from = str + PYTHON_TEXT_AT, len = 4096 - (from & 4095);

	__builtin_memset(t->text, 0, sizeof(t->text));
	if (len > sizeof(t->text))
		len = sizeof(t->text);
	bpf_probe_read_user(t->text, len, (void *)from); /* zeros if it cannot be read */
	return t->text;
}

/* The code object's check word. False: it cannot be read. */
static __always_inline bool python_check(struct python_ctx *c, __u64 code, __u32 n, __u32 *ret)
{
	struct python_thread *t = c->t;
	const __u32 words = c->p->check_words & 15;
	struct python_check *known = &t->checks[(code >> 4 ^ code >> 12) & (PYTHON_CHECKS - 1)];

	if (n >= PYTHON_CHECKED_FRAMES && known->code == code && t->events - known->event < PYTHON_CHECK_EVERY) {
		*ret = known->check;
		return true;
	}
	if (!words) {
		if (bpf_probe_read_user(ret, sizeof(*ret), (void *)(code + c->p->code_check)))
			return false;
	} else {
		if (bpf_probe_read_user(t->words, words * 8, (void *)(code + c->p->code_check)))
			return false;
		*ret = python_check_text(python_check_of(t->words, words), python_text(t, t->words[c->p->check_file & 15]));
	}
	known->code = code;
	known->check = *ret;
	known->event = t->events;
	return true;
}

static __always_inline void python_fault(struct python_thread *t)
{
	t->out.flags |= PYTHON_F_FAULT;
	t->frame = 0;
}

static long python_frame_step(__u64 index, struct python_ctx *c)
{
	const struct python_process *p = c->p;
	struct python_thread *t = c->t;
	__u64 at = t->frame, code, instr;
	__u32 n = t->out.count, check = 0, off;
	struct python_frame *f;
	const __u8 *raw;
	bool fault = false;

	if (!at)
		return 1;
	off = python_load(c, at);
	if (off > PYTHON_CHUNK) {
		python_fault(t);
		return 1;
	}
	raw = t->chunk + off;
	code = *(__u64 *)(raw + (p->frame_code & 0x78)) & ~3ull; /* 3.14 keeps tags in the low bits */
	/* 3 and 4 mean "of the interpreter itself"; the one below the thread's first frame comes after a shim. */
	if ((p->flags & PYTHON_HAS_SHIM) && raw[p->frame_owner & 127] >= 3) {
		python_end_loop(t, python_place(at, c->sp));
		code = 0;
	}
	if (code) {
		if (n >= PYTHON_FRAMES_MAX)
			return 1;
		barrier_var(n); /* clang keeps the mask then, by which the verifier of Linux 6.1 knows the bound */
		f = &t->out.frame[n & (PYTHON_FRAMES_MAX - 1)];
		instr = *(__u64 *)(raw + (p->frame_instr & 0x78));
		if (p->flags & PYTHON_INSTR_INT)
			instr &= 0xffffffff;
		if (!python_check(c, code, n, &check)) {
			python_fault(t);
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
			if (raw[p->frame_entry & 127]) {
				python_end_loop(t, python_place(t->cframe, c->sp));
				t->cframe = python_word(t->cframe, p->cframe_previous, &fault);
			}
		} else if (!(p->flags & PYTHON_HAS_SHIM)) {
			python_end_loop(t, PYTHON_ENTRY_UNPLACED);
		}
	}
	t->frame = *(__u64 *)(raw + (p->frame_back & 0x78));
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
	t->last = 0;
	t->chunk_base = 0;
	t->chunk_bytes = 0; /* the frames have changed since */
	t->events++;

	if (t->serial != c.p->serial || !(t->state ? python_state_holds(&c) : python_none_holds(&c))) {
		t->serial = c.p->serial;
		for (__u32 i = 0; i < PYTHON_CHECKS; i++)
			t->checks[i].code = 0;
		python_search(&c);
		if (t->state && !python_read_state(&c))
			t->state = 0;
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
