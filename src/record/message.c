/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "record/driver_error.h"
#include "record/foreign.h"
#include "record/message.h"
#include "record/caveat.h"
#include "record/message_history.h"
#include "record/message_line.h"
#include "record/message_words.h"
#include "record/stack_lines.h"

static uint64_t ns_from_sec(uint64_t sec)
{
	return sec > UINT64_MAX / 1000000000 ? UINT64_MAX - 1 : sec * 1000000000;
}

/* ", over 40 GiB": between the two limits of its rule it fires on, though it is not over the first any more. */
static void add_over(struct line *l)
{
	const struct report *r = l->r;

	line_add_optional_quantity(l, r->value != ABSENT_U64 && r->value < r->limit ? ", was over " : ", over ", r->limit);
}

/* When the process started, in local time. Its start is told by a clock that counts from boot. */
static bool start_text(const struct report *r, char *buf, size_t size)
{
	uint64_t since_ns = r->id->start_ns ? r->id->start_ns : r->id->start_ticks * (NSEC_PER_SEC / 100);
	struct timespec real, boot;
	struct tm tm;
	int64_t sec;
	time_t t;

	if (since_ns == 0 || clock_gettime(CLOCK_REALTIME, &real) < 0 || clock_gettime(CLOCK_BOOTTIME, &boot) < 0)
		return false;
	sec = (int64_t)real.tv_sec - (int64_t)boot.tv_sec + (int64_t)(since_ns / NSEC_PER_SEC);
	t = (time_t)sec;
	return localtime_r(&t, &tm) && strftime(buf, size, "%Y-%m-%d %H:%M", &tm) > 0;
}

static bool is_resolved(const struct line *l)
{
	return l->r->state == STATE_RESOLVED;
}

/* Between who and what: what has been said before is "still" so. */
static const char *again(const struct line *l)
{
	return l->r->state == STATE_REPEAT ? " still " : " ";
}

/* Of a crowd that has nothing left on the GPU one cannot say that it has ended. */
static bool has_ended(const struct line *l)
{
	return l->r->process_ended && (l->r->scope == SCOPE_PROCESS || l->r->scope == SCOPE_STACK);
}

/* ", was over 40 GiB on GPU 0 for 12m" */
static void add_was_over(struct line *l, bool with_place)
{
	line_add_optional_quantity(l, ", was over ", l->r->limit);
	if (with_place && l->r->limit != ABSENT_U64)
		line_add_place(l);
	line_add_optional_duration(l, " for ", l->r->duration_ns);
}

static void say_live(struct line *l)
{
	const struct report *r = l->r;

	line_add_who(l);
	if (is_resolved(l)) {
		bool ended = has_ended(l) || r->value == ABSENT_U64;

		if (ended) {
			line_add(l, has_ended(l) ? " has ended" : " is below its limit again");
		} else {
			line_add_optional_quantity(l, " is back to ", r->value);
			line_add_place(l);
		}
		add_was_over(l, ended);
		line_add_optional_bytes(l, ", peak ", r->peak_bytes);
		return;
	}
	line_add(l, again(l));
	line_add(l, "holds");
	line_add_optional_quantity(l, " ", r->value);
	if (r->scope == SCOPE_DEVICE && !message_memory(r))
		line_add_optional_bytes(l, " of ", r->device_bytes);
	line_add_place(l);
	add_over(l);
	line_add_optional_duration(l, " for ", r->duration_ns);
}

static void say_single(struct line *l)
{
	const struct report *r = l->r;

	line_add_who(l);
	line_add(l, " allocated");
	line_add_optional_bytes(l, " ", r->bytes != ABSENT_U64 ? r->bytes : r->value);
	line_add(l, " at once");
	line_add_where(l);
	if (r->function) {
		line_add(l, " (");
		foreign_word(l->sb, l->redact, r->function, 40);
		line_add(l, ")");
	}
	line_add_optional_quantity(l, ", over ", r->limit);
}

static void say_rate(struct line *l)
{
	const struct report *r = l->r;
	bool is_calls = r->value_unit != VALUE_BYTES_PER_SEC;

	line_add_who(l);
	if (is_resolved(l)) {
		bool ended = has_ended(l) || r->value == ABSENT_U64;

		if (ended) {
			line_add(l, has_ended(l) ? " has ended" : " is below its limit again");
		} else {
			line_add(l, " is back to allocating ");
			if (is_calls)
				line_add(l, "at a rate of ");
			line_add_quantity(l, r->value);
			line_add_place(l);
		}
		add_was_over(l, ended);
		return;
	}
	line_add(l, again(l));
	line_add(l, "allocates");
	line_add_optional_quantity(l, is_calls ? " at a rate of " : " ", r->value);
	line_add_place(l);
	add_over(l);
	line_add_optional_duration(l, " for ", r->duration_ns);
}

