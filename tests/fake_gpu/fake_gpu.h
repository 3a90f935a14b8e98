/* SPDX-License-Identifier: MIT */
/*
 * What the stand-in driver, the stand-in NVML and the workloads agree on.
 *
 * Environment: FAKE_GPU_COUNT (2), FAKE_GPU_BYTES (17179869184) of each device, FAKE_GPU_CONTEXT_BYTES (0) that a process
 * seems to hold on each device where it has a context, FAKE_GPU_SM (none) its share of the multiprocessors in percent,
 * FAKE_GPU_STATE (/dev/shm/fake-gpu-<uid>) the file through which
 * processes and NVML see each other, CUDA_VISIBLE_DEVICES as the real driver reads it (indices or uuids).
 */
#pragma once

#include <stdint.h>

#define FAKE_GPU_MAX 8
/* Of a program's addresses, as the kernel gives them out. */
#if defined(__aarch64__)
#define USER_ADDRESS_BITS 48
#else
#define USER_ADDRESS_BITS 47
#endif
#define FAKE_GPU_SLOTS 1024
#define FAKE_GPU_CLASSES 9 /* as enum mem_class in bpf/event.h */

/* Totals of this process as the stand-in itself has them, counted from its own tables of live blocks. */
struct fake_gpu_totals {
	uint64_t live_bytes[FAKE_GPU_CLASSES], live_count[FAKE_GPU_CLASSES];
	uint64_t device_bytes[FAKE_GPU_MAX]; /* by the process's own ordinal; the device classes */
	uint64_t alloc_count; /* imports too, and the blocks that a graph's launch makes */
	uint64_t fail_count;
	uint64_t free_count;	  /* blocks that ended, swept ones included */
	uint64_t swept_count;	  /* ... of them by a context's end */
	uint64_t free_fail_count; /* frees that were refused: double, or of nothing */
	uint64_t calls;		  /* allocation and free calls of all kinds, failed ones included */
};
__attribute__((visibility("default"))) void fake_gpu_totals(struct fake_gpu_totals *ret);

/* One process; several when a process has several copies of the library. Bytes change by atomic adds. */
struct fake_gpu_slot {
	uint32_t pid; /* 0 = free */
	uint32_t image; /* differs after exec */
	uint64_t start_ticks;
	uint64_t used_bytes[FAKE_GPU_MAX]; /* by physical index */
	uint32_t contexts[FAKE_GPU_MAX];
	uint64_t context_bytes;
};

#define FAKE_GPU_MAGIC 0x31757067656b6166ull

struct fake_gpu_state {
	uint64_t magic;
	struct fake_gpu_slot slots[FAKE_GPU_SLOTS];
	uint32_t sm[FAKE_GPU_SLOTS]; /* of each slot's process: FAKE_GPU_SM and 1; 0 = it has not said */
};

/* state.c, compiled into both libraries */
struct fake_gpu_state *state_map(void); /* NULL when the file cannot be had */
uint64_t state_start_ticks(uint32_t pid); /* 0: no such process */
/* Zeroed slot of this process, a private one when the file cannot be had. NULL: out of memory. */
struct fake_gpu_slot *state_claim(void);
int state_device_count(void);
uint64_t state_device_bytes(void);
uint64_t state_env(const char *name, uint64_t otherwise);
/*
 * Figures that may change while everything runs: "busy=37 milliwatts.1=250000", words between blanks, newlines or commas,
 * in the file with the state file's name and ".figures" behind it, and then in the environment, FAKE_NVML_FIGURES. The
 * first to have the name counts. The first call: "NAME.INDEX", else "NAME".
 */
uint64_t state_figure(const char *name, int index, uint64_t otherwise);
uint64_t state_figure_named(const char *name, uint64_t otherwise);
void state_uuid(int index, uint8_t ret[16]);
void state_uuid_text(int index, char ret[41]); /* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" */
