/* SPDX-License-Identifier: MIT */
#include "top/layout_private.h"

static const struct {
	const char *keys, *what;
} lines[] = {
	{ "Up Down j k PgUp PgDn Home End", "choose a process, or scroll the pane" },
	{ "Enter s", "call sites of the process; Enter again: the whole stack" },
	{ "Tab", "to the pane and back" },
	{ "i", "incidents, pending and firing" },
	{ "/", "filter by pid, user, unit, pod, command" },
	{ "Esc", "back; without a pane: no filter" },
	{ "t", "parents and children as a tree" },
	{ "m d g a c", "sort by memory, driver's count, growth, allocations, SM" },
	{ "f p u w n", "sort by incidents, pid, user, unit, name" },
	{ "< >", "sort by the column before or after; r: the other way" },
	{ "Space", "pause" },
	{ "+ -", "look less or more often" },
	{ "h ?", "this help" },
	{ "q", "quit" },
	{ "", "" },
	{ "MEMORY", "device memory that traced calls allocated and did not free" },
	{ "~41.2 GiB", "not exact: events of the process were lost" },
	{ "*10 GiB", "not traced: what the driver says" },
	{ "!2", "two incidents about the process fire" },
	{ "DRIVER", "what the driver says the process holds, its own part included" },
	{ "GROWTH/MIN", "of MEMORY over the last minute" },
	{ "SM", "of the card's multiprocessors, the busiest card's" },
	{ "HISTORY", "5 s a column; full height is the highest of the line" },
	{ "CHANGE", "of a call site since the last look" },
	{ "-", "not known" },
};

void layout_help(struct top_model *m, struct grid *g)
{
	const size_t room = g->height > 0 ? g->height - 1 : 0, keys = g->width >= 90 ? 32 : 14;
	size_t row = 0;

	m->page = room;
	m->help_lines = ARRAY_SIZE(lines);
	m->help_scroll = MIN(m->help_scroll, ARRAY_SIZE(lines) - MIN(ARRAY_SIZE(lines), room));
	for (size_t i = m->help_scroll; i < ARRAY_SIZE(lines) && row < room; i++, row++) {
		(void)grid_put(g, row, 0, keys - 1, GRID_BOLD, lines[i].keys);
		(void)grid_put(g, row, keys, g->width - MIN(g->width, keys), GRID_PLAIN, lines[i].what);
	}
}
