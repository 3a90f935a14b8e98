/* SPDX-License-Identifier: MIT */
/* Frames already turned into text, the least recently used go first. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/map64.h"

struct name_entry;

struct name_cache {
	struct map64 by_key;
	size_t bytes, max_bytes;
	struct name_entry *newest, *oldest;
};

/* offset: of the frame in the file. is_return: as a return address. NULL = not known. Valid until the next put. */
const char *name_cache_get(struct name_cache *c, uint64_t object, uint64_t offset, bool is_return);
/* Copies text. 0 (also when it is too large to keep) or -ENOMEM. */
int name_cache_put(struct name_cache *c, uint64_t object, uint64_t offset, bool is_return, const char *text);
void name_cache_done(struct name_cache *c);
