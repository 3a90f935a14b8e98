/* SPDX-License-Identifier: MIT */
/*
 * The books of the traced processes: bytes by class and device, call sites, stacks. Live blocks are not kept one by one
 * here: the kernel's live map has them, and each free names what it frees.
 *
 * Events name stacks by number. What a number allocates is a site of its own until the stack is resolved; then it is part
 * of the site with that key, as are other numbers.
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
	uint64_t key; /* frames.site where is_resolved; else the number of its only stack, 0 = allocations without one */
	uint64_t bytes; /* live, over all classes but imported and framework */
	uint64_t framework_bytes; /* blocks that a framework cut out of the above, of this site or another */
	uint64_t blocks;
	uint64_t alloc_count;
	uint64_t first_ns, last_ns; /* of its allocations */
	uint32_t call;	      /* of its last allocation, as device, class and stack_reason are; of a framework's only
				 while it holds nothing else */
	int32_t device;
	uint8_t class;
	uint8_t stack_reason;
	bool is_resolved;
	bool is_other; /* the one that stands for all sites beyond the limit */
	bool is_going; /* during a sweep */
	struct stack *stack; /* for reports: the first of its stacks that has frames, before that any. May be NULL */
	struct site_watch *watch;
	size_t index; /* in process.sites */
};

/* A stack as events name it. */
struct stack_entry {
	uint64_t number;
	uint64_t key;	     /* of its site; where is_resolved */
	struct site *site;   /* where its blocks are booked; NULL before the first, and after the site has made room */
	struct stack *stack; /* a reference; that of the first number where this is a copy. NULL: it was never set */
	uint64_t blocks, bytes, framework_bytes; /* what of the site is of this number. Blocks beyond a limit are on
						    "other" alone */
	uint64_t use;	     /* process.stack_uses when it was last set or named */
	uint8_t named;	     /* by allocations, failed ones too: 0, 1, 2 = more often */
	bool is_resolved;
	bool is_copy; /* of a stack that had a number already: one allocation names it, unless the probe has learned it */
};

struct process_device {
	int ordinal;	       /* the process's own; EVENT_NO_DEVICE = not known; PROCESS_DEVICE_DRIVER: only the driver
				  has named this device for this process */
	struct device *device; /* NULL until its uuid is known */
	uint64_t live[CLASS_MAX];
	uint64_t driver_bytes; /* UINT64_MAX = not known */
	uint64_t held;	       /* of live, the classes in CLASS_DEVICE_MASK */
	/* Of held, for the history: since the look before, since the sample before, and for life. Times of the event clock. */
	struct held_range {
		uint64_t low, high, high_ns;
		uint64_t high_usec; /* wall clock of high_ns, 0 = not asked yet; rule/sample.c keeps it */
	} look, since;
	uint64_t look_ns; /* when look began */
	uint64_t peak_bytes;
	uint64_t peak_ns;   /* of one that peak_usec does not tell of yet, else 0 */
	uint64_t peak_usec; /* wall clock; rule/sample.c keeps it */
	/* What the last sample said; samples 0 = none has. ns: where the range "since" begins, 0 = where the process was seen. */
	struct held_said {
		uint64_t low, high, held, driver_bytes, ns;
		uint32_t samples;
	} said;
};

#define PROCESS_DEVICE_DRIVER (-2)

/* What is wrong with a process that holds GPU memory. */
enum process_condition {
	CONDITION_PARENT_GONE = 1,   /* its parent has died: it was handed to another */
	CONDITION_ZOMBIE = 2,	     /* dead but not waited for */
	CONDITION_UNINTERRUPTIBLE = 4, /* state D: stuck in the kernel */
	CONDITION_NO_PROCESS = 8,    /* the driver counts memory for a pid that does not exist */
};

