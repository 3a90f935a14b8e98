/* SPDX-License-Identifier: MIT */
/* What the daemon says of itself: its own records, its status, its rules. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <systemd/sd-daemon.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/units.h"
#include "cmd/daemon_internal.h"
#include "model/process.h"
#include "proc/container_name.h"
#include "proc/user_name.h"
#include "trace/calls.h"

static void details(struct daemon *d, struct strbuf *sb)
{
	struct engine_totals t;
	struct reporter_stats rs = {};
	uint64_t c[COUNTER_MAX] = {};

	engine_totals(d->engine, &t);
	reporter_stats(d->reporter, &rs);
	(void)tracer_counters(d->tracer, c);
	strbuf_addf(sb, "GPUXRAY_VERSION=%s\n", GPUXRAY_VERSION);
	strbuf_addf(sb, "GPUXRAY_RULES=%zu\nGPUXRAY_RULES_DIGEST=%s\n", d->rule_count, d->digest);
	strbuf_addf(sb, "GPUXRAY_PROCESSES=%llu\n", (unsigned long long)t.processes);
	strbuf_addf(sb, "GPUXRAY_LIVE_BYTES=%llu\n", (unsigned long long)t.live_bytes);
	strbuf_addf(sb, "GPUXRAY_UNCOVERED=%llu\n", (unsigned long long)t.uncovered);
	strbuf_addf(sb, "GPUXRAY_LIBRARIES=%zu\n", libraries_count(d->libraries));
	strbuf_addf(sb, "GPUXRAY_EVENTS=%llu\n", (unsigned long long)c[COUNTER_EVENTS]);
	strbuf_addf(sb, "GPUXRAY_LOST_EVENTS=%llu\nGPUXRAY_EXACT=%d\n", (unsigned long long)c[COUNTER_LOST], t.exact);
	/* How many were written the writer adds, who knows. */
	strbuf_addf(sb, "GPUXRAY_RECORDS_DROPPED=%llu\n", (unsigned long long)(rs.dropped + rs.failed));
	daemon_history_details(d, sb);
	for (int i = COUNTER_LOST + 1; i < COUNTER_MAX; i++)
		if (c[i]) {
			char name[64];
			size_t n;

			snprintf(name, sizeof(name), "%s", counter_name((enum counter)i));
			for (n = 0; name[n]; n++)
				name[n] = (char)(name[n] >= 'a' && name[n] <= 'z' ? name[n] - 32 : name[n]);
			strbuf_addf(sb, "GPUXRAY_%s=%llu\n", name, (unsigned long long)c[i]);
		}
}

void daemon_say(struct daemon *d, enum report_event event, enum severity severity, const char *fmt, ...)
{
	_cleanup_(report_freep) struct report *r = report_new(event);
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	va_list ap;
	int n;

	if (!r)
		return;
	va_start(ap, fmt);
	n = vasprintf(&r->text, fmt, ap);
	va_end(ap);
	if (n < 0) {
		r->text = NULL;
		return;
	}
	r->severity = severity;
	r->real_usec = clock_real_usec();
	details(d, &sb);
	if (strbuf_steal(&sb, &r->detail) < 0)
		r->detail = NULL;
	reporter_push(d->reporter, TAKE_PTR(r));
}

void daemon_say_health(struct daemon *d)
{
	struct engine_totals t;
	char bytes[FORMAT_UNITS_MAX];

	engine_totals(d->engine, &t);
	daemon_say(d, REPORT_HEALTH, SEVERITY_INFO,
		   "health: %llu processes, %s live, %llu firing, %llu events lost, %zu rules, %zu libraries probed",
		   (unsigned long long)t.processes, format_bytes(bytes, t.live_bytes), (unsigned long long)t.firing,
		   (unsigned long long)d->lost_seen, d->rule_count, libraries_count(d->libraries));
}

void daemon_notify_status(struct daemon *d)
{
	struct engine_totals t;
	char bytes[FORMAT_UNITS_MAX];

	engine_totals(d->engine, &t);
	if (d->refused)
		(void)sd_notifyf(0, "STATUS=Reload refused: %s", d->refused);
	else if (!libraries_count(d->libraries))
		(void)sd_notifyf(0, "STATUS=Waiting for a process to load the GPU driver library, %zu rules", d->rule_count);
	else
		(void)sd_notifyf(0, "STATUS=%llu processes, %s live, %llu firing, %llu lost", (unsigned long long)t.processes,
				 format_bytes(bytes, t.live_bytes), (unsigned long long)t.firing,
				 (unsigned long long)d->lost_seen);
}

