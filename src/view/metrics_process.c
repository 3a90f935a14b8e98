/* SPDX-License-Identifier: MIT */
/* Processes: which of them have series, the first gpuxray's series, and ours. */
#include <string.h>

#include "model/saturate.h"
#include "view/metrics_text.h"

#define ARGS_MAX 1024 /* stores refuse labels of 2 KiB, and what is escaped grows */

/* A device of a process once, though the view may have it by several ordinals. */
struct held {
	size_t at, len; /* of its labels in the text of all */
	uint64_t live_bytes, driver_bytes;
	uint32_t sm_percent;
};

struct shown {
	const struct view_process *p;
	size_t args_at, args_len; /* ",args=..." in the text of all; empty without */
	size_t held, held_len;	  /* its devices among all */
};

/* `all` and `covered` have pid and comm of each; shown is as long as `all`, in its order. */
struct shown_list {
	struct metrics_list all, covered;
	struct shown *shown;
	struct held *held;
	struct strbuf text;
};

static const struct metrics_family active = {
	"gpu_process_active", METRICS_GAUGE, NULL, "1 for each process that uses a GPU.",
};
static const struct metrics_family used = {
	"gpu_process_used_memory_bytes", METRICS_GAUGE, "bytes",
	"GPU memory of the process: what the driver reports, or where it does not, what was traced.",
};
static const struct metrics_family sm = {
	"gpu_process_sm_utilization_percent", METRICS_GAUGE, "percent",
	"Share of the time that the process kept the GPU's multiprocessors busy (0-100); absent where the driver does not say.",
};
static const struct metrics_family on_device = {
	"gpuxray_process_device_live_bytes", METRICS_GAUGE, "bytes", "Traced memory of the process on this GPU.",
};
static const struct metrics_family by_class = {
	"gpuxray_process_memory_bytes", METRICS_GAUGE, "bytes",
	"Traced memory by class. On the GPU: device, array, physical, async, graph. Classes but device are absent while empty. "
	"framework (of frameworks' own allocators) is a part of the others, imported belongs to another process.",
};
static const struct metrics_family condition = {
	"gpuxray_process_condition", METRICS_GAUGE, NULL, "1 while the process is in this condition.",
};
static const struct metrics_family info = {
	"gpuxray_process", METRICS_INFO, NULL, "Whose process it is; to be joined by pid. start_time is in clock ticks since boot.",
};
static const struct metrics_family left_out = {
	"gpuxray_processes_left_out", METRICS_GAUGE, NULL, "Processes without series, as others hold more memory.",
};

#define FIELD(...) METRICS_FIELD(view_process, __VA_ARGS__)

static const struct metrics_field fields[] = {
	FIELD("gpuxray_process_start_time_seconds", METRICS_GAUGE, "seconds", FORM_USEC, start_usec,
	      "When the process started, since the epoch."),
	FIELD("gpuxray_process_covered", METRICS_GAUGE, NULL, FORM_BOOL, is_covered,
	      "0 if the process holds memory and none of its calls is seen: nothing of it is counted."),
	FIELD("gpuxray_process_driver_bytes", METRICS_GAUGE, "bytes", FORM_U64, driver_bytes,
	      "Memory on all GPUs as the driver reports it."),
	FIELD("gpuxray_process_incidents_firing", METRICS_GAUGE, NULL, FORM_U32, firing,
	      "Incidents about the process that fire."),
};

