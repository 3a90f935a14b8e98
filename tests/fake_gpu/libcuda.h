/* SPDX-License-Identifier: MIT */
/* Inside the stand-in driver. */
#pragma once

#include <stdbool.h>

#include "../../bpf/event.h"
#include "cuda_api.h"
#include "fake_gpu.h"

#define CONTEXT_MAX (FAKE_GPU_MAX + 512) /* primary contexts come first, one a device */
#define GRANULARITY (2ull << 20)	 /* of physical memory */

/* Errors that only this library names. */
enum {
	ERROR_NO_DEVICE = 100,
	ERROR_INVALID_HANDLE = 400,
	ERROR_ILLEGAL_STATE = 401,
	ERROR_CAPTURE_UNSUPPORTED = 900,
	ERROR_CAPTURE_INVALIDATED = 901,
	ERROR_CAPTURE_UNMATCHED = 903,
	ERROR_CAPTURE_UNJOINED = 904,
};

struct CUctx_st {
	uint32_t id;	/* index + 1 */
	uint32_t owner; /* id that its blocks go with: that of the primary context for a green one */
	int device;	/* ordinal */
	int refs;	/* retained or attached so often */
	bool is_alive;
	bool is_green, is_used; /* is_used: was alive once */
};

/* libcuda.c */
CUresult driver_ready(void);
bool device_is_valid(CUdevice dev);
/* Device-class bytes of this process; pools give back what they do not use when there is no room otherwise. */
bool device_charge(int device, uint64_t bytes);
bool device_charge_plain(int device, uint64_t bytes); /* ... they do not */
void device_uncharge(int device, uint64_t bytes);
void device_context_count(int device, int change);
int device_physical(int device); /* index of the ordinal; both -1 for none */
int device_ordinal(int index);
/* 0, CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_DEVICE */
CUresult device_check(CUdevice dev, const volatile void *out);
/* An address that can be written without a look at it: user half, not in the first pages. The real driver would crash. */
bool out_is_plausible(const volatile void *p);

/* libcuda_context.c */
void contexts_init(void);
/* 0 and the thread's current context, or the error to return: not initialised, forked, no or a destroyed context. */
CUresult context_current(struct CUctx_st **ret);

/* libcuda_block.c: live blocks by pointer */
enum block_kind { /* what ends it */
	BLOCK_POINTER,	  /* cuMemFree, cuMemFreeAsync */
	BLOCK_SYNC,	  /* cuMemFree only */
	BLOCK_HOST,
	BLOCK_REGISTERED,
	BLOCK_ARRAY,
	BLOCK_MIPMAP,
	BLOCK_EXTERNAL,
	BLOCK_IPC,
	BLOCK_GRAPH,	  /* as BLOCK_POINTER, or a graph's launch */
};
#define KIND(kind) (1u << (kind))

struct block {
	uint64_t addr; /* 0 = empty place of the table */
	uint64_t bytes;
	uint64_t serial; /* no other block of this process has it */
	uint32_t owner;	 /* id of the context it goes with, 0 = none */
	uint32_t refs;	 /* each counts as a block */
	uint8_t class;
	uint8_t kind;
	int8_t device; /* -1: none */
	uint8_t order; /* log2 of the address space it takes; 0: not ours to hand out again */
	uint16_t pool; /* index + 1, 0 = none */
};
/*
 * 0 with *ret_addr, or CUDA_ERROR_OUT_OF_MEMORY. what: class, kind, bytes, device, owner, pool. low: below 4 GiB. Counts
 * itself, failures too.
 */
