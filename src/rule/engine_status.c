/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "model/saturate.h"
#include "rule/engine_private.h"
#include "rule/rule_names.h"

static const char *unit_of(const struct identity *id)
{
	return !id ? NULL : id->unit ? id->unit : id->user_unit;
}

/* What may be shown of a text that a process or who started it chose; NULL where there is none. The caller frees it. */
static char *shown(const struct engine *e, const char *s)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	char *ret = NULL;

	if (!s)
		return NULL;
	if (e->ops.clean)
		e->ops.clean(s, &sb, e->userdata);
	else
		strbuf_adds(&sb, s);
	(void)strbuf_steal(&sb, &ret);
	return ret;
}

static void json_foreign(const struct engine *e, struct strbuf *sb, const char *key, const char *value)
{
	_cleanup_free_ char *s = shown(e, value);

	json_str(sb, key, s);
}

static void json_index(struct strbuf *sb, int index)
{
	json_known(sb, "index", index < 0 ? UINT64_MAX : (uint64_t)index);
}

static void json_optional(const struct engine *e, struct strbuf *sb, const char *key, const char *value)
{
	if (value)
		json_foreign(e, sb, key, value);
}

static void json_identity(const struct engine *e, struct strbuf *sb, const struct process *p)
{
	const struct identity *id = p->id;

	json_u64(sb, "pid", p->pid);
	json_u64(sb, "start_time", id ? id->start_ticks : p->start_ns / (NSEC_PER_SEC / TICKS_PER_SEC));
	json_foreign(e, sb, "comm", id ? id->comm : NULL);
	json_foreign(e, sb, "exe", id ? id->exe : NULL);
	json_foreign(e, sb, "user", id ? id->user : NULL);
	json_foreign(e, sb, "unit", unit_of(id));
	if (!id)
		return;
	if (id->ppid)
		json_u64(sb, "ppid", id->ppid);
	json_optional(e, sb, "parent", id->parent);
	json_optional(e, sb, "slice", id->slice);
	json_optional(e, sb, "slurm_job", id->slurm_job);
	json_optional(e, sb, "pod", id->pod);
	json_optional(e, sb, "pod_name", id->pod_name);
	json_optional(e, sb, "pod_namespace", id->pod_namespace);
	json_optional(e, sb, "container_name", id->container_name);
	json_optional(e, sb, "container", id->container);
	json_optional(e, sb, "runtime", id->runtime);
	if (id->inner_pid && id->inner_pid != p->pid)
		json_u64(sb, "inner_pid", id->inner_pid);
}

static void json_driver(struct strbuf *sb, const struct process *p)
{
	bool is_condition = false;

	json_known(sb, "driver_bytes", p->driver_bytes);
	json_known(sb, "untracked_bytes", process_untracked_bytes(p));
	json_known(sb, "baseline_bytes", p->baseline_bytes);
	json_key(sb, "conditions");
	strbuf_addc(sb, '[');
	for (int i = 0; rule_condition_names[i]; i++) {
		if (!(p->condition & (1u << i)))
			continue;
		strbuf_addf(sb, "%s\"%s\"", is_condition ? "," : "", rule_condition_names[i]);
		is_condition = true;
	}
	strbuf_addc(sb, ']');
}

static void json_process_device(struct strbuf *sb, const struct process *p, size_t first)
{
	struct process_on_device on;

	if (!process_on_device(p, first, &on))
		return;
	json_open(sb);
	json_known(sb, "ordinal", on.ordinal < 0 ? UINT64_MAX : (uint64_t)on.ordinal);
	json_str(sb, "uuid", on.device ? on.device->uuid : NULL);
	json_index(sb, on.device ? on.device->index : -1);
	json_u64(sb, "live_bytes", on.live_bytes);
	json_known(sb, "driver_bytes", on.driver_bytes);
	strbuf_addc(sb, '}');
}

