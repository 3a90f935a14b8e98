/* SPDX-License-Identifier: MIT */
/* The stand-in for HIP: devices and contexts, stream-ordered memory and its pools, captures and graphs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libamdhip64.h"

static struct fake_pool pools[POOLS]; /* the devices' default pools come first */

static void __attribute__((constructor)) start_pools(void)
{
	for (int i = 0; i < FAKE_GPU_MAX; i++) {
		pools[i] = (struct fake_pool){ .device = i, .is_alive = true };
		devices[i].pool = &pools[i];
	}
}

static bool is_device(int device)
{
	return device >= 0 && device < device_count;
}

hipError_t hipGetDeviceCount(int *count)
{
	*count = device_count;
	return hipSuccess;
}

/* The card's number in 16 hexadecimal digits, and no zero behind them. */
hipError_t hipDeviceGetUuid(hipUUID *uuid, int device)
{
	uint8_t raw[16];
	char text[17];

	if (!uuid || !is_device(device))
		return hipErrorInvalidDevice;
	state_uuid(device, raw);
	for (int i = 0; i < 8; i++)
		snprintf(text + 2 * i, 3, "%02x", raw[i]);
	memcpy(uuid->bytes, text, 16);
	return hipSuccess;
}

hipError_t hipSetDevice(int device)
{
	if (!is_device(device))
		return hipErrorInvalidDevice;
	current = device;
	return hipSuccess;
}

hipError_t hipGetDevice(int *device)
{
	*device = current;
	return hipSuccess;
}

hipError_t hipDevicePrimaryCtxRetain(hipCtx_t *ctx, int device)
{
	if (!ctx || !is_device(device))
		return hipErrorInvalidDevice;
	*ctx = &devices[device];
	return hipSuccess;
}

hipError_t hipDevicePrimaryCtxRelease(int device)
{
	return is_device(device) ? hipSuccess : hipErrorInvalidDevice;
}

hipError_t hipDevicePrimaryCtxReset(int device)
{
	(void)device;
	return hipSuccess;
}

hipError_t hipCtxSetCurrent(hipCtx_t ctx)
{
	if (ctx)
		current = (int)(ctx - devices);
	return hipSuccess;
}

hipError_t hipCtxPushCurrent(hipCtx_t ctx)
{
	if (!ctx)
		return hipErrorInvalidValue;
	current = (int)(ctx - devices);
	return hipSuccess;
}

hipError_t hipCtxPopCurrent(hipCtx_t *ctx)
{
	*ctx = &devices[current];
	return hipSuccess;
}

hipError_t hipCtxDestroy(hipCtx_t ctx)
{
	return ctx ? hipSuccess : hipErrorInvalidValue;
}

/* ---- captures and graphs */

static bool node_add(struct fake_graph *g, struct fake_block *b, bool is_free)
{
	if (!b || g->count == NODES)
		return false;
	g->nodes[g->count].block = b;
	g->nodes[g->count++].is_free = is_free;
	return true;
}

/* An address now, memory at the launch. */
static hipError_t node_alloc(struct fake_graph *g, uint64_t bytes, int device, void *ret_addr)
{
	struct fake_block *b;

	pthread_mutex_lock(&lock);
	b = block_take();
	if (b) {
		b->bytes = bytes;
		b->device = (int8_t)device;
		b->class = CLASS_RESERVED | CLASS_GRAPH;
	}
	if (b && node_add(g, b, false))
		*(uint64_t *)ret_addr = b->addr;
	else if (b)
		block_give(b), b = NULL;
	pthread_mutex_unlock(&lock);
	return b ? hipSuccess : hipErrorOutOfMemory;
}

static hipError_t node_free(struct fake_graph *g, void *p)
{
	bool is_good;

	pthread_mutex_lock(&lock);
	is_good = node_add(g, block_at((uint64_t)(uintptr_t)p), true);
	pthread_mutex_unlock(&lock);
	return is_good ? hipSuccess : hipErrorInvalidValue;
}

