/* SPDX-License-Identifier: MIT */
/* What the stand-in for PyTorch's caching allocator exports for the workload: ways to the functions that are probed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "fake_gpu.h"

#define C10_SEGMENT_BYTES (20u << 20)
#define C10_SEGMENTS_MAX 512

struct c10_stats {
	uint64_t tensor_bytes, tensor_count;   /* out of its own list */
	uint64_t segment_bytes, segment_count; /* that it holds from the driver, by calls that it made itself */
	uint64_t segment_allocs, segment_frees, segment_fails;
	uint64_t device_bytes[FAKE_GPU_MAX]; /* of the segments */
	uint64_t throws;
};

/* NULL where the device has no more: the real one throws an exception then, and this one unwinds the stack as well. */
void *c10_allocate(int device, size_t bytes);	/* a tensor: malloc() */
void *c10_raw_alloc(int device, size_t bytes);	/* by a function that calls malloc() within */
void c10_delete_tensor(void *p);		/* the deleter, which has free() within itself */
void c10_raw_delete(void *p);			/* by a function that calls free() */
void c10_free(void *p);				/* free() itself */
void c10_empty_cache(void);			/* gives segments without tensors back to the driver */
void c10_stats(struct c10_stats *ret);
