/* SPDX-License-Identifier: MIT */
/* Hash table from a 64-bit key to a pointer: open addressing, robin-hood free, backward-shift delete. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map64_slot {
	uint64_t key;
	void *value; /* NULL = empty */
};

struct map64 {
	struct map64_slot *slots;
	size_t cap; /* power of two or 0 */
	size_t len;
};

#define MAP64_INIT {}

/* NULL when absent. */
void *map64_get(const struct map64 *m, uint64_t key);
/* value must not be NULL; replaces. 0 or -ENOMEM. */
int map64_put(struct map64 *m, uint64_t key, void *value);
/* The removed value or NULL. */
void *map64_remove(struct map64 *m, uint64_t key);
/* Walks all entries: start with *iter = 0; false at the end. No put or remove of other keys meanwhile; to delete while
 * walking, collect the keys first. */
bool map64_next(const struct map64 *m, size_t *iter, uint64_t *ret_key, void **ret_value);
/* Frees the table, not the values. */
void map64_done(struct map64 *m);

/* 64-bit mix (splitmix64 finaliser) and FNV-1a over bytes, for keys made of several parts. */
uint64_t hash64(uint64_t x);
uint64_t hash_bytes(uint64_t seed, const void *data, size_t len);
uint64_t hash_str(uint64_t seed, const char *s);
