/* SPDX-License-Identifier: MIT */
/* What the parts of the story's builder share. A telling is the builder's books, and what the finished story rests on. */
#pragma once

#include "base/map64.h"
#include "history/story.h"

/* Beyond the bounds of story.h, so that no flood of records takes more memory than some 100 MiB. */
#define TELLING_TEXT_MAX ((size_t)32 << 20) /* bytes of all texts together */
#define TELLING_VALUE_MAX 4096		    /* bytes of one: fields of ours are shorter */
#define TELLING_POINTS_MAX ((size_t)1 << 20) /* of all series together: then all are told more coarsely */
#define TELLING_HELD_MAX 65536		    /* pairs of process and device */
#define TELLING_SITES_MAX 200000	    /* of all processes */
#define TELLING_STACKS_MAX 20000	    /* ids */
#define PROC_HELD_MAX 256		    /* devices of a process */
#define PROC_SITES_MAX (4 * STORY_SITES_MAX)
#define HOST_SENDERS_MAX 64
#define FAILURES_PENDING_MAX 16
#define WALKS_MAX 50000000 /* steps of what looks at all holders of a device; then bounds must do */

typedef unsigned __int128 sum_t; /* of up to 2^64 values of up to 2^64 */

#define PUSH(list, len, cap, item)                                                                                     \
	({                                                                                                             \
		int push_ = telling_grow((void **)&(list), &(cap), (len), sizeof(*(list)));                            \
		if (push_ == 0)                                                                                        \
			(list)[(len)++] = (item);                                                                      \
		push_;                                                                                                 \
	})

/* Interned: equal texts are one pointer. */
struct texts {
	struct map64 by_hash; /* first of a chain */
	struct text *all;
	size_t bytes;
};

struct call_site {
	struct story_stack s;
	uint64_t id;
	char hex[17];
	bool is_named; /* by what is told */
};

struct series {
	struct story_series s;
	uint64_t before, before_usec; /* newest value from before the stretch; before_usec 0 = none */
	bool is_open;		      /* the value at the beginning was put in, if there is one */
};

struct sender {
	uint32_t pid;
	const char *boot_id;
	uint64_t anchor_usec, anchor_written; /* newest record with a count of those before it; anchor_usec 0 = none */
	uint64_t seen;			      /* from that one on, itself too */
	uint64_t lost, lost_usec;	      /* newest count of lost events; lost_usec 0 = none */
	uint64_t last_usec;
};

struct host {
	struct story_host s;
	const char *key; /* machine id, else name */
	unsigned run;	 /* counts the daemon's starts and ends: values of an earlier run are not known to hold */
	unsigned run_at_from;
	uint64_t run_usec; /* when this run began */
	bool is_crossed;   /* its records have reached the stretch */
	uint64_t first_usec, last_usec;
	bool began_with_start;
	bool is_stopped;
	uint64_t stop_usec;
	uint32_t stop_pid;
	uint64_t health_sec; /* 0 = not known */
	uint64_t awake_usec; /* since when: nobody samples in a suspended host */
	const char *boot_id;
	struct sender *senders;
	size_t senders_len, senders_cap, sender_at; /* sender_at: the last that was found */
	struct gap *down; /* the newest, and of whom it was said */
	uint32_t down_pid;
	bool down_was_stop; /* and by himself */
	uint32_t sender_pid; /* of the newest record */
	struct gap *suppressed; /* the newest */
	bool is_told;
	struct host *next; /* same hash */
};

struct device {
	struct story_device s;
	struct host *host;
	struct series used;
	struct held **helds;
	size_t helds_len, helds_cap;
	/* What the traced processes hold together now, of those heard of in this run of the daemon. */
	sum_t sum;
	sum_t bound; /* of their higher ones of the newest two values each: no less than the sum between these was */
	unsigned run;
	uint64_t looked_usec; /* for those that are held no more */
	bool is_told;
	struct device *next;
};

/* What a process holds on a device. */
struct held {
	struct proc *proc;
	struct device *device; /* NULL */
	size_t device_at;      /* in device->helds */
	struct series series;
	uint64_t live, live_usec; /* newest sample */
	uint64_t live_before, before_usec; /* what the one before it said; before_usec 0 = there was none */
	uint64_t bound;			       /* its part of the device's */
	unsigned run;
};

