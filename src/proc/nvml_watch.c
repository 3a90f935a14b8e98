/* SPDX-License-Identifier: MIT */
#include "proc/nvml.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/clock.h"

/* Without library or driver: long, as every try may have the driver's helper load modules. */
#define NVML_RETRY_NS (60 * NSEC_PER_SEC)
#define NVML_INTERVAL_MIN_NS (100 * NSEC_PER_MSEC)
/* A call that takes longer is said in the status. */
#define NVML_SLOW_NS (5 * NSEC_PER_SEC)
/* How long stopping waits for the thread before leaving it behind. */
#define NVML_STOP_WAIT_NS (200 * NSEC_PER_MSEC)
#define NVML_STATUS_MAX 160

/*
 * What the thread and its owner share, released by whoever goes last: the thread may be stuck in the driver for ever,
 * long after the owner is gone.
 */
struct nvml_shared {
	atomic_uint refs;
	pthread_mutex_t lock; /* everything below but what never changes; never held during a call into the library */
	pthread_cond_t wake;
	bool is_stopping;
	bool is_done; /* the thread is out of the library for good */
	bool is_new;
	struct gpu_snapshot latest;
	uint64_t call_since_ns; /* 0 = not in the library */
	char status[NVML_STATUS_MAX];
	int fd; /* does not change */
	uint64_t interval_ns;
	char *library; /* may be NULL */
};

struct nvml_watch {
	struct nvml_shared *shared;
	pthread_t thread;
	bool has_thread;
	char status[NVML_STATUS_MAX]; /* what nvml_watch_status returned last */
};

static void nvml_shared_unref(struct nvml_shared *s)
{
	if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
		return;
	(void)pthread_cond_destroy(&s->wake);
	(void)pthread_mutex_destroy(&s->lock);
	gpu_snapshot_done(&s->latest);
	if (s->fd >= 0)
		(void)close(s->fd);
	free(s->library);
	free(s);
}

static int nvml_shared_new(const char *library, uint64_t interval_ns, struct nvml_shared **ret)
{
	struct nvml_shared *s = calloc(1, sizeof(*s));
	pthread_condattr_t attr;
	int r;

	if (!s)
		return -ENOMEM;
	atomic_init(&s->refs, 1);
	s->fd = -1;
	s->interval_ns = MAX(interval_ns, NVML_INTERVAL_MIN_NS);
	(void)pthread_mutex_init(&s->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&s->wake, &attr);
	(void)pthread_condattr_destroy(&attr);
	(void)snprintf(s->status, sizeof(s->status), "NVML: not asked yet");

	s->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->fd < 0) {
		r = -errno;
		goto fail;
	}
	if (library) {
		s->library = strdup(library);
		if (!s->library) {
			r = -ENOMEM;
			goto fail;
		}
	}
	*ret = s;
	return 0;
fail:
	nvml_shared_unref(s);
	return r;
}

static struct timespec timespec_from_ns(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / NSEC_PER_SEC), .tv_nsec = (long)(ns % NSEC_PER_SEC) };
}

/* False when it is time to end. */
static bool nvml_sleep(struct nvml_shared *s, uint64_t until_ns)
{
	struct timespec until = timespec_from_ns(until_ns);
	bool go_on;

	(void)pthread_mutex_lock(&s->lock);
	while (!s->is_stopping && pthread_cond_timedwait(&s->wake, &s->lock, &until) != ETIMEDOUT)
		;
	go_on = !s->is_stopping;
	(void)pthread_mutex_unlock(&s->lock);
	return go_on;
}

static void nvml_enter_library(struct nvml_shared *s)
{
	(void)pthread_mutex_lock(&s->lock);
	s->call_since_ns = clock_monotonic_ns();
	(void)pthread_mutex_unlock(&s->lock);
}

static void _printf_(3, 4) nvml_leave_library(struct nvml_shared *s, struct gpu_snapshot *taken, const char *fmt, ...)
{
	const uint64_t one = 1;
	va_list ap;

	(void)pthread_mutex_lock(&s->lock);
	s->call_since_ns = 0;
	va_start(ap, fmt);
	(void)vsnprintf(s->status, sizeof(s->status), fmt, ap);
	va_end(ap);
	if (taken) {
		gpu_snapshot_done(&s->latest);
		s->latest = *taken;
		*taken = (struct gpu_snapshot){ 0 };
		s->is_new = true;
		(void)!write(s->fd, &one, sizeof(one));
	}
	(void)pthread_mutex_unlock(&s->lock);
}

