/* SPDX-License-Identifier: MIT */
/* What the workloads share: options, the ledger each keeps of its own calls, and how it is printed. No driver call. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../bpf/event.h"
#include "fake_gpu.h"

/* A function that keeps its name and a frame of its own; KEEP_FRAME() after its last call prevents a tail call. */
#if defined(__has_attribute) && __has_attribute(noclone)
#define FRAME __attribute__((noinline, noclone))
#else
#define FRAME __attribute__((noinline))
#endif
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

enum option_kind {
	OPTION_FLAG,   /* bool */
	OPTION_NUMBER, /* uint64_t, also as 8KiB, 2MiB, 1GiB */
	OPTION_TEXT,   /* const char * */
};

struct option_spec {
	const char *name; /* "--seed"; NULL ends the table */
	enum option_kind kind;
	void *value;
};

/*
 * Options all workloads know: --wait-start prints {"ready":1,"pid":N} and waits for a line on stdin before the first call
 * of the driver; --wait-end waits for one before the end; --ledger prints the ledger before that; --name sets comm.
 */
struct common_options {
	bool wait_start, wait_end, ledger;
	const char *name;
};
extern struct common_options common;

/* Exits 2 on an unknown option. Returns how many arguments without -- came first (their places are argv[1]...). */
int options_parse(int argc, char **argv, const struct option_spec *specs);
/* Sets comm, waits if asked to. */
void common_start(void);
/* Waits for a line on stdin; the end of stdin counts as one. */
void wait_line(void);

struct ledger {
	uint64_t live_bytes[CLASS_MAX], live_count[CLASS_MAX];
	uint64_t device_bytes[FAKE_GPU_MAX]; /* device classes, by ordinal */
	uint64_t peak_bytes;		     /* of their sum */
	uint64_t alloc_count, fail_count, free_count, swept_count, free_fail_count, null_free_count;
	char uuid[FAKE_GPU_MAX][41];
	int device_count;
	bool is_merged; /* of several threads: the peak is only an upper bound */
};

void ledger_alloc(struct ledger *l, unsigned int class, uint64_t bytes, int device);
void ledger_free(struct ledger *l, unsigned int class, uint64_t bytes, int device);
void ledger_sweep(struct ledger *l, unsigned int class, uint64_t bytes, int device); /* a free by a context's end */
void ledger_merge(struct ledger *to, const struct ledger *from);
uint64_t ledger_device_bytes(const struct ledger *l);
#define LEDGER_ALONE ((void *)-1) /* there is no stand-in to compare with */
/*
 * One JSON line with the ledger, and whether the stand-in counts the same. library: handle of dlopen() that has the
 * stand-in, NULL = the one linked, or LEDGER_ALONE. Returns 0, or 3 (an exit status) when they differ, which is said on
 * stderr.
 */
int ledger_print(const struct ledger *l, const char *label, void *library);
/* ledger_print() if --ledger, then waits if --wait-end; the process's exit status. */
int common_end(const struct ledger *l, void *library);

uint64_t monotonic_ns(void);
uint64_t realtime_us(void);
uint64_t random_next(uint64_t *state); /* xorshift64*, state not 0 */
/* 1 to 2^max_order, over all orders of magnitude. */
uint64_t random_size(uint64_t *state, unsigned int max_order);
__attribute__((format(printf, 1, 2), noreturn)) void die(const char *format, ...);