static void json_process(const struct engine *e, struct strbuf *sb, const struct process *p)
{
	json_open(sb);
	json_identity(e, sb, p);
	json_bool(sb, "covered", p->is_covered);
	if (!p->is_covered)
		json_str(sb, "uncovered_reason", p->uncovered_reason);
	json_bool(sb, "exact", p->exact);
	json_u64(sb, "live_bytes", p->live_bytes);
	json_u64(sb, "host_bytes", p->live[CLASS_HOST]);
	json_u64(sb, "managed_bytes", p->live[CLASS_MANAGED]);
	json_u64(sb, "array_bytes", p->live[CLASS_ARRAY]);
	json_u64(sb, "physical_bytes", p->live[CLASS_PHYSICAL]);
	json_u64(sb, "async_bytes", p->live[CLASS_ASYNC]);
	json_u64(sb, "graph_bytes", p->live[CLASS_GRAPH]);
	json_u64(sb, "imported_bytes", p->live[CLASS_IMPORTED]);
	json_u64(sb, "framework_bytes", p->live[CLASS_FRAMEWORK]);
	json_u64(sb, "peak_bytes", p->peak_bytes);
	json_u64(sb, "live_count", p->live_count);
	json_u64(sb, "alloc_count", p->alloc_count);
	json_u64(sb, "free_count", p->free_count);
	json_u64(sb, "fail_count", p->fail_count);
	json_u64(sb, "unknown_free_count", p->unknown_free_count);
	json_u64(sb, "lost_events", p->lost_events);
	if (p->untracked_count) { /* no room for them in the kernel's table: in none of the figures above */
		json_u64(sb, "left_out_count", p->untracked_count);
		json_u64(sb, "left_out_bytes", p->untracked_bytes);
	}
	json_driver(sb, p);
	json_key(sb, "devices");
	strbuf_addc(sb, '[');
	for (size_t i = 0; i < p->devices_len; i++)
		json_process_device(sb, p, i);
	strbuf_adds(sb, "]}");
}

static void json_device(struct strbuf *sb, const struct device *dev)
{
	json_open(sb);
	json_str(sb, "uuid", dev->uuid);
	json_index(sb, dev->index);
	json_str(sb, "name", dev->name);
	json_known(sb, "total_bytes", dev->total_bytes);
	json_known(sb, "used_bytes", dev->used_bytes);
	json_u64(sb, "live_bytes", sat_sum(dev->live, CLASS_DEVICE_MASK));
	strbuf_addc(sb, '}');
}

/* To whoever listens one that may be over soon fires as before. */
static const char *json_state(const struct incident *inc)
{
	return inc->state == INCIDENT_PENDING ? "pending" : inc->is_inhibited ? "inhibited" : "firing";
}

static void json_inhibited(struct strbuf *sb, const struct rule_state *rs)
{
	if (rs->inhibited)
		json_u64(sb, "inhibited_count", rs->inhibited);
}

static void json_rule(const struct engine *e, struct strbuf *sb, const struct rule_state *rs)
{
	if (!rs->incidents) {
		json_open(sb);
		json_str(sb, "name", rs->rule->name);
		json_str(sb, "state", "inactive");
		json_str(sb, "pid", NULL);
		json_str(sb, "value", NULL);
		json_str(sb, "limit", NULL);
		json_inhibited(sb, rs);
		strbuf_addc(sb, '}');
	}
	for (const struct incident *inc = rs->incidents; inc; inc = inc->next) {
		json_open(sb);
		json_str(sb, "name", rs->rule->name);
		json_str(sb, "state", json_state(inc));
		json_known(sb, "pid", inc->subject.p ? inc->subject.p->pid : UINT64_MAX);
		json_str(sb, "scope", rule_scope_name(rs->rule->scope));
		json_foreign(e, sb, "key", inc->subject.g ? inc->subject.g->key : NULL);
		json_u64(sb, "value", inc->last.value);
		json_u64(sb, "limit", inc->last.limit);
		json_str(sb, "severity", severity_name(incident_severity(inc)));
		json_inhibited(sb, rs);
		strbuf_addc(sb, '}');
	}
}

void engine_each_limit(struct engine *e, limit_fn fn, void *userdata)
{
	uint64_t sites = 0, stacks = 0;
	struct engine_totals t;

	/* Of limits that are per process, the process nearest to it counts. */
	for (size_t i = 0; i < e->processes.len; i++) {
		sites = MAX(sites, (uint64_t)e->processes.list[i]->sites_len);
		stacks = MAX(stacks, (uint64_t)e->processes.list[i]->stacks.len);
	}
	engine_totals(e, &t);
	fn("processes", t.processes, e->limits.processes, t.overflow_processes, userdata);
	fn("sites_per_process", sites, e->limits.sites_per_process, t.overflow_sites, userdata);
	fn("stacks_per_process", stacks, e->limits.stacks_per_process, t.overflow_stacks, userdata);
	fn("incidents", e->incidents, e->limits.incidents, t.overflow_incidents, userdata);
	fn("bounds", e->bounds.len, LEAK_BOUNDS_MAX, e->bounds_evicted, userdata);
}