CUresult block_new(const struct block *what, bool low, uint64_t *ret_addr);
/* The same for memory that has an address already and costs no device bytes. taken: the error when it is in the table. */
CUresult block_adopt(const struct block *what, CUresult taken);
/* Ends the block at addr, or one reference to it, if its kind is in the mask, else returns missing. */
CUresult block_end(uint64_t addr, uint32_t kinds, CUresult missing);
/* One more reference to it, counted as an allocation, if it is still that block. */
bool block_ref(uint64_t addr, uint64_t serial);
bool block_find(uint64_t addr, struct block *ret);
bool block_find_within(uint64_t addr, struct block *ret); /* slow */
/* In and out of the table, with no count and no charge. */
bool block_put(const struct block *b);
bool block_take(uint64_t addr, uint32_t kinds, struct block *ret);
/* Everything that goes with the context ends. */
void block_sweep(uint32_t owner);
void block_count_fail(void);
void block_count_free_fail(void);
void block_count_alloc(void);
void block_count_free(void);
void block_totals(struct fake_gpu_totals *t);
unsigned int block_order(uint64_t bytes); /* log2 of the address space for so many */
/* Counts a failed allocation; returns the error. */
CUresult fail(CUresult error);

/* libcuda_mem.c */
/* Memory that goes with the thread's context. */
CUresult alloc_here(unsigned int class, enum block_kind kind, uint64_t *ret_addr, uint64_t bytes);
CUresult free_here(uint64_t addr, uint32_t kinds, CUresult missing);

/* libcuda_array.c: 0 with the bytes, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY (more than can be said) */
CUresult array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels, uint64_t *ret);

/* libcuda_pool.c */
bool pool_take(uint16_t pool, uint64_t bytes);
void pool_give(uint16_t pool, uint64_t bytes);
void pool_reclaim(int device);
void pools_synchronize(void);
/* Number of the block's pool, if others were given that pool; of an imported pool, the same number. */
CUresult pool_of_block(uint16_t pool, uint64_t *ret_serial);
CUresult pool_imported(CUmemoryPool pool, uint64_t *ret_serial, int *ret_device);

/* libcuda_import.c: what the file descriptors that stand for memory carry */
enum token_kind { TOKEN_PHYSICAL = 1, TOKEN_POOL, TOKEN_POINTER, TOKEN_IPC };
struct token { /* 64 bytes, as handles have */
	uint64_t magic;
	uint32_t kind;
	int32_t pid;
	uint64_t place, serial, pool, bytes, start;
	int32_t device; /* physical index, -1 = host */
	uint32_t number;
};
void token_init(struct token *t, enum token_kind kind, int device);
int token_export(const struct token *t); /* a new file descriptor, -1 = none to be had */
bool token_import(int fd, enum token_kind kind, struct token *ret);
bool token_is_own(const struct token *t);

/* libcuda_vmm.c */
void vmm_totals(struct fake_gpu_totals *t);

/* libcuda_stream.c */
/* 0, or ERROR_INVALID_HANDLE */
CUresult stream_check(CUstream stream);
/* Is it part of a capture now? */
bool stream_captures(CUstream stream);
/* 0 if not, or the error of a call that cannot be captured, and the capture is spoilt. */
CUresult stream_uncaptured(CUstream stream);
CUresult capture_alloc(CUstream stream, uint64_t bytes, int device, uint64_t *ret_addr);
CUresult capture_free(CUstream stream, uint64_t addr);
/* A call that a capture in global mode does not allow anywhere: the error, and the capture is spoilt. */
CUresult capture_forbids(void);

/* libcuda_graph.c: the functions of graphs and captures share its lock */
struct graph;
void graph_lock(void);
void graph_unlock(void);
struct graph *graph_new(CUgraph *ret); /* NULL: out of memory */
struct graph *graph_find(CUgraph handle);
void graph_end(CUgraph handle);
CUresult graph_add_alloc(struct graph *g, uint64_t bytes, int device, bool reuses, uint64_t *ret_addr);
CUresult graph_add_free(struct graph *g, uint64_t addr);
void graph_block_ended(uint64_t addr); /* without the lock */

/* libcuda_range.c: addresses for graphs, with that lock */
/* With one reference; 0: no room. */
uint64_t range_reserve(unsigned int order);
/* log2 of the size of the range that begins there, 0 = none does. */
unsigned int range_order(uint64_t addr);
void range_hold(uint64_t addr);
void range_put(uint64_t addr);
/* The array with room for one more, or NULL; the old one stays good. */
void *array_grow(void *array, size_t array_len, size_t size, size_t *array_cap);
