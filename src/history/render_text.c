/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/when.h"
#include "history/render_text_private.h"

#define HOSTS_NAMED 3
#define GAPS_TOLD 20
#define SAME_USEC (60 * USEC_PER_SEC)

__extension__ typedef unsigned __int128 u128;

/* ---- what the sections share */

static bool goes_before(const struct top_item *a, const struct top_item *b)
{
	if (a->rank != b->rank)
		return a->rank < b->rank;
	return a->weight != b->weight ? a->weight > b->weight : a->usec < b->usec;
}

void top_add(struct top *top, struct top_item item)
{
	size_t i = top->len;

	top->total++;
	if (top->len == top->max && !goes_before(&item, &top->items[--i]))
		return;
	top->len = i + 1;
	for (; i > 0 && goes_before(&item, &top->items[i - 1]); i--)
		top->items[i] = top->items[i - 1];
	top->items[i] = item;
}

static int compare_time(const void *a, const void *b)
{
	const struct top_item *x = a, *y = b;

	if (x->usec != y->usec)
		return x->usec < y->usec ? -1 : 1;
	return goes_before(x, y) ? -1 : goes_before(y, x);
}

void top_by_time(struct top *top)
{
	qsort(top->items, top->len, sizeof(top->items[0]), compare_time);
}

void text_more(struct pen *p, size_t more)
{
	if (more == 0)
		return;
	pen_go(p, 2);
	pen_style(p, PEN_DIM);
	pen_addf(p, "[%zu more]", more);
	pen_style(p, PEN_PLAIN);
	pen_end(p);
}

unsigned severity_rank(const char *severity)
{
	static const char *const names[] = { "critical", "error", "warning", "notice" };
	unsigned i = 0;

	while (i < ARRAY_SIZE(names) && (!severity || strcmp(names[i], severity) != 0))
		i++;
	return i;
}

enum pen_style severity_style(const char *severity)
{
	const unsigned rank = severity_rank(severity);

	return rank <= 1 ? PEN_RED : rank == 2 ? PEN_YELLOW : PEN_PLAIN;
}

const char *text_bytes(char buf[FORMAT_UNITS_MAX], uint64_t bytes)
{
	return bytes == STORY_ABSENT ? "?" : format_bytes(buf, bytes);
}

const char *text_share(char buf[FORMAT_UNITS_MAX], uint64_t bytes, uint64_t whole)
{
	if (bytes == STORY_ABSENT || whole == STORY_ABSENT || whole == 0)
		return "";
	(void)snprintf(buf, FORMAT_UNITS_MAX, "%llu %%", (unsigned long long)(((u128)bytes * 100 + whole / 2) / whole));
	return buf;
}

const char *text_seconds(char buf[FORMAT_UNITS_MAX], uint64_t seconds)
{
	return format_duration(buf, MIN(seconds, UINT64_MAX / NSEC_PER_SEC) * NSEC_PER_SEC);
}

bool text_is_failure(const struct story *s, const struct story_incident *i)
{
	if (!i->event || strcmp(i->event, "alloc_failure") != 0 || !i->process)
		return false;
	for (size_t k = 0; k < s->failures_len; k++) {
		const struct story_failure *f = s->failures[k];

		if (f->process == i->process && i->begin_usec + SAME_USEC >= f->usec &&
		    i->begin_usec <= f->last_usec + SAME_USEC)
			return true;
	}
	return false;
}

/* ---- the head */

static void add_day(struct strbuf *sb, uint64_t usec, bool has_zone)
{
	char buf[PEN_MOMENT_MAX] = "?";
	struct tm tm;

	if (when_local(usec, &tm))
		(void)strftime(buf, sizeof(buf), "%a %Y-%m-%d %H:%M:%S", &tm);
	strbuf_adds(sb, buf);
	if (has_zone && when_local(usec, &tm) && strftime(buf, sizeof(buf), " %Z", &tm) > 0)
		strbuf_adds(sb, buf);
}

/* The zone once, unless clocks were changed meanwhile. */
static void add_stretch(const struct story *s, struct strbuf *sb)
{
	char span[FORMAT_UNITS_MAX];
	struct tm from, until;
	bool is_changed = when_local(s->from_usec, &from) && when_local(s->until_usec, &until) &&
			  from.tm_gmtoff != until.tm_gmtoff;

	add_day(sb, s->from_usec, is_changed);
	strbuf_adds(sb, " to ");
	add_day(sb, s->until_usec, true);
	strbuf_addf(sb, ", %s", text_seconds(span, (s->until_usec - s->from_usec) / USEC_PER_SEC));
}

static void add_hosts(const struct story *s, struct strbuf *sb)
{
	for (size_t i = 0; i < MIN(s->hosts_len, (size_t)HOSTS_NAMED); i++)
		pen_phrase(sb, "%s", s->hosts[i]->name ?: "?");
	if (s->hosts_len > HOSTS_NAMED)
		strbuf_addf(sb, " and %zu more hosts", s->hosts_len - HOSTS_NAMED);
}

