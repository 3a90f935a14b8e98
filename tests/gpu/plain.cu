/* SPDX-License-Identifier: MIT */
/*
 * A plain program on the CUDA runtime: one of each kind of allocation, some freed again, one that fails. Built twice, with
 * the runtime inside and with the shared one. Prints what it holds as one JSON line, then waits for a line on stdin.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define ASK ((size_t)1 << 40)

#define MUST(call)                                                                                                     \
	do {                                                                                                           \
		cudaError_t must_r = (call);                                                                           \
		if (must_r != cudaSuccess) {                                                                           \
			fprintf(stderr, "%s: %d %s\n", #call, (int)must_r, cudaGetErrorString(must_r));                \
			exit(2);                                                                                       \
		}                                                                                                      \
	} while (0)

static size_t device_live, host_live, managed_live;

static void take_device(void)
{
	void *kept, *freed;

	for (size_t i = 1; i <= 3; i++) {
		MUST(cudaMalloc(&kept, i * 10 * MIB + 12345));
		device_live += i * 10 * MIB + 12345;
	}
	MUST(cudaMalloc(&freed, 50 * MIB));
	MUST(cudaFree(freed));
	MUST(cudaFree(NULL));
}

static void take_pitch(void)
{
	size_t pitch;
	void *p;

	MUST(cudaMallocPitch(&p, &pitch, 1000, 777));
	device_live += pitch * 777;
}

static void take_async(void)
{
	void *kept, *freed;

	MUST(cudaMallocAsync(&kept, 7 * MIB + 1, 0));
	device_live += 7 * MIB + 1;
	MUST(cudaMallocAsync(&freed, 9 * MIB, 0));
	MUST(cudaFreeAsync(freed, 0));
	MUST(cudaDeviceSynchronize());
}

static void take_managed_and_host(void)
{
	void *p, *pages;

	MUST(cudaMallocManaged(&p, 16 * MIB));
	managed_live += 16 * MIB;
	MUST(cudaMallocHost(&p, 8 * MIB));
	host_live += 8 * MIB;
	MUST(cudaHostAlloc(&p, 4 * MIB, cudaHostAllocMapped));
	host_live += 4 * MIB;
	MUST(cudaMallocHost(&p, 2 * MIB));
	MUST(cudaFreeHost(p));
	pages = aligned_alloc(4096, MIB);
	if (!pages)
		exit(2);
	memset(pages, 1, MIB);
	MUST(cudaHostRegister(pages, MIB, cudaHostRegisterDefault));
	host_live += MIB;
}

static int fail_once(void)
{
	void *p;
	int r = (int)cudaMalloc(&p, ASK);

	cudaGetLastError();
	return r == (int)cudaErrorMemoryAllocation;
}

int main(int argc, char **argv)
{
	char c;

	MUST(cudaSetDevice(0));
	take_device();
	take_pitch();
	take_async();
	take_managed_and_host();
	if (!fail_once()) {
		fprintf(stderr, "1 TiB was not refused\n");
		return 2;
	}
	printf("{\"name\":\"%s\",\"pid\":%d,\"device_live\":%zu,\"host_live\":%zu,\"managed_live\":%zu,\"fails\":[1,1],"
	       "\"fail_bytes\":%zu,\"fail_functions\":[\"cuMemAlloc_v2\"],\"device_tolerance\":0,\"why\":\"\"}\n",
	       argc > 1 ? argv[1] : "plain", (int)getpid(), device_live, host_live, managed_live, ASK);
	fflush(stdout);
	while (read(0, &c, 1) == 1 && c != '\n')
		;
	return 0;
}
