/* SPDX-License-Identifier: MIT */
/* What happened, in order: the most important moments. */
#include <errno.h>
#include <string.h>

#include "history/render_text_private.h"

#define PEAKS_TOLD 5
#define DEVICES_TOLD 4
/* They have sections of their own. */
#define GAPS_TOLD 5
#define FAILURES_TOLD 10
/* Ends of so many that are alike are one moment. */
#define JOINED_MIN 3
/* Of the highest peak of a process: what is smaller is no moment. */
#define SMALL_PART 50

enum kind { FIRED, RESOLVED, FAILED, PEAK, DEVICE_PEAK, ENDED, ENDED_ALL, GAP };

/* Severities have the even ranks, 0 to 8; an end is as telling as its begin and comes behind it. */
#define RANK_FAILED 2
#define RANK_GAP 3
#define RANK_PEAK 5
#define RANK_ENDED 7

/* Of processes that are alike, those that ended and can be told together. */
struct ends {
	const struct story_process *first; /* the highest peak */
	size_t count;
	uint64_t second_bytes; /* the next highest peak */
	uint64_t from_usec, until_usec;
};

struct moments {
	struct pen *p;
	struct top top;
	struct ends *ends; /* by kind */
};

static void add_incidents(struct moments *m)
{
	const struct story *s = m->p->s;

	for (size_t k = 0; k < s->incidents_len; k++) {
		const struct story_incident *i = s->incidents[k];
		const unsigned rank = severity_rank(i->severity) * 2;

		if (!i->is_before && !text_is_failure(s, i))
			top_add(&m->top, (struct top_item){ .rank = rank, .usec = i->begin_usec, .kind = FIRED, .what = i });
		if (i->state == STORY_RESOLVED)
			top_add(&m->top, (struct top_item){ .rank = rank + 1, .usec = i->end_usec, .kind = RESOLVED, .what = i });
	}
}

/* Those of a list of its own that count most; the others are counted. */
static void add_most(struct moments *m, const struct top *most)
{
	for (size_t i = 0; i < most->len; i++)
		top_add(&m->top, most->items[i]);
	m->top.total += most->total - most->len;
}

static void add_failures(struct moments *m)
{
	struct top most = { .max = FAILURES_TOLD };

	for (size_t i = 0; i < m->p->s->failures_len; i++) {
		const struct story_failure *f = m->p->s->failures[i];

		top_add(&most, (struct top_item){ .rank = RANK_FAILED, .weight = f->count, .usec = f->usec, .kind = FAILED, .what = f });
	}
	add_most(m, &most);
}

static void add_gaps(struct moments *m)
{
	struct top most = { .max = GAPS_TOLD };

	for (size_t i = 0; i < m->p->s->gaps_len; i++) {
		const struct story_gap *g = m->p->s->gaps[i];

		top_add(&most, (struct top_item){ .rank = RANK_GAP, .weight = g->until_usec - MIN(g->from_usec, g->until_usec),
						  .usec = g->from_usec, .kind = GAP, .what = g });
	}
	add_most(m, &most);
}

static bool is_small(const struct moments *m, uint64_t bytes)
{
	/* The first has the highest peak. */
	return bytes == STORY_ABSENT || bytes == 0 || bytes < m->p->s->processes[0]->peak_bytes / SMALL_PART;
}

static bool has_end(const struct story_process *proc)
{
	return proc->is_ended && proc->end_usec > 0;
}

static void find_ends(struct moments *m)
{
	for (size_t i = 0; i < m->p->s->processes_len; i++) {
		const struct story_process *proc = m->p->s->processes[i];
		struct ends *e = &m->ends[m->p->kinds->of[i]];

		if (!has_end(proc) || !text_is_plain(proc))
			continue;
		e->first = e->first ?: proc;
		e->second_bytes = e->count == 1 ? proc->peak_bytes : e->second_bytes;
		e->from_usec = e->count++ == 0 ? proc->end_usec : MIN(e->from_usec, proc->end_usec);
		e->until_usec = MAX(e->until_usec, proc->end_usec);
	}
}

static bool is_joined(const struct ends *e, const struct story_process *proc)
{
	return e->count >= JOINED_MIN && has_end(proc) && text_is_plain(proc);
}

/* Its end says as much: it came at once, or it is one of many like it. */
static bool is_peak_told(const struct moments *m, const struct ends *e, const struct story_process *proc)
{
	const uint64_t soon = (m->p->s->until_usec - m->p->s->from_usec) / 100;

	if (is_joined(e, proc))
		return proc != e->first || e->second_bytes >= proc->peak_bytes / 5 * 4;
	return has_end(proc) && proc->end_usec - MIN(proc->peak_usec, proc->end_usec) <= soon;
}

