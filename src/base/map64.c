/* SPDX-License-Identifier: MIT */
#include "base/map64.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAP64_CAP_MIN 16

/* The slot that holds key, or the empty one where it would go. The table must have an empty slot. */
static size_t map64_slot(const struct map64 *m, uint64_t key)
{
	size_t mask = m->cap - 1, i = hash64(key) & mask;

	while (m->slots[i].value && m->slots[i].key != key)
		i = (i + 1) & mask;
	return i;
}

static int map64_grow(struct map64 *m)
{
	struct map64 bigger = { .cap = m->cap ? m->cap * 2 : MAP64_CAP_MIN, .len = m->len };

	if (bigger.cap < m->cap)
		return -ENOMEM;
	bigger.slots = calloc(bigger.cap, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < m->cap; i++) {
		if (m->slots[i].value)
			bigger.slots[map64_slot(&bigger, m->slots[i].key)] = m->slots[i];
	}
	free(m->slots);
	*m = bigger;
	return 0;
}

void *map64_get(const struct map64 *m, uint64_t key)
{
	return m->len ? m->slots[map64_slot(m, key)].value : NULL;
}

int map64_put(struct map64 *m, uint64_t key, void *value)
{
	size_t i;

	if (m->cap) {
		i = map64_slot(m, key);
		if (m->slots[i].value) {
			m->slots[i].value = value;
			return 0;
		}
	}
	/* At most three quarters full: probe runs stay short and an empty slot always ends them. */
	if (m->len + 1 > m->cap / 4 * 3) {
		int r = map64_grow(m);

		if (r < 0)
			return r;
	}
	i = map64_slot(m, key);
	m->slots[i].key = key;
	m->slots[i].value = value;
	m->len++;
	return 0;
}

void *map64_remove(struct map64 *m, uint64_t key)
{
	size_t mask = m->cap - 1, hole, i;
	void *value;

	if (m->len == 0)
		return NULL;
	hole = map64_slot(m, key);
	value = m->slots[hole].value;
	if (!value)
		return NULL;

	/* Close the hole: an entry moves back unless its home lies cyclically behind the hole. */
	for (i = (hole + 1) & mask; m->slots[i].value; i = (i + 1) & mask) {
		size_t home = hash64(m->slots[i].key) & mask;

		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		m->slots[hole] = m->slots[i];
		hole = i;
	}
	m->slots[hole] = (struct map64_slot){ 0 };
	m->len--;
	return value;
}

bool map64_next(const struct map64 *m, size_t *iter, uint64_t *ret_key, void **ret_value)
{
	for (size_t i = *iter; i < m->cap; i++) {
		if (!m->slots[i].value)
			continue;
		*iter = i + 1;
		if (ret_key)
			*ret_key = m->slots[i].key;
		if (ret_value)
			*ret_value = m->slots[i].value;
		return true;
	}
	*iter = m->cap;
	return false;
}

void map64_done(struct map64 *m)
{
	free(m->slots);
	*m = (struct map64)MAP64_INIT;
}

uint64_t hash64(uint64_t x)
{
	x ^= x >> 30;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 27;
	x *= UINT64_C(0x94d049bb133111eb);
	x ^= x >> 31;
	return x;
}

uint64_t hash_bytes(uint64_t seed, const void *data, size_t len)
{
	const unsigned char *p = data;
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ seed;

	for (size_t i = 0; i < len; i++) {
		h ^= p[i];
		h *= UINT64_C(0x100000001b3);
	}
	return h;
}

uint64_t hash_str(uint64_t seed, const char *s)
{
	return hash_bytes(seed, s, strlen(s));
}
