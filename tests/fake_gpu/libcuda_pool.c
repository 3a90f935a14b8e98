/* SPDX-License-Identifier: MIT */
/*
 * Stream-ordered memory and its pools. A pool takes memory of the device in steps and gives it back when a stream or a
 * context is synchronized, down to its release threshold, or when it is told to. Its blocks go with no context.
 */
#include <pthread.h>

#include "libcuda.h"

#define POOL_STEP (32ull << 20)
#define POOL_MAX (POOL_FIRST + 256)

/* Places of the default pools: one a device, one of managed memory a device, and those of host memory. */
enum {
	POOL_DEVICE = 0,
	POOL_MANAGED = FAKE_GPU_MAX,
	POOL_HOST = 2 * FAKE_GPU_MAX,
	POOL_NUMA,
	POOL_HOST_MANAGED,
	POOL_FIRST, /* of the program's own */
};

struct CUmemPoolHandle_st {
	int device; /* -1: host */
	uint8_t class;
	bool is_alive, is_imported;
	bool may_share, is_shared; /* is_shared: it was exported */
	int home; /* place of the default pool that it can stand in for */
	uint64_t serial;
	uint64_t max; /* bytes it may reserve, 0 = any */
	uint64_t threshold;
	uint64_t used, used_high; /* atomic: threads allocate without the lock as long as the reserve suffices */
	uint64_t reserved, reserved_high;
	uint64_t reuse[3]; /* settings without effect here */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct CUmemPoolHandle_st pools[POOL_MAX];
static CUmemoryPool current[POOL_FIRST];
static uint64_t next_serial;
static int pool_end = POOL_FIRST; /* places beyond were never used */

static void defaults_init(void)
{
	for (int i = 0; i < POOL_FIRST; i++) {
		bool is_host = i >= POOL_HOST;
		bool is_managed = i == POOL_HOST_MANAGED || (i >= POOL_MANAGED && i < POOL_HOST);

		pools[i].device = is_host ? -1 : i % FAKE_GPU_MAX;
		pools[i].class = is_managed ? CLASS_MANAGED : is_host ? CLASS_HOST : CLASS_ASYNC;
		pools[i].home = i;
		pools[i].is_alive = true;
		current[i] = &pools[i];
	}
}

static CUresult ready(void)
{
	pthread_once(&once, defaults_init);
	return driver_ready();
}

static uint64_t step_up(uint64_t bytes)
{
	return bytes > UINT64_MAX - POOL_STEP ? UINT64_MAX : (bytes + POOL_STEP - 1) / POOL_STEP * POOL_STEP;
}

static uint64_t now(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static void raise_high(uint64_t *high, uint64_t value)
{
	uint64_t was = now(high);

	while (value > was && !__atomic_compare_exchange_n(high, &was, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

/* With the lock: gives back all above keep that is not in use. */
static void shrink(struct CUmemPoolHandle_st *p, uint64_t keep)
{
	uint64_t reserved = p->reserved, target;

	do {
		target = step_up(now(&p->used));
		if (keep > target)
			target = keep;
		if (target >= reserved)
			return;
		__atomic_store_n(&p->reserved, target, __ATOMIC_SEQ_CST);
		/* Whoever took more in between has seen the old reserve. */
	} while (now(&p->used) > target && (__atomic_store_n(&p->reserved, reserved, __ATOMIC_SEQ_CST), true));
	if (p->device >= 0 && p->class == CLASS_ASYNC)
		device_uncharge(p->device, reserved - target);
}

static void reclaim(int device)
{
	for (int i = 0; i < pool_end; i++)
		if (pools[i].device == device)
			shrink(&pools[i], 0);
}

void pool_reclaim(int device)
{
	pthread_mutex_lock(&lock);
	reclaim(device);
	pthread_mutex_unlock(&lock);
}

/* With the lock: a reserve that holds what is used. */
static bool grow(struct CUmemPoolHandle_st *p)
{
	uint64_t need = step_up(now(&p->used)), more;

	if (need <= p->reserved)
		return true;
	more = need - p->reserved;
	if (p->max && need > step_up(p->max))
		return false;
	if (p->device >= 0 && p->class == CLASS_ASYNC && !device_charge_plain(p->device, more)) {
		reclaim(p->device);
		if (!device_charge_plain(p->device, more))
			return false;
	}
	__atomic_store_n(&p->reserved, need, __ATOMIC_SEQ_CST);
	raise_high(&p->reserved_high, need);
	return true;
}

bool pool_take(uint16_t pool, uint64_t bytes)
{
	struct CUmemPoolHandle_st *p = &pools[pool - 1];
	uint64_t used;
	bool ok = true;

	if (bytes > 1ull << 48)
		return false;
	used = __atomic_add_fetch(&p->used, bytes, __ATOMIC_SEQ_CST);
	if (used > now(&p->reserved)) {
		pthread_mutex_lock(&lock);
		ok = grow(p);
		pthread_mutex_unlock(&lock);
	}
	if (ok)
		raise_high(&p->used_high, used);
	else
		__atomic_sub_fetch(&p->used, bytes, __ATOMIC_SEQ_CST);
	return ok;
}

void pool_give(uint16_t pool, uint64_t bytes)
{
	struct CUmemPoolHandle_st *p = &pools[pool - 1];

	if (__atomic_sub_fetch(&p->used, bytes, __ATOMIC_SEQ_CST) || __atomic_load_n(&p->is_alive, __ATOMIC_SEQ_CST))
		return;
	pthread_mutex_lock(&lock); /* the last block of a pool that is destroyed */
	shrink(p, p->is_alive ? UINT64_MAX : 0);
	pthread_mutex_unlock(&lock);
}

void pools_synchronize(void)
{
	for (int i = 0, n = __atomic_load_n(&pool_end, __ATOMIC_ACQUIRE); i < n; i++) {
		struct CUmemPoolHandle_st *p = &pools[i];

		if (now(&p->reserved) <= step_up(now(&p->used)))
			continue;
		pthread_mutex_lock(&lock);
		shrink(p, p->is_alive ? p->threshold / POOL_STEP * POOL_STEP : 0);
		pthread_mutex_unlock(&lock);
	}
}

/* A default pool exists as long as its device. */
static bool pool_is_valid(CUmemoryPool pool)
{
	uintptr_t at = (uintptr_t)pool - (uintptr_t)pools;

	if (at >= sizeof(pools) || at % sizeof(pools[0]))
		return false;
	return __atomic_load_n(&pool->is_alive, __ATOMIC_SEQ_CST);
}

static CUresult pool_check(CUmemoryPool pool)
{
	CUresult r = ready();

	if (r)
		return r;
	return pool_is_valid(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* pool NULL: the current one of the device. */
static CUresult alloc_from(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	struct block b = { .kind = BLOCK_POINTER, .bytes = bytes };
	struct CUctx_st *c;
	CUresult r = ready();
	uint64_t addr;

	if (!r)
		r = context_current(&c);
	if (!r)
		r = stream_check(stream);
	if (r)
		return fail(r);
	if (!pool)
		pool = __atomic_load_n(&current[POOL_DEVICE + c->device], __ATOMIC_SEQ_CST);
	if (!out_is_plausible(dptr) || !bytes || !pool_is_valid(pool) || pool->is_imported)
		return fail(CUDA_ERROR_INVALID_VALUE);
	if (stream_captures(stream)) {
		r = capture_alloc(stream, bytes, pool->device, &addr);
		if (r)
			block_count_fail();
	} else {
		b.pool = (uint16_t)(pool - pools + 1);
		b.class = pool->class;
		b.device = (int8_t)pool->device;
		r = block_new(&b, false, &addr);
	}
	if (!r)
		*dptr = addr;
	return r;
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	return alloc_from(dptr, bytes, NULL, stream);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	return alloc_from(dptr, bytes, NULL, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	return pool ? alloc_from(dptr, bytes, pool, stream) : fail(CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	return pool ? alloc_from(dptr, bytes, pool, stream) : fail(CUDA_ERROR_INVALID_VALUE);
}

static CUresult free_async(CUdeviceptr dptr, CUstream stream)
{
	CUresult r = ready();
	struct block b;

	if (!r)
		r = stream_check(stream);
	if (!r && stream_captures(stream))
		r = capture_free(stream, dptr);
	else if (!r && block_find(dptr, &b) && b.kind == BLOCK_SYNC)
		r = CUDA_ERROR_NOT_SUPPORTED;
	else if (!r)
		return block_end(dptr, KIND(BLOCK_POINTER) | KIND(BLOCK_GRAPH), CUDA_ERROR_INVALID_VALUE);
	if (r)
		block_count_free_fail();
	return r;
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream stream)
{
	return free_async(dptr, stream);
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream stream)
{
	return free_async(dptr, stream);
}

/* Place of the default pool, -1 = there is none. */
static int default_place(const CUmemLocation *location, int type)
{
	bool is_managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED;

	if (!is_managed && type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return -1;
	switch (location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		if (!device_is_valid(location->id))
			return -1;
		return (is_managed ? POOL_MANAGED : POOL_DEVICE) + location->id;
	case CU_MEM_LOCATION_TYPE_HOST:
		return is_managed ? POOL_HOST_MANAGED : POOL_HOST;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return is_managed ? POOL_HOST_MANAGED : POOL_NUMA;
	}
	return -1;
}

/* With the lock. A destroyed pool's place is free when its last block is. NULL: too many. */
static CUmemoryPool pool_place(int home)
{
	for (int i = POOL_FIRST; i < POOL_MAX; i++) {
		struct CUmemPoolHandle_st *p = &pools[i];

		if (p->is_alive || now(&p->used) || p->reserved)
			continue;
		*p = (struct CUmemPoolHandle_st){
			.device = pools[home].device,
			.class = pools[home].class,
			.home = home,
			.serial = ++next_serial,
		};
		if (i >= pool_end)
			__atomic_store_n(&pool_end, i + 1, __ATOMIC_RELEASE);
		return p;
	}
	return NULL;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	CUresult r = ready();
	CUmemoryPool p;
	int home;

	if (r)
		return r;
	if (!out_is_plausible(pool) || !out_is_plausible(props) ||
	    props->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	home = default_place(&props->location, props->allocType);
	if (home < 0)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	p = pool_place(home);
	if (p) {
		p->max = props->maxSize;
		p->may_share = props->handleTypes;
		__atomic_store_n(&p->is_alive, true, __ATOMIC_SEQ_CST);
		*pool = p;
	}
	pthread_mutex_unlock(&lock);
	return p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* What was allocated from it lives on until it is freed. */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	CUresult r = pool_check(pool);

	if (r || pool < pools + POOL_FIRST)
		return r ? r : CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (pool->is_alive) {
		if (current[pool->home] == pool)
			__atomic_store_n(&current[pool->home], &pools[pool->home], __ATOMIC_SEQ_CST);
		__atomic_store_n(&pool->is_alive, false, __ATOMIC_SEQ_CST);
		shrink(pool, 0);
	} else {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes)
{
	CUresult r = pool_check(pool);

	if (r)
		return r;
	pthread_mutex_lock(&lock);
	shrink(pool, step_up(keep_bytes));
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

static CUresult attribute_set(CUmemoryPool p, int attr, const void *value)
{
	uint64_t v;

	switch (attr) {
	case 1: /* what may be reused */
	case 2:
	case 3:
		p->reuse[attr - 1] = *(const uint32_t *)value;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		__atomic_store_n(&p->threshold, *(const uint64_t *)value, __ATOMIC_SEQ_CST);
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		v = *(const uint64_t *)value; /* can be set back only */
		if (v)
			return CUDA_ERROR_INVALID_VALUE;
		if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
			__atomic_store_n(&p->used_high, now(&p->used), __ATOMIC_SEQ_CST);
		else
			__atomic_store_n(&p->reserved_high, p->reserved, __ATOMIC_SEQ_CST);
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attr, void *value)
{
	CUresult r = out_is_plausible(value) ? pool_check(pool) : CUDA_ERROR_INVALID_VALUE;

	if (r)
		return r;
	pthread_mutex_lock(&lock);
	r = attribute_set(pool, attr, value);
	pthread_mutex_unlock(&lock);
	return r;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attr, void *value)
{
	CUresult r = out_is_plausible(value) ? pool_check(pool) : CUDA_ERROR_INVALID_VALUE;

	if (r)
		return r;
	switch (attr) {
	case 1:
	case 2:
	case 3:
		*(uint32_t *)value = (uint32_t)pool->reuse[attr - 1];
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		*(uint64_t *)value = now(&pool->threshold);
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		*(uint64_t *)value = now(&pool->reserved);
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		*(uint64_t *)value = now(&pool->reserved_high);
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*(uint64_t *)value = now(&pool->used);
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		*(uint64_t *)value = now(&pool->used_high);
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult device_pool(CUmemoryPool *pool, CUdevice dev, bool is_default)
{
	CUresult r = ready();

	if (r)
		return r;
	if (!out_is_plausible(pool) || !device_is_valid(dev))
		return CUDA_ERROR_INVALID_VALUE;
	*pool = is_default ? &pools[dev] : __atomic_load_n(&current[dev], __ATOMIC_SEQ_CST);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev)
{
	return device_pool(pool, dev, true);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	return device_pool(pool, dev, false);
}

static CUresult location_pool(CUmemoryPool *pool, const CUmemLocation *location, int type, bool is_default)
{
	CUresult r = ready();
	int place;

	if (r)
		return r;
	if (!out_is_plausible(pool) || !out_is_plausible(location))
		return CUDA_ERROR_INVALID_VALUE;
	place = default_place(location, type);
	if (place < 0)
		return CUDA_ERROR_INVALID_VALUE;
	*pool = is_default ? &pools[place] : __atomic_load_n(&current[place], __ATOMIC_SEQ_CST);
	return CUDA_SUCCESS;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, int type)
{
	return location_pool(pool, location, type, true);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, int type)
{
	return location_pool(pool, location, type, false);
}

/* A pool of another place cannot be the current one. */
static CUresult set_current(int place, CUmemoryPool pool)
{
	CUresult r = pool_check(pool);

	if (r || place < 0)
		return r ? r : CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (pool->is_alive && pool->home == place && !pool->is_imported)
		__atomic_store_n(&current[place], pool, __ATOMIC_SEQ_CST);
	else
		r = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&lock);
	return r;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	return set_current(device_is_valid(dev) ? POOL_DEVICE + dev : -1, pool);
}

CUresult cuMemSetMemPool(CUmemLocation *location, int type, CUmemoryPool pool)
{
	return set_current(out_is_plausible(location) ? default_place(location, type) : -1, pool);
}

CUresult cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool pool, int type, unsigned long long flags)
{
	CUresult r = out_is_plausible(handle) ? pool_check(pool) : CUDA_ERROR_INVALID_VALUE;
	struct token t;
	int fd;

	if (r)
		return r;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags || !pool->may_share)
		return CUDA_ERROR_INVALID_VALUE;
	token_init(&t, TOKEN_POOL, pool->device);
	t.place = (uint64_t)pool->home;
	t.serial = pool->serial;
	fd = token_export(&t);
	if (fd < 0)
		return CUDA_ERROR_UNKNOWN;
	__atomic_store_n(&pool->is_shared, true, __ATOMIC_SEQ_CST);
	*(int *)handle = fd;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle, int type, unsigned long long flags)
{
	CUresult r = ready();
	struct token t;
	CUmemoryPool p;

	if (r)
		return r;
	if (!out_is_plausible(pool) || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags ||
	    !token_import((int)(intptr_t)handle, TOKEN_POOL, &t) || t.place >= POOL_FIRST)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	p = pool_place((int)t.place);
	if (p) {
		p->is_imported = true;
		p->serial = t.serial;
		__atomic_store_n(&p->is_alive, true, __ATOMIC_SEQ_CST);
		*pool = p;
	}
	pthread_mutex_unlock(&lock);
	return p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult pool_of_block(uint16_t pool, uint64_t *ret_serial)
{
	/* Only what lies in a pool that others were given. */
	if (!pool || !__atomic_load_n(&pools[pool - 1].is_shared, __ATOMIC_SEQ_CST))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_serial = pools[pool - 1].serial;
	return CUDA_SUCCESS;
}

CUresult pool_imported(CUmemoryPool pool, uint64_t *ret_serial, int *ret_device)
{
	CUresult r = pool_check(pool);

	if (r || !pool->is_imported)
		return r ? r : CUDA_ERROR_INVALID_VALUE;
	*ret_serial = pool->serial;
	*ret_device = pool->device;
	return CUDA_SUCCESS;
}
