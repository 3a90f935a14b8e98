/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/pid_namespace.h"
#include "temp_proc.h"

static bool self_link(const struct temp_proc *t, unsigned int pid)
{
	char path[512], number[16];

	(void)snprintf(path, sizeof(path), "%s/self", t->root);
	(void)snprintf(number, sizeof(number), "%u", pid);
	return symlink(number, path) == 0;
}

static bool fill(const struct temp_proc *t, unsigned int pid, const char *status)
{
	char path[512];

	if (!temp_proc_text(t, pid, "status", status))
		return false;
	(void)snprintf(path, sizeof(path), "%s/%u/ns", t->root, pid);
	return mkdir(path, 0700) == 0 && temp_proc_text(t, pid, "ns/pid", "");
}

TEST(here)
{
	struct pid_namespace ns;
	struct stat st;

	ASSERT(pid_namespace_read("/proc", &ns) == 0);
	ASSERT(stat("/proc/self/ns/pid", &st) == 0);
	EXPECT_EQ(ns.inode, st.st_ino);
	EXPECT_EQ(ns.dev, st.st_dev);
	EXPECT_EQ(ns.is_initial, st.st_ino == 4026531836u);
	EXPECT(ns.is_own_proc);
}

TEST(made_up)
{
	_cleanup_(temp_proc_done) struct temp_proc ours = { 0 }, deep = { 0 }, other = { 0 }, none = { 0 };
	unsigned int pid = (unsigned int)getpid();
	struct pid_namespace ns;

	ASSERT(temp_proc_new(&ours) && self_link(&ours, pid) && fill(&ours, pid, "Name:\tx\nNSpid:\t4711\n"));
	EXPECT_EQ(pid_namespace_read(ours.root, &ns), 0);
	EXPECT(ns.is_own_proc && !ns.is_initial);
	/* The same number by chance, one namespace further out. */
	ASSERT(temp_proc_new(&deep) && self_link(&deep, pid) && fill(&deep, pid, "Name:\tx\nNSpid:\t4711\t4711\n"));
	EXPECT_EQ(pid_namespace_read(deep.root, &ns), 0);
	EXPECT(!ns.is_own_proc);
	ASSERT(temp_proc_new(&other) && self_link(&other, pid + 1));
	ASSERT(fill(&other, pid + 1, "Name:\tx\nNSpid:\t4711\n"));
	EXPECT_EQ(pid_namespace_read(other.root, &ns), 0);
	EXPECT(!ns.is_own_proc);
	/* A /proc that does not know us has no self. */
	ASSERT(temp_proc_new(&none));
	EXPECT_EQ(pid_namespace_read(none.root, &ns), -ENOENT);
	EXPECT_EQ(pid_namespace_read("/nowhere", &ns), -ENOENT);
}

enum { INITIAL = 1, OWN = 2, OTHER_INODE = 4, FAILED = 64 };

/* In a PID namespace of its own, with the /proc from outside or with one of its own. */
static int look_inside(bool mounts, uint64_t outer_inode)
{
	struct pid_namespace ns;
	int status;
	pid_t child;

	if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
		return FAILED;
	child = fork();
	if (child == 0) {
		if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    (mounts && mount("proc", "/proc", "proc", 0, NULL) < 0) || pid_namespace_read("/proc", &ns) < 0)
			_exit(FAILED);
		_exit((ns.is_initial ? INITIAL : 0) | (ns.is_own_proc ? OWN : 0) |
		      (ns.inode != outer_inode ? OTHER_INODE : 0));
	}
	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : FAILED;
}

TEST(inside_another)
{
	struct pid_namespace outer;

	ASSERT(pid_namespace_read("/proc", &outer) == 0);
	for (int mounts = 0; mounts < 2; mounts++) {
		pid_t child = fork();
		int status;

		if (child == 0)
			_exit(look_inside(mounts, outer.inode));
		ASSERT(waitpid(child, &status, 0) == child && WIFEXITED(status));
		if (WEXITSTATUS(status) == FAILED && geteuid() != 0) {
			printf("# no namespaces without root: not tested\n");
			return;
		}
		EXPECT_EQ(WEXITSTATUS(status), OTHER_INODE | (mounts ? OWN : 0));
	}
}

TEST_MAIN()
