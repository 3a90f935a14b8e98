/* SPDX-License-Identifier: MIT */
/* The stand-in's calls for streams, captures and graphs, as work_calls does the others. */
#include <unistd.h>

#include "check.h"

static CUstream stream, other;

static CUgraphExec exec_of(CUgraph g, unsigned int flags)
{
	CUgraphExec e;

	MUST(cuGraphInstantiateWithFlags(&e, g, flags));
	return e;
}

/* What a graph would be given. */
static CUdeviceptr next_address(uint64_t bytes)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = { .poolProps = { .allocType = 1, .location = { 1, 0 } }, .bytesize = bytes };
	CUgraphNode n;
	CUgraph g;

	MUST(cuGraphCreate(&g, 0));
	MUST(cuGraphAddMemAllocNode(&n, g, NULL, 0, &params));
	MUST(cuGraphDestroy(g));
	return params.dptr;
}

/* Two streams, three blocks: one freed within, whose address comes again. */
static void capture(void)
{
	CUdeviceptr kept, gone, joined, plain;
	CUgraph g;
	CUgraphExec e;
	CUevent ev;

	mark();
	MUST(cuMemAllocAsync(&plain, MIB, stream));
	MADE(CLASS_ASYNC, MIB);
	MUST(cuEventCreate(&ev, 2));
	MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	EXPECT(401, cuStreamBeginCapture(stream));
	MUST(cuMemAllocAsync(&gone, 3 * MIB, stream));
	MUST(cuMemFreeAsync(gone, stream));
	EXPECT(1, cuMemFreeAsync(gone, stream));
	EXPECT(1, cuMemFreeAsync(plain, stream));
	EXPECT(1, cuMemAllocAsync(&kept, 0, stream));
	MUST(cuMemAllocAsync(&kept, 4 * MIB, stream));
	CHECK(kept == gone);
	EXPECT(1, cuMemFree_v2(kept)); /* not there yet */
	MUST(cuEventRecord(ev, stream));
	MUST(cuStreamWaitEvent(other, ev, 0));
	MUST(cuMemAllocAsync_ptsz(&joined, 5 * MIB, other));
	MUST(cuEventRecord(ev, other));
	MUST(cuStreamWaitEvent(stream, ev, 0));
	SAME();
	MUST(cuStreamEndCapture(stream, &g));
	EXPECT(401, cuStreamEndCapture(stream, &g));
	CHECK(joined - plain > 1ull << 40 || plain - joined > 1ull << 40);
	MUST(cuMemFreeAsync(plain, other));
	GONE(CLASS_ASYNC, MIB);
	e = exec_of(g, 0);
	SAME();
	MUST(cuGraphLaunch(e, stream));
	CHANGED(CLASS_GRAPH, 9 * MIB, 2, 2, 0);
	EXPECT(1, cuGraphLaunch(e, stream));
	MUST(cuMemFreeAsync(kept, stream));
	EXPECT(1, cuGraphLaunch(e, stream));
	MUST(cuMemFree_v2(joined));
	CHANGED(CLASS_GRAPH, -9 * (int64_t)MIB, -2, 0, 2);
	MUST(cuGraphLaunch_ptsz(e, stream));
	MUST(cuGraphExecDestroy(e));
	MUST(cuGraphDestroy(g));
	EXPECT(1, cuGraphDestroy(g));
	CHANGED(CLASS_GRAPH, 9 * MIB, 2, 2, 0);
	CHECK(next_address(4 * MIB) != kept); /* as long as it is live */
	MUST(cuMemFree_v2(kept));
	CHECK(next_address(4 * MIB) == kept);
	MUST(cuMemFreeAsync(joined, other));
	CHANGED(CLASS_GRAPH, -9 * (int64_t)MIB, -2, 0, 2);
	MUST(cuEventDestroy_v2(ev));
}

