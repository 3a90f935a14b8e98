/* SPDX-License-Identifier: MIT */
#include "view/view_fields.h"

#include <string.h>

#define F(type, member, kind) { #member, kind, offsetof(struct type, member) }
#define NAMED(key, type, member, kind) { key, kind, offsetof(struct type, member) }
#define KIND(id, text, type)                                                                                           \
	const struct view_kind view_kind_##id = { .name = text, .fields = id##_fields, .size = sizeof(struct type) }

static const struct view_field totals_fields[] = {
	F(view_totals, version, VIEW_STR),
	F(view_totals, host, VIEW_STR),
	F(view_totals, driver_status, VIEW_STR),
	F(view_totals, real_usec, VIEW_U64),
	F(view_totals, start_usec, VIEW_U64),
	F(view_totals, traced_usec, VIEW_U64),
	F(view_totals, uptime_ns, VIEW_U64),
	NAMED("exact", view_totals, is_exact, VIEW_BOOL),
	NAMED("daemon", view_totals, is_daemon, VIEW_BOOL),
	F(view_totals, events, VIEW_U64),
	F(view_totals, lost_events, VIEW_U64),
	F(view_totals, alloc_count, VIEW_U64),
	F(view_totals, free_count, VIEW_U64),
	F(view_totals, fail_count, VIEW_U64),
	F(view_totals, processes, VIEW_U64),
	F(view_totals, uncovered, VIEW_U64),
	F(view_totals, rules, VIEW_U64),
	F(view_totals, pending, VIEW_U64),
	F(view_totals, firing, VIEW_U64),
	F(view_totals, records_written, VIEW_U64),
	F(view_totals, records_dropped, VIEW_U64),
	F(view_totals, records_failed, VIEW_U64),
	F(view_totals, records_suppressed, VIEW_U64),
	F(view_totals, libraries, VIEW_U64),
	F(view_totals, cpu_ns, VIEW_U64),
	F(view_totals, resident_bytes, VIEW_U64),
	F(view_totals, kernel_bytes_max, VIEW_U64),
	F(view_totals, fds, VIEW_U64),
	F(view_totals, ended_left_out, VIEW_U64),
	{ 0 },
};
KIND(totals, "totals", view_totals);

static const struct view_field device_fields[] = {
	F(view_device, uuid, VIEW_STR),
	F(view_device, name, VIEW_STR),
	F(view_device, driver, VIEW_STR),
	F(view_device, index, VIEW_INT),
	F(view_device, total_bytes, VIEW_KNOWN),
	F(view_device, used_bytes, VIEW_KNOWN),
	F(view_device, live_bytes, VIEW_U64),
	F(view_device, busy_percent, VIEW_KNOWN32),
	F(view_device, memory_busy_percent, VIEW_KNOWN32),
	F(view_device, celsius, VIEW_KNOWN32),
	F(view_device, milliwatts, VIEW_KNOWN32),
	F(view_device, milliwatts_max, VIEW_KNOWN32),
	{ 0 },
};
KIND(device, "device", view_device);

static const struct view_field process_fields[] = {
	F(view_process, pid, VIEW_U32),
	F(view_process, ppid, VIEW_KNOWN32),
	NAMED("start_time", view_process, start_ticks, VIEW_U64),
	F(view_process, start_usec, VIEW_KNOWN),
	F(view_process, comm, VIEW_STR),
	F(view_process, exe, VIEW_STR),
	F(view_process, cmdline, VIEW_STR),
	F(view_process, user, VIEW_STR),
	F(view_process, unit, VIEW_STR),
	F(view_process, container, VIEW_STR),
	F(view_process, runtime, VIEW_STR),
	F(view_process, pod, VIEW_STR),
	F(view_process, pod_name, VIEW_STR),
	F(view_process, pod_namespace, VIEW_STR),
	F(view_process, container_name, VIEW_STR),
	F(view_process, slurm_job, VIEW_STR),
	F(view_process, tag, VIEW_STR),
	F(view_process, parent, VIEW_STR),
	NAMED("covered", view_process, is_covered, VIEW_BOOL),
	NAMED("exact", view_process, is_exact, VIEW_BOOL),
	NAMED("older", view_process, is_older, VIEW_BOOL),
	NAMED("ended", view_process, is_ended, VIEW_BOOL),
	F(view_process, uncovered_reason, VIEW_STR),
	F(view_process, conditions, VIEW_STR),
	F(view_process, live_bytes, VIEW_U64),
	F(view_process, device_bytes, VIEW_U64),
	F(view_process, host_bytes, VIEW_U64),
	F(view_process, managed_bytes, VIEW_U64),
	F(view_process, array_bytes, VIEW_U64),
	F(view_process, physical_bytes, VIEW_U64),
	F(view_process, async_bytes, VIEW_U64),
	F(view_process, graph_bytes, VIEW_U64),
	F(view_process, imported_bytes, VIEW_U64),
	F(view_process, framework_bytes, VIEW_U64),
	F(view_process, peak_bytes, VIEW_U64),
	F(view_process, driver_bytes, VIEW_KNOWN),
	F(view_process, baseline_bytes, VIEW_KNOWN),
	F(view_process, untracked_bytes, VIEW_KNOWN),
	F(view_process, live_count, VIEW_U64),
	F(view_process, alloc_count, VIEW_U64),
	F(view_process, free_count, VIEW_U64),
	F(view_process, fail_count, VIEW_U64),
	F(view_process, unknown_free_count, VIEW_U64),
	F(view_process, allocated_bytes, VIEW_U64),
	F(view_process, lost_events, VIEW_U64),
	F(view_process, growth_bytes_per_min, VIEW_INT),
	F(view_process, allocs_per_min, VIEW_KNOWN),
	F(view_process, firing, VIEW_U32),
	F(view_process, recent, VIEW_STR),
	F(view_process, sites_count, VIEW_U64),
	{ 0 },
};
KIND(process, "process", view_process);

