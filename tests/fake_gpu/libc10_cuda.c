/* SPDX-License-Identifier: MIT */
/*
 * A stand-in for PyTorch's caching allocator: takes segments from the driver and cuts tensors out of them. The
 * functions that are probed are local ones under the names and with the arguments of the real library (2.11), and so is
 * the allocator of one device below, which must not be probed. No lock: one thread.
 *
 * When memory is short the real one throws through the function that is probed. So does this one, by the same unwinder,
 * up to the exported function: if the unwinder loses its way, the process aborts.
 */
#include <setjmp.h>
#include <stdlib.h>
#include <unwind.h>

#include "c10_api.h"
#include "common.h"
#include "cuda_api.h"

#define EXPORT __attribute__((visibility("default")))
#define CACHE "_ZN3c104cuda20CUDACachingAllocator6Native"
#define ALIGN 512u

struct tensor {
	struct tensor *next;
	uint64_t at, bytes; /* bytes asked for, from the segment's start */
};

struct segment {
	uint64_t addr, bytes;
	int device;
	struct tensor *first; /* ascending */
};

struct native {
	struct segment segments[C10_SEGMENTS_MAX];
	struct c10_stats stats;
};

static struct native allocator;

static FRAME void native_malloc(struct native *self, void **ret, signed char device, size_t bytes,
				void *stream) __asm__(CACHE "22NativeCachingAllocator6mallocEPPvamP11CUstream_st");
static FRAME void *device_malloc(struct native *self, signed char device, size_t bytes,
				 void *stream) __asm__(CACHE "22DeviceCachingAllocator6mallocEamP11CUstream_st");
static FRAME void *native_raw_alloc(struct native *self, size_t bytes,
				    void *stream) __asm__(CACHE "22NativeCachingAllocator21raw_alloc_with_streamEmP11CUstream_st");
static FRAME void native_free(struct native *self, void *p) __asm__(CACHE "22NativeCachingAllocator4freeEPv");
static FRAME void native_raw_delete(struct native *self, void *p) __asm__(CACHE "22NativeCachingAllocator10raw_deleteEPv");
static FRAME void local_raw_delete(void *p) __asm__(CACHE "L16local_raw_deleteEPv");

static __thread int thread_device;

static struct {
	jmp_buf env;
	uintptr_t frame; /* of the function that catches */
	struct _Unwind_Exception exception;
} catcher;

static _Unwind_Reason_Code unwound(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
				   struct _Unwind_Exception *exception, struct _Unwind_Context *context, void *arg)
{
	if (actions & _UA_END_OF_STACK)
		abort();
	if (_Unwind_GetCFA(context) > catcher.frame)
		longjmp(catcher.env, 1);
	return _URC_NO_REASON;
}

static FRAME void throw_out_of_memory(struct native *self)
{
	self->stats.throws++;
	catcher.exception = (struct _Unwind_Exception){};
	_Unwind_ForcedUnwind(&catcher.exception, unwound, NULL);
	abort();
}

/* The real one sets the runtime's device, whose context stays. */
static CUresult driver_alloc(int device, CUdeviceptr *ret, size_t bytes)
{
	static CUcontext primary[FAKE_GPU_MAX];
	CUcontext before = NULL;
	CUresult r = 0;

	if (!primary[device])
		r = cuDevicePrimaryCtxRetain(&primary[device], device);
	if (!r)
		r = cuCtxGetCurrent(&before);
	if (!r)
		r = cuCtxSetCurrent(primary[device]);
	if (!r)
		r = cuMemAlloc_v2(ret, bytes);
	(void)cuCtxSetCurrent(before);
	return r;
}

static struct segment *new_segment(struct native *self, int device, size_t bytes)
{
	size_t whole = bytes > C10_SEGMENT_BYTES ? (bytes + (2u << 20) - 1) & ~(size_t)((2u << 20) - 1) : C10_SEGMENT_BYTES;
	CUdeviceptr addr;

	for (size_t i = 0; i < C10_SEGMENTS_MAX; i++) {
		struct segment *s = &self->segments[i];

		if (s->bytes)
			continue;
		if (driver_alloc(device, &addr, whole)) {
			self->stats.segment_fails++;
			return NULL;
		}
		*s = (struct segment){ .addr = addr, .bytes = whole, .device = device };
		self->stats.segment_bytes += whole;
		self->stats.segment_count++;
		self->stats.segment_allocs++;
		self->stats.device_bytes[device] += whole;
		return s;
	}
	return NULL;
}

static uint64_t aligned(uint64_t bytes)
{
	return (bytes + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);
}

