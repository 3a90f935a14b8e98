/* SPDX-License-Identifier: MIT */
/* Threads and waiting, by the monotonic clock. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A condition for cond_wait_until(). 0 or -errno. */
int cond_init(pthread_cond_t *cond);
/* False when the time is over. deadline_ns: monotonic, UINT64_MAX = none. */
bool cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns);
/*
 * With all signals blocked: they are the main thread's, and a write to a broken pipe must come back as EPIPE. name: at
 * most 15 bytes. 0 or -errno.
 */
int thread_start(pthread_t *ret, const char *name, void *(*fn)(void *userdata), void *userdata);
