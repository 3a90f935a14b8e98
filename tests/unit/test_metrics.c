/* SPDX-License-Identifier: MIT */
/* Run from the top of the source. With GOLDEN=write the files of tests/unit/golden are made anew. */
#include <fcntl.h>
#include <time.h>

#include "base/file.h"
#include "metrics_make.h"

static void expect_golden(const struct view *v, enum metrics_format format, const char *path)
{
	_cleanup_free_ char *text = render(v, format, METRICS_PROCESSES_MAX, true), *golden = NULL;
	const char *write = getenv("GOLDEN");
	size_t len = 0;

	if (write && strcmp(write, "write") == 0) {
		_cleanup_fclose_ FILE *f = fopen(path, "w");

		ASSERT(f);
		fputs(text, f);
		return;
	}
	ASSERT(file_read(AT_FDCWD, path, 1 << 20, &golden, &len) == 0);
	if (strcmp(text, golden) != 0) {
		size_t at = 0;

		while (text[at] && text[at] == golden[at])
			at++;
		printf("# %s differs at \"%.60s\"\n", path, text + at);
	}
	EXPECT(strcmp(text, golden) == 0);
}

TEST(all_of_it_is_as_the_golden_files_have_it)
{
	_cleanup_view_ struct view *v = make_full();
	_cleanup_free_ char *text = rendered(v, METRICS_PROCESSES_MAX, true);

	(void)text;
	expect_golden(v, METRICS_PROMETHEUS, "tests/unit/golden/metrics.txt");
	expect_golden(v, METRICS_OPENMETRICS, "tests/unit/golden/metrics.openmetrics.txt");
}

TEST(the_first_gpuxrays_series_are_there)
{
	_cleanup_view_ struct view *v = make_full();
	_cleanup_free_ char *text = rendered(v, METRICS_PROCESSES_MAX, false), *args = rendered(v, METRICS_PROCESSES_MAX, true);

	/* What the driver reports, our own count where it does not, none where neither is known. */
	EXPECT(has_line(text, "gpu_process_used_memory_bytes{pid=\"4711\",comm=\"python3\",gpu=\"GPU-1\",gpu_index=\"0\"} 44023414784"));
	EXPECT(has_line(text, "gpu_process_used_memory_bytes{pid=\"4711\",comm=\"python3\",gpu=\"GPU-2\",gpu_index=\"1\"} 0"));
	EXPECT(has_line(text, "gpu_process_used_memory_bytes{pid=\"99\",comm=\"Xorg\",gpu=\"GPU-1\",gpu_index=\"0\"} 10485760"));
	EXPECT(has_line(text, "gpu_process_sm_utilization_percent{pid=\"4711\",comm=\"python3\",gpu=\"GPU-1\",gpu_index=\"0\"} 93"));
	EXPECT_EQ(count(text, "\ngpu_process_sm_utilization_percent{"), 1);
	EXPECT_EQ(count(text, "\ngpu_process_active{"), 3);
	EXPECT(has_line(text, "gpu_total_memory_bytes{gpu=\"GPU-1\",gpu_index=\"0\"} 150323855360"));
	EXPECT(has_line(text, "gpu_used_memory_bytes{gpu=\"GPU-1\",gpu_index=\"0\"} 45097156608"));
	EXPECT(has_line(text, "gpu_free_memory_bytes{gpu=\"GPU-1\",gpu_index=\"0\"} 105226698752"));
	EXPECT(has_line(args, "gpu_process_active{pid=\"4711\",comm=\"python3\",args=\"python3 train.py --name=\\\"a b\\\"\","
			      "gpu=\"GPU-1\",gpu_index=\"0\"} 1"));
	EXPECT_EQ(count(text, "args="), 0);
	EXPECT_EQ(count(args, "args="), 3 + 3 + 1);
}