struct site {
	struct call_site *stack;
	struct held *held; /* NULL = on all devices, from the record of the end */
	uint64_t last, peak, bytes;
};

struct proc {
	struct story_process s;
	struct host *host;
	uint64_t hash;
	unsigned run; /* of the newest record */
	struct held **held;
	size_t held_len, held_cap;
	struct site *sites;
	size_t sites_len, sites_cap;
	uint64_t sites_total, sites_usec; /* what it held, and when, as the bytes of the sites were taken */
	uint64_t peak_life, peak_life_usec; /* the peak of its life and who said so; for when it grows between samples */
	bool has_sample, is_carried;
	bool is_going; /* is about to be left out */
	struct proc *next;
};

struct incident {
	struct story_incident s;
	struct host *host;
	struct proc *proc;
	struct device *device;
	struct call_site *stack;
	uint64_t hash;
	uint64_t seq, seq_seen; /* highest, and which of the 64 up to it were told */
	int rank;		/* of the severity: 0 = least */
	const char *unit, *user, *container, *cgroup;
	uint32_t pid;
	const char *comm;
	struct incident *next;
};

struct holder {
	struct proc *proc;
	uint64_t bytes, usec;
};

struct failure {
	struct story_failure s;
	struct host *host;
	struct proc *proc;
	struct device *device;
	struct call_site *stack;
	uint32_t pid;
	const char *unit;
	struct holder *holders;
	size_t holders_len, holders_cap;
};

struct gap {
	struct story_gap s;
	struct host *host;
	bool is_revoked;
};

struct story_builder {
	struct telling *t; /* NULL: the story has it */
};

struct telling {
	struct story story;
	uint64_t from, until;
	uint32_t pid;
	char *unit; /* without ".service"; NULL */
	bool is_looking; /* only texts of stacks are wanted any more */
	struct texts texts;
	struct strbuf scratch;

	struct host **hosts;
	size_t hosts_len, hosts_cap;
	struct map64 host_map;
	struct host *host_last;
	const char *boot_last;

	struct device **devices;
	size_t devices_len, devices_cap;
	struct map64 device_map;

	struct proc **procs;
	size_t procs_len, procs_cap;
	struct map64 proc_map; /* newest of a key first */
	size_t helds, sites, points, points_cap; /* points_cap: of one series */

	struct call_site **stacks;
	size_t stacks_len, stacks_cap;
	struct map64 stack_map;
	size_t stack_texts;

	struct incident **incidents;
	size_t incidents_len, incidents_cap;
	struct map64 incident_map;

	struct failure **failures;
	size_t failures_len, failures_cap;
	struct failure *pending[FAILURES_PENDING_MAX];
	size_t pending_len;

	struct gap **gaps;
	size_t gaps_len, gaps_cap;

	bool has_unreadable; /* the record at hand */
	size_t walks;	     /* over all holders of a device, so far */
};

/* One record, with what nearly every part asks. */
struct told {
	const struct entry *e;
	uint64_t usec;
	bool is_within; /* the stretch */
	struct host *host;
	const char *boot_id;
	struct sender *sender;
	struct device *device; /* NULL: it names none, or there is no room */
	bool has_lost_device;  /* no room */
};

/* story.c */
int telling_grow(void **list, size_t *cap, size_t len, size_t size);
/* The number or absent; one that is none makes the record unreadable. */
uint64_t told_u64(struct telling *t, const struct entry *e, enum entry_field f, uint64_t absent);
uint64_t add_sat(uint64_t a, uint64_t b);
uint64_t sum_sat(sum_t v);
void telling_free(struct telling *t);
DEFINE_CLEANUP(struct telling, telling_free)

/* story_text.c. All return NULL where the field is absent or empty, or there is no room; *err is -ENOMEM then or untouched. */
const char *texts_add(struct telling *t, const char *data, size_t len, int *err);
const char *told_text(struct telling *t, const struct entry *e, enum entry_field f, int *err);
const char *told_line(struct telling *t, const struct entry *e, enum entry_field f, int *err);  /* the first alone */
const char *told_lines(struct telling *t, const struct entry *e, enum entry_field f, int *err); /* with its newlines */
/* Puts the field where it is there and differs. */
int told_update(struct telling *t, const struct entry *e, enum entry_field f, const char **text);
void texts_done(struct texts *x);