/* Of processes whose calls are seen. */
static const struct metrics_field counted_fields[] = {
	FIELD("gpuxray_process_exact", METRICS_GAUGE, NULL, FORM_BOOL, is_exact,
	      "0 if calls of the process may have been missed: its figures are estimates."),
	FIELD("gpuxray_process_live_bytes", METRICS_GAUGE, "bytes", FORM_U64, live_bytes,
	      "Traced memory on all GPUs."),
	FIELD("gpuxray_process_peak_bytes", METRICS_GAUGE, "bytes", FORM_U64, peak_bytes,
	      "The most traced memory that it has held at once."),
	FIELD("gpuxray_process_untracked_bytes", METRICS_GAUGE, "bytes", FORM_U64, untracked_bytes,
	      "What the driver reports beyond the traced memory: contexts, libraries' code, what was allocated before."),
	FIELD("gpuxray_process_baseline_bytes", METRICS_GAUGE, "bytes", FORM_U64, baseline_bytes,
	      "What it had allocated before it was traced; 0 if it was traced from its start."),
	FIELD("gpuxray_process_growth_bytes_per_second", METRICS_GAUGE, "bytes_per_second", FORM_PER_MINUTE,
	      growth_bytes_per_min, "How traced memory grew over the last minute, or since it is seen."),
	FIELD("gpuxray_process_live_blocks", METRICS_GAUGE, NULL, FORM_U64, live_count,
	      "Allocations that are not freed."),
	FIELD("gpuxray_process_call_sites", METRICS_GAUGE, NULL, FORM_U64, sites_count,
	      "Call sites that hold memory."),
	FIELD("gpuxray_process_allocations", METRICS_COUNTER, NULL, FORM_U64, alloc_count, "Allocations."),
	FIELD("gpuxray_process_frees", METRICS_COUNTER, NULL, FORM_U64, free_count, "Allocations that were freed."),
	FIELD("gpuxray_process_unknown_frees", METRICS_COUNTER, NULL, FORM_U64, unknown_free_count,
	      "Frees of what it had allocated before it was traced."),
	FIELD("gpuxray_process_allocation_failures", METRICS_COUNTER, NULL, FORM_U64, fail_count,
	      "Allocations that the driver refused."),
	FIELD("gpuxray_process_allocated_bytes", METRICS_COUNTER, "bytes", FORM_U64, allocated_bytes,
	      "GPU memory that was ever allocated."),
	FIELD("gpuxray_process_lost_events", METRICS_COUNTER, NULL, FORM_U64, lost_events,
	      "Events of the process that were lost."),
};

static const struct {
	const char *name;
	size_t offset;
} classes[] = {
	{ "device", offsetof(struct view_process, device_bytes) },
	{ "host", offsetof(struct view_process, host_bytes) },
	{ "managed", offsetof(struct view_process, managed_bytes) },
	{ "array", offsetof(struct view_process, array_bytes) },
	{ "physical", offsetof(struct view_process, physical_bytes) },
	{ "async", offsetof(struct view_process, async_bytes) },
	{ "graph", offsetof(struct view_process, graph_bytes) },
	{ "framework", offsetof(struct view_process, framework_bytes) },
	{ "imported", offsetof(struct view_process, imported_bytes) },
};

static const struct {
	const char *label;
	size_t offset;
} identity[] = {
	{ "exe", offsetof(struct view_process, exe) },
	{ "user", offsetof(struct view_process, user) },
	{ "unit", offsetof(struct view_process, unit) },
	{ "parent", offsetof(struct view_process, parent) },
	{ "slurm_job", offsetof(struct view_process, slurm_job) },
	{ "tag", offsetof(struct view_process, tag) },
	{ "runtime", offsetof(struct view_process, runtime) },
	{ "container_id", offsetof(struct view_process, container) },
	{ "container_name", offsetof(struct view_process, container_name) },
	{ "pod_uid", offsetof(struct view_process, pod) },
	{ "pod_name", offsetof(struct view_process, pod_name) },
	{ "pod_namespace", offsetof(struct view_process, pod_namespace) },
	{ "uncovered_reason", offsetof(struct view_process, uncovered_reason) },
};

static uint64_t held_bytes(const struct view_process *p)
{
	return p->driver_bytes != VIEW_NONE ? p->driver_bytes : p->live_bytes;
}

/* The newest of a pid first. */
static int by_pid(const void *a, const void *b)
{
	const struct view_process *x = *(const struct view_process *const *)a, *y = *(const struct view_process *const *)b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->start_ticks < y->start_ticks) - (x->start_ticks > y->start_ticks);
}

static int by_held_bytes(const void *a, const void *b)
{
	const struct view_process *x = *(const struct view_process *const *)a, *y = *(const struct view_process *const *)b;
	const uint64_t m = held_bytes(x), n = held_bytes(y);

	return m != n ? (m < n ? 1 : -1) : by_pid(a, b);
}

/* Those that have series, by pid; how many in *ret_len, and how many others there are. NULL when out of memory. */
static const struct view_process **choose(const struct view *v, size_t max, size_t *ret_len, uint64_t *ret_left_out)
{
	const struct view_process **list = calloc(v->processes_len ?: 1, sizeof(*list));
	size_t len = 0, kept = 0;

	if (!list)
		return NULL;
	for (size_t i = 0; i < v->processes_len; i++)
		if (!v->processes[i].is_ended)
			list[len++] = &v->processes[i];
	qsort(list, len, sizeof(*list), by_pid);
	for (size_t i = 0; i < len; i++)
		if (i == 0 || list[i]->pid != list[i - 1]->pid)
			list[kept++] = list[i];
	*ret_len = MIN(kept, max);
	*ret_left_out = kept - *ret_len;
	if (kept > max) {
		qsort(list, kept, sizeof(*list), by_held_bytes);
		qsort(list, max, sizeof(*list), by_pid);
	}
	return list;
}

