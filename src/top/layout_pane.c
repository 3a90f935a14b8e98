/* SPDX-License-Identifier: MIT */
/* Below the processes: call sites of the chosen one, one of their stacks, or incidents. */
#include <string.h>

#include "base/clock.h"
#include "top/layout_private.h"

#define BYTES_COLUMNS 10
#define RULE_COLUMNS_MAX 40

static const char *show_age(char buf[FORMAT_UNITS_MAX], uint64_t ns)
{
	if (ns == VIEW_NONE)
		return UNKNOWN;
	return format_duration(buf, ns >= NSEC_PER_SEC ? ns / NSEC_PER_SEC * NSEC_PER_SEC : 0);
}

/* Scrolls so that one of them can be seen. */
static void follow(size_t *scroll, size_t at, size_t len, size_t page)
{
	if (at < *scroll)
		*scroll = at;
	if (at >= *scroll + page)
		*scroll = at + 1 - page;
	*scroll = MIN(*scroll, len - MIN(len, page));
}

static void say(struct grid *g, size_t row, const char *text)
{
	(void)grid_put(g, row, 0, g->width, GRID_DIM, text);
}

/* ---- sites */

enum { BYTES, BLOCKS, CHANGE, AGE, IDLE, CLASS, FRAMEWORK, FUNCTION, FRAMES, COLUMNS };

static void put_site(struct top_model *m, struct grid *g, size_t row, const struct table_column *c, struct top_site *site)
{
	const struct view_site *s = site->s;
	char buf[FORMAT_UNITS_MAX];

	if (!s)
		return;
	table_put(g, row, &c[BYTES], GRID_BOLD, show_bytes(buf, s->bytes));
	table_put(g, row, &c[BLOCKS], GRID_PLAIN, show_count(buf, s->blocks));
	table_put(g, row, &c[CHANGE], GRID_PLAIN, show_change(buf, site->growth));
	table_put(g, row, &c[AGE], GRID_PLAIN, show_age(buf, s->age_ns));
	table_put(g, row, &c[IDLE], GRID_PLAIN, show_age(buf, s->idle_ns));
	table_put(g, row, &c[CLASS], GRID_PLAIN, s->class_name ?: UNKNOWN);
	table_put(g, row, &c[FRAMEWORK], GRID_PLAIN, show_bytes(buf, s->framework_bytes));
	table_put(g, row, &c[FUNCTION], GRID_PLAIN, s->function ?: UNKNOWN);
	if (c[FRAMES].width > 0)
		table_put(g, row, &c[FRAMES], GRID_PLAIN, top_site_frames(m, site));
}

static size_t widest_function(const struct top_model *m, const struct grid *g)
{
	size_t columns = strlen("FUNCTION");

	for (size_t i = 0; i < m->sites_len; i++) {
		if (m->sites[i].s && m->sites[i].s->function)
			columns = MAX(columns, grid_measure(g, m->sites[i].s->function, 32));
	}
	return columns;
}

static void put_sites(struct top_model *m, struct grid *g, struct area a)
{
	struct table_column c[COLUMNS] = {
		[BYTES] = { "BYTES", .min = BYTES_COLUMNS, .is_right = true },
		[BLOCKS] = { "BLOCKS", .min = 8, .rank = 3, .is_right = true },
		[CHANGE] = { "CHANGE", .min = 11, .rank = 2, .is_right = true },
		[AGE] = { "AGE", .min = 8, .rank = 4, .is_right = true },
		[IDLE] = { "IDLE", .min = 8, .rank = 9, .is_right = true },
		[CLASS] = { "CLASS", .min = 8, .rank = 10 },
		[FRAMEWORK] = { "FRAMEWORK", .min = BYTES_COLUMNS, .rank = 11, .is_right = true, .is_absent = true },
		[FUNCTION] = { "FUNCTION", .rank = 8 },
		[FRAMES] = { "INNERMOST FRAMES", .min = 12, .good = 40, .most = SIZE_MAX, .rank = 1 },
	};
	size_t row = a.top;

	c[FUNCTION].min = widest_function(m, g);
	for (size_t i = 0; i < m->sites_len; i++)
		c[FRAMEWORK].is_absent &= !m->sites[i].s || m->sites[i].s->framework_bytes == 0;
	table_fit(c, COLUMNS, g->width);
	if (a.height > 1)
		table_titles(g, row++, c, COLUMNS);
	m->pane_page = a.top + a.height - row;
	follow(&m->pane_scroll, m->site, m->sites_len, m->pane_page);
	for (size_t i = m->pane_scroll; i < m->sites_len && row < a.top + a.height; i++, row++) {
		put_site(m, g, row, c, &m->sites[i]);
		if (m->is_in_pane && i == m->site)
			grid_choose(g, row);
	}
}

