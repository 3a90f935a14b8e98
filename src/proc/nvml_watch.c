/* SPDX-License-Identifier: MIT */
#include "proc/nvml.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "base/privilege.h"
#include "base/thread.h"
#include "proc/drm.h"
#include "proc/nvml_snapshot.h"

/* Without library or driver: long, as every try may have the driver's helper load modules. */
#define NVML_RETRY_NS (60 * NSEC_PER_SEC)
#define NVML_INTERVAL_MIN_NS (100 * NSEC_PER_MSEC)
/* A call that takes longer is said in the status. */
#define NVML_SLOW_NS (5 * NSEC_PER_SEC)
/* How long stopping waits for the thread before leaving it behind. */
#define NVML_STOP_WAIT_NS (200 * NSEC_PER_MSEC)
/* How long a snapshot waits for how busy the cards are, at most; in how much of that calls are begun. */
#define FIGURES_WAIT_NS NSEC_PER_SEC
#define FIGURES_BEGIN_NS(wait_ns) ((wait_ns) / 4 * 3)
/* Where it takes longer, then no more than this part of the time. */
#define FIGURES_PART 10
#define NVML_STATUS_MAX 240
#define NVML_DRIVERS_MAX 8

/*
 * What the thread and its owner share, released by whoever goes last: the thread may be stuck in the driver for ever,
 * long after the owner is gone.
 */
struct nvml_shared {
	atomic_uint refs;
	pthread_mutex_t lock; /* everything below but what never changes; never held during a call into a driver */
	pthread_cond_t wake;
	bool is_stopping;
	bool is_done; /* the thread is out of the drivers for good */
	bool is_new;
	uint64_t ready_ns; /* then: when it may be taken, for it may still get better */
	struct gpu_snapshot latest;
	uint64_t call_since_ns; /* 0 = not in a driver */
	const char *asked;	/* which then: static text */
	char status[NVML_STATUS_MAX];
	uint64_t hurry_ns, hurry_until_ns; /* interval; 0 = nobody is looking */
	int fd; /* a timer, for ready_ns; does not change, like the rest */
	uint64_t interval_ns;
	char *library; /* may be NULL */
	char *proc_root, *sys_root;
};

/* What the thread alone has. */
struct nvml_rounds {
	struct nvml *n;		/* NULL while the library is not open */
	uint64_t open_at_ns;	/* then: when to try again */
	bool is_refused;	/* then: there is a library, and maybe a card that does not tell of its processes */
	char reason[NVML_STATUS_MAX / 2];
	bool has_told;		/* the last snapshot had devices */
	struct drm_past past;
	uint64_t figures_at_ns; /* how busy the cards are: not asked before */
	bool is_slow;		/* for they took too long last time */
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
	free(s->proc_root);
	free(s->sys_root);
	free(s);
}

static int nvml_shared_new(const char *library, const char *proc_root, const char *sys_root, uint64_t interval_ns,
			   struct nvml_shared **ret)
{
	struct nvml_shared *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	r = cond_init(&s->wake);
	if (r < 0) {
		free(s);
		return r;
	}
	(void)pthread_mutex_init(&s->lock, NULL);
	atomic_init(&s->refs, 1);
	s->interval_ns = MAX(interval_ns, NVML_INTERVAL_MIN_NS);
	(void)snprintf(s->status, sizeof(s->status), "NVML: not asked yet");

	s->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (s->fd < 0)
		r = -errno;
	s->proc_root = strdup(proc_root);
	s->sys_root = strdup(sys_root);
	s->library = library ? strdup(library) : NULL;
	if (!s->proc_root || !s->sys_root || (library && !s->library))
		r = -ENOMEM;
	if (r < 0) {
		nvml_shared_unref(s);
		return r;
	}
	*ret = s;
	return 0;
}

/* With the lock. */
static uint64_t current_interval(const struct nvml_shared *s)
{
	return clock_monotonic_ns() < s->hurry_until_ns ? MIN(s->hurry_ns, s->interval_ns) : s->interval_ns;
}