int daemon_read_rules(struct daemon *d, struct errors *errors, struct ruleset **ret)
{
	bool own = d->options->rules_len > 0;
	int r;

	if (daemon_is_bare(d))
		return ruleset_parse("record", "version = 1;\nrules = ();\n", errors, ret);
	r = ruleset_load("", own ? d->options->rules : d->settings->rules,
			     own ? d->options->rules_len : d->settings->rules_len, errors, ret);

	for (size_t i = 0; i < errors->len; i++) {
		const struct error *e = &errors->list[i];

		log_line(e->is_warning ? 4 : 3, "%s:%d: %s", e->file ?: "rules", e->line, e->text);
	}
	return r;
}

int daemon_apply_rules(struct daemon *d, struct ruleset *rs)
{
	char digest[sizeof(d->digest)];
	size_t count = rs->len;
	int r;

	memcpy(digest, rs->digest, sizeof(digest));
	r = engine_set_rules(d->engine, rs, clock_monotonic_ns(), clock_real_usec());
	if (r < 0) {
		log_error("the rules could not be taken over: %s", strerror(-r));
		return r;
	}
	memcpy(d->digest, digest, sizeof(digest));
	d->rule_count = count;
	return 0;
}

int daemon_reload_rules(struct daemon *d)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	_cleanup_(ruleset_freep) struct ruleset *rs = NULL;
	const struct error *first = NULL;
	int r = daemon_read_rules(d, &errors, &rs);

	free(TAKE_PTR(d->refused));
	if (r == 0)
		return daemon_apply_rules(d, TAKE_PTR(rs));
	for (size_t i = 0; i < errors.len && !first; i++)
		if (!errors.list[i].is_warning)
			first = &errors.list[i];
	if (asprintf(&d->refused, "%s:%d: %s", first ? first->file : "rules", first ? first->line : 0,
		     first ? first->text : strerror(-r)) < 0)
		d->refused = NULL;
	daemon_notify_status(d);
	daemon_say(d, REPORT_RELOAD, SEVERITY_ERROR, "reload refused, the old rules stay: %s (%zu errors)",
		   d->refused ?: strerror(ENOMEM), errors.error_count);
	return r;
}

static void libraries_json(struct daemon *d, struct strbuf *sb)
{
	json_key(sb, "libraries");
	strbuf_addc(sb, '[');
	for (size_t i = 0; i < libraries_count(d->libraries); i++) {
		_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
		struct library_info l;

		libraries_get(d->libraries, i, &l);
		redact_text(d->redact, l.path, &path);
		strbuf_adds(sb, i ? ",{" : "{");
		json_str(sb, "path", strbuf_str(&path));
		json_u64(sb, "inode", l.inode);
		json_u64(sb, "calls_found", l.stats.found);
		json_u64(sb, "calls_wanted", l.stats.wanted);
		json_u64(sb, "unknown_calls", l.stats.unknown_count);
		json_str(sb, "unknown_names", l.stats.unknown_count ? l.stats.unknown : NULL);
		json_bool(sb, "is_cut", l.stats.is_cut);
		json_u64(sb, "processes", l.pids);
		json_str(sb, "error", l.error ? strerror(-l.error) : NULL);
		strbuf_addc(sb, '}');
	}
	strbuf_addc(sb, ']');
}

static void stacks_json(struct daemon *d, struct strbuf *sb)
{
	struct resolver_stats s;

	resolver_stats(d->resolver, &s);
	json_key(sb, "stacks");
	strbuf_addc(sb, '{');
	json_u64(sb, "resolved", s.resolved);
	json_u64(sb, "incomplete", s.incomplete);
	json_u64(sb, "dropped", s.dropped);
	json_u64(sb, "queued", s.queued);
	json_u64(sb, "repeated", s.repeated);
	json_u64(sb, "learned", s.learned);
	json_u64(sb, "unlearnable", s.unlearnable);
	json_u64(sb, "learn_failed", s.learn_failed);
	json_u64(sb, "checked", s.checked);
	json_u64(sb, "mismatched", s.mismatched);
	json_u64(sb, "python_processes", s.python_processes);
	strbuf_addc(sb, '}');
}

