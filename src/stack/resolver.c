/* SPDX-License-Identifier: MIT */
/* The resolver's thread and what goes in and out of it. */
#include "stack/resolver.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map64.h"
#include "base/privilege.h"
#include "base/thread.h"
#include "stack/resolve.h"

/* Jobs that are no stacks are few and small; so many mean that the thread is stuck. */
#define JOBS_MAX 65536
#define SWEEP_NS (10 * NSEC_PER_SEC)
#define STOP_NS (2 * NSEC_PER_SEC)

enum job_kind {
	JOB_STACK,
	JOB_PROCESS,
	JOB_MAPPED,
	JOB_FORGET,
	JOB_FORGET_STACK,
};

struct job {
	struct job *next;
	enum job_kind kind;
	uint32_t pid;
	uint64_t start_ns, number;
	struct stack *stack;
};

struct jobs { /* first in, first out */
	struct job *first, *last;
	size_t len;
};

struct resolver {
	pthread_mutex_t lock;
	pthread_cond_t wake, ended;
	pthread_t thread;
	struct jobs todo, done;
	size_t stacks_waiting;
	struct map64 looks; /* processes that are to be looked at again, by look_key(): once is enough */
	int event_fd;
	bool is_stopping, has_ended;
	struct resolver_stats stats; /* as the thread last left them; dropped is counted here */
	struct resolve resolve; /* the thread's own */
};

static void jobs_push(struct jobs *q, struct job *j)
{
	j->next = NULL;
	if (q->last)
		q->last->next = j;
	else
		q->first = j;
	q->last = j;
	q->len++;
}

static struct job *jobs_pop(struct jobs *q)
{
	struct job *j = q->first;

	if (!j)
		return NULL;
	q->first = j->next;
	if (!q->first)
		q->last = NULL;
	q->len--;
	return j;
}

static bool is_look(const struct job *j)
{
	return j->kind == JOB_PROCESS || j->kind == JOB_MAPPED;
}

static uint64_t look_key(enum job_kind kind, uint32_t pid, bool has_start)
{
	return (uint64_t)kind << 33 | (uint64_t)has_start << 32 | pid;
}

/*
 * Is the same look waiting already? It is yet to come, so it sees what this one would. A process that opens a library over
 * and over would else have stacks of others wait behind thousands of looks at its mappings. Locked.
 */
static bool is_waiting(struct resolver *r, const struct job *j)
{
	const uint64_t key = look_key(j->kind, j->pid, j->start_ns);

	if (!is_look(j))
		return false;
	if (map64_get(&r->looks, key))
		return true;
	(void)map64_put(&r->looks, key, r); /* without memory it waits twice */
	return false;
}

/* A look that is taken, or one that comes after an end: the next one is another. Locked. */
static void forget_looks(struct resolver *r, const struct job *j)
{
	if (is_look(j))
		(void)map64_remove(&r->looks, look_key(j->kind, j->pid, j->start_ns));
	if (j->kind != JOB_FORGET)
		return;
	(void)map64_remove(&r->looks, look_key(JOB_PROCESS, j->pid, false));
	(void)map64_remove(&r->looks, look_key(JOB_PROCESS, j->pid, true));
	(void)map64_remove(&r->looks, look_key(JOB_MAPPED, j->pid, false));
}

static void job_free(struct job *j)
{
	if (!j)
		return;
	stack_unref(j->stack);
	free(j);
}

static void do_job(struct resolve *rs, struct job *j)
{
	struct resolve_process *p;

	switch (j->kind) {
	case JOB_STACK:
		p = resolve_process(rs, j->stack->pid, j->stack->start_ns);
		if (p)
			resolve_stack(rs, p, j->stack);
		else
			stack_set_frames(j->stack, NULL);
		return;
	case JOB_PROCESS:
		p = resolve_process(rs, j->pid, j->start_ns);
		if (!p)
			return;
		resolve_python(rs, p, clock_monotonic_ns());
		/* What was read when the driver's library came may lack what came after it: the C library, say. */
		(void)resolve_space(rs, p, p->space && !p->is_stale ? 0 : UINT64_MAX);
		return;
	case JOB_MAPPED:
		p = resolve_process_find(rs, j->pid);
		if (p)
			resolve_mapped(p, clock_monotonic_ns());
		return;
	case JOB_FORGET:
		resolve_process_drop(rs, j->pid, j->start_ns);
		return;
	case JOB_FORGET_STACK:
		resolve_forget_stack(rs, j->pid, j->number);
		return;
	}
}

