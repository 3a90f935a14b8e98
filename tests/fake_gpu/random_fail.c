/* SPDX-License-Identifier: MIT */
/* Calls that must fail, each in its own way. */
#include <string.h>

#include "random_ops.h"

static CUresult fail_array(struct worker *w)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 1ull << 40, .Height = 1ull << 20, .Format = 0x20, .NumChannels = 4 };
	CUarray a;

	if (below(w, 2)) {
		d.Width = 100;
		d.Height = 100;
		d.Format = 0x77; /* no such format */
	}
	return cuArray3DCreate_v2(&a, &d);
}

/* These a real driver may not survive. */
static CUresult fail_wild(struct worker *w)
{
	CUmemGenericAllocationHandle h;
	CUDA_ARRAY_DESCRIPTOR d2 = { .Format = 0x20, .NumChannels = 1 };
	CUipcMemHandle ipc;
	CUarray a;
	CUdeviceptr p;

	switch (below(w, 8)) {
	case 0:
		return cuArrayCreate_v2(&a, NULL);
	case 1:
		return cuArrayCreate_v2(&a, &d2); /* no width */
	case 2:
		return cuMemHostAlloc(NULL, 4096, 0);
	case 3:
		return cuMemHostRegister_v2(NULL, 4096, 0);
	case 4:
		return cuMemAllocManaged(&p, 4096, 77);
	case 5:
		return cuMemCreate(&h, 2 * MIB, NULL, 0);
	case 6:
		memset(&ipc, (int)below(w, 256), sizeof(ipc));
		return below(w, 2) ? cuIpcOpenMemHandle_v2(&p, ipc, 1) : cuIpcOpenMemHandle(&p, ipc, 1);
	default:
		return cuMemAllocFromPoolAsync(&p, 4096, (CUmemoryPool)(uintptr_t)(below(w, 1 << 20) | 1), NULL);
	}
}

void alloc_fails(struct worker *w)
{
	CUmemGenericAllocationHandle h;
	size_t pitch;
	CUdeviceptr p;
	void *host;
	CUresult r;

	switch (below(w, is_real ? 10 : 14)) {
	case 0:
		r = cuMemAlloc_v2(&p, (64ull << 40) + below(w, MIB));
		break;
	case 1:
		r = cuMemAlloc_v2(&p, 0);
		break;
	case 2:
		r = cuMemAllocAsync(&p, (64ull << 40) + below(w, MIB), NULL);
		break;
	case 3:
		r = physical_create(2ull << 40, 0, false, &h);
		break;
	case 4:
		r = physical_create(2 * MIB, 99, false, &h);
		break;
	case 5:
		r = cuMemAllocPitch_v2(&p, &pitch, 1ull << 40, 1ull << 40, 4);
		break;
	case 6:
		r = cuMemAlloc_v2(NULL, 4096);
		break;
	case 7:
		r = cuMemHostAlloc(&host, 1ull << 50, 0);
		break;
	case 8:
		r = fail_array(w);
		break;
	case 9:
		r = cuMemAllocFromPoolAsync(&p, 1ull << 50, default_pools[0], NULL);
		break;
	default:
		r = fail_wild(w);
	}
	if (!r)
		die("an allocation that should fail succeeded");
	books_fail();
}

/* Frees of what was never handed out: a driver's addresses are multiples of 256 at least. */
void free_nothing(struct worker *w)
{
	uint64_t addr = (random_next(&w->rng) >> 17) | 1;
	CUresult r;

	switch (below(w, is_real ? 3 : 8)) {
	case 0:
		MUST(cuMemFree_v2(0));
		books_null_free();
		return;
	case 1:
		r = cuMemFree_v2(addr);
		break;
	case 2:
		r = cuMemHostUnregister((void *)(uintptr_t)addr);
		break;
	case 3:
		r = cuMemFreeHost((void *)(uintptr_t)addr);
		break;
	case 4:
		r = cuMemFreeAsync(addr, NULL);
		break;
	case 5:
		r = cuMemRelease(addr);
		break;
	case 6:
		r = cuArrayDestroy((CUarray)(uintptr_t)addr);
		break;
	default:
		r = cuIpcCloseMemHandle(addr);
	}
	if (!r)
		die("a free of nothing succeeded");
	books_free_fail();
}
