/* SPDX-License-Identifier: MIT */
#include "stack/memory.h"

#include <errno.h>
#include <sys/uio.h>

#include "proc/procfs.h"

static int read_process(const struct memory *m, uint64_t addr, void *buf, size_t len)
{
	struct iovec local = { .iov_base = buf, .iov_len = len };
	struct iovec remote = { .iov_base = (void *)(uintptr_t)addr, .iov_len = len };
	ssize_t n = process_vm_readv((pid_t)m->pid, &local, 1, &remote, 1, 0);

	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EFAULT;
}

static int check_process(const struct memory *m)
{
	if (m->start_ns == 0 || process_is_same(m->proc_root, m->pid, ticks_from_ns(m->start_ns)))
		return 0;
	return -ESRCH;
}

struct memory memory_of(const char *proc_root, uint32_t pid, uint64_t start_ns)
{
	return (struct memory){ .read = read_process,
				.check = check_process,
				.proc_root = proc_root,
				.pid = pid,
				.start_ns = start_ns };
}
