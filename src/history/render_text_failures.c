/* SPDX-License-Identifier: MIT */
/* Failed allocations, each with what the device held then; and the call sites that held most. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "history/render_text_private.h"

#define FAILURES_TOLD 10
#define FAILURE_STACK_LINES 6
#define SITES_TOLD 6
#define SITE_STACK_LINES 6
#define HOLDERS_TOLD 8
#define BYTES_COLUMNS 10
#define OLD_USEC (60 * USEC_PER_SEC)

__extension__ typedef unsigned __int128 u128;

static void add_bar(struct pen *p, uint64_t bytes, uint64_t whole, size_t columns)
{
	_cleanup_strbuf_ struct strbuf bar = STRBUF_INIT;
	size_t filled = 0;

	if (bytes != STORY_ABSENT && whole > 0)
		filled = (size_t)MIN(((u128)bytes * columns + whole - 1) / whole, (u128)columns);
	for (size_t i = 0; i < filled; i++)
		strbuf_adds(&bar, p->o->is_ascii ? "#" : "█");
	pen_cell(p, strbuf_str(&bar), columns);
	if (bar.error)
		p->sb->error = bar.error;
}

/* name, bar, bytes, share, note. */
static void add_row(struct pen *p, const char *name, uint64_t bytes, uint64_t whole, const char *note)
{
	const size_t name_columns = MIN(p->width / 2 - 10, (size_t)40);
	const size_t bar_column = 4 + name_columns + 1, right = 1 + BYTES_COLUMNS + 2 + 5 + 2 + 14;
	const size_t columns = MIN(p->width > bar_column + right + 4 ? p->width - bar_column - right : 4, (size_t)40);
	char buf[FORMAT_UNITS_MAX];

	pen_go(p, 4);
	pen_cell(p, name, name_columns);
	pen_go(p, bar_column);
	add_bar(p, bytes, whole, columns);
	pen_go(p, bar_column + columns + 1);
	pen_right(p, text_bytes(buf, bytes), BYTES_COLUMNS);
	pen_go(p, bar_column + columns + 1 + BYTES_COLUMNS + 2);
	pen_right(p, text_share(buf, bytes, whole), 5);
	if (*note)
		pen_go(p, bar_column + columns + 1 + BYTES_COLUMNS + 2 + 5 + 2);
	pen_style(p, PEN_DIM);
	pen_add(p, note);
	pen_style(p, PEN_PLAIN);
	pen_end(p);
}

static void add_holder(struct pen *p, const struct story_failure *f, const struct story_holder *h, uint64_t whole)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	char span[FORMAT_UNITS_MAX], note[PEN_MOMENT_MAX] = "";

	text_who(p, h->process, &name);
	if (f->usec > h->as_of_usec && f->usec - h->as_of_usec >= OLD_USEC)
		(void)snprintf(note, sizeof(note), "%s before",
			       text_seconds(span, (f->usec - h->as_of_usec) / USEC_PER_SEC / 60 * 60));
	add_row(p, strbuf_str(&name), h->bytes, whole, note);
	if (name.error)
		p->sb->error = name.error;
}

/* What shares are of: the capacity, or what was in use, or what is known to have been held. */
static uint64_t whole_of(const struct story_failure *f)
{
	uint64_t sum = 0;

	if (f->device_bytes != STORY_ABSENT)
		return f->device_bytes;
	if (f->device && f->device->total_bytes != STORY_ABSENT)
		return f->device->total_bytes;
	if (f->device_used_bytes != STORY_ABSENT)
		return f->device_used_bytes;
	for (size_t i = 0; i < f->holders_len; i++)
		sum += MIN(f->holders[i].bytes, UINT64_MAX - 1 - sum);
	return sum;
}

static bool has_free(const struct story_failure *f, uint64_t *ret)
{
	const uint64_t total = f->device_bytes != STORY_ABSENT ? f->device_bytes :
			       f->device			? f->device->total_bytes :
								  STORY_ABSENT;

	if (total == STORY_ABSENT || f->device_used_bytes == STORY_ABSENT || f->device_used_bytes > total)
		return false;
	*ret = total - f->device_used_bytes;
	return true;
}

