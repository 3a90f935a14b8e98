/* SPDX-License-Identifier: MIT */
/* Lines of block characters that show how bytes went over time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "history/story.h"

#define SPARK_COLUMNS_MAX 128
#define SPARK_NONE UINT64_MAX	    /* nothing was held there */
#define SPARK_GAP (UINT64_MAX - 1) /* nothing is known there */

/* Bytes of several series together, each column the most of its part of the stretch. */
struct spark {
	uint64_t from_usec, until_usec;
	size_t columns; /* 1 to SPARK_COLUMNS_MAX */
	uint64_t *sums; /* at some moments of each column */
	uint64_t most[SPARK_COLUMNS_MAX]; /* of what is known to be higher than any of those moments */
};

/* 0 or -ENOMEM. */
int spark_init(struct spark *k, uint64_t from_usec, uint64_t until_usec, size_t columns);
void spark_done(struct spark *k);
/* What it held from its first point until then; 0 = until the end. */
void spark_add(struct spark *k, const struct story_series *series, uint64_t end_usec);
/* Also what it reached between its points: only where it is the one series. */
void spark_add_highs(struct spark *k, const struct story_series *series);
/* What all together reached at that moment. */
void spark_add_peak(struct spark *k, uint64_t usec, uint64_t bytes);
/* Nobody looked between these: what the series say there, which were added before, is not known. is_everywhere: nor is it
 * where they say nothing. */
void spark_add_gap(struct spark *k, uint64_t from_usec, uint64_t until_usec, bool is_everywhere);
uint64_t spark_column(const struct spark *k, size_t column); /* bytes, SPARK_GAP or SPARK_NONE */

/* full: bytes of the highest block. One column a character: blank where nothing was held, a dot where nothing is known. */
void spark_draw(const struct spark *k, uint64_t full, bool is_ascii, struct strbuf *sb);
