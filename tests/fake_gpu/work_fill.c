/* SPDX-License-Identifier: MIT */
/*
 * A cache that fills and then is full: --blocks N of --bytes N each, one every --every N ms, from one line of code. Then it
 * prints its ledger ("full"), waits for a line and exits with all of it.
 */
#include <time.h>

#include "gpu.h"

static FRAME void cache_insert(struct ledger *l, uint64_t bytes)
{
	CUdeviceptr p = 0;

	MUST(cuMemAlloc_v2(&p, bytes));
	ledger_alloc(l, CLASS_DEVICE, bytes, 0);
	KEEP_FRAME();
}

static FRAME void serve(struct ledger *l, uint64_t blocks, uint64_t bytes, uint64_t every_ms)
{
	uint64_t start = monotonic_ns();

	for (uint64_t i = 0; i < blocks; i++) {
		uint64_t due = start + i * every_ms * 1000000u;
		struct timespec ts = { .tv_sec = (time_t)(due / 1000000000u), .tv_nsec = (long)(due % 1000000000u) };

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
		cache_insert(l, bytes);
	}
	KEEP_FRAME();
}

int main(int argc, char **argv)
{
	static struct ledger books;
	uint64_t blocks = 160, bytes = 256 << 10, every_ms = 50;
	const struct option_spec specs[] = { { "--blocks", OPTION_NUMBER, &blocks },
					     { "--bytes", OPTION_NUMBER, &bytes },
					     { "--every", OPTION_NUMBER, &every_ms },
					     { 0 } };
	int r;

	options_parse(argc, argv, specs);
	common_start();
	gpu_open(&books);
	serve(&books, blocks, bytes, every_ms);
	r = ledger_print(&books, "full", NULL);
	wait_line();
	return r;
}
