/* SPDX-License-Identifier: MIT */
/* Devices, processes, incidents. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "history/render_text_private.h"
#include "history/spark.h"

#define DEVICES_TOLD 64
#define PROCESSES_TOLD 20
#define INCIDENTS_TOLD 20
#define INCIDENT_STACK_LINES 6
#define ALIKE_TOLD 2 /* one by one; the others together, if they are more than one */
#define FEW_BYTES (UINT64_C(1) << 20)
#define NAME_COLUMNS 22
#define BYTES_COLUMNS 10

static void draw(struct pen *p, const struct spark *k, uint64_t full)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	spark_draw(k, full, p->o->is_ascii, &line);
	pen_cell(p, strbuf_str(&line), k->columns);
	if (line.error)
		p->sb->error = line.error;
}

/* Until when what it held last is known to be held. */
static uint64_t end_of(const struct story_process *p)
{
	return p->end_usec > 0 ? p->end_usec : p->is_ended || p->is_cut ? p->last_usec : 0;
}

static bool is_blind(const struct story_gap *g)
{
	/* Of lost events and records it is known what was said besides. */
	return g->kind == GAP_DOWN || g->kind == GAP_SILENT || g->kind == GAP_ASLEEP || g->kind == GAP_BOOT ||
	       (g->kind == GAP_MISSING && g->count == 0);
}

static void add_gaps(const struct story *s, const struct story_host *host, bool is_everywhere, struct spark *k)
{
	for (size_t i = 0; i < s->gaps_len; i++) {
		if (s->gaps[i]->host == host && is_blind(s->gaps[i]))
			spark_add_gap(k, s->gaps[i]->from_usec, s->gaps[i]->until_usec, is_everywhere);
	}
}

/* ---- devices */

static void draw_device(struct pen *p, const struct story_device *d, size_t columns)
{
	const struct story *s = p->s;
	struct spark k;

	if (spark_init(&k, s->from_usec, s->until_usec, columns) < 0) {
		p->sb->error = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < s->processes_len; i++) {
		for (size_t h = 0; h < s->processes[i]->held_len; h++) {
			if (s->processes[i]->held[h].device == d)
				spark_add(&k, &s->processes[i]->held[h].series, end_of(s->processes[i]));
		}
	}
	add_gaps(s, d->host, true, &k);
	if (d->peak_bytes != STORY_ABSENT && d->peak_bytes > 0)
		spark_add_peak(&k, d->peak_usec, d->peak_bytes);
	draw(p, &k, d->total_bytes != STORY_ABSENT ? d->total_bytes : d->peak_bytes);
	spark_done(&k);
}

static size_t device_column(const struct pen *p)
{
	return p->s->hosts_len > 1 ? 2 + NAME_COLUMNS + 1 : 2 + 12 + 1;
}

static size_t device_columns(const struct pen *p)
{
	return MIN(p->width - device_column(p), (size_t)SPARK_COLUMNS_MAX);
}

/* From when to when the lines below are. */
static void add_axis(struct pen *p)
{
	char when[PEN_MOMENT_MAX];

	pen_style(p, PEN_DIM);
	pen_go(p, device_column(p));
	pen_cell(p, pen_moment(p, when, p->s->from_usec), p->moment_width);
	pen_go(p, device_column(p) + device_columns(p) - p->moment_width);
	pen_cell(p, pen_moment(p, when, p->s->until_usec), p->moment_width);
	pen_style(p, PEN_PLAIN);
	pen_end(p);
}

static void add_device(struct pen *p, const struct story_device *d)
{
	const size_t column = device_column(p);
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT, text = STRBUF_INIT;
	char a[FORMAT_UNITS_MAX], b[FORMAT_UNITS_MAX], c[FORMAT_UNITS_MAX], when[PEN_MOMENT_MAX];

	story_device_name(p->s, d, &name);
	pen_go(p, 2);
	pen_cell(p, strbuf_str(&name), column - 3);
	pen_go(p, column);
	draw_device(p, d, device_columns(p));
	pen_end(p);

	if (d->peak_bytes == 0)
		strbuf_adds(&text, "nothing held by traced processes");
	else
		strbuf_addf(&text, "peak %s", text_bytes(a, d->peak_bytes));
	if (d->total_bytes != STORY_ABSENT) {
		const char *share = text_share(c, d->peak_bytes, d->total_bytes);

		strbuf_addf(&text, " of %s", text_bytes(b, d->total_bytes));
		if (d->peak_bytes > 0)
			strbuf_addf(&text, " (%s)", share);
	}
	if (d->peak_bytes > 0)
		strbuf_addf(&text, " at %s", pen_moment(p, when, d->peak_usec));
	if (d->used.len > 0)
		pen_phrase(&text, "in use by everybody at most %s", text_bytes(a, d->used.peak_bytes));
	pen_go(p, column);
	pen_wrap(p, strbuf_str(&text), column, 3);
	pen_end(p);
	p->sb->error = p->sb->error ?: name.error ?: text.error;
}

