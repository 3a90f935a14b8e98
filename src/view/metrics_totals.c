/* SPDX-License-Identifier: MIT */
/* The daemon itself: what it sees and loses, its limits, its own cost. */
#include "view/metrics_text.h"

#define TOTAL(...) METRICS_FIELD(view_totals, __VA_ARGS__)

static const struct metrics_family build = {
	"gpuxray_build", METRICS_INFO, NULL, "The version of the daemon.",
};

static const struct metrics_field totals[] = {
	TOTAL("gpuxray_daemon", METRICS_GAUGE, NULL, FORM_BOOL, is_daemon,
	      "1: these are the figures of the daemon. 0: none runs, they are of a tracer without rules and records."),
	TOTAL("gpuxray_exact", METRICS_GAUGE, NULL, FORM_BOOL, is_exact,
	      "0 if calls may have been missed since the start: figures are estimates."),
	TOTAL("gpuxray_events", METRICS_COUNTER, NULL, FORM_U64, events, "Events that the probes have sent."),
	TOTAL("gpuxray_lost_events", METRICS_COUNTER, NULL, FORM_U64, lost_events, "Events that were lost on their way."),
	TOTAL("gpuxray_allocations", METRICS_COUNTER, NULL, FORM_U64, alloc_count,
	      "Allocations of all processes, those that have ended too."),
	TOTAL("gpuxray_frees", METRICS_COUNTER, NULL, FORM_U64, free_count,
	      "Frees of all processes, those that have ended too."),
	TOTAL("gpuxray_allocation_failures", METRICS_COUNTER, NULL, FORM_U64, fail_count,
	      "Allocations that the driver refused, to all processes, those that have ended too."),
	TOTAL("gpuxray_processes", METRICS_GAUGE, NULL, FORM_U64, processes, "Processes that are traced."),
	TOTAL("gpuxray_processes_uncovered", METRICS_GAUGE, NULL, FORM_U64, uncovered,
	      "Processes that hold memory and none of whose calls is seen."),
	TOTAL("gpuxray_libraries", METRICS_GAUGE, NULL, FORM_U64, libraries, "Driver libraries with probes."),
	TOTAL("gpuxray_kernel_memory_max_bytes", METRICS_GAUGE, "bytes", FORM_POSITIVE, kernel_bytes_max,
	      "The most memory that the probes' tables may take in the kernel."),
	TOTAL("process_cpu_seconds", METRICS_COUNTER, "seconds", FORM_NSEC, cpu_ns,
	      "Processor time of the daemon, user and system."),
	TOTAL("process_resident_memory_bytes", METRICS_GAUGE, "bytes", FORM_POSITIVE, resident_bytes,
	      "Resident memory of the daemon."),
	TOTAL("process_start_time_seconds", METRICS_GAUGE, "seconds", FORM_USEC, start_usec,
	      "When the daemon started, since the epoch."),
	TOTAL("process_open_fds", METRICS_GAUGE, NULL, FORM_POSITIVE, fds, "Open file descriptors of the daemon."),
};

/* What only the daemon has. */
static const struct metrics_field daemon_totals[] = {
	TOTAL("gpuxray_rules", METRICS_GAUGE, NULL, FORM_U64, rules, "Rules that are loaded."),
};

static const struct metrics_family records = {
	"gpuxray_records", METRICS_COUNTER, NULL,
	"Records by what became of them: written; dropped, as their queue was full; failed to be written; suppressed, as a "
	"budget was spent.",
};
static const struct {
	const char *outcome;
	size_t offset;
} outcomes[] = {
	{ "written", offsetof(struct view_totals, records_written) },
	{ "dropped", offsetof(struct view_totals, records_dropped) },
	{ "failed", offsetof(struct view_totals, records_failed) },
	{ "suppressed", offsetof(struct view_totals, records_suppressed) },
};

static const struct metrics_field limit_fields[] = {
	METRICS_FIELD(view_limit, "gpuxray_limit_used", METRICS_GAUGE, NULL, FORM_U64, used, "How much of a limit is used."),
	METRICS_FIELD(view_limit, "gpuxray_limit_max", METRICS_GAUGE, NULL, FORM_U64, max, "The limit; 0 if there is none."),
	METRICS_FIELD(view_limit, "gpuxray_limit_overflows", METRICS_COUNTER, NULL, FORM_U64, overflows,
	      "What did not fit below the limit."),
};

static const struct metrics_field probe_fields[] = {
	METRICS_FIELD(view_counter, "gpuxray_probe_events", METRICS_COUNTER, NULL, FORM_U64, value,
	      "What the probes have counted in the kernel."),
};

static void render_limit(const void *thing, struct strbuf *sb)
{
	metrics_label(sb, true, "limit", ((const struct view_limit *)thing)->name, METRICS_LABEL_MAX);
}

static void render_counter(const void *thing, struct strbuf *sb)
{
	metrics_label(sb, true, "event", ((const struct view_counter *)thing)->name, METRICS_LABEL_MAX);
}

static void write_list(struct metrics_out *out, const void *things, size_t len, size_t size,
		       void (*render)(const void *thing, struct strbuf *sb), const struct metrics_field *fields,
		       size_t fields_len)
{
	_cleanup_metrics_list_ struct metrics_list list = {};
	int r = metrics_list_fill(&list, things, len, size, render);

	if (r < 0)
		out->sb->error = r;
	else
		metrics_fields(out, &list, fields, fields_len);
}

static void write_totals(struct metrics_out *out, const struct view_totals *t, const struct metrics_field *fields, size_t len)
{
	struct metrics_series one = { .thing = t };

	metrics_fields(out, &(struct metrics_list){ .series = &one, .len = 1 }, fields, len);
}

static void write_records(struct metrics_out *out, const struct view_totals *t)
{
	metrics_family(out, &records);
	for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) {
		const uint64_t n = *(const uint64_t *)((const char *)t + outcomes[i].offset);

		if (n == VIEW_NONE)
			continue;
		metrics_begin(out, "");
		metrics_label(out->sb, true, "outcome", outcomes[i].outcome, METRICS_LABEL_MAX);
		metrics_end(out, metrics_u64(n));
	}
}

void metrics_totals(struct metrics_out *out, const struct view *v)
{
	const struct view_totals *t = &v->totals;

	metrics_family(out, &build);
	metrics_begin(out, "");
	metrics_label(out->sb, true, "version", t->version, METRICS_LABEL_MAX);
	metrics_end(out, metrics_u64(1));
	write_totals(out, t, totals, ARRAY_SIZE(totals));
	if (t->is_daemon) {
		write_totals(out, t, daemon_totals, ARRAY_SIZE(daemon_totals));
		write_records(out, t);
	}
	write_list(out, v->limits, v->limits_len, sizeof(*v->limits), render_limit, limit_fields, ARRAY_SIZE(limit_fields));
	write_list(out, v->counters, v->counters_len, sizeof(*v->counters), render_counter, probe_fields,
		   ARRAY_SIZE(probe_fields));
}
