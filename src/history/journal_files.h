/* SPDX-License-Identifier: MIT */
/* Which journal files there are, and of what time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "history/journal_read.h"

struct journal_file {
	char *path;
	uint64_t first_usec, last_usec; /* of the entries in it */
	uint64_t size;
};

struct journal_files {
	struct journal_file *list; /* newest last */
	size_t len, cap;
	size_t denied, damaged; /* that are there and cannot be read */
	char *denied_path, *damaged_path; /* the first of each */
	int damaged_error;
};

/* Those with entries. 0 (none is no error) or -ENOMEM. */
int journal_files_find(const struct journal_options *o, struct journal_files *ret);
/* Paths of those with entries from from_usec until until_usec, the newest max of them, ended by NULL; owned by f, the list
 * by the caller. NULL: no memory. */
const char **journal_files_of(const struct journal_files *f, uint64_t from_usec, uint64_t until_usec, size_t max);
void journal_files_done(struct journal_files *f);
#define _cleanup_journal_files_ _cleanup_(journal_files_done)
