/* SPDX-License-Identifier: MIT */
#include "proc/pid_namespace.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "proc/procfs.h"

#define INITIAL_INODE UINT64_C(0xeffffffc) /* PROC_PID_INIT_INO, the same on every kernel since 3.8 */

int pid_namespace_read(const char *proc_root, struct pid_namespace *ret)
{
	_cleanup_close_ int root = -1, self = -1;
	_cleanup_free_ char *link = NULL;
	struct proc_status status;
	char own[16];
	struct stat st;
	int r;

	root = open(proc_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	r = file_readlink(root, "self", &link);
	if (r < 0)
		return r;
	self = openat(root, link, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (self < 0 || fstatat(self, "ns/pid", &st, 0) < 0)
		return -errno;
	r = proc_status_read_at(self, &status);
	if (r < 0)
		return r;
	(void)snprintf(own, sizeof(own), "%d", (int)getpid());
	*ret = (struct pid_namespace){
		.is_initial = st.st_ino == INITIAL_INODE,
		/* By chance the number may be the same in another namespace; there we have more than one. */
		.is_own_proc = strcmp(link, own) == 0 && status.ns_count <= 1,
		.dev = st.st_dev,
		.inode = st.st_ino,
	};
	return 0;
}