void text_devices(struct pen *p)
{
	const size_t told = MIN(p->s->devices_len, (size_t)DEVICES_TOLD);
	bool has_capacity = true;

	if (p->s->devices_len == 0)
		return;
	for (size_t i = 0; i < p->s->devices_len; i++)
		has_capacity = has_capacity && p->s->devices[i]->total_bytes != STORY_ABSENT;
	pen_title(p, "Devices", has_capacity ? "of traced processes; full height is the capacity" :
					       "of traced processes");
	add_axis(p);
	for (size_t i = 0; i < told; i++)
		add_device(p, p->s->devices[i]);
	text_more(p, p->s->devices_len - told);
}

/* ---- processes */

/* Of one, or of those alike that come from there on. */
struct processes {
	const struct story_process *first;
	size_t i;	/* of the first, in the story */
	size_t count;	/* that are told together: 1 = it alone */
};

static bool is_among(const struct pen *p, const struct processes *these, size_t i)
{
	if (these->count == 1)
		return i == these->i;
	return i >= these->i && p->kinds->of[i] == p->kinds->of[these->i] && text_is_plain(p->s->processes[i]);
}

static void add_process_to(struct spark *k, const struct story_process *proc)
{
	for (size_t i = 0; i < proc->held_len; i++)
		spark_add(k, &proc->held[i].series, end_of(proc));
}

static void add_highs(struct spark *k, const struct story_process *proc)
{
	if (proc->held_len == 1)
		spark_add_highs(k, &proc->held[0].series);
	else if (proc->peak_usec > 0)
		spark_add_peak(k, proc->peak_usec, proc->peak_bytes);
}

static uint64_t highest_column(const struct spark *k)
{
	uint64_t full = 0;

	for (size_t i = 0; i < k->columns; i++) {
		const uint64_t bytes = spark_column(k, i);

		full = bytes < SPARK_GAP ? MAX(full, bytes) : full;
	}
	return full;
}

static void draw_processes(struct pen *p, const struct processes *these, size_t columns)
{
	struct spark k;

	if (spark_init(&k, p->s->from_usec, p->s->until_usec, columns) < 0) {
		p->sb->error = -ENOMEM;
		return;
	}
	for (size_t i = these->i; i < p->s->processes_len; i++) {
		if (is_among(p, these, i))
			add_process_to(&k, p->s->processes[i]);
	}
	add_gaps(p->s, these->first->host, false, &k);
	for (size_t i = these->i; i < p->s->processes_len; i++) {
		if (is_among(p, these, i))
			add_highs(&k, p->s->processes[i]);
	}
	draw(p, &k, these->count == 1 ? these->first->peak_bytes : highest_column(&k));
	spark_done(&k);
}

static void add_who(const struct story_process *proc, struct strbuf *sb)
{
	if (proc->unit)
		pen_phrase(sb, "%s", proc->unit);
	if (proc->user)
		pen_phrase(sb, "user %s", proc->user);
	if (proc->pod_name && proc->pod_namespace)
		pen_phrase(sb, "pod %s/%s", proc->pod_namespace, proc->pod_name);
	else if (proc->pod)
		pen_phrase(sb, "pod %s", proc->pod);
	if (proc->container_name)
		pen_phrase(sb, "container %s", proc->container_name);
	else if (proc->container)
		pen_phrase(sb, "container %.12s", proc->container);
	if (proc->slurm_job)
		pen_phrase(sb, "Slurm job %s", proc->slurm_job);
	if (proc->tag)
		pen_phrase(sb, "tag %s", proc->tag);
}

