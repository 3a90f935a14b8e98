/* SPDX-License-Identifier: MIT */
/* The table, and what is new about its processes. */
#include "memtrace/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/when.h"

#define NOTE_LINES 8
#define UNKNOWN "-" /* a number */
#define MARKS_COLUMNS 2
#define INDEXES_MAX 64
/* A program that works calls often, and the driver is asked every second: what is not known by then is worth a word. */
#define EARLY_USEC (3 * USEC_PER_SEC)

static const struct story no_story;

void memtrace_text_init(struct memtrace_text *t, size_t width, bool is_ascii, struct strbuf *sb)
{
	*t = (struct memtrace_text){ .options = { .is_ascii = is_ascii } };
	pen_init(&t->pen, &no_story, &t->options, sb);
	t->pen.width = width;
}

void memtrace_text_done(struct memtrace_text *t)
{
	pen_done(&t->pen);
}

void memtrace_text_name(uint32_t pid, const char *comm, struct strbuf *sb)
{
	strbuf_addf(sb, "%" PRIu32 " ", pid);
	if (comm && *comm)
		text_escape(sb, comm, strlen(comm), 64);
	else
		strbuf_addc(sb, '?');
}

const char *memtrace_signed_bytes(char buf[SIGNED_BYTES_MAX], int64_t bytes)
{
	char size[FORMAT_UNITS_MAX];

	if (bytes == VIEW_NONE_INT)
		return UNKNOWN;
	format_bytes(size, bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes);
	(void)snprintf(buf, SIGNED_BYTES_MAX, "%s%s", bytes > 0 ? "+" : bytes < 0 ? "-" : "", size);
	return buf;
}

void memtrace_text_note(struct memtrace_text *t, size_t indent, const char *fmt, ...)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	strbuf_vaddf(&text, fmt, ap);
	va_end(ap);
	pen_go(&t->pen, indent);
	pen_wrap(&t->pen, strbuf_str(&text), indent + 2, NOTE_LINES);
	pen_end(&t->pen);
	if (text.error)
		t->pen.sb->error = text.error;
}

/* ---- columns */

/* Numbers are never cut: what comes behind one that is too long moves on. */
enum column {
	COLUMN_TIME,
	COLUMN_PID,
	COLUMN_USER,
	COLUMN_GPU,
	COLUMN_INUSE,
	COLUMN_MARKS,
	COLUMN_ALLOCS,
	COLUMN_FREES,
	COLUMN_PEAK,
	COLUMN_HOST,
	COLUMN_MANAGED,
	COLUMN_FAILS,
	COLUMN_DRIVER,
	COLUMN_GROWTH,
	COLUMN_COMM,
};

static const struct {
	const char *name;
	size_t columns;
	bool is_right, is_wide;
} columns[] = {
	[COLUMN_TIME] = { "TIME", 8, false, false },	  [COLUMN_PID] = { "PID", 7, true, false },
	[COLUMN_USER] = { "USER", 8, false, false },	  [COLUMN_GPU] = { "GPU", 5, false, false },
	[COLUMN_INUSE] = { "INUSE", 10, true, false },	  [COLUMN_MARKS] = { "", MARKS_COLUMNS, false, false },
	[COLUMN_ALLOCS] = { "AL_CNT", 8, true, false },	  [COLUMN_FREES] = { "FR_CNT", 8, true, false },
	[COLUMN_PEAK] = { "PEAK", 10, true, true },	  [COLUMN_HOST] = { "HOST", 10, true, true },
	[COLUMN_MANAGED] = { "MANAGED", 10, true, true }, [COLUMN_FAILS] = { "FAILS", 6, true, true },
	[COLUMN_DRIVER] = { "DRIVER", 10, true, true },	  [COLUMN_GROWTH] = { "GROWTH", 11, true, true },
	[COLUMN_COMM] = { "COMM", SIZE_MAX, false, false },
};

static size_t column_width(const struct memtrace_text *t, enum column c)
{
	return columns[c].columns + (c == COLUMN_TIME && t->digits ? t->digits + 1 : 0);
}

static size_t column_start(const struct memtrace_text *t, enum column c)
{
	size_t start = 0;

	for (enum column i = COLUMN_TIME; i < c; i++)
		if (t->is_wide || !columns[i].is_wide)
			start += column_width(t, i) + (i != COLUMN_INUSE);
	return start;
}

static void cell(struct memtrace_text *t, enum column c, const char *text)
{
	struct pen *p = &t->pen;
	const size_t width = column_width(t, c), len = strlen(text);

	if (columns[c].is_wide && !t->is_wide)
		return;
	pen_go(p, MAX(column_start(t, c), p->column + (p->column > 0 && c != COLUMN_MARKS)));
	if (c == COLUMN_USER)
		pen_cell(p, text, width);
	else if (columns[c].is_right && len <= width)
		pen_right(p, text, width);
	else
		pen_add(p, text);
}

