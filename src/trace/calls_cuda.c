/* SPDX-License-Identifier: MIT */
/*
 * Signatures as in NVIDIA's CUDA driver API reference. Every allocation of every framework reaches one of these exported
 * symbols of libcuda, whatever runtime lies on top (measured with a probe on each export), so the runtime's own calls
 * are never counted. `_ptsz` is the same call compiled for a per-thread default stream. What the driver does at each was
 * asked of a real one (tests/gpu/driver_facts.c, tests/gpu/memory_facts.c).
 */
#include "trace/calls.h"

#define D_CURRENT .stream_arg = ARG_NONE /* and device_how 0: DEVICE_CURRENT */

/* *arg0 = address, arg1 = bytes */
#define ALLOC(sym, cls)                                                                                                \
	{                                                                                                              \
		.symbol = sym, .desc = { .op = CALL_ALLOC, .class = cls, .flags = CALL_F_STACK, .size_how = SIZE_ARG,  \
					 .size_arg = 1, D_CURRENT }                                                    \
	}
#define ALLOC_AS(sym, cls, what, how, n, ...)                                                                          \
	{                                                                                                              \
		.symbol = sym, .desc = { .op = CALL_ALLOC, .class = cls, .kind = what, .size_how = how, .size_arg = n, \
					 D_CURRENT, __VA_ARGS__ }                                                      \
	}
#define ALLOC_ASYNC(sym)                                                                                               \
	{                                                                                                              \
		.symbol = sym, .desc = { .op = CALL_ALLOC, .class = CLASS_ASYNC, .flags = CALL_F_STACK,                \
					 .size_how = SIZE_ARG, .size_arg = 1, .stream_arg = 2 }                        \
	}
#define ALLOC_POOL(sym)                                                                                                \
	{                                                                                                              \
		.symbol = sym, .desc = { .op = CALL_ALLOC, .class = CLASS_ASYNC, .flags = CALL_F_STACK,                \
					 .size_how = SIZE_ARG, .size_arg = 1, .device_how = DEVICE_POOL,               \
					 .device_arg = 2, .stream_arg = 3 }                                            \
	}
#define FREE(sym, cls, what)                                                                                           \
	{                                                                                                              \
		.symbol = sym, .desc = { .op = CALL_FREE, .class = cls, .kind = what, .stream_arg = ARG_NONE }         \
	}
#define FREE_ASYNC(sym)                                                                                                \
	{                                                                                                              \
		.symbol = sym, .desc = { .op = CALL_FREE, .class = CLASS_ASYNC, .stream_arg = 1 }                      \
	}
