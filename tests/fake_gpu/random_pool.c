/* SPDX-License-Identifier: MIT */
/* Pools of all places: each thread makes some, allocates from them and from those that are there, and destroys them. */
#include "random_ops.h"

static void pool_forget(struct pool *p)
{
	MUST(cuMemPoolDestroy(p->pool));
	p->pool = NULL;
}

/* Where a pool's memory lies, and what it is then. */
static CUmemLocation place_choose(struct worker *w, struct pool *p, int *ret_type)
{
	CUmemLocation at = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)below(w, (uint64_t)device_count) };
	uint64_t what = is_real ? 9 : below(w, 10);

	*ret_type = CU_MEM_ALLOCATION_TYPE_PINNED;
	p->device = at.id;
	p->class = CLASS_ASYNC;
	if (what == 0) {
		*ret_type = CU_MEM_ALLOCATION_TYPE_MANAGED;
		p->class = CLASS_MANAGED;
	} else if (what < 3) {
		at.type = what == 1 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_HOST_NUMA;
		at.id = 0;
		p->device = -1;
		p->class = CLASS_HOST;
	}
	return at;
}

/* A pool's handle may be given out again for another place. */
static void pool_make(struct worker *w, struct pool *p)
{
	CUmemPoolProps props = { 0 };

	props.location = place_choose(w, p, &props.allocType);
	MUST(cuMemPoolCreate(&p->pool, &props));
}

/* What is allocated with no pool named comes from this one for a while. */
static void pool_current(struct worker *w, struct pool *p)
{
	CUmemLocation at = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = p->device };
	bool by_location = cuMemSetMemPool && below(w, 2);
	CUmemoryPool got = NULL;

	if (thread_count > 1 || p->class != CLASS_ASYNC)
		return;
	if (by_location) {
		MUST(cuMemSetMemPool(&at, CU_MEM_ALLOCATION_TYPE_PINNED, p->pool));
		MUST(cuMemGetMemPool(&got, &at, CU_MEM_ALLOCATION_TYPE_PINNED));
	} else {
		MUST(cuDeviceSetMemPool(p->device, p->pool));
		MUST(cuDeviceGetMemPool(&got, p->device));
	}
	if (got != p->pool)
		die("another pool is current");
	for (int i = 0; i < 3 && w->len < live_max; i++)
		alloc_async(w);
	if (below(w, 2))
		pool_forget(p); /* the default one is current again by that */
	else
		MUST(cuDeviceSetMemPool(p->device, default_pools[p->device]));
}

static void pool_change(struct worker *w, struct pool *p)
{
	uint64_t threshold = random_size(&w->rng, 40), was = 0;
	static const int asks[] = { CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
				    CU_MEMPOOL_ATTR_USED_MEM_CURRENT };

	if (!p->pool) {
		pool_make(w, p);
		return;
	}
	switch (below(w, 5)) {
	case 0:
		MUST(cuMemPoolTrimTo(p->pool, below(w, 2) ? 0 : threshold));
		return;
	case 1:
		MUST(cuMemPoolSetAttribute(p->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
		MUST(cuMemPoolGetAttribute(p->pool, asks[below(w, 3)], &was));
		return;
	case 2:
		pool_current(w, p);
		return;
	default: /* its memory lives on */
		pool_forget(p);
	}
}

/* One that is there without being made. */
static struct pool pool_there(struct worker *w)
{
	struct pool p = { .class = CLASS_ASYNC, .device = (int)below(w, (uint64_t)device_count) };
	CUmemLocation at;
	int type;

	p.pool = default_pools[p.device];
	if (is_real || !cuMemGetDefaultMemPool || below(w, 2))
		return p;
	at = place_choose(w, &p, &type);
	MUST(cuMemGetDefaultMemPool(&p.pool, &at, type));
	return p;
}

void alloc_pool(struct worker *w)
{
	struct item it = { .kind = ITEM_ASYNC };
	struct pool *own = &w->pools[below(w, POOLS_MAX)], from = *own;
	CUdeviceptr ptr = 0;
	CUresult r;

	if (!below(w, 6) || (!from.pool && below(w, 2))) {
		pool_change(w, own);
		return;
	}
	if (!from.pool)
		from = pool_there(w);
	/* It lies where the pool does, whatever is current. */
	it.device = from.device;
	it.class = from.class;
	it.bytes = random_size(&w->rng, 24);
	r = below(w, 2) ? cuMemAllocFromPoolAsync(&ptr, it.bytes, from.pool, NULL) :
			  cuMemAllocFromPoolAsync_ptsz(&ptr, it.bytes, from.pool, NULL);
	it.addr = ptr;
	booked(w, r, &it);
}

void pools_end(struct worker *w)
{
	for (int i = 0; i < POOLS_MAX; i++)
		if (w->pools[i].pool)
			pool_forget(&w->pools[i]);
}