static void add_end(struct pen *p, const struct story_process *proc, struct strbuf *sb)
{
	char bytes[FORMAT_UNITS_MAX], when[PEN_MOMENT_MAX];
	const char *live = text_bytes(bytes, proc->live_bytes);

	if (proc->is_cut) {
		pen_phrase(sb, "last heard of at %s with %s, its end was not recorded", pen_moment(p, when, proc->last_usec),
			   live);
	} else if (proc->is_ended) {
		pen_phrase(sb, "ended %s", pen_moment(p, when, proc->end_usec ?: proc->last_usec));
		if (proc->live_bytes != STORY_ABSENT && proc->live_bytes > 0)
			pen_phrase(sb, "holding %s", live);
	} else if (proc->live_bytes != STORY_ABSENT) {
		pen_phrase(sb, "holds %s", live);
	}
}

static void add_devices_of(struct pen *p, const struct story_process *proc, struct strbuf *sb)
{
	char bytes[FORMAT_UNITS_MAX];

	if (proc->held_len == 1 && proc->held[0].device && p->s->devices_len > 1) {
		_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

		story_device_name(p->s, proc->held[0].device, &name);
		pen_phrase(sb, "on %s only", strbuf_str(&name));
		sb->error = sb->error ?: name.error;
	}
	for (size_t i = 0; i < proc->held_len && proc->held_len > 1; i++) {
		const struct story_held *h = &proc->held[i];
		_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

		if (h->device)
			story_device_name(p->s, h->device, &name);
		else
			strbuf_adds(&name, "unnamed device");
		pen_phrase(sb, "%s at most %s", strbuf_str(&name), text_bytes(bytes, h->series.peak_bytes));
		if (name.error)
			sb->error = name.error;
	}
}

static bool is_some(uint64_t n)
{
	return n != STORY_ABSENT && n > 0;
}

static bool is_much(uint64_t bytes)
{
	return bytes != STORY_ABSENT && bytes >= FEW_BYTES;
}

/* Of a process, without those that its failed allocations are told as. */
static uint64_t count_incidents(const struct story *s, const struct story_process *proc)
{
	uint64_t n = 0;

	for (size_t i = 0; proc->incidents > 0 && i < s->incidents_len; i++)
		n += s->incidents[i]->process == proc && !text_is_failure(s, s->incidents[i]);
	return n;
}

static void add_numbers(const struct story *s, const struct story_process *proc, struct strbuf *sb)
{
	uint64_t incidents = count_incidents(s, proc);
	char bytes[FORMAT_UNITS_MAX];

	if (is_much(proc->host_bytes))
		pen_phrase(sb, "%s pinned host memory", text_bytes(bytes, proc->host_bytes));
	if (is_much(proc->managed_bytes))
		pen_phrase(sb, "%s managed", text_bytes(bytes, proc->managed_bytes));
	if (is_some(proc->fail_count))
		pen_count(sb, proc->fail_count, "failed allocation", "failed allocations");
	if (incidents > 0)
		pen_count(sb, incidents, "incident", "incidents");
	if (is_some(proc->lost_events))
		pen_count(sb, proc->lost_events, "lost event", "lost events");
	if (!proc->is_exact)
		pen_phrase(sb, "not exact");
}

static void add_line(struct pen *p, const char *text, size_t lines)
{
	if (!*text)
		return;
	pen_go(p, 4);
	pen_wrap(p, text, 4, lines);
	pen_end(p);
}

static void add_row(struct pen *p, const char *name, const struct processes *these)
{
	const size_t right = BYTES_COLUMNS + 2 + p->moment_width, column = 2 + NAME_COLUMNS + 1;
	char bytes[FORMAT_UNITS_MAX], when[PEN_MOMENT_MAX];

	pen_go(p, 2);
	pen_style(p, PEN_BOLD);
	pen_cell(p, name, NAME_COLUMNS);
	pen_style(p, PEN_PLAIN);
	pen_go(p, column);
	draw_processes(p, these, MIN(p->width - column - 1 - right, (size_t)SPARK_COLUMNS_MAX));
	pen_go(p, p->width - right);
	pen_right(p, text_bytes(bytes, these->first->peak_bytes), BYTES_COLUMNS);
	pen_go(p, p->width - p->moment_width);
	pen_cell(p, these->count == 1 ? pen_moment(p, when, these->first->peak_usec) : "at most", p->moment_width);
	pen_end(p);
}

static void add_process(struct pen *p, const struct processes *these)
{
	const struct story_process *proc = these->first;
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT, who = STRBUF_INIT, text = STRBUF_INIT;

	pen_process_name(p, proc, &name);
	add_row(p, strbuf_str(&name), these);
	pen_style(p, PEN_DIM);
	add_line(p, proc->cmdline ?: proc->exe ?: "", 1);
	pen_style(p, PEN_PLAIN);
	add_who(proc, &who);
	add_line(p, strbuf_str(&who), 2);
	add_end(p, proc, &text);
	add_devices_of(p, proc, &text);
	add_numbers(p->s, proc, &text);
	add_line(p, strbuf_str(&text), 4);
	p->sb->error = p->sb->error ?: name.error ?: who.error ?: text.error;
}

