/* SPDX-License-Identifier: MIT */
#include "model/stack.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"

/* One for all stacks: a wait is rare and short, and an answer is waited for by one thread. */
static pthread_mutex_t wait_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wait_cond;
static pthread_once_t wait_once = PTHREAD_ONCE_INIT;

static void wait_init(void)
{
	(void)cond_init(&wait_cond);
}

static struct frames *ref_frames(struct frames *f)
{
	(void)atomic_fetch_add_explicit(&f->more, 1, memory_order_relaxed);
	return f;
}

void frames_free(struct frames *f)
{
	if (!f || atomic_fetch_sub_explicit(&f->more, 1, memory_order_acq_rel) != 0)
		return;
	address_space_unref(f->space);
	free(f->list);
	free(f->info);
	free(f->strings);
	free(f);
}

static struct stack *stack_alloc(uint64_t key, uint32_t pid)
{
	struct stack *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	(void)pthread_once(&wait_once, wait_init);
	atomic_init(&s->refs, 1);
	s->key = key;
	s->pid = pid;
	return s;
}

struct stack *stack_new(const struct event_stack *ev)
{
	struct stack *s = stack_alloc(ev->head.stack, ev->head.pid);
	const size_t size = sizeof(*ev) + ev->copy_bytes;

	if (!s)
		return NULL;
	s->start_ns = ev->head.start_ns;
	s->time_ns = ev->head.time_ns;
	s->raw = malloc(size);
	if (!s->raw) {
		free(s);
		return NULL;
	}
	memcpy(s->raw, ev, size);
	return s;
}

struct stack *stack_new_done(uint64_t key, uint32_t pid, struct frames *frames)
{
	struct stack *s = stack_alloc(key, pid);

	if (!s) {
		frames_free(frames);
		return NULL;
	}
	atomic_init(&s->frames, frames);
	atomic_init(&s->is_done, true);
	return s;
}

struct stack *stack_ref(struct stack *s)
{
	if (s)
		(void)atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	return s;
}

void stack_unref(struct stack *s)
{
	if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
		return;
	frames_free(atomic_load_explicit(&s->frames, memory_order_relaxed));
	free(s->raw);
	free(s);
}

void stack_set_frames(struct stack *s, struct frames *frames)
{
	free(TAKE_PTR(s->raw));
	atomic_store_explicit(&s->frames, frames, memory_order_release);
	pthread_mutex_lock(&wait_lock);
	atomic_store_explicit(&s->is_done, true, memory_order_release);
	pthread_cond_broadcast(&wait_cond);
	pthread_mutex_unlock(&wait_lock);
}

const struct frames *stack_frames(const struct stack *s)
{
	return atomic_load_explicit(&s->frames, memory_order_acquire);
}

struct frames *stack_frames_ref(const struct stack *s)
{
	return ref_frames(atomic_load_explicit(&s->frames, memory_order_acquire));
}

bool stack_is_done(const struct stack *s)
{
	return atomic_load_explicit(&s->is_done, memory_order_acquire);
}

bool stack_wait(const struct stack *s, uint64_t deadline_ns)
{
	bool is_done = stack_is_done(s);

	if (is_done)
		return true;
	pthread_mutex_lock(&wait_lock);
	while (!(is_done = stack_is_done(s)) && cond_wait_until(&wait_cond, &wait_lock, deadline_ns))
		;
	pthread_mutex_unlock(&wait_lock);
	return is_done;
}
