/* SPDX-License-Identifier: MIT */
/*
 * Memory that no allocation call shows: leak_driver cuda-driver-only tune|held, started by leaks.py. tune: graphs are
 * instantiated for each request and never destroyed. held: a module with a table of its own is loaded each time, as a
 * compiler of kernels without a cache does, and never unloaded. How much is lost only the driver knows.
 */
#include <cuda.h>

#include "leak_run.h"

#define NODES 400
#define PARAM_BYTES 4000
#define LIMIT (3000 * RUN_MIB) /* by the device's free memory, in which others have a share: a guess on the safe side */

static const char graph_ptx[] =
	".version 8.0\n.target sm_80\n.address_size 64\n"
	".visible .entry touch(.param .align 8 .b8 p[4000])\n{\n\tret;\n}\n";
/* 3 MiB each. */
static const char table_ptx[] =
	".version 8.0\n.target sm_80\n.address_size 64\n"
	".visible .global .align 16 .b8 table[3145728];\n"
	".visible .entry touch(.param .u64 p)\n{\n\tret;\n}\n";

static void must(CUresult r, const char *what)
{
	const char *name = "?";

	if (r == CUDA_SUCCESS)
		return;
	cuGetErrorName(r, &name);
	fprintf(stderr, "%s: %d %s\n", what, (int)r, name);
	exit(2);
}

#define MUST(call) must(call, #call)

/* As for a request of its own: a chain of kernels with their arguments. */
RUN_FRAME static void make_graph(CUfunction function, CUstream stream, int keep)
{
	static char param[PARAM_BYTES];
	void *params[] = { param };
	CUDA_KERNEL_NODE_PARAMS node = { .func = function, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1,
					 .blockDimY = 1, .blockDimZ = 1, .kernelParams = params };
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode before = NULL, now;

	MUST(cuGraphCreate(&graph, 0));
	for (int i = 0; i < NODES; i++) {
		/* Chains of four beside each other: branches take more than one long chain. */
		MUST(cuGraphAddKernelNode(&now, graph, before && i % 4 ? &before : NULL, before && i % 4 ? 1 : 0, &node));
		before = now;
	}
	MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
	MUST(cuGraphLaunch(exec, stream));
	MUST(cuStreamSynchronize(stream));
	MUST(cuGraphDestroy(graph));
	if (!keep)
		MUST(cuGraphExecDestroy(exec));
}

RUN_FRAME static void load_table(int keep)
{
	CUmodule module;
	CUfunction function;
	CUdeviceptr table;
	size_t bytes = 0;

	MUST(cuModuleLoadData(&module, table_ptx));
	MUST(cuModuleGetFunction(&function, module, "touch"));
	MUST(cuModuleGetGlobal(&table, &bytes, module, "table"));
	MUST(cuMemsetD8(table, 1, bytes));
	if (!keep)
		MUST(cuModuleUnload(module));
}

int main(int argc, char **argv)
{
	struct run r;
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction function;
	CUstream stream;
	uint64_t count = 0, taken = 0;

	run_open(&r, argc, argv);
	MUST(cuInit(0));
	MUST(cuDeviceGet(&device, 0));
	MUST(cuDevicePrimaryCtxRetain(&context, device));
	MUST(cuCtxSetCurrent(context));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuModuleLoadData(&module, graph_ptx));
	MUST(cuModuleGetFunction(&function, module, "touch"));
	run_ready(&r);
	while (run_step(&r, r.held ? 1.2 : 2.4)) {
		int keep = run_leaking(&r, r.held ? 70 : 45);
		size_t before, after, total;

		MUST(cuMemGetInfo(&before, &total));
		if (r.held)
			load_table(keep);
		else
			make_graph(function, stream, keep);
		MUST(cuMemGetInfo(&after, &total));
		taken += keep && before > after ? before - after : 0;
		if (taken > LIMIT) {
			run_mark(&r, "budget", "", taken);
			break;
		}
		count += (uint64_t)keep;
		if (keep && count % 10 == 0)
			run_mark(&r, "kept", "", count);
	}
	run_end(&r);
}
