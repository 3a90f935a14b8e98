/* SPDX-License-Identifier: MIT */
#include "proc/condition.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include "base/cleanup.h"
#include "model/process.h"
#include "proc/procfs.h"

/* The first thread of a program may end before the others: /proc calls that a zombie, and it is none. */
static bool has_other_threads(int proc_fd)
{
	_cleanup_(closedirp) DIR *d = NULL;
	const struct dirent *de;
	int fd, n = 0;

	fd = openat(proc_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return false;
	d = fdopendir(fd);
	if (!d) {
		(void)close(fd);
		return false;
	}
	while (n < 2 && (de = readdir(d)))
		n += de->d_name[0] != '.';
	return n > 1;
}

int proc_condition_read(const char *proc_root, uint32_t pid, uint64_t start_ticks, uint32_t ppid, uint32_t *ret)
{
	_cleanup_close_ int fd = proc_open(proc_root, pid);
	uint32_t condition = 0;
	struct proc_stat st;
	int r;

	if (fd < 0)
		return fd;
	r = proc_stat_read_at(fd, &st);
	if (r < 0)
		return r;
	if (st.start_ticks != start_ticks)
		return -ESRCH;
	if (st.state == 'D')
		condition |= CONDITION_UNINTERRUPTIBLE;
	if ((st.state == 'Z' || st.state == 'X') && !has_other_threads(fd))
		condition |= CONDITION_ZOMBIE;
	if (ppid != 0 && st.ppid != ppid)
		condition |= CONDITION_PARENT_GONE;
	*ret = condition;
	return 0;
}
