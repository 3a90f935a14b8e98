/* SPDX-License-Identifier: MIT */
/* Which rows of the call table a file has, and where. Knows files and the table, no kernel. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack/elf_file.h"
#include "trace/calls.h"

#define SEARCH_SYMBOLS_MAX 2000000 /* of a table that is walked, or of a file that nobody named */
#define SEARCH_TEXT_MAX 256

struct search_hit {
	uint64_t offset; /* in the file */
	unsigned int row;
};

struct search {
	struct search_hit *hits; /* each offset once */
	size_t len, cap;
	/* Where rows of the configuration return, see returns.h: none of a row that needs no return. */
	struct search_hit *ends;
	size_t ends_len;
	size_t wanted; /* rows that this file may have */
	/* Functions of a driver library that by their names take or give back memory, and are no row; cut with "...". */
	size_t unknown_count;
	char unknown[SEARCH_TEXT_MAX];
	/* Rows of the configuration without a function in this file, as "file:line", and further matches over
	 * USER_CALL_SYMBOLS_MAX of a row. */
	char unmatched[SEARCH_TEXT_MAX];
	size_t over_count;
	char over[SEARCH_TEXT_MAX];
	char endless[SEARCH_TEXT_MAX]; /* functions that are not probed, as their returns could not be found */
	bool is_cut; /* the file has more symbols than were looked at */
};

/* Is this file, by its base name, one that the table has rows for? " (deleted)" at the end does not count. Cheap. */
bool search_wants_file(const char *path);
/*
 * path decides which rows are looked for: those of its API and those from the configuration whose pattern fits.
 * is_named: a file that the operator named as a driver library; of no API by its name, it may be of any. teachers:
 * either the teachers alone, or all but them. 0 (perhaps nothing found), -errno.
 */
int search_file(const struct elf_file *elf, const char *path, bool is_named, bool teachers, struct search *ret);
void search_done(struct search *s);
