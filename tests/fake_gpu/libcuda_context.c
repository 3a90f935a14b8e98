/* SPDX-License-Identifier: MIT */
/* Contexts of the stand-in driver: primary ones, those made by the program, green ones, and which of them is current. */
#include <pthread.h>

#include "libcuda.h"

#define STACK_DEPTH_MAX 16
#define GREEN_MAX 256

struct CUgreenCtx_st {
	struct CUctx_st *ctx; /* made at the first question for it */
	int device;
	bool is_alive;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUctx_st contexts[CONTEXT_MAX];
static struct CUgreenCtx_st greens[GREEN_MAX];
static __thread struct {
	struct CUctx_st *stack[STACK_DEPTH_MAX];
	int depth;
} current;

void contexts_init(void)
{
	for (int i = 0; i < CONTEXT_MAX; i++)
		contexts[i].id = contexts[i].owner = (uint32_t)i + 1;
	for (int i = 0; i < FAKE_GPU_MAX; i++)
		contexts[i].device = i;
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

/* A context counts for NVML's overhead figure while it is alive; a green one is part of the primary one. */
static void context_alive(struct CUctx_st *c, bool is_alive)
{
	if (c->is_alive == is_alive)
		return;
	c->is_alive = is_alive;
	c->is_used |= is_alive;
	if (!c->is_green)
		device_context_count(c->device, is_alive ? 1 : -1);
}

static CUresult context_push(struct CUctx_st *c)
{
	if (current.depth == STACK_DEPTH_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	current.stack[current.depth++] = c;
	return CUDA_SUCCESS;
}

/* NULL is allowed; anything else has to be a context that is or was: a dead one can be made current, but not used. */
static bool context_is_valid(CUcontext ctx)
{
	uintptr_t at = (uintptr_t)ctx - (uintptr_t)contexts;

	if (!ctx)
		return true;
	return at < sizeof(contexts) && at % sizeof(contexts[0]) == 0 && ctx->is_used;
}

static bool is_primary(const struct CUctx_st *c)
{
	return c < contexts + FAKE_GPU_MAX;
}

/* With the lock. NULL: too many. owner 0: its own. */
static struct CUctx_st *context_new(int device, uint32_t owner)
{
	struct CUctx_st *c = NULL;

	for (int i = FAKE_GPU_MAX; i < CONTEXT_MAX && !c; i++)
		if (!contexts[i].is_alive)
			c = &contexts[i];
	if (!c)
		return NULL;
	c->device = device;
	c->owner = owner ? owner : c->id;
	c->refs = 1;
	c->is_green = owner;
	context_alive(c, true);
	return c;
}

static CUresult context_create(CUcontext *ctx, CUdevice dev)
{
	CUresult r = device_check(dev, ctx);
	struct CUctx_st *c;

	if (r)
		return r;
	pthread_mutex_lock(&lock);
	c = context_new(dev, 0);
	pthread_mutex_unlock(&lock);
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = context_push(c);
	if (!r)
		*ctx = c;
	return r;
}

CUresult cuCtxCreate(CUcontext *ctx, unsigned int flags, CUdevice dev)
{
	(void)flags;
	return context_create(ctx, dev);
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

static void context_destroy(struct CUctx_st *c)
{
	block_sweep(c->id);
	if (current.depth && current.stack[current.depth - 1] == c)
		current.depth--;
	pthread_mutex_lock(&lock);
	context_alive(c, false);
	pthread_mutex_unlock(&lock);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	if (driver_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!ctx || !context_is_valid(ctx) || is_primary(ctx) || !ctx->is_alive || ctx->is_green)
		return CUDA_ERROR_INVALID_CONTEXT;
	context_destroy(ctx);
	return CUDA_SUCCESS;
}

/* On a primary context neither this nor the next changes anything: it is retained and released. */
CUresult cuCtxAttach(CUcontext *ctx, unsigned int flags)
{
	struct CUctx_st *c;
	CUresult r = context_current(&c);

	if (r)
		return r;
	if (!out_is_plausible(ctx) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	c->refs += !is_primary(c);
	pthread_mutex_unlock(&lock);
	*ctx = c;
	return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext ctx)
{
	bool is_last;

	if (driver_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!ctx || !context_is_valid(ctx) || !ctx->is_alive || ctx->is_green)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (is_primary(ctx))
		return CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	is_last = --ctx->refs == 0;
	pthread_mutex_unlock(&lock);
	if (is_last)
		context_destroy(ctx);
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
	CUresult r = context_current(&c);

	if (!r)
		pools_synchronize();
	return r;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
	CUresult r = device_check(dev, ctx);

	if (r)
		return r;
	pthread_mutex_lock(&lock);
	contexts[dev].refs++;
	context_alive(&contexts[dev], true); /* a reset one lives again */
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

/* All memory of the context ends, and it is dead until somebody retains it again; those who did so before still do. */
static CUresult primary_reset(CUdevice dev)
{
	if (driver_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!device_is_valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	block_sweep(contexts[dev].id);
	pthread_mutex_lock(&lock);
	context_alive(&contexts[dev], false);
	pthread_mutex_unlock(&lock);
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

CUresult cuGreenCtxCreate(CUgreenCtx *green, void *desc, CUdevice dev, unsigned int flags)
{
	CUresult r = device_check(dev, green);

	(void)desc;
	if (r)
		return r;
	if (flags & ~1u)
		return CUDA_ERROR_INVALID_VALUE;
	r = CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < GREEN_MAX && r; i++) {
		if (greens[i].is_alive)
			continue;
		greens[i] = (struct CUgreenCtx_st){ .device = dev, .is_alive = true };
		*green = &greens[i];
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

/* With the lock. */
static bool green_is_valid(CUgreenCtx green)
{
	uintptr_t at = (uintptr_t)green - (uintptr_t)greens;

	return at < sizeof(greens) && at % sizeof(greens[0]) == 0 && green->is_alive;
}

/* Its memory is that of the primary context. */
CUresult cuCtxFromGreenCtx(CUcontext *ctx, CUgreenCtx green)
{
	CUresult r = driver_ready();

	if (r)
		return r;
	if (!out_is_plausible(ctx))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (!green_is_valid(green)) {
		r = ERROR_INVALID_HANDLE;
	} else {
		if (!green->ctx)
			green->ctx = context_new(green->device, contexts[green->device].id);
		if (green->ctx)
			*ctx = green->ctx;
		else
			r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
	CUresult r = driver_ready();

	if (r)
		return r;
	pthread_mutex_lock(&lock);
	if (green_is_valid(green)) {
		if (green->ctx)
			context_alive(green->ctx, false);
		green->is_alive = false;
	} else {
		r = ERROR_INVALID_HANDLE;
	}
	pthread_mutex_unlock(&lock);
	return r;
}