#define OP(sym, what, ...)                                                                                             \
	{                                                                                                              \
		.symbol = sym, .desc = { .op = what, ##__VA_ARGS__ }                                                   \
	}
#define OP_ENTRY(sym, what)                                                                                            \
	{                                                                                                              \
		.symbol = sym, .desc = { .op = what }, .how = CALL_ENTRY_ONLY                                          \
	}
#define OP_TEACHER(sym, what)                                                                                          \
	{                                                                                                              \
		.symbol = sym, .desc = { .op = what }, .how = CALL_TEACHER                                             \
	}
/* the device is in argument n */
#define CTX_CREATE(sym, n) OP(sym, CALL_CTX_CREATE, .device_arg = n)

/* CUipcMemHandle is 64 bytes, passed by value: on the stack, but by reference on arm64. */
#if defined(__x86_64__)
#define IPC_OPEN(sym)                                                                                                  \
	ALLOC_AS(sym, CLASS_IMPORTED, ADDR_POINTER, SIZE_EXPORTED, ARG_STACK, .flags = CALL_F_ARGS | CALL_F_SHARED)
#else
#define IPC_OPEN(sym) ALLOC_AS(sym, CLASS_IMPORTED, ADDR_POINTER, SIZE_EXPORTED, 1, .flags = CALL_F_SHARED)
#endif

const struct call cuda_calls[] = {
	ALLOC("cuMemAlloc_v2", CLASS_DEVICE),
	ALLOC_AS("cuMemAlloc", CLASS_DEVICE, ADDR_POINTER, SIZE_ARG, 1,
		 .flags = CALL_F_STACK | CALL_F_SIZE32 | CALL_F_ADDR32),
	ALLOC_AS("cuMemAllocPitch_v2", CLASS_DEVICE, ADDR_POINTER, SIZE_PITCH, 1, .flags = CALL_F_STACK),
	ALLOC_AS("cuMemAllocPitch", CLASS_DEVICE, ADDR_POINTER, SIZE_PITCH, 1,
		 .flags = CALL_F_STACK | CALL_F_SIZE32 | CALL_F_ADDR32),
	FREE("cuMemFree_v2", CLASS_DEVICE, ADDR_POINTER),
	{ .symbol = "cuMemFree",
	  .desc = { .op = CALL_FREE, .class = CLASS_DEVICE, .flags = CALL_F_ADDR32, .stream_arg = ARG_NONE } },
	ALLOC("cuMemAllocManaged", CLASS_MANAGED),

	ALLOC("cuMemAllocHost_v2", CLASS_HOST),
	ALLOC_AS("cuMemAllocHost", CLASS_HOST, ADDR_POINTER, SIZE_ARG, 1, .flags = CALL_F_STACK | CALL_F_SIZE32),
	ALLOC("cuMemHostAlloc", CLASS_HOST),
	FREE("cuMemFreeHost", CLASS_HOST, ADDR_POINTER),
	ALLOC_AS("cuMemHostRegister_v2", CLASS_HOST, ADDR_POINTER, SIZE_ARG, 1, .flags = CALL_F_STACK | CALL_F_ADDR_VALUE),
	ALLOC_AS("cuMemHostRegister", CLASS_HOST, ADDR_POINTER, SIZE_ARG, 1, .flags = CALL_F_STACK | CALL_F_ADDR_VALUE),
	FREE("cuMemHostUnregister", CLASS_HOST, ADDR_POINTER),

	/* Bytes as the descriptor says, which is what the device loses, rounded to 2 MiB; a sparse array or one whose mapping
	 * is deferred takes none. */
	ALLOC_AS("cuArrayCreate_v2", CLASS_ARRAY, ADDR_OBJECT, SIZE_ARRAY, 1, .flags = CALL_F_STACK),
	ALLOC_AS("cuArrayCreate", CLASS_ARRAY, ADDR_OBJECT, SIZE_ARRAY_V1, 1, .flags = CALL_F_STACK),
	ALLOC_AS("cuArray3DCreate_v2", CLASS_ARRAY, ADDR_OBJECT, SIZE_ARRAY3D, 1, .flags = CALL_F_STACK),
	ALLOC_AS("cuArray3DCreate", CLASS_ARRAY, ADDR_OBJECT, SIZE_ARRAY3D_V1, 1, .flags = CALL_F_STACK),
	FREE("cuArrayDestroy", CLASS_ARRAY, ADDR_OBJECT),
	ALLOC_AS("cuMipmappedArrayCreate", CLASS_ARRAY, ADDR_OBJECT, SIZE_MIPMAP, 1, .flags = CALL_F_STACK),
	FREE("cuMipmappedArrayDestroy", CLASS_ARRAY, ADDR_OBJECT),

	ALLOC_ASYNC("cuMemAllocAsync"),
	ALLOC_ASYNC("cuMemAllocAsync_ptsz"),
	ALLOC_POOL("cuMemAllocFromPoolAsync"),
	ALLOC_POOL("cuMemAllocFromPoolAsync_ptsz"),
	FREE_ASYNC("cuMemFreeAsync"),
	FREE_ASYNC("cuMemFreeAsync_ptsz"),
	OP("cuMemPoolCreate", CALL_POOL_CREATE, .device_how = DEVICE_PROP, .device_arg = 1),
	OP_ENTRY("cuMemPoolDestroy", CALL_POOL_DESTROY),
	OP("cuMemPoolTrimTo", CALL_POOL_TRIM),
	OP("cuMemPoolSetAttribute", CALL_POOL_SET),
	OP("cuMemPoolGetAttribute", CALL_POOL_ASK),
	OP("cuDeviceGetDefaultMemPool", CALL_POOL_DEFAULT, .device_how = DEVICE_ARG, .device_arg = 1),
	OP("cuDeviceGetMemPool", CALL_POOL_GET, .device_how = DEVICE_ARG, .device_arg = 1),
	OP("cuDeviceSetMemPool", CALL_POOL_CURRENT, .device_how = DEVICE_ARG, .device_arg = 0, .addr_arg = 1),
	OP("cuMemGetDefaultMemPool", CALL_POOL_DEFAULT, .device_how = DEVICE_LOCATION, .device_arg = 1),
	OP("cuMemGetMemPool", CALL_POOL_GET, .device_how = DEVICE_LOCATION, .device_arg = 1),
	OP("cuMemSetMemPool", CALL_POOL_CURRENT, .device_how = DEVICE_LOCATION, .device_arg = 0, .addr_arg = 2),

	/* Address space reserved is not memory; created bytes are, until released and unmapped. */
	ALLOC_AS("cuMemCreate", CLASS_PHYSICAL, ADDR_HANDLE, SIZE_ARG, 1, .flags = CALL_F_STACK, .device_how = DEVICE_PROP,
		 .device_arg = 2),
	FREE("cuMemRelease", CLASS_PHYSICAL, ADDR_HANDLE),
	OP("cuMemRetainAllocationHandle", CALL_HANDLE_RETAIN),
	OP("cuMemMap", CALL_MAP),
	OP_ENTRY("cuMemUnmap", CALL_UNMAP),

	/* Others' memory: known, so that its end is no unknown free, and never counted as the importer's own. */
	OP("cuIpcGetMemHandle", CALL_EXPORT),
	IPC_OPEN("cuIpcOpenMemHandle_v2"),
	IPC_OPEN("cuIpcOpenMemHandle"),
	FREE("cuIpcCloseMemHandle", CLASS_IMPORTED, ADDR_POINTER),
	ALLOC_AS("cuMemImportFromShareableHandle", CLASS_IMPORTED, ADDR_HANDLE, SIZE_NONE, 0, .device_how = DEVICE_NONE),
	OP("cuMemPoolExportPointer", CALL_EXPORT),
	OP("cuMemPoolImportFromShareableHandle", CALL_POOL_IMPORT),
	ALLOC_AS("cuMemPoolImportPointer", CLASS_IMPORTED, ADDR_POINTER, SIZE_EXPORTED, 2, .device_how = DEVICE_POOL,
		 .device_arg = 1),
	ALLOC_AS("cuImportExternalMemory", CLASS_IMPORTED, ADDR_OBJECT, SIZE_EXTERNAL, 1),
	FREE("cuDestroyExternalMemory", CLASS_IMPORTED, ADDR_OBJECT),
	ALLOC_AS("cuExternalMemoryGetMappedBuffer", CLASS_IMPORTED, ADDR_POINTER, SIZE_NONE, 0),
	ALLOC_AS("cuExternalMemoryGetMappedMipmappedArray", CLASS_IMPORTED, ADDR_OBJECT, SIZE_NONE, 0),
	/* A multicast object has no memory of its own; what is bound to it lives as long as it is bound. */
	ALLOC_AS("cuMulticastCreate", CLASS_IMPORTED, ADDR_HANDLE, SIZE_NONE, 0, .device_how = DEVICE_NONE),
	OP("cuMulticastBindMem", CALL_MULTICAST_BIND, .kind = ADDR_HANDLE),
	OP("cuMulticastBindAddr", CALL_MULTICAST_BIND, .kind = ADDR_POINTER),
	OP_ENTRY("cuMulticastUnbind", CALL_MULTICAST_UNBIND),

	/* What a capture allocates is not there until the graph runs, and is given back by its own free alone: destroying the
	 * graph or its executable frees nothing. */
	OP("cuStreamBeginCapture", CALL_CAPTURE_BEGIN),
	OP("cuStreamBeginCapture_ptsz", CALL_CAPTURE_BEGIN),
	OP("cuStreamBeginCapture_v2", CALL_CAPTURE_BEGIN),
	OP("cuStreamBeginCapture_v2_ptsz", CALL_CAPTURE_BEGIN),
	OP("cuStreamBeginCaptureToGraph", CALL_CAPTURE_INTO),
	OP("cuStreamBeginCaptureToGraph_ptsz", CALL_CAPTURE_INTO),
	OP("cuStreamEndCapture", CALL_CAPTURE_END),
	OP("cuStreamEndCapture_ptsz", CALL_CAPTURE_END),
	OP("cuGraphAddMemAllocNode", CALL_GRAPH_ALLOC, .flags = CALL_F_STACK),
	OP("cuGraphAddMemFreeNode", CALL_GRAPH_FREE),
	OP("cuGraphAddNode", CALL_GRAPH_NODE, .flags = CALL_F_STACK, .addr_arg = 4),
	OP("cuGraphAddNode_v2", CALL_GRAPH_NODE, .flags = CALL_F_STACK, .addr_arg = 5),
	OP("cuGraphClone", CALL_GRAPH_CLONE),
	OP("cuGraphInstantiate", CALL_GRAPH_INSTANTIATE),
	OP("cuGraphInstantiate_v2", CALL_GRAPH_INSTANTIATE),
	OP("cuGraphInstantiateWithFlags", CALL_GRAPH_INSTANTIATE),
	OP("cuGraphInstantiateWithParams", CALL_GRAPH_INSTANTIATE),
	OP("cuGraphInstantiateWithParams_ptsz", CALL_GRAPH_INSTANTIATE),
	OP("cuGraphLaunch", CALL_GRAPH_LAUNCH),
	OP("cuGraphLaunch_ptsz", CALL_GRAPH_LAUNCH),
	OP_ENTRY("cuGraphDestroy", CALL_GRAPH_DESTROY),
	OP_ENTRY("cuGraphExecDestroy", CALL_GRAPH_DESTROY),

	OP("cuDeviceGetUuid", CALL_DEVICE_UUID),
	OP("cuDeviceGetUuid_v2", CALL_DEVICE_UUID),
	OP("cuDevicePrimaryCtxRetain", CALL_PRIMARY_RETAIN),
	OP("cuDevicePrimaryCtxRelease", CALL_PRIMARY_RELEASE),
	OP("cuDevicePrimaryCtxRelease_v2", CALL_PRIMARY_RELEASE),
	OP("cuDevicePrimaryCtxReset", CALL_PRIMARY_RESET),
	OP("cuDevicePrimaryCtxReset_v2", CALL_PRIMARY_RESET),
	CTX_CREATE("cuCtxCreate", 2),
	CTX_CREATE("cuCtxCreate_v2", 2),
	CTX_CREATE("cuCtxCreate_v3", 4),
	CTX_CREATE("cuCtxCreate_v4", 3),
	CTX_CREATE("cuGLCtxCreate", 2),
	CTX_CREATE("cuGLCtxCreate_v2", 2),
	CTX_CREATE("cuVDPAUCtxCreate", 2),
	CTX_CREATE("cuVDPAUCtxCreate_v2", 2),
	OP("cuGreenCtxCreate", CALL_GREEN_CREATE),
	OP("cuCtxFromGreenCtx", CALL_GREEN_CTX),
	OP("cuCtxAttach", CALL_CTX_ATTACH),
	OP("cuCtxDetach", CALL_CTX_DETACH),
	OP("cuCtxDestroy", CALL_CTX_DESTROY),
	OP("cuCtxDestroy_v2", CALL_CTX_DESTROY),
	OP("cuCtxSetCurrent", CALL_CTX_SET),
	OP("cuCtxPushCurrent", CALL_CTX_PUSH),
	OP("cuCtxPushCurrent_v2", CALL_CTX_PUSH),
	OP("cuCtxPopCurrent", CALL_CTX_POP),
	OP("cuCtxPopCurrent_v2", CALL_CTX_POP),
	OP_TEACHER("cuCtxGetCurrent", CALL_CTX_GET),
	OP_TEACHER("cuCtxGetDevice", CALL_CTX_DEVICE),
	OP_TEACHER("cuCtxGetDevice_v2", CALL_CTX_DEVICE_OF),
	{ .symbol = NULL },
};

static const char asks[] = "asks only", moves[] = "moves or describes what is there already", space[] = "address space, not memory",
		  gives[] = "gives a handle for others: nothing changes hands by it", states[] = "a setting, no memory",
		  reserve[] = "gives back what the driver keeps for graphs, which is in no total: its own count shows it";

const struct call_ignored cuda_ignored[] = {
	{ "cuArray3DGetDescriptor", asks },
	{ "cuArray3DGetDescriptor_v2", asks },
	{ "cuArrayGetDescriptor", asks },
	{ "cuArrayGetDescriptor_v2", asks },
	{ "cuArrayGetMemoryRequirements", asks },
	{ "cuArrayGetPlane", "a view of an array" },
	{ "cuArrayGetSparseProperties", asks },
	{ "cuCtxDisablePeerAccess", states },
	{ "cuCtxEnablePeerAccess", states },
	{ "cuDeviceGetGraphMemAttribute", asks },
	{ "cuDeviceGraphMemTrim", reserve },
	{ "cuDevicePrimaryCtxGetState", asks },
	{ "cuDevicePrimaryCtxSetFlags", states },
	{ "cuDevicePrimaryCtxSetFlags_v2", states },
	{ "cuDeviceSetGraphMemAttribute", "sets high-water marks back" },
	{ "cuGraphAddBatchMemOpNode", moves },
	{ "cuGraphAddMemcpyNode", moves },
	{ "cuGraphAddMemsetNode", moves },
	{ "cuGreenCtxDestroy", "its memory is that of the primary context" },
	{ "cuIpcGetEventHandle", "an event, no memory" },
	{ "cuIpcOpenEventHandle", "an event, no memory" },
	{ "cuMemAddressFree", space },
	{ "cuMemAddressReserve", space },
	{ "cuMemAdvise", states },
	{ "cuMemAdvise_v2", states },
	{ "cuMemBatchDecompressAsync", moves },
	{ "cuMemBatchDecompressAsync_ptsz", moves },
	{ "cuMemDiscardAndPrefetchBatchAsync", moves },
	{ "cuMemDiscardAndPrefetchBatchAsync_ptsz", moves },
	{ "cuMemDiscardBatchAsync", moves },
	{ "cuMemDiscardBatchAsync_ptsz", moves },
	{ "cuMemExportToShareableHandle", gives },
	{ "cuMemGetAccess", asks },
	{ "cuMemGetAddressRange", asks },
	{ "cuMemGetAddressRange_v2", asks },
	{ "cuMemGetAllocationGranularity", asks },
	{ "cuMemGetAllocationPropertiesFromHandle", asks },
	{ "cuMemGetAttribute", asks },
	{ "cuMemGetAttribute_v2", asks },
	{ "cuMemGetHandleForAddressRange", gives },
	{ "cuMemGetInfo", asks },
	{ "cuMemGetInfo_v2", asks },
	{ "cuMemHostGetDevicePointer", asks },
	{ "cuMemHostGetDevicePointer_v2", asks },
	{ "cuMemHostGetFlags", asks },
	{ "cuMemMapArrayAsync", "maps physical memory that is counted already into a sparse array" },
	{ "cuMemMapArrayAsync_ptsz", "maps physical memory that is counted already into a sparse array" },
	{ "cuMemPoolExportToShareableHandle", gives },
	{ "cuMemPoolGetAccess", asks },
	{ "cuMemPoolSetAccess", states },
	{ "cuMemPrefetchAsync", moves },
	{ "cuMemPrefetchAsync_ptsz", moves },
	{ "cuMemPrefetchAsync_v2", moves },
	{ "cuMemPrefetchAsync_v2_ptsz", moves },
	{ "cuMemPrefetchBatchAsync", moves },
	{ "cuMemPrefetchBatchAsync_ptsz", moves },
	{ "cuMemRangeGetAttribute", asks },
	{ "cuMemRangeGetAttributes", asks },
	{ "cuMemSetAccess", states },
	{ "cuMipmappedArrayGetLevel", "a view of an array" },
	{ "cuMipmappedArrayGetMemoryRequirements", asks },
	{ "cuMipmappedArrayGetSparseProperties", asks },
	{ "cuMulticastAddDevice", states },
	{ "cuMulticastGetGranularity", asks },
	{ NULL, NULL },
};