static void copy_stats(struct resolver *r)
{
	const uint64_t dropped = r->stats.dropped;

	r->stats = r->resolve.stats;
	r->stats.dropped = dropped;
	r->stats.nodes = r->resolve.nodes;
}

/* Locked; unlocks meanwhile. */
static void run_job(struct resolver *r, struct job *j)
{
	const bool is_result = j->kind == JOB_STACK && !(j->stack->raw->flags & STACK_F_CHECK);
	const uint64_t one = 1;

	pthread_mutex_unlock(&r->lock);
	do_job(&r->resolve, j);
	pthread_mutex_lock(&r->lock);
	r->stacks_waiting -= j->kind == JOB_STACK;
	copy_stats(r);
	if (!is_result || r->is_stopping) {
		job_free(j);
		return;
	}
	jobs_push(&r->done, j);
	if (r->done.len == 1 && write(r->event_fd, &one, sizeof(one)) < 0)
		r->stats.dropped++; /* cannot happen: the counter is far from full */
}

static void wait_until(struct resolver *r, pthread_cond_t *cond, uint64_t deadline_ns)
{
	(void)cond_wait_until(cond, &r->lock, deadline_ns);
}

static void *resolver_thread(void *userdata)
{
	struct resolver *r = userdata;
	uint64_t sweep_ns = clock_monotonic_ns() + SWEEP_NS, due_ns = UINT64_MAX;
	bool is_changed = false;

	(void)privilege_keep(PRIVILEGE_LEARN);
	pthread_mutex_lock(&r->lock);
	while (!r->is_stopping) {
		struct job *j = jobs_pop(&r->todo);
		uint64_t now = clock_monotonic_ns();

		if (j) {
			forget_looks(r, j);
			is_changed |= j->kind == JOB_PROCESS || j->kind == JOB_MAPPED;
			run_job(r, j);
			now = clock_monotonic_ns();
			/* Looking for Python waits for stacks, which are read while they are fresh; but not forever. */
			if (r->todo.len && now < sweep_ns)
				continue;
		}
		pthread_mutex_unlock(&r->lock);
		if (now >= sweep_ns) {
			resolve_sweep(&r->resolve);
			/* A burst of copies has left much that is free between what is kept. */
			(void)malloc_trim(0);
			sweep_ns = now + SWEEP_NS;
		}
		if (is_changed || now >= due_ns)
			due_ns = resolve_python_due(&r->resolve, now);
		is_changed = false;
		pthread_mutex_lock(&r->lock);
		copy_stats(r);
		if (!r->todo.first && !r->is_stopping)
			wait_until(r, &r->wake, MIN(due_ns, sweep_ns));
	}
	r->has_ended = true;
	pthread_cond_broadcast(&r->ended);
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

static int init_locks(struct resolver *r)
{
	int err = -pthread_mutex_init(&r->lock, NULL);

	if (err == 0)
		err = cond_init(&r->wake);
	return err ?: cond_init(&r->ended);
}

/* Nobody is to wait for what will not come. */
static void drain(struct jobs *q)
{
	struct job *j;

	while ((j = jobs_pop(q))) {
		if (j->stack && !stack_is_done(j->stack))
			stack_set_frames(j->stack, NULL);
		job_free(j);
	}
}

static void destroy(struct resolver *r)
{
	drain(&r->todo);
	drain(&r->done);
	map64_done(&r->looks);
	resolve_done(&r->resolve);
	objects_unref(r->resolve.options.objects);
	closep(&r->event_fd);
	pthread_cond_destroy(&r->wake);
	pthread_cond_destroy(&r->ended);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

int resolver_new(const struct resolver_options *o, struct resolver **ret)
{
	struct resolver *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	r->event_fd = -1;
	err = init_locks(r);
	if (err < 0) {
		free(r);
		return err;
	}
	err = resolve_init(&r->resolve, o);
	(void)objects_ref(o->objects);
	if (err == 0) {
		r->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		err = r->event_fd < 0 ? -errno : thread_start(&r->thread, "gpuxray-stack", resolver_thread, r);
	}
	if (err < 0) {
		destroy(r);
		return err;
	}
	*ret = r;
	return 0;
}

void resolver_free(struct resolver *r)
{
	pthread_t thread;
	uint64_t deadline;
	bool has_ended;

	if (!r)
		return;
	thread = r->thread;
	pthread_mutex_lock(&r->lock);
	r->is_stopping = true;
	pthread_cond_broadcast(&r->wake);
	deadline = clock_monotonic_ns() + STOP_NS;
	while (!r->has_ended && clock_monotonic_ns() < deadline)
		wait_until(r, &r->ended, deadline);
	has_ended = r->has_ended;
	if (!has_ended) {
		/* Stuck in a file: what it uses stays. The process is about to end. */
		atomic_store(&r->resolve.is_abandoned, true);
		drain(&r->todo);
		drain(&r->done);
	}
	pthread_mutex_unlock(&r->lock);
	if (has_ended) {
		(void)pthread_join(thread, NULL);
		destroy(r);
		return;
	}
	(void)pthread_detach(thread);
}

/* Takes the job in any case. */
static void push(struct resolver *r, struct job *j)
{
	bool is_full, is_known;

	pthread_mutex_lock(&r->lock);
	is_full = j->kind == JOB_STACK ? r->stacks_waiting >= r->resolve.options.queue : r->todo.len >= JOBS_MAX;
	/* A program that starts maps hundreds of files in a row. */
	is_known = !is_full && is_waiting(r, j);
	if (is_full) {
		r->stats.dropped++;
	} else if (!is_known) {
		if (j->kind == JOB_FORGET)
			forget_looks(r, j);
		r->stacks_waiting += j->kind == JOB_STACK;
		jobs_push(&r->todo, j);
		pthread_cond_signal(&r->wake);
	}
	pthread_mutex_unlock(&r->lock);
	if (!is_full && !is_known)
		return;
	if (j->stack)
		stack_set_frames(j->stack, NULL);
	job_free(j);
}

static void push_kind(struct resolver *r, enum job_kind kind, uint32_t pid, uint64_t start_ns, uint64_t number)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return;
	j->kind = kind;
	j->pid = pid;
	j->start_ns = start_ns;
	j->number = number;
	push(r, j);
}

void resolver_push(struct resolver *r, struct stack *s)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j) {
		stack_set_frames(s, NULL);
		return;
	}
	j->kind = JOB_STACK;
	j->stack = stack_ref(s);
	push(r, j);
}

