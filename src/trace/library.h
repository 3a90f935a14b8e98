/* SPDX-License-Identifier: MIT */
/* Driver libraries: found by file name in what processes map, known by device and inode, and below an overlay by
 * what the file there is; probed once each. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "model/stack.h"
#include "trace/tracer.h"

struct libraries;

struct libraries_options {
	const char *proc_root; /* "/proc" */
	uint32_t limit;	       /* files probed at once */
	char *const *paths;    /* further files to probe, whatever their name; borrowed */
	size_t paths_len;
	struct keep *keep; /* as in tracer_options */
	/* A process maps a driver library, known or not: it is about to use the GPU. May be NULL; may be called again. */
	void (*user)(uint32_t pid, void *userdata);
	void *userdata;
};

struct library_info {
	const char *path; /* as first seen, in the namespace of the process that mapped it */
	uint64_t dev, inode;
	struct probes_stats stats;
	uint32_t pids; /* processes known to map it */
	int error;     /* 0, or why it is not probed */
};

int libraries_new(struct tracer *t, const struct libraries_options *o, struct libraries **ret);
void libraries_free(struct libraries *l); /* detaches all; accepts NULL */
DEFINE_CLEANUP(struct libraries, libraries_free)

/* Is this a driver library by its name? libcuda.so, libcuda.so.1, libcuda.so.580.159.04, with " (deleted)" or not. */
bool library_is_driver(const char *path);
/*
 * A process maps a file; cheap when it is none of ours. 1: newly probed, 0: nothing new, negative: it could not be. Whoever
 * is traced can make any number of such files: one process brings a quarter of the limit at most (-ENOBUFS, as where there is
 * no room at all), and where searching them takes too much of the processor they wait (-EAGAIN) for libraries_tick().
 */
int libraries_mapped(struct libraries *l, uint32_t pid, const struct mapping *m);
/* Says why libraries_mapped() returned this error; nothing where the file or the process has gone meanwhile. */
void libraries_tell(const struct mapping *m, uint32_t pid, int error);
/* To be called about every second: takes the teachers off again, looks at files that had to wait. */
void libraries_tick(struct libraries *l, uint64_t now_ns);
/* Looks at every process in /proc. Number of libraries newly probed, or -errno. The first one is for processes that were
 * there before us: it also probes the calls that teach a thread's device, for two seconds. */
int libraries_scan(struct libraries *l);
int libraries_scan_first(struct libraries *l);
/* Lets go of files that nobody maps any more and that would otherwise be held for us: deleted ones, and those of other
 * mount namespaces, whose mounts a probe pins. Where there is no room for more, all that a process brought and nobody maps.
 * Number detached. */
int libraries_sweep(struct libraries *l);
size_t libraries_count(const struct libraries *l);
void libraries_get(const struct libraries *l, size_t i, struct library_info *ret);
/* Files that were not probed for want of room, each time that one was mapped. */
uint64_t libraries_overflows(const struct libraries *l);
/* Processor time that searching files has used and that is not paid back yet, and the most before further files wait. */
struct libraries_search {
	uint64_t debt_ns, max_ns;
	uint64_t postponed; /* times that a file had to wait */
};
void libraries_search(const struct libraries *l, struct libraries_search *ret);
