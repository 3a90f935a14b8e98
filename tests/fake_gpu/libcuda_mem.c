/* SPDX-License-Identifier: MIT */
/* The stand-in driver's calls for memory that has a pointer. None of them calls another exported one: a probe on each must
 * fire once a call. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "libcuda.h"

#define MASK(class) (1u << (class))
#define PITCH_ALIGN 512u

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUmemPoolHandle_st pools[POOL_MAX];

static CUresult fail(CUresult error)
{
	block_count_fail();
	return error;
}

/* Memory that goes with the thread's context. */
static CUresult alloc_here(unsigned int class, CUdeviceptr *dptr, size_t bytes)
{
	struct CUctx_st *c;
	CUresult r = context_current(&c);
	uint64_t addr;

	if (r)
		return fail(r);
	if (!out_is_plausible(dptr))
		return fail(CUDA_ERROR_INVALID_VALUE);
	r = block_new(class, bytes, c->device, c->id, &addr);
	if (!r)
		*dptr = addr;
	return r;
}

static CUresult free_here(CUdeviceptr dptr, uint32_t mask)
{
	CUresult r = driver_ready();

	if (r) {
		block_count_free_fail();
		return r;
	}
	return block_end(dptr, mask, CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
	return alloc_here(CLASS_DEVICE, dptr, bytes);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height, unsigned int element)
{
	size_t aligned = (width + PITCH_ALIGN - 1) & ~(size_t)(PITCH_ALIGN - 1), bytes;
	CUresult r;

	if (!out_is_plausible(pitch) || (element != 4 && element != 8 && element != 16) || !width || !height)
		return fail(CUDA_ERROR_INVALID_VALUE);
	if (aligned < width || __builtin_mul_overflow(aligned, height, &bytes))
		return fail(CUDA_ERROR_OUT_OF_MEMORY);
	r = alloc_here(CLASS_DEVICE, dptr, bytes);
	if (!r)
		*pitch = aligned;
	return r;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
	if (flags != 1 && flags != 2) /* global or host */
		return fail(CUDA_ERROR_INVALID_VALUE);
	return alloc_here(CLASS_MANAGED, dptr, bytes);
}

/* Freeing nothing is allowed and changes nothing. */
CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	if (!dptr)
		return driver_ready();
	return free_here(dptr, MASK(CLASS_DEVICE) | MASK(CLASS_MANAGED) | MASK(CLASS_ASYNC));
}