static void add_device(struct shown_list *l, struct shown *s, const struct view_process_device *d)
{
	const size_t at = l->text.len;
	struct held *h;
	size_t len;

	metrics_label_gpu(&l->text, false, d->uuid, d->index);
	len = l->text.len - at;
	for (size_t i = 0; i < s->held_len; i++) {
		h = &l->held[s->held + i];
		if (h->len != len || memcmp(l->text.buf + h->at, l->text.buf + at, len) != 0)
			continue;
		/* Counted by ordinal, but the driver's figures are those of the device: said again. */
		strbuf_truncate(&l->text, at);
		(void)sat_add(&h->live_bytes, d->live_bytes);
		h->driver_bytes = h->driver_bytes == VIEW_NONE ? d->driver_bytes : h->driver_bytes;
		h->sm_percent = h->sm_percent == VIEW_NONE_32 ? d->sm_percent : h->sm_percent;
		return;
	}
	l->held[s->held + s->held_len++] = (struct held){
		.at = at, .len = len, .live_bytes = d->live_bytes, .driver_bytes = d->driver_bytes, .sm_percent = d->sm_percent,
	};
}

static void shown_list_done(struct shown_list *l)
{
	metrics_list_done(&l->all);
	/* It has the text of `all`. */
	free(l->covered.series);
	free(l->shown);
	free(l->held);
	strbuf_done(&l->text);
}

static int shown_list_alloc(struct shown_list *l, const struct view_process **list, size_t len)
{
	size_t devices = 0;

	for (size_t i = 0; i < len; i++)
		devices += list[i]->devices_len;
	l->all.series = calloc(len + 1, sizeof(*l->all.series));
	l->covered.series = calloc(len + 1, sizeof(*l->covered.series));
	l->shown = calloc(len + 1, sizeof(*l->shown));
	l->held = calloc(devices + 1, sizeof(*l->held));
	return l->all.series && l->covered.series && l->shown && l->held ? 0 : -ENOMEM;
}

static void add_process(struct shown_list *l, const struct view_process *p, size_t held, bool has_args)
{
	struct metrics_series series = { .thing = p, .at = l->all.text.len };
	struct shown *s = &l->shown[l->all.len];

	metrics_label_u64(&l->all.text, true, "pid", p->pid);
	metrics_label(&l->all.text, false, "comm", p->comm, METRICS_LABEL_MAX);
	series.len = l->all.text.len - series.at;
	l->all.series[l->all.len++] = series;
	if (p->is_covered)
		l->covered.series[l->covered.len++] = series;
	*s = (struct shown){ .p = p, .args_at = l->text.len, .held = held };
	if (has_args)
		metrics_label(&l->text, false, "args", p->cmdline, ARGS_MAX);
	s->args_len = l->text.len - s->args_at;
	for (size_t i = 0; i < p->devices_len; i++)
		add_device(l, s, &p->devices[i]);
}

static int shown_list_fill(struct shown_list *l, const struct view_process **list, size_t len, bool has_args)
{
	size_t held = 0;
	int r = shown_list_alloc(l, list, len);

	if (r < 0)
		return r;
	for (size_t i = 0; i < len; i++) {
		add_process(l, list[i], held, has_args);
		held += l->shown[i].held_len;
	}
	/* Both lists have one text. */
	l->covered.text = l->all.text;
	return l->all.text.error ?: l->text.error;
}

enum of_held {
	HELD_ACTIVE,
	HELD_USED,
	HELD_SM,
	HELD_LIVE,
};

static bool held_value(const struct view_process *p, const struct held *h, enum of_held what, uint64_t *ret)
{
	switch (what) {
	case HELD_ACTIVE:
		*ret = 1;
		return true;
	case HELD_USED:
		*ret = h->driver_bytes != VIEW_NONE ? h->driver_bytes : h->live_bytes;
		return h->driver_bytes != VIEW_NONE || p->is_covered;
	case HELD_SM:
		*ret = h->sm_percent;
		return h->sm_percent != VIEW_NONE_32;
	case HELD_LIVE:
		break;
	}
	*ret = h->live_bytes;
	return p->is_covered;
}

