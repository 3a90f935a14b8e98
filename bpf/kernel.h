/* SPDX-License-Identifier: MIT */
/*
 * The few kernel types the probes look into. Field offsets come from the running kernel's BTF at load (CO-RE), so only
 * names and types matter here, and the build does not depend on the kernel of the machine that builds.
 */
#ifndef GPUXRAY_KERNEL_H
#define GPUXRAY_KERNEL_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>

#define __VMLINUX_H__ /* bpf_tracing.h: kernel spelling of the registers */

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
};
struct pt_regs {
	struct user_pt_regs user_regs;
};
#else
#error "unknown architecture"
#endif

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct mm_struct {
	unsigned long start_stack; /* top of the main thread's stack, below arguments and environment */
};

struct signal_struct {
	atomic_t live; /* threads that have not entered exit yet */
};

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* level + 1 of them */
};

struct task_struct {
	int pid;
	int tgid;
	struct task_struct *group_leader;
	__u64 start_boottime;
	struct signal_struct *signal;
	struct mm_struct *mm;
	struct pid *thread_pid;
};

#pragma clang attribute pop

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#endif
