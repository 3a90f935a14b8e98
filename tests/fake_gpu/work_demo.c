/* SPDX-License-Identifier: MIT */
/*
 * A program that behaves like a small training job: it loads 64 MiB of weights, uses 24 MiB of scratch memory in each step
 * and gives it back, evaluates now and then, asks once for more than the device has, and keeps 8 MiB a second that it
 * should have let go. Nothing is freed at the end: the process exits with what it holds.
 */
#include <inttypes.h>
#include <time.h>

#include "gpu.h"

#define MIB (1ull << 20)
#define STEPS_PER_SEC 4
#define LEAK_PER_STEP (8 * MIB / STEPS_PER_SEC)
#define LAYERS 4

struct model {
	struct ledger books;
	CUdeviceptr weights[8];
	uint64_t step;
};

static FRAME CUdeviceptr tensor_empty(struct model *m, uint64_t bytes)
{
	CUdeviceptr p = 0;

	if (cuMemAlloc_v2(&p, bytes))
		m->books.fail_count++;
	else
		ledger_alloc(&m->books, CLASS_DEVICE, bytes, 0);
	KEEP_FRAME();
	return p;
}

static FRAME void tensor_release(struct model *m, CUdeviceptr p, uint64_t bytes)
{
	MUST(cuMemFree_v2(p));
	ledger_free(&m->books, CLASS_DEVICE, bytes, 0);
	KEEP_FRAME();
}

static FRAME void load_shard(struct model *m, int i)
{
	m->weights[i] = tensor_empty(m, 8 * MIB);
	KEEP_FRAME();
}

static FRAME void load_model(struct model *m)
{
	for (int i = 0; i < 8; i++)
		load_shard(m, i);
	KEEP_FRAME();
}

/* The leak: the activation is kept for a backward pass that never asks for it. */
static FRAME void save_activation(struct model *m, uint64_t bytes)
{
	tensor_empty(m, bytes);
	KEEP_FRAME();
}

static FRAME void attention_forward(struct model *m, int layer)
{
	CUdeviceptr scratch = tensor_empty(m, 6 * MIB);

	if (layer == LAYERS - 1)
		save_activation(m, LEAK_PER_STEP);
	tensor_release(m, scratch, 6 * MIB);
	KEEP_FRAME();
}

static FRAME void forward(struct model *m)
{
	for (int layer = 0; layer < LAYERS; layer++)
		attention_forward(m, layer);
	KEEP_FRAME();
}

static FRAME void backward(struct model *m)
{
	CUdeviceptr gradients = tensor_empty(m, 24 * MIB);

	tensor_release(m, gradients, 24 * MIB);
	KEEP_FRAME();
}

static FRAME void train_step(struct model *m)
{
	forward(m);
	backward(m);
	m->step++;
	KEEP_FRAME();
}

/* Somebody forgot that the logits of the whole validation set do not fit. */
static FRAME void gather_logits(struct model *m)
{
	size_t free_bytes, total_bytes;

	MUST(cuMemGetInfo_v2(&free_bytes, &total_bytes));
	tensor_empty(m, total_bytes + 4096 * MIB);
	KEEP_FRAME();
}

static FRAME void evaluate(struct model *m)
{
	gather_logits(m);
	KEEP_FRAME();
}

static FRAME void train(struct model *m, uint64_t seconds)
{
	uint64_t start = monotonic_ns(), steps = seconds * STEPS_PER_SEC;

	while (m->step < steps) {
		uint64_t due = start + m->step * (1000000000u / STEPS_PER_SEC);
		struct timespec ts = { .tv_sec = (time_t)(due / 1000000000u), .tv_nsec = (long)(due % 1000000000u) };

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
		train_step(m);
		if (m->step == steps / 4)
			evaluate(m);
		if (m->step % (5 * STEPS_PER_SEC) == 0)
			fprintf(stderr, "step %" PRIu64 ", loss %.3f\n", m->step, 2.5 / (1.0 + 0.01 * (double)m->step));
	}
	KEEP_FRAME();
}

int main(int argc, char **argv)
{
	static struct model m;
	uint64_t seconds = 40;
	const struct option_spec specs[] = { { "--seconds", OPTION_NUMBER, &seconds }, { 0 } };

	options_parse(argc, argv, specs);
	common_start();
	gpu_open(&m.books);
	load_model(&m);
	train(&m, seconds);
	return common_end(&m.books, NULL);
}
