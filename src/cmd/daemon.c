/* SPDX-License-Identifier: MIT */
/* Start, loop, stop. */
#include "cmd/daemon.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/privilege.h"
#include "cmd/daemon_internal.h"
#include "proc/pid_namespace.h"
#include "trace/calls.h"

/* Exec storms make thousands of mappings a second: after each look the fd rests so long. A library is found at most so
 * much later; the driver's own initialisation takes longer. */
#define MMAP_REST_USEC (20 * 1000)
#define SWEEP_NS (10 * NSEC_PER_SEC)
#define STATUS_NS (10 * NSEC_PER_SEC)
#define STOP_NS (5 * NSEC_PER_SEC)
/* Copies of stacks take 16 KiB on average, 64 at most. */
#define STACKS_WAITING_MAX 1024
/* Files of the traced kept open for their names. */
#define OBJECTS_MAX 512

static int on_ring(sd_event_source *s, int fd, uint32_t revents, void *userdata)
{
	daemon_drain(userdata);
	return 0;
}

static int on_drain(sd_event_source *s, uint64_t usec, void *userdata)
{
	daemon_drain(userdata);
	return 0;
}

static void drain_mmaps(struct daemon *d)
{
	uint64_t lost;

	(void)mmap_watch_drain(d->mmaps, daemon_mapped, d, &lost);
	if (lost) {
		log_debug("%llu mapping records lost, looking at /proc", (unsigned long long)lost);
		d->wants_scan = true; /* at the tick: a scan takes long enough to lose the next ones */
	}
	if (!d->libraries_said && libraries_count(d->libraries)) {
		d->libraries_said = true;
		daemon_notify_status(d);
	}
}

static int on_mmap(sd_event_source *s, int fd, uint32_t revents, void *userdata)
{
	struct daemon *d = userdata;

	drain_mmaps(d);
	(void)sd_event_source_set_enabled(d->mmap_source, SD_EVENT_OFF);
	(void)sd_event_source_set_time_relative(d->mmap_timer, MMAP_REST_USEC);
	return sd_event_source_set_enabled(d->mmap_timer, SD_EVENT_ONESHOT);
}

static int on_mmap_rested(sd_event_source *s, uint64_t usec, void *userdata)
{
	struct daemon *d = userdata;

	drain_mmaps(d);
	return sd_event_source_set_enabled(d->mmap_source, SD_EVENT_ON);
}

static int on_tick(sd_event_source *s, uint64_t usec, void *userdata)
{
	struct daemon *d = userdata;
	int r;

	daemon_drain(d);
	daemon_check_books(d);
	daemon_history_tick(d);
	daemon_view_tick(d);
	engine_tick(d->engine, d->now_ns, d->real_usec);
	daemon_record_tick(d);
	r = tracer_sweep(d->tracer);
	if (r < 0)
		log_debug("clearing what dead processes left failed: %s", strerror(-r));
	daemon_rename_users(d);
	daemon_driver_tick(d);
	daemon_keep_tick(d);
	libraries_tick(d->libraries, d->now_ns);
	if (d->wants_scan) {
		d->wants_scan = false;
		(void)libraries_scan(d->libraries);
	}
	if (d->now_ns - d->sweep_ns >= SWEEP_NS) {
		d->sweep_ns = d->now_ns;
		(void)libraries_sweep(d->libraries);
	}
	if (d->now_ns - d->status_ns >= STATUS_NS) {
		d->status_ns = d->now_ns;
		daemon_notify_status(d);
	}
	if (d->now_ns - d->health_ns >= d->settings->health_interval_ns) {
		d->health_ns = d->now_ns;
		daemon_say_health(d);
	}
	(void)sd_event_source_set_time_relative(s, TICK_NS / NSEC_PER_USEC);
	return sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
}

static int on_nvml(sd_event_source *s, int fd, uint32_t revents, void *userdata)
{
	struct daemon *d = userdata;
	struct gpu_snapshot fresh = {};

	if (!nvml_watch_take(d->nvml, &fresh))
		return 0;
	gpu_snapshot_done(&d->gpus);
	d->gpus = fresh;
	for (size_t i = 0; i < d->gpus.device_count; i++) {
		const struct gpu_device *g = &d->gpus.devices[i];

		if (engine_set_device(d->engine, g->uuid, g->index, g->name, g->total_bytes, g->used_bytes) < 0)
			d->driver.left_out++;
	}
	engine_end_devices(d->engine, d->gpus.is_complete);
	daemon_driver_snapshot(d);
	daemon_name_devices(d);
	return 0;
}