void engine_status_json(struct engine *e, struct strbuf *sb, uint64_t now_ns)
{
	json_key(sb, "processes");
	strbuf_addc(sb, '[');
	for (size_t i = 0; i < e->processes.len; i++)
		json_process(e, sb, e->processes.list[i]);
	strbuf_addc(sb, ']');
	json_key(sb, "devices");
	strbuf_addc(sb, '[');
	for (size_t i = 0; i < e->devices.len; i++)
		json_device(sb, e->devices.list[i]);
	strbuf_addc(sb, ']');
	json_key(sb, "rules");
	strbuf_addc(sb, '[');
	for (size_t i = 0; i < e->states_len; i++)
		json_rule(e, sb, e->states[i]);
	strbuf_addc(sb, ']');
	json_key(sb, "limits");
	strbuf_addc(sb, '[');
	engine_each_limit(e, json_limit, sb);
	strbuf_addc(sb, ']');
}

enum { COLUMNS = 14 };

static const char *const column_names[COLUMNS] = { "PID", "USER", "UNIT", "GPU", "LIVE", "DRIVER", "MORE",
						   "PEAK", "HOST", "MANAGED", "ALLOCS", "FREES", "FAILS", "COMM" };

/* Numbers stand at the right. */
static bool is_right(size_t column)
{
	return column == 0 || (column >= 4 && column <= 12);
}

/* Cells of the table one after the other, each with its end: widths are known once all are there. */
struct table {
	const struct engine *e;
	struct strbuf text;
	size_t *ends;
	size_t len, cap;
};

static void table_done(struct table *t)
{
	strbuf_done(&t->text);
	free(t->ends);
}

static void table_cell_end(struct table *t)
{
	if (t->len >= t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 256;
		size_t *ends = realloc(t->ends, cap * sizeof(*ends));

		if (!ends) {
			t->text.error = -ENOMEM;
			return;
		}
		t->ends = ends;
		t->cap = cap;
	}
	t->ends[t->len++] = t->text.len;
}

static void text_foreign(const struct engine *e, struct strbuf *sb, const char *value, size_t max)
{
	_cleanup_free_ char *s = shown(e, value);

	if (s)
		text_escape(sb, s, strlen(s), max);
	else
		sb->error = -ENOMEM;
}

static void cell_text(struct table *t, const char *s)
{
	if (s && *s)
		text_foreign(t->e, &t->text, s, 48);
	else
		strbuf_addc(&t->text, '-');
	table_cell_end(t);
}

static void cell_u64(struct table *t, uint64_t n)
{
	strbuf_addf(&t->text, "%" PRIu64, n);
	table_cell_end(t);
}

static void cell_bytes(struct table *t, uint64_t bytes)
{
	char buf[FORMAT_UNITS_MAX];

	strbuf_adds(&t->text, format_bytes(buf, bytes));
	table_cell_end(t);
}

static void cell_known(struct table *t, uint64_t bytes)
{
	if (bytes == UINT64_MAX)
		cell_text(t, NULL);
	else
		cell_bytes(t, bytes);
}

/* Indexes of the driver where known; else the process's own ordinals, marked as such. */
static void cell_devices(struct table *t, const struct process *p)
{
	size_t start = t->text.len;

	for (size_t i = 0; i < p->devices_len; i++) {
		const struct process_device *pd = &p->devices[i];

		bool is_named = pd->driver_bytes > 0 && pd->driver_bytes != UINT64_MAX;

		if ((sat_sum(pd->live, CLASS_DEVICE_MASK) == 0 && !is_named) || (pd->ordinal < 0 && !pd->device))
			continue;
		if (t->text.len > start)
			strbuf_addc(&t->text, ',');
		if (pd->device && pd->device->index >= 0)
			strbuf_addf(&t->text, "%d", pd->device->index);
		else if (pd->ordinal < 0)
			strbuf_addc(&t->text, '?');
		else
			strbuf_addf(&t->text, "#%d", pd->ordinal);
	}
	if (t->text.len == start)
		strbuf_addc(&t->text, '-');
	table_cell_end(t);
}

static void table_add_process(struct table *t, const struct process *p)
{
	cell_u64(t, p->pid);
	cell_text(t, p->id ? p->id->user : NULL);
	cell_text(t, unit_of(p->id));
	cell_devices(t, p);
	/* Of one that shows no call nothing is counted. */
	cell_known(t, p->is_covered ? p->live_bytes : UINT64_MAX);
	cell_known(t, p->driver_bytes);
	cell_known(t, process_untracked_bytes(p));
	cell_bytes(t, p->peak_bytes);
	cell_bytes(t, p->live[CLASS_HOST]);
	cell_bytes(t, p->live[CLASS_MANAGED]);
	cell_u64(t, p->alloc_count);
	cell_u64(t, p->free_count);
	cell_u64(t, p->fail_count);
	cell_text(t, p->id ? p->id->comm : NULL);
}

