/* SPDX-License-Identifier: MIT */
/*
 * The books of the traced processes: bytes by class and device, call sites, stacks. Live blocks are not kept one by one
 * here: the kernel's live map has them, and each free names what it frees.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../bpf/event.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/map64.h"
#include "model/device.h"
#include "model/identity.h"
#include "model/stack.h"

/* Ordinals of one process that are kept apart. */
#define PROCESS_DEVICES_MAX 64

struct site_watch;    /* rule/watch.h: what the rules remember of a site */
struct process_watch; /* ... and of a process */

/* The blocks of one call site. */
struct site {
	uint64_t key;	/* of the stack; 0 = allocations without one */
	uint64_t bytes; /* live, over all classes but imported */
	uint64_t blocks;
	uint64_t alloc_count;
	uint64_t first_ns, last_ns; /* of its allocations */
	uint32_t call;	      /* of its last allocation, as device, class and stack_reason are */
	int32_t device;
	uint8_t class;
	uint8_t stack_reason;
	bool is_other; /* the one that stands for all sites beyond the limit */
	struct site_watch *watch;
};

struct process_device {
	int ordinal;	       /* the process's own; EVENT_NO_DEVICE = not known */
	struct device *device; /* NULL until its uuid is known */
	uint64_t live[CLASS_MAX];
};

struct process {
	uint32_t pid;
	uint64_t start_ns;
	struct identity *id; /* NULL until known */
	uint64_t first_ns, last_ns; /* of its events */

	uint64_t live[CLASS_MAX];
	uint64_t live_bytes; /* of the classes in CLASS_DEVICE_MASK */
	uint64_t peak_bytes; /* of live_bytes, for life */
	uint64_t peak_ns;
	uint64_t peak_stack; /* of the allocation that made the peak */
	uint64_t live_count, alloc_count, free_count, fail_count, unknown_free_count;
	uint64_t untracked_count, untracked_bytes; /* did not fit in the kernel's live map: not in live */
	uint64_t allocated[CLASS_MAX]; /* ever */
	uint64_t lost_events;
	uint64_t driver_bytes; /* what the driver says it uses; UINT64_MAX = not known. Set by the daemon */
	bool exact;	       /* no loss since the last rebuild, nothing clamped */
	bool is_rebuilding;    /* between begin and end: totals mean nothing */

	struct process_device *devices;
	size_t devices_len;
	struct map64 sites; /* by key */
	struct site other;
	uint64_t sites_overflow; /* allocations that went to other */
	uint64_t sites_sweep;	 /* overflows at which empty sites are looked for again */
	bool (*release_site)(struct site *s); /* drops the site's watch; false: it is still needed. May be NULL */
	struct map64 stacks;	 /* struct stack by key */
	uint64_t stacks_overflow;

	struct process_watch *watch;
	struct process *next; /* older incarnation of the same pid */
	size_t index;	      /* in processes.list */
};

/* What an event changed: what could not be booked (clamped) is not in here, so sums over processes stay sums. */
struct change {
	bool is_free;
	uint8_t class;
	uint64_t bytes;	       /* of the process */
	int slot;	       /* in devices, -1 = none */
	uint64_t device_bytes; /* of that slot */
	struct site *site;
	uint64_t site_bytes;
	uint64_t other_bytes; /* free: of the block, what was not on its own site but on "other" */
};

struct processes {
	struct map64 by_pid;
	struct process **list;
	size_t len, cap;
};

struct process *processes_find(const struct processes *ps, uint32_t pid, uint64_t start_ns);
/* The newest incarnation of pid, or NULL. */
struct process *processes_newest(const struct processes *ps, uint32_t pid);
/* 0 or -ENOMEM; the caller has looked that it does not exist. */
int processes_add(struct processes *ps, uint32_t pid, uint64_t start_ns, uint64_t now_ns, struct process **ret);
/* Removes and frees it; its watches are gone already, its device references are given up by the caller. */
void processes_remove(struct processes *ps, struct process *p);
void processes_done(struct processes *ps);

/* Book an event. 0 or -ENOMEM, which leaves the process inexact; *ret says what was booked even then. */
int process_alloc(struct process *p, const struct event *ev, const struct limits *limits, struct change *ret);
int process_free(struct process *p, const struct event *ev, struct change *ret);
/* A surviving block of a rebuild: no counter but live_count moves. */
int process_restore(struct process *p, const struct event *ev, const struct limits *limits, struct change *ret);
/* Forgets the live blocks, not peak and counts. */
void process_forget_blocks(struct process *p);
/* The slot of an ordinal, adding it; beyond the maximum that of EVENT_NO_DEVICE. Slot number or -ENOMEM. */
int process_device_slot(struct process *p, int ordinal);
/* The slot with most bytes of these classes whose device has a uuid, else any; -1 = none. */
int process_main_device(const struct process *p, uint32_t classes);
/* Takes a reference. 0, -ENOSPC (counted), -ENOMEM. */
int process_add_stack(struct process *p, struct stack *s, const struct limits *limits);

/* For process.c: the site for a new block, never NULL (at worst "other"); *r is set on -ENOMEM. */
struct site *process_site(struct process *p, uint64_t key, const struct limits *limits, uint64_t birth_ns, int *r);
/* ... and the site a block is freed from. */
void process_free_site(struct process *p, const struct event *ev, struct change *c);

/* The site that holds most bytes, NULL when none holds any. */
struct site *process_top_site(const struct process *p);
/* Walks the sites, "other" last if it was ever used; start with *iter = 0. */
struct site *process_next_site(const struct process *p, size_t *iter);
/* Sites that hold memory, most bytes first. The caller frees the array, not the sites. 0 or -ENOMEM. */
int process_sort_sites(const struct process *p, struct site ***ret, size_t *ret_len);
struct stack *process_stack(const struct process *p, uint64_t key);
