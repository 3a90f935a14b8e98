/* SPDX-License-Identifier: MIT */
/* What /proc says about a process. Parsers are pure (text in, struct out); readers take the root so that tests bring
 * their own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "model/identity.h"
#include "model/stack.h"

/*
 * A descriptor of the process's folder, or -ESRCH, or -errno. It stays with that process: when the pid goes to another
 * one, reading through it fails.
 */
int proc_open(const char *proc_root, uint32_t pid);

struct proc_stat {
	uint32_t pid, ppid;
	char state;
	uint64_t start_ticks; /* field 22 */
	char comm[64];	      /* between the first ( and the last ) */
};
/* Text of /proc/PID/stat. 0 or -EINVAL. */
int proc_stat_parse(const char *text, struct proc_stat *ret);
/* 0, -ESRCH when there is no such process, or -errno. */
int proc_stat_read(const char *proc_root, uint32_t pid, struct proc_stat *ret);
int proc_stat_read_at(int proc_fd, struct proc_stat *ret);

struct proc_status {
	uint32_t uid;	    /* real uid; (uint32_t)-1 = not told */
	uint32_t ns_count;  /* PID namespaces in which it has a number, from that of /proc inwards; 0 = not told */
	uint32_t inner_pid; /* its number in the innermost one; 0 = not told */
};
/* Text of /proc/PID/status. */
void proc_status_parse(const char *text, struct proc_status *ret);
/* 0, -ESRCH when there is no such process, or -errno. */
int proc_status_read_at(int proc_fd, struct proc_status *ret);

/* What a cgroup path tells. Strings are the caller's to free; NULL where it does not apply. */
struct cgroup_names {
	char *path;	 /* as in identity.cgroup */
	char *unit, *user_unit, *slice;
	char *container, *runtime, *pod; /* the innermost ones */
	char *slurm_job;
};
/* Text of /proc/PID/cgroup (v1, v2 and hybrid). 0, -EINVAL, -ENOMEM. */
int cgroup_parse(const char *text, struct cgroup_names *ret);
void cgroup_names_done(struct cgroup_names *n);

/* Text of /proc/PID/maps, executable mappings only. Lines that do not parse are skipped. 0 or -ENOMEM. */
int maps_parse(const char *text, uint32_t pid, uint64_t start_ns, struct address_space **ret);
/* 0, -ESRCH (also when the pid is another process's by now; start_ns 0: do not ask), -errno. At most 64 MiB of text. */
int maps_read(const char *proc_root, uint32_t pid, uint64_t start_ns, struct address_space **ret);

/*
 * Captures who the process is: stat, status, exe, cmdline, cgroup, its parent, passwd, and what its container is called.
 * What cannot be read stays NULL.
 * Its environment is asked for its tag alone: a process writes there what it likes, SLURM_JOB_ID for one, and does not
 * pass for another's job by that. comm (may be NULL) is used when /proc is gone already. start_ns = 0: take it from stat. 0, -ESRCH (nothing at all was there: *ret is still set,
 * with pid, start and comm), -ENOMEM.
 */
int identity_read(const char *proc_root, uint32_t pid, uint64_t start_ns, const char *comm, struct identity **ret);
/*
 * Of a process that was captured while the name of its user, container or pod was not known yet (user_name.h,
 * container_name.h): a copy with what is known now, NULL if that is no more than before. 0 or -ENOMEM.
 */
int identity_rename(const struct identity *id, struct identity **ret);
/* How many names have come late: when it grows, identity_rename() may know one. To be asked once a second or so. */
uint64_t identity_late_names(void);
/* Is the process with this pid still the one that started at start_ticks? */
bool process_is_same(const char *proc_root, uint32_t pid, uint64_t start_ticks);
/* Boot-clock nanoseconds -> ticks as in /proc/PID/stat. */
uint64_t ticks_from_ns(uint64_t start_ns);
/* The first nanosecond of that tick. */
uint64_t ticks_to_ns(uint64_t start_ticks);