TEST(a_process_that_shows_no_call_has_no_counts)
{
	_cleanup_view_ struct view *v = make_full();
	_cleanup_free_ char *text = rendered(v, METRICS_PROCESSES_MAX, false);

	EXPECT(has_line(text, "gpuxray_process_covered{pid=\"99\",comm=\"Xorg\"} 0"));
	EXPECT(has_line(text, "gpuxray_process_driver_bytes{pid=\"99\",comm=\"Xorg\"} 10485760"));
	EXPECT(strstr(text, "uncovered_reason=\"static library\"") != NULL);
	EXPECT_EQ(count(text, "bytes{pid=\"99\""), 2);
	EXPECT_EQ(count(text, "_total{pid=\"99\""), 0);
	/* And no memory where the driver does not say either. */
	v->processes[1].driver_bytes = v->processes[1].devices[0].driver_bytes = VIEW_NONE;
	free(text);
	text = rendered(v, METRICS_PROCESSES_MAX, false);
	EXPECT_EQ(count(text, "bytes{pid=\"99\""), 0);
	EXPECT_EQ(count(text, "gpu_process_active{pid=\"99\""), 1);
}

TEST(classes_that_are_empty_are_left_out)
{
	_cleanup_view_ struct view *v = make_view();
	_cleanup_free_ char *text = NULL;

	add_process(v, 7, "p", 0)->managed_bytes = MIB;
	text = rendered(v, METRICS_PROCESSES_MAX, false);
	EXPECT(has_line(text, "gpuxray_process_memory_bytes{pid=\"7\",comm=\"p\",class=\"device\"} 0"));
	EXPECT(has_line(text, "gpuxray_process_memory_bytes{pid=\"7\",comm=\"p\",class=\"managed\"} 1048576"));
	EXPECT_EQ(count(text, "class="), 2);
}

TEST(numbers)
{
	_cleanup_view_ struct view *v = make_full();
	struct view_process *p = &v->processes[0];
	_cleanup_free_ char *text = rendered(v, METRICS_PROCESSES_MAX, false), *more = NULL, *less = NULL;

	EXPECT(has_line(text, "gpuxray_process_growth_bytes_per_second{pid=\"4711\",comm=\"python3\"} -1.666"));
	EXPECT(has_line(text, "gpuxray_process_start_time_seconds{pid=\"4711\",comm=\"python3\"} 1796037215.63"));
	EXPECT(has_line(text, "gpuxray_device_busy_ratio{gpu=\"GPU-1\",gpu_index=\"0\"} 0.97"));
	EXPECT(has_line(text, "gpuxray_device_memory_busy_ratio{gpu=\"GPU-1\",gpu_index=\"0\"} 0.4"));
	EXPECT(has_line(text, "gpuxray_device_power_watts{gpu=\"GPU-1\",gpu_index=\"0\"} 412.5"));
	EXPECT(has_line(text, "gpuxray_device_power_limit_watts{gpu=\"GPU-1\",gpu_index=\"0\"} 700"));
	EXPECT(has_line(text, "process_cpu_seconds_total 1.5"));
	EXPECT(has_line(text, "process_start_time_seconds 1796037200"));
	p->growth_bytes_per_min = INT64_MAX;
	p->live_bytes = UINT64_MAX - 1;
	v->totals.cpu_ns = 1000000001;
	v->devices[0].busy_percent = 100;
	more = rendered(v, METRICS_PROCESSES_MAX, false);
	EXPECT(has_line(more, "gpuxray_process_growth_bytes_per_second{pid=\"4711\",comm=\"python3\"} 153722867280912930.116"));
	EXPECT(has_line(more, "gpuxray_process_live_bytes{pid=\"4711\",comm=\"python3\"} 18446744073709551614"));
	EXPECT(has_line(more, "process_cpu_seconds_total 1.000000001"));
	EXPECT(has_line(more, "gpuxray_device_busy_ratio{gpu=\"GPU-1\",gpu_index=\"0\"} 1"));
	p->growth_bytes_per_min = INT64_MIN + 1;
	v->totals.cpu_ns = 0;
	v->devices[0].busy_percent = 0;
	less = rendered(v, METRICS_PROCESSES_MAX, false);
	EXPECT(has_line(less, "gpuxray_process_growth_bytes_per_second{pid=\"4711\",comm=\"python3\"} -153722867280912930.116"));
	EXPECT(has_line(less, "process_cpu_seconds_total 0"));
	EXPECT(has_line(less, "gpuxray_device_busy_ratio{gpu=\"GPU-1\",gpu_index=\"0\"} 0"));
}

