/* SPDX-License-Identifier: MIT */
#include "history/spark.h"

#include <errno.h>

/* Looked at in each column. A sum of what each series had at most would count twice what one gave back and another took. */
#define MOMENTS 8

__extension__ typedef unsigned __int128 u128;

int spark_init(struct spark *k, uint64_t from_usec, uint64_t until_usec, size_t columns)
{
	*k = (struct spark){
		.from_usec = from_usec,
		.until_usec = MAX(until_usec, from_usec + 1),
		.columns = MIN(MAX(columns, (size_t)1), (size_t)SPARK_COLUMNS_MAX),
	};
	k->sums = calloc(k->columns * MOMENTS, sizeof(*k->sums));
	if (!k->sums)
		return -ENOMEM;
	for (size_t i = 0; i < k->columns * MOMENTS; i++)
		k->sums[i] = SPARK_NONE;
	for (size_t i = 0; i < k->columns; i++)
		k->most[i] = SPARK_NONE;
	return 0;
}

void spark_done(struct spark *k)
{
	free(k->sums);
	k->sums = NULL;
}

/* Of `parts` equal ones of the stretch; SIZE_MAX = it is outside. */
static size_t part_at(const struct spark *k, uint64_t usec, size_t parts)
{
	if (usec < k->from_usec || usec >= k->until_usec)
		return SIZE_MAX;
	return (size_t)((u128)(usec - k->from_usec) * parts / (k->until_usec - k->from_usec));
}

/* In the middle of its part. */
static uint64_t moment_usec(const struct spark *k, size_t moment)
{
	const u128 parts = (u128)k->columns * MOMENTS * 2;

	return k->from_usec + (uint64_t)((u128)(k->until_usec - k->from_usec) * (2 * moment + 1) / parts);
}

void spark_add(struct spark *k, const struct story_series *series, uint64_t end_usec)
{
	size_t next = 0;

	for (size_t i = 0; i < k->columns * MOMENTS; i++) {
		const uint64_t usec = moment_usec(k, i);

		while (next < series->len && series->points[next].usec <= usec)
			next++;
		if (next == 0)
			continue;
		if (end_usec > 0 && usec >= end_usec)
			return;
		if (k->sums[i] == SPARK_NONE)
			k->sums[i] = 0;
		if (__builtin_add_overflow(k->sums[i], series->points[next - 1].live, &k->sums[i]) || k->sums[i] >= SPARK_GAP)
			k->sums[i] = SPARK_GAP - 1;
	}
}

static void raise_column(struct spark *k, size_t column, uint64_t bytes)
{
	if (k->most[column] == SPARK_NONE || k->most[column] < bytes)
		k->most[column] = MIN(bytes, SPARK_GAP - 1);
}

void spark_add_peak(struct spark *k, uint64_t usec, uint64_t bytes)
{
	size_t column = part_at(k, usec, k->columns);

	if (column != SIZE_MAX)
		raise_column(k, column, bytes);
}

void spark_add_highs(struct spark *k, const struct story_series *series)
{
	/* A point is told soon after what made it: what was reached since the one before belongs to its column. */
	for (size_t i = 0; i < series->len; i++)
		spark_add_peak(k, series->points[i].usec, series->points[i].high);
}

void spark_add_gap(struct spark *k, uint64_t from_usec, uint64_t until_usec, bool is_everywhere)
{
	for (size_t i = 0; i < k->columns * MOMENTS; i++) {
		const uint64_t usec = moment_usec(k, i);

		if (usec >= from_usec && usec < until_usec && (is_everywhere || k->sums[i] != SPARK_NONE))
			k->sums[i] = SPARK_GAP;
	}
}

uint64_t spark_column(const struct spark *k, size_t column)
{
	uint64_t most = k->most[column];

	for (size_t i = column * MOMENTS; i < (column + 1) * MOMENTS; i++) {
		const bool is_better = k->sums[i] < SPARK_GAP && (most >= SPARK_GAP || most < k->sums[i]);

		if (is_better || (most == SPARK_NONE && k->sums[i] == SPARK_GAP))
			most = k->sums[i];
	}
	return most;
}

void spark_draw(const struct spark *k, uint64_t full, bool is_ascii, struct strbuf *sb)
{
	static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char *const ascii[] = { "_", ".", "-", "=", "+", "*", "%", "#" };
	const char *const *levels = is_ascii ? ascii : blocks;
	const uint64_t above = ARRAY_SIZE(blocks) - 1; /* the lowest is nothing at all */

	for (size_t i = 0; i < k->columns; i++) {
		const uint64_t bytes = spark_column(k, i);

		if (bytes == SPARK_NONE)
			strbuf_addc(sb, ' ');
		else if (bytes == SPARK_GAP)
			strbuf_adds(sb, is_ascii ? ":" : "·");
		else if (bytes == 0 || full == 0)
			strbuf_adds(sb, levels[0]);
		else
			strbuf_adds(sb, levels[MIN(above, (uint64_t)(((u128)bytes * above + full - 1) / full))]);
	}
}
