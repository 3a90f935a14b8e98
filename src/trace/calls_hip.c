/* SPDX-License-Identifier: MIT */
/*
 * Signatures as in AMD's HIP API reference; names as libamdhip64.so exports them. Each exported function is a jump
 * through a table to the one that does it, and those call each other past the exports: a call of a program is seen
 * once. `_spt` is the same call compiled for a per-thread default stream.
 *
 * A HIP context is only another name for its device (hip_context.cpp of AMD's sources): none is needed, a thread is on
 * device 0 until it chooses another, and destroying a context, releasing or resetting a primary one gives back no
 * memory. hipCtxPopCurrent, and hipCtxSetCurrent with nothing, leave the thread on the device it was on. Only
 * hipDeviceReset ends memory: all of the device, that of its pools too. hipCtxCreate has no row: it moves no thread, and
 * what it hands out is what hipDevicePrimaryCtxRetain does.
 */
#include "trace/calls.h"

#define D_CURRENT .stream_arg = ARG_NONE /* and device_how 0: DEVICE_CURRENT */
#define F_ALLOC (CALL_F_STACK | CALL_F_DEVICE0)

#define ALLOC_AS(sym, cls, what, how, n, ...)                                                                          \
	{                                                                                                              \
		.symbol = sym, .desc = { .op = CALL_ALLOC, .class = cls, .kind = what, .size_how = how, .size_arg = n, \
					 D_CURRENT, __VA_ARGS__ }                                                      \
	}
/* *arg0 = address, arg1 = bytes */
#define ALLOC(sym, cls) ALLOC_AS(sym, cls, ADDR_POINTER, SIZE_ARG, 1, .flags = F_ALLOC)
#define ALLOC_ASYNC(sym, ...)                                                                                          \
	{                                                                                                              \
		.symbol = sym, .desc = { .op = CALL_ALLOC, .class = CLASS_ASYNC, .flags = F_ALLOC,                     \
					 .size_how = SIZE_ARG, .size_arg = 1, __VA_ARGS__ }                            \
	}
#define ARRAY(sym, how, n, ...) ALLOC_AS(sym, CLASS_ARRAY, ADDR_OBJECT, how, n, .flags = F_ALLOC __VA_ARGS__)
#define IMPORT(sym, what, how, n) ALLOC_AS(sym, CLASS_IMPORTED, what, how, n, .flags = CALL_F_DEVICE0)
#define FREE(sym, cls, what)                                                                                           \
	{                                                                                                              \
		.symbol = sym, .desc = { .op = CALL_FREE, .class = cls, .kind = what, .stream_arg = ARG_NONE }         \
	}
