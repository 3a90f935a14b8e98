/* SPDX-License-Identifier: MIT */
/*
 * Crosses a limit again and again, and says when: for the latency from the call to the record. --limit N (100MiB) --block N
 * (10MiB) --times N (20) --period MS (500). One JSON line each time, stamped right after the call that crossed returned; the
 * same when what was allocated has been freed again.
 */
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#include "gpu.h"

#define BLOCKS_MAX 65536u

static uint64_t limit_bytes = 100ull << 20, block_bytes = 10ull << 20, times = 20, period_ms = 500;
static CUdeviceptr held[BLOCKS_MAX];

static void say(const char *what, uint64_t i, uint64_t live_bytes, uint64_t mono, uint64_t real)
{
	printf("{\"label\":\"%s\",\"pid\":%d,\"cross\":%" PRIu64 ",\"realtime_us\":%" PRIu64 ",\"monotonic_ns\":%" PRIu64
	       ",\"live_bytes\":%" PRIu64 "}\n",
	       what, (int)getpid(), i, real, mono, live_bytes);
}

static __attribute__((noinline)) void cross_once(struct ledger *l, uint64_t i)
{
	uint64_t n = 0, live, real, mono;

	do {
		MUST(cuMemAlloc_v2(&held[n++], block_bytes));
		real = realtime_us();
		mono = monotonic_ns();
		ledger_alloc(l, CLASS_DEVICE, block_bytes, 0);
		live = ledger_device_bytes(l);
	} while (live <= limit_bytes && n < BLOCKS_MAX);
	say("cross", i, live, mono, real);
	usleep((useconds_t)(period_ms * 500));
	while (n-- > 0) {
		MUST(cuMemFree_v2(held[n]));
		ledger_free(l, CLASS_DEVICE, block_bytes, 0);
	}
	say("back", i, 0, monotonic_ns(), realtime_us());
	usleep((useconds_t)(period_ms * 500));
}

int main(int argc, char **argv)
{
	static struct ledger books;
	const struct option_spec specs[] = {
		{ "--limit", OPTION_NUMBER, &limit_bytes },
		{ "--block", OPTION_NUMBER, &block_bytes },
		{ "--times", OPTION_NUMBER, &times },
		{ "--period", OPTION_NUMBER, &period_ms },
		{ 0 },
	};

	options_parse(argc, argv, specs);
	if (!block_bytes || limit_bytes / block_bytes >= BLOCKS_MAX)
		die("--limit is at most %u times --block", BLOCKS_MAX - 1);
	common_start();
	gpu_open(&books);
	for (uint64_t i = 0; i < times; i++)
		cross_once(&books, i);
	return common_end(&books, NULL);
}
