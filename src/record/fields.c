/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "record/caveat.h"
#include "record/driver_error.h"
#include "record/fields.h"
#include "record/fields_history.h"
#include "record/foreign.h"
#include "record/ids.h"
#include "record/message.h"
#include "record/stack_lines.h"
#include "rule/rule_names.h"

static const char *const message_ids[] = {
	[REPORT_LIVE_BYTES] = MESSAGE_ID_LIVE_BYTES,
	[REPORT_SINGLE_ALLOC] = MESSAGE_ID_SINGLE_ALLOC,
	[REPORT_ALLOC_RATE] = MESSAGE_ID_ALLOC_RATE,
	[REPORT_ALLOC_FAILURE] = MESSAGE_ID_ALLOC_FAILURE,
	[REPORT_LEAK] = MESSAGE_ID_LEAK,
	[REPORT_EXIT] = MESSAGE_ID_EXIT,
	[REPORT_UNTRACKED_GROWTH] = MESSAGE_ID_UNTRACKED_GROWTH,
	[REPORT_ORPHAN] = MESSAGE_ID_ORPHAN,
	[REPORT_COVERAGE] = MESSAGE_ID_COVERAGE,
	[REPORT_SAMPLE] = MESSAGE_ID_SAMPLE,
	[REPORT_PROCESS_EXIT] = MESSAGE_ID_PROCESS_EXIT,
	[REPORT_SITE] = MESSAGE_ID_SITE,
	[REPORT_START] = MESSAGE_ID_START,
	[REPORT_STOP] = MESSAGE_ID_STOP,
	[REPORT_RELOAD] = MESSAGE_ID_RELOAD,
	[REPORT_HEALTH] = MESSAGE_ID_HEALTH,
	[EVENT_SUPPRESSED] = MESSAGE_ID_SUPPRESSED,
};

const char *field_message_id(unsigned event)
{
	return message_ids[event];
}

const char *field_event_name(unsigned event)
{
	return event == EVENT_SUPPRESSED ? "suppressed" : report_event_name((enum report_event)event);
}

#define VALUE(name)                                                                                                    \
	static bool name(const struct field_input *in, const struct field_desc *d, size_t max, struct strbuf *sb)

static bool add_u64(struct strbuf *sb, uint64_t v)
{
	strbuf_addf(sb, "%" PRIu64, v);
	return true;
}

static bool add_str(struct strbuf *sb, const char *s)
{
	if (s)
		strbuf_adds(sb, s);
	return s;
}

static bool add_foreign(const struct field_input *in, const char *s, size_t max, struct strbuf *sb)
{
	if (s)
		foreign_text(sb, in->redact, s, max);
	return s;
}

VALUE(u64)
{
	uint64_t v;

	memcpy(&v, (const char *)in->r + d->offset, sizeof(v));
	return v != ABSENT_U64 && add_u64(sb, v);
}

VALUE(text)
{
	char *s;

	memcpy(&s, (const char *)in->r + d->offset, sizeof(s));
	return add_foreign(in, s, max, sb);
}

VALUE(id_text)
{
	char *s;

	if (!in->r->id)
		return false;
	memcpy(&s, (const char *)in->r->id + d->offset, sizeof(s));
	return add_foreign(in, s, max, sb);
}

VALUE(message)
{
	message_build(in, max, sb);
	return true;
}

VALUE(message_id)
{
	return add_str(sb, field_message_id(in->event));
}

VALUE(priority)
{
	return add_u64(sb, (uint64_t)in->priority);
}

VALUE(identifier)
{
	return add_str(sb, "gpuxray");
}

VALUE(facility)
{
	return add_str(sb, "3"); /* LOG_DAEMON without the shift */
}

VALUE(event)
{
	return add_str(sb, field_event_name(in->event));
}

VALUE(real_usec)
{
	return in->r->real_usec != 0 && add_u64(sb, in->r->real_usec);
}

VALUE(severity)
{
	return add_str(sb, severity_name(in->r->severity));
}

VALUE(state)
{
	return in->r->state != STATE_NONE && add_str(sb, report_state_name(in->r->state));
}