hipError_t hipStreamCreate(hipStream_t *stream)
{
	*stream = calloc(1, sizeof(**stream));
	return *stream ? hipSuccess : hipErrorOutOfMemory;
}

static hipError_t capture_begin(hipStream_t s)
{
	if (!s || s->capture)
		return hipErrorInvalidValue;
	s->capture = calloc(1, sizeof(*s->capture));
	return s->capture ? hipSuccess : hipErrorOutOfMemory;
}

static hipError_t capture_end(hipStream_t s, hipGraph_t *graph)
{
	if (!s || !s->capture)
		return hipErrorInvalidValue;
	*graph = s->capture;
	s->capture = NULL;
	return hipSuccess;
}

hipError_t hipStreamBeginCapture(hipStream_t stream, int mode)
{
	(void)mode;
	return capture_begin(stream);
}

hipError_t hipStreamBeginCapture_spt(hipStream_t stream, int mode)
{
	(void)mode;
	return capture_begin(stream);
}

hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph)
{
	return capture_end(stream, graph);
}

hipError_t hipStreamEndCapture_spt(hipStream_t stream, hipGraph_t *graph)
{
	return capture_end(stream, graph);
}

hipError_t hipGraphCreate(hipGraph_t *graph, unsigned int flags)
{
	*graph = flags ? NULL : calloc(1, sizeof(**graph));
	return *graph ? hipSuccess : hipErrorInvalidValue;
}

hipError_t hipGraphAddMemAllocNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *deps, size_t n,
				   hipMemAllocNodeParams *params)
{
	(void)node, (void)deps, (void)n;
	if (params->poolProps.location.type != hipMemLocationTypeDevice || !is_device(params->poolProps.location.id))
		return hipErrorInvalidValue;
	return node_alloc(graph, params->bytesize, params->poolProps.location.id, &params->dptr);
}

hipError_t hipGraphAddMemFreeNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *deps, size_t n, void *p)
{
	(void)node, (void)deps, (void)n;
	return node_free(graph, p);
}

static hipError_t instantiate(hipGraphExec_t *exec, hipGraph_t graph)
{
	*exec = malloc(sizeof(**exec));
	if (!*exec)
		return hipErrorOutOfMemory;
	**exec = *graph;
	return hipSuccess;
}

hipError_t hipGraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *bad, char *log, size_t log_len)
{
	(void)bad, (void)log, (void)log_len;
	return instantiate(exec, graph);
}

hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *exec, hipGraph_t graph, unsigned long long flags)
{
	(void)flags;
	return instantiate(exec, graph);
}

/* Is its block given back in the same graph? Then nobody sees it. */
static bool is_inner(const struct fake_graph *g, const struct fake_block *b)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < g->count; i++)
		n += g->nodes[i].block == b;
	return n > 1;
}

static hipError_t launch(const struct fake_graph *g)
{
	hipError_t r = hipSuccess;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < g->count && !r; i++) {
		struct fake_block *b = g->nodes[i].block;

		if (is_inner(g, b))
			continue;
		if (g->nodes[i].is_free) {
			block_end(b);
			continue;
		}
		b->class = CLASS_GRAPH;
		if (!block_live(b)) {
			b->class |= CLASS_RESERVED;
			r = hipErrorOutOfMemory;
		}
	}
	pthread_mutex_unlock(&lock);
	return r;
}

hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream)
{
	(void)stream;
	return launch(exec);
}

hipError_t hipGraphLaunch_spt(hipGraphExec_t exec, hipStream_t stream)
{
	(void)stream;
	return launch(exec);
}

hipError_t hipGraphDestroy(hipGraph_t graph)
{
	free(graph);
	return hipSuccess;
}

hipError_t hipGraphExecDestroy(hipGraphExec_t exec)
{
	free(exec);
	return hipSuccess;
}