static int on_reload(sd_event_source *s, const struct signalfd_siginfo *si, void *userdata)
{
	struct daemon *d = userdata;

	(void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)(clock_monotonic_ns() / NSEC_PER_USEC));
	reporter_reopen(d->reporter);
	if (daemon_reload_rules(d) == 0) {
		log_info("rules reloaded: %zu", d->rule_count);
		daemon_say(d, REPORT_RELOAD, SEVERITY_INFO, "rules reloaded: %zu rules, digest %s", d->rule_count, d->digest);
		daemon_notify_status(d);
	}
	(void)sd_notify(0, "READY=1");
	return 0;
}

static void report_cb(struct report *r, void *userdata)
{
	struct daemon *d = userdata;

	daemon_keep_said(d);
	if (!daemon_keep_hold(d, r))
		reporter_push(d->reporter, r);
}

static void arm_cb(uint32_t pid, uint64_t start_ns, uint64_t high, uint64_t low, uint64_t single, void *userdata)
{
	struct daemon *d = userdata;

	if (tracer_arm(d->tracer, pid, start_ns, high, low, single) > 0)
		d->drain_again = true;
}

static const char *call_cb(uint32_t call, void *userdata)
{
	return call_symbol(call);
}

static void random_cb(uint8_t ret[16], void *userdata)
{
	if (getrandom(ret, 16, GRND_NONBLOCK) == 16)
		return;
	/* Early boot: unique, if not unguessable. */
	uint64_t words[2] = { clock_monotonic_ns(), clock_real_usec() };

	memcpy(ret, words, 16);
}

static int learn_cb(uint64_t key, const struct stack_path *path, void *userdata)
{
	return tracer_learn(((struct daemon *)userdata)->tracer, key, path);
}

static int python_cb(uint32_t pid, const struct python_process *p, void *userdata)
{
	return tracer_python(((struct daemon *)userdata)->tracer, pid, p);
}

static void forget_stack_cb(const struct stack *s, void *userdata)
{
	resolver_forget_stack(((struct daemon *)userdata)->resolver, s->pid, s->key);
}

static void ended_cb(const struct process *p, void *userdata)
{
	daemon_view_ended(userdata, p);
}

static void user_cb(uint32_t pid, void *userdata)
{
	resolver_process(((struct daemon *)userdata)->resolver, pid, 0);
}

static int on_resolved(sd_event_source *s, int fd, uint32_t revents, void *userdata)
{
	daemon_resolved(userdata);
	return 0;
}

