/* SPDX-License-Identifier: MIT */
/*
 * Every executable mapping of every process, as it is made: the kernel's mmap2 records of a dummy perf event on each CPU.
 * No polling, no probe in anybody's path, and no need for kprobes or LSM hooks.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "model/stack.h"

struct mmap_watch;

int mmap_watch_new(struct mmap_watch **ret);
void mmap_watch_free(struct mmap_watch *w); /* accepts NULL */
DEFINE_CLEANUP(struct mmap_watch, mmap_watch_free)
/* An epoll fd, readable when records wait. */
int mmap_watch_fd(const struct mmap_watch *w);
/* m->path lives until fn returns. */
typedef void (*mmap_fn)(uint32_t pid, const struct mapping *m, void *userdata);
/* Number of records handed over; *ret_lost = records the kernel had no room for since the last call: look at /proc. */
int mmap_watch_drain(struct mmap_watch *w, mmap_fn fn, void *userdata, uint64_t *ret_lost);
