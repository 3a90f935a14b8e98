/* SPDX-License-Identifier: MIT */
/* What remains to be said of a process that has ended, or that is no longer looked at. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "memtrace/text.h"

static void add_memory(struct strbuf *sb, uint64_t bytes, const char *what)
{
	char text[FORMAT_UNITS_MAX];

	if (bytes > 0)
		pen_phrase(sb, "%s of %s", format_bytes(text, bytes), what);
}

static void add_held(const struct view_process *p, struct strbuf *sb)
{
	add_memory(sb, p->live_bytes, "device memory");
	add_memory(sb, p->host_bytes, "pinned host memory");
	add_memory(sb, p->managed_bytes, "managed memory");
}

static void add_counts(uint64_t allocs, uint64_t frees, uint64_t fails, struct strbuf *sb)
{
	pen_count(sb, allocs, "allocation", "allocations");
	pen_count(sb, frees, "free", "frees");
	if (fails > 0)
		pen_phrase(sb, "%" PRIu64 " failed", fails);
}

/* Whole seconds of what is longer. */
static const char *duration(char buf[FORMAT_UNITS_MAX], uint64_t usec)
{
	const uint64_t unit = usec < USEC_PER_SEC ? 1000 : USEC_PER_SEC;

	return format_duration(buf, usec / unit * unit * NSEC_PER_USEC);
}

static void say_life(struct memtrace_text *t, const struct view *v, const struct view_process *p, bool is_late)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, counts = STRBUF_INIT;
	char text[FORMAT_UNITS_MAX];

	memtrace_text_name(p->pid, p->comm, &sb);
	strbuf_adds(&sb, " has ended");
	if (p->start_usec != VIEW_NONE && v->totals.real_usec > p->start_usec)
		strbuf_addf(&sb, " after %s", duration(text, v->totals.real_usec - p->start_usec));
	if (p->is_covered) {
		strbuf_addf(&counts, ": peak %s", format_bytes(text, p->peak_bytes));
		add_counts(p->alloc_count, p->free_count, p->fail_count, &counts);
	}
	memtrace_text_note(t, 2, "%s%s", strbuf_str(&sb), strbuf_str(&counts));
	if (is_late)
		memtrace_text_note(t, 2, "its end was not told: these are its figures of the last line");
	if (sb.error || counts.error)
		t->pen.sb->error = -ENOMEM;
}

void memtrace_text_end(struct memtrace_text *t, const struct view *v, const struct view_process *p,
		       struct past_process *pp, bool is_late)
{
	_cleanup_strbuf_ struct strbuf held = STRBUF_INIT;
	char text[FORMAT_UNITS_MAX];

	memtrace_text_line(t, v, p, pp);
	say_life(t, v, p, is_late);
	add_held(p, &held);
	if (!p->is_covered)
		memtrace_text_note(t, 2, "what it did not free is not known: it has shown no call");
	else if (p->live_count == 0 && held.len == 0)
		memtrace_text_note(t, 2, "it freed all that it allocated%s", p->is_exact ? "" : ", as far as is known");
	else
		memtrace_text_note(t, 2, "never freed%s: %s in %" PRIu64 " block%s", p->is_exact ? "" : " (not exact)",
				   held.len ? strbuf_str(&held) : format_bytes(text, 0), p->live_count,
				   p->live_count == 1 ? "" : "s");
	if (t->has_stacks)
		memtrace_text_sites(t, v, p, pp);
	else
		memtrace_text_sites_short(t, p);
	if (held.error)
		t->pen.sb->error = held.error;
}

static void summary(struct memtrace_text *t, const struct past_process *pp)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT, what = STRBUF_INIT;
	char text[FORMAT_UNITS_MAX], signed_text[SIGNED_BYTES_MAX];
	const int64_t growth = past_growth_of_all(pp);

	memtrace_text_name(pp->pid, pp->comm, &name);
	strbuf_adds(&what, pp->bytes == VIEW_NONE ? "what it holds is not known" : format_bytes(text, pp->bytes));
	if (growth != VIEW_NONE_INT)
		strbuf_addf(&what, " (%s)", memtrace_signed_bytes(signed_text, growth));
	if (pp->is_covered) {
		pen_phrase(&what, "peak %s", format_bytes(text, pp->peak_bytes));
		add_counts(pp->allocs, pp->frees, pp->fails, &what);
	} else {
		pen_phrase(&what, "by the driver's count: it has shown no call");
	}
	if (pp->is_covered && !pp->is_exact)
		pen_phrase(&what, "not exact");
	memtrace_text_note(t, 2, "%s, looked at for %s: %s", strbuf_str(&name),
			   duration(text, pp->last_usec - pp->first_usec), strbuf_str(&what));
	if (name.error || what.error)
		t->pen.sb->error = -ENOMEM;
}

static int by_start(const void *a, const void *b)
{
	const struct past_process *p = *(struct past_process *const *)a, *q = *(struct past_process *const *)b;

	if (p->start_ticks != q->start_ticks)
		return p->start_ticks < q->start_ticks ? -1 : 1;
	return p->pid < q->pid ? -1 : p->pid > q->pid;
}

void memtrace_text_summaries(struct memtrace_text *t, const struct past *past)
{
	_cleanup_free_ struct past_process **list = calloc(past->processes.len + 1, sizeof(struct past_process *));
	struct past_process *pp;
	size_t iter = 0, len = 0;

	if (!list) {
		t->pen.sb->error = -ENOMEM;
		return;
	}
	while ((pp = past_next(past, &iter)))
		if (pp->last_usec)
			list[len++] = pp;
	qsort(list, len, sizeof(*list), by_start);
	for (size_t i = 0; i < len; i++)
		summary(t, list[i]);
}
