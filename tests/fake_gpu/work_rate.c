/* SPDX-License-Identifier: MIT */
/*
 * Pairs of an allocation and a free, at a rate or as fast as it goes, and what a pair costs.
 * --seconds N (5) --rate N (pairs a second of each thread; 0 = as fast as possible) --threads N --bytes N --call
 * device|async|host --depth N (frames between main and the call) --sites N (that many different stacks: give enough depth,
 * 2^depth of them exist) --chains N (that many different stacks of equal length, called through pointers, which differ in
 * their innermost frames; 4^depth exist) --live N (blocks held meanwhile: each pair frees the oldest) --warm N (seconds
 * of pairs before they are timed) --through FILE (a library whose posix_memalign() and free() make the calls; loaded so
 * that nobody else is bound to them).
 * Prints one JSON line: pairs, mean and median and 99th percentile of ns per pair, without the pauses.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpu.h"

#define SAMPLES_MAX 200000u
#define BATCH 256u

enum call_kind {
	CALL_DEVICE,
	CALL_ASYNC,
	CALL_HOST,
};

struct worker {
	pthread_t thread;
	CUdeviceptr *ring; /* live blocks */
	uint64_t next;
	uint64_t pairs, warm_pairs, busy_ns;
	uint32_t *samples; /* ns per pair */
	uint32_t sample_count;
	uint64_t site;
	uint64_t chain;
};

static uint64_t seconds = 5, rate, thread_count = 1, bytes = 2ull << 20, depth, site_count = 1, live = 1;
static uint64_t chain_count; /* 0 = sites instead */
static uint64_t warm_seconds;
static enum call_kind kind;
static CUcontext context;
static int (*through_alloc)(void **p, size_t alignment, size_t n); /* NULL = the driver itself */
static void (*through_free)(void *p);
static const unsigned int classes[] = { [CALL_DEVICE] = CLASS_DEVICE, [CALL_ASYNC] = CLASS_ASYNC, [CALL_HOST] = CLASS_HOST };

static CUresult alloc_one(CUdeviceptr *p)
{
	void *host = NULL;
	CUresult r;

	if (through_alloc) {
		r = (CUresult)through_alloc(&host, 0, bytes);
		*p = (uintptr_t)host;
		return r;
	}
	if (kind == CALL_DEVICE)
		return cuMemAlloc_v2(p, bytes);
	if (kind == CALL_ASYNC)
		return cuMemAllocAsync(p, bytes, NULL);
	r = cuMemHostAlloc(&host, bytes, 0);
	*p = (uintptr_t)host;
	return r;
}

static void free_one(CUdeviceptr p)
{
	if (through_free)
		through_free((void *)(uintptr_t)p);
	else if (kind == CALL_DEVICE)
		MUST(cuMemFree_v2(p));
	else if (kind == CALL_ASYNC)
		MUST(cuMemFreeAsync(p, NULL));
	else
		MUST(cuMemFreeHost((void *)(uintptr_t)p));
}

static void pair(struct worker *w)
{
	CUdeviceptr *slot = &w->ring[w->next++ % live];

	if (*slot)
		free_one(*slot);
	MUST(alloc_one(slot));
	if (live == 1) {
		free_one(*slot);
		*slot = 0;
	}
}

/* Two ways down a level: the bits of the site's number choose, so that each site has a stack of its own. */
static void level_a(struct worker *w, uint64_t below, uint64_t site);
static void level_b(struct worker *w, uint64_t below, uint64_t site);

static inline __attribute__((always_inline)) void descend(struct worker *w, uint64_t below, uint64_t site)
{
	if (!below)
		pair(w);
	else if (site & 1)
		level_b(w, below - 1, site >> 1);
	else
		level_a(w, below - 1, site >> 1);
}

static FRAME void level_a(struct worker *w, uint64_t below, uint64_t site)
{
	descend(w, below, site);
	KEEP_FRAME();
}

static FRAME void level_b(struct worker *w, uint64_t below, uint64_t site)
{
	descend(w, below, site);
	__asm__ volatile("nop" ::: "memory"); /* not the same code as level_a */
}

/* The digits of a chain's number choose the function of each level, the lowest digit that of the innermost level. */
#define CHAIN_WAYS 4
#define CHAIN_DIGITS 32 /* of 2 bits */

typedef void (*way_fn)(struct worker *w, uint64_t below, uint64_t chain);
static const way_fn ways[CHAIN_WAYS];

static inline __attribute__((always_inline)) void follow(struct worker *w, uint64_t below, uint64_t chain)
{
	if (below)
		ways[below <= CHAIN_DIGITS ? chain >> 2 * (below - 1) & 3 : 0](w, below - 1, chain);
	else
		pair(w);
}

/* Different code behind the call, so that none is merged with another. */
#define WAY(name, code)                                                                                                \
	static FRAME void name(struct worker *w, uint64_t below, uint64_t chain)                                       \
	{                                                                                                              \
		follow(w, below, chain);                                                                               \
		__asm__ volatile(code ::: "memory");                                                                   \
	}
WAY(way_a, "")
WAY(way_b, "nop")
WAY(way_c, "nop\n\tnop")
WAY(way_d, "nop\n\tnop\n\tnop")

static const way_fn ways[CHAIN_WAYS] = { way_a, way_b, way_c, way_d };

static void next_pair(struct worker *w)
{
	if (chain_count) {
		follow(w, depth, w->chain);
		if (++w->chain == chain_count)
			w->chain = 0;
		return;
	}
	descend(w, depth, w->site);
	if (++w->site == site_count)
		w->site = 0;
}