/* Until the next round is due, which the owner may hurry unless nobody was there. False when it is time to end. */
static bool nvml_sleep(struct nvml_shared *s, uint64_t start_ns, bool is_there)
{
	uint64_t due_ns;
	bool go_on;

	(void)pthread_mutex_lock(&s->lock);
	do
		due_ns = start_ns + (is_there ? current_interval(s) : NVML_RETRY_NS);
	while (!s->is_stopping && cond_wait_until(&s->wake, &s->lock, due_ns));
	go_on = !s->is_stopping;
	(void)pthread_mutex_unlock(&s->lock);
	return go_on;
}

static uint64_t figures_wait(struct nvml_shared *s)
{
	uint64_t interval_ns;

	(void)pthread_mutex_lock(&s->lock);
	interval_ns = current_interval(s);
	(void)pthread_mutex_unlock(&s->lock);
	return MIN(FIGURES_WAIT_NS, interval_ns / 2);
}

static void nvml_enter(struct nvml_shared *s, const char *asked)
{
	(void)pthread_mutex_lock(&s->lock);
	s->call_since_ns = clock_monotonic_ns();
	s->asked = asked;
	(void)pthread_mutex_unlock(&s->lock);
}

/* With the lock; in the past: at once. */
static void set_ready(struct nvml_shared *s, uint64_t ready_ns)
{
	const struct itimerspec at = { .it_value = { .tv_sec = (time_t)(ready_ns / NSEC_PER_SEC),
						     .tv_nsec = (long)(ready_ns % NSEC_PER_SEC) } };

	s->ready_ns = ready_ns;
	(void)timerfd_settime(s->fd, TFD_TIMER_ABSTIME, &at, NULL);
}

/* The snapshot is the owner's in wait_ns, or at once if the one before was not taken. Empty afterwards. */
static void nvml_offer(struct nvml_shared *s, struct gpu_snapshot *fresh, uint64_t wait_ns)
{
	uint64_t ready_ns = clock_monotonic_ns() + wait_ns;

	(void)pthread_mutex_lock(&s->lock);
	gpu_snapshot_done(&s->latest);
	s->latest = *fresh;
	*fresh = (struct gpu_snapshot){ 0 };
	set_ready(s, s->is_new ? MIN(s->ready_ns, ready_ns) : ready_ns);
	s->is_new = true;
	(void)pthread_mutex_unlock(&s->lock);
}

/* better: in place of the one that was offered, unless that was taken meanwhile; empty afterwards. NULL = none. */
static void nvml_leave(struct nvml_shared *s, struct gpu_snapshot *better, const char *status)
{
	(void)pthread_mutex_lock(&s->lock);
	s->call_since_ns = 0;
	(void)snprintf(s->status, sizeof(s->status), "%s", status);
	if (better && s->is_new) {
		gpu_snapshot_done(&s->latest);
		s->latest = *better;
		*better = (struct gpu_snapshot){ 0 };
		set_ready(s, MIN(s->ready_ns, clock_monotonic_ns()));
	}
	(void)pthread_mutex_unlock(&s->lock);
	if (better)
		gpu_snapshot_done(better);
}

/* Figures of the NVIDIA driver, none when it is not there or does not answer; ok->reason says why. */
static void nvml_ask(struct nvml_shared *s, struct nvml_rounds *ok, uint64_t now, struct gpu_snapshot *ret)
{
	const char *reason = "";
	int r;

	if (!ok->n) {
		if (now < ok->open_at_ns)
			return;
		r = nvml_open(s->library, &ok->n, &reason);
		ok->open_at_ns = now + NVML_RETRY_NS;
		ok->is_refused = r < 0 && r != -ENOENT && r != -ENODEV;
		if (r < 0) {
			(void)snprintf(ok->reason, sizeof(ok->reason), "%s%s",
				       r == -ENOENT ? "" : "driver not usable: ", reason);
			return;
		}
	}
	r = nvml_read(ok->n, ret);
	if (r < 0) {
		nvml_close(ok->n);
		ok->n = NULL;
		ok->is_refused = true;
		ok->open_at_ns = now + NVML_RETRY_NS;
		(void)snprintf(ok->reason, sizeof(ok->reason), "reading the devices failed: %s",
			       r == -ENOMEM ? "out of memory" : "the driver does not answer");
	}
}

static void _printf_(2, 3) status_add(char status[NVML_STATUS_MAX], const char *fmt, ...)
{
	size_t len = strlen(status);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(status + len, NVML_STATUS_MAX - len, fmt, ap);
	va_end(ap);
}

