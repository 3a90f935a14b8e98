/* SPDX-License-Identifier: MIT */
#include "proc/procfs.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"

#define PROC_STAT_MAX 4096
/* Room for all the groups a process can be in: they stand before the PIDs. */
#define PROC_STATUS_MAX ((size_t)1 << 20)
#define UID_UNKNOWN ((uint32_t)-1)
#define PID_NAMESPACES_MAX 33 /* the kernel's own limit of nesting, and the first one */

/* The number at *s, at least one digit; moves *s behind it. */
static int stat_number(const char **s, uint64_t *ret)
{
	const char *p = *s;
	uint64_t v = 0;

	if (*p < '0' || *p > '9')
		return -EINVAL;
	for (; *p >= '0' && *p <= '9'; p++) {
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return -EINVAL;
	}
	*s = p;
	*ret = v;
	return 0;
}

int proc_stat_parse(const char *text, struct proc_stat *ret)
{
	struct proc_stat st = { 0 };
	const char *p = text, *close;
	uint64_t pid, ppid, start;
	size_t len;

	/* The name may hold blanks, brackets and newlines; no later field holds a bracket. */
	if (stat_number(&p, &pid) < 0 || pid == 0 || pid > INT32_MAX || strncmp(p, " (", 2) != 0)
		return -EINVAL;
	p += 2;
	close = strrchr(p, ')');
	if (!close)
		return -EINVAL;
	len = MIN((size_t)(close - p), sizeof(st.comm) - 1);
	memcpy(st.comm, p, len);

	p = close + 1;
	if (p[0] != ' ' || p[1] <= ' ' || p[1] >= 0x7f || p[2] != ' ')
		return -EINVAL;
	st.state = p[1];
	p += 3;
	if (stat_number(&p, &ppid) < 0 || ppid > INT32_MAX)
		return -EINVAL;
	/* p is behind field 4; the blank before field 22 is the 18th from here. */
	for (int field = 4; field < 22; field++) {
		p = strchr(p, ' ');
		if (!p)
			return -EINVAL;
		p++;
	}
	if (stat_number(&p, &start) < 0 || (*p != ' ' && *p != '\n' && *p != '\0'))
		return -EINVAL;
	st.pid = (uint32_t)pid;
	st.ppid = (uint32_t)ppid;
	st.start_ticks = start;
	*ret = st;
	return 0;
}

/* What follows the name of a field at the start of a line. The kernel escapes newlines in the process's own name. */
static const char *status_field(const char *text, const char *name)
{
	const char *line = strstr(text, name);

	return line ? line + strlen(name) : NULL;
}

void proc_status_parse(const char *text, struct proc_status *ret)
{
	const char *uid = status_field(text, "\nUid:\t"), *ns = status_field(text, "\nNSpid:");
	struct proc_status st = { .uid = UID_UNKNOWN };
	uint64_t n;

	if (uid && stat_number(&uid, &n) == 0 && n < UID_UNKNOWN)
		st.uid = (uint32_t)n;
	while (ns && *ns == '\t') {
		ns++;
		if (stat_number(&ns, &n) < 0 || n == 0 || n > INT32_MAX || st.ns_count >= PID_NAMESPACES_MAX) {
			st.ns_count = st.inner_pid = 0;
			break;
		}
		st.ns_count++;
		st.inner_pid = (uint32_t)n;
	}
	*ret = st;
}

int proc_status_read_at(int proc_fd, struct proc_status *ret)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int r;

	r = file_read_head(proc_fd, "status", PROC_STATUS_MAX, &text, &len);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	proc_status_parse(text, ret);
	return 0;
}

int proc_open(const char *proc_root, uint32_t pid)
{
	char path[PATH_MAX];
	int n, fd;

	n = snprintf(path, sizeof(path), "%s/%u", proc_root, pid);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? -ESRCH : -errno;
	return fd;
}

int proc_stat_read_at(int proc_fd, struct proc_stat *ret)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int r;

	r = file_read_head(proc_fd, "stat", PROC_STAT_MAX, &text, &len);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	return proc_stat_parse(text, ret);
}

int proc_stat_read(const char *proc_root, uint32_t pid, struct proc_stat *ret)
{
	_cleanup_close_ int fd = proc_open(proc_root, pid);

	if (fd < 0)
		return fd;
	return proc_stat_read_at(fd, ret);
}

bool process_is_same(const char *proc_root, uint32_t pid, uint64_t start_ticks)
{
	struct proc_stat st;

	return proc_stat_read(proc_root, pid, &st) == 0 && st.start_ticks == start_ticks;
}

static uint64_t ns_per_tick(void)
{
	long hz = sysconf(_SC_CLK_TCK);

	return NSEC_PER_SEC / (uint64_t)(hz > 0 ? hz : 100);
}

uint64_t ticks_from_ns(uint64_t start_ns)
{
	/* Rounded down, as the kernel does it. */
	return start_ns / ns_per_tick();
}

uint64_t ticks_to_ns(uint64_t start_ticks)
{
	uint64_t ns;

	return __builtin_mul_overflow(start_ticks, ns_per_tick(), &ns) ? UINT64_MAX : ns;
}
