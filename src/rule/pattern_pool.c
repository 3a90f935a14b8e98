/* SPDX-License-Identifier: MIT */
#include "rule/pattern_pool.h"

static int pool_grow(struct pattern_pool *pool)
{
	size_t cap = pool->cap ? pool->cap * 2 : 16;
	struct pattern **list = realloc(pool->list, cap * sizeof(struct pattern *));

	if (!list)
		return -ENOMEM;
	pool->list = list;
	pool->cap = cap;
	return 0;
}

int pattern_pool_get(struct pattern_pool *pool, const char *text, char error[PATTERN_ERROR_MAX], struct pattern **ret)
{
	_cleanup_(pattern_freep) struct pattern *p = NULL;
	size_t i;
	int r;

	if (name_map_get(&pool->by_text, text, &i)) {
		*ret = pattern_ref(pool->list[i]);
		return 0;
	}
	if (pool->bytes >= PATTERNS_BYTES_MAX)
		return -E2BIG;
	if (pool->len == pool->cap && pool_grow(pool) < 0)
		return -ENOMEM;
	r = pattern_new(text, error, &p);
	if (r < 0)
		return r;
	r = name_map_put(&pool->by_text, pattern_text(p), pool->len);
	if (r < 0)
		return r;
	pool->bytes += pattern_size(p);
	pool->list[pool->len++] = pattern_ref(p);
	*ret = TAKE_PTR(p);
	return 0;
}

void pattern_pool_done(struct pattern_pool *pool)
{
	for (size_t i = 0; i < pool->len; i++)
		pattern_free(pool->list[i]);
	free(pool->list);
	name_map_done(&pool->by_text);
	*pool = (struct pattern_pool)PATTERN_POOL_INIT;
}
