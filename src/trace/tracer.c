/* SPDX-License-Identifier: MIT */
/* Load, run, drain. */
#include "trace/tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "trace/calls.h"
#include "trace/keep.h"
#include "trace/skeleton.h"

/* libbpf speaks one level below us: users see our own words. */
_printf_(2, 0) static int libbpf_log(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	if (level != LIBBPF_DEBUG)
		log_linev(7, fmt, ap);
	return 0;
}

static int is_locked_down(void)
{
	_cleanup_free_ char *text = NULL;
	size_t len;

	if (file_read(AT_FDCWD, "/sys/kernel/security/lockdown", 256, &text, &len) < 0)
		return 0;
	return strstr(text, "[confidentiality]") != NULL;
}

/* One line: what is wrong and what to do. */
static void explain(int error, char *reterr, size_t size)
{
	struct utsname u = {};

	(void)uname(&u);
	if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
		snprintf(reterr, size, "kernel %s has no type information (/sys/kernel/btf/vmlinux): run a kernel built with "
			 "CONFIG_DEBUG_INFO_BTF=y, as Debian 11 and Ubuntu 20.10 and later do", u.release);
	else if (is_locked_down())
		snprintf(reterr, size, "the kernel is locked down to \"confidentiality\", which forbids BPF to read memory: boot "
			 "with lockdown=integrity or none");
	else if (error == -EPERM || (error == -EACCES && geteuid() != 0)) /* root gets EACCES from the verifier alone */
		snprintf(reterr, size, "loading BPF programs was refused (%s): run as root, or give CAP_BPF, CAP_PERFMON and "
			 "CAP_SYS_PTRACE, in a container too, as contrib/kubernetes/gpuxray.yaml does", strerror(-error));
	else
		snprintf(reterr, size, "the kernel (%s) did not take the BPF programs (%s): it must be 6.1 or later; run with "
			 "-v for its own words", u.release, strerror(-error));
}

static int size_maps(struct tracer *t)
{
	const struct limits *l = &t->options.limits;
	struct gpuxray_bpf *s = t->skel;
	int r = 0;

	r |= bpf_map__set_max_entries(s->maps.ring, l->ring_bytes);
	r |= bpf_map__set_max_entries(s->maps.processes, l->processes);
	r |= bpf_map__set_max_entries(s->maps.live, l->live_allocations);
	r |= bpf_map__set_max_entries(s->maps.python_processes, l->processes);
	/* Free entries lie in lists of 128 for each CPU (LOCAL_FREE_TARGET): those of others are out of reach. */
	r |= bpf_map__set_max_entries(s->maps.paths, l->learned_stacks + 128 * (uint32_t)MAX(libbpf_num_possible_cpus(), 1));
	s->rodata->live_max = l->live_allocations;
	s->rodata->ring_mark_bytes = l->ring_bytes / 2;
	s->rodata->filter_pids = t->options.pids_len > 0;
	s->rodata->pid_ns = t->options.pid_ns;
	s->rodata->copy_ns = NSEC_PER_SEC / l->stacks_per_second;
	return r ? -EINVAL : 0;
}

static void choose_programs(struct tracer *t)
{
	struct gpuxray_bpf *s = t->skel;
	bool bare = t->options.bare;

	bpf_program__set_autoload(s->progs.bare_probe, bare);
	bpf_program__set_autoload(s->progs.entry_probe, !bare);
	bpf_program__set_autoload(s->progs.return_probe, !bare);
	if (!t->is_multi)
		return;
	/* BPF_TRACE_UPROBE_MULTI, newer than the oldest headers we build with. */
	bpf_program__set_expected_attach_type(s->progs.bare_probe, 48);
	bpf_program__set_expected_attach_type(s->progs.entry_probe, 48);
	bpf_program__set_expected_attach_type(s->progs.return_probe, 48);
}

static int fill_maps(struct tracer *t)
{
	int fd = bpf_map__fd(t->skel->maps.calls);

	for (uint32_t i = 0; i < calls_len(); i++)
		if (bpf_map_update_elem(fd, &i, &call_get(i)->desc, BPF_ANY) < 0)
			return -errno;
	fd = bpf_map__fd(t->skel->maps.pid_filter);
	for (size_t i = 0; i < t->options.pids_len; i++) {
		uint32_t one = 1;

		if (bpf_map_update_elem(fd, &t->options.pids[i], &one, BPF_ANY) < 0)
			return -errno;
	}
	return 0;
}

static int on_sample(void *ctx, void *data, size_t size)
{
	struct tracer *t = ctx;

	if (size >= sizeof(struct event))
		t->fn(data, size, t->userdata);
	/* A negative return ends the walk after this sample; a producer faster than us must not keep us for ever. */
	return --t->left ? 0 : -EAGAIN;
}

static int open_programs(struct tracer *t)
{
	gpuxray_bpf__destroy(t->skel);
	t->skel = gpuxray_bpf__open();
	if (!t->skel)
		return -errno;
	choose_programs(t);
	return size_maps(t);
}

/* With the maps of an earlier daemon where they fit, else with new ones. */
static int load_programs(struct tracer *t)
{
	const char *why = NULL;
	int r = open_programs(t);

	if (r == 0 && keep_offered(t->options.keep)) {
		why = t->is_multi && !t->options.bare ? tracer_reuse_maps(t) : "uprobe_multi is not used now";
		t->is_kept = !why;
		if (!why && gpuxray_bpf__load(t->skel) == 0)
			return 0;
		t->is_kept = false;
		log_notice("not going on with the probes and books of the last run (%s): starting afresh",
			   why ?: "the programs do not load with its maps");
		keep_drop(t->options.keep);
		r = open_programs(t);
	}
	return r < 0 ? r : gpuxray_bpf__load(t->skel);
}