#define CONDITIONS_ALL 15u

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
	uint64_t missed_count; /* calls that the probes could not follow */
	uint64_t allocated[CLASS_MAX]; /* ever */
	uint64_t lost_events;
	/* Blocks of frameworks' own allocators (CLASS_FRAMEWORK), in none of the counts above */
	uint64_t framework_live_count, framework_alloc_count, framework_free_count;
	uint64_t pool_peak_bytes; /* of CLASS_ASYNC and CLASS_GRAPH, for life: their pools may keep so much when it is free */
	bool is_listed; /* the driver names it, whatever it holds */
	uint64_t driver_bytes; /* what the driver says it uses on all devices; UINT64_MAX = not known */
	uint64_t baseline_bytes; /* of that, what was there before the tracer: driver_bytes less live_bytes at first sight of
				    a process older than the tracer; UINT64_MAX = not known, 0 = younger */
	bool is_covered; /* it has produced events, or holds nothing */
	const char *uncovered_reason; /* static text; NULL while covered or not known */
	uint32_t condition; /* enum process_condition bits, from /proc */
	uint64_t condition_ns; /* since when it has any */
	uint32_t stuck_looks; /* in a row that found it in state D; the daemon's */
	uint64_t gone_ns; /* since when /proc has no such process, 0 = it has; the daemon's */
	bool exact;	       /* no loss since the last rebuild, nothing clamped */
	bool is_rebuilding;    /* between begin and end: totals mean nothing */

	struct process_device *devices;
	size_t devices_len;
	struct site **sites; /* all but other */
	size_t sites_len, sites_cap;
	struct map64 sites_by_key; /* those whose stack is resolved: no number can be taken for a key */
	struct site other;
	uint64_t sites_overflow; /* allocations that went to other for want of a site */
	uint64_t sites_sweep;	 /* overflows at which empty sites are looked for again */
	bool (*release_site)(struct site *s); /* drops the site's watch; false: it is still needed. May be NULL */

	struct map64 stacks; /* struct stack_entry by number */
	struct map64 firsts; /* the entry that first had a resolved stack, by frames.exact */
	struct stack_entry none; /* allocations without a stack: number 0, in no table */
	uint64_t stack_uses;	 /* how often numbers were set or named */
	uint64_t stacks_overflow; /* stacks not kept, and allocations that went to other for want of an entry */
	uint64_t stacks_sweep;	 /* overflows at which idle entries are looked for again */
	uint64_t stacks_dropped; /* entries that made room; spent copies are not counted */
	size_t copies, copies_kept; /* entries that are copies; how many there were after the last look for idle ones */
	void (*forget_stack)(const struct stack *s, void *userdata); /* engine_ops.forget_stack. May be NULL */
	void *userdata;

	struct process_watch *watch;
	struct processes *all;
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
	size_t sites, stacks; /* of all of them */
	uint64_t sites_overflow, stacks_overflow; /* of limits.sites */
};

/* That incarnation of pid, or NULL. It stays the table's. */
struct process *processes_find(const struct processes *ps, uint32_t pid, uint64_t start_ns);
/* The newest incarnation of pid, or NULL. */
struct process *processes_newest(const struct processes *ps, uint32_t pid);
/* 0 or -ENOMEM; the caller has looked that it does not exist. */
int processes_add(struct processes *ps, uint32_t pid, uint64_t start_ns, uint64_t now_ns, struct process **ret);
/* Removes and frees it; its watches are gone already, its device references are given up by the caller. */
void processes_remove(struct processes *ps, struct process *p);
void processes_done(struct processes *ps);

/*
 * May a process that has so many get one more of what is limited over all of them? Of the last 1/32 it may only while it has
 * less than what is left: whoever has most leaves room for the others.
 */
bool processes_has_room(size_t max, size_t used, size_t own);

/* Book an event. 0 or -ENOMEM, which leaves the process inexact; *ret says what was booked even then. */
int process_alloc(struct process *p, const struct event *ev, const struct limits *limits, struct change *ret);
int process_free(struct process *p, const struct event *ev, struct change *ret);
/* A surviving block of a rebuild: no counter but live_count moves. */
int process_restore(struct process *p, const struct event *ev, const struct limits *limits, struct change *ret);
/* Forgets the live blocks, not peak and counts. */
void process_forget_blocks(struct process *p);
/* The slot of an ordinal, adding it; beyond the maximum that of EVENT_NO_DEVICE. Slot number or -ENOMEM. */
int process_device_slot(struct process *p, int ordinal);
/* The slot of a device that the driver names for it, adding one. Slot number, -ENOSPC, -ENOMEM. The caller counts the
 * reference where *ret_is_new. */