static void add_holders(struct pen *p, const struct story_failure *f)
{
	const size_t told = MIN(f->holders_len, (size_t)HOLDERS_TOLD);
	const uint64_t whole = whole_of(f);
	size_t more = f->holders_left_out + f->holders_len - told;
	uint64_t free_bytes;

	for (size_t i = 0; i < told; i++)
		add_holder(p, f, &f->holders[i], whole);
	if (more > 0) {
		pen_go(p, 4);
		pen_addf(p, "[%zu more]", more);
		pen_end(p);
	}
	if (f->other_bytes != STORY_ABSENT && f->other_bytes > 0)
		add_row(p, "all others", f->other_bytes, whole, "");
	if (has_free(f, &free_bytes))
		add_row(p, "free, or untold", free_bytes, whole, "");
}

static void add_asked(struct pen *p, const struct story_failure *f, struct strbuf *sb)
{
	char buf[FORMAT_UNITS_MAX], when[PEN_MOMENT_MAX], first[PEN_MOMENT_MAX];

	if (f->process)
		text_who(p, f->process, sb);
	else
		strbuf_adds(sb, "a process");
	if (f->bytes != STORY_ABSENT)
		strbuf_addf(sb, " asked for %s", text_bytes(buf, f->bytes));
	else
		strbuf_adds(sb, " was refused memory");
	if (f->device) {
		strbuf_adds(sb, " on ");
		story_device_name(p->s, f->device, sb);
	}
	if (f->live_bytes != STORY_ABSENT)
		strbuf_addf(sb, ", holding %s", text_bytes(buf, f->live_bytes));
	if (f->count > 1)
		strbuf_addf(sb, "; %zu times", f->count);
	if (f->count > 1 && strcmp(pen_moment(p, when, f->last_usec), pen_moment(p, first, f->usec)) != 0)
		strbuf_addf(sb, " until %s", when);
}

static void add_room(struct pen *p, const struct story_failure *f)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char buf[FORMAT_UNITS_MAX];
	uint64_t free_bytes;

	/* Nothing of the kind is behind an argument that makes no sense. */
	if (f->bytes == STORY_ABSENT || f->bytes == 0 || (f->error && !strcasestr(f->error, "memory")))
		return;
	if (!has_free(f, &free_bytes) || free_bytes < f->bytes)
		return;
	strbuf_addf(&text,
		    "By the driver's last count, up to 10 s old, %s were free: taken since, not in one piece, or held back by a "
		    "limit.",
		    text_bytes(buf, free_bytes));
	pen_go(p, 4);
	pen_wrap(p, strbuf_str(&text), 4, 3);
	pen_end(p);
	if (text.error)
		p->sb->error = text.error;
}

static void add_failure(struct pen *p, const struct story_failure *f)
{
	_cleanup_strbuf_ struct strbuf asked = STRBUF_INIT, error = STRBUF_INIT;
	const size_t column = 2 + p->moment_width + 2;
	char when[PEN_MOMENT_MAX];

	add_asked(p, f, &asked);
	pen_go(p, 2);
	pen_style(p, PEN_RED);
	pen_cell(p, pen_moment(p, when, f->usec), p->moment_width);
	pen_style(p, PEN_PLAIN);
	pen_go(p, column);
	pen_wrap(p, strbuf_str(&asked), column, 3);
	pen_end(p);
	if (f->function)
		pen_phrase(&error, "%s", f->function);
	if (f->error)
		strbuf_addf(&error, "%serror %s", error.len > 0 ? ": " : "", f->error);
	if (error.len > 0) {
		pen_go(p, 4);
		pen_wrap(p, strbuf_str(&error), 4, 2);
		pen_end(p);
	}
	add_room(p, f);
	add_holders(p, f);
	if (f->stack)
		pen_stack(p, f->stack, 6, FAILURE_STACK_LINES);
	p->sb->error = p->sb->error ?: asked.error ?: error.error;
}

void text_failures(struct pen *p)
{
	const size_t told = MIN(p->s->failures_len, (size_t)FAILURES_TOLD);

	if (p->s->failures_len == 0)
		return;
	pen_title(p, "Failed allocations", "who held the device then");
	for (size_t i = 0; i < told; i++)
		add_failure(p, p->s->failures[i]);
	text_more(p, p->s->failures_len - told);
}

