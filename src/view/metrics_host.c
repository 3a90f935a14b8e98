/* SPDX-License-Identifier: MIT */
/* All that is not of one process: devices, incidents, calls, and the daemon itself. */
#include <string.h>

#include "model/saturate.h"
#include "view/metrics_text.h"

/* ---- devices */

#define FIELD(...) METRICS_FIELD(view_device, __VA_ARGS__)

static const struct metrics_field memory_fields[] = {
	FIELD("gpu_total_memory_bytes", METRICS_GAUGE, "bytes", FORM_U64, total_bytes,
	      "Memory of the GPU."),
	FIELD("gpu_used_memory_bytes", METRICS_GAUGE, "bytes", FORM_U64, used_bytes,
	      "Memory of the GPU in use by everybody, as the driver reports it."),
};
static const struct metrics_family memory_free = {
	"gpu_free_memory_bytes", METRICS_GAUGE, "bytes", "Memory of the GPU that is not in use.",
};
static const struct metrics_family device_info = {
	"gpuxray_device", METRICS_INFO, NULL, "What GPU it is.",
};
static const struct metrics_field device_fields[] = {
	FIELD("gpuxray_device_live_bytes", METRICS_GAUGE, "bytes", FORM_U64, live_bytes,
	      "Memory of the GPU that traced processes hold."),
	FIELD("gpuxray_device_busy_ratio", METRICS_GAUGE, "ratio", FORM_PERCENT, busy_percent,
	      "Share of the time in which something ran on the GPU (0-1)."),
	FIELD("gpuxray_device_memory_busy_ratio", METRICS_GAUGE, "ratio", FORM_PERCENT, memory_busy_percent,
	      "Share of the time in which the memory of the GPU was read or written (0-1)."),
	FIELD("gpuxray_device_temperature_celsius", METRICS_GAUGE, "celsius", FORM_U32, celsius,
	      "Temperature of the GPU."),
	FIELD("gpuxray_device_power_watts", METRICS_GAUGE, "watts", FORM_MILLI, milliwatts,
	      "What the GPU draws."),
	FIELD("gpuxray_device_power_limit_watts", METRICS_GAUGE, "watts", FORM_MILLI, milliwatts_max,
	      "What the GPU may draw."),
};

static void render_device(const void *thing, struct strbuf *sb)
{
	const struct view_device *d = thing;

	metrics_label_gpu(sb, true, d->uuid, d->index);
}

static void write_device_info(struct metrics_out *out, const struct metrics_list *list)
{
	metrics_family(out, &device_info);
	for (size_t i = 0; i < list->len; i++) {
		const struct metrics_series *s = &list->series[i];
		const struct view_device *d = s->thing;

		metrics_begin(out, "");
		strbuf_add(out->sb, list->text.buf + s->at, s->len);
		metrics_label(out->sb, false, "name", d->name, METRICS_LABEL_MAX);
		metrics_label(out->sb, false, "driver", d->driver, METRICS_LABEL_MAX);
		metrics_end(out, metrics_u64(1));
	}
}

static void write_free(struct metrics_out *out, const struct metrics_list *list)
{
	metrics_family(out, &memory_free);
	for (size_t i = 0; i < list->len; i++) {
		const struct metrics_series *s = &list->series[i];
		const struct view_device *d = s->thing;

		if (d->total_bytes != VIEW_NONE && d->used_bytes != VIEW_NONE)
			metrics_sample(out, list->text.buf + s->at, s->len,
				       metrics_u64(sat_diff(d->total_bytes, d->used_bytes)));
	}
}

void metrics_devices(struct metrics_out *out, const struct view *v)
{
	_cleanup_metrics_list_ struct metrics_list list = {};
	int r = metrics_list_fill(&list, v->devices, v->devices_len, sizeof(*v->devices), render_device);

	if (r < 0) {
		out->sb->error = r;
		return;
	}
	metrics_fields(out, &list, memory_fields, ARRAY_SIZE(memory_fields));
	write_free(out, &list);
	write_device_info(out, &list);
	metrics_fields(out, &list, device_fields, ARRAY_SIZE(device_fields));
}

/* ---- incidents */

static const struct {
	struct metrics_family family;
	const char *states[2];
} incident_states[] = {
	{ { "gpuxray_incidents_firing", METRICS_GAUGE, NULL, "Incidents that fire, by rule." }, { "firing", "resolving" } },
	{ { "gpuxray_incidents_pending", METRICS_GAUGE, NULL, "Incidents whose rule waits before it fires." }, { "pending" } },
	{ { "gpuxray_incidents_inhibited", METRICS_GAUGE, NULL, "Incidents about which another rule speaks." },
	  { "inhibited" } },
};