int process_driver_slot(struct process *p, struct device *dev, bool *ret_is_new);
/* Device memory by our count or the driver's. */
bool process_holds_memory(const struct process *p);
/* The slot with most bytes of these classes whose device has a uuid, else any; -1 = none. */
int process_main_device(const struct process *p, uint32_t classes);
/* What the driver reports beyond what is traced; UINT64_MAX where it reports nothing, 0 where it reports less. */
uint64_t process_untracked_bytes(const struct process *p);
/* A device once, though the process may have memory on it by its ordinal, by none, and by the driver's word. */
struct process_on_device {
	const struct device *device; /* NULL = not known */
	int ordinal;		     /* -1 = not known */
	uint64_t live_bytes, driver_bytes; /* driver_bytes UINT64_MAX = not known */
};
/* ... from slot first on; false: it was told at an earlier slot, or is not used any more. */
bool process_on_device(const struct process *p, size_t first, struct process_on_device *ret);
/* What it holds on a device has changed: its ranges follow. */
void process_note_held(struct process_device *pd, uint64_t time_ns);
/* The range since the look before, or both, begin now, with what is held now. */
void process_begin_look(struct process_device *pd, uint64_t time_ns);
void process_begin_ranges(struct process_device *pd, uint64_t time_ns);
/* A failed allocation: counts, and names its stack. */
void process_fail(struct process *p, const struct event *ev);

/* stack_entry.c */
/* Takes a reference. 0 (also where that number has one already), -EINVAL (number 0), -ENOSPC (counted), -ENOMEM. */
int process_add_stack(struct process *p, struct stack *s, const struct limits *limits);
/* NULL when nothing is known of it. Number 0 has an entry always. */
struct stack_entry *process_stack_entry(struct process *p, uint64_t number);
/* The stack of a number, NULL when there is none. */
struct stack *process_stack(const struct process *p, uint64_t number);
/* For process.c: the entry for a block of this number. NULL where there is no room (counted) or no memory (*r is set). */
struct stack_entry *process_use_stack(struct process *p, uint64_t number, const struct limits *limits, int *r);
/* An allocation names the number; e is its entry, NULL if it has none. */
void process_name_stack(struct process *p, struct stack_entry *e, uint64_t number);
/* The stack has been resolved: from now on the entry belongs to the site of that key. The watches of the two sites are
 * merged already. 0 or -ENOMEM, which leaves all as it was. */
int process_set_site(struct process *p, struct stack_entry *e, uint64_t key);
/* Drops idle copies when there are many; no event that is still to be looked at names them. */
void process_drop_copies(struct process *p, const struct limits *limits);

/* site.c */
/* The site of that key, NULL when there is none. */
struct site *process_resolved_site(const struct process *p, uint64_t key);
/* For process.c: the site for a new block of an entry (may be NULL), itself never NULL (at worst "other"); *r is set on
 * -ENOMEM. */
struct site *process_site(struct process *p, struct stack_entry *e, const struct limits *limits, uint64_t birth_ns,
			  int *r);
/* ... and the site a block is freed from. */
void process_free_site(struct process *p, const struct event *ev, struct change *c);
/* For stack_entry.c: the site becomes that of a key, or part of one that exists. */
int site_set_key(struct process *p, struct site *s, uint64_t key);
void site_merge(struct process *p, struct site *to, struct site *from);
void site_offer_stack(struct site *s, struct stack *stack);
/* Nothing is on it and no incident is about it; its watch is gone then. */
bool site_release(struct process *p, struct site *s);
void site_remove(struct process *p, struct site *s);

/* What of these classes a site may hold: it does not keep driver's classes apart. */
uint64_t site_live_bytes(const struct site *s, uint32_t classes);
/* The site that holds most bytes, of those whose last allocation was of these classes if there is one. NULL when none
 * holds any. */
struct site *process_top_site(const struct process *p, uint32_t classes);
/* Walks the sites, "other" last if it was ever used; start with *iter = 0. */
struct site *process_next_site(const struct process *p, size_t *iter);
/* Sites that hold memory, most bytes first, then those that hold frameworks' blocks alone. The caller frees the array, not the sites. 0 or -ENOMEM. */
int process_sort_sites(const struct process *p, struct site ***ret, size_t *ret_len);