TEST(what_is_not_known_is_not_there)
{
	_cleanup_view_ struct view *v = make_view();
	struct view_process *p = add_process(v, 7, NULL, MIB);
	_cleanup_free_ char *text = NULL;

	ASSERT(view_add_device(v));
	(void)add_on(p, NULL, VIEW_NONE_INT, MIB);
	text = rendered(v, METRICS_PROCESSES_MAX, true);
	EXPECT(has_line(text, "gpu_process_used_memory_bytes{pid=\"7\",comm=\"\",args=\"\",gpu=\"\",gpu_index=\"\"} 1048576"));
	EXPECT_EQ(count(text, "18446744073709551615") + count(text, "4294967295") + count(text, "9223372036854775808"), 0);
	EXPECT_EQ(count(text, "gpu_total_memory_bytes") + count(text, "gpu_free_memory_bytes") + count(text, "_celsius"), 0);
	EXPECT_EQ(count(text, "driver_bytes") + count(text, "untracked") + count(text, "baseline") + count(text, "growth"), 0);
	EXPECT_EQ(count(text, "sm_utilization") + count(text, "busy") + count(text, "watts") + count(text, "start_time_seconds"), 0);
	EXPECT_EQ(count(text, "resident") + count(text, "open_fds") + count(text, "kernel_memory"), 0);
	EXPECT_EQ(count(text, "gpuxray_device_live_bytes{gpu=\"\",gpu_index=\"\"} 0"), 1);
}

TEST(only_the_daemon_has_rules_and_records)
{
	_cleanup_view_ struct view *v = make_full();
	_cleanup_free_ char *text = NULL;

	v->totals.is_daemon = false;
	text = rendered(v, METRICS_PROCESSES_MAX, false);
	EXPECT(has_line(text, "gpuxray_daemon 0"));
	EXPECT_EQ(count(text, "gpuxray_incidents") + count(text, "gpuxray_rules") + count(text, "gpuxray_records"), 0);
	EXPECT(strstr(text, "gpuxray_process_live_bytes{") != NULL);
}

TEST(an_empty_view)
{
	_cleanup_view_ struct view *v = make_view();
	_cleanup_free_ char *text = rendered(v, METRICS_PROCESSES_MAX, true);

	EXPECT(has_line(text, "gpuxray_build_info{version=\"0.1.0\"} 1"));
	EXPECT(has_line(text, "gpuxray_processes_left_out 0"));
}

/* ---- which series */

TEST(the_same_series_never_comes_twice)
{
	_cleanup_view_ struct view *v = make_full();
	struct view_process *p = add_process(v, 4711, "older", MIB), *q;
	_cleanup_free_ char *text = NULL;
	char long_name[1000];

	p->start_ticks = 1;
	/* Twice the same device, and two that nobody knows. */
	q = add_process(v, 5000, "twice", 10 * MIB);
	add_on(q, "GPU-1", 0, MIB)->driver_bytes = 5 * MIB;
	add_on(q, "GPU-1", 0, 2 * MIB)->driver_bytes = 5 * MIB;
	add_on(q, NULL, VIEW_NONE_INT, 3 * MIB)->ordinal = 0;
	add_on(q, NULL, VIEW_NONE_INT, 4 * MIB)->ordinal = 1;
	/* Names that are told apart only behind where they are cut. */
	memset(long_name, 'x', sizeof(long_name));
	long_name[sizeof(long_name) - 1] = '\0';
	for (int i = 0; i < 2; i++) {
		struct view_device *d = view_add_device(v);
		struct view_limit *l = view_add_limit(v);
		struct view_counter *c = view_add_counter(v);
		struct view_latency *t = view_add_latency(v);

		long_name[sizeof(long_name) - 2] = (char)('a' + i);
		ASSERT(d && l && c && t && view_set(&d->uuid, long_name) == 0 && view_set(&l->name, long_name) == 0 &&
		       view_set(&c->name, long_name) == 0 && view_set(&t->function, long_name) == 0);
		add_incident(v, long_name, "error", "leak", "firing");
	}
	ASSERT(view_set(&v->processes[0].conditions, "zombie,,zombie,uninterruptible,zombi,") == 0);
	text = rendered(v, METRICS_PROCESSES_MAX, true);
	EXPECT_EQ(count(text, "comm=\"older\""), 0);
	EXPECT(has_line(text, "gpuxray_process_device_live_bytes{pid=\"5000\",comm=\"twice\",gpu=\"GPU-1\",gpu_index=\"0\"} 3145728"));
	EXPECT(has_line(text, "gpuxray_process_device_live_bytes{pid=\"5000\",comm=\"twice\",gpu=\"\",gpu_index=\"\"} 7340032"));
	EXPECT_EQ(count(text, "gpu_process_used_memory_bytes{pid=\"5000\""), 2);
	EXPECT(strstr(text, "gpu=\"GPU-1\",gpu_index=\"0\"} 5242880\n") != NULL);
	EXPECT_EQ(count(text, "gpuxray_process_condition{"), 3);
	EXPECT(strstr(text, "severity=\"error\",kind=\"leak\"} 2\n") != NULL);
}