static void counters_json(struct daemon *d, struct strbuf *sb)
{
	uint64_t c[COUNTER_MAX] = {}, hits[CALL_MAX];
	struct reporter_stats rs = {};

	(void)tracer_counters(d->tracer, c);
	reporter_stats(d->reporter, &rs);
	json_key(sb, "counters");
	strbuf_addc(sb, '{');
	for (int i = 0; i < COUNTER_MAX; i++)
		json_u64(sb, counter_name((enum counter)i), c[i]);
	strbuf_addc(sb, '}');
	json_key(sb, "records");
	strbuf_addc(sb, '{');
	json_str(sb, "sink", sink_name(rs.sink));
	json_u64(sb, "written", rs.written);
	json_u64(sb, "dropped", rs.dropped);
	json_u64(sb, "failed", rs.failed);
	json_u64(sb, "held", rs.budget_held);
	json_u64(sb, "queued", rs.queued);
	strbuf_addc(sb, '}');
	stacks_json(d, sb);
	json_key(sb, "calls");
	strbuf_addc(sb, '{');
	if (tracer_hits(d->tracer, hits, MIN(calls_len(), ARRAY_SIZE(hits))) == 0)
		for (size_t i = 0; i < MIN(calls_len(), ARRAY_SIZE(hits)); i++)
			if (hits[i])
				json_u64(sb, call_symbol((unsigned int)i), hits[i]);
	strbuf_addc(sb, '}');
	json_u64(sb, "kernel_memory_bytes_max", tracer_memory_bytes(d->tracer));
}

void daemon_each_limit(struct daemon *d, limit_fn fn, void *userdata)
{
	const struct limits *l = &d->settings->limits;
	struct reporter_stats rs = {};
	struct libraries_search search;
	struct user_names_stats names;
	struct container_names_stats containers;
	struct state_stats kept;
	struct resolver_stats st;
	struct engine_totals t;
	uint64_t c[COUNTER_MAX] = {}, live = 0;
	struct process *p;
	size_t iter = 0;

	while ((p = engine_next_process(d->engine, &iter)))
		live += p->live_count + p->framework_live_count;
	(void)tracer_counters(d->tracer, c);
	reporter_stats(d->reporter, &rs);
	resolver_stats(d->resolver, &st);
	/* The kernel's table of processes has the same size and is full first: calls of further processes are not seen. */
	fn("kernel_processes", d->known.len, l->processes, c[COUNTER_PROCESS_FULL], userdata);
	fn("live_allocations", live, l->live_allocations, c[COUNTER_LIVE_FULL] + c[COUNTER_LIVE_SHARE], userdata);
	engine_totals(d->engine, &t);
	fn("sites", MAX(t.sites, t.stacks), l->sites, t.overflow_all, userdata);
	fn("queue", rs.queued, l->queue, rs.dropped, userdata);
	daemon_history_limit(d, fn, userdata);
	fn("stacks_per_second", tracer_copies(d->tracer, clock_monotonic_ns()) / STACK_BURST_SEC,
		  l->stacks_per_second, c[COUNTER_STACK_SAMPLED], userdata);
	fn("learned_stacks", st.nodes, l->learned_stacks, st.relearned, userdata);
	fn("libraries", libraries_count(d->libraries), l->libraries, libraries_overflows(d->libraries), userdata);
	libraries_search(d->libraries, &search);
	fn("library_search_ms", search.debt_ns / NSEC_PER_MSEC, search.max_ns / NSEC_PER_MSEC, search.postponed, userdata);
	user_name_stats(&names);
	fn("user_names", names.used, USER_NAMES_MAX, names.overflows + names.evictions, userdata);
	container_name_stats(&containers);
	fn("container_names", containers.used, CONTAINER_NAMES_MAX, containers.overflows + containers.evictions, userdata);
	daemon_keep_stats(d, &kept);
	fn("state_bytes", kept.bytes, STATE_FILE_MAX, kept.left_out + kept.failures, userdata);
	fn("log_lines", log_used(), LOG_LINES_PER_MINUTE, log_left_out(), userdata);
}

