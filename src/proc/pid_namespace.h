/* SPDX-License-Identifier: MIT */
/* In which PID namespace we are, and whether /proc speaks of the same one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * What a PID means to us. How deep the namespace lies nobody inside can tell: NSpid begins at the namespace of the
 * /proc that is read. Those who see all of a task's numbers (the probes) find ours among them by the inode.
 */
struct pid_namespace {
	bool is_initial;  /* that of the machine: all its processes have a PID here */
	bool is_own_proc; /* proc_root speaks of the same namespace; if not, its PIDs are none of ours */
	uint64_t dev, inode; /* of /proc/self/ns/pid, as bpf_get_ns_current_pid_tgid() takes them */
};

/* Of the calling process. 0, or -errno: -ENOENT when proc_root is no /proc, or one that does not know us. */
int pid_namespace_read(const char *proc_root, struct pid_namespace *ret);
