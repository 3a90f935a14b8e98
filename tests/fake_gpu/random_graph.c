/* SPDX-License-Identifier: MIT */
/*
 * Graphs that allocate: captured on one stream and on another that joined it, or built node by node; freed within,
 * outside, or by another graph; launched again with and without leave to free first.
 */
#include <stdlib.h>

#include "random_ops.h"

#define BLOCKS_MAX 8

struct program {
	CUgraph graph;
	CUgraphExec exec;
	bool is_auto; /* a launch frees first what is live */
	int device;
	int len;
	struct {
		CUdeviceptr addr;
		uint64_t bytes;
		bool is_live;
	} block[BLOCKS_MAX]; /* those that outlive a launch */
};

static uint64_t graph_bytes(struct worker *w)
{
	return random_size(&w->rng, 22);
}

static CUstream graph_stream(struct worker *w, CUstream *of)
{
	int d = device_of(w);

	if (!of[d])
		MUST(cuStreamCreate(&of[d], 1));
	return of[d];
}

static void add_block(struct program *p, CUdeviceptr addr, uint64_t bytes)
{
	p->block[p->len].addr = addr;
	p->block[p->len].bytes = bytes;
	p->block[p->len++].is_live = false;
}

static void capture_begin(struct worker *w, CUstream s, CUgraph *ret_into)
{
	/* Other threads may not do what they like while one captures globally. */
	int mode = thread_count > 1 || is_real ? CU_STREAM_CAPTURE_MODE_RELAXED : (int)below(w, 3);
	uint64_t call = is_real ? 1 : below(w, 4);

	*ret_into = NULL;
	switch (call) {
	case 0:
		MUST(thread_count > 1 ? cuStreamBeginCapture_v2(s, mode) : cuStreamBeginCapture(s));
		break;
	case 1:
		MUST(cuStreamBeginCapture_v2(s, mode));
		break;
	case 2:
		MUST(cuStreamBeginCapture_v2_ptsz(s, mode));
		break;
	default:
		MUST(cuGraphCreate(ret_into, 0));
		MUST(cuStreamBeginCaptureToGraph(s, *ret_into, NULL, NULL, 0, mode));
	}
}

/* Allocations of a capture: some end within it, some outlive it. */
static void capture_some(struct worker *w, struct program *p, CUstream s, int n)
{
	CUdeviceptr addr;
	uint64_t bytes;

	while (n-- > 0 && p->len < BLOCKS_MAX) {
		bytes = graph_bytes(w);
		if (!is_real && !below(w, 4))
			MUST(cuMemAllocFromPoolAsync(&addr, bytes, default_pools[p->device], s));
		else
			MUST(below(w, 2) ? cuMemAllocAsync(&addr, bytes, s) : cuMemAllocAsync_ptsz(&addr, bytes, s));
		if (below(w, 3))
			add_block(p, addr, bytes);
		else
			MUST(below(w, 2) ? cuMemFreeAsync(addr, s) : cuMemFreeAsync_ptsz(addr, s));
	}
}

/* What a program may do besides while it captures. */
static void capture_beside(struct worker *w, struct program *p, CUstream s)
{
	struct item it = { .kind = ITEM_ASYNC, .class = CLASS_ASYNC, .device = p->device };
	CUdeviceptr addr;
	CUresult r;

	if (!below(w, 4)) { /* on a stream that is not captured: memory like any other */
		if (w->len >= live_max)
			return;
		it.bytes = graph_bytes(w);
		r = cuMemAllocAsync(&addr, it.bytes, NULL);
		it.addr = addr;
		booked(w, r, &it);
	} else if (!below(w, 4) && has_family(FAMILY_FAIL)) {
		if (!cuMemAllocAsync(&addr, 0, s))
			die("a captured allocation of nothing succeeded");
		books_fail();
	} else if (!below(w, 4) && has_family(FAMILY_FAIL) && w->len) { /* a block that is no graph's */
		const struct item *other = &w->items[below(w, w->len)];

		if (other->kind != ITEM_ASYNC || other->class != CLASS_ASYNC)
			return;
		if (!cuMemFreeAsync(other->addr, s))
			die("a captured free of an outside block succeeded");
		books_free_fail();
	}
}

