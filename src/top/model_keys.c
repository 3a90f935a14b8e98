/* SPDX-License-Identifier: MIT */
#include <limits.h>
#include <string.h>
#include <wchar.h>

#include "base/clock.h"
#include "top/model_private.h"

#define KEY_CTRL_U 21

static const uint64_t intervals_ms[] = { 100, 200, 500, 1000, 2000, 3000, 5000, 10000, 15000, 30000, 60000 };

static const struct {
	char key;
	enum top_sort sort;
} sort_keys[] = {
	{ 'm', TOP_BY_MEMORY }, { 'd', TOP_BY_DRIVER }, { 'g', TOP_BY_GROWTH }, { 'a', TOP_BY_RATE }, { 'c', TOP_BY_SM },
	{ 'f', TOP_BY_FIRING }, { 'p', TOP_BY_PID },	{ 'u', TOP_BY_USER },	{ 'w', TOP_BY_WHERE }, { 'n', TOP_BY_NAME },
};

/* ---- moving */

static size_t moved(size_t at, size_t len, size_t page, uint32_t key)
{
	const size_t last = len > 0 ? len - 1 : 0, step = MAX(page, (size_t)2) - 1;

	switch (key) {
	case TOP_KEY_UP: return at > 0 ? at - 1 : 0;
	case TOP_KEY_DOWN: return MIN(at + 1, last);
	case TOP_KEY_PAGE_UP: return at > step ? at - step : 0;
	case TOP_KEY_PAGE_DOWN: return MIN(at + step, last);
	case TOP_KEY_HOME: return 0;
	default: return last;
	}
}

static void move(struct top_model *m, uint32_t key)
{
	/* What is not longer than the page has one place to be. */
	const size_t stack_places = m->stack_lines > m->pane_page ? m->stack_lines - m->pane_page + 1 : 1;
	const size_t help_places = m->help_lines > m->page ? m->help_lines - m->page + 1 : 1;

	if (m->has_help)
		m->help_scroll = moved(m->help_scroll, help_places, m->page, key);
	else if (m->is_in_pane && m->pane == TOP_PANE_STACK)
		m->stack_scroll = moved(m->stack_scroll, stack_places, m->pane_page, key);
	else if (m->is_in_pane && m->pane == TOP_PANE_SITES)
		m->site = moved(m->site, m->sites_len, m->pane_page, key);
	else if (m->is_in_pane && m->pane == TOP_PANE_INCIDENTS)
		m->pane_scroll = moved(m->pane_scroll, m->view ? m->view->incidents_len : 0, m->pane_page, key);
	else
		top_model_select(m, moved(m->selected, m->rows_len, m->page, key));
}

/* ---- panes */

static void open_pane(struct top_model *m, enum top_pane pane)
{
	m->is_in_pane = true;
	m->pane_scroll = 0;
	m->pane = pane;
	if (pane != TOP_PANE_SITES)
		return;
	/* From now on it is this process, wherever it moves. */
	top_model_select(m, m->selected);
	m->wants_look = true;
}

static void close_pane(struct top_model *m)
{
	m->pane = TOP_PANE_NONE;
	m->is_in_pane = false;
}

static void enter(struct top_model *m)
{
	if (m->pane == TOP_PANE_SITES && m->is_in_pane && m->site < m->sites_len) {
		m->pane = TOP_PANE_STACK;
		m->stack_scroll = 0;
	} else if (m->pane == TOP_PANE_STACK && m->is_in_pane) {
		m->pane = TOP_PANE_SITES;
	} else if (top_model_selected(m)) {
		open_pane(m, TOP_PANE_SITES);
	}
}

static int escape(struct top_model *m)
{
	if (m->has_help) {
		m->has_help = false;
	} else if (m->pane == TOP_PANE_STACK) {
		m->pane = TOP_PANE_SITES;
	} else if (m->pane != TOP_PANE_NONE) {
		close_pane(m);
	} else if (*m->filter) {
		*m->filter = '\0';
		return top_model_arrange(m);
	}
	return 0;
}

/* ---- the filter */

static void erase_char(struct top_model *m)
{
	size_t len = strlen(m->filter);

	while (len > 0 && ((unsigned char)m->filter[--len] & 0xc0) == 0x80)
		continue;
	m->filter[len] = '\0';
}

static void add_char(struct top_model *m, uint32_t key)
{
	const size_t len = strlen(m->filter);
	char bytes[MB_LEN_MAX];
	mbstate_t state = {};
	const size_t n = wcrtomb(bytes, (wchar_t)key, &state);

	if (n > MB_LEN_MAX || len + n >= sizeof(m->filter))
		return;
	memcpy(m->filter + len, bytes, n);
	m->filter[len + n] = '\0';
}

