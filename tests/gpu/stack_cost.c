/* SPDX-License-Identifier: MIT */
/*
 * What a pair of cuMemAllocAsync and cuMemFreeAsync costs at the bottom of a stack of N frames, as code is built for
 * use: without frame pointers. stack_cost --frames N [--seconds S]. Prints "native N NS", NS the median over batches.
 */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH 2000
#define BYTES 4096
#define SAMPLES_MAX 100000

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

static double samples[SAMPLES_MAX];

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* Pairs until the time is over. How many samples there are. */
static __attribute__((noinline)) int pairs(double seconds)
{
	double end = now_ns() + seconds * 1e9;
	int n = 0;

	while (n < SAMPLES_MAX && now_ns() < end) {
		double start = now_ns();

		for (int i = 0; i < BATCH; i++) {
			CUdeviceptr p;

			MUST(cuMemAllocAsync(&p, BYTES, NULL));
			MUST(cuMemFreeAsync(p, NULL));
		}
		samples[n++] = (now_ns() - start) / BATCH;
	}
	return n;
}

static __attribute__((noinline)) int down(int frames, double seconds)
{
	int n = frames > 0 ? down(frames - 1, seconds) : pairs(seconds);

	__asm__ volatile("" ::: "memory"); /* no tail call */
	return n;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* A pool that gives its memory back at each synchronisation would be measured instead of the call. */
static void open_device(void)
{
	cuuint64_t keep = ~(cuuint64_t)0;
	CUmemoryPool pool;
	CUcontext ctx;
	CUdevice dev;

	MUST(cuInit(0));
	MUST(cuDeviceGet(&dev, 0));
	MUST(cuDevicePrimaryCtxRetain(&ctx, dev));
	MUST(cuCtxSetCurrent(ctx));
	MUST(cuDeviceGetDefaultMemPool(&pool, dev));
	MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
}

int main(int argc, char **argv)
{
	int frames = 20, n;
	double seconds = 0.5;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--frames"))
			frames = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--seconds"))
			seconds = atof(argv[i + 1]);
	}
	if (frames < 4)
		return 2;
	open_device();
	pairs(0.1); /* the first ones fill the pool */
	n = down(frames - 4, seconds); /* main, pairs, the driver's function, and one more of down's own */
	MUST(cuCtxSynchronize());
	qsort(samples, (size_t)n, sizeof(samples[0]), by_value);
	printf("native %d %.1f\n", frames, samples[n / 2]);
	return 0;
}