static void make_captured(struct worker *w, struct program *p)
{
	CUstream s = graph_stream(w, w->streams), joined = graph_stream(w, w->joined);
	CUevent ev = NULL;
	CUgraph into;

	capture_begin(w, s, &into);
	capture_some(w, p, s, 1 + (int)below(w, 4));
	if (!is_real)
		capture_beside(w, p, s);
	if (below(w, 2)) {
		MUST(cuEventCreate(&ev, 2 /* no timing */));
		MUST(cuEventRecord(ev, s));
		MUST(cuStreamWaitEvent(joined, ev, 0));
		capture_some(w, p, joined, 1 + (int)below(w, 2));
		MUST(cuEventRecord(ev, joined));
		MUST(cuStreamWaitEvent(s, ev, 0));
		capture_some(w, p, s, (int)below(w, 2));
	}
	MUST(below(w, 2) ? cuStreamEndCapture(s, &p->graph) : cuStreamEndCapture_ptsz(s, &p->graph));
	if (into && p->graph != into)
		die("a capture into a graph ended as another");
	if (ev)
		MUST(cuEventDestroy_v2(ev));
}

static CUDA_MEM_ALLOC_NODE_PARAMS node_params(int device, uint64_t bytes)
{
	return (CUDA_MEM_ALLOC_NODE_PARAMS){
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device } },
		.bytesize = bytes,
	};
}

static void node_free(struct worker *w, CUgraph g, const CUgraphNode *after, CUdeviceptr addr)
{
	CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free = { .dptr = addr } };
	CUgraphNode node;

	if (below(w, 2))
		MUST(cuGraphAddMemFreeNode(&node, g, after, after ? 1 : 0, addr));
	else if (is_real || below(w, 2))
		MUST(cuGraphAddNode_v2(&node, g, after, NULL, after ? 1 : 0, &params));
	else
		MUST(cuGraphAddNode(&node, g, after, after ? 1 : 0, &params));
}

/* Its memory lies on the device that the node names, whatever is current. */
static void make_nodes(struct worker *w, struct program *p)
{
	int n = 1 + (int)below(w, 4);
	CUgraphNode node;

	MUST(cuGraphCreate(&p->graph, 0));
	p->device = is_real ? p->device : (int)below(w, (uint64_t)device_count);
	for (int i = 0; i < n; i++) {
		CUDA_MEM_ALLOC_NODE_PARAMS params = node_params(p->device, graph_bytes(w));
		CUgraphNodeParams any = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .alloc = params };
		CUdeviceptr addr;

		if (below(w, 2)) {
			MUST(cuGraphAddMemAllocNode(&node, p->graph, NULL, 0, &params));
			addr = params.dptr;
		} else {
			MUST(is_real || below(w, 2) ? cuGraphAddNode_v2(&node, p->graph, NULL, NULL, 0, &any) :
						      cuGraphAddNode(&node, p->graph, NULL, 0, &any));
			addr = any.alloc.dptr;
		}
		if (below(w, 3))
			add_block(p, addr, params.bytesize);
		else
			node_free(w, p->graph, &node, addr);
	}
}

static void instantiate(struct worker *w, struct program *p)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {
		.flags = p->is_auto ? CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH : 0,
	};

	if (!p->is_auto && !is_real && !below(w, 3))
		MUST(cuGraphInstantiate_v2(&p->exec, p->graph, NULL, NULL, 0));
	else if (!below(w, 2))
		MUST(cuGraphInstantiateWithParams(&p->exec, p->graph, &params));
	else
		MUST(cuGraphInstantiateWithFlags(&p->exec, p->graph, params.flags));
}

static struct program *make(struct worker *w)
{
	struct program *p = calloc(1, sizeof(*p));

	if (!p)
		die("out of memory");
	p->device = device_of(w);
	p->is_auto = !below(w, 3);
	if (below(w, 3))
		make_captured(w, p);
	else
		make_nodes(w, p);
	instantiate(w, p);
	return p;
}

static bool has_live(const struct program *p)
{
	for (int i = 0; i < p->len; i++)
		if (p->block[i].is_live)
			return true;
	return false;
}