VALUE(firing)
{
	return in->r->state != STATE_NONE && add_u64(sb, in->r->state != STATE_RESOLVED);
}

VALUE(incident)
{
	if (in->r->seq == 0)
		return false;
	for (size_t i = 0; i < sizeof(in->r->incident); i++)
		strbuf_addf(sb, "%02x", in->r->incident[i]);
	return true;
}

VALUE(seq)
{
	return in->r->seq != 0 && add_u64(sb, in->r->seq);
}

VALUE(scope)
{
	return add_str(sb, rule_scope_name(in->r->scope));
}

VALUE(others)
{
	return in->r->others != 0 && add_u64(sb, in->r->others);
}

VALUE(pid)
{
	return in->r->id && in->r->id->pid != 0 && add_u64(sb, in->r->id->pid);
}

VALUE(start_time)
{
	return in->r->id && in->r->id->start_ticks != 0 && add_u64(sb, in->r->id->start_ticks);
}

VALUE(tid)
{
	return in->r->tid != 0 && add_u64(sb, in->r->tid);
}

/* What does not change is told once of a process. */
static bool is_once(const struct field_input *in)
{
	return in->event != (unsigned)REPORT_SAMPLE || in->r->is_first;
}

VALUE(cmdline)
{
	static const char note[] = "[rest cut]";
	const char *s = in->r->id && is_once(in) ? in->r->id->cmdline : NULL;
	_cleanup_strbuf_ struct strbuf clear = STRBUF_INIT;
	bool is_cut;

	if (!s)
		return false;
	is_cut = redact_cmdline(in->redact, s, &clear);
	text_escape(sb, strbuf_str(&clear), clear.len, is_cut ? max - strlen(note) : max);
	if (is_cut)
		strbuf_adds(sb, note);
	if (clear.error)
		sb->error = clear.error;
	return true;
}

VALUE(uid)
{
	return in->r->id && in->r->id->uid != UINT32_MAX && add_u64(sb, in->r->id->uid);
}

/* What the incident is about goes before where its process happens to live. */
static const char *scoped(const struct report *r, enum rule_scope scope, const char *of_process)
{
	return r->scope == scope && r->scope_key ? r->scope_key : of_process;
}

VALUE(user)
{
	return add_foreign(in, scoped(in->r, SCOPE_USER, in->r->id ? in->r->id->user : NULL), max, sb);
}

VALUE(cgroup)
{
	return add_foreign(in, scoped(in->r, SCOPE_CGROUP, in->r->id ? in->r->id->cgroup : NULL), max, sb);
}

VALUE(container)
{
	return add_foreign(in, scoped(in->r, SCOPE_CONTAINER, in->r->id ? in->r->id->container : NULL), max, sb);
}

VALUE(device)
{
	return add_foreign(in, scoped(in->r, SCOPE_DEVICE, in->r->device_uuid), max, sb);
}

static const char *any_unit(const struct identity *id)
{
	if (!id)
		return NULL;
	return id->unit ? id->unit : id->user_unit;
}

VALUE(slice)
{
	const char *s = in->r->id ? in->r->id->slice : NULL;

	if (s)
		foreign_unit(sb, in->redact, s, max);
	return s;
}

VALUE(unit)
{
	const char *s = scoped(in->r, SCOPE_UNIT, any_unit(in->r->id));

	if (s)
		foreign_unit(sb, in->redact, s, max);
	return s;
}

VALUE(device_index)
{
	return in->r->device_index >= 0 && add_u64(sb, (uint64_t)in->r->device_index);
}

VALUE(value_unit)
{
	return (in->r->value != ABSENT_U64 || in->r->limit != ABSENT_U64) &&
	       add_str(sb, value_unit_name(in->r->value_unit));
}

VALUE(untracked)
{
	const struct report *r = in->r;
	/* A sample's figures are of one device. */
	uint64_t tracked = in->event == (unsigned)REPORT_SAMPLE ? r->bytes : r->live_bytes;

	return r->driver_bytes != ABSENT_U64 && tracked != ABSENT_U64 && r->driver_bytes >= tracked &&
	       add_u64(sb, r->driver_bytes - tracked);
}