/* ---- call sites */

/* Of processes that are alike. */
struct site {
	const struct story_stack *stack;
	size_t kind, i; /* i: in the order of the story */
	const struct story_process *first; /* that held most there */
	uint64_t bytes, least_bytes;
	size_t processes;
};

/* The same text may be told apart by the hosts that told it: the id is what counts. */
static int compare_place(const void *a, const void *b)
{
	const struct site *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return strcmp(x->stack->id, y->stack->id) ?: (x->i > y->i) - (x->i < y->i);
}

static int compare_weight(const void *a, const void *b)
{
	const struct site *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	if (x->processes != y->processes)
		return x->processes > y->processes ? -1 : 1;
	return (x->i > y->i) - (x->i < y->i);
}

static size_t list_sites(const struct pen *p, struct site *list)
{
	size_t len = 0;

	for (size_t i = 0; i < p->s->processes_len; i++) {
		const struct story_process *proc = p->s->processes[i];

		for (size_t k = 0; k < proc->sites_len; k++) {
			const struct story_site *site = &proc->sites[k];

			if (site->bytes == STORY_ABSENT || site->bytes == 0)
				continue;
			list[len] = (struct site){ .stack = site->stack, .kind = p->kinds->of[i], .i = len, .first = proc,
						   .bytes = site->bytes, .least_bytes = site->bytes, .processes = 1 };
			len++;
		}
	}
	return len;
}

static size_t join_sites(struct site *list, size_t len)
{
	size_t n = 0;

	qsort(list, len, sizeof(*list), compare_place);
	for (size_t i = 0; i < len; i++) {
		struct site *to = n > 0 ? &list[n - 1] : NULL;

		if (!to || to->kind != list[i].kind || strcmp(to->stack->id, list[i].stack->id) != 0) {
			list[n++] = list[i];
			continue;
		}
		if (list[i].bytes > to->bytes)
			to->first = list[i].first;
		to->stack = to->stack->text ? to->stack : list[i].stack;
		to->bytes = MAX(to->bytes, list[i].bytes);
		to->least_bytes = MIN(to->least_bytes, list[i].bytes);
		to->processes++;
	}
	qsort(list, n, sizeof(*list), compare_weight);
	return n;
}

static void add_site(struct pen *p, const struct site *site)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	char most[FORMAT_UNITS_MAX], least[FORMAT_UNITS_MAX];
	const bool is_same = strcmp(text_bytes(most, site->bytes), text_bytes(least, site->least_bytes)) == 0;

	if (site->processes > 1 && is_same) {
		strbuf_adds(&name, "each in ");
		text_those(p, site->first, site->processes, &name);
	} else {
		text_who(p, site->first, &name);
		if (site->processes > 1)
			strbuf_addf(&name, ", less in %zu other%s", site->processes - 1, site->processes == 2 ? "" : "s");
	}
	pen_go(p, 2);
	pen_right(p, most, BYTES_COLUMNS);
	pen_go(p, 2 + BYTES_COLUMNS + 2);
	pen_cell(p, strbuf_str(&name), p->width - 2 - BYTES_COLUMNS - 2 - 18);
	pen_style(p, PEN_DIM);
	pen_go(p, p->column + 2);
	pen_add(p, site->stack->id);
	pen_style(p, PEN_PLAIN);
	pen_end(p);
	pen_stack(p, site->stack, 6, SITE_STACK_LINES);
	if (name.error)
		p->sb->error = name.error;
}

void text_sites(struct pen *p)
{
	_cleanup_free_ struct site *list = NULL;
	size_t len = 0, told;

	for (size_t i = 0; i < p->s->processes_len; i++)
		len += p->s->processes[i]->sites_len;
	list = calloc(len + 1, sizeof(*list));
	if (!list) {
		p->sb->error = -ENOMEM;
		return;
	}
	len = join_sites(list, list_sites(p, list));
	if (len == 0)
		return;
	pen_title(p, "Call sites", "most memory of one process first, when that held most");
	told = MIN(len, (size_t)SITES_TOLD);
	for (size_t i = 0; i < told; i++)
		add_site(p, &list[i]);
	text_more(p, len - told);
}
