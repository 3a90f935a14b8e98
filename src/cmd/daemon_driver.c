/* SPDX-License-Identifier: MIT */
/*
 * The driver's count beside ours: whom it names, who of them shows no call and why; and what /proc says of processes that
 * hold memory. All reads of /proc are counted per tick or snapshot: the ring must not wait for them.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/daemon_internal.h"
#include "model/process.h"
#include "proc/condition.h"
#include "proc/pid_namespace.h"
#include "trace/calls.h"
#include "proc/procfs.h"

/* A look is 20 us: open, read, close. */
#define LOOKS_MAX 200
#define LOOK_NS (5 * NSEC_PER_SEC)
/* Of a snapshot: processes whose start is asked, who are introduced (0.3 ms), whose mappings are read (1 ms). */
#define STARTS_MAX 256
#define NEW_MAX 64
#define MAPS_MAX 16
#define GONE_MAX 64
/* Before that it may still be loading what it will use. */
#define REASON_NS (5 * NSEC_PER_SEC)

/* What is left for the snapshot under way. */
struct quota {
	int starts, new, maps;
	uint32_t missing[MISSING_MAX];
	size_t missing_len;
};

void daemon_driver_start(struct daemon *d)
{
	struct pid_namespace ns;

	d->driver.since_boot_ns = tracer_since_ns(d->tracer);
	d->driver.is_foreign = pid_namespace_read("/proc", &ns) < 0 || !ns.is_initial || !ns.is_own_proc;
	if (d->driver.is_foreign)
		log_warning("not in the host's PID namespace: the driver's count of each process cannot be used, nor orphans and "
			    "untraced processes be found; run on the host, or with its PID namespace (hostPID: true, --pid=host)");
}

/* NVML speaks of the host's pids; the DRM drivers' figures come from our own /proc. */
static bool is_understood(const struct daemon *d, const struct gpu_device *g)
{
	return !d->driver.is_foreign || (g->driver[0] && strcmp(g->driver, "nvidia") != 0);
}

static bool is_in(const uint32_t *list, size_t len, uint32_t pid)
{
	for (size_t i = 0; i < len; i++) {
		if (list[i] == pid)
			return true;
	}
	return false;
}

/* One that ended while the driver was being asked is missing once only. */
static int start_of_missing(struct daemon *d, struct quota *q, uint32_t pid, uint64_t *ret)
{
	if (q->missing_len < MISSING_MAX && !is_in(q->missing, q->missing_len, pid))
		q->missing[q->missing_len++] = pid;
	if (!is_in(d->driver.missing, d->driver.missing_len, pid))
		return -EAGAIN;
	*ret = 0;
	return 0;
}

/* The start of a process as the engine knows it. -EAGAIN: not now. */
static int find_start(struct daemon *d, struct quota *q, uint32_t pid, uint64_t *ret)
{
	struct process *p = engine_newest_process(d->engine, pid);
	struct proc_stat st;
	int r;

	/* The probes tell the end of one that has made calls. */
	if (p && p->is_covered) {
		*ret = p->start_ns;
		return 0;
	}
	if (q->starts == 0) {
		d->driver.deferred++;
		return -EAGAIN;
	}
	q->starts--;
	r = proc_stat_read("/proc", pid, &st);
	if (r == -ESRCH && p) {
		*ret = p->start_ns;
		return 0;
	}
	if (r < 0)
		return r == -ESRCH ? start_of_missing(d, q, pid, ret) : r;
	*ret = p && ticks_from_ns(p->start_ns) == st.start_ticks ? p->start_ns : ticks_to_ns(st.start_ticks);
	return 0;
}