/* Why there is nothing to see; NULL where there is. */
static const char *no_sites(const struct top_model *m, const struct view_process *p)
{
	if (!p)
		return "No process is chosen.";
	if (!p->is_covered)
		return "It is not traced: nobody knows where it allocates.";
	if (m->sites_of != top_process_key(p))
		return "Asking ...";
	return m->sites_len == 0 ? "No call site of it is known." : NULL;
}

/* ---- a stack */

static void put_stack(struct top_model *m, struct grid *g, struct area a, const struct view_site *s)
{
	const char *text = s->stack ?: "";
	size_t n = 0, row = a.top;

	m->stack_lines = (s->stack_info != NULL) + (*text != '\0');
	for (const char *t = text; *t; t++)
		m->stack_lines += *t == '\n';
	m->pane_page = a.height;
	m->stack_scroll = MIN(m->stack_scroll, m->stack_lines - MIN(m->stack_lines, a.height));
	for (; *text; text += strcspn(text, "\n"), text += *text == '\n', n++) {
		_cleanup_strbuf_ struct strbuf frame = STRBUF_INIT;

		if (n < m->stack_scroll || row == a.top + a.height)
			continue;
		strbuf_add(&frame, text, strcspn(text, "\n"));
		(void)grid_put(g, row++, 0, g->width, GRID_PLAIN, strbuf_str(&frame));
		g->error = g->error ?: frame.error;
	}
	if (s->stack_info && row < a.top + a.height)
		(void)grid_put(g, row, 0, g->width, GRID_WARNING, s->stack_info);
}

/* ---- incidents */

enum { SEVERITY, STATE, RULE, SUBJECT, VALUE, LIMIT, SINCE, INCIDENT_COLUMNS };

/* "41 GiB", "1.5 GiB/s", "12", "300/s" */
static void put_value(struct grid *g, size_t row, const struct table_column *c, uint64_t value, const char *unit)
{
	const bool is_bytes = unit && strncmp(unit, "bytes", 5) == 0, is_rate = unit && strchr(unit, '/');
	char number[FORMAT_UNITS_MAX], buf[FORMAT_UNITS_MAX + 2];

	(void)snprintf(buf, sizeof(buf), "%s%s", is_bytes ? show_bytes(number, value) : show_count(number, value),
		       is_rate && value != VIEW_NONE ? "/s" : "");
	table_put(g, row, c, GRID_PLAIN, buf);
}

static void add_subject(const struct top_model *m, const struct view_incident *i, struct strbuf *sb)
{
	if (i->pid == VIEW_NONE_32) {
		strbuf_addf(sb, "%s%s%s", i->scope ?: "?", i->key ? " " : "", i->key ?: "");
		return;
	}
	for (size_t n = 0; n < m->view->processes_len; n++) {
		if (m->view->processes[n].pid == i->pid) {
			strbuf_addf(sb, "%s[%u]", m->view->processes[n].comm ?: "?", i->pid);
			return;
		}
	}
	strbuf_addf(sb, "process %u", i->pid);
}

static void put_incident(const struct top_model *m, struct grid *g, size_t row, const struct table_column *c,
			 const struct view_incident *i)
{
	const bool is_firing = i->state && strcmp(i->state, "firing") == 0;
	_cleanup_strbuf_ struct strbuf subject = STRBUF_INIT;
	char buf[FORMAT_UNITS_MAX];

	add_subject(m, i, &subject);
	table_put(g, row, &c[SEVERITY], is_firing ? GRID_ALARM : GRID_PLAIN, i->severity ?: UNKNOWN);
	table_put(g, row, &c[STATE], GRID_PLAIN, i->state ?: UNKNOWN);
	table_put(g, row, &c[RULE], GRID_BOLD, i->rule ?: UNKNOWN);
	table_put(g, row, &c[SUBJECT], GRID_PLAIN, strbuf_str(&subject));
	put_value(g, row, &c[VALUE], i->value, i->value_unit);
	put_value(g, row, &c[LIMIT], i->limit, i->value_unit);
	table_put(g, row, &c[SINCE], GRID_PLAIN, show_age(buf, i->age_ns));
	g->error = g->error ?: subject.error;
}