/* The list of allocators that the settings make. 0 or -ENOMEM; patterns have been checked. */
static int make_allocators(const struct settings *s, struct allocators **ret)
{
	_cleanup_free_ char **list = NULL;
	size_t n = 0;

	for (const char *const *p = allocators_default; *p; p++)
		n++;
	list = calloc(n + s->allocators_len + s->allocators_also_len + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	n = 0;
	for (const char *const *p = allocators_default; *p && !s->allocators_len; p++)
		list[n++] = (char *)*p;
	for (size_t i = 0; i < s->allocators_len; i++)
		list[n++] = s->allocators[i];
	for (size_t i = 0; i < s->allocators_also_len; i++)
		list[n++] = s->allocators_also[i];
	return allocators_new(list, n, ret);
}

static int start_resolving(struct daemon *d)
{
	const struct settings *s = d->settings;
	struct resolver_options o = { .proc_root = "/proc", .queue = STACKS_WAITING_MAX,
				      .learned = s->limits.learned_stacks, .learn = learn_cb, .python = python_cb,
				      .userdata = d };
	int r = objects_new("/proc", OBJECTS_MAX, &d->objects);

	if (r == 0)
		r = make_allocators(s, &d->allocators);
	if (r < 0)
		return r;
	o.objects = d->objects;
	o.allocators = d->allocators;
	return resolver_new(&o, &d->resolver);
}

/* After everything else of a turn. */
static int on_turn(sd_event_source *s, void *userdata)
{
	daemon_keep_turn(userdata);
	return 0;
}

static int start_tracing(struct daemon *d)
{
	struct tracer_options to = { .limits = d->settings->limits, .pids = d->options->pids, .pids_len = d->options->pids_len,
				     .no_multi = d->options->no_multi, .bare = d->options->bare, .keep = d->kept.keep };
	struct libraries_options lo = { .proc_root = "/proc", .limit = d->settings->limits.libraries,
					.paths = d->settings->libraries, .paths_len = d->settings->libraries_len,
					.keep = d->kept.keep, .user = user_cb, .userdata = d };
	struct pid_namespace ns = { .is_initial = true, .is_own_proc = true };
	char why[512] = "";
	int r = pid_namespace_read("/proc", &ns);

	if (r == 0 && !ns.is_own_proc) {
		log_error("/proc is that of another PID namespace: mount the own one (unshare --mount-proc), or start gpuxray "
			  "outside (in Kubernetes with hostPID: true)");
		return -EINVAL;
	}
	if (r == 0 && !ns.is_initial) {
		log_warning("inside a PID namespace: only processes in it are seen, under the numbers they have here; start gpuxray "
			    "outside to see all (in Kubernetes with hostPID: true)");
		to.pid_ns = (uint32_t)ns.inode;
	}
	r = tracer_new(&to, &d->tracer, why, sizeof(why));
	if (r < 0) {
		log_error("cannot trace: %s", why);
		return r;
	}
	r = start_resolving(d);
	if (r < 0) {
		log_error("cannot start: %s", strerror(-r));
		return r;
	}
	r = libraries_new(d->tracer, &lo, &d->libraries);
	if (r < 0)
		return r;
	/* Watch first, then look: what is mapped in between is seen twice, not missed. */
	r = mmap_watch_new(&d->mmaps);
	if (r < 0) {
		log_error("cannot watch for libraries being loaded (perf_event_open: %s): run as root or give CAP_PERFMON",
			  strerror(-r));
		return r;
	}
	r = libraries_scan_first(d->libraries);
	if (r < 0) {
		log_error("cannot read /proc: %s", strerror(-r));
		return r;
	}
	d->libraries_said = libraries_count(d->libraries) > 0;
	if (d->libraries_said)
		log_info("probing %zu driver librar%s", libraries_count(d->libraries),
			 libraries_count(d->libraries) == 1 ? "y" : "ies");
	else
		log_info("no process has loaded a GPU driver library yet: waiting for one");
	daemon_driver_start(d);
	return 0;
}

static int discard_cb(const struct record *r, void *userdata)
{
	return 0;
}

static void clean_cb(const char *text, struct strbuf *sb, void *userdata)
{
	redact_text(((struct daemon *)userdata)->redact, text, sb);
}

static int start_reporting(struct daemon *d, struct ruleset **rules)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	struct reporter_options ro = { .sink = d->options->sink, .queue = d->settings->limits.queue,
				       .records_per_minute = d->settings->limits.records_per_minute,
				       .syslog = &d->settings->syslog, .out_fd = STDOUT_FILENO,
				       .write = daemon_is_bare(d) ? discard_cb : NULL };
	struct engine_ops ops = { .report = report_cb, .arm = arm_cb, .call_name = call_cb, .random_id = random_cb,
				  .forget_stack = forget_stack_cb, .clean = clean_cb, .ended = ended_cb };
	int r = redact_new(d->settings->redact, d->settings->redact_len, &errors, &d->redact);

	errors_print(&errors, stderr);
	if (r < 0)
		return r;
	redact_omit(d->redact, d->settings->omit);
	log_set_clean(redact_cb, d->redact);
	ops.omit = redact_omitted(d->redact);
	ro.redact = d->redact;
	ro.objects = d->objects;
	r = reporter_new(&ro, &d->reporter);
	if (r < 0) {
		log_error("cannot start the reporter: %s", strerror(-r));
		return r;
	}
	r = engine_new(&d->settings->limits, &ops, d, &d->engine);
	if (r == 0)
		r = resync_new(d->tracer, d->engine, &d->resync);
	if (r < 0) {
		log_error("cannot start: %s", strerror(-r));
		return r;
	}
	daemon_history_start(d);
	r = daemon_record_start(d);
	return r < 0 ? r : daemon_apply_rules(d, TAKE_PTR(*rules));
}