static void say_failure(struct line *l)
{
	const struct report *r = l->r;
	const char *name = driver_error_name(r->function, r->error);

	line_add_who(l);
	if (is_resolved(l)) {
		line_add(l, has_ended(l) ? " has ended after failed allocations" : " has no more failed allocations");
		line_add_where(l);
		line_add_optional_duration(l, " for ", r->duration_ns);
		return;
	}
	line_add(l, " could not allocate");
	line_add_optional_bytes(l, " ", r->bytes);
	line_add_where(l);
	if (r->error != 0) {
		line_add(l, ": ");
		foreign_word(l->sb, l->redact, r->function ? r->function : "the driver", 40);
		strbuf_addf(l->sb, " returned %d%s%s", r->error, name ? " " : "", name ? name : "");
	}
	line_add_optional_bytes(l, ", it holds ", r->live_bytes);
	if (r->value_unit == VALUE_CALLS && r->value != ABSENT_U64 && r->value > 1)
		strbuf_addf(l->sb, ", failure %" PRIu64 " of late", r->value);
}

static void add_growth(struct line *l)
{
	const struct report *r = l->r;

	if (r->growth_bytes_per_hour != ABSENT_U64) {
		line_add(l, " ");
		line_add_bytes(l, r->growth_bytes_per_hour);
		line_add(l, "/h");
	}
	line_add_place(l);
	if (r->scope == SCOPE_STACK)
		line_add(l, " from one call site");
	if (r->leaked_bytes != ABSENT_U64) {
		line_add(l, ", ");
		line_add_bytes(l, r->leaked_bytes);
		line_add(l, has_ended(l) ? " in all" : " so far");
	}
}

/* Less than even. */
static bool is_unsure(const struct report *r)
{
	return r->confidence >= 0 && r->confidence < 0.5;
}

static void say_leak(struct line *l)
{
	const struct report *r = l->r;
	char buf[FORMAT_UNITS_MAX];

	line_add_who(l);
	if (is_resolved(l)) {
		line_add(l, has_ended(l) ? " has ended" : " no longer leaks");
		line_add_optional_bytes(l, has_ended(l) ? ", had leaked " : ", leaked ", r->leaked_bytes);
		line_add_place(l);
		line_add_optional_duration(l, " in ", r->duration_ns);
		return;
	}
	if (has_ended(l)) {
		line_add(l, " has ended, leaking");
		add_growth(l);
		return;
	}
	line_add(l, again(l));
	/* One call site on its own is a suspicion: a cache that fills looks the same until it is full. */
	line_add(l, r->scope == SCOPE_STACK || is_unsure(r) ? "may be leaking" : "is leaking");
	add_growth(l);
	if (r->full_in_sec != ABSENT_U64) {
		line_add(l, ", full in ");
		line_add(l, format_duration(buf, ns_from_sec(r->full_in_sec)));
	}
}

static void say_exit(struct line *l)
{
	const struct report *r = l->r;
	uint64_t bytes = r->value_unit == VALUE_BYTES && r->value != ABSENT_U64 ? r->value : r->live_bytes;

	line_add_who(l);
	line_add(l, " ended");
	line_add_optional_bytes(l, " with ", bytes);
	line_add(l, bytes == ABSENT_U64 ? " with memory never freed" : " never freed");
	line_add_where(l);
	line_add_optional_quantity(l, ", over ", r->limit);
}

static void say_untracked(struct line *l)
{
	const struct report *r = l->r;

	line_add_who(l);
	if (is_resolved(l)) {
		line_add(l, has_ended(l) ? " has ended" : " no longer grows beyond its allocations");
		add_was_over(l, true);
		return;
	}
	line_add(l, r->state == STATE_REPEAT ? ": still" : ":");
	line_add_optional_quantity(l, " ", r->value);
	line_add(l, " more");
	line_add_where(l);
	line_add(l, " than its allocations account for");
	if (r->age_sec != ABSENT_U64)
		line_add_optional_duration(l, ", grown in ", ns_from_sec(r->age_sec));
	if (r->driver_bytes == ABSENT_U64 || r->live_bytes == ABSENT_U64)
		return;
	line_add_optional_bytes(l, " (driver ", r->driver_bytes);
	line_add_optional_bytes(l, ", tracked ", r->live_bytes);
	line_add(l, ")");
}

static void add_conditions(struct line *l)
{
	static const char *const texts[] = { "its parent is gone", "it is dead but not waited for",
					     "it is stuck in the kernel", "there is no such process" };
	bool is_first = true;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (!(l->r->condition & (1u << i)))
			continue;
		line_add(l, is_first ? " and " : ", ");
		line_add(l, texts[i]);
		is_first = false;
	}
}

/* Its command was perhaps renamed and its pid is used again one day: file and start say who it is. */
static void say_orphan(struct line *l)
{
	const struct report *r = l->r;
	char when[32];

	line_add_who(l);
	if (r->id && r->id->exe) {
		line_add(l, " ");
		foreign_word(l->sb, l->redact, r->id->exe, l->name_max);
	}
	if (r->id && start_text(r, when, sizeof(when)))
		strbuf_addf(l->sb, " (started %s)", when);
	if (is_resolved(l)) {
		line_add(l, has_ended(l) ? " has ended" : " is no longer an orphan that holds memory");
		line_add_where(l);
		line_add_optional_duration(l, " after ", r->duration_ns);
		return;
	}
	line_add(l, again(l));
	line_add(l, "holds");
	if (r->value != ABSENT_U64 && r->value > 0)
		line_add_optional_quantity(l, " ", r->value);
	else
		line_add(l, " memory");
	line_add_where(l);
	add_conditions(l);
}