/* There is nothing behind an address to be set. */
CUresult cuMemsetD8_v2(CUdeviceptr dptr, unsigned char value, size_t bytes)
{
	struct block b;

	(void)value;
	if (driver_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	return block_find(dptr, &b) && bytes <= b.bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult alloc_host(void **p, size_t bytes)
{
	CUdeviceptr addr;
	CUresult r;

	if (!out_is_plausible(p))
		return fail(CUDA_ERROR_INVALID_VALUE);
	r = alloc_here(CLASS_HOST, &addr, bytes);
	if (!r)
		*p = (void *)(uintptr_t)addr;
	return r;
}

CUresult cuMemAllocHost_v2(void **p, size_t bytes)
{
	return alloc_host(p, bytes);
}

CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned int flags)
{
	if (flags & ~7u)
		return fail(CUDA_ERROR_INVALID_VALUE);
	return alloc_host(p, bytes);
}

CUresult cuMemFreeHost(void *p)
{
	struct block b;

	/* Registered pages are not ours to free. */
	if (block_find((uintptr_t)p, &b) && !b.order) {
		block_count_free_fail();
		return CUDA_ERROR_INVALID_VALUE;
	}
	return free_here((uintptr_t)p, MASK(CLASS_HOST));
}

CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags)
{
	struct CUctx_st *c;
	CUresult r = context_current(&c);

	if (r)
		return fail(r);
	if (!out_is_plausible(p) || !bytes || flags & ~15u || (uintptr_t)p + bytes < (uintptr_t)p ||
	    (uintptr_t)p + bytes > 1ull << 47)
		return fail(CUDA_ERROR_INVALID_VALUE);
	return block_adopt(CLASS_HOST, (uintptr_t)p, bytes, c->device, c->id,
			   CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
}

CUresult cuMemHostUnregister(void *p)
{
	struct block b;

	if (block_find((uintptr_t)p, &b) && b.order) {
		block_count_free_fail();
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	}
	if (driver_ready()) {
		block_count_free_fail();
		return CUDA_ERROR_NOT_INITIALIZED;
	}
	return block_end((uintptr_t)p, MASK(CLASS_HOST), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

static unsigned int format_bytes(int format)
{
	switch (format) {
	case 0x01: /* unsigned and signed 8 bits */
	case 0x08:
		return 1;
	case 0x02: /* 16 bits, half */
	case 0x09:
	case 0x10:
		return 2;
	case 0x03: /* 32 bits, float */
	case 0x0a:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	}
	return 0;
}

static CUresult array_new(CUarray *array, size_t width, size_t height, size_t depth, int format, unsigned int channels)
{
	size_t bytes = format_bytes(format) * (size_t)channels;
	CUdeviceptr addr;
	CUresult r;

	if (!out_is_plausible(array) || !bytes || (channels != 1 && channels != 2 && channels != 4) || !width)
		return fail(CUDA_ERROR_INVALID_VALUE);
	if (__builtin_mul_overflow(bytes, width, &bytes) || __builtin_mul_overflow(bytes, height ? height : 1, &bytes) ||
	    __builtin_mul_overflow(bytes, depth ? depth : 1, &bytes))
		return fail(CUDA_ERROR_OUT_OF_MEMORY);
	r = alloc_here(CLASS_ARRAY, &addr, bytes);
	if (!r)
		*array = (CUarray)(uintptr_t)addr;
	return r;
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *desc)
{
	if (!out_is_plausible(desc))
		return fail(CUDA_ERROR_INVALID_VALUE);
	return array_new(array, desc->Width, desc->Height, 0, desc->Format, desc->NumChannels);
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	if (!out_is_plausible(desc))
		return fail(CUDA_ERROR_INVALID_VALUE);
	return array_new(array, desc->Width, desc->Height, desc->Depth, desc->Format, desc->NumChannels);
}

CUresult cuArrayDestroy(CUarray array)
{
	return free_here((uintptr_t)array, MASK(CLASS_ARRAY));
}

/* A default pool exists as long as its device. */
static bool pool_is_valid(CUmemoryPool pool)
{
	uintptr_t at = (uintptr_t)pool - (uintptr_t)pools;

	if (at >= sizeof(pools) || at % sizeof(pools[0]))
		return false;
	return at < FAKE_GPU_MAX * sizeof(pools[0]) || __atomic_load_n(&pool->is_alive, __ATOMIC_ACQUIRE);
}

static CUresult alloc_from(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool)
{
	struct CUctx_st *c;
	CUresult r = context_current(&c);
	uint64_t addr;
	int device;

	if (r)
		return fail(r);
	if (!out_is_plausible(dptr) || !pool_is_valid(pool))
		return fail(CUDA_ERROR_INVALID_VALUE);
	device = pool < pools + FAKE_GPU_MAX ? (int)(pool - pools) : pool->device;
	r = block_new(CLASS_ASYNC, bytes, device, c->id, &addr);
	if (!r)
		*dptr = addr;
	return r;
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	(void)stream;
	return alloc_here(CLASS_ASYNC, dptr, bytes);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	(void)stream;
	return alloc_here(CLASS_ASYNC, dptr, bytes);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	(void)stream;
	return alloc_from(dptr, bytes, pool);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	(void)stream;
	return alloc_from(dptr, bytes, pool);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream stream)
{
	(void)stream;
	return free_here(dptr, MASK(CLASS_ASYNC) | MASK(CLASS_DEVICE));
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream stream)
{
	(void)stream;
	return free_here(dptr, MASK(CLASS_ASYNC) | MASK(CLASS_DEVICE));
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	CUresult r = driver_ready();

	if (r)
		return r;
	if (!out_is_plausible(pool) || !out_is_plausible(props) || props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !device_is_valid(props->location.id))
		return CUDA_ERROR_INVALID_VALUE;
	r = CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&pool_lock);
	for (int i = FAKE_GPU_MAX; i < POOL_MAX && r; i++) {
		if (pools[i].is_alive)
			continue;
		pools[i].device = props->location.id;
		__atomic_store_n(&pools[i].is_alive, true, __ATOMIC_RELEASE);
		*pool = &pools[i];
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&pool_lock);
	return r;
}

/* What was allocated from it lives on until it is freed. */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	if (!pool_is_valid(pool) || pool < pools + FAKE_GPU_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	__atomic_store_n(&pool->is_alive, false, __ATOMIC_RELEASE);
	return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes)
{
	(void)keep_bytes;
	return pool_is_valid(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attr, void *value)
{
	(void)attr;
	(void)value;
	return pool_is_valid(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev)
{
	if (driver_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!out_is_plausible(pool) || !device_is_valid(dev))
		return CUDA_ERROR_INVALID_VALUE;
	*pool = &pools[dev];
	return CUDA_SUCCESS;
}

struct ipc_token {
	uint64_t magic, addr, bytes;
	int32_t pid, device;
};

#define IPC_MAGIC 0x6370692d656b6166ull

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr)
{
	struct ipc_token t = { .magic = IPC_MAGIC, .addr = dptr, .pid = getpid() };
	struct block b;

	if (driver_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!out_is_plausible(handle) || !block_find(dptr, &b) || b.class != CLASS_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	t.bytes = b.bytes;
	t.device = b.device;
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &t, sizeof(t));
	return CUDA_SUCCESS;
}

static CUresult ipc_open(CUdeviceptr *dptr, const CUipcMemHandle *handle)
{
	struct ipc_token t;

	memcpy(&t, handle, sizeof(t));
	if (t.magic != IPC_MAGIC || t.pid == getpid()) /* not in the process that owns it */
		return fail(CUDA_ERROR_INVALID_VALUE);
	return alloc_here(CLASS_IMPORTED, dptr, t.bytes);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
	(void)flags;
	return ipc_open(dptr, &handle);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
	(void)flags;
	return ipc_open(dptr, &handle);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	return free_here(dptr, MASK(CLASS_IMPORTED));
}
