/* SPDX-License-Identifier: MIT */
/* Plain CUDA C++, -O2: leak_cuda cuda-churn|cuda-forgotten tune|held, started by leaks.py. */
#include <cuda_runtime.h>

#include "leak_run.h"

#define PLACES 48

static uint64_t live;

static void must(cudaError_t r, const char *what)
{
	if (r == cudaSuccess)
		return;
	fprintf(stderr, "%s: %d %s\n", what, (int)r, cudaGetErrorString(r));
	exit(2);
}

RUN_FRAME static void *take(size_t bytes)
{
	void *p = NULL;

	must(cudaMalloc(&p, bytes), "cudaMalloc");
	must(cudaMemset(p, 1, bytes), "cudaMemset");
	live += bytes;
	RUN_KEEP_FRAME();
	return p;
}

static void give(void *p, size_t bytes)
{
	must(cudaFree(p), "cudaFree");
	live -= bytes;
}

static size_t random_bytes(struct run *r, double least_mib, double most_mib)
{
	return (size_t)((least_mib + run_unit(r) * (most_mib - least_mib)) * (double)RUN_MIB);
}

/* Each request has two buffers; where its header is bad it returns early, and one of them is forgotten. */
RUN_FRAME static size_t decode_request(struct run *r, int bad)
{
	size_t input = random_bytes(r, 2, 8), output = random_bytes(r, 4, 10);
	void *in = take(input), *out = take(output);

	give(in, input);
	if (bad)
		return output;
	give(out, output);
	RUN_KEEP_FRAME();
	return 0;
}

struct canvas {
	void *pixels;
	size_t bytes;
};

/* Copies to a larger one and forgets the smaller one, if so asked. In order of a stream. */
RUN_FRAME static size_t grow_canvas(struct canvas *c, size_t bytes, int forget)
{
	void *p = NULL;
	size_t lost = 0;

	must(cudaMallocAsync(&p, bytes, 0), "cudaMallocAsync");
	must(cudaMemsetAsync(p, 1, bytes, 0), "cudaMemsetAsync");
	if (c->pixels && forget)
		lost = c->bytes;
	else if (c->pixels)
		must(cudaFreeAsync(c->pixels, 0), "cudaFreeAsync");
	live += bytes - (lost ? 0 : c->bytes);
	c->pixels = p;
	c->bytes = bytes;
	RUN_KEEP_FRAME();
	return lost;
}

static void forgotten(struct run *r)
{
	struct canvas canvas = {};
	int leaking;

	while (run_step(r, r->held ? 0.8 : 0.6)) {
		leaking = run_leaking(r, r->held ? 75 : 30);
		if (r->held)
			run_lost(r, grow_canvas(&canvas, random_bytes(r, 0.5, 3), leaking && run_unit(r) < 0.5));
		else
			run_lost(r, decode_request(r, leaking && run_unit(r) < 0.2));
	}
}

/* Blocks of random sizes and lives; in the held set their number follows a slow rise and fall. */
static void churn(struct run *r)
{
	void *blocks[PLACES] = {};
	size_t bytes[PLACES] = {};

	while (run_step(r, r->held ? 0.45 : 0.5)) {
		double t = (run_now() - r->go) / (r->until - r->go) * 3.0;
		double wave = t - (int)t;
		int places = !r->held ? PLACES : 4 + (int)((PLACES - 5) * (wave < 0.5 ? wave : 1.0 - wave) * 2.0);
		int i = (int)(run_unit(r) * (r->held ? PLACES : places));

		if (blocks[i])
			give(blocks[i], bytes[i]);
		blocks[i] = NULL;
		bytes[i] = 0;
		if (i >= places)
			continue;
		bytes[i] = random_bytes(r, 1, r->held ? 20 : 32);
		blocks[i] = take(bytes[i]);
	}
}

int main(int argc, char **argv)
{
	struct run r;

	run_open(&r, argc, argv);
	must(cudaSetDevice(0), "cudaSetDevice");
	must(cudaFree(NULL), "cudaFree");
	run_ready(&r);
	if (!strcmp(r.name, "cuda-churn"))
		churn(&r);
	else
		forgotten(&r);
	must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	run_mark(&r, "live", "device", live);
	run_end(&r);
}