/* First fit. */
static struct tensor *cut(struct segment *s, size_t bytes)
{
	struct tensor **where = &s->first, *t;
	uint64_t at = 0;

	while (*where && (*where)->at - at < aligned(bytes)) {
		at = (*where)->at + aligned((*where)->bytes);
		where = &(*where)->next;
	}
	if (s->bytes - at < aligned(bytes))
		return NULL;
	t = malloc(sizeof(*t));
	if (!t)
		return NULL;
	*t = (struct tensor){ .next = *where, .at = at, .bytes = bytes };
	*where = t;
	return t;
}

static void *device_malloc(struct native *self, signed char device, size_t bytes, void *stream)
{
	struct tensor *t = NULL;
	struct segment *s;

	for (size_t i = 0; i < C10_SEGMENTS_MAX && !t; i++) {
		s = &self->segments[i];
		if (s->bytes && s->device == device)
			t = cut(s, bytes);
		if (t)
			break;
	}
	if (!t) {
		s = new_segment(self, device, bytes);
		t = s ? cut(s, bytes) : NULL;
	}
	if (!t)
		throw_out_of_memory(self);
	self->stats.tensor_bytes += bytes;
	self->stats.tensor_count++;
	return (void *)(uintptr_t)(s->addr + t->at);
}

static void native_malloc(struct native *self, void **ret, signed char device, size_t bytes, void *stream)
{
	*ret = device_malloc(self, device, bytes, stream);
	KEEP_FRAME();
}

static void *native_raw_alloc(struct native *self, size_t bytes, void *stream)
{
	void *p = NULL;

	if (bytes)
		native_malloc(self, &p, (signed char)thread_device, bytes, stream);
	KEEP_FRAME();
	return p;
}

static inline __attribute__((always_inline)) void forget(struct native *self, void *p)
{
	const uint64_t addr = (uintptr_t)p;

	for (size_t i = 0; i < C10_SEGMENTS_MAX; i++) {
		struct segment *s = &self->segments[i];

		if (!s->bytes || addr < s->addr || addr - s->addr >= s->bytes)
			continue;
		for (struct tensor **t = &s->first; *t; t = &(*t)->next) {
			struct tensor *gone = *t;

			if (s->addr + gone->at != addr)
				continue;
			self->stats.tensor_bytes -= gone->bytes;
			self->stats.tensor_count--;
			*t = gone->next;
			free(gone);
			return;
		}
	}
}

static void native_free(struct native *self, void *p)
{
	if (p)
		forget(self, p);
	KEEP_FRAME();
}

static void native_raw_delete(struct native *self, void *p)
{
	native_free(self, p);
	KEEP_FRAME();
}

static void local_raw_delete(void *p)
{
	if ((uintptr_t)p % ALIGN)
		abort(); /* GCC makes a cold part of it */
	forget(&allocator, p);
	KEEP_FRAME();
}

EXPORT void *c10_allocate(int device, size_t bytes)
{
	void *p = NULL;

	catcher.frame = (uintptr_t)__builtin_frame_address(0);
	if (setjmp(catcher.env))
		return NULL;
	native_malloc(&allocator, &p, (signed char)device, bytes, NULL);
	KEEP_FRAME();
	return p;
}

EXPORT void *c10_raw_alloc(int device, size_t bytes)
{
	void *p;

	thread_device = device;
	catcher.frame = (uintptr_t)__builtin_frame_address(0);
	if (setjmp(catcher.env))
		return NULL;
	p = native_raw_alloc(&allocator, bytes, NULL);
	KEEP_FRAME();
	return p;
}

EXPORT void c10_delete_tensor(void *p)
{
	local_raw_delete(p);
	KEEP_FRAME();
}

EXPORT void c10_raw_delete(void *p)
{
	native_raw_delete(&allocator, p);
	KEEP_FRAME();
}

EXPORT void c10_free(void *p)
{
	native_free(&allocator, p);
	KEEP_FRAME();
}

EXPORT void c10_empty_cache(void)
{
	for (size_t i = 0; i < C10_SEGMENTS_MAX; i++) {
		struct segment *s = &allocator.segments[i];

		if (!s->bytes || s->first || cuMemFree_v2(s->addr))
			continue;
		allocator.stats.segment_bytes -= s->bytes;
		allocator.stats.segment_count--;
		allocator.stats.segment_frees++;
		allocator.stats.device_bytes[s->device] -= s->bytes;
		*s = (struct segment){};
	}
}

EXPORT void c10_stats(struct c10_stats *ret)
{
	*ret = allocator.stats;
}