static void add_processes(struct moments *m)
{
	const struct story *s = m->p->s;
	size_t peaks = 0;

	for (size_t k = 0; k < s->processes_len && !is_small(m, s->processes[k]->peak_bytes); k++) {
		const struct story_process *proc = s->processes[k];
		const struct ends *e = &m->ends[m->p->kinds->of[k]];
		struct top_item item = { .rank = RANK_ENDED, .weight = proc->peak_bytes, .usec = proc->end_usec, .kind = ENDED,
					 .what = proc };

		if (proc->peak_usec > 0 && !is_peak_told(m, e, proc) && peaks++ < PEAKS_TOLD)
			top_add(&m->top, (struct top_item){ .rank = RANK_PEAK, .weight = proc->peak_bytes, .usec = proc->peak_usec,
							    .kind = PEAK, .what = proc });
		if (is_joined(e, proc) && proc == e->first)
			item.kind = ENDED_ALL, item.usec = e->from_usec, item.what = e;
		if (has_end(proc) && (!is_joined(e, proc) || proc == e->first))
			top_add(&m->top, item);
	}
}

/* Another's peak, or that of the one process that held all of it. */
static bool is_of_one(const struct story *s, const struct story_device *d)
{
	for (size_t i = 0; i < s->processes_len; i++) {
		for (size_t h = 0; h < s->processes[i]->held_len; h++) {
			if (s->processes[i]->held[h].device == d && s->processes[i]->held[h].series.peak_bytes == d->peak_bytes)
				return true;
		}
	}
	return false;
}

static void add_devices(struct moments *m)
{
	const struct story *s = m->p->s;
	struct top most = { .max = DEVICES_TOLD };

	for (size_t i = 0; i < s->devices_len && s->processes_len > 0; i++) {
		const struct story_device *d = s->devices[i];

		if (d->peak_usec > 0 && !is_small(m, d->peak_bytes) && !is_of_one(s, d))
			top_add(&most, (struct top_item){ .rank = RANK_PEAK, .weight = d->peak_bytes, .usec = d->peak_usec,
							  .kind = DEVICE_PEAK, .what = d });
	}
	add_most(m, &most);
}

static size_t text_column(const struct pen *p)
{
	return 2 + p->moment_width + 2 + 8 + 2;
}

static void say_words(struct pen *p, const char *text)
{
	pen_wrap(p, text, text_column(p), 2);
}

static void say_fired(struct pen *p, const struct story_incident *i)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char bytes[FORMAT_UNITS_MAX];

	if (i->message && !text_is_later(i)) {
		if (p->s->hosts_len > 1 && i->host && i->host->name)
			strbuf_addf(&text, "%s: ", i->host->name);
		strbuf_adds(&text, i->message);
	} else {
		strbuf_addf(&text, "%s: ", i->rule ?: i->event ?: "?");
		text_subject(p, i, &text);
		if (i->peak_value != STORY_ABSENT && i->value_unit && strcmp(i->value_unit, "bytes") == 0)
			strbuf_addf(&text, ", at most %s", text_bytes(bytes, i->peak_value));
		if (i->confidence >= 0 && i->confidence <= 1)
			strbuf_addf(&text, ", confidence %.0f %%", i->confidence * 100);
	}
	say_words(p, strbuf_str(&text));
	p->sb->error = p->sb->error ?: text.error;
}

static void say_resolved(struct pen *p, const struct story_incident *i)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char span[FORMAT_UNITS_MAX];

	strbuf_addf(&text, "%s: ", i->rule ?: i->event ?: "?");
	text_subject(p, i, &text);
	if (i->duration_sec != STORY_ABSENT)
		strbuf_addf(&text, ", after %s", text_seconds(span, i->duration_sec));
	if (text_is_by_end(i))
		strbuf_adds(&text, ", as the process ended");
	say_words(p, strbuf_str(&text));
	p->sb->error = p->sb->error ?: text.error;
}

static void say_failed(struct pen *p, const struct story_failure *f)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char bytes[FORMAT_UNITS_MAX];

	if (f->process)
		text_who(p, f->process, &text);
	else
		strbuf_adds(&text, "a process");
	if (f->bytes != STORY_ABSENT)
		strbuf_addf(&text, " asked for %s", text_bytes(bytes, f->bytes));
	if (f->device) {
		strbuf_adds(&text, " on ");
		story_device_name(p->s, f->device, &text);
	}
	if (f->count > 1)
		strbuf_addf(&text, ", %zu times", f->count);
	say_words(p, strbuf_str(&text));
	if (text.error)
		p->sb->error = text.error;
}

static void say_peak(struct pen *p, const struct story_process *proc)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char bytes[FORMAT_UNITS_MAX];

	text_who(p, proc, &text);
	strbuf_addf(&text, ": %s", text_bytes(bytes, proc->peak_bytes));
	say_words(p, strbuf_str(&text));
	p->sb->error = p->sb->error ?: text.error;
}

