/* SPDX-License-Identifier: MIT */
/*
 * Very much of one thing. It is its own driver, one that says yes to everything and does nothing: given to the daemon as a
 * --library, it makes calls as fast as probes allow, in any number, and with arguments that no real driver would accept.
 *
 * hold: --processes N (1; more are forked, which all allocate) --blocks N --bytes N, each process so many, by --stacks N
 * different stacks in turn, the first time at --rate N a second (0 = as fast as it goes); then waits.
 * turn: the same, and each line on stdin frees and makes all blocks once more.
 * fail, contexts, forks, single, uuids, unknown: for --seconds N as fast as it goes: allocations that fail, contexts made and
 * destroyed, processes that make one call and end, pairs of one allocation of --bytes and its free, an ordinal that is
 * another device each time, frees of what was never allocated.
 * ordinals, pools, maps, kept: --count N different ones, then waits: devices with a block on each, memory pools, mappings of
 * one handle, contexts that are never destroyed.
 *
 * Prints one JSON line when it is there: what is held, and how often the call was made in what time.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define DRIVER FRAME __attribute__((visibility("default")))
#define OUT_OF_MEMORY 2

static uint64_t processes = 1, blocks = 1, bytes = 4096, seconds = 5, count = 1000, stacks = 1, rate;
static uint64_t next_address = 0x700000000000;

/* Arguments and results as in the real ones; handles are numbers. */
DRIVER int cuMemAlloc_v2(uint64_t *p, size_t n);
DRIVER int cuMemAllocHost_v2(uint64_t *p, size_t n);
DRIVER int cuMemFree_v2(uint64_t p);
DRIVER int cuMemCreate(uint64_t *h, size_t n, const void *properties, uint64_t flags);
DRIVER int cuMemMap(uint64_t p, size_t n, size_t offset, uint64_t h, uint64_t flags);
DRIVER int cuCtxCreate_v2(uint64_t *ctx, unsigned int flags, int device);
DRIVER int cuCtxDestroy_v2(uint64_t ctx);
DRIVER int cuMemPoolCreate(uint64_t *pool, const void *properties);
DRIVER int cuDeviceGetUuid_v2(unsigned char *uuid, int device);

/* None of them is the same code as another, so that none is merged. */
#define APART(n) __asm__ volatile("" : : "r"(n) : "memory")

static int give(uint64_t *p)
{
	*p = next_address;
	next_address += 4096;
	return 0;
}

int cuMemAlloc_v2(uint64_t *p, size_t n)
{
	APART(1);
	return n == SIZE_MAX ? OUT_OF_MEMORY : give(p);
}

int cuMemAllocHost_v2(uint64_t *p, size_t n)
{
	APART(2);
	return give(p);
}

int cuMemFree_v2(uint64_t p)
{
	APART(3);
	return 0;
}

int cuMemCreate(uint64_t *h, size_t n, const void *properties, uint64_t flags)
{
	APART(4);
	return give(h);
}

int cuMemMap(uint64_t p, size_t n, size_t offset, uint64_t h, uint64_t flags)
{
	APART(5);
	return 0;
}

int cuCtxCreate_v2(uint64_t *ctx, unsigned int flags, int device)
{
	APART(6);
	return give(ctx);
}

int cuCtxDestroy_v2(uint64_t ctx)
{
	APART(7);
	return 0;
}

int cuMemPoolCreate(uint64_t *pool, const void *properties)
{
	APART(8);
	return give(pool);
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device)
{
	static uint64_t state = 0x9e3779b97f4a7c15;

	APART(9);
	for (int i = 0; i < 16; i += 8) {
		uint64_t word = random_next(&state);

		memcpy(uuid + i, &word, 8);
	}
	return 0;
}

static uint64_t alloc_one(size_t n)
{
	uint64_t p = 0;

	if (cuMemAlloc_v2(&p, n))
		die("cuMemAlloc_v2");
	return p;
}

/* The digits of a stack's number choose the function of each level. */
#define WAYS 4
#define LEVELS 10

typedef void (*way_fn)(uint64_t stack, int below);
static const way_fn ways[WAYS];

static inline __attribute__((always_inline)) void follow(uint64_t stack, int below)
{
	if (below)
		ways[stack % WAYS](stack / WAYS, below - 1);
	else
		(void)alloc_one(bytes);
}

/* Different code behind the call, so that none is merged with another. */
#define WAY(name, code)                                                                                                \
	static FRAME void name(uint64_t stack, int below)                                                              \
	{                                                                                                              \
		follow(stack, below);                                                                                  \
		__asm__ volatile(code ::: "memory");                                                                   \
	}
WAY(way_a, "")
WAY(way_b, "nop")
WAY(way_c, "nop\n\tnop")
WAY(way_d, "nop\n\tnop\n\tnop")

static const way_fn ways[WAYS] = { way_a, way_b, way_c, way_d };