static void status_json(struct daemon *d, struct strbuf *sb)
{
	struct engine_totals t;

	engine_totals(d->engine, &t);
	strbuf_addc(sb, '{');
	json_str(sb, "version", GPUXRAY_VERSION);
	json_bool(sb, "exact", t.exact);
	json_u64(sb, "lost_events", d->lost_seen);
	json_u64(sb, "uncovered", t.uncovered);
	json_u64(sb, "uptime_sec", (clock_monotonic_ns() - d->started_ns) / NSEC_PER_SEC);
	json_str(sb, "probes", tracer_is_multi(d->tracer) ? "uprobe_multi" : "perf");
	json_str(sb, "nvml", d->nvml ? nvml_watch_status(d->nvml) : NULL);
	daemon_driver_json(d, sb);
	libraries_json(d, sb);
	counters_json(d, sb);
	daemon_pools_json(d, sb);
	json_u64(sb, "rules_loaded", d->rule_count);
	json_str(sb, "rules_digest", d->digest);
	engine_status_json(d->engine, sb, clock_monotonic_ns());
	/* Behind the engine's in its list, which is the last member. */
	strbuf_truncate(sb, sb->len - 1);
	daemon_each_limit(d, json_limit, sb);
	strbuf_addc(sb, ']');
	strbuf_adds(sb, "}\n");
}

void daemon_status_text(struct daemon *d, bool json, struct strbuf *sb)
{
	struct engine_totals t;
	struct reporter_stats rs = {};
	struct resolver_stats st = {};
	uint64_t c[COUNTER_MAX] = {};
	char bytes[FORMAT_UNITS_MAX], up[FORMAT_UNITS_MAX];

	daemon_drain(d);
	if (json) {
		status_json(d, sb);
		return;
	}
	engine_totals(d->engine, &t);
	reporter_stats(d->reporter, &rs);
	strbuf_addf(sb, "gpuxray %s, up %s: %llu processes, %s live, %llu firing, %llu pending, books %s\n", GPUXRAY_VERSION,
		    format_duration(up, clock_monotonic_ns() - d->started_ns), (unsigned long long)t.processes,
		    format_bytes(bytes, t.live_bytes), (unsigned long long)t.firing, (unsigned long long)t.pending,
		    t.exact ? "exact" : "not exact yet");
	strbuf_addf(sb, "%llu events, %llu lost; %llu records to %s, %llu dropped; %zu rules; %s\n",
		    (unsigned long long)t.events, (unsigned long long)d->lost_seen, (unsigned long long)rs.written,
		    sink_name(rs.sink), (unsigned long long)(rs.dropped + rs.failed), d->rule_count,
		    d->nvml ? nvml_watch_status(d->nvml) : "NVML off");
	resolver_stats(d->resolver, &st);
	(void)tracer_counters(d->tracer, c);
	strbuf_addf(sb, "stacks: %llu unwound, %llu known again, %llu sampled, %llu lost\n",
		    (unsigned long long)st.resolved, (unsigned long long)c[COUNTER_STACK_KNOWN],
		    (unsigned long long)c[COUNTER_STACK_SAMPLED], (unsigned long long)(c[COUNTER_STACK_LOST] + st.dropped));
	if (d->driver.is_foreign)
		strbuf_adds(sb, "not in the host's PID namespace: what the NVIDIA driver says of processes is not used\n");
	if (!libraries_count(d->libraries))
		strbuf_adds(sb, "waiting: no process has loaded a GPU driver library yet\n");
	for (size_t i = 0; i < libraries_count(d->libraries); i++) {
		struct library_info l;

		libraries_get(d->libraries, i, &l);
		redact_text(d->redact, l.path, sb);
		strbuf_addf(sb, ": %zu calls probed%s%s", l.stats.found, l.error ? ", failed: " : "",
			    l.error ? strerror(-l.error) : "");
		if (l.stats.unknown_count)
			strbuf_addf(sb, "; %zu unknown memory calls, not counted: %s", l.stats.unknown_count, l.stats.unknown);
		strbuf_addc(sb, '\n');
	}
	strbuf_addc(sb, '\n');
	engine_status_text(d->engine, sb, clock_monotonic_ns());
}