VALUE(usec)
{
	uint64_t v;

	memcpy(&v, (const char *)in->r + d->offset, sizeof(v));
	return v != 0 && add_u64(sb, v);
}

VALUE(exe)
{
	return is_once(in) && id_text(in, d, max, sb);
}

VALUE(condition)
{
	bool is_first = true;

	for (int i = 0; rule_condition_names[i]; i++) {
		if (!(in->r->condition & (1u << i)))
			continue;
		strbuf_addf(sb, "%s%s", is_first ? "" : ",", rule_condition_names[i]);
		is_first = false;
	}
	return !is_first;
}

VALUE(caveat)
{
	if (in->r->confidence < 0)
		return false;
	caveat_add(in->r, sb);
	return true;
}

VALUE(leak_sites)
{
	caveat_add_sites(in->r, sb);
	return in->r->sites_len > 0;
}

VALUE(confidence)
{
	if (in->r->confidence < 0)
		return false;
	strbuf_addf(sb, "%.2f", report_percent(in->r->confidence) / 100.0);
	return true;
}

VALUE(reason)
{
	return add_str(sb, in->r->reason);
}

VALUE(ppid)
{
	return in->r->id && in->r->id->ppid != 0 && add_u64(sb, in->r->id->ppid);
}

VALUE(inner_pid)
{
	const struct identity *id = in->r->id;

	return id && id->inner_pid != 0 && id->inner_pid != id->pid && add_u64(sb, id->inner_pid);
}

VALUE(function)
{
	return add_foreign(in, in->r->function, max, sb);
}

VALUE(error)
{
	const char *name = driver_error_name(in->r->function, in->r->error);

	if (in->r->error == 0)
		return false;
	strbuf_addf(sb, "%d%s%s", in->r->error, name ? " " : "", name ? name : "");
	return true;
}

static bool add_escaped(const struct field_input *in, const char *s, size_t max, struct strbuf *sb)
{
	if (s)
		foreign_escaped(sb, in->redact, s, max);
	return s;
}

VALUE(stack_id)
{
	return in->st && add_escaped(in, in->st->id, max, sb);
}

VALUE(stack_bytes)
{
	return in->st && in->r->stack_bytes != ABSENT_U64 && add_u64(sb, in->r->stack_bytes);
}

VALUE(stack_info)
{
	return in->st && add_escaped(in, in->st->info, max, sb);
}

VALUE(stack)
{
	if (!in->st || in->st->len == 0)
		return false;
	stack_lines_add(in->st, in->redact, max, SIZE_MAX, sb);
	return true;
}

/* Set when the record is written: then it is known how many others were not. */
VALUE(suppressed)
{
	return in->r->suppressed != 0 && add_u64(sb, in->r->suppressed);
}

VALUE(exact)
{
	return add_u64(sb, in->r->exact);
}

VALUE(duration)
{
	return in->r->duration_ns != ABSENT_U64 && add_u64(sb, in->r->duration_ns / NSEC_PER_SEC);
}

#define INCIDENT                                                                                                       \
	(EVENT_BIT(REPORT_LIVE_BYTES) | EVENT_BIT(REPORT_SINGLE_ALLOC) | EVENT_BIT(REPORT_ALLOC_RATE) |                \
	 EVENT_BIT(REPORT_ALLOC_FAILURE) | EVENT_BIT(REPORT_LEAK) | EVENT_BIT(REPORT_EXIT) |                           \
	 EVENT_BIT(REPORT_UNTRACKED_GROWTH) | EVENT_BIT(REPORT_ORPHAN))
/* What is about a process or group. */
#define SUBJECT (INCIDENT | EVENT_BIT(REPORT_COVERAGE))
#define HISTORY (EVENT_BIT(REPORT_SAMPLE) | EVENT_BIT(REPORT_PROCESS_EXIT))
#define ENDED EVENT_BIT(REPORT_PROCESS_EXIT)
#define SITE EVENT_BIT(REPORT_SITE)
#define DAEMON                                                                                                         \
	(EVENT_BIT(REPORT_START) | EVENT_BIT(REPORT_STOP) | EVENT_BIT(REPORT_RELOAD) | EVENT_BIT(REPORT_HEALTH) |      \
	 EVENT_BIT(EVENT_SUPPRESSED))