/* "DRM: 2 amdgpu devices, 1 xe device" */
static void status_add_drm(char status[NVML_STATUS_MAX], const struct gpu_snapshot *s)
{
	const char *names[NVML_DRIVERS_MAX];
	size_t counts[NVML_DRIVERS_MAX], count = 0;

	for (size_t i = 0; i < s->device_count; i++) {
		size_t k = 0;

		while (k < count && strcmp(names[k], s->devices[i].driver) != 0)
			k++;
		if (k == NVML_DRIVERS_MAX)
			continue;
		if (k == count) {
			names[count] = s->devices[i].driver;
			counts[count++] = 0;
		}
		counts[k]++;
	}
	for (size_t k = 0; k < count; k++)
		status_add(status, "%s%zu %s device%s", k == 0 ? "; DRM: " : ", ", counts[k], names[k],
			   counts[k] == 1 ? "" : "s");
}

static size_t card_count(const struct gpu_snapshot *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->device_count; i++)
		n += s->devices[i].parent < 0;
	return n;
}

static void status_add_nvml(char status[NVML_STATUS_MAX], const struct nvml_rounds *ok, const struct gpu_snapshot *s)
{
	size_t cards = card_count(s), instances = s->device_count - cards;

	if (!ok->n) {
		status_add(status, "NVML: %s", ok->reason);
		return;
	}
	status_add(status, "NVML: %zu device%s", cards, cards == 1 ? "" : "s");
	if (instances > 0)
		status_add(status, " and %zu MIG instance%s", instances, instances == 1 ? "" : "s");
}

/* How busy the cards are, into the copy of the snapshot that was offered. */
static void nvml_figures(struct nvml_shared *s, struct nvml_rounds *ok, uint64_t wait_ns, struct gpu_snapshot *copy)
{
	uint64_t start_ns = clock_monotonic_ns(), until_ns = start_ns + FIGURES_BEGIN_NS(wait_ns), taken_ns;
	int r = 0;

	nvml_enter(s, "NVML utilization");
	if (ok->n)
		r = nvml_read_figures(ok->n, until_ns, copy);
	nvml_enter(s, "DRM utilization");
	if (r == 0)
		r = drm_read_figures(s->sys_root, until_ns, copy);
	taken_ns = clock_monotonic_ns() - start_ns;
	ok->is_slow = r == -ETIME || taken_ns > wait_ns;
	ok->figures_at_ns = ok->is_slow ? start_ns + taken_ns * FIGURES_PART : 0;
}

/* Memory, of all drivers. */
static void nvml_memory(struct nvml_shared *s, struct nvml_rounds *ok, uint64_t now, struct gpu_snapshot *ret,
			char status[NVML_STATUS_MAX])
{
	struct gpu_snapshot others = { .is_complete = true };
	char error[64];
	int r;

	nvml_enter(s, "NVML");
	nvml_ask(s, ok, now, ret);
	if (!ok->n)
		ret->is_complete = !ok->is_refused;
	nvml_enter(s, "DRM");
	r = drm_read(s->proc_root, s->sys_root, &ok->past, &others);
	status_add_nvml(status, ok, ret);
	status_add_drm(status, &others);
	if (r < 0 && r != -ENODEV) {
		others.is_complete = false;
		status_add(status, "; DRM: %s", strerror_r(-r, error, sizeof(error)));
	}
	if (gpu_snapshot_append(ret, &others) < 0) {
		gpu_snapshot_done(&others);
		ret->is_complete = false;
		status_add(status, "; out of memory");
	}
}

