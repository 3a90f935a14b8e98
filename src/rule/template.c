/* SPDX-License-Identifier: MIT */
#include "rule/template.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "base/units.h"
#include "rule/omit.h"
#include "rule/rule_names.h"
#include "rule/watch.h"

#define WORD_MAX 256	  /* bytes of a name that a process chose */
#define TEMPLATE_MAX 2048 /* of the whole: it becomes one line of a record */
#define OMITTED "[omitted]"

static void add_word(const struct engine *e, struct strbuf *sb, const char *s)
{
	_cleanup_strbuf_ struct strbuf clean = STRBUF_INIT;

	if (!s) {
		strbuf_adds(sb, "?");
		return;
	}
	/* Before it is cut: of half a secret nobody would see that it is one. */
	if (e->ops.clean)
		e->ops.clean(s, &clean, e->userdata);
	else
		strbuf_adds(&clean, s);
	if (clean.error)
		sb->error = clean.error;
	else
		text_escape(sb, strbuf_str(&clean), clean.len, WORD_MAX);
}

static void add_bytes(struct strbuf *sb, uint64_t bytes)
{
	char buf[FORMAT_UNITS_MAX];

	strbuf_adds(sb, bytes == ABSENT_U64 ? "?" : format_bytes(buf, bytes));
}

static void add_seconds(struct strbuf *sb, uint64_t sec)
{
	char buf[FORMAT_UNITS_MAX];

	if (sec == ABSENT_U64)
		strbuf_adds(sb, "?");
	else
		strbuf_adds(sb, format_duration(buf, MIN(sec, UINT64_MAX / NSEC_PER_SEC) * NSEC_PER_SEC));
}

static void add_quantity(struct strbuf *sb, uint64_t n, enum value_unit unit)
{
	if (n == ABSENT_U64) {
		strbuf_adds(sb, "?");
		return;
	}
	if (unit == VALUE_BYTES || unit == VALUE_BYTES_PER_SEC)
		add_bytes(sb, n);
	else
		strbuf_addf(sb, "%" PRIu64, n);
	if (unit == VALUE_BYTES_PER_SEC || unit == VALUE_CALLS_PER_SEC)
		strbuf_adds(sb, "/s");
}

static void add_number(struct strbuf *sb, bool is_known, int64_t n)
{
	if (is_known)
		strbuf_addf(sb, "%" PRId64, n);
	else
		strbuf_adds(sb, "?");
}

/* What a subject of this scope is called by its key, else what its process has; NULL if neither is known. */
static const char *scoped(const struct report *r, enum rule_scope scope, const char *of_process)
{
	return r->scope == scope && r->scope_key ? r->scope_key : of_process;
}

#define NAME(name)                                                                                                     \
	static void add_##name(const struct engine *e, struct strbuf *sb, const struct report *r)
#define ID(member) (r->id ? r->id->member : NULL)

NAME(comm)
{
	add_word(e, sb, ID(comm));
}

NAME(exe)
{
	add_word(e, sb, ID(exe));
}

NAME(pid)
{
	add_number(sb, r->id, r->id ? r->id->pid : 0);
}

NAME(uid)
{
	add_number(sb, r->id && r->id->uid != UINT32_MAX, r->id ? r->id->uid : 0);
}

NAME(user)
{
	add_word(e, sb, scoped(r, SCOPE_USER, ID(user)));
}

NAME(unit)
{
	const struct identity *id = r->id;

	add_word(e, sb, scoped(r, SCOPE_UNIT, !id ? NULL : id->unit ? id->unit : id->user_unit));
}

NAME(cgroup)
{
	add_word(e, sb, scoped(r, SCOPE_CGROUP, ID(cgroup)));
}

NAME(container)
{
	add_word(e, sb, scoped(r, SCOPE_CONTAINER, ID(container)));
}

NAME(slice)
{
	add_word(e, sb, ID(slice));
}

NAME(pod)
{
	add_word(e, sb, ID(pod));
}

NAME(pod_name)
{
	add_word(e, sb, ID(pod_name));
}

NAME(pod_namespace)
{
	add_word(e, sb, ID(pod_namespace));
}

NAME(container_name)
{
	add_word(e, sb, ID(container_name));
}

NAME(slurm_job)
{
	add_word(e, sb, ID(slurm_job));
}

NAME(tag)
{
	add_word(e, sb, ID(tag));
}

NAME(rule)
{
	add_word(e, sb, r->rule);
}

NAME(severity)
{
	add_word(e, sb, severity_name(r->severity));
}

NAME(incident)
{
	if (r->seq == 0)
		strbuf_adds(sb, "?");
	for (size_t i = 0; r->seq > 0 && i < sizeof(r->incident); i++)
		strbuf_addf(sb, "%02x", r->incident[i]);
}

NAME(scope)
{
	strbuf_adds(sb, rule_scope_name(r->scope));
}

NAME(scope_key)
{
	add_word(e, sb, r->scope_key);
}

NAME(value)
{
	add_quantity(sb, r->value, r->value_unit);
}

NAME(limit)
{
	add_quantity(sb, r->limit, r->value_unit);
}

NAME(live)
{
	add_bytes(sb, r->live_bytes);
}

NAME(peak)
{
	add_bytes(sb, r->peak_bytes);
}

NAME(host)
{
	add_bytes(sb, r->host_bytes);
}

NAME(driver)
{
	add_bytes(sb, r->driver_bytes);
}

