/* SPDX-License-Identifier: MIT */
#include "proc/nvml.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
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
	struct gpu_snapshot latest;
	uint64_t call_since_ns; /* 0 = not in a driver */
	const char *asked;	/* which then: static text */
	char status[NVML_STATUS_MAX];
	int fd; /* does not change */
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

	s->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
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

/* False when it is time to end. */
static bool nvml_sleep(struct nvml_shared *s, uint64_t until_ns)
{
	bool go_on;

	(void)pthread_mutex_lock(&s->lock);
	while (!s->is_stopping && cond_wait_until(&s->wake, &s->lock, until_ns))
		;
	go_on = !s->is_stopping;
	(void)pthread_mutex_unlock(&s->lock);
	return go_on;
}

static void nvml_enter(struct nvml_shared *s, const char *asked)
{
	(void)pthread_mutex_lock(&s->lock);
	s->call_since_ns = clock_monotonic_ns();
	s->asked = asked;
	(void)pthread_mutex_unlock(&s->lock);
}

static void nvml_leave(struct nvml_shared *s, struct gpu_snapshot *taken, const char *status)
{
	const uint64_t one = 1;

	(void)pthread_mutex_lock(&s->lock);
	s->call_since_ns = 0;
	(void)snprintf(s->status, sizeof(s->status), "%s", status);
	if (taken) {
		gpu_snapshot_done(&s->latest);
		s->latest = *taken;
		*taken = (struct gpu_snapshot){ 0 };
		s->is_new = true;
		(void)!write(s->fd, &one, sizeof(one));
	}
	(void)pthread_mutex_unlock(&s->lock);
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

/* One round. Returns when the next one is due, from its start. */
static uint64_t nvml_round(struct nvml_shared *s, struct nvml_rounds *ok, uint64_t now)
{
	struct gpu_snapshot nvidia = { .is_complete = true }, others = { .is_complete = true };
	char status[NVML_STATUS_MAX] = "", error[64];
	bool has_told = ok->has_told;
	int r;

	nvml_enter(s, "NVML");
	nvml_ask(s, ok, now, &nvidia);
	if (!ok->n)
		nvidia.is_complete = !ok->is_refused;
	nvml_enter(s, "DRM");
	r = drm_read(s->proc_root, s->sys_root, &others);
	status_add_nvml(status, ok, &nvidia);
	status_add_drm(status, &others);
	if (r < 0 && r != -ENODEV) {
		others.is_complete = false;
		status_add(status, "; DRM: %s", strerror_r(-r, error, sizeof(error)));
	}
	if (gpu_snapshot_append(&nvidia, &others) < 0) {
		gpu_snapshot_done(&others);
		nvidia.is_complete = false;
		status_add(status, "; out of memory");
	}
	if (nvidia.left_out_count > 0)
		status_add(status, "; %zu left out", nvidia.left_out_count);
	ok->has_told = nvidia.device_count > 0;
	/* Old figures must not pass for today's: an empty snapshot takes them back. */
	if (ok->n || ok->has_told || has_told)
		nvml_leave(s, &nvidia, status);
	else
		nvml_leave(s, NULL, status);
	gpu_snapshot_done(&nvidia);
	return ok->n || ok->has_told ? s->interval_ns : NVML_RETRY_NS;
}

static void *nvml_thread(void *arg)
{
	struct nvml_shared *s = arg;
	struct nvml_rounds ok = { .n = NULL };
	uint64_t start_ns;

	do
		start_ns = clock_monotonic_ns();
	while (nvml_sleep(s, start_ns + nvml_round(s, &ok, start_ns)));
	nvml_close(ok.n);
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
		(void)snprintf(w->status, sizeof(w->status), "%s: no answer from the driver for %llu s", s->asked,
			       (unsigned long long)((now - s->call_since_ns) / NSEC_PER_SEC));
	else
		memcpy(w->status, s->status, sizeof(w->status));
	(void)pthread_mutex_unlock(&s->lock);
	return w->status;
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
