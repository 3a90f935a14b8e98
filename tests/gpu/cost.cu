/* SPDX-License-Identifier: MIT */
/*
 * What a pair of an allocation and a free costs: cudaMalloc/cudaFree and cudaMallocAsync/cudaFreeAsync, 64 bytes to 4 MiB.
 * Prints "CALL BYTES NS" for each, NS the median over batches of the mean time of a pair. --seconds S for each line (0.2).
 */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

static void must(cudaError_t r, const char *what)
{
	if (r == cudaSuccess)
		return;
	fprintf(stderr, "%s: %d %s\n", what, (int)r, cudaGetErrorString(r));
	exit(2);
}

static double now_ns()
{
	using namespace std::chrono;
	return (double)duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

static void pair_plain(size_t bytes)
{
	void *p;

	must(cudaMalloc(&p, bytes), "cudaMalloc");
	must(cudaFree(p), "cudaFree");
}

static void pair_async(size_t bytes)
{
	void *p;

	must(cudaMallocAsync(&p, bytes, 0), "cudaMallocAsync");
	must(cudaFreeAsync(p, 0), "cudaFreeAsync");
}

static void measure(const char *name, void (*pair)(size_t), size_t bytes, int batch, double seconds)
{
	std::vector<double> samples;
	double end;

	for (int i = 0; i < batch; i++)
		pair(bytes); /* the first ones fill pools */
	must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	end = now_ns() + seconds * 1e9;
	do {
		double start = now_ns();

		for (int i = 0; i < batch; i++)
			pair(bytes);
		samples.push_back((now_ns() - start) / batch);
	} while (now_ns() < end);
	must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	std::nth_element(samples.begin(), samples.begin() + samples.size() / 2, samples.end());
	printf("%s %zu %.1f\n", name, bytes, samples[samples.size() / 2]);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = { 64, 4096, 65536, 1 << 20, 4 << 20 };
	double seconds = argc == 3 && !strcmp(argv[1], "--seconds") ? atof(argv[2]) : 0.2;
	unsigned long long keep = ~0ull;
	cudaMemPool_t pool;

	must(cudaSetDevice(0), "cudaSetDevice");
	/* A pool that gives its memory back at each synchronisation would be measured instead of the call. */
	must(cudaDeviceGetDefaultMemPool(&pool, 0), "cudaDeviceGetDefaultMemPool");
	must(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep), "cudaMemPoolSetAttribute");
	for (size_t bytes : sizes)
		measure("malloc", pair_plain, bytes, 50, seconds);
	for (size_t bytes : sizes)
		measure("async", pair_async, bytes, 2000, seconds);
	return 0;
}