static const struct view_field process_device_fields[] = {
	F(view_process_device, uuid, VIEW_STR),
	F(view_process_device, index, VIEW_INT),
	F(view_process_device, ordinal, VIEW_INT),
	F(view_process_device, live_bytes, VIEW_U64),
	F(view_process_device, driver_bytes, VIEW_KNOWN),
	F(view_process_device, sm_percent, VIEW_KNOWN32),
	{ 0 },
};
KIND(process_device, "on", view_process_device);

static const struct view_field site_fields[] = {
	F(view_site, stack_id, VIEW_HEX),
	F(view_site, function, VIEW_STR),
	NAMED("class", view_site, class_name, VIEW_STR),
	F(view_site, stack, VIEW_STR),
	F(view_site, stack_info, VIEW_STR),
	F(view_site, bytes, VIEW_U64),
	F(view_site, blocks, VIEW_U64),
	F(view_site, alloc_count, VIEW_U64),
	F(view_site, framework_bytes, VIEW_U64),
	F(view_site, age_ns, VIEW_U64),
	F(view_site, idle_ns, VIEW_U64),
	NAMED("other", view_site, is_other, VIEW_BOOL),
	{ 0 },
};
KIND(site, "site", view_site);

static const struct view_field incident_fields[] = {
	F(view_incident, rule, VIEW_STR),
	F(view_incident, kind, VIEW_STR),
	F(view_incident, severity, VIEW_STR),
	F(view_incident, state, VIEW_STR),
	F(view_incident, scope, VIEW_STR),
	F(view_incident, key, VIEW_STR),
	F(view_incident, pid, VIEW_KNOWN32),
	F(view_incident, value, VIEW_U64),
	F(view_incident, limit, VIEW_U64),
	F(view_incident, value_unit, VIEW_STR),
	F(view_incident, age_ns, VIEW_U64),
	{ 0 },
};
KIND(incident, "incident", view_incident);

static const struct view_field limit_fields[] = {
	F(view_limit, name, VIEW_STR),
	F(view_limit, used, VIEW_U64),
	F(view_limit, max, VIEW_U64),
	F(view_limit, overflows, VIEW_U64),
	{ 0 },
};
KIND(limit, "limit", view_limit);

static const struct view_field counter_fields[] = {
	F(view_counter, name, VIEW_STR),
	F(view_counter, value, VIEW_U64),
	{ 0 },
};
KIND(counter, "counter", view_counter);

static const struct view_field latency_fields[] = {
	F(view_latency, function, VIEW_STR),
	F(view_latency, buckets, VIEW_BUCKETS),
	F(view_latency, count, VIEW_U64),
	F(view_latency, sum_ns, VIEW_U64),
	{ 0 },
};
KIND(latency, "latency", view_latency);

void view_item_init(const struct view_kind *k, void *item)
{
	memset(item, 0, k->size);
	for (const struct view_field *f = k->fields; f->key; f++) {
		void *at = (char *)item + f->offset;

		if (f->type == VIEW_KNOWN)
			*(uint64_t *)at = VIEW_NONE;
		else if (f->type == VIEW_KNOWN32)
			*(uint32_t *)at = VIEW_NONE_32;
		else if (f->type == VIEW_INT)
			*(int64_t *)at = VIEW_NONE_INT;
	}
}

void view_item_done(const struct view_kind *k, void *item)
{
	for (const struct view_field *f = k->fields; f->key; f++)
		if (f->type == VIEW_STR)
			freep((char *)item + f->offset);
}