TEST(dead_ones_are_not_there)
{
	_cleanup_view_ struct view *v = make_full();
	_cleanup_free_ char *text = NULL;

	v->processes[0].is_ended = true;
	text = rendered(v, METRICS_PROCESSES_MAX, false);
	EXPECT_EQ(count(text, "4711"), 0);
	EXPECT(has_line(text, "gpuxray_processes_left_out 0"));
}

TEST(those_that_hold_most_have_series)
{
	_cleanup_view_ struct view *v = make_view();
	_cleanup_free_ char *text = NULL, *none = NULL;

	for (uint32_t i = 0; i < 20; i++)
		(void)add_process(v, 100 + (i * 7) % 20, "p", (i * 7) % 20 < 10 ? MIB : GIB);
	v->processes[0].driver_bytes = 5 * GIB; /* pid 100, by the driver's word */
	text = rendered(v, 4, false);
	EXPECT_EQ(count(text, "\ngpuxray_process_live_bytes{"), 4);
	for (int pid = 100; pid < 120; pid++) {
		char line[64];

		snprintf(line, sizeof(line), "gpuxray_process_live_bytes{pid=\"%d\"", pid);
		EXPECT_EQ(count(text, line), pid == 100 || (pid >= 110 && pid < 113));
	}
	EXPECT(has_line(text, "gpuxray_processes_left_out 16"));
	none = rendered(v, 0, false);
	EXPECT_EQ(count(none, "pid="), 0);
	EXPECT(has_line(none, "gpuxray_processes_left_out 20"));
}

TEST(incidents_are_counted_by_rule)
{
	_cleanup_view_ struct view *v = make_full();
	_cleanup_free_ char *text = rendered(v, METRICS_PROCESSES_MAX, false);

	EXPECT(has_line(text, "gpuxray_incidents_firing{rule=\"quota\",severity=\"critical\",kind=\"live_bytes\"} 2"));
	EXPECT(has_line(text, "gpuxray_incidents_firing{rule=\"leak\",severity=\"warning\",kind=\"leak\"} 0"));
	EXPECT(has_line(text, "gpuxray_incidents_pending{rule=\"leak\",severity=\"warning\",kind=\"leak\"} 1"));
	EXPECT(has_line(text, "gpuxray_incidents_inhibited{rule=\"oom\",severity=\"error\",kind=\"alloc_failure\"} 1"));
	EXPECT_EQ(count(text, "\ngpuxray_incidents_"), 9);
}

TEST(a_histogram_is_cumulated_and_agrees_with_itself)
{
	_cleanup_view_ struct view *v = make_full();
	_cleanup_free_ char *text = rendered(v, METRICS_PROCESSES_MAX, false);
	const char *name = "gpuxray_call_duration_seconds";
	static const struct {
		const char *le;
		int value;
	} lines[] = { { "1.024e-06", 5 }, { "4.096e-06", 5 }, { "1.6384e-05", 8 }, { "17.179869184", 8 }, { "+Inf", 9 } };
	char line[128];

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		snprintf(line, sizeof(line), "%s_bucket{function=\"cuMemAlloc_v2\",le=\"%s\"} %d", name, lines[i].le, lines[i].value);
		EXPECT(has_line(text, line));
	}
	EXPECT(has_line(text, "gpuxray_call_duration_seconds_sum{function=\"cuMemAlloc_v2\"} 20.000123"));
	EXPECT(has_line(text, "gpuxray_call_duration_seconds_count{function=\"cuMemAlloc_v2\"} 9"));
	EXPECT_EQ(count(text, "_bucket{"), VIEW_LATENCY_BUCKETS);
}

