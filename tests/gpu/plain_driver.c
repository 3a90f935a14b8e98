/* SPDX-License-Identifier: MIT */
/*
 * The driver's interface itself: stream-ordered, pitched, managed, pinned, registered and physical memory, two contexts, a
 * destroyed one and a reset. Prints what it holds as one JSON line, then waits for a line on stdin.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define ASK ((size_t)1 << 40)

static void must(CUresult r, const char *what)
{
	const char *name = NULL;

	if (r == CUDA_SUCCESS)
		return;
	cuGetErrorName(r, &name);
	fprintf(stderr, "%s: %d %s\n", what, (int)r, name ? name : "");
	exit(2);
}
#define MUST(call) must((call), #call)

static size_t device_live, host_live, managed_live;
static int fails;

static void take_device(void)
{
	CUdeviceptr p, freed;
	size_t pitch;

	for (size_t i = 1; i <= 3; i++) {
		MUST(cuMemAlloc(&p, i * 10 * MIB + 12345));
		device_live += i * 10 * MIB + 12345;
	}
	MUST(cuMemAlloc(&freed, 50 * MIB));
	MUST(cuMemFree(freed));
	MUST(cuMemAllocPitch(&p, &pitch, 1000, 777, 4));
	device_live += pitch * 777;
}

static void take_async(CUdevice dev)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev },
	};
	CUmemoryPool pool;
	CUdeviceptr p;

	MUST(cuMemAllocAsync(&p, 7 * MIB + 1, 0));
	device_live += 7 * MIB + 1;
	MUST(cuMemAllocAsync(&p, 9 * MIB, 0));
	MUST(cuMemFreeAsync(p, 0));
	MUST(cuMemPoolCreate(&pool, &props));
	MUST(cuMemAllocFromPoolAsync(&p, 11 * MIB, pool, 0));
	device_live += 11 * MIB;
	MUST(cuMemAllocFromPoolAsync(&p, 3 * MIB, pool, 0));
	MUST(cuMemFreeAsync(p, 0));
	MUST(cuCtxSynchronize());
}

static void take_managed_and_host(void)
{
	CUdeviceptr m;
	void *p, *pages = aligned_alloc(4096, MIB);

	MUST(cuMemAllocManaged(&m, 16 * MIB, CU_MEM_ATTACH_GLOBAL));
	managed_live += 16 * MIB;
	MUST(cuMemHostAlloc(&p, 8 * MIB, 0));
	host_live += 8 * MIB;
	MUST(cuMemAllocHost(&p, 4 * MIB));
	host_live += 4 * MIB;
	MUST(cuMemAllocHost(&p, 2 * MIB));
	MUST(cuMemFreeHost(p));
	if (!pages)
		exit(2);
	memset(pages, 1, MIB);
	MUST(cuMemHostRegister(pages, MIB, 0));
	host_live += MIB;
}

/* Physical memory lives until it is both released and unmapped: four of six handles are left. */
static void take_physical(CUdevice dev)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev },
	};
	CUmemAccessDesc access = { .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle h[6], again;
	size_t granularity, bytes;
	CUdeviceptr va;

	MUST(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	bytes = (6 * MIB + granularity - 1) / granularity * granularity;
	MUST(cuMemAddressReserve(&va, 64 * bytes, 0, 0, 0));
	for (size_t i = 0; i < 6; i++)
		MUST(cuMemCreate(&h[i], bytes, &prop, 0));
	for (size_t i = 0; i < 5; i++) { /* the last is never mapped */
		MUST(cuMemMap(va + i * bytes, bytes, 0, h[i], 0));
		MUST(cuMemSetAccess(va + i * bytes, bytes, &access, 1));
	}
	MUST(cuMemRelease(h[0])); /* still mapped */
	MUST(cuMemUnmap(va + bytes, bytes)); /* still held */
	MUST(cuMemUnmap(va + 2 * bytes, bytes)); /* gone */
	MUST(cuMemRelease(h[2]));
	MUST(cuMemRelease(h[3])); /* gone, the other way round */
	MUST(cuMemUnmap(va + 3 * bytes, bytes));
	MUST(cuMemRetainAllocationHandle(&again, (void *)(va + 4 * bytes))); /* held twice: one less leaves it */
	MUST(cuMemRelease(again));
	device_live += 4 * bytes;
}

static void contexts(CUdevice dev)
{
	CUcontext lasting, passing, primary;
	CUdeviceptr p;

	MUST(cuCtxCreate(&lasting, NULL, 0, dev));
	MUST(cuMemAlloc(&p, 5 * MIB));
	device_live += 5 * MIB;
	MUST(cuCtxCreate(&passing, NULL, 0, dev));
	MUST(cuMemAlloc(&p, 32 * MIB)); /* goes with its context */
	MUST(cuCtxDestroy(passing));
	MUST(cuDevicePrimaryCtxRetain(&primary, dev));
	MUST(cuCtxSetCurrent(primary));
	MUST(cuMemAlloc(&p, 33 * MIB)); /* goes with the reset */
	MUST(cuDevicePrimaryCtxReset(dev));
	MUST(cuCtxSetCurrent(lasting));
}

static void refused(CUresult r, const char *what)
{
	if (r != CUDA_ERROR_OUT_OF_MEMORY) {
		fprintf(stderr, "%s: not refused with 2 but %d\n", what, (int)r);
		exit(2);
	}
	fails++;
}

int main(void)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemGenericAllocationHandle h;
	CUcontext primary;
	CUdeviceptr p;
	CUdevice dev;
	CUuuid uuid;
	char c;

	MUST(cuInit(0));
	MUST(cuDeviceGet(&dev, 0));
	MUST(cuDeviceGetUuid(&uuid, dev));
	contexts(dev);
	MUST(cuDevicePrimaryCtxRetain(&primary, dev));
	MUST(cuCtxSetCurrent(primary));
	take_device();
	take_async(dev);
	take_managed_and_host();
	take_physical(dev);
	refused(cuMemAlloc(&p, ASK), "cuMemAlloc");
	refused(cuMemAllocAsync(&p, ASK, 0), "cuMemAllocAsync");
	refused(cuMemCreate(&h, ASK, &prop, 0), "cuMemCreate");
	printf("{\"name\":\"plain_driver\",\"pid\":%d,\"device_live\":%zu,\"host_live\":%zu,\"managed_live\":%zu,"
	       "\"fails\":[%d,%d],\"fail_bytes\":%zu,\"fail_functions\":[\"cuMemAlloc_v2\",\"cuMemAllocAsync\",\"cuMemCreate\"],"
	       "\"device_tolerance\":0,\"why\":\"\"}\n",
	       (int)getpid(), device_live, host_live, managed_live, fails, fails, ASK);
	fflush(stdout);
	while (read(0, &c, 1) == 1 && c != '\n')
		;
	return 0;
}
