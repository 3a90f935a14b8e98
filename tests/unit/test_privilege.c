/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/privilege.h"
#include "test.h"

/* In a child: what is given up is so for good. The number of the check that failed, 0 = none. */
static int in_child(int (*fn)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(fn());
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static bool is_refused(long r)
{
	return r < 0 && errno == EPERM;
}

/* Within a child: which one failed is its exit status. */
#define MUST(n, expr) do { if (!(expr)) return (n); } while (0)

static int seal(void)
{
	char *const argv[] = { (char *)"/bin/true", NULL };
	char byte = 0;
	struct iovec io = { &byte, 1 };
	struct rlimit core;
	int fd;

	privilege_seal();
	MUST(1, prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
	MUST(2, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	MUST(3, prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2);
	MUST(4, getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_max == 0);
	MUST(5, is_refused(execv(argv[0], argv)));
	MUST(6, is_refused(syscall(SYS_process_vm_writev, getpid(), &io, 1, &io, 1, 0)));
	MUST(7, is_refused(unshare(CLONE_NEWUSER)));
	MUST(8, is_refused(syscall(SYS_open_by_handle_at, 0, NULL, 0)));
	MUST(9, is_refused(syscall(SYS_io_uring_setup, 1, NULL)));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
	MUST(10, is_refused(ptrace(PTRACE_TRACEME, 0, NULL, NULL)));
#endif
#ifdef __x86_64__
	MUST(11, is_refused(syscall(SYS_getpid | 0x40000000)));
#endif
	/* What the daemon does all the time. */
	fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY);
	MUST(12, fd >= 0);
	MUST(13, process_vm_readv(getpid(), &io, 1, &io, 1, 0) == 1);
	MUST(14, syscall(SYS_getpid) == getpid());
	MUST(15, fork() >= 0); /* both go on */
	return 0;
}

TEST(seal)
{
	EXPECT_EQ(in_child(seal), 0);
}

static uint64_t permitted(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct c[2] = {};

	if (syscall(SYS_capget, &h, c) < 0)
		return UINT64_MAX;
	/* What may be used and what may be taken up again are one. */
	if (c[0].effective != c[0].permitted || c[1].effective != c[1].permitted || c[0].inheritable || c[1].inheritable)
		return UINT64_MAX;
	return c[0].permitted | (uint64_t)c[1].permitted << 32;
}

static uint64_t had;

static int keep(void)
{
	MUST(1, privilege_keep(PRIVILEGE_FILES) == 0);
	MUST(2, permitted() == (PRIVILEGE_FILES & had));
	MUST(3, !(had & PRIVILEGE(CAP_SETPCAP)) || prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN, 0, 0, 0) == 0);
	/* Never more again. */
	MUST(4, privilege_keep(UINT64_MAX) == 0);
	MUST(5, permitted() == (PRIVILEGE_FILES & had));
	MUST(6, privilege_keep(0) == 0);
	MUST(7, permitted() == 0);
	return 0;
}

static int keep_stand_in(void)
{
	const uint64_t old = PRIVILEGE(CAP_SYS_ADMIN) | PRIVILEGE(CAP_SYS_PTRACE);

	MUST(1, privilege_keep(old) == 0);
	MUST(2, permitted() == (old & had));
	MUST(3, privilege_keep(PRIVILEGE_TRACE) == 0);
	MUST(4, permitted() == (old & had));
	MUST(5, privilege_keep(PRIVILEGE_READ) == 0);
	MUST(6, permitted() == (PRIVILEGE(CAP_SYS_PTRACE) & had));
	return 0;
}

TEST(keep)
{
	had = permitted();
	ASSERT(had != UINT64_MAX);
	EXPECT_EQ(in_child(keep), 0);
	EXPECT_EQ(in_child(keep_stand_in), 0);
}

TEST_MAIN()
