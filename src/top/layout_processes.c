/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "top/layout_private.h"

enum {
	FIRING,
	PID,
	USER,
	WHERE,
	GPU,
	MEMORY,
	DRIVER,
	HOST,
	MANAGED,
	DEVICE,
	ASYNC,
	PHYSICAL,
	ARRAY,
	GRAPH,
	IMPORTED,
	FRAMEWORK,
	PEAK,
	GROWTH,
	RATE,
	SM,
	FAILED,
	NOTE,
	HISTORY,
	COMMAND,
	COLUMNS
};

#define BYTES_COLUMNS 10

/* Of classes of memory: shown where any process has of it. */
static const struct {
	unsigned column;
	size_t offset;
} classes[] = {
	{ HOST, offsetof(struct view_process, host_bytes) },	     { MANAGED, offsetof(struct view_process, managed_bytes) },
	{ DEVICE, offsetof(struct view_process, device_bytes) },     { ASYNC, offsetof(struct view_process, async_bytes) },
	{ PHYSICAL, offsetof(struct view_process, physical_bytes) }, { ARRAY, offsetof(struct view_process, array_bytes) },
	{ GRAPH, offsetof(struct view_process, graph_bytes) },	     { IMPORTED, offsetof(struct view_process, imported_bytes) },
	{ FRAMEWORK, offsetof(struct view_process, framework_bytes) },
};

static uint64_t class_bytes(const struct view_process *p, size_t i)
{
	return *(const uint64_t *)((const char *)p + classes[i].offset);
}

/* ---- texts of cells */

/* Also a context takes memory, which the driver counts. */
static bool holds_on(const struct view_process_device *d)
{
	return d->live_bytes > 0 || (d->driver_bytes != VIEW_NONE && d->driver_bytes > 0);
}

/* Numbers of the devices that it holds memory of as "0,2-7"; of those that have none the process's own. */
static void add_devices(const struct view_process *p, struct strbuf *sb)
{
	bool is_used[64] = {}, has_other = false;

	for (size_t i = 0; i < p->devices_len; i++) {
		const struct view_process_device *d = &p->devices[i];
		const int64_t n = d->index != VIEW_NONE_INT ? d->index : d->ordinal;

		if (!holds_on(d))
			continue;
		if (n >= 0 && n < (int64_t)ARRAY_SIZE(is_used))
			is_used[n] = true;
		else
			has_other = true;
	}
	for (size_t i = 0, end; i < ARRAY_SIZE(is_used); i = end + 1) {
		for (end = i; end < ARRAY_SIZE(is_used) && is_used[end];)
			end++;
		if (end == i)
			continue;
		strbuf_addf(sb, "%s%zu", sb->len > 0 ? "," : "", i);
		if (end - i > 1)
			strbuf_addf(sb, "%c%zu", end - i > 2 ? '-' : ',', end - 1);
	}
	if (has_other)
		strbuf_adds(sb, sb->len > 0 ? ",?" : "?");
}

/* What its numbers need to be read with. */
static void add_note(const struct view_process *p, struct strbuf *sb)
{
	const char *const notes[] = { p->is_ended ? "ended" : NULL, p->is_covered ? NULL : "not traced",
				      p->is_covered && !p->is_exact ? "not exact" : NULL, p->conditions };

	for (size_t i = 0; i < ARRAY_SIZE(notes); i++) {
		if (notes[i] && *notes[i])
			strbuf_addf(sb, "%s%s", sb->len > 0 ? "," : "", notes[i]);
	}
}

static void add_tree(const struct top_row *row, bool is_ascii, struct strbuf *sb)
{
	const unsigned depth = MIN(row->depth, (unsigned)TOP_DEPTH_MAX);

	for (unsigned i = 1; i < depth; i++)
		strbuf_adds(sb, !(row->rails >> i & 1) ? "   " : is_ascii ? "|  " : "│  ");
	if (depth > 0 && row->is_last)
		strbuf_adds(sb, is_ascii ? "`- " : "└─ ");
	else if (depth > 0)
		strbuf_adds(sb, is_ascii ? "|- " : "├─ ");
}

