/* SPDX-License-Identifier: MIT */
/* A stand-in for the CUDA driver library: devices, contexts, errors. Real names, argument orders and return codes. */
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcuda.h"

enum driver_state {
	DRIVER_NEW,
	DRIVER_READY,
	DRIVER_FORKED, /* a context does not survive fork: all calls of the child fail, as in the real driver */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below but slot's bytes */
static int state;
static struct fake_gpu_slot *slot;
static int device_count; /* visible ones */
static int physical[FAKE_GPU_MAX]; /* index of each ordinal */
static uint64_t capacity;
static struct CUctx_st contexts[CONTEXT_MAX];

#define STACK_DEPTH_MAX 16
static __thread struct {
	struct CUctx_st *stack[STACK_DEPTH_MAX];
	int depth;
} current;

bool out_is_plausible(const volatile void *p)
{
	return (uintptr_t)p >= 65536 && (uintptr_t)p < 1ull << 47;
}

static void in_child(void)
{
	if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == DRIVER_READY)
		__atomic_store_n(&state, DRIVER_FORKED, __ATOMIC_RELEASE);
	slot = NULL; /* the parent's */
}

static void __attribute__((destructor)) at_exit(void)
{
	if (slot && __atomic_load_n(&state, __ATOMIC_ACQUIRE) == DRIVER_READY)
		__atomic_store_n(&slot->pid, 0, __ATOMIC_RELEASE);
}

/* One item of CUDA_VISIBLE_DEVICES: an index, or a uuid or its beginning. -1: none such. */
static int visible_item(const char *s, size_t len, int count)
{
	char text[41];
	int v = 0;

	if (!len)
		return -1;
	for (int i = 0; i < count && len > 4 && len <= 40; i++) {
		state_uuid_text(i, text);
		if (!strncmp(s, text, len))
			return i;
	}
	for (size_t i = 0; i < len; i++) {
		if (!isdigit((unsigned char)s[i]) || v > 1000)
			return -1;
		v = 10 * v + s[i] - '0';
	}
	return v < count ? v : -1;
}

/* As the real driver reads it: the list ends at the first item that is not good. */
static void find_devices(void)
{
	const char *s = getenv("CUDA_VISIBLE_DEVICES");
	int count = state_device_count();

	device_count = 0;
	if (!s) {
		for (; device_count < count; device_count++)
			physical[device_count] = device_count;
		return;
	}
	while (device_count < FAKE_GPU_MAX) {
		size_t len = strcspn(s, ",");
		int v = visible_item(s, len, count);

		if (v < 0)
			return;
		physical[device_count++] = v;
		if (!s[len])
			return;
		s += len + 1;
	}
}

CUresult cuInit(unsigned int flags)
{
	CUresult r = CUDA_SUCCESS;

	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (state == DRIVER_FORKED) {
		r = CUDA_ERROR_NOT_INITIALIZED;
	} else if (state == DRIVER_NEW) {
		find_devices();
		capacity = state_device_bytes();
		slot = state_claim();
		if (!slot || !device_count) {
			r = slot ? 100 /* no device */ : CUDA_ERROR_OUT_OF_MEMORY;
		} else {
			for (int i = 0; i < CONTEXT_MAX; i++)
				contexts[i].id = (uint32_t)i + 1;
			for (int i = 0; i < FAKE_GPU_MAX; i++)
				contexts[i].device = i;
			pthread_atfork(NULL, NULL, in_child);
			__atomic_store_n(&state, DRIVER_READY, __ATOMIC_RELEASE);
		}
	}
	pthread_mutex_unlock(&lock);
	return r;
}

CUresult driver_ready(void)
{
	return __atomic_load_n(&state, __ATOMIC_ACQUIRE) == DRIVER_READY ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

bool device_is_valid(CUdevice dev)
{
	return dev >= 0 && dev < device_count;
}

CUresult context_current(struct CUctx_st **ret)
{
	CUresult r = driver_ready();
	struct CUctx_st *c;

	if (r)
		return r;
	c = current.depth ? current.stack[current.depth - 1] : NULL;
	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!c->is_alive)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ret = c;
	return CUDA_SUCCESS;
}

