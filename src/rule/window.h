/* SPDX-License-Identifier: MIT */
/* Counting over a sliding window: rates in buckets, failures one by one. Times may arrive a little out of order. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RATE_BUCKETS 20

struct rate_window {
	uint64_t width_ns; /* of a bucket: a 20th of the window */
	uint64_t newest;   /* number of the newest bucket */
	uint64_t sum;
	uint64_t bucket[RATE_BUCKETS + 1]; /* one more: the newest is not over yet */
};

struct rate_window *rate_window_new(uint64_t window_ns);
/* n more at that time, which does not go back. */
void rate_window_add(struct rate_window *w, uint64_t time_ns, uint64_t n);
/* Average per second over the window that ends at now_ns. */
double rate_window_rate(struct rate_window *w, uint64_t now_ns);
/* Forgets all: time has jumped. */
void rate_window_clear(struct rate_window *w);

/* The last few times; enough to know that n fell into a window. */
struct count_window {
	uint32_t cap, len, next;
	uint64_t time_ns[];
};

/* More are not kept. */
#define COUNT_WINDOW_MAX 100000

struct count_window *count_window_new(uint32_t count);
/* True when count times, this one included, lie within the window; they are forgotten then. */
bool count_window_add(struct count_window *w, uint64_t time_ns, uint64_t window_ns);