static void add_ends_of(struct pen *p, const struct processes *these, struct strbuf *sb)
{
	uint64_t from = UINT64_MAX, until = 0, live = 0;
	char when[PEN_MOMENT_MAX], bytes[FORMAT_UNITS_MAX];
	size_t ended = 0, cut = 0;

	for (size_t i = these->i; i < p->s->processes_len; i++) {
		const struct story_process *proc = p->s->processes[i];

		if (!is_among(p, these, i))
			continue;
		cut += proc->is_cut;
		if (proc->is_ended && !proc->is_cut) {
			ended++;
			from = MIN(from, proc->end_usec ?: proc->last_usec);
			until = MAX(until, proc->end_usec ?: proc->last_usec);
		} else if (!proc->is_cut && proc->live_bytes != STORY_ABSENT) {
			live += MIN(proc->live_bytes, STORY_ABSENT - 1 - live);
		}
	}
	if (ended > 0) {
		if (ended < these->count)
			strbuf_addf(sb, "%zu ", ended);
		strbuf_addf(sb, "ended %s", pen_moment(p, when, from));
		if (until > from)
			strbuf_addf(sb, " to %s", pen_moment(p, when, until));
	}
	if (cut > 0)
		pen_phrase(sb, "of %zu the end was not recorded", cut);
	if (ended + cut < these->count)
		pen_phrase(sb, "%zu hold %s together", these->count - ended - cut, text_bytes(bytes, live));
}

static bool has_held(const struct story_process *proc, const struct story_device *d)
{
	for (size_t i = 0; i < proc->held_len; i++) {
		if (proc->held[i].device == d)
			return true;
	}
	return false;
}

static void add_devices_of_all(struct pen *p, const struct processes *these, struct strbuf *sb)
{
	size_t devices = 0;

	for (size_t d = 0; d < p->s->devices_len; d++) {
		bool is_held = false;

		/* Those that are alike are of one host. */
		if (p->s->devices[d]->host != these->first->host)
			continue;
		for (size_t i = these->i; i < p->s->processes_len && !is_held; i++)
			is_held = is_among(p, these, i) && has_held(p->s->processes[i], p->s->devices[d]);
		devices += is_held;
	}
	if (p->s->devices_len > 1 && devices > 0)
		strbuf_addf(sb, ", on %zu device%s", devices, devices == 1 ? "" : "s");
}

static void add_alike(struct pen *p, const struct processes *these)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT, who = STRBUF_INIT, text = STRBUF_INIT;
	char bytes[FORMAT_UNITS_MAX];

	strbuf_addf(&name, "%zu more %s", these->count, these->first->comm ?: "?");
	add_row(p, strbuf_str(&name), these);
	text_label(these->first, &who);
	if (these->first->user)
		pen_phrase(&who, "user %s", these->first->user);
	add_line(p, strbuf_str(&who), 2);
	add_ends_of(p, these, &text);
	pen_phrase(&text, "at most %s each", text_bytes(bytes, these->first->peak_bytes));
	add_devices_of_all(p, these, &text);
	add_line(p, strbuf_str(&text), 2);
	p->sb->error = p->sb->error ?: name.error ?: who.error ?: text.error;
}

/* Those from the i-th on that are told together with it; 0 = it has been told with another. */
static size_t count_alike(const struct pen *p, size_t i, size_t *plain)
{
	const struct processes from_here = { p->s->processes[i], i, SIZE_MAX };
	size_t count = 0;

	if (p->o->processes > 0 || !text_is_plain(p->s->processes[i]))
		return 1;
	if (++*plain <= ALIKE_TOLD)
		return 1;
	if (*plain > ALIKE_TOLD + 1)
		return 0;
	for (size_t k = i; k < p->s->processes_len; k++)
		count += is_among(p, &from_here, k);
	/* One alone takes no more room. */
	*plain -= count == 1;
	return count;
}

