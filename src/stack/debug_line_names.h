/* SPDX-License-Identifier: MIT */
/* The names of source files in .debug_line. For debug_line.c only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack/debug_info.h"
#include "stack/elf_file.h"

/* What follows the fixed part of a line program's header: its folders and files. */
struct line_table {
	const uint8_t *data;
	size_t len;
	uint16_t version;
	bool is_64; /* DWARF's 64-bit format */
};

struct line_match {
	size_t query; /* index */
	uint64_t file;
	uint32_t line;
};

struct line_string { /* a name that lies in another section */
	size_t query;
	uint64_t offset;
	bool is_line_str; /* in .debug_line_str, otherwise in .debug_str */
};

/*
 * Sets file and line of the queries whose names are in the table itself; the others are appended to strings, their
 * line set. Sorts m. 0 or -ENOMEM.
 */
int line_names_match(const struct line_table *t, struct line_match *m, size_t n, struct debug_line *query,
		     struct line_string *strings, size_t *string_count);
/* Reads what was left to other sections of f, a packed one if it has at most max_bytes unpacked. Sorts strings. 0 or
 * -ENOMEM. */
int line_names_read(const struct elf_file *f, struct line_string *strings, size_t n, struct debug_line *query,
		    uint64_t max_bytes);
