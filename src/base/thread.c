/* SPDX-License-Identifier: MIT */
#include "base/thread.h"

#include <signal.h>
#include <time.h>

#include "base/clock.h"

int cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;
	int err;

	err = pthread_condattr_init(&attr);
	if (err != 0)
		return -err;
	err = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	if (err == 0)
		err = pthread_cond_init(cond, &attr);
	(void)pthread_condattr_destroy(&attr);
	return -err;
}

bool cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns)
{
	struct timespec ts = { .tv_sec = (time_t)(deadline_ns / NSEC_PER_SEC),
			       .tv_nsec = (long)(deadline_ns % NSEC_PER_SEC) };

	if (deadline_ns == UINT64_MAX)
		return pthread_cond_wait(cond, lock) == 0;
	return pthread_cond_timedwait(cond, lock, &ts) == 0;
}

int thread_start(pthread_t *ret, const char *name, void *(*fn)(void *userdata), void *userdata)
{
	sigset_t all, before;
	int err;

	(void)sigfillset(&all);
	err = pthread_sigmask(SIG_SETMASK, &all, &before);
	if (err != 0)
		return -err;
	err = pthread_create(ret, NULL, fn, userdata);
	if (err == 0)
		(void)pthread_setname_np(*ret, name);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}