static void gone(struct program *p, int i)
{
	p->block[i].is_live = false;
	books_free(CLASS_GRAPH, p->block[i].bytes, p->device);
}

static CUresult launch_exec(struct worker *w, CUgraphExec exec)
{
	CUstream s = graph_stream(w, w->streams);
	CUresult r = below(w, 2) ? cuGraphLaunch(exec, s) : cuGraphLaunch_ptsz(exec, s);

	if (!r)
		MUST(cuStreamSynchronize(s));
	return r;
}

static void launch(struct worker *w, struct program *p)
{
	CUresult r = launch_exec(w, p->exec);

	if (has_live(p) && !p->is_auto) {
		if (r != CUDA_ERROR_INVALID_VALUE)
			die("a launch with its memory live returned %d", r);
		return;
	}
	if (r)
		die("cuGraphLaunch: %d", r);
	for (int i = 0; i < p->len; i++)
		if (p->block[i].is_live)
			gone(p, i);
	for (int i = 0; i < p->len; i++) {
		p->block[i].is_live = true;
		books_alloc(CLASS_GRAPH, p->block[i].bytes, p->device);
	}
}

/* Another graph, captured or built, that frees one block of this one. */
static void free_by_graph(struct worker *w, struct program *p, int i)
{
	CUstream s = graph_stream(w, w->streams);
	CUgraphExec exec;
	CUgraph g;

	if (is_real || below(w, 2)) {
		MUST(cuGraphCreate(&g, 0));
		node_free(w, g, NULL, p->block[i].addr);
	} else {
		MUST(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
		MUST(cuMemFreeAsync(p->block[i].addr, s));
		MUST(cuStreamEndCapture(s, &g));
	}
	MUST(cuGraphInstantiateWithFlags(&exec, g, 0));
	MUST(launch_exec(w, exec));
	MUST(cuGraphExecDestroy(exec));
	MUST(cuGraphDestroy(g));
	gone(p, i);
}

static void free_one(struct worker *w, struct program *p)
{
	int i = p->len ? (int)below(w, (uint64_t)p->len) : 0;
	CUstream s = graph_stream(w, w->streams);

	if (!p->len || !p->block[i].is_live)
		return;
	if (!below(w, 3)) {
		free_by_graph(w, p, i);
		return;
	}
	MUST(below(w, 2) ? cuMemFreeAsync(p->block[i].addr, s) : cuMemFree_v2(p->block[i].addr));
	MUST(cuStreamSynchronize(s));
	gone(p, i);
}

/* Frees nothing: what is live goes on as a block like any other. */
static void end(struct worker *w, struct program **at)
{
	struct program *p = *at;

	if (below(w, 2)) {
		MUST(cuGraphExecDestroy(p->exec));
		MUST(cuGraphDestroy(p->graph));
	} else {
		MUST(cuGraphDestroy(p->graph));
		MUST(cuGraphExecDestroy(p->exec));
	}
	for (int i = 0; i < p->len; i++) {
		struct item it = { .kind = ITEM_ASYNC, .class = CLASS_GRAPH, .device = p->device };

		if (!p->block[i].is_live)
			continue;
		it.addr = p->block[i].addr;
		it.bytes = p->block[i].bytes;
		w->items[w->len++] = it;
	}
	free(p);
	*at = NULL;
}

static void exec_again(struct worker *w, struct program *p)
{
	MUST(cuGraphExecDestroy(p->exec));
	p->is_auto = false;
	instantiate(w, p);
}

void graph_step(struct worker *w)
{
	struct program **at = &w->programs[below(w, PROGRAMS_MAX)];
	uint64_t what = below(w, 16);

	if (!is_primary(w) || w->len + BLOCKS_MAX > live_max)
		return;
	if (!*at)
		*at = make(w);
	else if (is_real && (*at)->device != device_of(w))
		return;
	else if (what < 7)
		launch(w, *at);
	else if (what < 13)
		free_one(w, *at);
	else if (what < 14)
		exec_again(w, *at);
	else
		end(w, at);
}

void graphs_end(struct worker *w)
{
	for (int i = 0; i < PROGRAMS_MAX; i++)
		if (w->programs[i])
			end(w, &w->programs[i]);
}