static void batch(struct worker *w, uint64_t n)
{
	uint64_t start = monotonic_ns(), spent;

	for (uint64_t i = 0; i < n; i++)
		next_pair(w);
	spent = monotonic_ns() - start;
	w->pairs += n;
	w->busy_ns += spent;
	if (w->sample_count < SAMPLES_MAX)
		w->samples[w->sample_count++] = (uint32_t)(spent / n);
}

static void run_for(struct worker *w, uint64_t length)
{
	uint64_t n = rate ? (rate + 999) / 1000 : BATCH, start = monotonic_ns(), end = start + length * 1000000000u;

	while (monotonic_ns() < end) {
		if (rate) {
			uint64_t due = start + (uint64_t)((double)w->pairs * 1e9 / (double)rate);
			struct timespec ts = { (time_t)(due / 1000000000u), (long)(due % 1000000000u) };

			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
		}
		batch(w, n);
	}
}

static void *worker_run(void *arg)
{
	struct worker *w = arg;

	MUST(cuCtxSetCurrent(context));
	for (uint64_t i = 0; live > 1 && i < live; i++)
		MUST(alloc_one(&w->ring[i]));
	run_for(w, warm_seconds);
	w->warm_pairs = w->pairs;
	w->pairs = w->busy_ns = w->sample_count = 0;
	run_for(w, seconds);
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void report(const struct worker *workers, struct ledger *l)
{
	uint64_t pairs = 0, warm = 0, busy = 0, n = 0, held = live > 1 ? live : 0;
	uint32_t *all = calloc(thread_count * SAMPLES_MAX, sizeof(*all));

	if (!all)
		die("out of memory");
	for (uint64_t i = 0; i < thread_count; i++) {
		memcpy(all + n, workers[i].samples, workers[i].sample_count * sizeof(*all));
		n += workers[i].sample_count;
		pairs += workers[i].pairs;
		warm += workers[i].warm_pairs;
		busy += workers[i].busy_ns;
		for (uint64_t k = 0; k < held; k++)
			ledger_alloc(l, classes[kind], bytes, 0);
	}
	l->alloc_count += warm + pairs;
	l->free_count += warm + pairs;
	l->is_merged = true;
	qsort(all, n, sizeof(*all), by_value);
	printf("{\"label\":\"rate\",\"pid\":%d,\"threads\":%" PRIu64 ",\"pairs\":%" PRIu64
	       ",\"pairs_per_sec\":%.0f,\"mean_ns\":%.1f,\"median_ns\":%u,\"p99_ns\":%u}\n",
	       (int)getpid(), thread_count, pairs, (double)pairs / (double)seconds, (double)busy / (double)pairs,
	       all[n / 2], all[n - 1 - n / 100]);
	free(all);
}

static void open_workers(struct worker *workers)
{
	for (uint64_t i = 0; i < thread_count; i++) {
		workers[i].ring = calloc(live, sizeof(CUdeviceptr));
		workers[i].samples = calloc(SAMPLES_MAX, sizeof(uint32_t));
		if (!workers[i].ring || !workers[i].samples)
			die("out of memory");
	}
}

static void open_through(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		die("%s", dlerror());
	through_alloc = (int (*)(void **, size_t, size_t))dlsym(library, "posix_memalign");
	through_free = (void (*)(void *))dlsym(library, "free");
	if (!through_alloc || !through_free)
		die("%s has no posix_memalign() or no free()", path);
}

int main(int argc, char **argv)
{
	static struct ledger books;
	const char *call = "device", *through = NULL;
	struct worker *workers;
	const struct option_spec specs[] = {
		{ "--seconds", OPTION_NUMBER, &seconds }, { "--rate", OPTION_NUMBER, &rate },
		{ "--threads", OPTION_NUMBER, &thread_count }, { "--bytes", OPTION_NUMBER, &bytes },
		{ "--depth", OPTION_NUMBER, &depth },	  { "--sites", OPTION_NUMBER, &site_count },
		{ "--live", OPTION_NUMBER, &live },	  { "--call", OPTION_TEXT, &call },
		{ "--chains", OPTION_NUMBER, &chain_count }, { "--warm", OPTION_NUMBER, &warm_seconds },
		{ "--through", OPTION_TEXT, &through },
		{ 0 },
	};

	options_parse(argc, argv, specs);
	if (!seconds || !thread_count || !site_count || !live)
		die("--seconds, --threads, --sites and --live are at least 1");
	if (depth < 63 && site_count > 1ull << depth)
		die("--sites %" PRIu64 " needs more --depth", site_count);
	if (depth < CHAIN_DIGITS && chain_count > 1ull << 2 * depth)
		die("--chains %" PRIu64 " needs more --depth", chain_count);
	if (!strcmp(call, "async"))
		kind = CALL_ASYNC;
	else if (!strcmp(call, "host"))
		kind = CALL_HOST;
	else if (strcmp(call, "device"))
		die("--call device, async or host");
	if (through)
		open_through(through);
	common_start();
	context = gpu_open(&books);
	workers = calloc(thread_count, sizeof(*workers));
	if (!workers)
		die("out of memory");
	open_workers(workers);
	for (uint64_t i = 1; i < thread_count; i++)
		if (pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]))
			die("pthread_create");
	worker_run(&workers[0]);
	for (uint64_t i = 1; i < thread_count; i++)
		pthread_join(workers[i].thread, NULL);
	report(workers, &books);
	return common_end(&books, NULL);
}
