/* SPDX-License-Identifier: MIT */
/* What the two halves of the stand-in for HIP share: blocks, and what is charged for them. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "../../bpf/event.h"
#include "fake_gpu.h"
#include "hip_api.h"

#define BLOCKS 16384u
#define POOLS 64
#define NODES 8
#define CLASS_RESERVED 0x80 /* a graph's block before its launch */

struct fake_block {
	uint64_t addr, bytes;
	uint32_t refs, maps; /* of a handle */
	uint8_t class;
	int8_t device;
	bool is_used;
};

struct fake_pool {
	int device; /* default pools come first */
	bool is_alive;
	uint64_t threshold;
};

struct fake_graph {
	struct {
		struct fake_block *block;
		bool is_free;
	} nodes[NODES];
	unsigned int count;
};

struct fake_stream {
	struct fake_graph *capture;
};

struct fake_device {
	uint64_t used;
	struct fake_pool *pool;
};

#define MASK(class) (1u << (class))
#define END(p, mask, missing) end_at((uint64_t)(uintptr_t)(p), mask, missing)

extern pthread_mutex_t lock; /* of all below, but current */
extern struct fake_device devices[FAKE_GPU_MAX];
extern struct fake_gpu_totals totals;
extern int device_count;
extern __thread int current; /* device */

/* Count a failed allocation, a refused free, and return the error. */
hipError_t fail(hipError_t error);
hipError_t refuse(hipError_t error);

/* With the lock held. */
struct fake_block *block_take(void); /* an address, no memory yet; NULL = none left */
void block_give(struct fake_block *b);
struct fake_block *block_at(uint64_t addr);
bool block_live(struct fake_block *b); /* false: the device is full */
void block_end(struct fake_block *b);

/* Without. at: the address if it is given; what is returned: the block itself, or its address. */
hipError_t make(unsigned int class, uint64_t bytes, int device, uint64_t at, void *ret_handle, void *ret_addr);
hipError_t end_at(uint64_t addr, uint32_t mask, hipError_t missing);