static void cell_u64(struct memtrace_text *t, enum column c, uint64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, n);
	cell(t, c, n == VIEW_NONE ? UNKNOWN : text);
}

static void cell_bytes(struct memtrace_text *t, enum column c, uint64_t bytes)
{
	char text[FORMAT_UNITS_MAX];

	cell(t, c, bytes == VIEW_NONE ? UNKNOWN : format_bytes(text, bytes));
}

static void cell_foreign(struct memtrace_text *t, enum column c, const char *s)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	if (s)
		text_escape(&text, s, strlen(s), 0);
	cell(t, c, text.len ? strbuf_str(&text) : "?");
	if (text.error)
		t->pen.sb->error = text.error;
}

/* Who asks for more columns shall see them: a terminal that is too narrow wraps them. */
static size_t widen(struct memtrace_text *t)
{
	const size_t width = t->pen.width;

	if (t->is_wide)
		t->pen.width = TEXT_WIDTH_ALL;
	return width;
}

static void end_line(struct memtrace_text *t, size_t width)
{
	pen_end(&t->pen);
	t->pen.width = width;
}

void memtrace_text_header(struct memtrace_text *t)
{
	const size_t width = widen(t);

	for (enum column c = COLUMN_TIME; c < ARRAY_SIZE(columns); c++)
		cell(t, c, columns[c].name);
	end_line(t, width);
}

/* ---- a line */

#define TIME_MAX 64

static void cell_time(struct memtrace_text *t, uint64_t usec)
{
	static const uint64_t units[] = { USEC_PER_SEC, 100000, 10000, 1000 };
	char text[TIME_MAX];
	struct tm tm;
	size_t len;

	if (!when_local(usec, &tm)) {
		cell(t, COLUMN_TIME, "?");
		return;
	}
	len = strftime(text, sizeof(text), "%H:%M:%S", &tm);
	if (t->digits > 0)
		(void)snprintf(text + len, sizeof(text) - len, ".%0*" PRIu64, (int)t->digits,
			       usec % USEC_PER_SEC / units[t->digits]);
	cell(t, COLUMN_TIME, text);
}

static int by_number(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static bool is_held(const struct view_process_device *d)
{
	return d->live_bytes > 0 || (d->driver_bytes > 0 && d->driver_bytes != VIEW_NONE);
}

static void add_span(struct strbuf *sb, const char *mark, int64_t first, int64_t last)
{
	strbuf_addf(sb, "%s%s%" PRId64, sb->len ? "," : "", mark, first);
	if (last > first)
		strbuf_addf(sb, "%s%" PRId64, last == first + 1 ? "," : "-", last);
}

/* "0-3,6", each number once. */
static void add_spans(struct strbuf *sb, const char *mark, int64_t *list, size_t len)
{
	qsort(list, len, sizeof(*list), by_number);
	for (size_t i = 0, next; i < len; i = next) {
		next = i + 1;
		while (next < len && list[next] <= list[next - 1] + 1)
			next++;
		add_span(sb, mark, list[i], list[next - 1]);
	}
}

/* Those where it holds memory: the driver's numbers; #N where only the process's own is known, ? where none is. */
static void cell_devices(struct memtrace_text *t, const struct view_process *p)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	int64_t indexes[INDEXES_MAX], ordinals[INDEXES_MAX];
	size_t indexes_len = 0, ordinals_len = 0;
	bool has_unknown = false;

	for (size_t i = 0; i < p->devices_len; i++) {
		const struct view_process_device *d = &p->devices[i];

		if (!is_held(d))
			continue;
		if (d->index != VIEW_NONE_INT && indexes_len < INDEXES_MAX)
			indexes[indexes_len++] = d->index;
		else if (d->ordinal != VIEW_NONE_INT && ordinals_len < INDEXES_MAX)
			ordinals[ordinals_len++] = d->ordinal;
		else
			has_unknown = true;
	}
	add_spans(&text, "", indexes, indexes_len);
	add_spans(&text, "#", ordinals, ordinals_len);
	if (has_unknown)
		strbuf_adds(&text, text.len ? ",?" : "?");
	cell(t, COLUMN_GPU, text.len ? strbuf_str(&text) : "-");
	if (text.error)
		t->pen.sb->error = text.error;
}

/* It may have held memory before tracing began, which is in none of its numbers. */
static bool is_older(const struct view_process *p)
{
	return p->is_covered && p->is_older && p->baseline_bytes != 0;
}

/* Of its calls, of which one that has shown none has no number. */
static uint64_t of_calls(const struct view_process *p, uint64_t n)
{
	return p->is_covered ? n : VIEW_NONE;
}