#define OP(sym, what, ...)                                                                                             \
	{                                                                                                              \
		.symbol = sym, .desc = { .op = what, ##__VA_ARGS__ }                                                   \
	}

const struct call hip_calls[] = {
	ALLOC("hipMalloc", CLASS_DEVICE),
	ALLOC("hipExtMallocWithFlags", CLASS_DEVICE),
	ALLOC_AS("hipMallocPitch", CLASS_DEVICE, ADDR_POINTER, SIZE_PITCH, 1, .flags = F_ALLOC),
	ALLOC_AS("hipMemAllocPitch", CLASS_DEVICE, ADDR_POINTER, SIZE_PITCH, 1, .flags = F_ALLOC),
	FREE("hipFree", CLASS_DEVICE, ADDR_POINTER),
	ALLOC("hipMallocManaged", CLASS_MANAGED),

	ALLOC("hipHostMalloc", CLASS_HOST),
	ALLOC("hipHostAlloc", CLASS_HOST),
	ALLOC("hipMallocHost", CLASS_HOST),
	ALLOC("hipMemAllocHost", CLASS_HOST),
	FREE("hipHostFree", CLASS_HOST, ADDR_POINTER),
	FREE("hipFreeHost", CLASS_HOST, ADDR_POINTER),
	ALLOC_AS("hipHostRegister", CLASS_HOST, ADDR_POINTER, SIZE_ARG, 1, .flags = F_ALLOC | CALL_F_ADDR_VALUE),
	FREE("hipHostUnregister", CLASS_HOST, ADDR_POINTER),

	ARRAY("hipMallocArray", SIZE_CHANNEL, 2),
	ARRAY("hipArrayCreate", SIZE_ARRAY, 1),
	ARRAY("hipArray3DCreate", SIZE_ARRAY3D, 1),
	ARRAY("hipMipmappedArrayCreate", SIZE_MIPMAP, 1),
	FREE("hipFreeArray", CLASS_ARRAY, ADDR_OBJECT),
	FREE("hipArrayDestroy", CLASS_ARRAY, ADDR_OBJECT),
	FREE("hipFreeMipmappedArray", CLASS_ARRAY, ADDR_OBJECT),
	FREE("hipMipmappedArrayDestroy", CLASS_ARRAY, ADDR_OBJECT),

/* hipExtent (24 bytes) and hipIpcMemHandle_t (64) are passed by value: on the stack here, by reference elsewhere. */
#if defined(__x86_64__)
	ALLOC_AS("hipMalloc3D", CLASS_DEVICE, ADDR_POINTER, SIZE_PITCHED, ARG_STACK, .flags = F_ALLOC | CALL_F_ARGS),
	ARRAY("hipMalloc3DArray", SIZE_CHANNEL3D, ARG_STACK, | CALL_F_ARGS),
	ARRAY("hipMallocMipmappedArray", SIZE_CHANNEL_MIPMAP, ARG_STACK, | CALL_F_ARGS),
	ALLOC_AS("hipIpcOpenMemHandle", CLASS_IMPORTED, ADDR_POINTER, SIZE_EXPORTED, ARG_STACK,
		 .flags = CALL_F_DEVICE0 | CALL_F_ARGS | CALL_F_SHARED),
#else
	ALLOC_AS("hipIpcOpenMemHandle", CLASS_IMPORTED, ADDR_POINTER, SIZE_EXPORTED, 1,
		 .flags = CALL_F_DEVICE0 | CALL_F_SHARED),
#endif

	ALLOC_ASYNC("hipMallocAsync", .stream_arg = 2),
	ALLOC_ASYNC("hipMallocFromPoolAsync", .device_how = DEVICE_POOL, .device_arg = 2, .stream_arg = 3),
	OP("hipFreeAsync", CALL_FREE, .class = CLASS_ASYNC, .stream_arg = 1),
	OP("hipMemPoolCreate", CALL_POOL_CREATE, .device_how = DEVICE_PROP, .device_arg = 1),
	OP("hipMemPoolDestroy", CALL_POOL_DESTROY),
	OP("hipMemPoolTrimTo", CALL_POOL_TRIM),
	OP("hipMemPoolSetAttribute", CALL_POOL_SET),
	OP("hipMemPoolGetAttribute", CALL_POOL_ASK),
	OP("hipDeviceGetDefaultMemPool", CALL_POOL_DEFAULT, .device_how = DEVICE_ARG, .device_arg = 1),
	OP("hipDeviceGetMemPool", CALL_POOL_GET, .device_how = DEVICE_ARG, .device_arg = 1),
	OP("hipDeviceSetMemPool", CALL_POOL_CURRENT, .device_how = DEVICE_ARG, .device_arg = 0, .addr_arg = 1),
	OP("hipMemGetMemPool", CALL_POOL_GET, .device_how = DEVICE_LOCATION, .device_arg = 1),
	OP("hipMemSetMemPool", CALL_POOL_CURRENT, .device_how = DEVICE_LOCATION, .device_arg = 0, .addr_arg = 2),

	ALLOC_AS("hipMemCreate", CLASS_PHYSICAL, ADDR_HANDLE, SIZE_ARG, 1, .flags = F_ALLOC, .device_how = DEVICE_PROP,
		 .device_arg = 2),
	FREE("hipMemRelease", CLASS_PHYSICAL, ADDR_HANDLE),
	OP("hipMemRetainAllocationHandle", CALL_HANDLE_RETAIN),
	OP("hipMemMap", CALL_MAP),
	{ .symbol = "hipMemUnmap", .desc = { .op = CALL_UNMAP }, .how = CALL_ENTRY_ONLY },

	/* Others' memory: known, so that its end is no unknown free, and never counted as the importer's own. */
	OP("hipIpcGetMemHandle", CALL_EXPORT),
	FREE("hipIpcCloseMemHandle", CLASS_IMPORTED, ADDR_POINTER),
	ALLOC_AS("hipMemImportFromShareableHandle", CLASS_IMPORTED, ADDR_HANDLE, SIZE_NONE, 0, .device_how = DEVICE_NONE),
	OP("hipMemPoolExportPointer", CALL_EXPORT),
	OP("hipMemPoolImportFromShareableHandle", CALL_POOL_IMPORT),
	ALLOC_AS("hipMemPoolImportPointer", CLASS_IMPORTED, ADDR_POINTER, SIZE_EXPORTED, 2, .device_how = DEVICE_POOL,
		 .device_arg = 1),
	IMPORT("hipImportExternalMemory", ADDR_OBJECT, SIZE_EXTERNAL, 1),
	FREE("hipDestroyExternalMemory", CLASS_IMPORTED, ADDR_OBJECT),
	IMPORT("hipExternalMemoryGetMappedBuffer", ADDR_POINTER, SIZE_NONE, 0),
	IMPORT("hipExternalMemoryGetMappedMipmappedArray", ADDR_OBJECT, SIZE_NONE, 0),

	OP("hipStreamBeginCapture", CALL_CAPTURE_BEGIN),
	OP("hipStreamBeginCapture_spt", CALL_CAPTURE_BEGIN),
	OP("hipStreamBeginCaptureToGraph", CALL_CAPTURE_INTO),
	OP("hipStreamEndCapture", CALL_CAPTURE_END),
	OP("hipStreamEndCapture_spt", CALL_CAPTURE_END),
	OP("hipGraphAddMemAllocNode", CALL_GRAPH_ALLOC, .flags = CALL_F_STACK),
	OP("hipGraphAddMemFreeNode", CALL_GRAPH_FREE),
	OP("hipDrvGraphAddMemFreeNode", CALL_GRAPH_FREE),
	OP("hipGraphAddNode", CALL_GRAPH_NODE, .flags = CALL_F_STACK, .addr_arg = 4),
	OP("hipGraphClone", CALL_GRAPH_CLONE),
	OP("hipGraphInstantiate", CALL_GRAPH_INSTANTIATE),
	OP("hipGraphInstantiateWithFlags", CALL_GRAPH_INSTANTIATE),
	OP("hipGraphInstantiateWithParams", CALL_GRAPH_INSTANTIATE),
	OP("hipGraphLaunch", CALL_GRAPH_LAUNCH),
	OP("hipGraphLaunch_spt", CALL_GRAPH_LAUNCH),
	OP("hipGraphDestroy", CALL_GRAPH_DESTROY),
	OP("hipGraphExecDestroy", CALL_GRAPH_DESTROY),

	OP("hipDeviceGetUuid", CALL_DEVICE_UUID),
	/* Not at entry alone: a device that is not there leaves the thread where it was. */
	OP("hipSetDevice", CALL_DEVICE_SET),
	OP("hipDeviceReset", CALL_DEVICE_RESET, .flags = CALL_F_DEVICE0),
	/* Tells a device's only context, for those who choose it by that; its release is no end of anything. */
	OP("hipDevicePrimaryCtxRetain", CALL_PRIMARY_RETAIN),
	OP("hipCtxSetCurrent", CALL_CTX_SET, .flags = CALL_F_DEVICE0),
	OP("hipCtxPushCurrent", CALL_CTX_SET, .flags = CALL_F_DEVICE0),
	{ .symbol = NULL },
};
