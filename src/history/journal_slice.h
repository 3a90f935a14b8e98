/* SPDX-License-Identifier: MIT */
/*
 * Reads a long time of the journal with several processes: each reads slices of it through journal handles of its own, and
 * the entries come out in order. Threads would be slower: libsystemd asks with each call whether it is in the process that
 * opened the journal, and up to version 253 that is an atomic operation on one word, for which they would wait. And a
 * file so damaged that its reader dies ends a child, not the caller.
 *
 * A slice is a range of the wall clock. Where that was set back the journal is not in order, and the search for a slice's
 * first entry may go wrong: a few entries with a time behind the slice are passed over, and what lies behind more of them
 * is not read.
 */
#pragma once

#include "history/journal_files.h"

typedef int (*slice_take)(void *userdata, const struct entry *e); /* 0, or -errno to stop */

/* Our records from from_usec until until_usec, given to take by the caller's process. 0; -EIO: a reader died; -errno of the
 * journal, or what take said. own_uid: as of journal_entry_pack(). */
int journal_slices_read(const struct journal_files *files, uint64_t from_usec, uint64_t until_usec, uint32_t own_uid,
			slice_take take, void *userdata);