static void add_summary(const struct story *s, struct strbuf *sb)
{
	uint64_t incidents = 0, firing = 0, failures = 0;

	for (size_t i = 0; i < s->incidents_len; i++) {
		if (text_is_failure(s, s->incidents[i]))
			continue;
		incidents++;
		firing += s->incidents[i]->state == STORY_FIRING;
	}
	for (size_t i = 0; i < s->failures_len; i++)
		failures += s->failures[i]->count;
	pen_count(sb, s->devices_len, "device", "devices");
	pen_count(sb, s->processes_len, "process", "processes");
	if (incidents == 0)
		pen_phrase(sb, "no incidents");
	else
		pen_count(sb, incidents, "incident", "incidents");
	if (firing > 0)
		strbuf_addf(sb, " (%llu still firing)", (unsigned long long)firing);
	if (failures > 0)
		pen_count(sb, failures, "failed allocation", "failed allocations");
	if (s->gaps_len > 0)
		pen_count(sb, s->gaps_len, "gap", "gaps");
	strbuf_addc(sb, '.');
}

static void add_head(struct pen *p)
{
	_cleanup_strbuf_ struct strbuf hosts = STRBUF_INIT, stretch = STRBUF_INIT, summary = STRBUF_INIT;

	add_hosts(p->s, &hosts);
	add_stretch(p->s, &stretch);
	add_summary(p->s, &summary);
	pen_style(p, PEN_BOLD);
	pen_add(p, "gpuxray report");
	pen_style(p, PEN_PLAIN);
	pen_go(p, p->column + 2);
	pen_wrap(p, strbuf_str(&hosts), 16, 3);
	pen_end(p);
	pen_wrap(p, strbuf_str(&stretch), 0, 3);
	pen_end(p);
	if (p->o->about) {
		pen_add(p, "Only what is about ");
		pen_wrap(p, p->o->about, 0, 3);
		pen_end(p);
	}
	pen_wrap(p, strbuf_str(&summary), 0, 5);
	pen_end(p);
	p->sb->error = p->sb->error ?: hosts.error ?: stretch.error ?: summary.error;
}

/* ---- what is not known */

static void add_gap(struct pen *p, const struct story_gap *g)
{
	char buf[PEN_MOMENT_MAX];

	pen_go(p, 2);
	pen_cell(p, pen_moment(p, buf, g->from_usec), 16);
	if (g->until_usec > g->from_usec) {
		pen_add(p, " to ");
		pen_cell(p, pen_moment(p, buf, g->until_usec), 16);
	}
	pen_go(p, 2 + 2 * p->moment_width + 6);
	if (p->s->hosts_len > 1 && g->host && g->host->name)
		pen_addf(p, "%s: ", g->host->name);
	pen_wrap(p, g->text ?: story_gap_name(g->kind), 6, 3);
	pen_end(p);
}

static void count_if(struct strbuf *sb, uint64_t n, const char *one, const char *many)
{
	if (n > 0)
		pen_count(sb, n, one, many);
}

static void add_unknown(struct pen *p)
{
	const struct story *s = p->s;
	_cleanup_strbuf_ struct strbuf left = STRBUF_INIT;

	count_if(&left, s->left_out.hosts, "host", "hosts");
	count_if(&left, s->left_out.devices, "device", "devices");
	count_if(&left, s->left_out.processes, "process", "processes");
	count_if(&left, s->left_out.incidents, "incident", "incidents");
	count_if(&left, s->left_out.failures, "failed allocation", "failed allocations");
	count_if(&left, s->left_out.holders, "holder of memory", "holders of memory");
	count_if(&left, s->left_out.sites, "call site", "call sites");
	count_if(&left, s->left_out.stacks, "stack", "stacks");
	count_if(&left, s->left_out.gaps, "gap", "gaps");
	count_if(&left, s->left_out.unreadable, "record that makes no sense", "records that make no sense");
	if (s->gaps_len == 0 && left.len == 0)
		return;
	pen_title(p, "What this report does not know", "");
	for (size_t i = 0; i < MIN(s->gaps_len, (size_t)GAPS_TOLD); i++)
		add_gap(p, s->gaps[i]);
	text_more(p, s->gaps_len - MIN(s->gaps_len, (size_t)GAPS_TOLD));
	if (left.len > 0) {
		pen_go(p, 2);
		pen_add(p, "Left out: ");
		pen_wrap(p, strbuf_str(&left), 6, 5);
		pen_end(p);
	}
	if (left.error)
		p->sb->error = left.error;
}

void render_text(const struct story *s, const struct text_options *o, struct strbuf *sb)
{
	_cleanup_(kinds_done) struct kinds kinds = {};
	struct pen p;

	if (kinds_find(s, &kinds) < 0) {
		sb->error = -ENOMEM;
		return;
	}
	pen_init(&p, s, o, sb);
	p.kinds = &kinds;
	add_head(&p);
	text_moments(&p);
	text_devices(&p);
	text_processes(&p);
	text_incidents(&p);
	text_failures(&p);
	text_sites(&p);
	add_unknown(&p);
	pen_done(&p);
}