static int type(struct top_model *m, uint32_t key)
{
	if (key == TOP_KEY_ENTER || key == TOP_KEY_ESCAPE)
		m->is_typing = false;
	if (key == TOP_KEY_ERASE)
		erase_char(m);
	else if (key == KEY_CTRL_U || key == TOP_KEY_ESCAPE)
		*m->filter = '\0';
	else if (key >= ' ')
		add_char(m, key);
	return top_model_arrange(m);
}

/* ---- the rest */

static void change_interval(struct top_model *m, bool is_longer)
{
	size_t i = 0;

	if (is_longer) {
		while (i + 1 < ARRAY_SIZE(intervals_ms) && intervals_ms[i] * NSEC_PER_MSEC <= m->interval_ns)
			i++;
		m->interval_ns = MAX(m->interval_ns, intervals_ms[i] * NSEC_PER_MSEC);
	} else {
		for (i = ARRAY_SIZE(intervals_ms) - 1; i > 0 && intervals_ms[i] * NSEC_PER_MSEC >= m->interval_ns;)
			i--;
		m->interval_ns = MIN(m->interval_ns, intervals_ms[i] * NSEC_PER_MSEC);
	}
}

static int sort_by(struct top_model *m, enum top_sort sort)
{
	m->sort = sort;
	m->is_reversed = false;
	return top_model_arrange(m);
}

static int sort_key(struct top_model *m, uint32_t key)
{
	for (size_t i = 0; i < ARRAY_SIZE(sort_keys); i++) {
		if ((uint32_t)sort_keys[i].key == key)
			return sort_by(m, sort_keys[i].sort);
	}
	return 0;
}

static int toggle(struct top_model *m, bool *what)
{
	*what = !*what;
	return top_model_arrange(m);
}

static void pause_or_go(struct top_model *m)
{
	m->is_paused = !m->is_paused;
	m->wants_look = m->wants_look || !m->is_paused;
}

static uint32_t as_arrow(uint32_t key)
{
	return key == 'j' ? TOP_KEY_DOWN : key == 'k' ? TOP_KEY_UP : key;
}

int top_model_key(struct top_model *m, uint32_t key)
{
	const bool is_arrow = key >= TOP_KEY_UP && key <= TOP_KEY_END && key != TOP_KEY_LEFT && key != TOP_KEY_RIGHT;

	if (m->is_typing && !is_arrow)
		return type(m, key);
	if (m->has_help && (key == TOP_KEY_ENTER || key == 'q' || key == ' ')) {
		m->has_help = false;
		return 0;
	}
	key = as_arrow(key);
	switch (key) {
	case TOP_KEY_UP:
	case TOP_KEY_DOWN:
	case TOP_KEY_PAGE_UP:
	case TOP_KEY_PAGE_DOWN:
	case TOP_KEY_HOME:
	case TOP_KEY_END: move(m, key); return 0;
	case TOP_KEY_ENTER:
	case TOP_KEY_RIGHT: enter(m); return 0;
	case TOP_KEY_LEFT: return m->pane != TOP_PANE_NONE ? escape(m) : 0;
	case TOP_KEY_ESCAPE: return escape(m);
	case TOP_KEY_TAB: m->is_in_pane = m->pane != TOP_PANE_NONE && !m->is_in_pane; return 0;
	case 'q':
	case 'Q': m->wants_end = true; return 0;
	case '?':
	case 'h': m->has_help = !m->has_help; m->help_scroll = 0; return 0;
	case '/': m->is_typing = true; return 0;
	case ' ': pause_or_go(m); return 0;
	case '+':
	case '=': change_interval(m, true); return 0;
	case '-': change_interval(m, false); return 0;
	case 's': m->pane == TOP_PANE_SITES ? close_pane(m) : open_pane(m, TOP_PANE_SITES); return 0;
	case 'i': m->pane == TOP_PANE_INCIDENTS ? close_pane(m) : open_pane(m, TOP_PANE_INCIDENTS); return 0;
	case 't': return toggle(m, &m->is_tree);
	case 'r': return toggle(m, &m->is_reversed);
	case '>': return sort_by(m, (m->sort + 1) % TOP_SORTS);
	case '<': return sort_by(m, (m->sort + TOP_SORTS - 1) % TOP_SORTS);
	default: return sort_key(m, key);
	}
}
