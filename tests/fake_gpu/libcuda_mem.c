/* SPDX-License-Identifier: MIT */
/* The stand-in driver's calls for memory that has a pointer. None of them calls another exported one: a probe on each must
 * fire once a call. */
#include "libcuda.h"

#define PITCH_ALIGN 512u

static CUresult alloc_at(struct block *b, bool low, uint64_t *ret_addr)
{
	struct CUctx_st *c;
	CUresult r = context_current(&c);

	if (!r)
		r = capture_forbids();
	if (r)
		return fail(r);
	if (!b->bytes)
		return fail(CUDA_ERROR_INVALID_VALUE);
	b->device = (int8_t)c->device;
	b->owner = c->owner;
	return block_new(b, low, ret_addr);
}

CUresult alloc_here(unsigned int class, enum block_kind kind, uint64_t *ret_addr, uint64_t bytes)
{
	struct block b = { .class = (uint8_t)class, .kind = (uint8_t)kind, .bytes = bytes };

	return alloc_at(&b, false, ret_addr);
}

CUresult free_here(uint64_t addr, uint32_t kinds, CUresult missing)
{
	CUresult r = driver_ready();

	if (r) {
		block_count_free_fail();
		return r;
	}
	return block_end(addr, kinds, missing);
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
	uint64_t addr;
	CUresult r;

	if (!out_is_plausible(dptr))
		return fail(CUDA_ERROR_INVALID_VALUE);
	r = alloc_here(CLASS_DEVICE, BLOCK_POINTER, &addr, bytes);
	if (!r)
		*dptr = addr;
	return r;
}

/* An address that fits into 32 bits. */
static CUresult alloc_low(CUdeviceptr_v1 *dptr, uint64_t bytes)
{
	struct block b = { .class = CLASS_DEVICE, .kind = BLOCK_POINTER, .bytes = bytes };
	uint64_t addr;
	CUresult r = alloc_at(&b, true, &addr);

	if (!r)
		*dptr = (CUdeviceptr_v1)addr;
	return r;
}

CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytes)
{
	return out_is_plausible(dptr) ? alloc_low(dptr, bytes) : fail(CUDA_ERROR_INVALID_VALUE);
}

/* 0 with the pitch and all the bytes. */
static CUresult pitch_bytes(size_t width, size_t height, unsigned int element, size_t *ret_pitch, size_t *ret_bytes)
{
	*ret_pitch = (width + PITCH_ALIGN - 1) & ~(size_t)(PITCH_ALIGN - 1);
	if ((element != 4 && element != 8 && element != 16) || !width || !height)
		return CUDA_ERROR_INVALID_VALUE;
	if (*ret_pitch < width || __builtin_mul_overflow(*ret_pitch, height, ret_bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height, unsigned int element)
{
	size_t aligned, bytes = 0;
	uint64_t addr;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (out_is_plausible(pitch) && out_is_plausible(dptr))
		r = pitch_bytes(width, height, element, &aligned, &bytes);
	if (r)
		return fail(r);
	r = alloc_here(CLASS_DEVICE, BLOCK_POINTER, &addr, bytes);
	if (r)
		return r;
	*pitch = aligned;
	*dptr = addr;
	return CUDA_SUCCESS;
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pitch, unsigned int width, unsigned int height,
			 unsigned int element)
{
	size_t aligned, bytes = 0;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (out_is_plausible(pitch) && out_is_plausible(dptr))
		r = pitch_bytes(width, height, element, &aligned, &bytes);
	if (!r && aligned > UINT32_MAX)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r)
		return fail(r);
	r = alloc_low(dptr, bytes);
	if (!r)
		*pitch = (unsigned int)aligned;
	return r;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
	uint64_t addr;
	CUresult r;

	if (!out_is_plausible(dptr) || (flags != 1 && flags != 2)) /* global or host */
		return fail(CUDA_ERROR_INVALID_VALUE);
	r = alloc_here(CLASS_MANAGED, BLOCK_SYNC, &addr, bytes);
	if (!r)
		*dptr = addr;
	return r;
}

/* Freeing nothing is allowed and changes nothing. */
static CUresult free_pointer(uint64_t addr)
{
	CUresult r;

	if (!addr)
		return driver_ready();
	r = capture_forbids();
	if (r) {
		block_count_free_fail();
		return r;
	}
	return free_here(addr, KIND(BLOCK_POINTER) | KIND(BLOCK_SYNC) | KIND(BLOCK_GRAPH), CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	return free_pointer(dptr);
}

CUresult cuMemFree(CUdeviceptr_v1 dptr)
{
	return free_pointer(dptr);
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
	uint64_t addr;
	CUresult r;

	if (!out_is_plausible(p))
		return fail(CUDA_ERROR_INVALID_VALUE);
	r = alloc_here(CLASS_HOST, BLOCK_HOST, &addr, bytes);
	if (!r)
		*p = (void *)(uintptr_t)addr;
	return r;
}

CUresult cuMemAllocHost_v2(void **p, size_t bytes)
{
	return alloc_host(p, bytes);
}

CUresult cuMemAllocHost(void **pp, unsigned int bytes)
{
	return alloc_host(pp, bytes);
}

CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned int flags)
{
	if (flags & ~7u)
		return fail(CUDA_ERROR_INVALID_VALUE);
	return alloc_host(p, bytes);
}

/* Registered pages are not ours to free. */
CUresult cuMemFreeHost(void *p)
{
	return free_here((uintptr_t)p, KIND(BLOCK_HOST), CUDA_ERROR_INVALID_VALUE);
}

static CUresult host_register(void *p, size_t bytes, unsigned int flags)
{
	struct block b = { .class = CLASS_HOST, .kind = BLOCK_REGISTERED, .addr = (uintptr_t)p, .bytes = bytes };
	struct CUctx_st *c;
	CUresult r = context_current(&c);

	if (r)
		return fail(r);
	if (!out_is_plausible(p) || !bytes || flags & ~15u || (uintptr_t)p + bytes < (uintptr_t)p ||
	    (uintptr_t)p + bytes > 1ull << USER_ADDRESS_BITS)
		return fail(CUDA_ERROR_INVALID_VALUE);
	b.device = (int8_t)c->device;
	b.owner = c->owner;
	return block_adopt(&b, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
}

CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags)
{
	return host_register(p, bytes, flags);
}

CUresult cuMemHostRegister(void *p, size_t bytes, unsigned int flags)
{
	return host_register(p, bytes, flags);
}

CUresult cuMemHostUnregister(void *p)
{
	return free_here((uintptr_t)p, KIND(BLOCK_REGISTERED), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}
