/* SPDX-License-Identifier: MIT */
#include "top/table.h"

#include "base/cleanup.h"

static size_t good_of(const struct table_column *c)
{
	return MAX(c->good, c->min);
}

static size_t most_of(const struct table_column *c)
{
	return MAX(c->most, good_of(c));
}

/* Of those that are in, at least. */
static size_t needed(const struct table_column *columns, size_t len, bool is_good)
{
	size_t sum = 0;

	for (size_t i = 0; i < len; i++) {
		if (columns[i].width > 0)
			sum += (is_good ? good_of(&columns[i]) : columns[i].min) + (sum > 0 ? TABLE_GAP : 0);
	}
	return sum;
}

/* The next by rank behind that one; those of one rank as they stand. len = there is none. */
static size_t next_by_rank(const struct table_column *columns, size_t len, size_t last)
{
	size_t best = len;

	for (size_t i = 0; i < len; i++) {
		const bool is_behind = last == len || columns[i].rank > columns[last].rank ||
				       (columns[i].rank == columns[last].rank && i > last);

		if (!columns[i].is_absent && is_behind && (best == len || columns[i].rank < columns[best].rank))
			best = i;
	}
	return best;
}

static void widen(struct table_column *columns, size_t len, size_t width, size_t (*to)(const struct table_column *c))
{
	size_t used = 0;

	for (size_t i = 0; i < len; i++)
		used += columns[i].width > 0 ? columns[i].width + (used > 0 ? TABLE_GAP : 0) : 0;
	for (size_t i = next_by_rank(columns, len, len); i < len && used < width; i = next_by_rank(columns, len, i)) {
		const size_t want = to(&columns[i]);

		if (columns[i].width == 0 || columns[i].width >= want)
			continue;
		const size_t more = MIN(want - columns[i].width, width - used);

		columns[i].width += more;
		used += more;
	}
}

void table_fit(struct table_column *columns, size_t len, size_t width)
{
	size_t at = 0;

	for (size_t i = 0; i < len; i++)
		columns[i].width = columns[i].at = 0;
	for (size_t i = next_by_rank(columns, len, len); i < len; i = next_by_rank(columns, len, i)) {
		columns[i].width = columns[i].min;
		if (needed(columns, len, columns[i].rank >= TABLE_RANK_EXTRA) <= width)
			continue;
		columns[i].width = 0;
		if (columns[i].rank == 0)
			columns[i].width = width - MIN(width, needed(columns, len, false) + TABLE_GAP);
		if (i == next_by_rank(columns, len, len))
			columns[i].width = width;
		break;
	}
	widen(columns, len, width, good_of);
	widen(columns, len, width, most_of);
	for (size_t i = 0; i < len; i++) {
		columns[i].at = at;
		if (columns[i].width > 0)
			at += columns[i].width + TABLE_GAP;
	}
}