static int start_maps(struct tracer *t)
{
	struct about about;
	uint32_t zero = 0;
	int r;

	if (t->is_kept) {
		tracer_release_maps(t);
		tracer_forget_paths(t);
		return 0;
	}
	r = fill_maps(t);
	if (r < 0)
		return r;
	tracer_about(t, &about);
	if (getrandom(t->id, sizeof(t->id), GRND_NONBLOCK) != sizeof(t->id)) {
		/* Early boot: unique, if not unguessable. */
		uint64_t words[2] = { clock_monotonic_ns(), clock_real_usec() };

		memcpy(t->id, words, sizeof(t->id));
	}
	memcpy(about.id, t->id, sizeof(about.id));
	return bpf_map_update_elem(bpf_map__fd(t->skel->maps.about), &zero, &about, BPF_ANY) < 0 ? -errno : 0;
}

static int watch_processes(struct tracer *t)
{
	if (t->is_kept) {
		t->kept_exit = keep_take(t->options.keep, "exit");
		t->kept_exec = keep_take(t->options.keep, "exec");
		return t->kept_exit < 0 || t->kept_exec < 0 ? -ENOENT : 0;
	}
	t->skel->links.process_exit = bpf_program__attach(t->skel->progs.process_exit);
	if (!t->skel->links.process_exit)
		return -errno;
	t->skel->links.process_exec = bpf_program__attach(t->skel->progs.process_exec);
	return t->skel->links.process_exec ? 0 : -errno;
}

/* For a later daemon; perf uprobes cannot outlive us, and without them the rest is worth nothing. */
static void store(struct tracer *t)
{
	if (t->is_kept)
		return;
	if (!t->is_multi || t->options.bare) {
		log_debug("without uprobe_multi nothing can be kept for a later run");
		keep_stop(t->options.keep);
		return;
	}
	tracer_store_maps(t);
	keep_store(t->options.keep, "exit", bpf_link__fd(t->skel->links.process_exit));
	keep_store(t->options.keep, "exec", bpf_link__fd(t->skel->links.process_exec));
}

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* libbpf has them too, but tells them only from 1.3 on. */
static int map_positions(struct tracer *t)
{
	void *p = mmap(NULL, 2 * page_size(), PROT_READ, MAP_SHARED, bpf_map__fd(t->skel->maps.ring), 0);

	if (p == MAP_FAILED)
		return -errno;
	t->ring_pages = p;
	return 0;
}

int tracer_new(const struct tracer_options *o, struct tracer **ret, char *reterr, size_t size)
{
	_cleanup_(tracer_freep) struct tracer *t = calloc(1, sizeof(*t));
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	int r;

	if (!t)
		return -ENOMEM;
	t->options = *o;
	t->kept_exit = t->kept_exec = -1;
	libbpf_set_print(libbpf_log);
	/* Kernels before 5.11 charge maps to this limit; newer ones do not mind. */
	(void)setrlimit(RLIMIT_MEMLOCK, &unlimited);
	t->is_multi = !o->no_multi && attach_multi_works();
	r = load_programs(t);
	if (r == 0)
		r = start_maps(t);
	if (r == 0 && !t->skel->bss->since_ns)
		t->skel->bss->since_ns = clock_boot_ns();
	if (r < 0) {
		explain(r, reterr, size);
		return r;
	}
	r = watch_processes(t);
	if (r < 0) {
		snprintf(reterr, size, "cannot watch processes end (tp_btf/sched_process_exit: %s): the kernel needs BTF and BPF "
			 "tracing (CONFIG_BPF_EVENTS)", strerror(-r));
		return r;
	}
	t->ring = ring_buffer__new(bpf_map__fd(t->skel->maps.ring), on_sample, t, NULL);
	if (!t->ring) {
		r = -errno;
		snprintf(reterr, size, "cannot map the ring buffer: %s", strerror(-r));
		return r;
	}
	r = map_positions(t);
	if (r < 0) {
		snprintf(reterr, size, "cannot map the ring buffer's positions: %s", strerror(-r));
		return r;
	}
	store(t);
	*ret = TAKE_PTR(t);
	return 0;
}

void tracer_free(struct tracer *t)
{
	if (!t)
		return;
	if (t->ring_pages)
		(void)munmap(t->ring_pages, 2 * page_size());
	ring_buffer__free(t->ring);
	gpuxray_bpf__destroy(t->skel);
	closep(&t->kept_exit);
	closep(&t->kept_exec);
	free(t);
}

bool tracer_is_kept(const struct tracer *t)
{
	return t->is_kept;
}

uint64_t tracer_since_ns(const struct tracer *t)
{
	return t->skel->bss->since_ns;
}

const uint8_t *tracer_id(const struct tracer *t)
{
	return t->id;
}

bool tracer_is_multi(const struct tracer *t)
{
	return t->is_multi;
}

int tracer_fd(const struct tracer *t)
{
	return ring_buffer__epoll_fd(t->ring);
}

int tracer_drain(struct tracer *t, size_t max, tracer_event_fn fn, void *userdata)
{
	int r;

	t->fn = fn;
	t->userdata = userdata;
	t->left = max;
	r = ring_buffer__consume(t->ring);
	if (r < 0 && r != -EAGAIN)
		return r;
	return (int)(max - t->left);
}

uint64_t tracer_ring_end(const struct tracer *t)
{
	const unsigned long *end = (const void *)((const char *)t->ring_pages + page_size());

	/* What was read of the maps before is older than what is read here. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(end, __ATOMIC_ACQUIRE);
}

bool tracer_is_past(const struct tracer *t, uint64_t end)
{
	return __atomic_load_n((const unsigned long *)t->ring_pages, __ATOMIC_ACQUIRE) >= end;
}