/* Address of the first block; the others follow. */
static uint64_t fill(void)
{
	uint64_t first = next_address, start = monotonic_ns();

	for (uint64_t i = 0; i < blocks; i++) {
		uint64_t due = rate ? start + (uint64_t)((double)i * 1e9 / (double)rate) : 0;
		struct timespec ts = { (time_t)(due / 1000000000u), (long)(due % 1000000000u) };

		if (rate)
			(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
		follow(i % stacks, stacks > 1 ? LEVELS : 0);
	}
	return first;
}

/* ---- for a while */

static void once_fail(void)
{
	uint64_t p;

	if (cuMemAlloc_v2(&p, SIZE_MAX) != OUT_OF_MEMORY)
		die("an allocation that should fail did not");
}

static void once_context(void)
{
	uint64_t ctx;

	(void)cuCtxCreate_v2(&ctx, 0, 0);
	(void)cuCtxDestroy_v2(ctx);
}

static void once_fork(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (!pid) {
		(void)alloc_one(bytes);
		_exit(0);
	}
	(void)waitpid(pid, NULL, 0);
}

static void once_pair(void)
{
	(void)cuMemFree_v2(alloc_one(bytes));
}

static void once_uuid(void)
{
	unsigned char uuid[16];

	(void)cuDeviceGetUuid_v2(uuid, 0);
}

static void once_unknown(void)
{
	(void)cuMemFree_v2(next_address += 4096);
}

/* ---- so many */

static void one_ordinal(uint64_t i)
{
	unsigned char uuid[16];
	uint64_t ctx;

	(void)cuDeviceGetUuid_v2(uuid, (int)i);
	(void)cuCtxCreate_v2(&ctx, 0, (int)i);
	(void)alloc_one(bytes);
}

static void one_pool(uint64_t i)
{
	static const int properties[22];
	uint64_t pool;

	(void)cuMemPoolCreate(&pool, properties);
}

static void one_map(uint64_t i)
{
	static const int properties[8] = { 1, 0, 1, 0 };
	static uint64_t handle;

	if (!handle)
		(void)cuMemCreate(&handle, bytes, properties, 0);
	(void)cuMemMap(next_address += 4096, 4096, 0, handle, 0);
}

static void one_context(uint64_t i)
{
	uint64_t ctx;

	(void)cuCtxCreate_v2(&ctx, 0, (int)(i % 8));
}

static const struct mode {
	const char *name;
	void (*once)(void);
	void (*one)(uint64_t i);
} modes[] = {
	{ "hold", NULL, NULL },		 { "turn", NULL, NULL },
	{ "fail", once_fail, NULL },	 { "contexts", once_context, NULL },
	{ "forks", once_fork, NULL },	 { "single", once_pair, NULL },
	{ "uuids", once_uuid, NULL },	 { "unknown", once_unknown, NULL },
	{ "ordinals", NULL, one_ordinal }, { "pools", NULL, one_pool },
	{ "maps", NULL, one_map },	 { "kept", NULL, one_context },
};

static const struct mode *mode_find(const char *name)
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(modes[i].name, name))
			return &modes[i];
	die("unknown mode: %s", name);
}

static void say(const struct mode *m, uint64_t calls, uint64_t held, uint64_t held_bytes, uint64_t ns)
{
	printf("{\"label\":\"%s\",\"pid\":%d,\"calls\":%" PRIu64 ",\"ns\":%" PRIu64 ",\"live_count\":%" PRIu64
	       ",\"live_bytes\":%" PRIu64 "}\n",
	       m->name, (int)getpid(), calls, ns, held, held_bytes);
}

/* The children write a byte each when they have allocated, and end when the other pipe does. */
static void hold_children(void)
{
	int ready[2], end[2];
	char c = 0;

	if (pipe(ready) || pipe(end))
		die("pipe: %s", strerror(errno));
	for (uint64_t i = 0; i < processes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork %" PRIu64 ": %s", i, strerror(errno));
		if (pid)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)close(end[1]);
		(void)fill();
		if (write(ready[1], &c, 1) != 1)
			_exit(2);
		(void)!read(end[0], &c, 1);
		_exit(0);
	}
	for (uint64_t i = 0; i < processes; i++)
		if (read(ready[0], &c, 1) != 1)
			die("a child has failed");
}

static void run_for(const struct mode *m)
{
	uint64_t start = monotonic_ns(), end = start + seconds * 1000000000u, n = 0;
	/* What must not be in the way of what is measured: a look at the clock each time is little beside a probe. */
	do {
		m->once();
		n++;
	} while (monotonic_ns() < end);
	say(m, n, 0, 0, monotonic_ns() - start);
}

static void run_count(const struct mode *m)
{
	uint64_t start = monotonic_ns(), held;

	for (uint64_t i = 0; i < count; i++)
		m->one(i);
	held = m->one == one_ordinal ? count : m->one == one_map;
	say(m, count, held, held * bytes, monotonic_ns() - start);
	wait_line();
}

static void run_hold(const struct mode *m)
{
	uint64_t first = 0, start, turn = 0;
	char c = 0;

	do {
		start = monotonic_ns();
		for (uint64_t i = 0; turn && i < blocks; i++)
			(void)cuMemFree_v2(first + i * 4096);
		/* From one place, so that it is the same stacks each time. */
		if (processes > 1)
			hold_children();
		else
			first = fill();
		rate = 0; /* what is known already may come as fast as it goes */
		say(m, (turn++ ? 2 : 1) * processes * blocks, processes * blocks, processes * blocks * bytes,
		    monotonic_ns() - start);
	} while (read(STDIN_FILENO, &c, 1) == 1 && !strcmp(m->name, "turn") && processes == 1);
}

int main(int argc, char **argv)
{
	const struct option_spec specs[] = {
		{ "--processes", OPTION_NUMBER, &processes }, { "--blocks", OPTION_NUMBER, &blocks },
		{ "--bytes", OPTION_NUMBER, &bytes },	      { "--seconds", OPTION_NUMBER, &seconds },
		{ "--count", OPTION_NUMBER, &count },	      { "--stacks", OPTION_NUMBER, &stacks },
		{ "--rate", OPTION_NUMBER, &rate },	      { 0 },
	};
	int words = options_parse(argc, argv, specs);
	const struct mode *m = mode_find(words ? argv[1] : "hold");

	if (!stacks || stacks > 1u << 2 * LEVELS)
		die("--stacks: 1 to %u", 1u << 2 * LEVELS);
	common_start();
	if (m->once)
		run_for(m);
	else if (m->one)
		run_count(m);
	else
		run_hold(m);
	if (common.wait_end)
		wait_line();
	return 0;
}
