/* SPDX-License-Identifier: MIT */
/*
 * Addresses of graphs' memory: a range of their own. An address is given out again when nothing holds it any more: no graph,
 * no executable, no live block. All under the graphs' lock.
 */
#include <stdlib.h>

#include "libcuda.h"

/* A real driver's ranges lie in the order of their first use, so graphs' may be above or below that of other stream-ordered
 * memory. */
#define RANGE_ABOVE 0x500000000000ull
#define RANGE_BELOW 0x040000000000ull
#define RANGE_BYTES (2ull << 40)
#define ORDER_COUNT 64

struct range {
	uint64_t addr;
	uint32_t refs, next_free; /* index + 1 */
	unsigned int order;
};

static struct range *ranges; /* ascending by address */
static size_t len, cap;
static uint32_t freed[ORDER_COUNT]; /* index + 1 */
static uint64_t next, end;

void *array_grow(void *array, size_t array_len, size_t size, size_t *array_cap)
{
	size_t n = *array_cap ? 2 * *array_cap : 64;

	if (array_len < *array_cap)
		return array;
	array = realloc(array, n * size);
	if (array)
		*array_cap = n;
	return array;
}

static struct range *find(uint64_t addr)
{
	size_t lo = 0, hi = len;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (ranges[mid].addr < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < len && ranges[lo].addr == addr && ranges[lo].refs ? &ranges[lo] : NULL;
}

unsigned int range_order(uint64_t addr)
{
	const struct range *r = find(addr);

	return r ? r->order : 0;
}

static void choose(void)
{
	struct fake_gpu_totals t = { 0 };

	block_totals(&t);
	next = t.live_bytes[CLASS_ASYNC] ? RANGE_ABOVE : RANGE_BELOW;
	end = next + RANGE_BYTES;
}

uint64_t range_reserve(unsigned int order)
{
	uint64_t align = 1ull << (order > 21 ? 21 : order), at;
	struct range *r;

	if (freed[order]) {
		r = &ranges[freed[order] - 1];
		freed[order] = r->next_free;
		r->refs = 1;
		return r->addr;
	}
	if (!end)
		choose();
	r = array_grow(ranges, len, sizeof(*r), &cap);
	if (!r)
		return 0;
	ranges = r;
	at = (next + align - 1) & ~(align - 1);
	if (at + (1ull << order) > end)
		return 0;
	next = at + (1ull << order);
	ranges[len++] = (struct range){ .addr = at, .refs = 1, .order = order };
	return at;
}

void range_hold(uint64_t addr)
{
	struct range *r = find(addr);

	if (r)
		r->refs++;
}

void range_put(uint64_t addr)
{
	struct range *r = find(addr);

	if (!r || --r->refs)
		return;
	r->next_free = freed[r->order];
	freed[r->order] = (uint32_t)(r - ranges) + 1;
}
