/* SPDX-License-Identifier: MIT */
#include "rule/name_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct name_entry {
	const char *name;
	size_t value;
};

/* Of different names with the same hash the later ones lie at the next free keys. Nothing is ever removed, so that a chain
 * never breaks. *ret_key: where the name would go, when it is not there. */
static struct name_entry *find(const struct name_map *m, const char *name, uint64_t *ret_key)
{
	uint64_t key = hash_str(0, name);

	for (;; key++) {
		/* Not a pointer: the array moves. */
		size_t i = (size_t)(uintptr_t)map64_get(&m->map, key);

		if (i == 0) {
			*ret_key = key;
			return NULL;
		}
		if (strcmp(m->entries[i - 1].name, name) == 0)
			return &m->entries[i - 1];
	}
}

bool name_map_get(const struct name_map *m, const char *name, size_t *ret)
{
	uint64_t key;
	const struct name_entry *e = find(m, name, &key);

	if (!e)
		return false;
	*ret = e->value;
	return true;
}

int name_map_put(struct name_map *m, const char *name, size_t value)
{
	uint64_t key;
	struct name_entry *e = find(m, name, &key);

	if (e) {
		e->value = value;
		return 0;
	}
	if (m->len == m->cap) {
		size_t cap = m->cap ? m->cap * 2 : 16;
		struct name_entry *entries = realloc(m->entries, cap * sizeof(*entries));

		if (!entries)
			return -ENOMEM;
		m->entries = entries;
		m->cap = cap;
	}
	if (map64_put(&m->map, key, (void *)(uintptr_t)(m->len + 1)) < 0)
		return -ENOMEM;
	m->entries[m->len++] = (struct name_entry){ name, value };
	return 0;
}

void name_map_done(struct name_map *m)
{
	map64_done(&m->map);
	free(m->entries);
	*m = (struct name_map)NAME_MAP_INIT;
}
