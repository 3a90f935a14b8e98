/* SPDX-License-Identifier: MIT */
/* A resolver that notes what it tells the probe, and stacks of this process as the probe would send them. x86-64. */
#pragma once

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc/procfs.h"
#include "stack/learn.h"
#include "stack/resolver.h"
#include "test.h"
#include "unwind_probe.h"

#define NOTES_MAX 256

struct learn_note {
	uint64_t key;
	bool is_taken_away;
	struct stack_path path;
};

struct python_note {
	uint32_t pid;
	bool is_taken_away;
	struct python_process process;
};

struct fixture {
	struct objects *objects;
	struct allocators *allocators;
	struct resolver_options options;
	struct resolver *resolver;
	pthread_mutex_t lock; /* what follows is the resolver's thread's too */
	struct learn_note learned[NOTES_MAX];
	size_t learned_len;
	struct python_note python[NOTES_MAX];
	size_t python_len;
	int learn_error;
	bool is_held;	 /* the next call of learn does not return */
	bool is_holding; /* one does not return now */
};

/* Waits; for what another thread does. False after 5 s. */
#define WAIT_FOR(cond)                                                                                                 \
	({                                                                                                             \
		uint64_t until_ = clock_monotonic_ns() + 5 * NSEC_PER_SEC;                                             \
		while (!(cond) && clock_monotonic_ns() < until_)                                                       \
			(void)usleep(2000);                                                                            \
		(cond);                                                                                                \
	})

static inline int note_learn(uint64_t key, const struct stack_path *path, void *userdata)
{
	struct fixture *f = userdata;
	int r;

	pthread_mutex_lock(&f->lock);
	if (f->learned_len < NOTES_MAX) {
		struct learn_note *n = &f->learned[f->learned_len++];

		*n = (struct learn_note){ .key = key, .is_taken_away = !path };
		if (path)
			n->path = *path;
	}
	while (f->is_held) {
		f->is_holding = true;
		pthread_mutex_unlock(&f->lock);
		(void)usleep(2000);
		pthread_mutex_lock(&f->lock);
	}
	f->is_holding = false;
	r = f->learn_error;
	pthread_mutex_unlock(&f->lock);
	return r;
}

static inline int note_python(uint32_t pid, const struct python_process *p, void *userdata)
{
	struct fixture *f = userdata;

	pthread_mutex_lock(&f->lock);
	if (f->python_len < NOTES_MAX) {
		struct python_note *n = &f->python[f->python_len++];

		*n = (struct python_note){ .pid = pid, .is_taken_away = !p };
		if (p)
			n->process = *p;
	}
	pthread_mutex_unlock(&f->lock);
	return 0;
}

static inline size_t learned_len(struct fixture *f)
{
	size_t n;

	pthread_mutex_lock(&f->lock);
	n = f->learned_len;
	pthread_mutex_unlock(&f->lock);
	return n;
}

static inline size_t python_len(struct fixture *f)
{
	size_t n;

	pthread_mutex_lock(&f->lock);
	n = f->python_len;
	pthread_mutex_unlock(&f->lock);
	return n;
}

static inline void hold(struct fixture *f, bool on)
{
	pthread_mutex_lock(&f->lock);
	f->is_held = on;
	pthread_mutex_unlock(&f->lock);
}

static inline bool is_holding(struct fixture *f)
{
	bool is;

	pthread_mutex_lock(&f->lock);
	is = f->is_holding;
	pthread_mutex_unlock(&f->lock);
	return is;
}

static inline void fixture_free(struct fixture *f)
{
	if (!f)
		return;
	hold(f, false);
	resolver_free(f->resolver);
	objects_unref(f->objects);
	allocators_free(f->allocators);
	pthread_mutex_destroy(&f->lock);
	free(f);
}
DEFINE_CLEANUP(struct fixture, fixture_free)

/* Without a thread yet: the options are there. NULL: it failed. */
static inline struct fixture *fixture_options(uint32_t queue, uint32_t learned)
{
	struct fixture *f = calloc(1, sizeof(*f));
	size_t n = 0;

	if (!f)
		return NULL;
	(void)pthread_mutex_init(&f->lock, NULL);
	while (allocators_default[n])
		n++;
	if (objects_new("/proc", 64, &f->objects) < 0 ||
	    allocators_new((char *const *)allocators_default, n, &f->allocators) < 0) {
		fixture_free(f);
		return NULL;
	}
	f->options = (struct resolver_options){ .proc_root = "/proc", .objects = f->objects,
						.allocators = f->allocators, .queue = queue, .learned = learned,
						.learn = note_learn, .python = note_python, .userdata = f };
	return f;
}

static inline struct fixture *fixture_new(uint32_t queue, uint32_t learned)
{
	struct fixture *f = fixture_options(queue, learned);

	if (f && resolver_new(&f->options, &f->resolver) < 0) {
		fixture_free(f);
		return NULL;
	}
	return f;
}

static inline struct resolver_stats stats_of(struct fixture *f)
{
	struct resolver_stats st = {};

	resolver_stats(f->resolver, &st);
	return st;
}

/* 0: it is not there. */
static inline uint64_t start_of(pid_t pid)
{
	struct proc_stat st;

	return proc_stat_read("/proc", (uint32_t)pid, &st) == 0 ? ticks_to_ns(st.start_ticks) : 0;
}

static inline void end_child(pid_t *pid)
{
	if (*pid > 0) {
		(void)kill(*pid, SIGKILL);
		(void)waitpid(*pid, NULL, 0);
	}
	*pid = 0;
}

/* A copy of this process, with the same addresses, that does nothing. */
static inline pid_t fork_idle(void)
{
	const pid_t pid = fork();

	if (pid != 0)
		return pid;
	for (;;)
		(void)pause();
}

