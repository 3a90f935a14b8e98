/* SPDX-License-Identifier: MIT */
#include "top/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stack/site_key.h"
#include "top/model_private.h"

#define INTERVAL_NS (2 * NSEC_PER_SEC)

static const char *const sort_names[TOP_SORTS] = {
	[TOP_BY_MEMORY] = "memory", [TOP_BY_DRIVER] = "driver", [TOP_BY_HOST] = "host",	    [TOP_BY_PEAK] = "peak",
	[TOP_BY_GROWTH] = "growth", [TOP_BY_RATE] = "rate",	[TOP_BY_SM] = "sm",	    [TOP_BY_FIRING] = "incidents",
	[TOP_BY_PID] = "pid",	    [TOP_BY_USER] = "user",	[TOP_BY_WHERE] = "unit",    [TOP_BY_NAME] = "name",
};

const char *top_sort_name(enum top_sort sort)
{
	return sort_names[sort];
}

int top_sort_parse(const char *name, enum top_sort *ret)
{
	for (size_t i = 0; i < TOP_SORTS; i++) {
		if (strcmp(sort_names[i], name) == 0) {
			*ret = (enum top_sort)i;
			return 0;
		}
	}
	return -EINVAL;
}

void top_model_init(struct top_model *m)
{
	*m = (struct top_model){ .interval_ns = INTERVAL_NS, .are_all_sites = true };
}

void top_model_done(struct top_model *m)
{
	view_free(m->view);
	free(m->trouble);
	free(m->rows);
	top_histories_done(m);
	top_sites_done(m);
	allocators_free(m->allocators);
	*m = (struct top_model){};
}

/* ---- order */

static bool is_by_text(enum top_sort sort)
{
	return sort == TOP_BY_USER || sort == TOP_BY_WHERE || sort == TOP_BY_NAME;
}

/* As a number that may be below zero; false where it is not known. */
static bool number_of(const struct view_process *p, enum top_sort sort, bool *ret_negative, uint64_t *ret)
{
	*ret_negative = false;
	*ret = VIEW_NONE;
	switch (sort) {
	case TOP_BY_MEMORY: *ret = top_process_bytes(p); break;
	case TOP_BY_DRIVER: *ret = p->driver_bytes; break;
	case TOP_BY_HOST: *ret = p->is_covered ? p->host_bytes : VIEW_NONE; break;
	case TOP_BY_PEAK: *ret = p->is_covered ? p->peak_bytes : VIEW_NONE; break;
	case TOP_BY_RATE: *ret = top_process_rate(p); break;
	case TOP_BY_FIRING: *ret = p->firing; break;
	case TOP_BY_PID: *ret = p->pid; break;
	case TOP_BY_SM: *ret = top_process_sm(p) == VIEW_NONE_32 ? VIEW_NONE : top_process_sm(p); break;
	case TOP_BY_GROWTH:
		if (top_process_growth(p) == VIEW_NONE_INT)
			return false;
		*ret_negative = top_process_growth(p) < 0;
		*ret = (uint64_t)top_process_growth(p);
		return true;
	default: break;
	}
	return *ret != VIEW_NONE;
}

/* Below zero: a goes first. Numbers run from the highest on, but for those of processes; what is not known goes last, either
 * way round. */
static int compare_numbers(const struct view_process *a, const struct view_process *b, enum top_sort sort, bool is_reversed)
{
	bool is_a_negative, is_b_negative, is_a_less;
	uint64_t x, y;
	const bool has_a = number_of(a, sort, &is_a_negative, &x), has_b = number_of(b, sort, &is_b_negative, &y);

	if (!has_a || !has_b)
		return (int)has_b - (int)has_a;
	if (x == y && is_a_negative == is_b_negative)
		return 0;
	is_a_less = is_a_negative != is_b_negative ? is_a_negative : x < y;
	return is_a_less == ((sort == TOP_BY_PID) != is_reversed) ? -1 : 1;
}

static int compare_texts(const char *a, const char *b, bool is_reversed)
{
	if (!a || !b)
		return (a ? 0 : 1) - (b ? 0 : 1);
	return is_reversed ? strcasecmp(b, a) : strcasecmp(a, b);
}