/* As nohup has it: one that is blocked would arrive all the same. */
static bool is_ignored(int sig)
{
	struct sigaction now;

	return sigaction(sig, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static int add_sources(struct daemon *d)
{
	sigset_t mask;
	int r;

	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	r = sd_event_add_signal(d->event, NULL, SIGTERM, NULL, NULL);
	if (r >= 0)
		r = sd_event_add_signal(d->event, NULL, SIGINT, NULL, NULL);
	if (r >= 0 && !(daemon_is_bare(d) && is_ignored(SIGHUP)))
		r = sd_event_add_signal(d->event, NULL, SIGHUP, daemon_is_bare(d) ? NULL : on_reload, d);
	if (r >= 0)
		r = sd_event_add_io(d->event, &d->ring_source, tracer_fd(d->tracer), EPOLLIN, on_ring, d);
	if (r >= 0)
		r = sd_event_add_io(d->event, NULL, resolver_fd(d->resolver), EPOLLIN, on_resolved, d);
	if (r >= 0)
		r = sd_event_add_io(d->event, &d->mmap_source, mmap_watch_fd(d->mmaps), EPOLLIN, on_mmap, d);
	if (r >= 0)
		r = sd_event_add_time_relative(d->event, &d->mmap_timer, CLOCK_MONOTONIC, 0, 1000, on_mmap_rested, d);
	if (r >= 0)
		r = sd_event_source_set_enabled(d->mmap_timer, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_add_time_relative(d->event, &d->drain_timer, CLOCK_MONOTONIC, 0, 5000, on_drain, d);
	if (r >= 0)
		r = sd_event_add_time_relative(d->event, &d->tick_timer, CLOCK_MONOTONIC, TICK_NS / NSEC_PER_USEC, 10000,
					       on_tick, d);
	if (r >= 0 && d->nvml)
		r = sd_event_add_io(d->event, NULL, nvml_watch_fd(d->nvml), EPOLLIN, on_nvml, d);
	if (r >= 0)
		r = sd_event_add_post(d->event, NULL, on_turn, d);
	if (r >= 0)
		r = sd_event_set_watchdog(d->event, true);
	return r;
}

static int status_cb(struct status_client *c, const char *request, struct strbuf *sb, void *userdata)
{
	struct daemon *d = userdata;

	if (strncmp(request, "view", 4) == 0)
		return daemon_view_request(d, c, request, sb);
	daemon_status_text(d, strcmp(request, "json") == 0, sb);
	return STATUS_DONE;
}

/* 0 or -errno. */
static int serve_view(struct daemon *d)
{
	int r = status_server_new(d->event, NULL, status_cb, d, &d->status);

	return r < 0 ? r : status_server_add(d->status, d->options->view_fd);
}

static int serve_status(struct daemon *d)
{
	int r;

	if (d->options->is_view)
		return serve_view(d);
	if (daemon_is_bare(d))
		return 0;
	r = status_server_new(d->event, d->options->socket, status_cb, d, &d->status);
	if (r == -EADDRINUSE)
		log_warning("%s: another gpuxray answers there; `gpuxray status` will show that one", d->options->socket);
	else if (r < 0)
		log_warning("%s: no status socket (%s)", d->options->socket, strerror(-r));
	(void)daemon_metrics_start(d);
	return 0;
}

static void daemon_done(struct daemon *d)
{
	size_t iter = 0;
	void *value;

	daemon_metrics_stop(d);
	status_server_free(TAKE_PTR(d->status)); /* whoever waits for an answer goes with it */
	daemon_view_done(d);
	sd_event_source_unref(d->ring_source);
	sd_event_source_unref(d->mmap_source);
	sd_event_source_unref(d->mmap_timer);
	sd_event_source_unref(d->drain_timer);
	sd_event_source_unref(d->tick_timer);
	sd_event_unref(d->event);
	resync_free(d->resync);
	engine_free(d->engine);
	free(d->tap.start_ticks);
	nvml_watch_free(d->nvml);
	gpu_snapshot_done(&d->gpus);
	mmap_watch_free(d->mmaps);
	libraries_free(d->libraries);
	resolver_free(d->resolver); /* it speaks to the tracer */
	tracer_free(d->tracer);
	daemon_keep_done(d);
	free(d->refused);
	objects_unref(d->objects);
	allocators_free(d->allocators);
	while (map64_next(&d->known, &iter, NULL, &value))
		free(value);
	map64_done(&d->known);
}

static void say_start(struct daemon *d)
{
	char known[96] = "memory allocated before now is not known";

	if (tracer_is_kept(d->tracer))
		snprintf(known, sizeof(known), "%zu process%s and their books kept from before the restart", d->kept.processes,
			 d->kept.processes == 1 ? "" : "es");
	daemon_say(d, REPORT_START, SEVERITY_INFO, "gpuxray %s started, %zu rules, %zu driver libraries probed%s; %s",
		   GPUXRAY_VERSION, d->rule_count, libraries_count(d->libraries),
		   libraries_count(d->libraries) ? "" : " (waiting for one)", known);
}

static int daemon_start(struct daemon *d)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	_cleanup_(ruleset_freep) struct ruleset *rules = NULL;
	/* Before anything is attached: a service that restarts with bad rules must not patch every process each time. */
	int r = daemon_read_rules(d, &errors, &rules);

	if (r < 0) {
		log_error("cannot start with these rules: mend them and try `gpuxray check`");
		return r;
	}
	r = calls_init(d->settings->calls, d->settings->calls_len);
	if (r < 0)
		log_error("cannot make the table of calls: %s", r == -E2BIG ? "too many in calls" : strerror(-r));
	if (r == 0 && !daemon_is_bare(d))
		r = daemon_keep_start(d);
	if (r == 0)
		r = start_tracing(d);
	if (r == 0)
		r = start_reporting(d, &rules);
	if (r < 0)
		return r;
	if (!daemon_is_bare(d))
		daemon_adopt(d);
	r = nvml_watch_new(NULL, d->settings->nvml_interval_ns, &d->nvml);
	if (r < 0) {
		log_warning("the drivers cannot be asked what devices and processes hold: %s", strerror(-r));
		d->nvml = NULL;
	}
	r = sd_event_new(&d->event);
	if (r >= 0)
		r = add_sources(d);
	if (r < 0) {
		log_error("cannot set up the event loop: %s", strerror(-r));
		return r;
	}
	r = serve_status(d);
	if (r < 0) {
		log_error("cannot answer who asked: %s", strerror(-r));
		return r;
	}
	daemon_give_up(d);
	say_start(d);
	daemon_adopt_end(d);
	daemon_notify_status(d);
	(void)sd_notify(0, "READY=1");
	return 0;
}

int daemon_run(const struct daemon_options *o)
{
	struct daemon d = { .options = o, .settings = o->settings };
	uint64_t unwritten = 0;
	int r, q;

	(void)signal(SIGPIPE, SIG_IGN);
	log_set_budget(LOG_LINES_PER_MINUTE);
	privilege_seal();
	/* A heap for each thread would keep what that thread alone has freed: 1 MiB more was resident. */
	(void)mallopt(M_ARENA_MAX, 1);
	d.started_ns = d.health_ns = d.sweep_ns = d.status_ns = clock_monotonic_ns();
	r = daemon_start(&d);
	if (r == 0) {
		r = sd_event_loop(d.event);
		(void)sd_notify(0, "STOPPING=1");
		daemon_drain(&d);
		daemon_resolved(&d);
		daemon_keep_stop(&d);
		engine_history_flush(d.engine, clock_monotonic_ns(), clock_real_usec());
		daemon_say(&d, REPORT_STOP, SEVERITY_INFO, "gpuxray %s stopped after %llu events", GPUXRAY_VERSION,
			   (unsigned long long)d.events);
	}
	q = daemon_record_stop(&d);
	if (r == 0 && o->recording.is_all)
		r = q;
	if (d.reporter)
		unwritten = reporter_stop(d.reporter, r == 0 ? STOP_NS : NSEC_PER_SEC);
	if (unwritten)
		log_warning("%llu records could not be written", (unsigned long long)unwritten);
	daemon_done(&d);
	log_set_budget(0);
	log_set_clean(NULL, NULL);
	redact_free(d.redact);
	return r;
}
