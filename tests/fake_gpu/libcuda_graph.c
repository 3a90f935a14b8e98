/* SPDX-License-Identifier: MIT */
/*
 * Graphs, as far as they allocate and free. What a graph allocates is an address only until it is launched, from a range of
 * addresses of its own; the address is given out again when no graph, no executable and no live block has it. As the real
 * driver does, a graph with such nodes has one executable at a time and cannot be copied.
 */
#include <pthread.h>
#include <stdlib.h>

#include "libcuda.h"

#define HANDLE_BASE 0x5e0000000000ull /* of graphs and executables: host memory in a real driver */
#define NODE_BASE 0x5f0000000000ull
#define BYTES_MAX (1ull << 40)
#define NONE UINT32_MAX

enum graph_type { TYPE_FREE, TYPE_GRAPH, TYPE_EXEC };

enum entry_state {
	ENTRY_KEPT,    /* allocated, and live after the launch */
	ENTRY_FREED,   /* allocated and freed */
	ENTRY_FOREIGN, /* another graph's, freed */
};

struct entry {
	uint64_t addr, bytes;
	int device;
	enum entry_state state;
};

struct graph {
	enum graph_type type;
	struct entry *entries;
	size_t len, cap;
	uint64_t serial;
	uint64_t of;	/* executable: serial of its graph */
	uint32_t place; /* ... and that one's place */
	uint32_t execs; /* graph: executables of it */
	uint32_t next_free;
	bool frees_first;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct graph **graphs;
static size_t graph_len, graph_cap;
static uint32_t first_free = NONE;
static uint64_t next_serial, next_node;

void graph_lock(void)
{
	pthread_mutex_lock(&lock);
}

void graph_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

static struct graph *object_of(uint64_t handle, enum graph_type type)
{
	uint64_t i = (handle - HANDLE_BASE) >> 8;

	if (handle < HANDLE_BASE || handle & 255 || i >= graph_len || graphs[i]->type != type)
		return NULL;
	return graphs[i];
}

struct graph *graph_find(CUgraph handle)
{
	return object_of((uintptr_t)handle, TYPE_GRAPH);
}

/* The last that ended lends its handle to the next. */
static struct graph *object_new(enum graph_type type, uint64_t *ret_handle)
{
	struct graph *g, **array;
	uint32_t place = first_free;

	if (place == NONE) {
		array = array_grow(graphs, graph_len, sizeof(*graphs), &graph_cap);
		if (array)
			graphs = array;
		g = array ? malloc(sizeof(*g)) : NULL;
		if (!g)
			return NULL;
		place = (uint32_t)graph_len++;
		graphs[place] = g;
	} else {
		first_free = graphs[place]->next_free;
	}
	g = graphs[place];
	*g = (struct graph){ .type = type, .serial = ++next_serial };
	*ret_handle = HANDLE_BASE + ((uint64_t)place << 8);
	return g;
}

struct graph *graph_new(CUgraph *ret)
{
	uint64_t handle;
	struct graph *g = object_new(TYPE_GRAPH, &handle);

	if (g)
		*ret = (CUgraph)(uintptr_t)handle;
	return g;
}

void graph_block_ended(uint64_t addr)
{
	graph_lock();
	range_put(addr);
	graph_unlock();
}

static void object_end(struct graph *g, uint64_t handle)
{
	uint32_t place = (uint32_t)((handle - HANDLE_BASE) >> 8);

	for (size_t i = 0; i < g->len; i++)
		range_put(g->entries[i].addr);
	free(g->entries);
	if (g->type == TYPE_EXEC && graphs[g->place]->serial == g->of)
		graphs[g->place]->execs--;
	*g = (struct graph){ .type = TYPE_FREE, .next_free = first_free };
	first_free = place;
}

void graph_end(CUgraph handle)
{
	struct graph *g = graph_find(handle);

	if (g)
		object_end(g, (uintptr_t)handle);
}

static struct entry *entry_add(struct graph *g)
{
	struct entry *e = array_grow(g->entries, g->len, sizeof(*e), &g->cap);

