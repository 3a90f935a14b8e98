/* SPDX-License-Identifier: MIT */
/* How the workloads that check the stand-in itself look at it: what each call returns, and what it does to the totals. */
#pragma once

#include "gpu.h"

#define MIB (1ull << 20)

#define EXPECT(want, call)                                                                                             \
	do {                                                                                                           \
		CUresult expect_r = (call);                                                                            \
		if (expect_r != (want))                                                                                \
			die("%d: %s: %d, not %d", __LINE__, #call, expect_r, (int)(want));                             \
	} while (0)
#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			die("%d: not true: %s", __LINE__, #condition);                                                 \
	} while (0)

static struct fake_gpu_totals was;

static inline void mark(void)
{
	fake_gpu_totals(&was);
}

/* What has changed since the last look: one class, the two counts; nothing else. */
static inline void changed(int line, unsigned int class, int64_t bytes, int64_t blocks, uint64_t allocs, uint64_t frees)
{
	struct fake_gpu_totals t;

	fake_gpu_totals(&t);
	for (unsigned int c = 0; c < FAKE_GPU_CLASSES; c++) {
		int64_t b = (int64_t)(t.live_bytes[c] - was.live_bytes[c]);
		int64_t n = (int64_t)(t.live_count[c] - was.live_count[c]);

		if (b != (c == class ? bytes : 0) || n != (c == class ? blocks : 0))
			die("%d: class %u changed by %lld bytes, %lld blocks", line, c, (long long)b, (long long)n);
	}
	if (t.alloc_count - was.alloc_count != allocs || t.free_count - was.free_count != frees)
		die("%d: %llu allocations, %llu frees", line, (unsigned long long)(t.alloc_count - was.alloc_count),
		    (unsigned long long)(t.free_count - was.free_count));
	was = t;
}
#define CHANGED(class, bytes, blocks, allocs, frees) changed(__LINE__, class, (int64_t)(bytes), blocks, allocs, frees)
#define MADE(class, bytes) CHANGED(class, bytes, 1, 1, 0)
#define GONE(class, bytes) CHANGED(class, -(int64_t)(bytes), -1, 0, 1)
#define SAME() CHANGED(CLASS_DEVICE, 0, 0, 0, 0)

static inline void failed(int line, uint64_t fails, uint64_t free_fails)
{
	struct fake_gpu_totals t;

	fake_gpu_totals(&t);
	if (t.fail_count - was.fail_count != fails || t.free_fail_count - was.free_fail_count != free_fails)
		die("%d: %llu failures, %llu of frees", line, (unsigned long long)(t.fail_count - was.fail_count),
		    (unsigned long long)(t.free_fail_count - was.free_fail_count));
	was = t;
}
#define FAILED(fails, free_fails) failed(__LINE__, fails, free_fails)

static inline uint64_t used_bytes(void)
{
	size_t free_bytes, total;

	MUST(cuMemGetInfo_v2(&free_bytes, &total));
	return total - free_bytes;
}

/* Nothing is left, and as much was freed as was allocated. */
static inline void check_empty(void)
{
	struct fake_gpu_totals t;

	fake_gpu_totals(&t);
	for (int c = 0; c < FAKE_GPU_CLASSES; c++)
		CHECK(!t.live_bytes[c] && !t.live_count[c]);
	CHECK(t.alloc_count == t.free_count && !used_bytes());
}
