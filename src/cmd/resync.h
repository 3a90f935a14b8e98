/* SPDX-License-Identifier: MIT */
/*
 * After a loss: a process is rebuilt from the kernel's live map while it goes on allocating.
 *
 * The walk over the map and the ring overlap: a block read from the map may have its ALLOC event still in the ring, and a
 * block freed during the walk may or may not have been read. So the blocks that were read are remembered for a while by
 * address and birth, and each later event of that process is held against them: an ALLOC already counted and a FREE of a
 * block never counted are dropped. That is right in any order of the two.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../bpf/event.h"
#include "base/cleanup.h"
#include "rule/engine.h"
#include "trace/tracer.h"

struct resync;

int resync_new(struct tracer *t, struct engine *e, struct resync **ret);
void resync_free(struct resync *r); /* accepts NULL */
DEFINE_CLEANUP(struct resync, resync_free)

/* Marks a process for the next run; marking twice is once. 0 or -ENOMEM. */
int resync_want(struct resync *r, uint32_t pid, uint64_t start_ns);
/* Rebuilds the marked processes in one walk. Number rebuilt, or -errno (they stay marked). */
int resync_run(struct resync *r, uint64_t now_ns, uint64_t real_usec);
/* Is this event to be handed to the engine? Cheap when nothing was rebuilt lately. */
bool resync_filter(struct resync *r, const struct event *ev);
/* The process has ended or was replaced by exec: what was noted of its blocks is void. */
void resync_forget(struct resync *r, uint32_t pid, uint64_t start_ns);
/* Forgets rebuilds older than two seconds. */
void resync_tick(struct resync *r, uint64_t now_ns);
/* Is it being held against a rebuild now? Then its totals may still move. */
bool resync_is_settling(const struct resync *r, uint32_t pid, uint64_t start_ns);
