/* SPDX-License-Identifier: MIT */
/* What was last told of each process: the next look tells what is new. Pure. */
#pragma once

#include "base/map64.h"
#include "view/view.h"

struct past_site;

struct past_process {
	uint32_t pid;
	uint64_t start_ticks;
	char *comm; /* as in the view; may be NULL */
	uint64_t first_usec, last_usec; /* wall clock of the first look at it, and of the last one; 0 = none yet */
	bool is_exact, is_covered;
	bool is_comparable; /* all looks at it were of one kind, with its calls or without: first_bytes and bytes are alike */
	uint64_t first_bytes; /* past_bytes() at the first look */
	uint64_t bytes, peak_bytes, alloc_count, free_count, fail_count, lost_events; /* at the last look */
	uint64_t allocs, frees, fails; /* since the first look, also where a daemon that was restarted counts from 0 again */
	bool is_baseline_told, is_unknown_baseline_told, is_uncovered_told;
	struct past_site *sites; /* by key */
	size_t sites_len;
	bool has_all_sites;
};

struct past {
	struct map64 processes;
};

#define PAST_INIT {}

/* NULL: it was never looked at. */
struct past_process *past_find(const struct past *past, uint32_t pid, uint64_t start_ticks);
/* Makes one that nothing was told of yet if there is none. NULL when out of memory. */
struct past_process *past_get(struct past *past, const struct view_process *p);
/* Takes a look over, after it was told. 0 or -ENOMEM. */
int past_take(struct past_process *pp, const struct view_process *p, uint64_t real_usec);
void past_forget(struct past *past, uint32_t pid, uint64_t start_ticks);
/* Walks all, in no order: start with *iter = 0; NULL at the end. */
struct past_process *past_next(const struct past *past, size_t *iter);
void past_done(struct past *past);

/* What it holds: its live bytes, what the driver counts where it has shown no call. VIEW_NONE. */
uint64_t past_bytes(const struct view_process *p);
/* By how many bytes that is more, or less, than at the last look; VIEW_NONE_INT when this is the first, when it is not known,
 * or when one is by calls and the other is not. */
int64_t past_growth(const struct past_process *pp, const struct view_process *p);
/* From the first look to the last one; VIEW_NONE_INT. */
int64_t past_growth_of_all(const struct past_process *pp);
/* The same of each of p's call sites, known by stack_id and stack; the caller frees *ret. VIEW_NONE_INT also where that look
 * did not tell of it, being of the largest ones only, or where two cannot be told apart. 0 or -ENOMEM. */
int past_site_growths(const struct past_process *pp, const struct view_process *p, uint64_t real_usec, int64_t **ret);