/* What it stands for other than exact books; "" = nothing. */
static const char *memory_mark(const struct view_process *p)
{
	if (!p->is_covered)
		return p->driver_bytes == VIEW_NONE ? "" : "*";
	return p->is_exact ? "" : "~";
}

/* ---- which columns */

typedef void (*add_text_fn)(const struct view_process *p, struct strbuf *sb);

static void add_user(const struct view_process *p, struct strbuf *sb)
{
	strbuf_adds(sb, p->user ?: "");
}

/* As wide as the widest of all rows: it must not change as they scroll. */
static size_t widest(const struct top_model *m, const struct grid *g, size_t most, add_text_fn add)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	size_t columns = 0;

	for (size_t i = 0; i < m->rows_len && columns < most; i++) {
		strbuf_reset(&text);
		add(m->rows[i].p, &text);
		columns = MAX(columns, grid_measure(g, strbuf_str(&text), most));
	}
	return columns;
}

static void add_pid(const struct view_process *p, struct strbuf *sb)
{
	strbuf_addf(sb, "%u", p->pid);
}

static void choose_columns(const struct top_model *m, struct grid *g, struct table_column *c)
{
	const size_t where = widest(m, g, 48, top_process_where), note = widest(m, g, 24, add_note);
	bool has_firing = false, has_failed = false, has_mark = false;

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		c[classes[i].column].is_absent = true;
	for (size_t i = 0; i < m->rows_len; i++) {
		const struct view_process *p = m->rows[i].p;

		has_firing = has_firing || p->firing > 0;
		has_failed = has_failed || p->fail_count > 0;
		has_mark = has_mark || *memory_mark(p);
		for (size_t k = 0; k < ARRAY_SIZE(classes); k++)
			c[classes[k].column].is_absent &= class_bytes(p, k) == 0;
	}
	c[FIRING].is_absent = !has_firing;
	c[FAILED].is_absent = !has_failed;
	c[MEMORY].min += has_mark;
	c[PID].min = MAX(widest(m, g, 10, add_pid), (size_t)5);
	c[USER].min = MAX(MIN(widest(m, g, 16, add_user), (size_t)8), (size_t)4);
	c[USER].most = widest(m, g, 16, add_user);
	c[GPU].min = MAX(widest(m, g, 12, add_devices), (size_t)3);
	c[WHERE].min = MIN(MAX(where, (size_t)8), (size_t)16);
	c[WHERE].most = where;
	c[WHERE].is_absent = where == 0;
	c[NOTE].min = MIN(note, (size_t)10);
	c[NOTE].most = note;
	c[NOTE].is_absent = note == 0;
	table_fit(c, COLUMNS, g->width);
	if (c[COMMAND].width > 0)
		c[COMMAND].width = g->width - c[COMMAND].at;
}

/* ---- rows */

static void put_bytes(struct grid *g, size_t row, const struct table_column *c, uint64_t bytes)
{
	char buf[FORMAT_UNITS_MAX];

	table_put(g, row, c, GRID_PLAIN, show_bytes(buf, bytes));
}

static void put_memory(struct grid *g, size_t row, const struct table_column *c, const struct view_process *p)
{
	char bytes[FORMAT_UNITS_MAX], buf[FORMAT_UNITS_MAX + 1];

	(void)snprintf(buf, sizeof(buf), "%s%s", memory_mark(p), show_bytes(bytes, top_process_bytes(p)));
	table_put(g, row, c, p->is_covered ? GRID_BOLD : GRID_DIM, buf);
}