static void say_device_peak(struct pen *p, const struct story_device *d)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char bytes[FORMAT_UNITS_MAX], share[FORMAT_UNITS_MAX];

	story_device_name(p->s, d, &text);
	strbuf_addf(&text, ": %s", text_bytes(bytes, d->peak_bytes));
	if (d->total_bytes != STORY_ABSENT) {
		strbuf_addf(&text, " of %s", text_bytes(bytes, d->total_bytes));
		strbuf_addf(&text, " (%s)", text_share(share, d->peak_bytes, d->total_bytes));
	}
	say_words(p, strbuf_str(&text));
	p->sb->error = p->sb->error ?: text.error;
}

/* What was not freed before is no reproach: the driver frees it. */
static void say_ended(struct pen *p, const struct story_process *proc)
{
	const bool has_live = proc->live_bytes != STORY_ABSENT && proc->live_bytes > 0;
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char bytes[FORMAT_UNITS_MAX];

	text_who(p, proc, &text);
	if (has_live)
		strbuf_addf(&text, ", holding %s", text_bytes(bytes, proc->live_bytes));
	if (!has_live || proc->live_bytes < proc->peak_bytes)
		strbuf_addf(&text, ", peak %s", text_bytes(bytes, proc->peak_bytes));
	say_words(p, strbuf_str(&text));
	p->sb->error = p->sb->error ?: text.error;
}

static void say_ended_all(struct pen *p, const struct ends *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char bytes[FORMAT_UNITS_MAX], when[PEN_MOMENT_MAX];

	text_those(p, e->first, e->count, &text);
	strbuf_addf(&text, ", at most %s each", text_bytes(bytes, e->first->peak_bytes));
	if (e->until_usec > e->from_usec)
		strbuf_addf(&text, ", the last %s", pen_moment(p, when, e->until_usec));
	say_words(p, strbuf_str(&text));
	p->sb->error = p->sb->error ?: text.error;
}

static void say_gap(struct pen *p, const struct story_gap *g)
{
	if (p->s->hosts_len > 1 && g->host && g->host->name)
		pen_addf(p, "%s: ", g->host->name);
	say_words(p, g->text ?: story_gap_name(g->kind));
}

static void say_kind(struct pen *p, enum pen_style style, const char *word)
{
	pen_style(p, style);
	pen_cell(p, word, 8);
	pen_style(p, PEN_PLAIN);
	pen_go(p, text_column(p));
}

static void say(struct pen *p, const struct top_item *item)
{
	const struct story_incident *incident = item->what;
	char buf[PEN_MOMENT_MAX];

	pen_go(p, 2);
	pen_cell(p, pen_moment(p, buf, item->usec), p->moment_width);
	pen_go(p, 2 + p->moment_width + 2);
	switch ((enum kind)item->kind) {
	case FIRED:
		say_kind(p, severity_style(incident->severity), incident->severity ?: "?");
		say_fired(p, incident);
		break;
	case RESOLVED:
		say_kind(p, PEN_GREEN, "resolved");
		say_resolved(p, incident);
		break;
	case FAILED:
		say_kind(p, PEN_RED, "failed");
		say_failed(p, item->what);
		break;
	case PEAK:
		say_kind(p, PEN_PLAIN, "peak");
		say_peak(p, item->what);
		break;
	case DEVICE_PEAK:
		say_kind(p, PEN_PLAIN, "peak");
		say_device_peak(p, item->what);
		break;
	case ENDED:
		say_kind(p, PEN_PLAIN, "ended");
		say_ended(p, item->what);
		break;
	case ENDED_ALL:
		say_kind(p, PEN_PLAIN, "ended");
		say_ended_all(p, item->what);
		break;
	case GAP:
		say_kind(p, PEN_YELLOW, "gap");
		say_gap(p, item->what);
		break;
	}
	pen_end(p);
}

void text_moments(struct pen *p)
{
	_cleanup_free_ struct ends *ends = calloc(p->kinds->len + 1, sizeof(*ends));
	struct moments m = { .p = p, .top = { .max = TOP_MAX }, .ends = ends };

	if (!ends) {
		p->sb->error = -ENOMEM;
		return;
	}
	find_ends(&m);
	add_incidents(&m);
	add_failures(&m);
	add_devices(&m);
	add_processes(&m);
	add_gaps(&m);
	if (m.top.len == 0)
		return;
	pen_title(p, "What happened", "");
	top_by_time(&m.top);
	for (size_t i = 0; i < m.top.len; i++)
		say(p, &m.top.items[i]);
	text_more(p, m.top.total - m.top.len);
}
