/* SPDX-License-Identifier: MIT */
#include "base/privilege.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

/* Numbers beyond CAP_LAST_CAP of our headers: a newer kernel has them. */
#define CAPABILITIES_MAX 64

static uint64_t get(const struct __user_cap_data_struct c[2], size_t offset)
{
	uint32_t low, high;

	memcpy(&low, (const char *)&c[0] + offset, sizeof(low));
	memcpy(&high, (const char *)&c[1] + offset, sizeof(high));
	return low | (uint64_t)high << 32;
}

/* Of these CAP_SYS_ADMIN is the older, larger form. */
static uint64_t with_stand_in(uint64_t set, uint64_t permitted)
{
	const uint64_t parts = PRIVILEGE(CAP_BPF) | PRIVILEGE(CAP_PERFMON) | PRIVILEGE(CAP_CHECKPOINT_RESTORE);

	return set & parts & ~permitted ? set | PRIVILEGE(CAP_SYS_ADMIN) : set;
}

int privilege_keep(uint64_t set)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct c[2] = {};
	uint64_t permitted;

	if (syscall(SYS_capget, &h, c) < 0)
		return -errno;
	permitted = get(c, offsetof(struct __user_cap_data_struct, permitted));
	set = with_stand_in(set, permitted) & permitted;
	/* It takes CAP_SETPCAP, which goes below. A number that the kernel does not know is the end. */
	for (unsigned long i = 0; i < CAPABILITIES_MAX; i++)
		if (!(set & PRIVILEGE(i)) && prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0 && errno == EINVAL)
			break;
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	for (size_t i = 0; i < ARRAY_SIZE(c); i++)
		c[i] = (struct __user_cap_data_struct){ .effective = (uint32_t)(set >> 32 * i),
							.permitted = (uint32_t)(set >> 32 * i) };
	return syscall(SYS_capset, &h, c) < 0 ? -errno : 0;
}

/* A sanitizer looks for leaks with ptrace(). */
#if defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_SANITIZED 1
#endif
#endif

#if defined(__x86_64__)
#define AUDIT_ARCH_OURS AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define AUDIT_ARCH_OURS AUDIT_ARCH_AARCH64
#endif

#ifdef AUDIT_ARCH_OURS
/* What CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH and user 0 would allow and nothing of ours, of libmicrohttpd, NSS or NVML needs.
 * NVML would start nvidia-modprobe where device nodes are missing: to load drivers is not for a watcher. */
static const uint32_t denied[] = {
	__NR_execve, __NR_execveat,
#ifndef IS_SANITIZED
	__NR_ptrace,
#endif
	__NR_process_vm_writev,
#ifdef __NR_process_madvise
	__NR_process_madvise,
#endif
#ifdef __NR_pidfd_getfd
	__NR_pidfd_getfd,
#endif
	__NR_open_by_handle_at, __NR_name_to_handle_at,
	/* namespaces and mounts */
	__NR_unshare, __NR_setns, __NR_chroot, __NR_pivot_root, __NR_mount, __NR_umount2,
#ifdef __NR_move_mount
	__NR_open_tree, __NR_move_mount, __NR_fsopen, __NR_fsconfig, __NR_fsmount, __NR_fspick,
#endif
#ifdef __NR_mount_setattr
	__NR_mount_setattr,
#endif
	/* the kernel and the host */
	__NR_init_module, __NR_finit_module, __NR_delete_module, __NR_kexec_load,
#ifdef __NR_kexec_file_load
	__NR_kexec_file_load,
#endif
	__NR_reboot, __NR_swapon, __NR_swapoff, __NR_acct, __NR_quotactl, __NR_sethostname, __NR_setdomainname,
	__NR_settimeofday, __NR_clock_settime, __NR_adjtimex, __NR_clock_adjtime,
#ifdef __NR_iopl
	__NR_iopl, __NR_ioperm, __NR_modify_ldt,
#endif
	__NR_personality,
	/* large and seldom looked at */
	__NR_add_key, __NR_request_key, __NR_keyctl, __NR_userfaultfd, __NR_fanotify_init,
#ifdef __NR_io_uring_setup
	__NR_io_uring_setup, __NR_io_uring_enter, __NR_io_uring_register,
#endif
};

#define X32_BIT 0x40000000u

/* Of arguments it knows nothing, so that the kernel finds once for each call that it always passes, and then no longer asks. */
static int deny_calls(void)
{
	struct sock_filter code[ARRAY_SIZE(denied) + 8];
	struct sock_fprog program = { .filter = code };
	size_t n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
	/* Calls by the numbers of another architecture. */
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_OURS, 1, 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
#ifdef __x86_64__
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, ARRAY_SIZE(denied) + 1, 0);
#endif
	for (size_t i = 0; i < ARRAY_SIZE(denied); i++)
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, denied[i],
							 (uint8_t)(ARRAY_SIZE(denied) - i), 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	program.len = (unsigned short)n;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0 ? -errno : 0;
}
_Static_assert(ARRAY_SIZE(denied) < 250, "a jump is a byte");
#else
static int deny_calls(void)
{
	return -EOPNOTSUPP;
}
#endif

void privilege_seal(void)
{
	const struct rlimit none = {};
	int r;

	/* A handler of cores that is a program gets one whatever the limit says, unless there is none to dump. */
	(void)setrlimit(RLIMIT_CORE, &none);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	r = deny_calls();
	if (r < 0)
		log_debug("no filter of system calls: %s", strerror(-r));
}
