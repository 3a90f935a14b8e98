/* SPDX-License-Identifier: MIT */
/*
 * Who a process is, as captured when it was first seen. Immutable once built, shared by reference between threads:
 * the record of an incident must say what was true then, not what /proc says when it is written.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"

struct identity {
	atomic_uint refs;
	uint32_t pid;	       /* host pid */
	uint32_t ppid;	       /* 0 = not known */
	uint64_t start_ns;     /* boot-time clock, as the kernel has it: identity together with pid */
	uint64_t start_ticks;  /* clock ticks since boot, field 22 of /proc/PID/stat */
	uint32_t uid;	       /* real uid; (uint32_t)-1 = not known */
	/* All may be NULL when not known. Raw bytes of the process's choosing: escape before writing. */
	char *comm;
	char *exe;
	char *cmdline;	 /* arguments joined by blanks, at most IDENTITY_CMDLINE_MAX bytes */
	char *user;	 /* name of uid, or its number */
	char *cgroup;	 /* path below the cgroup root: of cgroup v2, else of the systemd hierarchy */
	char *unit;	 /* system unit */
	char *user_unit; /* unit of the user manager */
	char *container; /* 64 hex digits or the runtime's name for it */
	char *runtime;	 /* of the container: "docker", "containerd", "cri-o", "podman", "lxc", "systemd-nspawn" */
	char *pod;	 /* Kubernetes pod uid */
	char *pod_name, *pod_namespace; /* of Kubernetes; both or none */
	char *container_name; /* what its runtime or pod calls it; where that is the id, as with lxc, only there */
	char *slice;	 /* innermost systemd slice above the unit */
	char *slurm_job; /* "1234", with its step "1234.batch", "1234.0" */
	char *parent;	 /* comm of the parent */
	char *tag;	 /* its environment's GPUXRAY_TAG, at most IDENTITY_TAG_MAX bytes: what it says of itself */
	uint32_t inner_pid; /* in its own PID namespace (last of NSpid); 0 = the same as pid, or not known */
};

#define IDENTITY_CMDLINE_MAX 4096
#define IDENTITY_TAG_MAX 128
#define TICKS_PER_SEC 100 /* USER_HZ, the unit of /proc/PID/stat */

/* All zero but refs = 1; fill it before sharing. NULL when out of memory. */
struct identity *identity_new(void);
/* Of which nothing is known but these; start_ticks follows from start_ns. NULL when out of memory. */
struct identity *identity_bare(uint32_t pid, uint64_t start_ns);
/* A copy that may still be changed. NULL when out of memory. */
struct identity *identity_copy(const struct identity *id);
/* The place of each text in turn, from i = 0 on; NULL behind the last. */
char **identity_text(struct identity *id, size_t i);
struct identity *identity_ref(struct identity *id);
void identity_unref(struct identity *id); /* accepts NULL */
DEFINE_CLEANUP(struct identity, identity_unref)
