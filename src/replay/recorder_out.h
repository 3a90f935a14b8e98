/* SPDX-License-Identifier: MIT */
/* Lines to a file, by a thread of its own. Adding never blocks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "model/stack.h"

struct objects;
struct recorder_out;
struct redact;

struct recorder_out_options {
	const char *path; /* ".gz" at its end: compressed; "-": standard output */
	bool is_private;  /* nobody else may read it; else stacks name files without their folders */
	uint64_t max_pending_bytes;
	struct objects *objects; /* a reference is taken; NULL: stacks are not told */
	const struct redact *redact; /* borrowed for its life; may be NULL */
};

struct recorder_out_stats {
	uint64_t stacks, text_bytes, file_bytes;
	int error;
};

int recorder_out_new(const struct recorder_out_options *o, struct recorder_out **ret); /* 0 or -errno */
/* Whole lines. is_vital: without them nothing after them can be understood; for those there is more room. 0, -ENOSPC
 * (they are not written), the error of the file. */
int recorder_out_add(struct recorder_out *out, const char *lines, size_t len, bool is_vital);
/* Is at least half of the room free? */
bool recorder_out_has_room(struct recorder_out *out);
/* Its text follows as the stack of that number. Takes a reference. */
void recorder_out_stack(struct recorder_out *out, uint64_t number, struct stack *s);
void recorder_out_stats(struct recorder_out *out, struct recorder_out_stats *ret);
/* Writes what waits, closes, frees. 0 or the first error. */
int recorder_out_close(struct recorder_out *out, struct recorder_out_stats *ret);
