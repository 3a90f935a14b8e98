/* SPDX-License-Identifier: MIT */
/* Inside the stand-in driver: physical memory, for the files that hold references to it. */
#pragma once

#include "libcuda.h"

enum physical_kind {
	PHYSICAL_CREATED,
	PHYSICAL_IMPORTED,  /* another handle's memory */
	PHYSICAL_MULTICAST, /* no memory: others are bound to it */
};

struct physical {
	uint64_t bytes; /* 0 = free place */
	uint64_t serial;
	uint64_t devices; /* multicast: bits of those added */
	int device;	  /* -1: host memory, or not told */
	uint32_t refs, maps, binds;
	uint32_t imports;   /* of it, in this process: the device's bytes go with the last of them */
	uint32_t origin;    /* place of what was imported, PLACE_NONE = of another process */
	uint32_t next_free; /* of a free place */
	enum physical_kind kind;
	bool is_live; /* held by somebody: else only its bytes are, by imports */
	bool may_share;
};

#define PLACE_NONE UINT32_MAX

void vmm_lock(void);
void vmm_unlock(void);
/* With the lock, all of these. A new one with one reference, *what in it; NULL: out of memory. */
struct physical *physical_new(const struct physical *what, uint64_t *ret_handle);
struct physical *physical_of(uint64_t handle);
struct physical *physical_at(uint32_t place);
uint32_t physical_place(const struct physical *p);
/* What is mapped at all of the range; NULL: not one thing. */
struct physical *physical_mapped(uint64_t addr, uint64_t bytes);
/* Ends it if nobody holds it any more. */
void physical_put(struct physical *p);

/* libcuda_multicast.c, with the lock: what is bound to it is let go. */
void multicast_ended(uint32_t place);