static void capture_ends(void)
{
	CUdeviceptr p;
	CUgraph g, into;
	CUevent ev;

	MUST(cuEventCreate(&ev, 2));
	MUST(cuStreamBeginCapture(stream)); /* globally */
	EXPECT(900, cuMemAlloc_v2(&p, MIB));
	EXPECT(901, cuStreamEndCapture_ptsz(stream, &g));
	CHECK(!g);
	MUST(cuStreamBeginCapture_v2_ptsz(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	EXPECT(900, cuStreamSynchronize(stream));
	EXPECT(901, cuStreamEndCapture(stream, &g));
	MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	MUST(cuEventRecord(ev, stream));
	MUST(cuStreamWaitEvent(other, ev, 0));
	MUST(cuMemAllocAsync(&p, MIB, other));
	EXPECT(904, cuStreamEndCapture(stream, &g)); /* nobody waits for the other one */
	EXPECT(900, cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
	mark();
	MUST(cuMemAllocAsync(&p, MIB, other));
	MADE(CLASS_ASYNC, MIB);
	MUST(cuMemFree_v2(p));
	GONE(CLASS_ASYNC, MIB);
	MUST(cuGraphCreate(&into, 0));
	MUST(cuStreamBeginCaptureToGraph(stream, into, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
	MUST(cuStreamEndCapture(stream, &g));
	CHECK(g == into);
	MUST(cuGraphClone(&g, into)); /* as long as it does not allocate */
	MUST(cuGraphDestroy(g));
	MUST(cuGraphDestroy(into));
	MUST(cuEventDestroy_v2(ev));
}

static void nodes(void)
{
	CUgraphNodeParams any = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC };
	CUDA_MEM_ALLOC_NODE_PARAMS params = { .poolProps = { .allocType = 1, .location = { 1, 1 } }, .bytesize = 2 * MIB };
	CUDA_GRAPH_INSTANTIATE_PARAMS how = { .flags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH };
	CUgraph g, freeing, clone;
	CUgraphExec e, f;
	CUgraphNode n;

	any.alloc = params;
	mark();
	MUST(cuGraphCreate(&g, 0));
	MUST(cuGraphAddMemAllocNode(&n, g, NULL, 0, &params));
	MUST(cuGraphAddNode(&n, g, &n, 1, &any));
	CHECK(params.dptr && any.alloc.dptr && params.dptr != any.alloc.dptr);
	EXPECT(801, cuGraphClone(&clone, g));
	MUST(cuGraphInstantiateWithParams(&e, g, &how));
	EXPECT(801, cuGraphInstantiateWithFlags(&f, g, 0));
	MUST(cuGraphLaunch(e, stream));
	CHANGED(CLASS_GRAPH, 4 * MIB, 2, 2, 0);
	CHECK(was.device_bytes[1] == 4 * MIB);
	MUST(cuGraphLaunch(e, stream)); /* frees first */
	CHANGED(CLASS_GRAPH, 0, 0, 2, 2);
	MUST(cuGraphCreate(&freeing, 0));
	EXPECT(1, cuGraphAddMemFreeNode(&n, freeing, NULL, 0, params.dptr + 512));
	MUST(cuGraphAddMemFreeNode(&n, freeing, NULL, 0, params.dptr));
	EXPECT(1, cuGraphAddMemFreeNode(&n, freeing, NULL, 0, params.dptr));
	params.dptr = any.alloc.dptr;
	any = (CUgraphNodeParams){ .type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free = { params.dptr } };
	MUST(cuGraphAddNode_v2(&n, freeing, &n, NULL, 1, &any));
	any.type = CU_GRAPH_NODE_TYPE_EMPTY;
	MUST(cuGraphAddNode(&n, freeing, NULL, 0, &any));
	MUST(cuGraphInstantiate_v2(&f, freeing, NULL, NULL, 0));
	MUST(cuGraphLaunch(f, stream));
	CHANGED(CLASS_GRAPH, -4 * (int64_t)MIB, -2, 0, 2);
	EXPECT(1, cuGraphLaunch(f, stream)); /* they are not there */
	EXPECT(1, cuMemFreeAsync(params.dptr, stream));
	MUST(cuGraphExecDestroy(f));
	EXPECT(1, cuGraphLaunch(f, stream));
	MUST(cuGraphExecDestroy(e));
	MUST(cuGraphDestroy(freeing));
	MUST(cuGraphDestroy(g));
	MUST(cuDeviceGraphMemTrim(0));
	SAME();
}

int main(int argc, char **argv)
{
	static struct ledger books; /* stays empty */

	options_parse(argc, argv, NULL);
	common_start();
	gpu_open(&books);
	if (books.device_count < 2)
		die("needs two devices");
	MUST(cuStreamCreate(&stream, 1));
	MUST(cuStreamCreate(&other, 1));
	capture();
	capture_ends();
	nodes();
	capture(); /* the same again, over addresses that were used */
	MUST(cuStreamDestroy_v2(stream));
	MUST(cuStreamDestroy_v2(other));
	MUST(cuCtxSynchronize());
	check_empty();
	printf("{\"label\":\"graphs\",\"pid\":%d,\"ok\":true}\n", (int)getpid());
	if (common.wait_end)
		wait_line();
	return 0;
}
