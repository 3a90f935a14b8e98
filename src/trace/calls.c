/* SPDX-License-Identifier: MIT */
/*
 * Signatures as in NVIDIA's CUDA driver API reference. Every allocation of every framework reaches one of these exported
 * symbols of libcuda, whatever runtime lies on top (measured with a probe on each export), so the runtime's own calls
 * are never counted. `_ptsz` is the same call compiled for a per-thread default stream.
 */
#include "trace/calls.h"

#include "base/cleanup.h"

/* *arg0 = address, arg1 = bytes */
#define ALLOC(sym, cls)                                                                                                \
	{                                                                                                              \
		sym, { .op = CALL_ALLOC, .class = cls, .kind = ADDR_POINTER, .flags = CALL_F_STACK,                    \
		       .size_how = SIZE_ARG, .size_arg = 1, .device_how = DEVICE_CURRENT }, 0                          \
	}
#define ALLOC_POOL(sym)                                                                                                \
	{                                                                                                              \
		sym, { .op = CALL_ALLOC, .class = CLASS_ASYNC, .kind = ADDR_POINTER, .flags = CALL_F_STACK,            \
		       .size_how = SIZE_ARG, .size_arg = 1, .device_how = DEVICE_POOL }, 0                             \
	}
#define FREE(sym, cls, what)                                                                                           \
	{                                                                                                              \
		sym, { .op = CALL_FREE, .class = cls, .kind = what }, 0                                                \
	}
#define OP(sym, what)                                                                                                  \
	{                                                                                                              \
		sym, { .op = what }, 0                                                                                 \
	}
#define OP_ENTRY(sym, what)                                                                                            \
	{                                                                                                              \
		sym, { .op = what }, CALL_ENTRY_ONLY                                                                   \
	}
#define OP_TEACHER(sym, what)                                                                                          \
	{                                                                                                              \
		sym, { .op = what }, CALL_TEACHER                                                                      \
	}
/* the device is in argument n */
#define CTX_CREATE(sym, n)                                                                                             \
	{                                                                                                              \
		sym, { .op = CALL_CTX_CREATE, .addr_arg = n }, 0                                                       \
	}

const struct call cuda_calls[] = {
	ALLOC("cuMemAlloc_v2", CLASS_DEVICE),
	{ "cuMemAllocPitch_v2",
	  { .op = CALL_ALLOC, .class = CLASS_DEVICE, .kind = ADDR_POINTER, .flags = CALL_F_STACK, .size_how = SIZE_PITCH },
	  0 },
	FREE("cuMemFree_v2", CLASS_DEVICE, ADDR_POINTER),
	ALLOC("cuMemAllocManaged", CLASS_MANAGED),

	ALLOC("cuMemAllocHost_v2", CLASS_HOST),
	ALLOC("cuMemHostAlloc", CLASS_HOST),
	FREE("cuMemFreeHost", CLASS_HOST, ADDR_POINTER),
	{ "cuMemHostRegister_v2",
	  { .op = CALL_ALLOC, .class = CLASS_HOST, .kind = ADDR_POINTER, .flags = CALL_F_STACK | CALL_F_ADDR_VALUE,
	    .addr_arg = 0, .size_how = SIZE_ARG, .size_arg = 1 },
	  0 },
	FREE("cuMemHostUnregister", CLASS_HOST, ADDR_POINTER),

	ALLOC("cuMemAllocAsync", CLASS_ASYNC),
	ALLOC("cuMemAllocAsync_ptsz", CLASS_ASYNC),
	ALLOC_POOL("cuMemAllocFromPoolAsync"),
	ALLOC_POOL("cuMemAllocFromPoolAsync_ptsz"),
	FREE("cuMemFreeAsync", CLASS_ASYNC, ADDR_POINTER),
	FREE("cuMemFreeAsync_ptsz", CLASS_ASYNC, ADDR_POINTER),
	OP("cuMemPoolCreate", CALL_POOL_CREATE),
	OP("cuDeviceGetDefaultMemPool", CALL_POOL_GET),
	OP("cuDeviceGetMemPool", CALL_POOL_GET),

	/* Address space reserved is not memory; created bytes are, until released and unmapped. */
	{ "cuMemCreate",
	  { .op = CALL_ALLOC, .class = CLASS_PHYSICAL, .kind = ADDR_HANDLE, .flags = CALL_F_STACK, .size_how = SIZE_ARG,
	    .size_arg = 1, .device_how = DEVICE_PROP },
	  0 },
	FREE("cuMemRelease", CLASS_PHYSICAL, ADDR_HANDLE),
	OP("cuMemRetainAllocationHandle", CALL_HANDLE_RETAIN),
	OP("cuMemMap", CALL_MAP),
	OP_ENTRY("cuMemUnmap", CALL_UNMAP),

	OP("cuDeviceGetUuid", CALL_DEVICE_UUID),
	OP("cuDeviceGetUuid_v2", CALL_DEVICE_UUID),
	OP("cuDevicePrimaryCtxRetain", CALL_PRIMARY_RETAIN),
	OP("cuDevicePrimaryCtxReset", CALL_PRIMARY_RESET),
	OP("cuDevicePrimaryCtxReset_v2", CALL_PRIMARY_RESET),
	CTX_CREATE("cuCtxCreate_v2", 2),
	CTX_CREATE("cuCtxCreate_v3", 4),
	CTX_CREATE("cuCtxCreate_v4", 3),
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
};
const size_t cuda_calls_len = ARRAY_SIZE(cuda_calls);

_Static_assert(ARRAY_SIZE(cuda_calls) <= CALL_MAX, "CALL_MAX");

bool call_takes_stack(unsigned int row)
{
	return row < cuda_calls_len && cuda_calls[row].desc.flags & CALL_F_STACK;
}

const char *call_symbol(unsigned int row)
{
	return row < cuda_calls_len ? cuda_calls[row].symbol : NULL;
}