/* One round. *n is NULL while the library is not open. Returns when the next one is due, from now. */
static uint64_t nvml_round(struct nvml_shared *s, struct nvml **n)
{
	struct gpu_snapshot snapshot = { 0 };
	const char *reason = "";
	int r;

	nvml_enter_library(s);
	if (!*n) {
		r = nvml_open(s->library, n, &reason);
		if (r == -ENOENT)
			nvml_leave_library(s, NULL, "NVML: %s", reason);
		else if (r < 0)
			nvml_leave_library(s, NULL, "NVML: driver not usable: %s", reason);
		if (r < 0)
			return NVML_RETRY_NS;
	}
	r = nvml_read(*n, &snapshot);
	if (r < 0) {
		nvml_close(*n);
		*n = NULL;
		/* Old figures must not pass for today's: an empty snapshot takes them back. */
		nvml_leave_library(s, &snapshot, "NVML: reading the devices failed: %s",
				   r == -ENOMEM ? "out of memory" : "the driver does not answer");
		return NVML_RETRY_NS;
	}
	nvml_leave_library(s, &snapshot, "NVML: %zu device%s", snapshot.device_count,
			   snapshot.device_count == 1 ? "" : "s");
	return s->interval_ns;
}

static void *nvml_thread(void *arg)
{
	struct nvml_shared *s = arg;
	struct nvml *n = NULL;
	uint64_t start_ns;

	do
		start_ns = clock_monotonic_ns();
	while (nvml_sleep(s, start_ns + nvml_round(s, &n)));
	nvml_close(n);
	(void)pthread_mutex_lock(&s->lock);
	s->is_done = true;
	(void)pthread_cond_broadcast(&s->wake);
	(void)pthread_mutex_unlock(&s->lock);
	nvml_shared_unref(s);
	return NULL;
}

int nvml_watch_new(const char *library, uint64_t interval_ns, struct nvml_watch **ret)
{
	_cleanup_(nvml_watch_freep) struct nvml_watch *w = NULL;
	sigset_t all, before;
	int r;

	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	r = nvml_shared_new(library, interval_ns, &w->shared);
	if (r < 0)
		return r;

	/* Signals are for the thread that handles them. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	(void)atomic_fetch_add_explicit(&w->shared->refs, 1, memory_order_relaxed);
	r = pthread_create(&w->thread, NULL, nvml_thread, w->shared);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r != 0) {
		nvml_shared_unref(w->shared);
		return -r;
	}
	w->has_thread = true;
	(void)pthread_setname_np(w->thread, "gpuxray-nvml");
	*ret = TAKE_PTR(w);
	return 0;
}

int nvml_watch_fd(const struct nvml_watch *w)
{
	return w->shared->fd;
}

int nvml_watch_take(struct nvml_watch *w, struct gpu_snapshot *ret)
{
	struct nvml_shared *s = w->shared;
	uint64_t count;
	bool is_new;

	(void)pthread_mutex_lock(&s->lock);
	(void)!read(s->fd, &count, sizeof(count));
	is_new = s->is_new;
	if (is_new) {
		*ret = s->latest;
		s->latest = (struct gpu_snapshot){ 0 };
		s->is_new = false;
	}
	(void)pthread_mutex_unlock(&s->lock);
	return is_new;
}

const char *nvml_watch_status(struct nvml_watch *w)
{
	struct nvml_shared *s = w->shared;
	uint64_t now = clock_monotonic_ns();

	(void)pthread_mutex_lock(&s->lock);
	if (s->call_since_ns != 0 && now > s->call_since_ns + NVML_SLOW_NS)
		(void)snprintf(w->status, sizeof(w->status), "NVML: no answer from the driver for %llu s",
			       (unsigned long long)((now - s->call_since_ns) / NSEC_PER_SEC));
	else
		memcpy(w->status, s->status, sizeof(w->status));
	(void)pthread_mutex_unlock(&s->lock);
	return w->status;
}

/* Whether the thread came out of the library within NVML_STOP_WAIT_NS. */
static bool nvml_stop(struct nvml_shared *s)
{
	struct timespec until = timespec_from_ns(clock_monotonic_ns() + NVML_STOP_WAIT_NS);
	bool is_done;

	(void)pthread_mutex_lock(&s->lock);
	s->is_stopping = true;
	(void)pthread_cond_broadcast(&s->wake);
	while (!s->is_done && pthread_cond_timedwait(&s->wake, &s->lock, &until) != ETIMEDOUT)
		;
	is_done = s->is_done;
	(void)pthread_mutex_unlock(&s->lock);
	return is_done;
}

void nvml_watch_free(struct nvml_watch *w)
{
	if (!w)
		return;
	if (w->has_thread) {
		if (nvml_stop(w->shared))
			(void)pthread_join(w->thread, NULL);
		else
			(void)pthread_detach(w->thread);
	}
	if (w->shared)
		nvml_shared_unref(w->shared);
	free(w);
}
