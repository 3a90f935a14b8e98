/* SPDX-License-Identifier: MIT */
/*
 * What the daemon may not do any more. Capabilities belong to a thread: who starts one gives it its own, and each gives up
 * the rest first of all. Threads share their memory, so that this guards against wrong paths and against borrowed calls, not
 * against code of an attacker's in one of them; privilege_seal() is for that. See contrib/doc/threat-model.md.
 */
#pragma once

#include <linux/capability.h>
#include <stdint.h>

/* linux/capability.h of old headers ends before it. */
#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#define CAP_BPF 39
#endif
#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40
#endif

#define PRIVILEGE(capability) (UINT64_C(1) << (capability))

/* Names of files in folders of others, and what /proc shows of processes of others. */
#define PRIVILEGE_READ (PRIVILEGE(CAP_SYS_PTRACE) | PRIVILEGE(CAP_DAC_READ_SEARCH))
/* ... and files that they have mapped and that have lost their name. */
#define PRIVILEGE_FILES (PRIVILEGE_READ | PRIVILEGE(CAP_CHECKPOINT_RESTORE))
/* ... and writes what it has learned into the kernel's tables. */
#define PRIVILEGE_LEARN (PRIVILEGE_FILES | PRIVILEGE(CAP_BPF))
/* ... and attaches probes to libraries that come later. */
#define PRIVILEGE_TRACE (PRIVILEGE_LEARN | PRIVILEGE(CAP_PERFMON))

/*
 * The calling thread keeps these capabilities, as far as it has them, and gives up all others for good: effective and
 * permitted ones, inheritable and ambient ones, and as far as it may those of the bounding set. CAP_SYS_ADMIN stays where it
 * stands in for one of the set that is not there (a container runtime that does not know CAP_BPF). 0 or -errno: then it has
 * what it had.
 */
int privilege_keep(uint64_t set);

/*
 * For the whole process, before it has threads; nothing of it can be taken back. No program is started, and no other process
 * traced, written to or robbed of descriptors; no mounts, namespaces, modules, keys, clocks, files by handle: such calls
 * fail with EPERM. No new privileges, and no core file: it would hold what was read of others. What the kernel does not have
 * is left out.
 */
void privilege_seal(void);
