/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "top/layout_private.h"

enum {
	DEVICE,
	BAR,
	TRACED,
	OTHERS,
	FREE,
	TOTAL,
	BUSY,
	MEMORY_BUSY,
	CELSIUS,
	POWER,
	NAME,
	COLUMNS
};

#define BYTES_COLUMNS 10
/* Of an identifier, as much as tells it from others. */
#define UUID_COLUMNS 12
#define UUID_HEAD 4 /* where only ends differ: "MIG-..edc01b" */
#define UUID_TAIL 6

__extension__ typedef unsigned __int128 u128;

static bool is_instance(const struct view_device *d)
{
	return d->uuid && strncmp(d->uuid, "MIG-", 4) == 0;
}

/* d is an instance of that card. Another vendor's may have the same number. */
static bool is_of(const struct view_device *d, const struct view_device *card)
{
	return is_instance(d) && card->uuid && strncmp(card->uuid, "GPU-", 4) == 0 && d->index != VIEW_NONE_INT &&
	       d->index == card->index;
}

static bool has_card(const struct view *v, const struct view_device *d)
{
	for (size_t i = 0; i < v->devices_len; i++) {
		if (is_of(d, &v->devices[i]))
			return true;
	}
	return false;
}

/* Another one begins as it does. */
static bool is_ambiguous(const struct view *v, const struct view_device *d)
{
	for (size_t i = 0; i < v->devices_len; i++) {
		if (&v->devices[i] != d && v->devices[i].uuid && strncmp(v->devices[i].uuid, d->uuid, UUID_COLUMNS) == 0)
			return true;
	}
	return false;
}

/* "GPU 0", "MIG-1c2d3e4f"; as instances of one card all have its number. */
static void add_name(const struct view *v, const struct view_device *d, struct strbuf *sb)
{
	const size_t len = d->uuid ? strlen(d->uuid) : 0;

	if (d->index != VIEW_NONE_INT && !is_instance(d))
		strbuf_addf(sb, "GPU %lld", (long long)d->index);
	else if (len > UUID_COLUMNS && is_ambiguous(v, d))
		strbuf_addf(sb, "%.*s..%s", UUID_HEAD, d->uuid, d->uuid + len - UUID_TAIL);
	else
		strbuf_addf(sb, "%.*s", UUID_COLUMNS, d->uuid ?: "?");
}

/* Of traced processes, of a card with what they hold on its instances: that is in use on the card too. */
static uint64_t live_of(const struct view *v, const struct view_device *d)
{
	uint64_t live = d->live_bytes;

	for (size_t i = 0; i < v->devices_len; i++) {
		if (is_of(&v->devices[i], d))
			live += v->devices[i].live_bytes;
	}
	return live;
}

/* In use by processes that are not traced, and by the driver itself. */
static uint64_t others_of(const struct view_device *d, uint64_t live)
{
	if (d->used_bytes == VIEW_NONE)
		return VIEW_NONE;
	return d->used_bytes - MIN(live, d->used_bytes);
}

static uint64_t free_of(const struct view_device *d, uint64_t live)
{
	const uint64_t used = d->used_bytes == VIEW_NONE ? VIEW_NONE : MAX(d->used_bytes, live);

	if (d->total_bytes == VIEW_NONE || used == VIEW_NONE)
		return VIEW_NONE;
	return d->total_bytes - MIN(used, d->total_bytes);
}

static size_t cells_of(uint64_t bytes, uint64_t total, size_t columns)
{
	return (size_t)(((u128)MIN(bytes, total) * columns + total / 2) / total);
}

static void put_bar(struct grid *g, size_t row, const struct table_column *c, const struct view_device *d, uint64_t live)
{
	const char *const marks[] = { g->is_ascii ? "#" : "█", g->is_ascii ? "=" : "▒", g->is_ascii ? "." : "░" };
	static const enum grid_style styles[] = { GRID_GOOD, GRID_WARNING, GRID_DIM };
	size_t ends[3];

	if (c->width == 0)
		return;
	if (d->total_bytes == VIEW_NONE || d->total_bytes == 0) {
		table_put(g, row, c, GRID_DIM, UNKNOWN);
		return;
	}
	ends[0] = cells_of(live, d->total_bytes, c->width);
	ends[1] = d->used_bytes == VIEW_NONE ? 0 : cells_of(d->used_bytes, d->total_bytes, c->width);
	ends[2] = c->width;
	for (size_t i = 0, at = 0; i < ARRAY_SIZE(ends); i++) {
		for (; at < ends[i]; at++)
			(void)grid_put(g, row, c->at + at, 1, styles[i], marks[i]);
	}
}

static const char *show_power(char buf[FORMAT_UNITS_MAX], const struct view_device *d)
{
	if (d->milliwatts == VIEW_NONE_32)
		return UNKNOWN;
	if (d->milliwatts_max == VIEW_NONE_32)
		(void)snprintf(buf, FORMAT_UNITS_MAX, "%u W", d->milliwatts / 1000);
	else
		(void)snprintf(buf, FORMAT_UNITS_MAX, "%u/%u W", d->milliwatts / 1000, d->milliwatts_max / 1000);
	return buf;
}

static const char *show_celsius(char buf[FORMAT_UNITS_MAX], uint32_t celsius)
{
	if (celsius == VIEW_NONE_32)
		return UNKNOWN;
	(void)snprintf(buf, FORMAT_UNITS_MAX, "%u C", celsius);
	return buf;
}

