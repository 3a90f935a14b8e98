/* SPDX-License-Identifier: MIT */
/* A bounded queue, oldest first out; when full the oldest of the lowest rank makes room. Not locked. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define QUEUE_RANKS 6

struct queue_node {
	struct queue_node *next;
	uint64_t seq;
	void *data;
};

struct queue {
	struct queue_node *first[QUEUE_RANKS], **last[QUEUE_RANKS];
	size_t len, max;
	uint64_t seq;
};

void queue_init(struct queue *q, size_t max);
/* *ret_out: what had to go, which may be data itself; NULL = nothing. The caller owns it. */
void queue_push(struct queue *q, void *data, unsigned rank, void **ret_out);
/* The oldest, NULL when empty. */
void *queue_pop(struct queue *q);
