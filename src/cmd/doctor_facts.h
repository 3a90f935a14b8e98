/* SPDX-License-Identifier: MIT */
/* `gpuxray doctor`: reading the host. */
#pragma once

#include "cmd/doctor_checks.h"

struct doctor_env {
	const char *root;      /* before /etc, /run, /usr and /var; "" */
	const char *proc_root; /* "/proc" */
	const char *sys_root;  /* "/sys" */
	const char *socket;    /* of the daemon */
	char *const *libraries; /* that the operator named */
	size_t libraries_len;
};

/* What cannot be read is left as not known. 0 or -ENOMEM; doctor_facts_done() in any case. */
int doctor_read(const struct doctor_env *env, struct doctor_facts *ret);

/* doctor_proc.c. Kernel, privileges, processes; 0 or -ENOMEM. */
void doctor_read_kernel(const struct doctor_env *env, struct doctor_facts *f);
int doctor_read_processes(const struct doctor_env *env, struct doctor_facts *f);

/* doctor_journal.c. Fills all but the sink and the daemon's limits. */
void doctor_read_journal(const char *root, struct doctor_journal *j);
/* Settings of one file of journald's; what is not in it stays. Pure. */
void doctor_parse_journald(const char *text, struct doctor_journal *j);

/* doctor_probe.c. Both go into the kernel or a driver for real. */
void doctor_try_probe(const struct doctor_facts *f, struct doctor_probe *ret);
/* library NULL = libnvidia-ml.so.1. In a process of its own, which is given up after timeout_ms. */
void doctor_try_nvml(const char *library, int timeout_ms, struct doctor_nvml *ret);