static void put_firing(struct grid *g, size_t row, const struct table_column *c, const struct view_process *p)
{
	char buf[4] = "";

	if (p->firing > 9)
		(void)snprintf(buf, sizeof(buf), "!+");
	else if (p->firing > 0)
		(void)snprintf(buf, sizeof(buf), "!%u", p->firing);
	table_put(g, row, c, GRID_ALARM, buf);
}

static void put_made(struct grid *g, size_t row, const struct table_column *c, const struct view_process *p, enum grid_style style,
		     add_text_fn add, const char *otherwise)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	if (c->width == 0)
		return;
	add(p, &text);
	table_put(g, row, c, style, text.len > 0 ? strbuf_str(&text) : otherwise);
	g->error = g->error ?: text.error;
}

static void put_history(const struct top_model *m, struct grid *g, size_t row, const struct table_column *c,
			const struct top_row *r)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	if (c->width == 0 || !r->history)
		return;
	top_history_draw(r->history, m->view_ns / VIEW_RECENT_NS, c->width, g->is_ascii, &text);
	table_put(g, row, c, GRID_PLAIN, strbuf_str(&text));
	g->error = g->error ?: text.error;
}

static void put_command(struct grid *g, size_t row, const struct table_column *c, const struct top_row *r)
{
	_cleanup_strbuf_ struct strbuf tree = STRBUF_INIT;
	size_t used;

	if (c->width == 0)
		return;
	add_tree(r, g->is_ascii, &tree);
	/* However deep it stands, something of it is to be read. */
	used = grid_put(g, row, c->at, c->width - MIN(c->width, (size_t)8), GRID_DIM, strbuf_str(&tree));
	(void)grid_put(g, row, c->at + used, c->width - used, GRID_PLAIN, top_process_command(r->p));
	g->error = g->error ?: tree.error;
}

static void put_process(const struct top_model *m, struct grid *g, size_t row, const struct table_column *c,
			const struct top_row *r)
{
	const struct view_process *p = r->p;
	char buf[FORMAT_UNITS_MAX];

	put_firing(g, row, &c[FIRING], p);
	put_made(g, row, &c[PID], p, GRID_PLAIN, add_pid, UNKNOWN);
	put_made(g, row, &c[USER], p, GRID_PLAIN, add_user, UNKNOWN);
	put_made(g, row, &c[WHERE], p, GRID_PLAIN, top_process_where, UNKNOWN);
	put_made(g, row, &c[GPU], p, GRID_PLAIN, add_devices, UNKNOWN);
	put_made(g, row, &c[NOTE], p, GRID_WARNING, add_note, "");
	put_memory(g, row, &c[MEMORY], p);
	put_bytes(g, row, &c[DRIVER], p->driver_bytes);
	put_bytes(g, row, &c[PEAK], p->is_covered ? p->peak_bytes : VIEW_NONE);
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		put_bytes(g, row, &c[classes[i].column], p->is_covered ? class_bytes(p, i) : VIEW_NONE);
	table_put(g, row, &c[GROWTH], top_process_growth(p) > 0 ? GRID_BOLD : GRID_PLAIN,
		  show_change(buf, top_process_growth(p)));
	table_put(g, row, &c[RATE], GRID_PLAIN, show_count(buf, top_process_rate(p)));
	table_put(g, row, &c[SM], GRID_PLAIN, show_percent(buf, top_process_sm(p)));
	table_put(g, row, &c[FAILED], p->fail_count > 0 ? GRID_ALARM : GRID_PLAIN,
		  show_count(buf, p->is_covered ? p->fail_count : VIEW_NONE));
	put_history(m, g, row, &c[HISTORY], r);
	put_command(g, row, &c[COMMAND], r);
}