/* One round. False when nobody was there to be asked. */
static bool nvml_round(struct nvml_shared *s, struct nvml_rounds *ok, uint64_t now)
{
	struct gpu_snapshot fresh = { .is_complete = true }, copy = { .is_complete = true };
	char status[NVML_STATUS_MAX] = "";
	bool has_told = ok->has_told;
	size_t left_out_count;
	uint64_t wait_ns;

	nvml_memory(s, ok, now, &fresh, status);
	ok->has_told = fresh.device_count > 0;
	left_out_count = fresh.left_out_count;
	wait_ns = ok->has_told && now >= ok->figures_at_ns ? figures_wait(s) : 0;
	if (wait_ns > 0 && gpu_snapshot_copy(&fresh, &copy) < 0)
		wait_ns = 0;
	/* Old figures must not pass for today's: an empty snapshot takes them back. */
	if (ok->n || ok->has_told || has_told)
		nvml_offer(s, &fresh, wait_ns);
	gpu_snapshot_done(&fresh);
	if (wait_ns > 0) {
		nvml_figures(s, ok, wait_ns, &copy);
		left_out_count = copy.left_out_count;
	}
	if (ok->is_slow)
		status_add(status, "; utilization: slow answers");
	if (left_out_count > 0)
		status_add(status, "; %zu left out", left_out_count);
	nvml_leave(s, wait_ns > 0 ? &copy : NULL, status);
	return ok->n || ok->has_told;
}

static void *nvml_thread(void *arg)
{
	struct nvml_shared *s = arg;
	struct nvml_rounds ok = { .n = NULL };
	uint64_t start_ns;

	(void)privilege_keep(PRIVILEGE_READ);
	do
		start_ns = clock_monotonic_ns();
	while (nvml_sleep(s, start_ns, nvml_round(s, &ok, start_ns)));
	nvml_close(ok.n);
	drm_past_done(&ok.past);
	(void)pthread_mutex_lock(&s->lock);
	s->is_done = true;
	(void)pthread_cond_broadcast(&s->wake);
	(void)pthread_mutex_unlock(&s->lock);
	nvml_shared_unref(s);
	return NULL;
}

int nvml_watch_new_at(const char *library, const char *proc_root, const char *sys_root, uint64_t interval_ns,
		      struct nvml_watch **ret)
{
	_cleanup_(nvml_watch_freep) struct nvml_watch *w = NULL;
	int r;

	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	r = nvml_shared_new(library, proc_root, sys_root, interval_ns, &w->shared);
	if (r < 0)
		return r;
	(void)atomic_fetch_add_explicit(&w->shared->refs, 1, memory_order_relaxed);
	r = thread_start(&w->thread, "gpuxray-nvml", nvml_thread, w->shared);
	if (r < 0) {
		nvml_shared_unref(w->shared);
		return r;
	}
	w->has_thread = true;
	*ret = TAKE_PTR(w);
	return 0;
}

int nvml_watch_new(const char *library, uint64_t interval_ns, struct nvml_watch **ret)
{
	return nvml_watch_new_at(library, "/proc", "/sys", interval_ns, ret);
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
	is_new = s->is_new && s->ready_ns <= clock_monotonic_ns();
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
		(void)snprintf(w->status, sizeof(w->status), "%s: no answer from the driver for %llu s", s->asked,
			       (unsigned long long)((now - s->call_since_ns) / NSEC_PER_SEC));
	else
		memcpy(w->status, s->status, sizeof(w->status));
	(void)pthread_mutex_unlock(&s->lock);
	return w->status;
}

void nvml_watch_hurry(struct nvml_watch *w, uint64_t interval_ns, uint64_t for_ns)
{
	struct nvml_shared *s = w->shared;
	uint64_t now = clock_monotonic_ns();
	bool is_sooner;

	interval_ns = MAX(interval_ns, NVML_INTERVAL_MIN_NS);
	(void)pthread_mutex_lock(&s->lock);
	is_sooner = interval_ns < current_interval(s);
	/* Who looks more seldom must not slow down who looks more often, before that one's time is over. */
	if (now >= s->hurry_until_ns || interval_ns <= s->hurry_ns) {
		s->hurry_ns = interval_ns;
		s->hurry_until_ns = now + for_ns;
	}
	/* It knows when it is due otherwise. */
	if (is_sooner)
		(void)pthread_cond_broadcast(&s->wake);
	(void)pthread_mutex_unlock(&s->lock);
}

/* Whether the thread came out of the drivers within NVML_STOP_WAIT_NS. */
static bool nvml_stop(struct nvml_shared *s)
{
	uint64_t until_ns = clock_monotonic_ns() + NVML_STOP_WAIT_NS;
	bool is_done;

	(void)pthread_mutex_lock(&s->lock);
	s->is_stopping = true;
	(void)pthread_cond_broadcast(&s->wake);
	while (!s->is_done && cond_wait_until(&s->wake, &s->lock, until_ns))
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