void text_processes(struct pen *p)
{
	const size_t max = p->o->processes ?: PROCESSES_TOLD;
	_cleanup_free_ size_t *plain = calloc(p->kinds->len + 1, sizeof(*plain));
	size_t told = 0;

	if (!plain)
		p->sb->error = -ENOMEM;
	if (p->s->processes_len == 0 || !plain)
		return;
	pen_title(p, "Processes", "highest peak first, which is the full height");
	for (size_t i = 0, entries = 0; i < p->s->processes_len && entries < max; i++) {
		const struct processes these = { p->s->processes[i], i, count_alike(p, i, &plain[p->kinds->of[i]]) };

		if (these.count == 0)
			continue;
		if (these.count == 1)
			add_process(p, &these);
		else
			add_alike(p, &these);
		entries++;
		told += these.count;
	}
	text_more(p, p->s->processes_len - told);
}

/* ---- incidents */

static void add_times(struct pen *p, const struct story_incident *i, struct strbuf *sb)
{
	char span[FORMAT_UNITS_MAX], when[PEN_MOMENT_MAX];
	const bool has_span = i->state != STORY_SINGLE && i->duration_sec != STORY_ABSENT && i->duration_sec > 0;

	strbuf_addf(sb, "%s%s%s", i->state == STORY_FIRING ? "since " : "", i->is_older ? "before " : "",
		    pen_moment(p, when, i->begin_usec));
	if (i->state == STORY_RESOLVED)
		strbuf_addf(sb, " to %s", pen_moment(p, when, i->end_usec));
	if (has_span)
		strbuf_addf(sb, " for %s", text_seconds(span, i->duration_sec));
	if (text_is_by_end(i))
		strbuf_adds(sb, ", when the process ended");
}

static void add_doubt(const struct story_incident *i, struct strbuf *sb)
{
	char bytes[FORMAT_UNITS_MAX];

	if (i->peak_value != STORY_ABSENT && i->value != STORY_ABSENT && i->peak_value > i->value && i->value_unit &&
	    strcmp(i->value_unit, "bytes") == 0)
		pen_phrase(sb, "at most %s while it fired", text_bytes(bytes, i->peak_value));
	if (i->confidence >= 0 && i->confidence <= 1)
		pen_phrase(sb, "confidence %.0f %%", i->confidence * 100);
	if (i->caveat)
		strbuf_addf(sb, "%s%s", sb->len > 0 ? ": " : "", i->caveat);
}

static void add_incident(struct pen *p, const struct story_incident *i)
{
	static const char *const states[] = { [STORY_FIRING] = "firing", [STORY_RESOLVED] = "resolved", [STORY_SINGLE] = "once" };
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT, message = STRBUF_INIT, doubt = STRBUF_INIT;

	pen_go(p, 2);
	pen_style(p, i->state == STORY_FIRING ? PEN_BOLD : i->state == STORY_RESOLVED ? PEN_GREEN : PEN_PLAIN);
	pen_cell(p, states[i->state], 8);
	pen_go(p, 12);
	pen_style(p, severity_style(i->severity));
	pen_cell(p, i->severity ?: "?", 8);
	pen_style(p, PEN_PLAIN);
	pen_go(p, 22);
	strbuf_addf(&text, "%s: ", i->rule ?: i->event ?: "?");
	text_subject(p, i, &text);
	strbuf_adds(&text, ", ");
	add_times(p, i, &text);
	pen_wrap(p, strbuf_str(&text), 22, 4);
	pen_end(p);
	if (i->message) {
		strbuf_addf(&message, "%s%s", text_is_later(i) ? "last: " : "", i->message);
		add_line(p, strbuf_str(&message), 3);
	}
	add_doubt(i, &doubt);
	add_line(p, strbuf_str(&doubt), 3);
	if (i->stack && i->stack->text)
		pen_stack(p, i->stack, 6, INCIDENT_STACK_LINES);
	p->sb->error = p->sb->error ?: text.error ?: message.error ?: doubt.error;
}

void text_incidents(struct pen *p)
{
	struct top top = { .max = INCIDENTS_TOLD };

	for (size_t k = 0; k < p->s->incidents_len; k++) {
		const struct story_incident *i = p->s->incidents[k];

		if (text_is_failure(p->s, i))
			continue;
		top_add(&top, (struct top_item){ .rank = severity_rank(i->severity) + (i->state == STORY_FIRING ? 0 : 10),
						 .usec = i->begin_usec, .what = i });
	}
	if (top.len == 0)
		return;
	pen_title(p, "Incidents", "what still fires first");
	for (size_t k = 0; k < top.len; k++)
		add_incident(p, top.items[k].what);
	text_more(p, top.total - top.len);
}
