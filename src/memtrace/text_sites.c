/* SPDX-License-Identifier: MIT */
/* Call sites that hold memory. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "memtrace/text.h"

#define STACK_INDENT 6
/* Of a stack on one line: the frames that tell most. */
#define FRAMES_TOLD 6

static void add_bytes(const struct view_site *s, struct strbuf *sb)
{
	char bytes[FORMAT_UNITS_MAX];

	if (s->bytes || !s->framework_bytes)
		strbuf_addf(sb, "%s in %" PRIu64 " block%s", format_bytes(bytes, s->bytes), s->blocks, s->blocks == 1 ? "" : "s");
	if (s->framework_bytes)
		strbuf_addf(sb, "%s%s of a framework's blocks", sb->len ? ", " : "", format_bytes(bytes, s->framework_bytes));
}

static void add_call(const struct view_site *s, struct strbuf *sb)
{
	if (s->is_other)
		pen_phrase(sb, "all sites beyond the limit");
	else
		pen_phrase(sb, "%s by %s", s->class_name ?: "memory", s->function ?: "a call that is not known");
}

static void site(struct memtrace_text *t, const struct view_site *s, int64_t growth)
{
	const struct story_stack stack = { .text = s->stack, .info = s->stack || s->stack_info ? s->stack_info : "no stack" };
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	char bytes[SIGNED_BYTES_MAX], ns[FORMAT_UNITS_MAX];

	add_bytes(s, &sb);
	if (growth != 0 && growth != VIEW_NONE_INT)
		strbuf_addf(&sb, " (%s)", memtrace_signed_bytes(bytes, growth));
	add_call(s, &sb);
	/* Whole seconds: what lies below tells nobody anything. */
	pen_phrase(&sb, "age %s", format_duration(ns, s->age_ns / NSEC_PER_SEC * NSEC_PER_SEC));
	memtrace_text_note(t, 2, "%s %s", growth > 0 ? "^" : " ", strbuf_str(&sb));
	if (!s->is_other)
		pen_stack(&t->pen, &stack, STACK_INDENT, SIZE_MAX);
	if (sb.error)
		t->pen.sb->error = sb.error;
}

static bool is_holding(const struct view_site *s)
{
	return s->bytes || s->framework_bytes;
}

static void more(struct memtrace_text *t, size_t indent, uint64_t n)
{
	if (n > 0)
		memtrace_text_note(t, indent, "and %" PRIu64 " site%s more", n, n == 1 ? "" : "s");
}

void memtrace_text_sites(struct memtrace_text *t, const struct view *v, const struct view_process *p,
			 const struct past_process *pp)
{
	_cleanup_free_ int64_t *growths = NULL;

	if (past_site_growths(pp, p, v->totals.real_usec, &growths) < 0) {
		t->pen.sb->error = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < p->sites_len; i++)
		if (is_holding(&p->sites[i]))
			site(t, &p->sites[i], growths[i]);
	more(t, 4, p->sites_count > p->sites_len ? p->sites_count - p->sites_len : 0);
}

/* ---- one line each */

/* "f+0x1a (lib.so) at f.c:3" as "f (f.c:3)", "f+0x1a (lib.so)" as "f (lib.so)"; others as they are. */
static void add_frame(const char *line, size_t len, struct strbuf *sb)
{
	const char *end = line + len, *plus = memmem(line, len, "+0x", 3);
	const char *open = plus ? memmem(plus, (size_t)(end - plus), " (", 2) : NULL;
	const char *at = open ? memmem(open, (size_t)(end - open), ") at ", 5) : NULL;

	if (!open) {
		strbuf_add(sb, line, len);
		return;
	}
	strbuf_add(sb, line, (size_t)(plus - line));
	if (at) {
		strbuf_adds(sb, " (");
		strbuf_add(sb, at + 5, (size_t)(end - at - 5));
		strbuf_addc(sb, ')');
	} else {
		strbuf_add(sb, open, (size_t)(end - open));
	}
}

/* ": a (f.c:1) < b (f.c:9) < [3 more frames]", without the driver's function. */
static void add_stack(const struct memtrace_text *t, const struct view_site *s, struct strbuf *sb)
{
	const struct story_stack stack = { .text = s->stack, .info = s->stack_info };
	_cleanup_strbuf_ struct strbuf lines = STRBUF_INIT;
	struct memtrace_text all;
	const char *line, *second;

	memtrace_text_init(&all, TEXT_WIDTH_ALL, t->options.is_ascii, &lines);
	pen_stack(&all.pen, &stack, 0, FRAMES_TOLD);
	memtrace_text_done(&all);
	line = strbuf_str(&lines);
	second = strchr(line, '\n');
	if (s->function && strncmp(line, s->function, strlen(s->function)) == 0 && second && second[1])
		line = second + 1;
	for (const char *separator = ": "; *line; separator = " < ") {
		const size_t len = strcspn(line, "\n");

		strbuf_adds(sb, separator);
		add_frame(line, len, sb);
		line += len + (line[len] == '\n');
	}
	if (lines.error)
		sb->error = lines.error;
}

/* Where the frames follow, what they are below is not told: they take the line. */
static void add_place(const struct memtrace_text *t, const struct view_site *s, struct strbuf *sb)
{
	if (s->is_other || (!s->stack && !s->stack_info)) {
		add_call(s, sb);
		return;
	}
	if (!s->class_name || strcmp(s->class_name, "device") != 0)
		pen_phrase(sb, "%s", s->class_name ?: "memory");
	add_stack(t, s, sb);
}

void memtrace_text_sites_short(struct memtrace_text *t, const struct view_process *p)
{
	size_t told = 0;

	for (size_t i = 0; i < p->sites_len && told < TEXT_SITES_TOLD; i++) {
		_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
		const struct view_site *s = &p->sites[i];

		if (!is_holding(s))
			continue;
		told++;
		add_bytes(s, &sb);
		add_place(t, s, &sb);
		pen_go(&t->pen, 4);
		pen_add(&t->pen, strbuf_str(&sb));
		pen_end(&t->pen);
		if (sb.error)
			t->pen.sb->error = sb.error;
	}
	more(t, 4, p->sites_count > told ? p->sites_count - told : 0);
}
