/* SPDX-License-Identifier: MIT */
#include "top/layout.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/when.h"
#include "top/layout_private.h"

/* ---- what all parts use */

void layout_line_add(struct layout_line *l, enum grid_style style, const char *fmt, ...)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const bool is_first = l->column == l->start;
	const size_t gap = is_first ? 0 : 2;
	const size_t room = l->end > l->column + gap ? l->end - l->column - gap : 0;
	va_list ap;

	va_start(ap, fmt);
	strbuf_vaddf(&text, fmt, ap);
	va_end(ap);
	l->g->error = l->g->error ?: text.error;
	if (text.len == 0 || l->is_full)
		return;
	if (!is_first && grid_measure(l->g, strbuf_str(&text), room + 1) > room) {
		l->is_full = true;
		return;
	}
	l->column += gap;
	l->column += grid_put(l->g, l->row, l->column, room, style, strbuf_str(&text));
}

const char *show_bytes(char buf[FORMAT_UNITS_MAX], uint64_t bytes)
{
	return bytes == VIEW_NONE ? UNKNOWN : format_bytes(buf, bytes);
}

const char *show_change(char buf[FORMAT_UNITS_MAX], int64_t bytes)
{
	char size[FORMAT_UNITS_MAX - 1];

	if (bytes == VIEW_NONE_INT)
		return UNKNOWN;
	if (bytes == 0)
		return "0";
	(void)snprintf(size, sizeof(size), "%s", format_bytes(buf, bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes));
	(void)snprintf(buf, FORMAT_UNITS_MAX, "%c%s", bytes < 0 ? '-' : '+', size);
	return buf;
}

const char *show_count(char buf[FORMAT_UNITS_MAX], uint64_t n)
{
	static const char suffixes[] = "kMGTPE";
	size_t i = 0;

	if (n == VIEW_NONE)
		return UNKNOWN;
	if (n < 10000000) {
		(void)snprintf(buf, FORMAT_UNITS_MAX, "%llu", (unsigned long long)n);
		return buf;
	}
	for (n /= 1000; n >= 100000; i++)
		n /= 1000;
	(void)snprintf(buf, FORMAT_UNITS_MAX, "%llu%c", (unsigned long long)n, suffixes[i]);
	return buf;
}

const char *show_percent(char buf[FORMAT_UNITS_MAX], uint32_t percent)
{
	if (percent == VIEW_NONE_32)
		return UNKNOWN;
	(void)snprintf(buf, FORMAT_UNITS_MAX, "%u %%", MIN(percent, 999u));
	return buf;
}

void table_put(struct grid *g, size_t row, const struct table_column *c, enum grid_style style, const char *text)
{
	if (c->width == 0)
		return;
	if (c->is_right)
		grid_put_right(g, row, c->at, c->width, style, text);
	else
		(void)grid_put(g, row, c->at, c->width, style, text);
}

void table_titles(struct grid *g, size_t row, const struct table_column *columns, size_t len)
{
	for (size_t i = 0; i < len; i++)
		table_put(g, row, &columns[i], GRID_TITLE, columns[i].title);
}

/* ---- the head */

static void add_source(const struct view_totals *t, struct layout_line *l)
{
	char buf[FORMAT_UNITS_MAX];

	format_duration(buf, t->uptime_ns / NSEC_PER_SEC * NSEC_PER_SEC);
	if (t->is_daemon)
		layout_line_add(l, GRID_PLAIN, "daemon up %s", buf);
	else
		layout_line_add(l, GRID_PLAIN, "own tracer for %s", buf);
	if (t->is_exact)
		layout_line_add(l, GRID_GOOD, "exact");
	else
		layout_line_add(l, GRID_ALARM, "NOT EXACT: %llu events lost", (unsigned long long)t->lost_events);
	layout_line_add(l, GRID_DIM, "%s", t->host ?: "");
}

static void put_clock(const struct view_totals *t, struct layout_line *l)
{
	char text[16] = "";
	struct tm tm;

	if (!when_local(t->real_usec, &tm) || strftime(text, sizeof(text), "%H:%M:%S", &tm) == 0)
		return;
	if (l->column + 2 + strlen(text) <= l->end)
		(void)grid_put(l->g, l->row, l->end - strlen(text), strlen(text), GRID_PLAIN, text);
}

static void put_first(const struct top_model *m, struct grid *g, size_t row)
{
	struct layout_line l = { .g = g, .row = row, .end = g->width };

	layout_line_add(&l, GRID_BOLD, "gpuxray top");
	if (!m->view)
		return;
	add_source(&m->view->totals, &l);
	put_clock(&m->view->totals, &l);
}

static void add_processes(const struct top_model *m, struct layout_line *l)
{
	const struct view_totals *t = &m->view->totals;
	uint64_t live = 0, firing = t->firing;
	char buf[FORMAT_UNITS_MAX];

	for (size_t i = 0; i < m->rows_len; i++)
		live += m->rows[i].p->live_bytes;
	if (m->rows_len == m->view->processes_len)
		layout_line_add(l, GRID_PLAIN, "%zu process%s", m->rows_len, m->rows_len == 1 ? "" : "es");
	else
		layout_line_add(l, GRID_PLAIN, "%zu of %zu processes", m->rows_len, m->view->processes_len);
	layout_line_add(l, GRID_PLAIN, "%s traced", format_bytes(buf, live));
	if (firing > 0)
		layout_line_add(l, GRID_ALARM, "! %llu firing", (unsigned long long)firing);
	if (t->pending > 0)
		layout_line_add(l, GRID_WARNING, "%llu pending", (unsigned long long)t->pending);
	if (t->uncovered > 0)
		layout_line_add(l, GRID_WARNING, "%llu not traced", (unsigned long long)t->uncovered);
}