static void say_empty(const struct top_model *m, struct grid *g, size_t row)
{
	struct layout_line l = { .g = g, .row = row, .end = g->width };

	if (!m->view)
		layout_line_add(&l, GRID_DIM, "No answer yet.");
	else if (m->view->processes_len == 0 && m->has_pids)
		layout_line_add(&l, GRID_DIM, "None of the processes asked for holds GPU memory.");
	else if (m->view->processes_len == 0)
		layout_line_add(&l, GRID_DIM, "No process holds GPU memory.");
	else if (*m->filter)
		layout_line_add(&l, GRID_DIM, "None of %zu processes matches \"%s\"; Esc clears that.", m->view->processes_len,
			 m->filter);
	else
		layout_line_add(&l, GRID_DIM, "None of %zu processes is of user %s.", m->view->processes_len, m->user ?: "?");
}

void layout_processes(struct top_model *m, struct grid *g, struct area a, bool has_choice)
{
	struct table_column c[COLUMNS] = {
		[FIRING] = { "!", .min = 2, .rank = 3 },
		[PID] = { "PID", .is_right = true },
		[USER] = { "USER", .rank = 5 },
		[WHERE] = { "UNIT OR POD", .rank = 11 },
		[GPU] = { "GPU", .rank = 10 },
		[MEMORY] = { "MEMORY", .min = BYTES_COLUMNS, .rank = 1, .is_right = true },
		[DRIVER] = { "DRIVER", .min = BYTES_COLUMNS, .rank = 12, .is_right = true },
		[HOST] = { "HOST", .min = BYTES_COLUMNS, .rank = 14, .is_right = true },
		[MANAGED] = { "MANAGED", .min = BYTES_COLUMNS, .rank = 15, .is_right = true },
		[DEVICE] = { "DEVICE", .min = BYTES_COLUMNS, .rank = 17, .is_right = true },
		[ASYNC] = { "ASYNC", .min = BYTES_COLUMNS, .rank = 18, .is_right = true },
		[PHYSICAL] = { "PHYSICAL", .min = BYTES_COLUMNS, .rank = 19, .is_right = true },
		[ARRAY] = { "ARRAY", .min = BYTES_COLUMNS, .rank = 20, .is_right = true },
		[GRAPH] = { "GRAPH", .min = BYTES_COLUMNS, .rank = 21, .is_right = true },
		[IMPORTED] = { "IMPORTED", .min = BYTES_COLUMNS, .rank = 22, .is_right = true },
		[FRAMEWORK] = { "FRAMEWORK", .min = BYTES_COLUMNS, .rank = 23, .is_right = true },
		[PEAK] = { "PEAK", .min = BYTES_COLUMNS, .rank = 16, .is_right = true },
		[GROWTH] = { "GROWTH/MIN", .min = 11, .rank = 4, .is_right = true },
		[RATE] = { "ALLOC/MIN", .min = 9, .rank = 9, .is_right = true },
		[SM] = { "SM", .min = 5, .rank = 7, .is_right = true },
		[FAILED] = { "FAILED", .min = 7, .rank = 13, .is_right = true },
		[NOTE] = { "NOTE", .rank = 6 },
		[HISTORY] = { "HISTORY", .min = VIEW_RECENT_MAX, .most = 36, .rank = 8 },
		[COMMAND] = { "COMMAND", .min = 12, .good = 18, .most = 60, .rank = 2 },
	};
	size_t row = a.top;

	if (a.height == 0)
		return;
	choose_columns(m, g, c);
	if (a.height > 1)
		table_titles(g, row++, c, COLUMNS);
	m->page = a.top + a.height - row;
	if (m->selected < m->scroll)
		m->scroll = m->selected;
	if (m->selected >= m->scroll + m->page)
		m->scroll = m->selected + 1 - m->page;
	m->scroll = MIN(m->scroll, m->rows_len - MIN(m->rows_len, m->page));
	if (m->rows_len == 0)
		say_empty(m, g, row);
	for (size_t i = m->scroll; i < m->rows_len && row < a.top + a.height; i++, row++) {
		put_process(m, g, row, c, &m->rows[i]);
		if (has_choice && i == m->selected)
			grid_choose(g, row);
	}
}