static void table_print(const struct table *t, struct strbuf *sb)
{
	size_t width[COLUMNS] = { 0 };

	for (size_t i = 0; i < t->len; i++)
		width[i % COLUMNS] = MAX(width[i % COLUMNS], t->ends[i] - (i ? t->ends[i - 1] : 0));
	for (size_t i = 0; i < t->len; i++) {
		size_t start = i ? t->ends[i - 1] : 0, len = t->ends[i] - start, c = i % COLUMNS;
		int pad = (int)(width[c] - len);

		if (c == COLUMNS - 1)
			pad = 0;
		if (is_right(c))
			strbuf_addf(sb, "%*s", pad, "");
		strbuf_add(sb, t->text.buf + start, len);
		if (!is_right(c))
			strbuf_addf(sb, "%*s", pad, "");
		strbuf_adds(sb, c == COLUMNS - 1 ? "\n" : "  ");
	}
}

static void text_quantity(struct strbuf *sb, uint64_t n, enum value_unit unit)
{
	char buf[FORMAT_UNITS_MAX];

	if (unit == VALUE_BYTES || unit == VALUE_BYTES_PER_SEC)
		strbuf_adds(sb, format_bytes(buf, n));
	else
		strbuf_addf(sb, "%" PRIu64, n);
	if (unit == VALUE_BYTES_PER_SEC || unit == VALUE_CALLS_PER_SEC)
		strbuf_adds(sb, "/s");
}

static void text_incident(const struct engine *e, struct strbuf *sb, const struct incident *inc, uint64_t now_ns)
{
	const struct process *p = inc->subject.p;
	char buf[FORMAT_UNITS_MAX];

	strbuf_addf(sb, "%-9s ", incident_state_name(inc));
	text_escape(sb, inc->rs->rule->name, strlen(inc->rs->rule->name), 64);
	if (p) {
		strbuf_addf(sb, "  pid %" PRIu32, p->pid);
		if (p->id && p->id->comm) {
			strbuf_addc(sb, ' ');
			text_foreign(e, sb, p->id->comm, 48);
		}
	} else if (inc->subject.g) {
		strbuf_addf(sb, "  %s ", rule_scope_name(inc->rs->rule->scope));
		text_foreign(e, sb, inc->subject.g->key, 128);
	}
	strbuf_adds(sb, "  ");
	text_quantity(sb, inc->last.value, inc->last.unit);
	strbuf_adds(sb, ", limit ");
	text_quantity(sb, inc->last.limit, inc->last.unit);
	strbuf_addf(sb, ", for %s", format_duration(buf, sat_diff(now_ns, inc->since_ns)));
	if (inc->severity > inc->rs->rule->severity)
		strbuf_addf(sb, ", raised to %s", severity_name(inc->severity));
	strbuf_addc(sb, '\n');
}

static void text_uncovered(const struct engine *e, struct strbuf *sb)
{
	bool any = false;

	for (size_t i = 0; i < e->processes.len; i++) {
		const struct process *p = e->processes.list[i];

		if (p->is_covered || !process_holds_memory(p))
			continue;
		strbuf_addf(sb, "%suncovered %" PRIu32 ": %s\n", any ? "" : "\n", p->pid,
			    p->uncovered_reason ? p->uncovered_reason : "no call of it has been seen");
		any = true;
	}
}

static int by_live_bytes(const void *a, const void *b)
{
	const struct process *x = *(struct process *const *)a, *y = *(struct process *const *)b;

	if (x->live_bytes != y->live_bytes)
		return x->live_bytes < y->live_bytes ? 1 : -1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

void engine_status_text(struct engine *e, struct strbuf *sb, uint64_t now_ns)
{
	_cleanup_free_ struct process **list = calloc(e->processes.len + 1, sizeof(*list));
	_cleanup_(table_done) struct table t = { .e = e };
	bool any = false;

	if (!list) {
		sb->error = -ENOMEM;
		return;
	}
	if (e->processes.len > 0)
		memcpy(list, e->processes.list, e->processes.len * sizeof(*list));
	qsort(list, e->processes.len, sizeof(*list), by_live_bytes);
	for (size_t i = 0; i < COLUMNS; i++) {
		strbuf_adds(&t.text, column_names[i]);
		table_cell_end(&t);
	}
	for (size_t i = 0; i < e->processes.len; i++)
		table_add_process(&t, list[i]);
	if (t.text.error) {
		sb->error = t.text.error;
		return;
	}
	table_print(&t, sb);
	text_uncovered(e, sb);
	for (size_t i = 0; i < e->states_len; i++) {
		for (const struct incident *inc = e->states[i]->incidents; inc; inc = inc->next) {
			strbuf_adds(sb, any ? "" : "\n");
			any = true;
			text_incident(e, sb, inc, now_ns);
		}
	}
}