static void put_second(const struct top_model *m, struct grid *g, size_t row, bool is_plain)
{
	struct layout_line l = { .g = g, .row = row, .end = g->width };
	char buf[FORMAT_UNITS_MAX];

	if (m->is_paused) {
		layout_line_add(&l, GRID_WARNING, "PAUSED");
		if (m->view)
			layout_line_add(&l, GRID_WARNING, "%s old", format_duration(buf, (m->now_ns - m->view_ns) / NSEC_PER_SEC *
								     NSEC_PER_SEC));
	}
	if (m->view)
		add_processes(m, &l);
	layout_line_add(&l, GRID_DIM, "by %s%s%s", top_sort_name(m->sort), m->is_reversed ? " reversed" : "",
			m->is_tree ? ", tree" : "");
	if (*m->filter)
		layout_line_add(&l, GRID_BOLD, "filter \"%s\"", m->filter);
	if (m->user)
		layout_line_add(&l, GRID_BOLD, "user %s", m->user);
	if (!is_plain)
		layout_line_add(&l, GRID_DIM, "every %s", format_duration(buf, m->interval_ns));
}

static void put_trouble(const struct top_model *m, struct grid *g, size_t row)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char buf[FORMAT_UNITS_MAX];

	if (m->view)
		strbuf_addf(&text, "! %s old: ", format_duration(buf, (m->now_ns - m->view_ns) / NSEC_PER_SEC * NSEC_PER_SEC));
	strbuf_adds(&text, m->trouble);
	(void)grid_put(g, row, 0, g->width, GRID_ALARM, strbuf_str(&text));
	g->error = g->error ?: text.error;
}

/* ---- the foot */

static void put_filter(const struct top_model *m, struct grid *g, size_t row)
{
	const size_t at = grid_put(g, row, 0, g->width, GRID_BOLD, "Filter: "), room = g->width - at;
	const char *text = m->filter;

	/* The end is where one types. */
	while (*text && grid_measure(g, text, room) + 1 > room) {
		do
			text++;
		while (((unsigned char)*text & 0xc0) == 0x80);
	}
	(void)grid_put(g, row, at + grid_put(g, row, at, room, GRID_PLAIN, text), 1, GRID_BOLD, "_");
}

static void put_foot(const struct top_model *m, struct grid *g, size_t row)
{
	static const char *const keys[] = { "q quit",	   "h help",	  "/ filter",	 "> sort",	"t tree",
					    "Enter sites", "i incidents", "Space pause", "+ - interval" };
	struct layout_line l = { .g = g, .row = row, .end = g->width };

	if (m->is_typing) {
		put_filter(m, g, row);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		layout_line_add(&l, GRID_DIM, "%s", keys[i]);
}

/* ---- all of it */

/* Rows that devices get: all where there is room, at most a quarter of the screen. */
static size_t device_rows(const struct top_model *m, size_t height)
{
	const size_t len = m->view ? m->view->devices_len : 0;
	const size_t room = height >= 16 ? MAX(height / 4, (size_t)3) : height >= 9 ? 1 : 0;

	return len == 0 ? 0 : MIN(len + 1, room);
}

void top_layout(struct top_model *m, struct grid *g)
{
	const size_t foot = g->height >= 5 || (m->is_typing && g->height >= 2);
	size_t row = 0, devices, left;
	struct area rest;

	if (g->width == 0 || g->height == 0)
		return;
	if (m->has_help) {
		layout_help(m, g);
		(void)grid_put(g, g->height - 1, 0, g->width, GRID_DIM, "Esc back");
		return;
	}
	/* Of two lines in one row the one that says that something is wrong. */
	if (m->trouble)
		put_trouble(m, g, row++);
	if (row + 1 < g->height || row == 0)
		put_first(m, g, row++);
	if (g->height >= 6)
		put_second(m, g, row++, false);
	devices = MIN(device_rows(m, g->height), g->height - MIN(g->height, row + foot));
	layout_devices(m, g, (struct area){ row, devices });
	row += devices;
	left = g->height - MIN(g->height, row + foot);
	rest = (struct area){ row, m->pane == TOP_PANE_NONE ? left : left >= 8 ? left / 2 : 0 };
	layout_processes(m, g, rest, true);
	layout_pane(m, g, (struct area){ row + rest.height, left - rest.height });
	if (foot)
		put_foot(m, g, g->height - 1);
}

int top_layout_plain(struct top_model *m, size_t width, bool is_ascii, struct grid *ret)
{
	const size_t devices = m->view && m->view->devices_len > 0 ? m->view->devices_len + 1 : 0;
	const size_t incidents = m->view && m->view->incidents_len > 0 ? m->view->incidents_len + 2 : 0;
	const enum top_pane pane = m->pane;
	const size_t head = 2, rows = 1 + MAX(m->rows_len, (size_t)1);
	size_t row = 0;
	int r = grid_init(ret, width, head + devices + rows + incidents, is_ascii);

	if (r < 0)
		return r;
	put_first(m, ret, row++);
	put_second(m, ret, row++, true);
	layout_devices(m, ret, (struct area){ row, devices });
	row += devices;
	layout_processes(m, ret, (struct area){ row, rows }, false);
	row += rows;
	if (incidents > 0) {
		m->pane = TOP_PANE_INCIDENTS;
		layout_pane(m, ret, (struct area){ row, incidents });
		m->pane = pane;
	}
	return ret->error;
}
