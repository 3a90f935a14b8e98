/* SPDX-License-Identifier: MIT */
/* The words of a test. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "replay/rule_test_private.h"
#include "rule/report.h"
#include "rule/rule_names.h"

void say_time(struct strbuf *sb, uint64_t ns)
{
	static const struct {
		uint64_t ns;
		const char *name;
	} units[] = { { 86400 * NSEC_PER_SEC, "d" }, { 3600 * NSEC_PER_SEC, "h" }, { 60 * NSEC_PER_SEC, "m" },
		      { NSEC_PER_SEC, "s" },	     { NSEC_PER_MSEC, "ms" },	   { 1, "ns" } };
	bool any = false;

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (ns < units[i].ns)
			continue;
		strbuf_addf(sb, "%" PRIu64 "%s", ns / units[i].ns, units[i].name);
		ns %= units[i].ns;
		any = true;
	}
	if (!any)
		strbuf_adds(sb, "0s");
}

void say_quantity(struct strbuf *sb, const struct quantity *q)
{
	bool is_bytes = q->unit == VALUE_BYTES || q->unit == VALUE_BYTES_PER_SEC;
	char buf[FORMAT_UNITS_MAX];
	uint64_t shown = q->n;

	if (q->n == ABSENT_U64)
		strbuf_adds(sb, "not known");
	else if (is_bytes)
		strbuf_adds(sb, format_bytes(buf, q->n));
	else
		strbuf_addf(sb, "%" PRIu64, q->n);
	/* What was rounded must be seen by who compares it. */
	if (is_bytes && q->n != ABSENT_U64 && parse_size(buf, &shown) == 0 && shown != q->n)
		strbuf_addf(sb, " (%" PRIu64 " B)", q->n);
	if (q->unit == VALUE_BYTES_PER_SEC || q->unit == VALUE_CALLS_PER_SEC)
		strbuf_adds(sb, "/s");
}

/* A number sign would begin a directive. */
void say_name(struct strbuf *sb, const char *name)
{
	_cleanup_strbuf_ struct strbuf clean = STRBUF_INIT;

	text_escape(&clean, name, strlen(name), 200);
	for (const char *p = strbuf_str(&clean); *p; p++) {
		strbuf_adds(sb, *p == '#' ? "\\" : "");
		strbuf_addc(sb, *p);
	}
}

static void say_text(struct strbuf *sb, const char *before, const char *text, const char *after)
{
	if (!text)
		return;
	strbuf_adds(sb, before);
	text_escape(sb, text, strlen(text), 128);
	strbuf_adds(sb, after);
}

void say_view(const struct test_run *run, const struct view *v, struct strbuf *sb)
{
	const char *frames = v->stack ? test_frames(run, v->stack) : NULL;

	say_text(sb, "", v->rule, "");
	if (v->pid)
		strbuf_addf(sb, ", pid %" PRIu32, v->pid);
	if (v->pid && v->identity)
		say_text(sb, " (", v->identity->comm, ")");
	if (!v->pid && v->key) {
		strbuf_addf(sb, ", %s", rule_scope_names[v->scope]);
		say_text(sb, " ", v->key, "");
	}
	say_text(sb, ", stack ", frames, "");
	strbuf_adds(sb, ", since ");
	say_time(sb, v->since_ns);
	strbuf_adds(sb, ", value ");
	say_quantity(sb, &v->value);
	strbuf_adds(sb, ", limit ");
	say_quantity(sb, &v->limit);
}

void say_record(const struct said *s, bool is_whole, const char *indent, struct strbuf *sb)
{
	const struct report *r = s->report;
	const char *state = report_state_name(r->state), *line = s->message;
	size_t len = strcspn(line, "\n");

	strbuf_adds(sb, indent);
	say_time(sb, s->time_ns);
	strbuf_addc(sb, ' ');
	say_name(sb, r->rule ? r->rule : report_event_name(r->event));
	if (state)
		strbuf_addf(sb, " %s", state);
	strbuf_adds(sb, ": ");
	strbuf_add(sb, line, len);
	strbuf_addc(sb, '\n');
	for (line += len; is_whole && *line; line += len) {
		line++;
		len = strcspn(line, "\n");
		if (len == 0)
			continue;
		strbuf_addf(sb, "%s    ", indent);
		strbuf_add(sb, line, len);
		strbuf_addc(sb, '\n');
	}
}

static void say_names(struct strbuf *sb, const struct name_set *set)
{
	for (size_t i = 0; i < set->len; i++) {
		strbuf_adds(sb, i > 0 ? " and " : " ");
		say_name(sb, set->names[i]);
	}
	if (set->len == 0)
		strbuf_adds(sb, " nothing");
}

static void say_part(struct strbuf *sb, bool *any)
{
	strbuf_adds(sb, *any ? ", " : " ");
	*any = true;
}

static void say_subject(struct strbuf *sb, const struct expectation *x)
{
	if (x->pid)
		strbuf_addf(sb, ", pid %" PRIu32, x->pid);
	if (x->device >= 0)
		strbuf_addf(sb, ", device %d", x->device);
	if (x->stack) {
		strbuf_adds(sb, ", stack ");
		say_name(sb, conf_strings_get(x->stack, 0, NULL));
	}
	for (size_t k = 0; k < SUBJECT_MAX; k++) {
		if (!x->subject[k])
			continue;
		strbuf_addf(sb, ", %s ", expect_subject_names[k]);
		say_name(sb, x->subject[k]);
	}
}

void say_expectation(const struct expectation *x, struct strbuf *sb)
{
	bool any = false;

	strbuf_addf(sb, "at %s", x->at);
	for (size_t i = 0; i < SET_MAX; i++) {
		if (!x->set[i].setting)
			continue;
		say_part(sb, &any);
		strbuf_adds(sb, expect_set_names[i]);
		say_names(sb, &x->set[i]);
	}
	if (x->has_value || x->has_above || x->has_below) {
		say_part(sb, &any);
		strbuf_adds(sb, "value");
	}
	if (x->severity >= 0) {
		say_part(sb, &any);
		strbuf_addf(sb, "severity %s", severity_names[x->severity]);
	}
	if (x->has_records) {
		say_part(sb, &any);
		strbuf_addf(sb, "%" PRIu32 " record%s", x->records, x->records == 1 ? "" : "s");
	}
	if (x->message) {
		say_part(sb, &any);
		strbuf_adds(sb, "message");
	}
	say_subject(sb, x);
}
