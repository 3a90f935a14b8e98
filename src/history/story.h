/* SPDX-License-Identifier: MIT */
/*
 * The story of a stretch of time, told from records: who held what on which device, what was said about it, and where the
 * telling has holes. Pure: records go in one by one, in the order of the journal, and the story comes out; it reads no
 * file and asks no clock.
 *
 * Times are microseconds of the wall clock, 0 = not known; bytes are bytes, STORY_ABSENT = not known. Everything belongs
 * to the story and lives as long as it. Text is clean UTF-8 as the records carried it (escaped, redacted), "" never: NULL
 * where a record did not say.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "history/entry.h"

#define STORY_ABSENT UINT64_MAX

/* What is kept at most; what does not fit is counted in left_out. */
#define STORY_HOSTS_MAX 256
#define STORY_DEVICES_MAX 4096
#define STORY_PROCESSES_MAX 20000  /* those with the smallest peaks go first */
#define STORY_POINTS_MAX 1024	   /* of one series: neighbours are joined into one with the lowest low and highest high */
#define STORY_INCIDENTS_MAX 20000  /* info and notice go first */
#define STORY_FAILURES_MAX 2000	   /* one after the other of a process within a minute are one, with a count */
#define STORY_SITES_MAX 32	   /* of one process: those with the most bytes */
#define STORY_STACKS_MAX 5000	   /* texts */
#define STORY_GAPS_MAX 2000
#define STORY_HOLDERS_MAX 32	   /* of one failure, most bytes first */

struct story_host {
	const char *name;	/* _HOSTNAME, else the machine id */
	const char *machine_id; /* 32 hex digits or NULL */
};

/* What a process held on a device, or a device had in use: live at usec, and between low and high since the point before. */
struct story_point {
	uint64_t usec;
	uint64_t low, high, live;
};

struct story_series {
	struct story_point *points; /* ascending; at least one */
	size_t len, cap;
	uint64_t peak_bytes, peak_usec; /* within the stretch */
};

struct story_device {
	struct story_host *host;
	const char *uuid;
	int index;	      /* -1 = not known */
	uint64_t total_bytes; /* STORY_ABSENT */
	struct story_series used; /* by everybody, as the driver counts; len 0 = it never said */
	/* Of the traced processes together: the highest sum of what they held at one moment. */
	uint64_t peak_bytes, peak_usec;
};

struct story_held {
	struct story_device *device; /* NULL: memory on a device that has no name */
	struct story_series series;
};

/* Bytes of one call site of a process. */
struct story_site {
	const struct story_stack *stack;
	uint64_t bytes;	     /* when the process held most, of the samples there are */
	uint64_t last_bytes; /* when it was last looked at */
	uint64_t peak_bytes; /* of this site */
};

struct story_process {
	struct story_host *host;
	uint32_t pid;
	uint64_t start_time; /* ticks since boot */
	const char *boot_id; /* 32 hex digits or NULL: start_time and pid mean something within it alone */
	const char *comm, *exe, *cmdline, *user, *unit, *container, *pod, *slurm_job, *tag; /* NULL */
	const char *pod_name, *pod_namespace, *container_name; /* NULL */
	uint64_t first_usec, last_usec; /* of what was heard of it within the stretch */
	uint64_t end_usec;		/* 0 = it was still there, as far as is known */
	bool is_ended;
	bool is_cut;			/* its end was not recorded: the daemon or the host went before it */
	struct story_held *held;	/* by device */
	size_t held_len;
	uint64_t peak_bytes, peak_usec; /* over all devices, within the stretch */
	uint64_t live_bytes;		/* last known; of one that has ended what it held then */
	uint64_t host_bytes, managed_bytes, driver_bytes;     /* last known */
	uint64_t alloc_count, free_count, fail_count, allocated_bytes; /* of its life, last known */
	uint64_t lost_events;
	bool is_exact;
	const struct story_stack *peak_stack; /* of the allocation that made the peak of its life; NULL */
	struct story_site *sites;	      /* most bytes first */
	size_t sites_len;
	size_t incidents;		      /* about it */
	size_t number;			      /* of it in story.processes */
};

struct story_stack {
	const char *id;	  /* GPUXRAY_STACK_ID, 16 hex digits */
	const char *text; /* frames, one a line, innermost first; NULL = only the id was ever told */
	const char *info; /* why it is cut or empty; NULL */
};

enum story_state {
	STORY_FIRING,	/* no end was recorded */
	STORY_RESOLVED,
	STORY_SINGLE,	/* a record that stands alone: single_alloc, alloc_failure without a state, exit, coverage */
};