static void put_incidents(struct top_model *m, struct grid *g, struct area a)
{
	struct table_column c[INCIDENT_COLUMNS] = {
		[SEVERITY] = { "SEVERITY", .min = 8, .rank = 2 },
		[STATE] = { "STATE", .min = 9, .rank = 3 },
		[RULE] = { "RULE", .min = 10 },
		[SUBJECT] = { "ABOUT", .min = 12, .good = 24, .most = SIZE_MAX, .rank = 1 },
		[VALUE] = { "VALUE", .min = BYTES_COLUMNS + 2, .rank = 4, .is_right = true },
		[LIMIT] = { "LIMIT", .min = BYTES_COLUMNS + 2, .rank = 5, .is_right = true },
		[SINCE] = { "FOR", .min = 8, .rank = 8, .is_right = true },
	};
	const size_t len = m->view->incidents_len;
	size_t row = a.top;

	for (size_t i = 0; i < len; i++)
		c[RULE].good = MAX(c[RULE].good, grid_measure(g, m->view->incidents[i].rule ?: "", RULE_COLUMNS_MAX));
	table_fit(c, INCIDENT_COLUMNS, g->width);
	if (a.height > 1)
		table_titles(g, row++, c, INCIDENT_COLUMNS);
	m->pane_page = a.top + a.height - row;
	m->pane_scroll = MIN(m->pane_scroll, len - MIN(len, m->pane_page));
	for (size_t i = m->pane_scroll; i < len && row < a.top + a.height; i++, row++)
		put_incident(m, g, row, c, &m->view->incidents[i]);
}

/* ---- all of them */

static void put_title(const struct top_model *m, struct grid *g, size_t row, const struct view_process *p,
		      const struct view_site *site)
{
	struct layout_line l = { .g = g, .row = row, .start = 3, .column = 3, .end = g->width };
	const enum grid_style style = m->is_in_pane ? GRID_BOLD : GRID_PLAIN;
	char buf[FORMAT_UNITS_MAX];

	(void)grid_put(g, row, 0, 2, GRID_DIM, g->is_ascii ? "--" : "──");
	if (m->pane == TOP_PANE_INCIDENTS) {
		layout_line_add(&l, style, "Incidents");
		layout_line_add(&l, GRID_DIM, "%zu", m->view ? m->view->incidents_len : 0);
	} else if (!p) {
		layout_line_add(&l, style, "Sites");
	} else if (m->pane == TOP_PANE_STACK && site) {
		layout_line_add(&l, style, "Stack in %s[%u]", p->comm ?: "?", p->pid);
		layout_line_add(&l, GRID_PLAIN, "%s, %llu blocks", show_bytes(buf, site->bytes), (unsigned long long)site->blocks);
		layout_line_add(&l, GRID_DIM, "id %016llx", (unsigned long long)site->stack_id);
	} else {
		layout_line_add(&l, style, "Sites of %s[%u]", p->comm ?: "?", p->pid);
		if (p->is_covered)
			layout_line_add(&l, GRID_DIM, "%llu hold memory", (unsigned long long)p->sites_count);
	}
}

void layout_pane(struct top_model *m, struct grid *g, struct area a)
{
	const struct view_process *p = top_model_selected(m);
	const struct view_site *site = m->site < m->sites_len ? m->sites[m->site].s : NULL;
	const char *why = NULL;

	if (a.height == 0 || m->pane == TOP_PANE_NONE)
		return;
	put_title(m, g, a.top, p, site);
	a.top++;
	a.height--;
	m->pane_page = a.height;
	if (a.height == 0)
		return;
	if (m->pane != TOP_PANE_INCIDENTS)
		why = no_sites(m, p);
	else if (!m->view || m->view->incidents_len == 0)
		why = m->view && !m->view->totals.is_daemon ? "Only the daemon has rules." : "None is pending, none fires.";
	if (why)
		say(g, a.top, why);
	else if (m->pane == TOP_PANE_INCIDENTS)
		put_incidents(m, g, a);
	else if (m->pane == TOP_PANE_STACK && site)
		put_stack(m, g, a, site);
	else
		put_sites(m, g, a);
}