NAME(untracked)
{
	bool is_known = r->driver_bytes != ABSENT_U64 && r->live_bytes != ABSENT_U64 && r->driver_bytes >= r->live_bytes;

	add_bytes(sb, is_known ? r->driver_bytes - r->live_bytes : ABSENT_U64);
}

NAME(baseline)
{
	add_bytes(sb, r->baseline_bytes);
}

NAME(growth)
{
	add_bytes(sb, r->growth_bytes_per_hour);
	strbuf_adds(sb, r->growth_bytes_per_hour == ABSENT_U64 ? "" : "/h");
}

NAME(leaked)
{
	add_bytes(sb, r->leaked_bytes);
}

NAME(full_in)
{
	add_seconds(sb, r->full_in_sec);
}

NAME(age)
{
	add_seconds(sb, r->age_sec);
}

NAME(confidence)
{
	if (r->confidence < 0)
		strbuf_adds(sb, "?");
	else
		strbuf_addf(sb, "%u%%", report_percent(r->confidence));
}

NAME(condition)
{
	bool is_first = true;

	for (int i = 0; rule_condition_names[i]; i++) {
		if (!(r->condition & (1u << i)))
			continue;
		strbuf_addf(sb, "%s%s", is_first ? "" : ", ", rule_condition_names[i]);
		is_first = false;
	}
	if (is_first)
		strbuf_adds(sb, "?");
}

NAME(function)
{
	add_word(e, sb, r->function);
}

NAME(error)
{
	add_number(sb, r->error != 0, r->error);
}

NAME(device)
{
	if (r->device_index >= 0)
		strbuf_addf(sb, "%d", r->device_index);
	else
		add_word(e, sb, r->device_uuid);
}

NAME(device_used)
{
	add_bytes(sb, r->device_used_bytes);
}

NAME(device_total)
{
	add_bytes(sb, r->device_bytes);
}

#define NAMES(X)                                                                                                       \
	X(comm)                                                                                                        \
	X(pid)                                                                                                         \
	X(value)                                                                                                       \
	X(limit)                                                                                                       \
	X(rule)                                                                                                        \
	X(severity)                                                                                                    \
	X(incident)                                                                                                    \
	X(user)                                                                                                        \
	X(uid)                                                                                                         \
	X(unit)                                                                                                        \
	X(slice)                                                                                                       \
	X(cgroup)                                                                                                      \
	X(container)                                                                                                   \
	X(pod)                                                                                                         \
	X(pod_name)                                                                                                    \
	X(pod_namespace)                                                                                               \
	X(container_name)                                                                                              \
	X(slurm_job)                                                                                                   \
	X(tag)                                                                                                         \
	X(exe)                                                                                                         \
	X(scope)                                                                                                       \
	X(scope_key)                                                                                                   \
	X(device)                                                                                                      \
	X(device_used)                                                                                                 \
	X(device_total)                                                                                                \
	X(live)                                                                                                        \
	X(peak)                                                                                                        \
	X(host)                                                                                                        \
	X(driver)                                                                                                      \
	X(untracked)                                                                                                   \
	X(baseline)                                                                                                    \
	X(growth)                                                                                                      \
	X(leaked)                                                                                                      \
	X(full_in)                                                                                                     \
	X(confidence)                                                                                                  \
	X(age)                                                                                                         \
	X(condition)                                                                                                   \
	X(function)                                                                                                    \
	X(error)

#define NAME_TEXT(name) #name,
#define NAME_ADD(name) add_##name,

const char *const template_names[] = { NAMES(NAME_TEXT) NULL };
static void (*const adders[])(const struct engine *e, struct strbuf *sb, const struct report *r) = { NAMES(NAME_ADD) };

/* rest: the report without what is not to be told. What differs is left out. */
static void tell_value(const struct engine *e, struct strbuf *sb, size_t i, const struct report *r, const struct report *rest)
{
	_cleanup_strbuf_ struct strbuf value = STRBUF_INIT, told = STRBUF_INIT;

	if (rest == r) {
		adders[i](e, sb, r);
		return;
	}
	adders[i](e, &value, r);
	adders[i](e, &told, rest);
	if (value.error || told.error)
		sb->error = value.error ? value.error : told.error;
	else
		strbuf_adds(sb, strcmp(strbuf_str(&value), strbuf_str(&told)) == 0 ? strbuf_str(&told) : OMITTED);
}

static bool add_name(const struct engine *e, struct strbuf *sb, const char *name, size_t len, const struct report *r,
		     const struct report *rest)
{
	for (size_t i = 0; i < ARRAY_SIZE(adders); i++) {
		if (strlen(template_names[i]) != len || memcmp(template_names[i], name, len) != 0)
			continue;
		tell_value(e, sb, i, r, rest);
		return true;
	}
	return false;
}

int template_expand(const struct engine *e, const char *text, const struct report *r, char **ret)
{
	_cleanup_(identity_unrefp) struct identity *id = NULL;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const struct report *rest = r;
	const char *p = text;
	struct report without;

	if (!text) {
		*ret = NULL;
		return 0;
	}
	if (e->ops.omit) {
		if (omit_report(r, e->ops.omit, &without, &id) < 0)
			return -ENOMEM;
		rest = &without;
	}
	while (*p && sb.len < TEMPLATE_MAX) {
		const char *end = p[0] == '%' && p[1] == '{' ? strchr(p, '}') : NULL;

		/* A rule file with an unknown name is refused; by hand it stays as it is written. */
		if (end && add_name(e, &sb, p + 2, (size_t)(end - p) - 2, r, rest))
			p = end + 1;
		else
			strbuf_addc(&sb, *p++);
	}
	return strbuf_steal(&sb, ret);
}