/* story_stack.c */
/* NULL: no id, or no room. */
struct call_site *stack_find(struct telling *t, const char *hex, size_t len, int *err);
struct call_site *told_stack(struct telling *t, const struct entry *e, int *err); /* and its text, where it is there */

/* story_series.c */
int series_add(struct telling *t, struct series *s, uint64_t usec, uint64_t low, uint64_t high, uint64_t live);
void series_peak(struct series *s, uint64_t usec, uint64_t bytes);
/* A point between those that are there. */
int series_insert(struct telling *t, struct series *s, uint64_t usec, uint64_t bytes);
/* A value from before the stretch that can still hold: an older one would have been told again. */
bool series_has_before(const struct telling *t, const struct series *s);
/* Before the first point within the stretch: how it stood at the beginning. */
int series_open(struct telling *t, struct series *s, bool is_carried);
void series_done(struct telling *t, struct series *s);

/* story_device.c */
int told_device(struct telling *t, struct told *r);
/* -ENOSPC: no room. */
int device_find(struct telling *t, struct host *h, const char *uuid, size_t len, struct device **ret);
int device_note_used(struct telling *t, struct device *d, uint64_t usec, uint64_t bytes);
/* h's newest sample has been taken into account; high, high_usec: its highest since the one before. */
void device_sum(struct telling *t, struct held *h, uint64_t old_live, bool was_current, uint64_t high,
		uint64_t high_usec);
/* h alone held bytes at that moment, which no sample has shown. */
void device_moment(struct telling *t, const struct held *h, uint64_t usec, uint64_t bytes);
/* The host's records reach the stretch: what the devices' sums were then. */
void device_cross(struct telling *t, struct host *h);

/* story_process.c */
/* The process that the record is about, made where it is not known yet; NULL = about none, or no room. is_alive: the record
 * shows it alive, so that it is another one than that which ended before. */
int told_process(struct telling *t, const struct told *r, bool is_alive, struct proc **ret);
int process_sample(struct telling *t, const struct told *r);
int process_exit(struct telling *t, const struct told *r);
bool held_is_current(const struct held *h);
/* Its newest sample holds no more: another one would have been told by then, even by a daemon that may say little. Its end
 * is one of the records that are missing. */
bool held_is_stale(const struct held *h, uint64_t usec);
/* What it held at a moment, by its last two samples; false: they do not reach back so far. */
bool held_at(const struct held *h, uint64_t usec, uint64_t *ret);
int held_open(struct telling *t, struct held *h);
void process_peak(struct telling *t, struct proc *p, uint64_t usec, uint64_t bytes);
/* Leaves out those with the smallest peaks until max are left. */
int process_prune(struct telling *t, size_t max);
void process_drop(struct telling *t, struct proc *p);

/* story_site.c */
int sites_sample(struct telling *t, struct proc *p, struct held *h, const struct told *r, uint64_t total);
int sites_exit(struct telling *t, struct proc *p, const struct told *r);
int sites_finish(struct telling *t, struct proc *p);

/* story_incident.c */
int incident_add(struct telling *t, const struct told *r);
int incident_finish(struct telling *t);
bool unit_matches(const struct telling *t, const char *unit);

/* story_failure.c */
int failure_add(struct telling *t, const struct told *r);
/* h's newest sample has been taken. */
int failure_sample(struct telling *t, const struct held *h);
/* Those whose holders' samples must have come by then are done; UINT64_MAX: all. */
int failure_settle(struct telling *t, uint64_t usec);
/* Processes that are going are named no more. */
void failure_forget(struct telling *t);
void incident_forget(struct telling *t);
int failure_finish(struct telling *t);

/* story_gap.c */
int gap_record(struct telling *t, const struct told *r);
int gap_finish(struct telling *t, uint64_t end_usec);

/* story_finish.c */
int telling_finish(struct telling *t, uint64_t now_usec);