/* The ends of buckets as text are those that view.h says as numbers. */
TEST(ends_of_buckets)
{
	_cleanup_view_ struct view *v = make_full();
	_cleanup_free_ char *text = rendered(v, METRICS_PROCESSES_MAX, false);
	const char *s = text;

	for (int i = 0; i < VIEW_LATENCY_BUCKETS - 1; i++) {
		double end = (double)(UINT64_C(1) << (10 + 2 * i)) / 1e9, said;

		s = strstr(s, ",le=\"");
		ASSERT(s);
		s += 5;
		said = strtod(s, NULL);
		EXPECT(said > end * 0.999999999 && said < end * 1.000000001);
	}
}

/* ---- names that processes choose */

TEST(hostile_names)
{
	static const struct {
		const char *comm, *label;
	} names[] = {
		{ "a\n# TYPE forged gauge\nforged 1", "a\\\\x0a# TYPE forged gauge\\\\x0aforged 1" },
		{ "\"} 1\nx{a=\"", "\\\"} 1\\\\x0ax{a=\\\"" },
		{ "back\\slash\\n", "back\\\\x5cslash\\\\x5cn" },
		{ "\xff\xc0\xaf\xed\xa0\x80", "\\\\xff\\\\xc0\\\\xaf\\\\xed\\\\xa0\\\\x80" },
		{ "\xe2\x80\xaeoops\r\t\x7f\x1b[2J", "\\\\xe2\\\\x80\\\\xaeoops\\\\x0d\\\\x09\\\\x7f\\\\x1b[2J" },
		{ "Gr\xc3\xb6\xc3\x9f" "e \xf0\x9f\x98\x80", "Gr\xc3\xb6\xc3\x9f" "e \xf0\x9f\x98\x80" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_view_ struct view *v = make_full();
		struct view_process *p = &v->processes[0];
		_cleanup_free_ char *text = NULL;
		char line[256];

		ASSERT(view_set(&p->comm, names[i].comm) == 0 && view_set(&p->user, names[i].comm) == 0 &&
		       view_set(&p->cmdline, names[i].comm) == 0 && view_set(&p->conditions, names[i].comm) == 0 &&
		       view_set(&p->devices[0].uuid, names[i].comm) == 0 && view_set(&v->devices[0].name, names[i].comm) == 0 &&
		       view_set(&v->incidents[0].rule, names[i].comm) == 0 && view_set(&v->limits[0].name, names[i].comm) == 0 &&
		       view_set(&v->totals.version, names[i].comm) == 0);
		text = rendered(v, METRICS_PROCESSES_MAX, true);
		snprintf(line, sizeof(line), "gpuxray_process_covered{pid=\"4711\",comm=\"%s\"} 1", names[i].label);
		EXPECT(has_line(text, line));
	}
}

TEST(any_byte_in_a_name_and_any_length)
{
	for (size_t len = 1; len < 3000; len += len < 300 ? 7 : 431) {
		_cleanup_view_ struct view *v = make_full();
		_cleanup_free_ char *text = NULL, *name = malloc(len + 1);

		ASSERT(name);
		for (size_t i = 0; i < len; i++)
			name[i] = (char)(1 + (i * 37 + len) % 255);
		name[len] = '\0';
		ASSERT(view_set(&v->processes[0].comm, name) == 0 && view_set(&v->processes[0].cmdline, name) == 0);
		text = rendered(v, METRICS_PROCESSES_MAX, true);
		/* Quoting may double it. */
		for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
			EXPECT(strcspn(line, "\n") < 2 * (256 + 1024) + 300);
	}
}

/* ---- how long it takes */

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define RENDER_MS_MAX 500
#else
#define RENDER_MS_MAX 20
#endif

static struct view *make_crowd(uint32_t processes)
{
	struct view *v = make_view();

	make_devices(v);
	for (uint32_t i = 0; i < processes; i++) {
		struct view_process *p;

		make_trained(v);
		p = &v->processes[i];
		p->pid = 10000 + i * 13 % processes;
		p->devices[0].sm_percent = p->devices[1].sm_percent = i % 100;
	}
	for (int i = 0; i < 20; i++)
		make_edges(v);
	return v;
}

static double cpu_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

/* Time of this thread alone, the best of five: what else runs on the machine counts little. */
TEST(a_thousand_processes_on_two_devices_take_little_time)
{
	_cleanup_view_ struct view *v = make_crowd(1000);
	_cleanup_free_ char *text = NULL;
	double best = 1e9;
	size_t lines = 0;

	for (int i = 0; i < 5; i++) {
		double begin = cpu_ms(), took;

		free(text);
		text = render(v, METRICS_OPENMETRICS, METRICS_PROCESSES_MAX, false);
		took = cpu_ms() - begin;
		best = MIN(best, took);
	}
	for (const char *s = text; (s = strchr(s, '\n')); s++)
		lines++;
	printf("# %.1f ms for %zu lines, %.1f MB\n", best, lines, (double)strlen(text) / 1e6);
	EXPECT(best < RENDER_MS_MAX);
	EXPECT(!exposition_problem(text, METRICS_OPENMETRICS));
	EXPECT_EQ(count(text, "\ngpuxray_process_live_bytes{"), 1000);
}

/* ---- what a client asks for */

TEST(formats_are_negotiated)
{
	static const struct {
		const char *accept;
		enum metrics_format format;
	} asked[] = {
		{ NULL, METRICS_PROMETHEUS },
		{ "", METRICS_PROMETHEUS },
		{ "*/*", METRICS_PROMETHEUS },
		{ "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", METRICS_PROMETHEUS },
		{ "text/plain; version=0.0.4", METRICS_PROMETHEUS },
		{ "application/openmetrics-text", METRICS_OPENMETRICS },
		{ "Application/OpenMetrics-Text ; Version=\"1.0.0\" ; charset=utf-8", METRICS_OPENMETRICS },
		/* Prometheus 2.42, 2.5 and 3. */
		{ "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
		  "text/plain;version=0.0.4;q=0.5,*/*;q=0.1", METRICS_OPENMETRICS },
		{ "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", METRICS_PROMETHEUS },
		{ "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,"
		  "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
		  "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,/;q=0.1", METRICS_OPENMETRICS },
		{ "text/plain;version=0.0.4;q=0.9,application/openmetrics-text;version=1.0.0;q=0.5", METRICS_PROMETHEUS },
		{ "text/plain;q=0.5,application/openmetrics-text;q=0.500", METRICS_OPENMETRICS },
		{ "application/openmetrics-text;q=0", METRICS_PROMETHEUS },
		{ "application/openmetrics-text;q=0.0", METRICS_PROMETHEUS },
		{ "application/openmetrics-text;q=x", METRICS_PROMETHEUS },
		{ "application/openmetrics-text;q=", METRICS_PROMETHEUS },
		{ "application/openmetrics-texts", METRICS_PROMETHEUS },
		{ "text/plain;x=\"application/openmetrics-text,\"", METRICS_PROMETHEUS },
		{ ";;;,,=,\"", METRICS_PROMETHEUS },
		{ "application/openmetrics-text;version=\"1.0.0", METRICS_OPENMETRICS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		if (metrics_negotiate(asked[i].accept) != asked[i].format)
			printf("# %s\n", asked[i].accept ?: "(none)");
		EXPECT_EQ(metrics_negotiate(asked[i].accept), asked[i].format);
	}
	EXPECT_STR(metrics_content_type(METRICS_PROMETHEUS), "text/plain; version=0.0.4; charset=utf-8");
	EXPECT_STR(metrics_content_type(METRICS_OPENMETRICS), "application/openmetrics-text; version=1.0.0; charset=utf-8");
}

/* ---- the reader finds what is wrong */

TEST(the_reader_of_expositions_is_strict)
{
	static const struct {
		enum metrics_format format;
		const char *text;
		bool is_good;
	} texts[] = {
		{ METRICS_PROMETHEUS, "# TYPE a gauge\n# HELP a b\na 1\n", true },
		{ METRICS_PROMETHEUS, "# TYPE a gauge\n# HELP a b\na 1\n# EOF\n", false },
		{ METRICS_OPENMETRICS, "# TYPE a gauge\n# HELP a b\na 1\n# EOF\n", true },
		{ METRICS_OPENMETRICS, "# TYPE a gauge\n# HELP a b\na 1\n", false },
		{ METRICS_OPENMETRICS, "# TYPE a gauge\n# HELP a b\na 1\n# EOF\n# EOF\n", false },
		{ METRICS_OPENMETRICS, "# TYPE a_bytes gauge\n# UNIT a_bytes bytes\n# HELP a_bytes b\na_bytes 1\n# EOF\n", true },
		{ METRICS_OPENMETRICS, "# TYPE a_bytes gauge\n# UNIT a_bytes seconds\n# HELP a_bytes b\na_bytes 1\n# EOF\n", false },
		{ METRICS_PROMETHEUS, "# TYPE a_bytes gauge\n# UNIT a_bytes bytes\n# HELP a_bytes b\na_bytes 1\n", false },
		{ METRICS_OPENMETRICS, "# TYPE a_total counter\n# HELP a_total b\na_total 1\n# EOF\n", false },
		{ METRICS_OPENMETRICS, "# TYPE a counter\n# HELP a b\na_total 1\n# EOF\n", true },
		{ METRICS_OPENMETRICS, "# TYPE a counter\n# HELP a b\na 1\n# EOF\n", false },
		{ METRICS_OPENMETRICS, "# TYPE a counter\n# HELP a b\na_total -1\n# EOF\n", false },
		{ METRICS_OPENMETRICS, "# TYPE a info\n# HELP a b\na_info{b=\"c\"} 2\n# EOF\n", false },
		{ METRICS_PROMETHEUS, "# TYPE a info\n# HELP a b\na{b=\"c\"} 1\n", false },
		{ METRICS_PROMETHEUS, "# TYPE a gauge\n# HELP a b\na NaN\n", false },
		{ METRICS_PROMETHEUS, "# TYPE a gauge\n# HELP a b\na 1.\n", false },
		{ METRICS_PROMETHEUS, "# TYPE a gauge\n# HELP a b\na{b=\"c\",d=\"e\"} 1\na{d=\"e\",b=\"c\"} 2\n", false },
		{ METRICS_PROMETHEUS, "# TYPE a gauge\n# HELP a b\na{b=\"c\",b=\"e\"} 1\n", false },
		{ METRICS_PROMETHEUS, "# TYPE a gauge\n# HELP a b\na{b=\"\\x\"} 1\n", false },
		{ METRICS_PROMETHEUS, "# TYPE a gauge\n# HELP a b\na{b=\"c\",} 1\n", false },
		{ METRICS_PROMETHEUS, "# TYPE a gauge\n# HELP a b\na{b=\"\xff\"} 1\n", false },
		{ METRICS_PROMETHEUS, "# TYPE a gauge\n# HELP a b\n", false },
		{ METRICS_PROMETHEUS, "# TYPE a gauge\na 1\n", false },
		{ METRICS_PROMETHEUS, "# TYPE a gauge\n# HELP a b\na 1\n# TYPE c gauge\n# HELP c b\nc 1\na{b=\"d\"} 1\n", false },
		{ METRICS_PROMETHEUS, "# TYPE a gauge\n# HELP a b\na 1\n# TYPE a gauge\n# HELP a b\na{c=\"d\"} 1\n", false },
		{ METRICS_PROMETHEUS, "# TYPE a histogram\n# HELP a b\na_bucket{le=\"1.0\"} 1\na_bucket{le=\"+Inf\"} 2\na_sum 1\na_count 2\n", true },
		{ METRICS_PROMETHEUS, "# TYPE a histogram\n# HELP a b\na_bucket{le=\"1.0\"} 3\na_bucket{le=\"+Inf\"} 2\na_sum 1\na_count 2\n", false },
		{ METRICS_PROMETHEUS, "# TYPE a histogram\n# HELP a b\na_bucket{le=\"1.0\"} 1\na_bucket{le=\"+Inf\"} 2\na_sum 1\na_count 3\n", false },
		{ METRICS_PROMETHEUS, "# TYPE a histogram\n# HELP a b\na_bucket{le=\"1.0\"} 1\na_sum 1\na_count 1\n", false },
		{ METRICS_PROMETHEUS, "# TYPE a histogram\n# HELP a b\na_bucket{le=\"+Inf\"} 1\na_sum 1\n", false },
		{ METRICS_PROMETHEUS, "# TYPE a gauge\n# HELP a b\na{le=\"1.0\"} 1\n", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (!exposition_problem(texts[i].text, texts[i].format) != texts[i].is_good)
			printf("# %zu: %s\n", i, texts[i].text);
		EXPECT_EQ(!exposition_problem(texts[i].text, texts[i].format), texts[i].is_good);
	}
}

TEST_MAIN()
