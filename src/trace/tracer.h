/* SPDX-License-Identifier: MIT */
/* The BPF side: loaded, attached, read. The only room that knows libbpf. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../bpf/stack_event.h"
#include "base/cleanup.h"
#include "base/limits.h"

struct tracer;

struct tracer_options {
	struct limits limits;
	const uint32_t *pids; /* trace only these; none = every process */
	size_t pids_len;
	uint32_t pid_ns; /* inode of the PID namespace whose numbers are used; 0 = the initial one */
	struct keep *keep; /* trace/keep.h: what an earlier daemon left and where ours is kept; borrowed, may be NULL */
	bool no_multi; /* perf uprobes even where uprobe_multi works: for tests */
	bool bare;     /* attach the empty program instead of ours: the floor in benchmarks */
};

/* Loads programs and maps. On failure the reason and its cure, one line, in reterr (size bytes). 0 or -errno. */
int tracer_new(const struct tracer_options *o, struct tracer **ret, char *reterr, size_t size);
void tracer_free(struct tracer *t); /* detaches all; accepts NULL */
DEFINE_CLEANUP(struct tracer, tracer_free)

/* The maps are those of an earlier daemon, and its probes go on. */
bool tracer_is_kept(const struct tracer *t);
/* Boot clock: since when processes are seen from their start, by an earlier daemon as well. */
uint64_t tracer_since_ns(const struct tracer *t);
/* 16 random bytes: whose numbers of stacks the maps hold. */
const uint8_t *tracer_id(const struct tracer *t);
/* True: links need no CAP_SYS_ADMIN. */
bool tracer_is_multi(const struct tracer *t);

struct probes; /* what is attached to one file */

struct probes_stats {
	size_t wanted, found, attached; /* rows that this file may have; functions */
	char failed[256]; /* names of symbols found but not attached, cut with "..." */
	/* See struct search: calls that are new to us, rows of the configuration that found nothing, and too much. */
	size_t unknown_count, over_count;
	char unknown[256], unmatched[256], over[256], endless[256];
	bool is_cut;
};

struct attach_file {
	int fd;		  /* borrowed */
	const char *path; /* its name says which rows are looked for, see search_file() */
	bool is_named;	  /* by the operator, as a driver library */
	bool teachers;	  /* those alone (see call_how), or all but them */
};

/*
 * Attaches the calls of the table that the file has. A symbol that is refused does not keep the others from being attached.
 * 0, -ENOENT (no symbol of ours in it; *ret_stats is set), -errno.
 */
int tracer_attach(struct tracer *t, const struct attach_file *f, struct probes **ret, struct probes_stats *ret_stats);
/* Links that an earlier daemon attached to the file go on; takes them in any case. Its programs are theirs. 0 or -ENOMEM. */
int probes_adopt(const struct attach_file *f, const int *links_taken, size_t len, struct probes **ret,
		 struct probes_stats *ret_stats);
/* Number of links that can outlive us, borrowed; 0: it has others. p may be NULL. */
size_t probes_links(const struct probes *p, const int **ret);
void probes_free(struct probes *p); /* detaches; accepts NULL */
DEFINE_CLEANUP(struct probes, probes_free)

int tracer_fd(const struct tracer *t); /* readable when the probes ask to be heard at once */
typedef int (*tracer_event_fn)(const struct event *ev, size_t size, void *userdata);
/* Hands over at most max events. Number handed over, or -errno; equal to max: there may be more. */
int tracer_drain(struct tracer *t, size_t max, tracer_event_fn fn, void *userdata);
/* Where the ring ends, in bytes since ever: what programs have counted so far lies before it, if only as room in which
 * they are still writing. */
uint64_t tracer_ring_end(const struct tracer *t);
/* Has all that lay before that end been handed over? Not while a program is at it: it may have lost its processor. */
bool tracer_is_past(const struct tracer *t, uint64_t end);

/* 1: the total is past a bound already, drain again; 0; -errno. Unknown processes are ignored. */
int tracer_arm(struct tracer *t, uint32_t pid, uint64_t start_ns, uint64_t high, uint64_t low, uint64_t single);
/* The kernel's books of a process. 0, -ENOENT. */
int tracer_books(struct tracer *t, uint32_t pid, struct books *ret);
/* Walks all books: fn returns negative to stop. 0 or -errno. */
int tracer_each_books(struct tracer *t, int (*fn)(uint32_t pid, const struct books *b, void *userdata), void *userdata);
/* Walks every live block of every process. 0 or -errno. */
int tracer_each_live(struct tracer *t, int (*fn)(const struct live_key *k, const struct live_value *v, void *userdata),
		     void *userdata);
/* The uuid that a process has been told for its ordinal; gen: books.gen. 0, -ENOENT. */
int tracer_uuid(struct tracer *t, uint32_t gen, int32_t ordinal, struct uuid_value *ret);
/* What is used and reserved of a process's pools; see bpf/pool.h. */
struct tracer_pool {
	uint64_t handle; /* no pointer: 1 + the ordinal whose default pool it is */
	int32_t device;	 /* ordinal, EVENT_NO_DEVICE = of another process, or host memory */
	uint32_t class;	 /* enum mem_class of its blocks */
	uint64_t used_bytes;
	uint64_t reserved_bytes_min; /* it has kept at least so many from the device */
	uint64_t reserved_bytes;     /* as the driver last told the program; UINT64_MAX = never */
	uint64_t threshold_bytes;    /* of release */
};
/* Walks the pools of all processes; gen: books.gen. fn returns negative to stop. 0 or -errno. */
int tracer_each_pool(struct tracer *t, int (*fn)(uint32_t gen, const struct tracer_pool *pool, void *userdata),
		     void *userdata);
/* Clears what dead processes left behind. Number of processes cleared or -errno. */
int tracer_sweep(struct tracer *t);
int tracer_counters(struct tracer *t, uint64_t ret[COUNTER_MAX]);
const char *counter_name(enum counter c);
/* Hits of each row of the call table since the start; n rows. 0 or -errno. */
int tracer_hits(struct tracer *t, uint64_t *ret, size_t n);
/* How long calls of a row of the call table took, since the maps are there. 0 or -errno. */
int tracer_latency(struct tracer *t, uint32_t row, struct latency *ret);
/*
 * What the resolver tells the probes: a node of the tree by which stacks are known again, and how to walk the Python
 * frames of a process; NULL takes it away. From any thread. 0 or -errno.
 */
int tracer_learn(struct tracer *t, uint64_t key, const struct stack_path *path);
int tracer_python(struct tracer *t, uint32_t pid, const struct python_process *p);
/* What is spent of the budget of copies of stacks, in copies; it has STACK_BURST_SEC seconds' worth. */
uint64_t tracer_copies(const struct tracer *t, uint64_t now_ns);
/* Upper bound of kernel memory of the maps at their configured sizes, in bytes; see the comment in tracer_maps.c. */
uint64_t tracer_memory_bytes(const struct tracer *t);
