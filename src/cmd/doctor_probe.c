/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/limits.h"
#include "cmd/doctor_facts.h"
#include "proc/nvml.h"
#include "proc/pid_namespace.h"
#include "trace/calls.h"
#include "trace/tracer.h"

/* In every program's way as little as can be, and in the library's own table of symbols however this binary was stripped:
 * nobody calls it but to learn how zlib was built. */
#define PROBED "zlibCompileFlags"

/* What is tried is whether it works; the tables of the daemon would take 180 MiB for that. */
static struct limits small_limits(void)
{
	struct limits l = LIMITS_DEFAULT;

	l.processes = 16;
	l.live_allocations = 1024;
	l.learned_stacks = 64;
	l.ring_bytes = 1u << 18;
	return l;
}

static void call_probed(void *function)
{
	unsigned long (*call)(void);

	memcpy(&call, &function, sizeof(call));
	(void)call();
}

/* The row of the call table is the last one. */
static int count_hits(struct tracer *t, uint64_t *ret)
{
	_cleanup_free_ uint64_t *hits = calloc(calls_len(), sizeof(*hits));
	int r = hits ? tracer_hits(t, hits, calls_len()) : -ENOMEM;

	if (r == 0)
		*ret = hits[calls_len() - 1];
	return r;
}

static int attach_and_call(struct tracer *t, void *function, struct doctor_probe *ret)
{
	_cleanup_(probes_freep) struct probes *p = NULL;
	_cleanup_close_ int fd = -1;
	struct probes_stats stats;
	struct attach_file file;
	uint64_t before;
	int r;

	(void)snprintf(ret->function, sizeof(ret->function), PROBED);
	fd = open(ret->file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	file = (struct attach_file){ .fd = fd, .path = ret->file };
	r = tracer_attach(t, &file, &p, &stats);
	if (r == 0)
		r = count_hits(t, &before);
	if (r < 0)
		return r;
	call_probed(function);
	r = count_hits(t, &ret->hits);
	ret->hits -= r == 0 ? before : 0;
	return r;
}

static void explain_attach(const struct doctor_facts *f, struct doctor_probe *p)
{
	if (p->error == -ENOENT)
		(void)snprintf(p->why, sizeof(p->why), "the library's table of symbols does not have it: install the distribution's "
			       "zlib");
	else if (!p->is_multi && (p->error == -EPERM || p->error == -EACCES))
		(void)snprintf(p->why, sizeof(p->why), "give CAP_SYS_ADMIN: Linux %s has no uprobe_multi, which does without",
			       f->release);
	else if (p->error == -EPERM || p->error == -EACCES)
		(void)snprintf(p->why, sizeof(p->why), "run as root, or give CAP_PERFMON; see the lines on capabilities and perf");
	else
		(void)snprintf(p->why, sizeof(p->why), "run a kernel built with CONFIG_UPROBE_EVENTS=y; -v tells what it says");
}

static int find_probed(void **ret_function, struct doctor_probe *ret)
{
	Dl_info info = {};

	/* Not by the address of the function, which may be that of a stub in this program. */
	*ret_function = dlsym(RTLD_DEFAULT, PROBED);
	if (!*ret_function || !dladdr(*ret_function, &info) || !info.dli_fname) {
		(void)snprintf(ret->why, sizeof(ret->why), "no shared zlib is loaded whose " PROBED "() could be probed: use a "
			       "build that does not link it statically");
		return -ENOENT;
	}
	(void)snprintf(ret->file, sizeof(ret->file), "%s", info.dli_fname);
	return 0;
}

void doctor_try_probe(const struct doctor_facts *f, struct doctor_probe *ret)
{
	/* An entry alone, of a call that takes and gives nothing back. */
	static char any[] = "libz.so*", symbol[] = PROBED, here[] = __FILE__;
	static const struct user_call row = {
		.library = any, .symbol = symbol, .file = here, .line = 1,
		.desc = { .op = CALL_FREE, .result = RESULT_NONE, .stream_arg = ARG_NONE },
	};
	_cleanup_(tracer_freep) struct tracer *t = NULL;
	const uint32_t self = (uint32_t)getpid();
	struct tracer_options o = { .limits = small_limits(), .pids = &self, .pids_len = 1 };
	struct pid_namespace ns;
	void *function;

	*ret = (struct doctor_probe){};
	if (pid_namespace_read("/proc", &ns) == 0 && !ns.is_initial)
		o.pid_ns = (uint32_t)ns.inode;
	ret->error = find_probed(&function, ret);
	if (ret->error == 0)
		ret->error = calls_init(&row, 1);
	if (ret->error == 0)
		ret->error = tracer_new(&o, &t, ret->why, sizeof(ret->why));
	if (ret->error < 0)
		return;
	ret->is_multi = tracer_is_multi(t);
	ret->error = attach_and_call(t, function, ret);
	if (ret->error < 0)
		explain_attach(f, ret);
}

/* "580.95.05" of libnvidia-ml.so.580.95.05, which is what libnvidia-ml.so.1 leads to. It stays loaded once it was. */
static void find_library_version(const char *library, struct doctor_nvml *ret)
{
	static const char name[] = "libnvidia-ml.so.";
	void *handle = dlopen(library ?: "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	void *function = handle ? dlsym(handle, "nvmlInit_v2") : NULL;
	_cleanup_free_ char *path = NULL;
	Dl_info info = {};
	const char *at;

	if (function && dladdr(function, &info) && info.dli_fname)
		path = realpath(info.dli_fname, NULL);
	at = path ? strrchr(path, '/') : NULL;
	if (at && strncmp(at + 1, name, strlen(name)) == 0 && strchr(at + 1 + strlen(name), '.'))
		(void)snprintf(ret->library, sizeof(ret->library), "%s", at + 1 + strlen(name));
}

static void ask_nvml(const char *library, struct doctor_nvml *ret)
{
	_cleanup_(nvml_closep) struct nvml *n = NULL;
	struct gpu_snapshot s = {};
	const char *reason = "";

	ret->error = nvml_open(library, &n, &reason);
	if (ret->error == 0) {
		ret->error = nvml_read(n, &s);
		reason = "reading the devices failed";
	}
	if (ret->error < 0) {
		(void)snprintf(ret->reason, sizeof(ret->reason), "%s", reason);
		find_library_version(library, ret);
	}
	for (size_t i = 0; i < s.device_count; i++)
		ret->devices += s.devices[i].parent < 0;
	gpu_snapshot_done(&s);
}

/* True when the whole answer came in time. */
static bool read_answer(int fd, int timeout_ms, struct doctor_nvml *ret)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, timeout_ms) == 1 && read(fd, ret, sizeof(*ret)) == sizeof(*ret);
}

void doctor_try_nvml(const char *library, int timeout_ms, struct doctor_nvml *ret)
{
	_cleanup_close_ int from = -1, to = -1;
	struct doctor_nvml answer = {};
	int ends[2];
	pid_t pid;

	*ret = (struct doctor_nvml){ .error = -EIO, .reason = "no process for it" };
	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	from = ends[0];
	to = ends[1];
	pid = fork();
	if (pid < 0)
		return;
	if (pid == 0) {
		ask_nvml(library, &answer);
		_exit(write(to, &answer, sizeof(answer)) != sizeof(answer));
	}
	closep(&to);
	if (read_answer(from, timeout_ms, &answer)) {
		*ret = answer;
		(void)waitpid(pid, NULL, 0);
		return;
	}
	/* One that is stuck in the driver does not even die: not waited for. */
	(void)kill(pid, SIGKILL);
	ret->error = -ETIMEDOUT;
	(void)snprintf(ret->reason, sizeof(ret->reason), "no answer within %d s, or it ended the process that asked",
		       timeout_ms / 1000);
}