/*
 * The chain: outer() to inner(), each of which notes its return address. inner() calls the probe, which takes registers as
 * at a function's entry and jumps to the copying function, so that nothing lies between.
 */
#define CHAIN 3

extern struct probe_registers taken_registers;
void take_point(void);
void take_copy(void);

__asm__(".pushsection .bss\n"
	".hidden taken_registers\n"
	".balign 8\n"
	"taken_registers: .zero 64\n"
	".popsection\n"
	".pushsection .text\n"
	".globl take_point\n"
	".type take_point, @function\n"
	"take_point:\n"
	".cfi_startproc\n"
	"lea take_point(%rip), %rax\n"
	"mov %rax, taken_registers(%rip)\n"
	"mov %rsp, taken_registers+8(%rip)\n"
	"mov %rbp, taken_registers+16(%rip)\n"
	"mov %rbx, taken_registers+24(%rip)\n"
	"mov %r12, taken_registers+32(%rip)\n"
	"mov %r13, taken_registers+40(%rip)\n"
	"mov %r14, taken_registers+48(%rip)\n"
	"mov %r15, taken_registers+56(%rip)\n"
	"jmp take_copy\n"
	".cfi_endproc\n"
	".size take_point, .-take_point\n"
	".popsection\n");

static struct {
	uint8_t copy[STACK_COPY_MAX];
	size_t len;
	uint64_t chain[CHAIN]; /* return addresses of inner(), middle(), outer() */
} taken;

/* Where the main thread's stack ends: the 28th field. 0: not known. */
static inline uint64_t main_stack_end(void)
{
	char text[1024] = "", *p;
	FILE *f = fopen("/proc/self/stat", "re");
	uint64_t end = 0;

	if (!f)
		return 0;
	p = fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;
	for (int field = 2; p && field < 28; field++)
		p = strchr(p + 1, ' ');
	if (p)
		end = strtoull(p, NULL, 10);
	(void)fclose(f);
	return end;
}

/* The sanitizer has no say in it. */
__attribute__((used)) void take_copy(void)
{
	const uint64_t sp = taken_registers.sp, end = main_stack_end();
	const size_t want = end > sp && end - sp <= sizeof(taken.copy) ? (size_t)(end - sp) : 0;
	struct iovec to = { taken.copy, want }, from = { (void *)sp, want };

	taken.len = want && process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)want ? want : 0;
}

static volatile int chain_sink;

__attribute__((noinline)) static void inner(void)
{
	taken.chain[0] = (uint64_t)__builtin_return_address(0);
	take_point();
	chain_sink++;
}

/* Two places to call from, in one frame. */
__attribute__((noinline)) static void middle(bool is_second)
{
	taken.chain[1] = (uint64_t)__builtin_return_address(0);
	/* Different enough before and behind not to be made one. */
	if (is_second) {
		__asm__ volatile("nop");
		inner();
		__asm__ volatile("nop");
	} else {
		__asm__ volatile("nop\nnop");
		inner();
		__asm__ volatile("nop\nnop");
	}
	chain_sink++;
}

__attribute__((noinline)) static void outer(bool is_second)
{
	taken.chain[2] = (uint64_t)__builtin_return_address(0);
	middle(is_second);
	chain_sink++;
}

/* What was taken last, as an event. NULL: it could not be. The caller frees. */
static inline struct event_stack *make_event(uint64_t number)
{
	const struct probe_registers *r = &taken_registers;
	struct event_stack *ev = taken.len ? calloc(1, sizeof(*ev) + taken.len) : NULL;

	if (!ev)
		return NULL;
	ev->head.type = EVENT_STACK;
	ev->head.pid = (uint32_t)getpid();
	ev->head.start_ns = start_of(getpid());
	ev->head.time_ns = clock_monotonic_ns();
	ev->head.stack = number;
	ev->path = stack_hash_word(stack_hash_word(STACK_HASH_INIT, r->ip), taken.len);
	ev->regs = (struct stack_registers){ .ip = r->ip, .sp = r->sp, .bp = r->bp, .bx = r->bx, .r12 = r->r12,
					     .r13 = r->r13, .r14 = r->r14, .r15 = r->r15 };
	ev->copy_bytes = (uint32_t)taken.len;
	memcpy(ev->copy, taken.copy, taken.len);
	return ev;
}

__attribute__((noinline)) static struct event_stack *take_event(uint64_t number, bool is_second)
{
	outer(is_second);
	return make_event(number);
}

/* Puts another word in place of this one, wherever it is. False: it is not there. */
static inline bool tamper(struct event_stack *ev, uint64_t word, uint64_t other)
{
	bool is_there = false;

	for (size_t i = 0; i + 8 <= ev->copy_bytes; i += 8) {
		if (memcmp(ev->copy + i, &word, 8) == 0) {
			memcpy(ev->copy + i, &other, 8);
			is_there = true;
		}
	}
	return is_there;
}

/* Gives it to the resolver. The caller has a reference. */
static inline struct stack *push(struct fixture *f, const struct event_stack *ev)
{
	struct stack *s = stack_new(ev);

	if (s)
		resolver_push(f->resolver, s);
	return s;
}

/* Gives it to the resolver and waits for the answer. */
static inline struct stack *push_wait(struct fixture *f, const struct event_stack *ev)
{
	struct stack *s = push(f, ev);

	if (!s || !stack_wait(s, clock_monotonic_ns() + 10 * NSEC_PER_SEC)) {
		printf("# %s:%d: no answer\n", __FILE__, __LINE__);
		test_failures++;
	}
	return s;
}

static inline void count_taken(struct stack *s, void *userdata)
{
	size_t *count = userdata;

	EXPECT(stack_is_done(s));
	(*count)++;
}
