/* SPDX-License-Identifier: MIT */
#include "stack/python_lines.h"

#include <stdbool.h>

/* Lines are ints in CPython; a table that says otherwise says nothing. */
static uint32_t line_number(int64_t line)
{
	return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}

/* Pairs of bytes: instructions to step over, signed lines to add after them. */
static uint32_t lnotab_line(const uint8_t *table, size_t len, int64_t line, int64_t at)
{
	int64_t end = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		end += table[i];
		if (end > at)
			break;
		line += (int8_t)table[i + 1];
	}
	return line_number(line);
}

/* Pairs of bytes: length of a range, signed lines to add before it, -128 for a range without line. */
static uint32_t ranges_line(const uint8_t *table, size_t len, int64_t line, int64_t at)
{
	int64_t end = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		int8_t delta = (int8_t)table[i + 1];

		if (delta != -128)
			line += delta;
		end += table[i];
		if (end > at)
			return delta == -128 ? 0 : line_number(line);
	}
	return 0;
}

struct location_reader {
	const uint8_t *p, *end;
	bool is_short; /* the table ended within an entry */
};

static uint8_t location_byte(struct location_reader *r)
{
	if (r->p == r->end) {
		r->is_short = true;
		return 0;
	}
	return *r->p++;
}

/* Six bits a byte, lowest first; bit 6 = more follow. */
static uint32_t location_varint(struct location_reader *r)
{
	uint32_t v = 0;
	unsigned int shift = 0;
	uint8_t b;

	do {
		b = location_byte(r);
		if (shift < 30)
			v |= (uint32_t)(b & 63) << shift;
		shift += 6;
	} while (b & 64);
	return v;
}

static int64_t location_svarint(struct location_reader *r)
{
	uint32_t v = location_varint(r);

	return v & 1 ? -(int64_t)(v >> 1) : (int64_t)(v >> 1);
}

enum location_kind { /* bits 3 to 6 of an entry's first byte; below 10: same line, one byte of columns */
	LOCATION_LINE_0 = 10,
	LOCATION_LINE_2 = 12,
	LOCATION_NO_COLUMNS,
	LOCATION_LONG,
	LOCATION_NONE,
};

static uint32_t locations_line(const uint8_t *table, size_t len, int64_t line, int64_t at)
{
	struct location_reader r = { .p = table, .end = table + len };
	int64_t end = 0;

	while (r.p < r.end) {
		uint8_t first = location_byte(&r);
		unsigned int kind = first >> 3 & 15;

		if (!(first & 0x80))
			return 0; /* not the start of an entry */
		if (kind == LOCATION_NO_COLUMNS || kind == LOCATION_LONG)
			line += location_svarint(&r);
		if (kind == LOCATION_LONG) {
			for (int i = 0; i < 3; i++)
				(void)location_varint(&r);
		} else if (kind < LOCATION_LINE_0) {
			(void)location_byte(&r);
		} else if (kind <= LOCATION_LINE_2) {
			line += kind - LOCATION_LINE_0;
			(void)location_byte(&r);
			(void)location_byte(&r);
		}
		if (r.is_short)
			return 0;
		end += 2 * ((first & 7) + 1); /* units of two bytes */
		if (end > at)
			return kind == LOCATION_NONE ? 0 : line_number(line);
	}
	return 0;
}

uint32_t python_line(enum python_lines how, const uint8_t *table, size_t len, uint32_t first_line, int64_t at)
{
	if (at < 0)
		return line_number(first_line);
	switch (how) {
	case PYTHON_LINES_LNOTAB:
		return lnotab_line(table, len, first_line, at);
	case PYTHON_LINES_RANGES:
		return ranges_line(table, len, first_line, at);
	case PYTHON_LINES_LOCATIONS:
		return locations_line(table, len, first_line, at);
	}
	return 0;
}
