/* SPDX-License-Identifier: MIT */
/* Which columns of a table fit a width, and how wide each gets. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct table_column {
	const char *title;
	size_t min;  /* columns of the screen it needs */
	size_t good; /* that it should have before those of a rank of TABLE_RANK_EXTRA or more come in; 0 = min */
	size_t most; /* that it can make use of; 0 = good */
	unsigned rank; /* the lower the longer it stays; 0 stays always, cut to the width */
	bool is_right;
	bool is_absent; /* nothing to tell in it */
	/* Set by table_fit(). */
	size_t at, width; /* width 0 = it is left out */
};

#define TABLE_RANK_EXTRA 8
#define TABLE_GAP 1

/* What is left over goes to those that can make use of it, by rank. The columns take at most `width` and do not overlap. */
void table_fit(struct table_column *columns, size_t len, size_t width);