void resolver_process(struct resolver *r, uint32_t pid, uint64_t start_ns)
{
	push_kind(r, JOB_PROCESS, pid, start_ns, 0);
}

void resolver_mapped(struct resolver *r, uint32_t pid)
{
	push_kind(r, JOB_MAPPED, pid, 0, 0);
}

void resolver_forget(struct resolver *r, uint32_t pid, uint64_t start_ns)
{
	push_kind(r, JOB_FORGET, pid, start_ns, 0);
}

void resolver_forget_stack(struct resolver *r, uint32_t pid, uint64_t stack)
{
	push_kind(r, JOB_FORGET_STACK, pid, 0, stack);
}

int resolver_fd(const struct resolver *r)
{
	return r->event_fd;
}

size_t resolver_take(struct resolver *r, void (*fn)(struct stack *s, void *userdata), void *userdata)
{
	struct jobs taken = {};
	struct job *j;
	uint64_t n;
	size_t count = 0;

	pthread_mutex_lock(&r->lock);
	if (read(r->event_fd, &n, sizeof(n)) < 0)
		n = 0; /* none were written since */
	while ((j = jobs_pop(&r->done)))
		jobs_push(&taken, j);
	pthread_mutex_unlock(&r->lock);
	while ((j = jobs_pop(&taken))) {
		fn(j->stack, userdata);
		job_free(j);
		count++;
	}
	return count;
}

void resolver_stats(struct resolver *r, struct resolver_stats *ret)
{
	pthread_mutex_lock(&r->lock);
	*ret = r->stats;
	ret->queued = r->stacks_waiting;
	pthread_mutex_unlock(&r->lock);
}
