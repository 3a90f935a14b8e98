/* SPDX-License-Identifier: MIT */
/*
 * Signatures as in the Level Zero specification. Devices are pointers, which say no ordinal, so none is told; argument
 * 0 is the context. One zeMemFree is for all kinds. Images have no size that a caller states, and memory that a driver
 * takes for its own objects is in no call: neither is here.
 */
#include "trace/calls.h"

/* ze_physical_mem_desc_t has its bytes where CUDA_EXTERNAL_MEMORY_HANDLE_DESC has them: offset 24. */
#define SIZE_PHYSICAL SIZE_EXTERNAL

#define ALLOC(sym, cls, what, how, n, at, ...)                                                                         \
	{                                                                                                              \
		.symbol = sym, .desc = { .op = CALL_ALLOC, .class = cls, .kind = what, .flags = CALL_F_STACK __VA_ARGS__, \
					 .size_how = how, .size_arg = n, .addr_arg = at, .device_how = DEVICE_NONE,    \
					 .stream_arg = ARG_NONE }                                                      \
	}
#define FREE(sym, cls, what, at)                                                                                       \
	{                                                                                                              \
		.symbol = sym, .desc = { .op = CALL_FREE, .class = cls, .kind = what, .addr_arg = at,                  \
					 .stream_arg = ARG_NONE }                                                      \
	}
#define OPEN(sym, at)                                                                                                  \
	{                                                                                                              \
		.symbol = sym, .desc = { .op = CALL_ALLOC, .class = CLASS_IMPORTED, .flags = CALL_F_SHARED,            \
					 .addr_arg = at, .device_how = DEVICE_NONE, .stream_arg = ARG_NONE }           \
	}

const struct call ze_calls[] = {
	ALLOC("zeMemAllocDevice", CLASS_DEVICE, ADDR_POINTER, SIZE_ARG, 2, 5),
	ALLOC("zeMemAllocHost", CLASS_HOST, ADDR_POINTER, SIZE_ARG, 2, 4),
	/* Its seventh argument is the first on the stack, or the register that stands there on arm64. */
	ALLOC("zeMemAllocShared", CLASS_MANAGED, ADDR_POINTER, SIZE_ARG, 3, ARG_STACK, | CALL_F_ARGS),
	FREE("zeMemFree", CLASS_DEVICE, ADDR_POINTER, 1),
	FREE("zeMemFreeExt", CLASS_DEVICE, ADDR_POINTER, 2),

	ALLOC("zePhysicalMemCreate", CLASS_PHYSICAL, ADDR_HANDLE, SIZE_PHYSICAL, 2, 3),
	FREE("zePhysicalMemDestroy", CLASS_PHYSICAL, ADDR_HANDLE, 1),

/* The handle of 64 bytes is the third argument: on the stack here, so that the two behind it come forward. */
#if defined(__x86_64__)
	OPEN("zeMemOpenIpcHandle", 3),
#else
	OPEN("zeMemOpenIpcHandle", 4),
#endif
	FREE("zeMemCloseIpcHandle", CLASS_IMPORTED, ADDR_POINTER, 1),
	{ .symbol = NULL },
};
