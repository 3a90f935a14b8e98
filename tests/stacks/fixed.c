/* SPDX-License-Identifier: MIT */
/* fixed KEY: linked statically, driver and all. It has no driver library, only its functions. */
#include <stdlib.h>

#include "../fake_gpu/cuda_api.h"
#include "stack.h"

CUresult cuInit(unsigned int flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
	*ctx = (CUcontext)0x1000;
	return dev ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
	return ctx ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

__attribute__((noinline)) CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
	*dptr = 0x10000;
	return bytes >> 40 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	return dptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static FRAME void inner(void)
{
	stack_alloc();
	KEEP_FRAME();
}

static FRAME void outer(void)
{
	inner();
	KEEP_FRAME();
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	stack_key = strtoull(argv[1], NULL, 10);
	stack_open();
	outer();
	stack_say("done");
	stack_wait();
	return 0;
}