	if (!e)
		return NULL;
	g->entries = e;
	return &g->entries[g->len++];
}

CUresult graph_add_alloc(struct graph *g, uint64_t bytes, int device, bool reuses, uint64_t *ret_addr)
{
	unsigned int order = block_order(bytes);
	struct entry *e;
	uint64_t addr;

	if (!bytes || device < 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes > BYTES_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = g->len; reuses && i-- > 0;) {
		e = &g->entries[i];
		if (e->state != ENTRY_FREED || range_order(e->addr) != order)
			continue;
		*ret_addr = e->addr;
		*e = (struct entry){ .addr = e->addr, .bytes = bytes, .device = device };
		return CUDA_SUCCESS;
	}
	e = entry_add(g);
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	addr = range_reserve(order);
	if (!addr) {
		g->len--;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_addr = addr;
	*e = (struct entry){ .addr = addr, .bytes = bytes, .device = device };
	return CUDA_SUCCESS;
}

CUresult graph_add_free(struct graph *g, uint64_t addr)
{
	struct entry *e;

	for (size_t i = 0; i < g->len; i++) {
		e = &g->entries[i];
		if (e->addr != addr)
			continue;
		if (e->state != ENTRY_KEPT)
			return CUDA_ERROR_INVALID_VALUE; /* a second time */
		e->state = ENTRY_FREED;
		return CUDA_SUCCESS;
	}
	if (!range_order(addr)) /* no graph's */
		return CUDA_ERROR_INVALID_VALUE;
	e = entry_add(g);
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range_hold(addr);
	*e = (struct entry){ .addr = addr, .device = -1, .state = ENTRY_FOREIGN };
	return CUDA_SUCCESS;
}

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
	CUresult r = driver_ready();

	if (r)
		return r;
	if (!out_is_plausible(graph) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	graph_lock();
	r = graph_new(graph) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	graph_unlock();
	return r;
}

/* What the calls for nodes have in common. */
static CUresult node_check(CUgraphNode *node, const CUgraphNode *deps, size_t n)
{
	struct CUctx_st *ctx;
	CUresult r = context_current(&ctx);

	if (r)
		return r;
	return out_is_plausible(node) && (!n || out_is_plausible(deps)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult node_alloc(CUgraphNode *node, CUgraph graph, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	const CUmemPoolProps *props = &params->poolProps;
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	uint64_t addr;
	struct graph *g;

	if (props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED || props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !device_is_valid(props->location.id))
		return r;
	graph_lock();
	g = graph_find(graph);
	if (g)
		r = graph_add_alloc(g, params->bytesize, props->location.id, false, &addr);
	if (!r) {
		params->dptr = addr;
		*node = (CUgraphNode)(uintptr_t)(NODE_BASE + 64 * ++next_node);
	}
	graph_unlock();
	return r;
}

static CUresult node_free(CUgraphNode *node, CUgraph graph, uint64_t addr)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	struct graph *g;

	graph_lock();
	g = graph_find(graph);
	if (g)
		r = graph_add_free(g, addr);
	if (!r)
		*node = (CUgraphNode)(uintptr_t)(NODE_BASE + 64 * ++next_node);
	graph_unlock();
	return r;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n,
				CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	CUresult r = out_is_plausible(params) ? node_check(node, deps, n) : CUDA_ERROR_INVALID_VALUE;

	return r ? r : node_alloc(node, graph, params);
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, CUdeviceptr dptr)
{
	CUresult r = node_check(node, deps, n);

	return r ? r : node_free(node, graph, dptr);
}

static CUresult node_any(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, CUgraphNodeParams *params)
{
	CUresult r = out_is_plausible(params) ? node_check(node, deps, n) : CUDA_ERROR_INVALID_VALUE;

	if (r)
		return r;
	switch (params->type) {
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return node_alloc(node, graph, &params->alloc);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return node_free(node, graph, params->free.dptr);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		graph_lock();
		if (graph_find(graph))
			*node = (CUgraphNode)(uintptr_t)(NODE_BASE + 64 * ++next_node);
		else
			r = CUDA_ERROR_INVALID_VALUE;
		graph_unlock();
		return r;
	}
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, CUgraphNodeParams *params)
{
	return node_any(node, graph, deps, n, params);
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, const void *edges, size_t n,
			   CUgraphNodeParams *params)
{
	(void)edges;
	return node_any(node, graph, deps, n, params);
}

CUresult cuGraphClone(CUgraph *clone, CUgraph original)
{
	CUresult r = driver_ready();
	struct graph *g;

	if (r)
		return r;
	if (!out_is_plausible(clone))
		return CUDA_ERROR_INVALID_VALUE;
	graph_lock();
	g = graph_find(original);
	if (!g)
		r = CUDA_ERROR_INVALID_VALUE;
	else if (g->len)
		r = CUDA_ERROR_NOT_SUPPORTED;
	else if (!graph_new(clone))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	graph_unlock();
	return r;
}

/* With the lock. */
static CUresult exec_new(CUgraphExec *exec, CUgraph graph, uint64_t flags)
{
	struct graph *g = graph_find(graph), *e;
	uint64_t handle;

	if (!g)
		return CUDA_ERROR_INVALID_VALUE;
	if (g->len && g->execs)
		return CUDA_ERROR_NOT_SUPPORTED;
	e = object_new(TYPE_EXEC, &handle);
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->of = g->serial;
	e->place = (uint32_t)(((uintptr_t)graph - HANDLE_BASE) >> 8);
	e->frees_first = flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
	g->execs++;
	for (size_t i = 0; i < g->len; i++) {
		struct entry *to = entry_add(e);

		if (!to) {
			object_end(e, handle);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		*to = g->entries[i];
		range_hold(to->addr);
	}
	*exec = (CUgraphExec)(uintptr_t)handle;
	return CUDA_SUCCESS;
}

static CUresult instantiate(CUgraphExec *exec, CUgraph graph, uint64_t flags)
{
	struct CUctx_st *ctx;
	CUresult r = context_current(&ctx);

	if (r)
		return r;
	if (!out_is_plausible(exec) || flags & ~15ull)
		return CUDA_ERROR_INVALID_VALUE;
	graph_lock();
	r = exec_new(exec, graph, flags);
	graph_unlock();
	return r;
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t size)
{
	(void)error_node;
	(void)log;
	(void)size;
	return instantiate(exec, graph, 0);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	return instantiate(exec, graph, flags);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	CUresult r;

	if (!out_is_plausible(params))
		return CUDA_ERROR_INVALID_VALUE;
	r = instantiate(exec, graph, params->flags);
	params->hErrNode_out = NULL;
	params->result_out = r ? 1 : 0;
	return r;
}

static bool is_live(uint64_t addr)
{
	struct block b;

	return block_find(addr, &b) && b.kind == BLOCK_GRAPH;
}

/* With the lock. Each block that is to be made must not be there, each that is to go must be. */
static CUresult launch_check(const struct graph *g)
{
	for (size_t i = 0; i < g->len; i++) {
		const struct entry *e = &g->entries[i];

		if (e->state == ENTRY_FOREIGN ? !is_live(e->addr) :
						e->state == ENTRY_KEPT && !g->frees_first && is_live(e->addr))
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

/* What the devices get and lose, all or nothing. */
static bool charge_changes(const int64_t change[FAKE_GPU_MAX])
{
	int d = 0;

	while (d < FAKE_GPU_MAX && (change[d] <= 0 || device_charge(d, (uint64_t)change[d])))
		d++;
	if (d < FAKE_GPU_MAX) {
		while (--d >= 0)
			if (change[d] > 0)
				device_uncharge(d, (uint64_t)change[d]);
		return false;
	}
	for (d = 0; d < FAKE_GPU_MAX; d++)
		if (change[d] < 0)
			device_uncharge(d, (uint64_t)-change[d]);
	return true;
}

static void launch_blocks(const struct graph *g)
{
	for (size_t i = 0; i < g->len; i++) {
		const struct entry *e = &g->entries[i];
		struct block b = { .class = CLASS_GRAPH, .kind = BLOCK_GRAPH, .addr = e->addr, .bytes = e->bytes,
				   .device = (int8_t)e->device };

		if (e->state != ENTRY_KEPT)
			continue;
		if (!block_put(&b)) {
			device_uncharge(e->device, e->bytes);
			continue;
		}
		range_hold(e->addr);
		block_count_alloc();
	}
}

/* With the lock. */
static CUresult launch(struct graph *g)
{
	struct block *taken = calloc(g->len + 1, sizeof(*taken));
	int64_t change[FAKE_GPU_MAX] = { 0 };
	CUresult r = launch_check(g);
	size_t n = 0;

	if (!taken)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < g->len && !r; i++) {
		const struct entry *e = &g->entries[i];

		if (e->state != ENTRY_FREED && block_take(e->addr, KIND(BLOCK_GRAPH), &taken[n]))
			change[taken[n].device] -= (int64_t)taken[n].bytes, n++;
		if (e->state == ENTRY_KEPT)
			change[e->device] += (int64_t)e->bytes;
	}
	if (!r && !charge_changes(change)) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
		while (n)
			block_put(&taken[--n]);
	}
	while (n) {
		block_count_free();
		range_put(taken[--n].addr);
	}
	free(taken);
	if (!r)
		launch_blocks(g);
	return r;
}

static CUresult launch_on(CUgraphExec exec, CUstream stream)
{
	struct CUctx_st *ctx;
	CUresult r = context_current(&ctx);
	struct graph *g;

	if (!r)
		r = stream_uncaptured(stream);
	if (r)
		return r;
	graph_lock();
	g = object_of((uintptr_t)exec, TYPE_EXEC);
	r = g ? launch(g) : CUDA_ERROR_INVALID_VALUE;
	graph_unlock();
	return r;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	return launch_on(exec, stream);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
	return launch_on(exec, stream);
}

/* Frees nothing of what the launches made. */
static CUresult destroy(uint64_t handle, enum graph_type type)
{
	CUresult r = driver_ready();
	struct graph *g;

	if (r)
		return r;
	graph_lock();
	g = object_of(handle, type);
	if (g)
		object_end(g, handle);
	else
		r = CUDA_ERROR_INVALID_VALUE;
	graph_unlock();
	return r;
}

CUresult cuGraphDestroy(CUgraph graph)
{
	return destroy((uintptr_t)graph, TYPE_GRAPH);
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	return destroy((uintptr_t)exec, TYPE_EXEC);
}

/* Nothing is kept back for graphs here. */
CUresult cuDeviceGraphMemTrim(CUdevice dev)
{
	CUresult r = driver_ready();

	if (r)
		return r;
	return device_is_valid(dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