static int compare_where(const struct view_process *a, const struct view_process *b, bool is_reversed)
{
	_cleanup_strbuf_ struct strbuf x = STRBUF_INIT, y = STRBUF_INIT;

	top_process_where(a, &x);
	top_process_where(b, &y);
	return compare_texts(x.len > 0 ? strbuf_str(&x) : NULL, y.len > 0 ? strbuf_str(&y) : NULL, is_reversed);
}

static int compare_by(const struct view_process *a, const struct view_process *b, enum top_sort sort, bool is_reversed)
{
	if (!is_by_text(sort))
		return compare_numbers(a, b, sort, is_reversed);
	if (sort == TOP_BY_WHERE)
		return compare_where(a, b, is_reversed);
	if (sort == TOP_BY_USER)
		return compare_texts(a->user, b->user, is_reversed);
	return compare_texts(a->comm ?: top_process_command(a), b->comm ?: top_process_command(b), is_reversed);
}

/* What is equal stands by memory, then by number: the same in every look. */
static int compare_rows(const void *x, const void *y, void *userdata)
{
	const struct top_model *m = userdata;
	const struct view_process *a = ((const struct top_row *)x)->p, *b = ((const struct top_row *)y)->p;

	return compare_by(a, b, m->sort, m->is_reversed) ?: compare_by(a, b, TOP_BY_MEMORY, false) ?:
	       compare_by(a, b, TOP_BY_PID, false) ?: (a->start_ticks > b->start_ticks) - (a->start_ticks < b->start_ticks);
}

/* ---- rows */

static void find_selected(struct top_model *m)
{
	for (size_t i = 0; i < m->rows_len && m->selected_key; i++) {
		if (top_process_key(m->rows[i].p) == m->selected_key) {
			m->selected = i;
			return;
		}
	}
	/* It is gone: who stands there now. */
	if (m->selected_key && m->rows_len > 0)
		top_model_select(m, MIN(m->selected, m->rows_len - 1));
	else
		m->selected = 0;
}

int top_model_arrange(struct top_model *m)
{
	const size_t len = m->view ? m->view->processes_len : 0;
	struct top_row *rows = calloc(len + 1, sizeof(*rows));
	size_t n = 0;

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < len; i++) {
		const struct view_process *p = &m->view->processes[i];

		if (top_model_matches(m, p))
			rows[n++] = (struct top_row){ .p = p, .history = map64_get(&m->histories, top_process_key(p)) };
	}
	qsort_r(rows, n, sizeof(*rows), compare_rows, m);
	free(m->rows);
	m->rows = rows;
	m->rows_len = n;
	if (m->is_tree && top_tree_link(rows, n) < 0)
		return -ENOMEM;
	find_selected(m);
	return 0;
}

int top_model_view(struct top_model *m, struct view *v, uint64_t now_ns)
{
	int r;

	/* Rows and sites point into the one before. */
	m->rows_len = 0;
	for (size_t i = 0; i < m->sites_len; i++)
		m->sites[i].s = NULL;
	view_free(m->view);
	free(TAKE_PTR(m->trouble));
	m->view = v;
	m->view_ns = m->now_ns = now_ns;
	m->look++;
	r = top_histories_add(m);
	if (r == 0)
		r = top_model_arrange(m);
	return r < 0 ? r : top_sites_take(m);
}

int top_model_trouble(struct top_model *m, const char *why)
{
	return view_set(&m->trouble, why);
}

void top_model_query(const struct top_model *m, struct view_query *q, uint32_t *site_pid)
{
	const struct view_process *p = top_model_selected(m);

	q->sites_max = 0;
	q->site_pids = NULL;
	q->site_pids_len = 0;
	if (!p || (m->pane != TOP_PANE_SITES && m->pane != TOP_PANE_STACK))
		return;
	*site_pid = p->pid;
	q->site_pids = site_pid;
	q->site_pids_len = 1;
	q->sites_max = TOP_SITES_MAX;
}

const struct view_process *top_model_selected(const struct top_model *m)
{
	return m->selected < m->rows_len ? m->rows[m->selected].p : NULL;
}

void top_model_select(struct top_model *m, size_t row)
{
	if (row >= m->rows_len)
		return;
	m->selected = row;
	m->selected_key = top_process_key(m->rows[row].p);
	if (m->pane == TOP_PANE_STACK)
		m->pane = TOP_PANE_SITES;
	if (m->pane == TOP_PANE_SITES && m->selected_key != m->sites_of)
		m->wants_look = true;
}