static void put_device(const struct view *v, struct grid *g, size_t row, const struct table_column *c,
		       const struct view_device *d)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	const uint64_t live = live_of(v, d), free_bytes = free_of(d, live);
	/* Nothing much is left. */
	const bool is_full = free_bytes != VIEW_NONE && free_bytes < d->total_bytes / 20;
	char buf[FORMAT_UNITS_MAX];

	add_name(v, d, &name);
	g->error = g->error ?: name.error;
	table_put(g, row, &c[DEVICE], GRID_BOLD, strbuf_str(&name));
	put_bar(g, row, &c[BAR], d, live);
	table_put(g, row, &c[TRACED], GRID_PLAIN, show_bytes(buf, live));
	table_put(g, row, &c[OTHERS], GRID_PLAIN, show_bytes(buf, others_of(d, live)));
	table_put(g, row, &c[FREE], is_full ? GRID_ALARM : GRID_PLAIN, show_bytes(buf, free_bytes));
	table_put(g, row, &c[TOTAL], GRID_PLAIN, show_bytes(buf, d->total_bytes));
	table_put(g, row, &c[BUSY], GRID_PLAIN, show_percent(buf, d->busy_percent));
	table_put(g, row, &c[MEMORY_BUSY], GRID_PLAIN, show_percent(buf, d->memory_busy_percent));
	table_put(g, row, &c[CELSIUS], GRID_PLAIN, show_celsius(buf, d->celsius));
	table_put(g, row, &c[POWER], GRID_PLAIN, show_power(buf, d));
	table_put(g, row, &c[NAME], GRID_DIM, d->name ?: d->driver ?: UNKNOWN);
}

static size_t name_columns(const struct view *v)
{
	size_t most = strlen("DEVICE");

	for (size_t i = 0; i < v->devices_len; i++) {
		_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

		add_name(v, &v->devices[i], &name);
		most = MAX(most, name.len);
	}
	return most;
}

/* By number, those without one last: as a view has them in no order. */
static const struct view_device *next_device(const struct view *v, const struct view_device *last)
{
	const struct view_device *best = NULL;

	for (const struct view_device *d = v->devices; d < v->devices + v->devices_len; d++) {
		const uint64_t rank = d->index == VIEW_NONE_INT ? UINT64_MAX : (uint64_t)d->index;
		const uint64_t last_rank = !last ? 0 : last->index == VIEW_NONE_INT ? UINT64_MAX : (uint64_t)last->index;
		const uint64_t best_rank = !best ? 0 : best->index == VIEW_NONE_INT ? UINT64_MAX : (uint64_t)best->index;

		if (last && (rank < last_rank || (rank == last_rank && d <= last)))
			continue;
		if (!best || rank < best_rank)
			best = d;
	}
	return best;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a == VIEW_NONE || b == VIEW_NONE ? VIEW_NONE : a + b;
}

/* All devices in one line. What is an instance's is its card's too: it counts where the card is not there. */
static void put_sums(const struct view *v, struct grid *g, size_t row)
{
	struct layout_line l = { .g = g, .row = row, .end = g->width };
	uint64_t traced = 0, others = 0, free_bytes = 0;
	char buf[FORMAT_UNITS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < v->devices_len; i++) {
		const struct view_device *d = &v->devices[i];
		const uint64_t live = live_of(v, d);

		if (has_card(v, d))
			continue;
		n++;
		traced = sum(traced, live);
		others = sum(others, others_of(d, live));
		free_bytes = sum(free_bytes, free_of(d, live));
	}
	layout_line_add(&l, GRID_BOLD, "%zu device%s", n, n == 1 ? "" : "s");
	layout_line_add(&l, GRID_PLAIN, "traced %s", show_bytes(buf, traced));
	layout_line_add(&l, GRID_PLAIN, "others %s", show_bytes(buf, others));
	layout_line_add(&l, GRID_PLAIN, "free %s", show_bytes(buf, free_bytes));
}

void layout_devices(const struct top_model *m, struct grid *g, struct area a)
{
	struct table_column c[COLUMNS] = {
		[DEVICE] = { "DEVICE", .min = 6 },
		[BAR] = { "MEMORY", .min = 8, .good = 20, .most = 40, .rank = 1 },
		[TRACED] = { "TRACED", .min = BYTES_COLUMNS, .rank = 2, .is_right = true },
		[OTHERS] = { "OTHERS", .min = BYTES_COLUMNS, .rank = 5, .is_right = true },
		[FREE] = { "FREE", .min = BYTES_COLUMNS, .rank = 3, .is_right = true },
		[TOTAL] = { "TOTAL", .min = BYTES_COLUMNS, .rank = 8, .is_right = true },
		[BUSY] = { "BUSY", .min = 5, .rank = 4, .is_right = true },
		[MEMORY_BUSY] = { "MEM BUSY", .min = 8, .rank = 10, .is_right = true },
		[CELSIUS] = { "TEMP", .min = 5, .rank = 6, .is_right = true },
		[POWER] = { "POWER", .min = 10, .rank = 7, .is_right = true },
		[NAME] = { "NAME", .min = 8, .good = 16, .most = 40, .rank = 9 },
	};
	const struct view_device *d = NULL;
	size_t row = a.top, left = m->view ? m->view->devices_len : 0;

	if (left == 0 || a.height == 0)
		return;
	if (a.height == 1 && left > 1) {
		put_sums(m->view, g, row);
		return;
	}
	c[DEVICE].min = name_columns(m->view);
	table_fit(c, COLUMNS, g->width);
	if (a.height > left || (a.height > 3 && left > 3))
		table_titles(g, row++, c, COLUMNS);
	for (; row < a.top + a.height && left > 0; row++, left--) {
		struct layout_line more = { .g = g, .row = row, .end = g->width };

		d = next_device(m->view, d);
		if (left > 1 && row + 1 == a.top + a.height) {
			layout_line_add(&more, GRID_DIM, "%zu more devices", left);
			return;
		}
		put_device(m->view, g, row, c, d);
	}
}