struct incident_labels {
	const char *text; /* in the text of all */
	size_t at, len;
	const char *state;
};

static int by_labels(const void *a, const void *b)
{
	const struct incident_labels *x = a, *y = b;
	int r = memcmp(x->text, y->text, MIN(x->len, y->len));

	return r ?: (x->len > y->len) - (x->len < y->len);
}

static bool is_in_state(const char *state, const char *const states[2])
{
	return strcmp(state, states[0]) == 0 || (states[1] && strcmp(state, states[1]) == 0);
}

/* A rule that has an incident in any state has a sample in each: what stops is seen to be 0. */
static void write_incidents(struct metrics_out *out, const struct incident_labels *list, size_t len,
			    const char *const states[2])
{
	for (size_t i = 0, end; i < len; i = end) {
		uint64_t count = 0;

		for (end = i; end < len && by_labels(&list[i], &list[end]) == 0; end++)
			count += is_in_state(list[end].state, states);
		metrics_sample(out, list[i].text, list[i].len, metrics_u64(count));
	}
}

void metrics_incidents(struct metrics_out *out, const struct view *v)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	_cleanup_free_ struct incident_labels *list = calloc(v->incidents_len + 1, sizeof(*list));

	if (!v->totals.is_daemon)
		return;
	for (size_t i = 0; list && i < v->incidents_len; i++) {
		const struct view_incident *inc = &v->incidents[i];

		list[i] = (struct incident_labels){ .at = text.len, .state = inc->state ?: "" };
		metrics_label(&text, true, "rule", inc->rule, METRICS_LABEL_MAX);
		metrics_label(&text, false, "severity", inc->severity, METRICS_LABEL_MAX);
		metrics_label(&text, false, "kind", inc->kind, METRICS_LABEL_MAX);
		list[i].len = text.len - list[i].at;
	}
	if (!list || text.error) {
		out->sb->error = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < v->incidents_len; i++)
		list[i].text = text.buf + list[i].at;
	qsort(list, v->incidents_len, sizeof(*list), by_labels);
	for (size_t i = 0; i < ARRAY_SIZE(incident_states); i++) {
		metrics_family(out, &incident_states[i].family);
		write_incidents(out, list, v->incidents_len, incident_states[i].states);
	}
}

/* ---- calls of the driver */

static const struct metrics_family call_seconds = {
	"gpuxray_call_duration_seconds", METRICS_HISTOGRAM, "seconds",
	"How long calls of this driver function took in the traced programs.",
};

/* Upper ends of view_latency's buckets, 2^(10+2i) ns: the canonical form of both formats. */
static const char *const bucket_ends[VIEW_LATENCY_BUCKETS] = {
	"1.024e-06",   "4.096e-06",   "1.6384e-05",  "6.5536e-05",  "0.000262144", "0.001048576",  "0.004194304",
	"0.016777216", "0.067108864", "0.268435456", "1.073741824", "4.294967296", "17.179869184", "+Inf",
};

static void render_latency(const void *thing, struct strbuf *sb)
{
	metrics_label(sb, true, "function", ((const struct view_latency *)thing)->function, METRICS_LABEL_MAX);
}

static void write_part(struct metrics_out *out, const char *suffix, const char *labels, size_t len, const char *le,
		       struct metrics_value v)
{
	metrics_begin(out, suffix);
	strbuf_add(out->sb, labels, len);
	if (le)
		metrics_label(out->sb, false, "le", le, METRICS_LABEL_MAX);
	metrics_end(out, v);
}

/* Its count is the sum of the buckets, as a histogram must have it: the probes' own may have been read a call later. */
static void write_histogram(struct metrics_out *out, const struct view_latency *l, const char *labels, size_t len)
{
	uint64_t count = 0;

	for (size_t i = 0; i < VIEW_LATENCY_BUCKETS; i++) {
		(void)sat_add(&count, l->buckets[i]);
		write_part(out, "_bucket", labels, len, bucket_ends[i], metrics_u64(count));
	}
	write_part(out, "_sum", labels, len, NULL, metrics_nsec(l->sum_ns));
	write_part(out, "_count", labels, len, NULL, metrics_u64(count));
}

void metrics_calls(struct metrics_out *out, const struct view *v)
{
	_cleanup_metrics_list_ struct metrics_list list = {};
	int r = metrics_list_fill(&list, v->latencies, v->latencies_len, sizeof(*v->latencies), render_latency);

	if (r < 0) {
		out->sb->error = r;
		return;
	}
	metrics_family(out, &call_seconds);
	for (size_t i = 0; i < list.len; i++)
		write_histogram(out, list.series[i].thing, list.text.buf + list.series[i].at, list.series[i].len);
}