static const char *probe_error(int error)
{
	switch (-error) {
	case EACCES:
	case EPERM:
		return "its driver library could not be probed: not permitted";
	case ENOENT:
	case ESTALE:
		return "its driver library could not be probed: the file is gone";
	case ENOSPC:
		return "its driver library could not be probed: too many are, see limits.libraries";
	case EINVAL:
	case ENOEXEC:
		return "its driver library could not be probed: it is not a library as expected";
	case EOPNOTSUPP:
		return "its driver library could not be probed: the kernel cannot do so on that file system";
	default:
		return "its driver library could not be probed";
	}
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Devices are not compared: overlayfs and btrfs show others in mappings than stat() does. */
static bool find_library(const struct daemon *d, const struct mapping *m, struct library_info *ret)
{
	enum call_api api = call_api_of_file(m->path);

	for (size_t i = 0; m->inode && i < libraries_count(d->libraries); i++) {
		const char *name;

		libraries_get(d->libraries, i, ret);
		if (ret->inode != m->inode)
			continue;
		/* Found by a link, "libcuda.so.1", it is mapped as what that leads to, "libcuda.so.580.159.04". */
		name = base_name(ret->path);
		if (strncmp(base_name(m->path), name, strlen(name)) == 0 || (api != API_MAX && api == call_api_of_file(name)))
			return true;
	}
	return false;
}

/* Its command line, environment and mappings are behind a lock that it may hold: whoever reads them waits with it. */
static bool is_stuck(uint32_t pid)
{
	struct proc_stat st;

	return proc_stat_read("/proc", pid, &st) == 0 && st.state == 'D';
}

/* By what it maps. */
static const char *reason_by_maps(struct daemon *d, const struct process *p)
{
	struct address_space *as = NULL;
	const char *reason = "it maps no driver library that is known";
	struct library_info l;
	int r;

	if (is_stuck(p->pid))
		return "it is stuck in the kernel: its mappings were not looked at";
	r = maps_read("/proc", p->pid, p->start_ns, &as);
	if (r < 0)
		return r == -ESRCH ? NULL : "its mappings could not be read";
	/* The probes have seen it go, but the driver takes its time. */
	if (as->count == 0)
		reason = "it is ending, or has no program of its own";
	for (size_t i = 0; i < as->count; i++) {
		const struct mapping *m = &as->mappings[i];

		if (find_library(d, m, &l)) {
			if (l.error) {
				reason = probe_error(l.error);
				continue;
			}
			reason = p->start_ns < d->driver.since_boot_ns ? "started before gpuxray and made no call since" :
									 "it has made no call that is traced";
			break;
		}
		if (m->inode && library_is_driver(m->path))
			reason = probe_error(libraries_overflows(d->libraries) ? -ENOSPC : -EIO);
	}
	address_space_unref(as);
	return reason;
}

static const char graphics_only[] = "the driver has it for graphics only";

/* Of cards where computing shows as such. */
static bool is_graphics_only(const struct gpu_device *g, const struct gpu_process *gp)
{
	return gp->kinds == GPU_PROCESS_GRAPHICS && (strcmp(g->driver, "nvidia") == 0 || strcmp(g->driver, "amdgpu") == 0);
}

static void explain(struct daemon *d, struct quota *q, const struct process *p, bool is_graphics)
{
	const struct daemon_options *o = d->options;
	const char *reason = NULL;
	bool is_given = o->pids_len == 0, is_expected = false;

	if (p->start_ns == 0 || p->condition & CONDITION_NO_PROCESS) {
		reason = "no such process";
	} else if (p->condition & CONDITION_ZOMBIE) {
		reason = "it is dead and was not waited for";
	} else {
		for (size_t i = 0; i < o->pids_len; i++)
			is_given = is_given || o->pids[i] == p->pid;
		is_expected = !is_given || is_graphics;
		if (!is_given) {
			reason = "only processes given by --pid are traced";
		} else if (is_graphics) {
			reason = graphics_only;
		} else if (d->now_ns - p->first_ns >= REASON_NS && q->maps > 0) {
			q->maps--;
			reason = reason_by_maps(d, p);
		}
	}
	if (reason)
		engine_set_coverage(d->engine, p->pid, p->start_ns, reason, is_expected);
}

static void introduce(struct daemon *d, uint32_t pid, uint64_t start_ns)
{
	_cleanup_(identity_unrefp) struct identity *id = NULL;
	struct proc_stat st;

	if (!is_stuck(pid)) {
		if (identity_read("/proc", pid, start_ns, NULL, &id) == -ENOMEM || !id)
			return;
	} else {
		/* What can be had without its locks. */
		id = identity_new();
		if (!id || proc_stat_read("/proc", pid, &st) < 0)
			return;
		id->pid = pid;
		id->ppid = st.ppid;
		id->start_ns = start_ns;
		id->start_ticks = st.start_ticks;
		id->uid = (uint32_t)-1;
		id->comm = strdup(st.comm);
	}
	(void)engine_set_identity(d->engine, pid, start_ns, id);
}

static void take_process(struct daemon *d, struct quota *q, const struct gpu_process *gp)
{
	const struct gpu_device *g = &d->gpus.devices[gp->device];
	bool is_new, is_graphics = is_graphics_only(g, gp);
	uint64_t start_ns;
	struct process *p;

	if (!is_understood(d, g) || gp->pid == 0 || find_start(d, q, gp->pid, &start_ns) < 0)
		return;
	is_new = !engine_process(d->engine, gp->pid, start_ns);
	if (is_new && q->new-- <= 0) {
		d->driver.deferred++;
		return;
	}
	if (engine_driver(d->engine, gp->pid, start_ns, g->uuid, gp->used_bytes, start_ns < d->driver.since_boot_ns) == -ENOMEM)
		log_debug("no memory for what the driver says of process %u", gp->pid);
	p = engine_process(d->engine, gp->pid, start_ns);
	if (!p)
		return;
	if (is_new)
		introduce(d, gp->pid, start_ns);
	/* It may begin to compute later, or do so on another device. */
	if (!p->is_covered && (!p->uncovered_reason || (p->uncovered_reason == graphics_only && !is_graphics)))
		explain(d, q, p, is_graphics);
}

/* No probe tells the end of one that was never seen by any. */
static void end_unnamed(struct daemon *d)
{
	struct {
		uint32_t pid;
		uint64_t start_ns;
	} gone[GONE_MAX];
	struct process *p;
	size_t iter = 0, n = 0;

	while (n < GONE_MAX && (p = engine_next_process(d->engine, &iter))) {
		if (p->is_covered || p->is_listed)
			continue;
		gone[n].pid = p->pid;
		gone[n++].start_ns = p->start_ns;
	}
	for (size_t i = 0; i < n; i++)
		daemon_end(d, gone[i].pid, gone[i].start_ns);
}

void daemon_driver_snapshot(struct daemon *d)
{
	struct quota q = { .starts = STARTS_MAX, .new = NEW_MAX, .maps = MAPS_MAX };
	bool is_complete = d->gpus.is_complete && d->gpus.device_count > 0;

	d->now_ns = clock_monotonic_ns();
	d->real_usec = clock_real_usec();
	d->driver.before_ns = d->driver.snapshot_ns;
	d->driver.snapshot_ns = d->now_ns;
	engine_driver_begin(d->engine);
	for (size_t i = 0; i < d->gpus.process_count; i++)
		take_process(d, &q, &d->gpus.processes[i]);
	for (size_t i = 0; i < d->gpus.device_count; i++)
		is_complete = is_complete && is_understood(d, &d->gpus.devices[i]);
	engine_driver_end(d->engine, is_complete, d->now_ns, d->real_usec);
	memcpy(d->driver.missing, q.missing, sizeof(q.missing));
	d->driver.missing_len = q.missing_len;
	if (is_complete)
		end_unnamed(d);
}

/* A snapshot that was begun after it had gone names it still: one that is older, as when the driver has stopped answering,
 * proves nothing. The last one was begun after the one before it had come. */
static bool is_named_since(const struct daemon *d, const struct process *p)
{
	return p->start_ns == 0 || d->driver.before_ns >= p->gone_ns;
}

static void look(struct daemon *d, struct process *p)
{
	uint64_t ticks = p->id && p->id->start_ticks ? p->id->start_ticks : ticks_from_ns(p->start_ns);
	uint32_t condition = 0;
	int r = proc_condition_read("/proc", p->pid, ticks, p->id ? p->id->ppid : 0, &condition);

	d->driver.looks++;
	if (r == -ESRCH && !p->is_listed && !p->is_covered) {
		daemon_end(d, p->pid, p->start_ns);
		return;
	}
	if (r < 0 && r != -ESRCH)
		return;
	p->gone_ns = r < 0 ? (p->gone_ns ?: d->now_ns) : 0;
	if (p->gone_ns && p->is_listed && is_named_since(d, p))
		condition = CONDITION_NO_PROCESS;
	/* Every process waits for a disk or a lock at times. */
	p->stuck_looks = condition & CONDITION_UNINTERRUPTIBLE ? p->stuck_looks + 1 : 0;
	if (p->stuck_looks < 2)
		condition &= ~(uint32_t)CONDITION_UNINTERRUPTIBLE;
	engine_set_condition(d->engine, p->pid, p->start_ns, condition, d->now_ns);
}

void daemon_driver_tick(struct daemon *d)
{
	struct driver_watch *w = &d->driver;
	struct process *p;
	int n = 0;

	if (w->round_ns == 0) {
		if (d->now_ns < w->next_ns)
			return;
		w->round_ns = d->now_ns;
		w->next_ns = d->now_ns + LOOK_NS;
		w->look_iter = 0;
	}
	while (n < LOOKS_MAX && (p = engine_next_process(d->engine, &w->look_iter))) {
		/* Nobody else tells the end of one that the driver no longer names, when not all of the driver has answered. */
		if (process_holds_memory(p) || (!p->is_covered && !p->is_listed)) {
			look(d, p);
			n++;
		} else if (p->condition) {
			engine_set_condition(d->engine, p->pid, p->start_ns, 0, d->now_ns);
		}
	}
	if (n == LOOKS_MAX)
		return;
	w->late_rounds += d->now_ns - w->round_ns > LOOK_NS;
	w->round_ns = 0;
}

void daemon_driver_json(struct daemon *d, struct strbuf *sb)
{
	json_key(sb, "driver");
	strbuf_addc(sb, '{');
	json_bool(sb, "has_our_pids", !d->driver.is_foreign);
	json_u64(sb, "devices", d->gpus.device_count);
	json_u64(sb, "processes", d->gpus.process_count);
	json_bool(sb, "complete", d->gpus.is_complete);
	json_u64(sb, "deferred", d->driver.deferred);
	json_u64(sb, "devices_left_out", d->driver.left_out);
	json_u64(sb, "looks", d->driver.looks);
	json_u64(sb, "late_rounds", d->driver.late_rounds);
	strbuf_addc(sb, '}');
}
