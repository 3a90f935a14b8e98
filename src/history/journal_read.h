/* SPDX-License-Identifier: MIT */
/* Reads what gpuxray wrote to the journal into a story. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "history/story.h"

struct journal_options {
	const char *directory;	    /* journal files below it; NULL = those of this host */
	const char *const *files;   /* these alone; NULL */
	size_t files_len;
	bool is_merged;		    /* the journals of all hosts that are here, not of this one alone */
	uint64_t from_usec, until_usec; /* as in the story's options */
};

#define JOURNAL_WHY_MAX 512

/*
 * Adds the records of the stretch, those of STORY_LOOK_BACK_USEC before it, and the texts of stacks that these only name.
 * 0, or -errno with a line in why that says cause and cure. When the journal could be read in part only, 0 and a line in
 * why; why is "" when all is well.
 */
int journal_read(const struct journal_options *o, struct story_builder *b, char *why, size_t why_size);