/* ---- stream-ordered memory */

static bool pool_is_good(hipMemPool_t pool)
{
	return pool >= pools && pool < pools + POOLS && pool->is_alive;
}

static hipError_t alloc_async(void **p, size_t bytes, hipMemPool_t pool, hipStream_t stream)
{
	if (!p || !pool_is_good(pool))
		return fail(hipErrorInvalidValue);
	if (!bytes) {
		*p = NULL;
		return hipSuccess;
	}
	if (stream && stream->capture)
		return node_alloc(stream->capture, bytes, pool->device, p);
	return make(CLASS_ASYNC, bytes, pool->device, 0, NULL, p);
}

hipError_t hipMallocAsync(void **p, size_t bytes, hipStream_t stream)
{
	return alloc_async(p, bytes, devices[current].pool, stream);
}

hipError_t hipMallocFromPoolAsync(void **p, size_t bytes, hipMemPool_t pool, hipStream_t stream)
{
	return alloc_async(p, bytes, pool, stream);
}

hipError_t hipFreeAsync(void *p, hipStream_t stream)
{
	if (stream && stream->capture)
		return node_free(stream->capture, p);
	return END(p, MASK(CLASS_ASYNC) | MASK(CLASS_DEVICE) | MASK(CLASS_GRAPH), hipErrorInvalidValue);
}

hipError_t hipMemPoolCreate(hipMemPool_t *pool, const hipMemPoolProps *props)
{
	struct fake_pool *p = NULL;

	if (!pool || !props || props->location.type != hipMemLocationTypeDevice || !is_device(props->location.id))
		return hipErrorInvalidValue;
	pthread_mutex_lock(&lock);
	for (int i = FAKE_GPU_MAX; i < POOLS && !p; i++)
		if (!pools[i].is_alive)
			p = &pools[i];
	if (p)
		*p = (struct fake_pool){ .device = props->location.id, .is_alive = true };
	pthread_mutex_unlock(&lock);
	*pool = p;
	return p ? hipSuccess : hipErrorOutOfMemory;
}

hipError_t hipMemPoolDestroy(hipMemPool_t pool)
{
	if (!pool_is_good(pool) || pool < pools + FAKE_GPU_MAX)
		return hipErrorInvalidValue;
	pool->is_alive = false;
	if (devices[pool->device].pool == pool)
		devices[pool->device].pool = &pools[pool->device];
	return hipSuccess;
}

hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t bytes)
{
	(void)bytes;
	return pool_is_good(pool) ? hipSuccess : hipErrorInvalidValue;
}

hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, int attribute, void *value)
{
	if (!pool_is_good(pool) || attribute != hipMemPoolAttrReleaseThreshold)
		return hipErrorInvalidValue;
	memcpy(&pool->threshold, value, sizeof(pool->threshold));
	return hipSuccess;
}

hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, int attribute, void *value)
{
	uint64_t v;

	if (!pool_is_good(pool))
		return hipErrorInvalidValue;
	v = attribute == hipMemPoolAttrReleaseThreshold ? pool->threshold : totals.live_bytes[CLASS_ASYNC];
	memcpy(value, &v, sizeof(v));
	return hipSuccess;
}

hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *pool, int device)
{
	if (!pool || !is_device(device))
		return hipErrorInvalidDevice;
	*pool = &pools[device];
	return hipSuccess;
}

hipError_t hipDeviceGetMemPool(hipMemPool_t *pool, int device)
{
	if (!pool || !is_device(device))
		return hipErrorInvalidDevice;
	*pool = devices[device].pool;
	return hipSuccess;
}

hipError_t hipDeviceSetMemPool(int device, hipMemPool_t pool)
{
	if (!is_device(device) || !pool_is_good(pool) || pool->device != device)
		return hipErrorInvalidValue;
	devices[device].pool = pool;
	return hipSuccess;
}