struct story_incident {
	const char *id;	  /* 32 hex digits; NULL where it has none */
	struct story_host *host;
	const char *rule, *event, *severity, *scope; /* as the fields say; severity is the highest of its records */
	const char *subject;			     /* what was spoken of, for a column: "python3[4711]", "GPU 0", a unit */
	struct story_process *process; /* NULL */
	struct story_device *device;   /* NULL */
	enum story_state state;
	uint64_t begin_usec, last_usec, end_usec;
	bool is_before; /* it fired before the stretch */
	bool is_older;	/* than begin_usec: no record tells its beginning */
	uint64_t duration_sec; /* as its end said, else from begin to end, of a firing one to last_usec; ABSENT: is_older */
	uint64_t value, limit, peak_value; /* STORY_ABSENT */
	const char *value_unit;		   /* "bytes", "bytes/s", "calls/s", "calls"; NULL */
	uint64_t growth_bytes_per_hour, full_in_sec, leaked_bytes; /* STORY_ABSENT */
	double confidence;		   /* negative = absent */
	const char *caveat;		   /* NULL */
	const char *message;		   /* first line of the record that says most: the last that fires */
	const char *documentation;	   /* URL or NULL */
	const struct story_stack *stack;   /* NULL */
	size_t records;			   /* that told of it */
};

struct story_holder {
	struct story_process *process;
	uint64_t bytes;	     /* on the device of the failure */
	uint64_t as_of_usec; /* of the record that said so */
};

struct story_failure {
	uint64_t usec;	/* of the first */
	uint64_t last_usec;
	size_t count;
	struct story_host *host;
	struct story_process *process; /* NULL */
	struct story_device *device;   /* NULL */
	uint64_t bytes; /* asked for, the first time */
	const char *function, *error, *message;
	const struct story_stack *stack;
	uint64_t live_bytes; /* of the process then */
	uint64_t device_bytes, device_used_bytes;
	struct story_holder *holders; /* who held the device's memory then, most first; the process itself too */
	size_t holders_len, holders_left_out;
	uint64_t other_bytes; /* in use on the device and of none of them; STORY_ABSENT */
};

enum story_gap_kind {
	GAP_DOWN,	/* no daemon was running (it was stopped, or ended without a word) */
	GAP_SILENT,	/* ... or so it seems: health records are overdue until the end of the stretch */
	GAP_LOST,	/* events between kernel and daemon were lost: count */
	GAP_ASLEEP,	/* the host was suspended */
	GAP_MISSING,	/* records were written and are not in the journal: rate limit, full disk, rotation: count */
	GAP_SUPPRESSED, /* records that the daemon held back or could not write: count */
	GAP_BOOT,	/* the host was started anew */
};

struct story_gap {
	enum story_gap_kind kind;
	struct story_host *host;
	uint64_t from_usec, until_usec;
	uint64_t count; /* 0 = not counted */
	const char *text; /* one line, for reading: "gpuxray was not running for 2h 10m" */
};

struct story {
	uint64_t from_usec, until_usec; /* the stretch */
	size_t records; /* within it */
	struct story_host **hosts;
	size_t hosts_len;
	struct story_device **devices; /* by host, then index */
	size_t devices_len;
	struct story_process **processes; /* highest peak first */
	size_t processes_len;
	struct story_incident **incidents; /* by begin */
	size_t incidents_len;
	struct story_failure **failures; /* by time */
	size_t failures_len;
	struct story_gap **gaps; /* by time */
	size_t gaps_len;
	struct story_stack **stacks; /* that the above name */
	size_t stacks_len;
	struct {
		uint64_t hosts, devices, processes, incidents, failures, sites, stacks, gaps, holders;
		uint64_t unreadable; /* records with fields that make no sense */
	} left_out;
};

struct story_builder;

/* A sample is told again at least this often while a process holds memory, so that a stretch is told from this much
 * before its beginning. */
#define STORY_LOOK_BACK_USEC (UINT64_C(3900) * 1000000)

struct story_options {
	uint64_t from_usec, until_usec; /* the stretch, until exclusive */
	uint32_t pid;	  /* only what is about it; 0 = all */
	const char *unit; /* only what is about processes of this unit; NULL = all */
};

int story_builder_new(const struct story_options *o, struct story_builder **ret);
/* One record, of any time up to until_usec: what comes before the stretch only tells how things stood at its beginning.
 * Borrows e. 0 or -ENOMEM. */
int story_add(struct story_builder *b, const struct entry *e);
/* The stacks that are named and have no text yet: the reader may look for them outside of the stretch and add those records
 * too. next: start with *iter = 0; NULL at the end. */
const char *story_next_untold_stack(struct story_builder *b, size_t *iter);
/* All has been added. now_usec: until when the journal has been read, for what goes on. 0 or -ENOMEM; the builder is left
 * to be freed. */
int story_finish(struct story_builder *b, uint64_t now_usec, struct story **ret);
void story_builder_free(struct story_builder *b); /* accepts NULL */
DEFINE_CLEANUP(struct story_builder, story_builder_free)
void story_free(struct story *s); /* accepts NULL */
DEFINE_CLEANUP(struct story, story_free)

const char *story_gap_name(enum story_gap_kind k);     /* "down", "silent", "lost", "asleep", "missing", "suppressed", "boot" */
const char *story_state_name(enum story_state s);      /* "firing", "resolved", "single" */
/* "python3[4711]" */
void story_process_name(const struct story_process *p, struct strbuf *sb);
/* "GPU 0", or of several hosts "gpu01 GPU 0"; without an index the uuid's first 12 characters. */
void story_device_name(const struct story *s, const struct story_device *d, struct strbuf *sb);
