/* SPDX-License-Identifier: MIT */
/*
 * What one would write instead of probes: a library for LD_PRELOAD that keeps the bytes of each block and each call stack
 * inside the program. 16 frames, by glibc's backtrace(), or with WITH_LIBUNWIND by libunwind's, which remembers how it
 * unwound before. One lock around both tables. At the program's end the books go to the file $PRELOAD_OUT as JSON, frames
 * as module+offset: names are looked up by who reads it.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef WITH_LIBUNWIND
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#endif

#define FRAMES 16
#define SITES 65536u /* a power of two; what does not fit is counted as site 0 */
#define BLOCKS_MIN 4096u

struct site {
	uint64_t hash; /* 0 = free */
	uint64_t bytes, count;
	int frame_count;
	void *frames[FRAMES];
};

struct block {
	uint64_t address; /* 0 = free */
	uint64_t bytes;
	uint32_t site;
};

int cuMemAlloc_v2(uint64_t *p, size_t n);
int cuMemFree_v2(uint64_t p);

static int (*real_alloc)(uint64_t *p, size_t n);
static int (*real_free)(uint64_t p);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct site *sites;
static struct block *blocks;
static uint64_t block_room, block_count, lost_count;
static uint32_t site_count;

static uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdu;
	return x ^ x >> 33;
}

static int take_stack(void **frames)
{
#ifdef WITH_LIBUNWIND
	return unw_backtrace(frames, FRAMES);
#else
	return backtrace(frames, FRAMES);
#endif
}

static uint32_t site_of(void **frames, int n)
{
	uint64_t hash = 1;

	for (int i = 0; i < n; i++)
		hash = mix(hash ^ (uintptr_t)frames[i]);
	hash |= 1;
	for (uint32_t i = (uint32_t)(hash >> 1) & (SITES - 1);; i = (i + 1) & (SITES - 1)) {
		struct site *s = &sites[i];

		if (s->hash == hash && s->frame_count == n && !memcmp(s->frames, frames, (size_t)n * sizeof(*frames)))
			return i;
		if (s->hash)
			continue;
		if (site_count >= SITES / 2)
			return 0;
		site_count++;
		s->hash = hash;
		s->frame_count = n;
		memcpy(s->frames, frames, (size_t)n * sizeof(*frames));
		return i;
	}
}

static struct block *block_at(uint64_t address)
{
	uint64_t i = mix(address) & (block_room - 1);

	while (blocks[i].address && blocks[i].address != address)
		i = (i + 1) & (block_room - 1);
	return &blocks[i];
}

static int make_room(void)
{
	struct block *old = blocks;
	uint64_t old_room = block_room;

	if (block_room && block_count < block_room / 2)
		return 1;
	blocks = calloc(old_room ? old_room * 2 : BLOCKS_MIN, sizeof(*blocks));
	if (!blocks) {
		blocks = old;
		return block_count + 1 < block_room;
	}
	block_room = old_room ? old_room * 2 : BLOCKS_MIN;
	for (uint64_t i = 0; i < old_room; i++)
		if (old[i].address)
			*block_at(old[i].address) = old[i];
	free(old);
	return 1;
}

/* Those behind it in the same run move up, so that each is still found from its own place. */
static void block_remove(struct block *b)
{
	uint64_t hole = (uint64_t)(b - blocks), i = hole;

	block_count--;
	for (;;) {
		uint64_t home;

		i = (i + 1) & (block_room - 1);
		if (!blocks[i].address)
			break;
		home = mix(blocks[i].address) & (block_room - 1);
		if (((i - home) & (block_room - 1)) < ((i - hole) & (block_room - 1)))
			continue;
		blocks[hole] = blocks[i];
		hole = i;
	}
	blocks[hole].address = 0;
}

static void remember(uint64_t address, uint64_t bytes, void **frames, int n)
{
	struct block *b;

	pthread_mutex_lock(&lock);
	if (sites && make_room()) {
		b = block_at(address);
		block_count += !b->address;
		*b = (struct block){ address, bytes, site_of(frames, n) };
		sites[b->site].bytes += bytes;
		sites[b->site].count++;
	} else {
		lost_count++;
	}
	pthread_mutex_unlock(&lock);
}

int cuMemAlloc_v2(uint64_t *p, size_t n)
{
	void *frames[FRAMES];
	int r = real_alloc(p, n);

	if (!r)
		remember(*p, n, frames, take_stack(frames));
	return r;
}

/* The block goes from the table before the driver may give its address to another thread. */
int cuMemFree_v2(uint64_t p)
{
	struct block *b;

	pthread_mutex_lock(&lock);
	b = block_room ? block_at(p) : NULL;
	if (b && b->address) {
		sites[b->site].bytes -= b->bytes;
		sites[b->site].count--;
		block_remove(b);
	}
	pthread_mutex_unlock(&lock);
	return real_free(p);
}

static void __attribute__((constructor)) start(void)
{
	void *frames[FRAMES];

	*(void **)&real_alloc = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
	*(void **)&real_free = dlsym(RTLD_NEXT, "cuMemFree_v2");
	sites = calloc(SITES, sizeof(*sites));
	(void)take_stack(frames); /* the first one loads what it needs */
}

static void write_site(FILE *f, const struct site *s, const char *comma)
{
	fprintf(f, "%s{\"bytes\":%" PRIu64 ",\"count\":%" PRIu64 ",\"frames\":[", comma, s->bytes, s->count);
	for (int i = 0; i < s->frame_count; i++) {
		Dl_info info = { 0 };
		uintptr_t base = dladdr(s->frames[i], &info) ? (uintptr_t)info.dli_fbase : 0;

		fprintf(f, "%s\"%s+0x%" PRIxPTR "\"", i ? "," : "", info.dli_fname ? info.dli_fname : "?",
			(uintptr_t)s->frames[i] - base);
	}
	fprintf(f, "]}");
}

static void __attribute__((destructor)) finish(void)
{
	const char *path = getenv("PRELOAD_OUT"), *comma = "";
	FILE *f = path && sites ? fopen(path, "we") : NULL;
	uint64_t bytes = 0;

	if (!f)
		return;
	for (uint64_t i = 0; i < block_room; i++)
		bytes += blocks[i].address ? blocks[i].bytes : 0;
	fprintf(f, "{\"live_bytes\":%" PRIu64 ",\"live_count\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"sites\":[", bytes, block_count,
		lost_count);
	for (uint32_t i = 0; i < SITES; i++)
		if (sites[i].count) {
			write_site(f, &sites[i], comma);
			comma = ",";
		}
	fprintf(f, "]}\n");
	(void)fclose(f);
}
