/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stack/name_cache.h"

struct name_entry {
	uint64_t key, object, offset;
	struct name_entry *newer, *older;
	size_t bytes;
	bool is_return;
	char text[];
};

static uint64_t entry_key(uint64_t object, uint64_t offset, bool is_return)
{
	return hash64(hash64(object) ^ offset) ^ is_return;
}

static void unlink_entry(struct name_cache *c, struct name_entry *e)
{
	*(e->newer ? &e->newer->older : &c->newest) = e->older;
	*(e->older ? &e->older->newer : &c->oldest) = e->newer;
	e->newer = e->older = NULL;
}

static void link_newest(struct name_cache *c, struct name_entry *e)
{
	e->older = c->newest;
	*(c->newest ? &c->newest->newer : &c->oldest) = e;
	c->newest = e;
}

static void drop_entry(struct name_cache *c, struct name_entry *e)
{
	unlink_entry(c, e);
	(void)map64_remove(&c->by_key, e->key);
	c->bytes -= e->bytes;
	free(e);
}

const char *name_cache_get(struct name_cache *c, uint64_t object, uint64_t offset, bool is_return)
{
	struct name_entry *e = map64_get(&c->by_key, entry_key(object, offset, is_return));

	if (!e || e->object != object || e->offset != offset || e->is_return != is_return)
		return NULL;
	unlink_entry(c, e);
	link_newest(c, e);
	return e->text;
}

int name_cache_put(struct name_cache *c, uint64_t object, uint64_t offset, bool is_return, const char *text)
{
	const uint64_t key = entry_key(object, offset, is_return);
	const size_t len = strlen(text) + 1;
	/* The table is between three eighths and three quarters full: two slots an entry at most, nearly. */
	const size_t bytes = sizeof(struct name_entry) + len + 3 * sizeof(struct map64_slot);
	struct name_entry *e = map64_get(&c->by_key, key);
	int r;

	if (e)
		drop_entry(c, e);
	if (bytes > c->max_bytes)
		return 0;
	while (c->oldest && c->bytes + bytes > c->max_bytes)
		drop_entry(c, c->oldest);
	e = malloc(sizeof(*e) + len);
	if (!e)
		return -ENOMEM;
	*e = (struct name_entry){ .key = key, .object = object, .offset = offset, .bytes = bytes, .is_return = is_return };
	memcpy(e->text, text, len);
	r = map64_put(&c->by_key, key, e);
	if (r < 0) {
		free(e);
		return r;
	}
	link_newest(c, e);
	c->bytes += bytes;
	return 0;
}

void name_cache_done(struct name_cache *c)
{
	while (c->oldest)
		drop_entry(c, c->oldest);
	map64_done(&c->by_key);
}