static void line(struct memtrace_text *t, const struct view *v, const struct view_process *p, const struct past_process *pp)
{
	char growth[SIGNED_BYTES_MAX], marks[4];
	const size_t width = widen(t);

	(void)snprintf(marks, sizeof(marks), "%s%s%s", p->is_covered ? "" : "*", is_older(p) ? "+" : "",
		       p->is_exact ? "" : "~");
	cell_time(t, v->totals.real_usec);
	cell_u64(t, COLUMN_PID, p->pid);
	cell_foreign(t, COLUMN_USER, p->user);
	cell_devices(t, p);
	cell_bytes(t, COLUMN_INUSE, past_bytes(p));
	cell(t, COLUMN_MARKS, marks);
	cell_u64(t, COLUMN_ALLOCS, of_calls(p, p->alloc_count));
	cell_u64(t, COLUMN_FREES, of_calls(p, p->free_count));
	cell_bytes(t, COLUMN_PEAK, of_calls(p, p->peak_bytes));
	cell_bytes(t, COLUMN_HOST, of_calls(p, p->host_bytes));
	cell_bytes(t, COLUMN_MANAGED, of_calls(p, p->managed_bytes));
	cell_u64(t, COLUMN_FAILS, of_calls(p, p->fail_count));
	cell_bytes(t, COLUMN_DRIVER, p->driver_bytes);
	cell(t, COLUMN_GROWTH, memtrace_signed_bytes(growth, past_growth(pp, p)));
	cell_foreign(t, COLUMN_COMM, p->comm);
	end_line(t, width);
}

/* ---- news */

static const char *moment(char buf[TIME_MAX], uint64_t usec)
{
	struct tm tm;

	if (usec == VIEW_NONE || usec == 0 || !when_local(usec, &tm) || !strftime(buf, TIME_MAX, "%Y-%m-%d %H:%M:%S", &tm))
		(void)snprintf(buf, TIME_MAX, "at a time that is not known");
	return buf;
}

static bool is_early(const struct view *v, const struct past_process *pp)
{
	return !pp->last_usec || v->totals.real_usec < pp->first_usec + EARLY_USEC;
}

static void tell_older(struct memtrace_text *t, const struct view *v, const struct view_process *p, const char *name,
		       struct past_process *pp)
{
	char began[TIME_MAX], traced[TIME_MAX], bytes[FORMAT_UNITS_MAX];
	const bool is_known = p->baseline_bytes != VIEW_NONE;

	if (!is_older(p) || pp->is_baseline_told || (!is_known && (pp->is_unknown_baseline_told || is_early(v, pp))))
		return;
	pp->is_baseline_told = is_known;
	pp->is_unknown_baseline_told = true;
	moment(began, p->start_usec);
	moment(traced, v->totals.traced_usec);
	if (is_known)
		memtrace_text_note(t, 2,
				   "%s began %s, before tracing: calls are counted since %s, and %s that the driver counted "
				   "before is not in INUSE (+)",
				   name, began, traced, format_bytes(bytes, p->baseline_bytes));
	else
		memtrace_text_note(t, 2,
				   "%s began %s, before tracing: calls are counted since %s, and what it held before is not "
				   "in INUSE (+); how much that is the driver has not said",
				   name, began, traced);
}

static void tell_uncovered(struct memtrace_text *t, const struct view *v, const struct view_process *p, const char *name,
			   struct past_process *pp)
{
	_cleanup_strbuf_ struct strbuf reason = STRBUF_INIT;

	if (p->is_covered || pp->is_uncovered_told || (!p->uncovered_reason && !p->is_ended && is_early(v, pp)))
		return;
	pp->is_uncovered_told = true;
	if (p->uncovered_reason)
		text_escape(&reason, p->uncovered_reason, strlen(p->uncovered_reason), 0);
	memtrace_text_note(t, 2, "%s has shown no call: INUSE is what the driver counts (*)%s%s", name, reason.len ? ": " : "",
			   strbuf_str(&reason));
	if (reason.error)
		t->pen.sb->error = reason.error;
}

static void news(struct memtrace_text *t, const struct view *v, const struct view_process *p, struct past_process *pp)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const char *name;

	memtrace_text_name(p->pid, p->comm, &sb);
	name = strbuf_str(&sb);
	tell_older(t, v, p, name, pp);
	tell_uncovered(t, v, p, name, pp);
	if (p->lost_events > pp->lost_events)
		memtrace_text_note(t, 2, "%s: %" PRIu64 " events were lost, its numbers are not exact (~)", name,
				   p->lost_events - pp->lost_events);
	if (pp->last_usec && p->fail_count > pp->fail_count)
		memtrace_text_note(t, 2, "%s: %" PRIu64 " allocation%s failed since the last line", name,
				   p->fail_count - pp->fail_count, p->fail_count - pp->fail_count == 1 ? "" : "s");
	if (sb.error)
		t->pen.sb->error = sb.error;
}

void memtrace_text_line(struct memtrace_text *t, const struct view *v, const struct view_process *p, struct past_process *pp)
{
	line(t, v, p, pp);
	news(t, v, p, pp);
}

void memtrace_text_process(struct memtrace_text *t, const struct view *v, const struct view_process *p,
			   struct past_process *pp)
{
	memtrace_text_line(t, v, p, pp);
	if (t->has_stacks)
		memtrace_text_sites(t, v, p, pp);
}