static void say_coverage(struct line *l)
{
	const struct report *r = l->r;

	line_add_who(l);
	line_add(l, " holds");
	if (r->driver_bytes != ABSENT_U64)
		line_add_optional_bytes(l, " ", r->driver_bytes);
	else
		line_add(l, " memory");
	line_add_where(l);
	line_add(l, " by the driver's count, but no call of it has been seen");
	if (r->reason) {
		line_add(l, ": ");
		line_add(l, r->reason);
	}
}

static const char *why_inexact(const struct report *r)
{
	if (r->lost_events != ABSENT_U64 && r->lost_events > 0)
		return "events were lost, not exact";
	if (r->driver_bytes != ABSENT_U64 && r->driver_bytes > 0 && r->live_bytes != ABSENT_U64 && r->driver_bytes < r->live_bytes)
		return "more than the driver says, not exact";
	return "not exact";
}

static void say(struct line *l)
{
	static void (*const say_event[])(struct line *l) = {
		[REPORT_LIVE_BYTES] = say_live,	      [REPORT_SINGLE_ALLOC] = say_single,
		[REPORT_ALLOC_RATE] = say_rate,	      [REPORT_ALLOC_FAILURE] = say_failure,
		[REPORT_LEAK] = say_leak,	      [REPORT_EXIT] = say_exit,
		[REPORT_UNTRACKED_GROWTH] = say_untracked, [REPORT_ORPHAN] = say_orphan,
		[REPORT_COVERAGE] = say_coverage,     [REPORT_SAMPLE] = message_say_sample,
		[REPORT_PROCESS_EXIT] = message_say_process_exit, [REPORT_SITE] = message_say_site,
	};

	if (l->r->others > 0) {
		message_add_others(l->r, l->sb);
		line_add_optional_quantity(l, " of ", l->r->limit);
	} else {
		say_event[l->r->event](l);
	}
	if (l->r->rule || !l->r->exact) {
		line_add(l, " (");
		if (l->r->rule) {
			line_add(l, "rule ");
			line_add_name(l, l->r->rule);
		}
		if (l->r->rule && !l->r->exact)
			line_add(l, "; ");
		if (!l->r->exact)
			line_add(l, why_inexact(l->r));
		line_add(l, ")");
	}
}

/* The daemon's own words need nothing beside them. */
static const char *daemon_text(const struct field_input *in)
{
	if (in->r->text && *in->r->text)
		return in->r->text;
	switch (in->event) {
	case REPORT_START:
		return "gpuxray has started";
	case REPORT_STOP:
		return "gpuxray has stopped";
	case REPORT_RELOAD:
		return "gpuxray has read its rules again";
	case REPORT_HEALTH:
		return "gpuxray is running";
	default:
		return "records were held back";
	}
}

static void first_line(const struct field_input *in, struct strbuf *sb)
{
	static const size_t name_max[] = { 64, 40, 24, 12 };
	size_t start = sb->len;

	if (in->event >= REPORT_START) {
		foreign_word(sb, in->redact, daemon_text(in), MESSAGE_LINE_MAX);
		return;
	}
	if (in->r->message && *in->r->message && in->r->others == 0) {
		if (in->r->state == STATE_RESOLVED)
			strbuf_adds(sb, "resolved: ");
		/* What others wrote was escaped when it was filled in. */
		foreign_escaped(sb, in->redact, in->r->message, SIZE_MAX);
		utf8_cut(sb, start, MESSAGE_LINE_MAX);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(name_max); i++) {
		struct line l = { .r = in->r, .redact = in->redact, .sb = sb, .name_max = name_max[i] };

		strbuf_truncate(sb, start);
		say(&l);
		if (sb->error || utf8_count(strbuf_str(sb) + start, sb->len - start) <= MESSAGE_LINE_MAX)
			return;
	}
	utf8_cut(sb, start, MESSAGE_LINE_MAX);
}

void message_build(const struct field_input *in, size_t max, struct strbuf *sb)
{
	bool has_caveat = in->event == (unsigned)REPORT_LEAK && in->r->state != STATE_RESOLVED && in->r->confidence >= 0;
	size_t start = sb->len;

	first_line(in, sb);
	/* That a process has ended is one line; the stack is a field of it. */
	if (in->event < REPORT_START && in->event != (unsigned)REPORT_PROCESS_EXIT && in->st && in->st->len > 0) {
		size_t room = max - (sb->len - start) - (has_caveat ? CAVEAT_ROOM : 0);

		strbuf_adds(sb, "\n\n");
		stack_lines_add(in->st, in->redact, room, MESSAGE_STACK_LINES, sb);
	}
	if (has_caveat) {
		strbuf_adds(sb, "\n\n");
		caveat_add_line(in->r, sb);
	}
}