static void write_held(struct metrics_out *out, const struct shown_list *l, const struct metrics_family *f, enum of_held what)
{
	metrics_family(out, f);
	for (size_t i = 0; i < l->all.len; i++) {
		const struct shown *s = &l->shown[i];

		for (size_t k = 0; k < s->held_len; k++) {
			const struct held *h = &l->held[s->held + k];
			uint64_t n;

			if (!held_value(s->p, h, what, &n))
				continue;
			metrics_begin(out, "");
			strbuf_add(out->sb, l->all.text.buf + l->all.series[i].at, l->all.series[i].len);
			/* The first gpuxray has no args on what it did not have itself. */
			if (what != HELD_LIVE && s->args_len > 0)
				strbuf_add(out->sb, l->text.buf + s->args_at, s->args_len);
			strbuf_add(out->sb, l->text.buf + h->at, h->len);
			metrics_end(out, metrics_u64(n));
		}
	}
}

static void write_classes(struct metrics_out *out, const struct shown_list *l)
{
	metrics_family(out, &by_class);
	for (size_t i = 0; i < l->covered.len; i++) {
		const struct metrics_series *s = &l->covered.series[i];

		for (size_t c = 0; c < ARRAY_SIZE(classes); c++) {
			uint64_t n = *(const uint64_t *)((const char *)s->thing + classes[c].offset);

			if (c > 0 && n == 0)
				continue;
			metrics_begin(out, "");
			strbuf_add(out->sb, l->all.text.buf + s->at, s->len);
			metrics_label(out->sb, false, "class", classes[c].name, METRICS_LABEL_MAX);
			metrics_end(out, metrics_u64(n));
		}
	}
}

/* A word of the list "a,b" for the first time there. */
static bool is_first_word(const char *list, const char *word, size_t len)
{
	for (const char *w = list; w < word; w += strcspn(w, ",") + 1)
		if (strcspn(w, ",") == len && memcmp(w, word, len) == 0)
			return false;
	return true;
}

static void write_conditions(struct metrics_out *out, const struct shown_list *l)
{
	metrics_family(out, &condition);
	for (size_t i = 0; i < l->all.len; i++) {
		const struct metrics_series *s = &l->all.series[i];
		const char *list = ((const struct view_process *)s->thing)->conditions ?: "";
		char word[32];

		for (const char *w = list; *w; w += *w == ',') {
			const char *begin = w;
			const size_t len = strcspn(w, ",");

			w += len;
			if (len == 0 || len >= sizeof(word) || !is_first_word(list, begin, len))
				continue;
			memcpy(word, begin, len);
			word[len] = '\0';
			metrics_begin(out, "");
			strbuf_add(out->sb, l->all.text.buf + s->at, s->len);
			metrics_label(out->sb, false, "condition", word, METRICS_LABEL_MAX);
			metrics_end(out, metrics_u64(1));
		}
	}
}

static void write_info(struct metrics_out *out, const struct shown_list *l)
{
	metrics_family(out, &info);
	for (size_t i = 0; i < l->all.len; i++) {
		const struct metrics_series *s = &l->all.series[i];
		const struct view_process *p = s->thing;

		metrics_begin(out, "");
		strbuf_add(out->sb, l->all.text.buf + s->at, s->len);
		metrics_label_u64(out->sb, false, "start_time", p->start_ticks);
		for (size_t k = 0; k < ARRAY_SIZE(identity); k++) {
			const char *value = *(char *const *)((const char *)p + identity[k].offset);

			/* An empty label is none. */
			if (value && value[0])
				metrics_label(out->sb, false, identity[k].label, value, METRICS_LABEL_MAX);
		}
		metrics_end(out, metrics_u64(1));
	}
}

void metrics_processes(struct metrics_out *out, const struct view *v, const struct metrics_options *o)
{
	_cleanup_(shown_list_done) struct shown_list l = {};
	_cleanup_free_ const struct view_process **list = NULL;
	uint64_t others;
	size_t len;

	list = choose(v, o->processes_max, &len, &others);
	if (!list || shown_list_fill(&l, list, len, o->has_args) < 0) {
		out->sb->error = -ENOMEM;
		return;
	}
	write_held(out, &l, &active, HELD_ACTIVE);
	write_held(out, &l, &used, HELD_USED);
	write_held(out, &l, &sm, HELD_SM);
	write_info(out, &l);
	metrics_fields(out, &l.all, fields, ARRAY_SIZE(fields));
	metrics_fields(out, &l.covered, counted_fields, ARRAY_SIZE(counted_fields));
	write_held(out, &l, &on_device, HELD_LIVE);
	write_classes(out, &l);
	write_conditions(out, &l);
	metrics_family(out, &left_out);
	metrics_sample(out, NULL, 0, metrics_u64(others));
}
