/* SPDX-License-Identifier: MIT */
/* From a name to a number, such as a place in an array. */
#pragma once

#include "base/map64.h"

struct name_entry;

struct name_map {
	struct map64 map; /* from hash to place in entries, plus one */
	struct name_entry *entries;
	size_t len, cap;
};

#define NAME_MAP_INIT {}

/* False when absent. */
bool name_map_get(const struct name_map *m, const char *name, size_t *ret);
/* Replaces. The name stays the caller's and must live as long as the map. 0 or -ENOMEM. */
int name_map_put(struct name_map *m, const char *name, size_t value);
void name_map_done(struct name_map *m);