#define ALL (SUBJECT | HISTORY | SITE | DAEMON)
#define CALL (EVENT_BIT(REPORT_SINGLE_ALLOC) | EVENT_BIT(REPORT_ALLOC_FAILURE))
#define LEAK EVENT_BIT(REPORT_LEAK)

#define R(member) offsetof(struct report, member)
#define ID(member) offsetof(struct identity, member)

/* The order is that of the record, and of importance where a line must be short: the long texts come last and get what
 * the others leave of RECORD_BYTES_MAX. */
static const struct field_desc table[] = {
	{ "MESSAGE", ALL, message, 0, 2560 },
	{ "MESSAGE_ID", ALL, message_id, 0, 0 },
	{ "PRIORITY", ALL, priority, 0, 0 },
	{ "SYSLOG_IDENTIFIER", ALL, identifier, 0, 0 },
	{ "SYSLOG_FACILITY", ALL, facility, 0, 0 },
	{ "GPUXRAY_EVENT", ALL, event, 0, 0 },
	{ "GPUXRAY_RULE", INCIDENT, text, R(rule), 256 },
	{ "GPUXRAY_SEVERITY", SUBJECT | HISTORY | SITE, severity, 0, 0 },
	{ "GPUXRAY_STATE", INCIDENT, state, 0, 0 },
	{ "GPUXRAY_FIRING", INCIDENT, firing, 0, 0 },
	{ "GPUXRAY_INCIDENT", INCIDENT, incident, 0, 0 },
	{ "GPUXRAY_SEQ", INCIDENT, seq, 0, 0 },
	{ "GPUXRAY_SCOPE", SUBJECT | HISTORY | SITE, scope, 0, 0 },
	{ "GPUXRAY_OTHERS", SUBJECT, others, 0, 0 },
	{ "GPUXRAY_TIME_USEC", ALL, real_usec, 0, 0 },
	{ "GPUXRAY_PID", SUBJECT | HISTORY | SITE, pid, 0, 0 },
	{ "GPUXRAY_START_TIME", SUBJECT | HISTORY | SITE, start_time, 0, 0 },
	{ "GPUXRAY_TID", INCIDENT, tid, 0, 0 },
	{ "GPUXRAY_COMM", SUBJECT | HISTORY | SITE, id_text, ID(comm), 256 },
	{ "GPUXRAY_UID", SUBJECT | HISTORY, uid, 0, 0 },
	{ "GPUXRAY_USER", SUBJECT | HISTORY, user, 0, 256 },
	{ "GPUXRAY_UNIT", SUBJECT | HISTORY | SITE, unit, 0, 512 },
	{ "GPUXRAY_CONTAINER", SUBJECT | HISTORY, container, 0, 256 },
	{ "GPUXRAY_POD", SUBJECT | HISTORY, id_text, ID(pod), 128 },
	{ "GPUXRAY_RUNTIME", SUBJECT | HISTORY, id_text, ID(runtime), 32 },
	{ "GPUXRAY_POD_NAME", SUBJECT | HISTORY, id_text, ID(pod_name), 256 },
	{ "GPUXRAY_POD_NAMESPACE", SUBJECT | HISTORY, id_text, ID(pod_namespace), 64 },
	{ "GPUXRAY_CONTAINER_NAME", SUBJECT | HISTORY, id_text, ID(container_name), 256 },
	{ "GPUXRAY_SLICE", SUBJECT | ENDED, slice, 0, 256 },
	{ "GPUXRAY_SLURM_JOB", SUBJECT | HISTORY, id_text, ID(slurm_job), 64 },
	{ "GPUXRAY_PPID", SUBJECT | ENDED, ppid, 0, 0 },
	{ "GPUXRAY_PARENT", SUBJECT | ENDED, id_text, ID(parent), 256 },
	{ "GPUXRAY_NSPID", SUBJECT | ENDED, inner_pid, 0, 0 },
	{ "GPUXRAY_TAG", SUBJECT | HISTORY, id_text, ID(tag), 256 },
	{ "GPUXRAY_TAGS", INCIDENT, text, R(tags), 512 },
	{ "GPUXRAY_DEVICE", SUBJECT | HISTORY, device, 0, 128 },
	{ "GPUXRAY_DEVICE_INDEX", SUBJECT | HISTORY, device_index, 0, 0 },
	{ "GPUXRAY_DEVICE_BYTES", SUBJECT | HISTORY, u64, R(device_bytes), 0 },
	{ "GPUXRAY_DEVICE_USED_BYTES", SUBJECT | HISTORY, u64, R(device_used_bytes), 0 },
	{ "GPUXRAY_VALUE", INCIDENT, u64, R(value), 0 },
	{ "GPUXRAY_LIMIT", INCIDENT, u64, R(limit), 0 },
	{ "GPUXRAY_VALUE_UNIT", INCIDENT, value_unit, 0, 0 },
	{ "GPUXRAY_BYTES", INCIDENT | EVENT_BIT(REPORT_SAMPLE), u64, R(bytes), 0 },
	{ "GPUXRAY_LOW_BYTES", EVENT_BIT(REPORT_SAMPLE), u64, R(low_bytes), 0 },
	{ "GPUXRAY_HIGH_BYTES", EVENT_BIT(REPORT_SAMPLE), u64, R(high_bytes), 0 },
	{ "GPUXRAY_HIGH_TIME_USEC", EVENT_BIT(REPORT_SAMPLE), usec, R(high_usec), 0 },
	{ "GPUXRAY_WINDOW_SEC", EVENT_BIT(REPORT_SAMPLE), u64, R(window_sec), 0 },
	{ "GPUXRAY_LIVE_BYTES", SUBJECT | HISTORY, u64, R(live_bytes), 0 },
	{ "GPUXRAY_LIVE_COUNT", INCIDENT | HISTORY, u64, R(live_count), 0 },
	{ "GPUXRAY_PEAK_BYTES", INCIDENT | HISTORY, u64, R(peak_bytes), 0 },
	{ "GPUXRAY_PEAK_TIME_USEC", HISTORY, usec, R(peak_usec), 0 },
	{ "GPUXRAY_HOST_BYTES", INCIDENT | HISTORY, u64, R(host_bytes), 0 },
	{ "GPUXRAY_MANAGED_BYTES", INCIDENT | HISTORY, u64, R(managed_bytes), 0 },
	{ "GPUXRAY_FRAMEWORK_BYTES", INCIDENT | HISTORY, u64, R(framework_bytes), 0 },
	{ "GPUXRAY_IMPORTED_BYTES", INCIDENT | HISTORY, u64, R(imported_bytes), 0 },
	{ "GPUXRAY_DRIVER_BYTES", SUBJECT | HISTORY, u64, R(driver_bytes), 0 },
	{ "GPUXRAY_UNTRACKED_BYTES", SUBJECT | HISTORY, untracked, 0, 0 },
	{ "GPUXRAY_BASELINE_BYTES", SUBJECT | HISTORY, u64, R(baseline_bytes), 0 },
	{ "GPUXRAY_ALLOC_COUNT", HISTORY, u64, R(alloc_count), 0 },
	{ "GPUXRAY_FREE_COUNT", HISTORY, u64, R(free_count), 0 },
	{ "GPUXRAY_FAIL_COUNT", HISTORY, u64, R(fail_count), 0 },
	{ "GPUXRAY_ALLOCATED_BYTES", HISTORY, u64, R(allocated_bytes), 0 },
	{ "GPUXRAY_CONDITION", EVENT_BIT(REPORT_ORPHAN), condition, 0, 0 },
	{ "GPUXRAY_REASON", EVENT_BIT(REPORT_COVERAGE), reason, 0, 256 },
	{ "GPUXRAY_GROWTH_BYTES_PER_HOUR", LEAK, u64, R(growth_bytes_per_hour), 0 },
	{ "GPUXRAY_FULL_IN_SEC", LEAK, u64, R(full_in_sec), 0 },
	{ "GPUXRAY_LEAKED_BYTES", LEAK, u64, R(leaked_bytes), 0 },
	{ "GPUXRAY_CONFIDENCE", LEAK, confidence, 0, 0 },
	{ "GPUXRAY_CAVEAT", LEAK, caveat, 0, 0 },
	{ "GPUXRAY_LEAK_SITES", LEAK, leak_sites, 0, 0 },
	{ "GPUXRAY_AGE_SEC", LEAK | EVENT_BIT(REPORT_UNTRACKED_GROWTH), u64, R(age_sec), 0 },
	{ "GPUXRAY_FUNCTION", INCIDENT | SITE, function, 0, 128 },
	{ "GPUXRAY_ERROR", CALL, error, 0, 0 },
	{ "GPUXRAY_DURATION_SEC", INCIDENT | ENDED, duration, 0, 0 },
	{ "GPUXRAY_SUPPRESSED", ALL, suppressed, 0, 0 },
	{ "GPUXRAY_LOST_EVENTS", INCIDENT | HISTORY, u64, R(lost_events), 0 },
	{ "GPUXRAY_EXACT", INCIDENT | HISTORY, exact, 0, 0 },
	{ "GPUXRAY_STACK_ID", INCIDENT | ENDED | SITE, stack_id, 0, 64 },
	{ "GPUXRAY_STACK_BYTES", INCIDENT | SITE, stack_bytes, 0, 0 },
	{ "GPUXRAY_STACK_INFO", INCIDENT | ENDED | SITE, stack_info, 0, 256 },
	{ "GPUXRAY_TOP_SITES", HISTORY, field_top_sites, 0, 512 },
	{ "GPUXRAY_DEVICE_PEAKS", ENDED, field_device_peaks, 0, 3840 },
	{ "GPUXRAY_EXE", SUBJECT | HISTORY, exe, ID(exe), 1536 },
	{ "GPUXRAY_CGROUP", SUBJECT | ENDED, cgroup, 0, 1024 },
	{ "DOCUMENTATION", INCIDENT, text, R(runbook), 512 },
	{ "GPUXRAY_CMDLINE", SUBJECT | HISTORY, cmdline, 0, 0 },
	{ "GPUXRAY_STACK", INCIDENT | ENDED | SITE, stack, 0, 0 },
};