bool device_charge(int device, uint64_t bytes)
{
	uint64_t *used = &slot->used_bytes[physical[device]], was = __atomic_load_n(used, __ATOMIC_RELAXED);

	do {
		if (bytes > capacity || was > capacity - bytes)
			return false;
	} while (!__atomic_compare_exchange_n(used, &was, was + bytes, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return true;
}

void device_uncharge(int device, uint64_t bytes)
{
	__atomic_fetch_sub(&slot->used_bytes[physical[device]], bytes, __ATOMIC_RELAXED);
}

CUresult cuDriverGetVersion(int *version)
{
	if (!out_is_plausible(version))
		return CUDA_ERROR_INVALID_VALUE;
	*version = 13000;
	return CUDA_SUCCESS;
}

static const struct {
	CUresult code;
	const char *name, *text;
} errors[] = {
	{ CUDA_SUCCESS, "CUDA_SUCCESS", "no error" },
	{ CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
	{ CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
	{ CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
	{ 100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
	{ CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
	{ CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
	{ CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed" },
	{ CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
	  "part or all of the requested memory range is already mapped" },
	{ CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
	  "pointer does not correspond to a registered memory region" },
	{ CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
	{ CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

static CUresult error_text(CUresult error, const char **str, bool is_name)
{
	if (!out_is_plausible(str))
		return CUDA_ERROR_INVALID_VALUE;
	*str = NULL;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == error)
			*str = is_name ? errors[i].name : errors[i].text;
	return *str ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **str)
{
	return error_text(error, str, true);
}

CUresult cuGetErrorString(CUresult error, const char **str)
{
	return error_text(error, str, false);
}

CUresult cuDeviceGetCount(int *count)
{
	if (driver_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!out_is_plausible(count))
		return CUDA_ERROR_INVALID_VALUE;
	*count = device_count;
	return CUDA_SUCCESS;
}

static CUresult device_check(CUdevice dev, const volatile void *out)
{
	if (driver_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!out_is_plausible(out))
		return CUDA_ERROR_INVALID_VALUE;
	return device_is_valid(dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult r = device_check(ordinal, device);

	if (!r)
		*device = ordinal;
	return r;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	CUresult r = device_check(dev, name);

	if (!r && len > 0)
		snprintf(name, (size_t)len, "Fake GPU");
	return r;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	CUresult r = device_check(dev, bytes);

	if (!r)
		*bytes = capacity;
	return r;
}

static CUresult get_uuid(CUuuid *uuid, CUdevice dev)
{
	CUresult r = device_check(dev, uuid);

	if (!r)
		state_uuid(physical[dev], uuid->bytes);
	return r;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	return get_uuid(uuid, dev);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	return get_uuid(uuid, dev);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	struct CUctx_st *c;
	CUresult r = context_current(&c);
	uint64_t used;

	if (r)
		return r;
	if (!out_is_plausible(free_bytes) || !out_is_plausible(total_bytes))
		return CUDA_ERROR_INVALID_VALUE;
	used = __atomic_load_n(&slot->used_bytes[physical[c->device]], __ATOMIC_RELAXED);
	*free_bytes = capacity > used ? capacity - used : 0;
	*total_bytes = capacity;
	return CUDA_SUCCESS;
}

/* A context counts for NVML's overhead figure while it is alive. */
static void context_alive(struct CUctx_st *c, bool is_alive)
{
	if (c->is_alive == is_alive)
		return;
	c->is_alive = is_alive;
	__atomic_fetch_add(&slot->contexts[physical[c->device]], is_alive ? 1 : -1, __ATOMIC_RELAXED);
}

static CUresult context_push(struct CUctx_st *c)
{
	if (current.depth == STACK_DEPTH_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	current.stack[current.depth++] = c;
	return CUDA_SUCCESS;
}

/* NULL is allowed; anything else has to be a living context. */
static bool context_is_valid(CUcontext ctx)
{
	uintptr_t at = (uintptr_t)ctx - (uintptr_t)contexts;

	if (!ctx)
		return true;
	return at < sizeof(contexts) && at % sizeof(contexts[0]) == 0 && ctx->is_alive;
}

static CUresult context_create(CUcontext *ctx, CUdevice dev)
{
	CUresult r = device_check(dev, ctx);
	struct CUctx_st *c = NULL;

	if (r)
		return r;
	pthread_mutex_lock(&lock);
	for (int i = FAKE_GPU_MAX; i < CONTEXT_MAX && !c; i++)
		if (!contexts[i].is_alive)
			c = &contexts[i];
	if (c) {
		c->device = dev;
		context_alive(c, true);
	}
	pthread_mutex_unlock(&lock);
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = context_push(c);
	if (!r)
		*ctx = c;
	return r;
}

CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice dev)
{
	(void)flags;
	return context_create(ctx, dev);
}

CUresult cuCtxCreate_v3(CUcontext *ctx, void *params, int n_params, unsigned int flags, CUdevice dev)
{
	(void)params;
	(void)n_params;
	(void)flags;
	return context_create(ctx, dev);
}

CUresult cuCtxCreate_v4(CUcontext *ctx, void *params, unsigned int flags, CUdevice dev)
{
	(void)params;
	(void)flags;
	return context_create(ctx, dev);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	if (driver_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!ctx || !context_is_valid(ctx) || ctx < contexts + FAKE_GPU_MAX)
		return CUDA_ERROR_INVALID_CONTEXT;
	block_sweep(ctx->id);
	if (current.depth && current.stack[current.depth - 1] == ctx)
		current.depth--;
	pthread_mutex_lock(&lock);
	context_alive(ctx, false);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
	if (driver_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!context_is_valid(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (current.depth)
		current.depth--;
	return ctx ? context_push(ctx) : CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *ctx)
{
	if (driver_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!out_is_plausible(ctx))
		return CUDA_ERROR_INVALID_VALUE;
	*ctx = current.depth ? current.stack[current.depth - 1] : NULL;
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	if (driver_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!ctx || !context_is_valid(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	return context_push(ctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext *ctx)
{
	if (driver_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!current.depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	current.depth--;
	if (out_is_plausible(ctx))
		*ctx = current.stack[current.depth];
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	struct CUctx_st *c;
	CUresult r = context_current(&c);

	if (r)
		return r;
	if (!out_is_plausible(device))
		return CUDA_ERROR_INVALID_VALUE;
	*device = c->device;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	struct CUctx_st *c = ctx;
	CUresult r = ctx ? driver_ready() : context_current(&c);

	if (r)
		return r;
	if (!context_is_valid(c))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!out_is_plausible(device))
		return CUDA_ERROR_INVALID_VALUE;
	*device = c->device;
	return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
	struct CUctx_st *c;

	return context_current(&c);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
	CUresult r = device_check(dev, ctx);

	if (r)
		return r;
	pthread_mutex_lock(&lock);
	contexts[dev].refs++;
	context_alive(&contexts[dev], true);
	pthread_mutex_unlock(&lock);
	*ctx = &contexts[dev];
	return CUDA_SUCCESS;
}

static CUresult primary_release(CUdevice dev)
{
	bool is_last;

	if (driver_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!device_is_valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	if (!contexts[dev].refs) {
		pthread_mutex_unlock(&lock);
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	is_last = --contexts[dev].refs == 0;
	pthread_mutex_unlock(&lock);
	if (!is_last)
		return CUDA_SUCCESS;
	block_sweep(contexts[dev].id);
	pthread_mutex_lock(&lock);
	context_alive(&contexts[dev], false);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
	return primary_release(dev);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	return primary_release(dev);
}

/* All memory of the context ends; whoever holds it may go on with it, as after cudaDeviceReset() and a new retain. */
static CUresult primary_reset(CUdevice dev)
{
	if (driver_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!device_is_valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	block_sweep(contexts[dev].id);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
	return primary_reset(dev);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	return primary_reset(dev);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	CUresult r = device_check(dev, flags);

	if (r)
		return r;
	if (!out_is_plausible(active))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = 0;
	*active = contexts[dev].is_alive;
	return CUDA_SUCCESS;
}

void fake_gpu_totals(struct fake_gpu_totals *ret)
{
	memset(ret, 0, sizeof(*ret));
	block_totals(ret);
	vmm_totals(ret);
}
