/* SPDX-License-Identifier: MIT */
/* Another process's memory, read without stopping it: what comes back may be torn, and is hostile. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct memory {
	/* All of len, or -EFAULT (not mapped), -ESRCH (the process is gone), -EPERM. */
	int (*read)(const struct memory *m, uint64_t addr, void *buf, size_t len);
	/* Is it still the process it was? 0 or -ESRCH. NULL: do not ask. */
	int (*check)(const struct memory *m);
	const char *proc_root; /* borrowed */
	uint32_t pid;
	uint64_t start_ns; /* 0 = not known: do not check */
};

/* Needs CAP_SYS_PTRACE for processes of other users (process_vm_readv(2)); attaches to nothing. */
struct memory memory_of(const char *proc_root, uint32_t pid, uint64_t start_ns);

static inline int memory_read(const struct memory *m, uint64_t addr, void *buf, size_t len)
{
	return m->read(m, addr, buf, len);
}

static inline int memory_check(const struct memory *m)
{
	return m->check ? m->check(m) : 0;
}