const struct field_desc *fields_table(size_t *ret_len)
{
	*ret_len = ARRAY_SIZE(table);
	return table;
}

const struct field_desc field_object_pid = { "OBJECT_PID", SUBJECT, pid, 0, 0 };

/* Sent as they are or not at all: an escaped or redacted name would name nothing. */
static bool object_unit_name(const struct field_input *in, const char *s, struct strbuf *sb)
{
	_cleanup_strbuf_ struct strbuf clear = STRBUF_INIT;

	if (!s || !is_unit_name(s))
		return false;
	if (in->redact) {
		redact_text(in->redact, s, &clear);
		if (clear.error || strcmp(strbuf_str(&clear), s) != 0)
			return false;
	}
	return add_str(sb, s);
}

VALUE(object_unit)
{
	const struct identity *id = in->r->id;
	const char *s = scoped(in->r, SCOPE_UNIT, id ? id->unit : NULL);

	/* A scope of units may be about one of a user's manager. */
	if (s && id && id->user_unit && strcmp(s, id->user_unit) == 0)
		s = id->unit;
	return object_unit_name(in, s, sb);
}

VALUE(object_user_unit)
{
	return object_unit_name(in, in->r->id ? in->r->id->user_unit : NULL, sb);
}

const struct field_desc field_object_unit[2] = {
	{ "OBJECT_SYSTEMD_UNIT", SUBJECT, object_unit, 0, 0 },
	{ "OBJECT_SYSTEMD_USER_UNIT", SUBJECT, object_user_unit, 0, 0 },
};
