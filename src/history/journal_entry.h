/* SPDX-License-Identifier: MIT */
/* Entries taken out of the journal: what the library shows of one field is only there until the next is asked for. */
#pragma once

#include <stdint.h>
#include <systemd/sd-journal.h>

#include "history/entry.h"

struct entries {
	char *data;
	size_t len, cap;
};

/* Appends the entry at hand. 1; 0: it is none to be believed, and nothing was added; -errno. own_uid: UINT32_MAX = none. */
int journal_entry_pack(sd_journal *j, uint32_t own_uid, struct entries *to);
/* Makes it that long, with room for it. 0 or -ENOMEM. */
int journal_entries_set_len(struct entries *x, size_t len);
void journal_entries_done(struct entries *x);
#define _cleanup_entries_ _cleanup_(journal_entries_done)
/* The entry at *at, which moves behind it; it borrows from there. */
void journal_entry_unpack(const char **at, struct entry *ret);
