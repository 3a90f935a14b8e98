/* SPDX-License-Identifier: MIT */
/* Inside the stand-in driver. */
#pragma once

#include <stdbool.h>

#include "../../bpf/event.h"
#include "cuda_api.h"
#include "fake_gpu.h"

#define CONTEXT_MAX (FAKE_GPU_MAX + 512) /* primary contexts come first, one a device */
#define POOL_MAX (FAKE_GPU_MAX + 256)	 /* likewise the default pools */
#define GRANULARITY (2ull << 20)	 /* of physical memory */

struct CUctx_st {
	uint32_t id; /* index + 1; owner of blocks */
	int device;  /* ordinal */
	int refs;    /* of a primary context */
	bool is_alive;
};

struct CUmemPoolHandle_st {
	int device;
	bool is_alive;
};

/* libcuda.c */
/* 0 and the thread's current context, or the error to return: not initialised, forked, no or a destroyed context. */
CUresult context_current(struct CUctx_st **ret);
CUresult driver_ready(void);
bool device_is_valid(CUdevice dev);
/* Device-class bytes of this process. Fails when the device would be over-full. */
bool device_charge(int device, uint64_t bytes);
void device_uncharge(int device, uint64_t bytes);
/* An address that can be written without a look at it: user half, not in the first pages. The real driver would crash. */
bool out_is_plausible(const volatile void *p);

/* libcuda_block.c: live blocks by pointer */
struct block {
	uint64_t addr; /* 0 = empty place of the table */
	uint64_t bytes;
	uint32_t owner; /* id of the context it goes with, 0 = none */
	uint8_t class;
	int8_t device;
	uint8_t order; /* log2 of the address space it takes; 0: not ours to hand out again */
};
/* 0 with *ret_addr, or CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY. Counts itself, failures too. */
CUresult block_new(unsigned int class, uint64_t bytes, int device, uint32_t owner, uint64_t *ret_addr);
/* The same for memory that has an address already. taken: the error when it is in the table. */
CUresult block_adopt(unsigned int class, uint64_t addr, uint64_t bytes, int device, uint32_t owner, CUresult taken);
/* Ends the block at addr if its class is in the mask, else returns missing. */
CUresult block_end(uint64_t addr, uint32_t class_mask, CUresult missing);
bool block_find(uint64_t addr, struct block *ret);
/* Everything that goes with the context ends. */
void block_sweep(uint32_t owner);
void block_count_fail(void);
void block_count_free_fail(void);
void block_count_alloc(void);
void block_count_free(void);
void block_totals(struct fake_gpu_totals *t);

/* libcuda_vmm.c */
void vmm_totals(struct fake_gpu_totals *t);
