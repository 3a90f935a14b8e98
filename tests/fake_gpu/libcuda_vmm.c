/* SPDX-License-Identifier: MIT */
/* Physical memory by handle, and where it is mapped. Bytes live until the handle is released and unmapped everywhere. */
#include <pthread.h>
#include <stdlib.h>

#include "libcuda.h"

#define RESERVE_BASE 0x080000000000ull /* address space to map into: 8 TiB below the arena of blocks */
#define RESERVE_END 0x100000000000ull
#define HANDLE_BASE 0x100000000000ull /* numbers that pointers have too: only the kind tells them apart */

struct physical {
	uint64_t bytes; /* 0 = free place */
	int device;	/* -1: host memory */
	uint32_t refs, maps;
	uint32_t next_free; /* of a free place */
};

struct map {
	uint64_t addr, bytes;
	uint32_t index; /* of the physical memory */
};

struct range {
	uint64_t addr, bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct physical *physicals;
static uint32_t first_free = UINT32_MAX; /* the last that ended: its handle is the next to be handed out */
static size_t physical_len, physical_cap;
static struct map *maps; /* ascending by address */
static size_t map_len, map_cap;
static struct range *ranges;
static size_t range_len, range_cap;
static uint64_t next_range = RESERVE_BASE;

/* The array with room for one more, or NULL; *array stays good. */
static void *grow(void *array, size_t len, size_t size, size_t *cap)
{
	size_t n = *cap ? 2 * *cap : 64;

	if (len < *cap)
		return array;
	array = realloc(array, n * size);
	if (array)
		*cap = n;
	return array;
}

static struct physical *physical_of(uint64_t handle)
{
	uint64_t i = (handle - HANDLE_BASE) >> 9;

	if (handle < HANDLE_BASE || handle & 511 || i >= physical_len || !physicals[i].bytes)
		return NULL;
	return &physicals[i];
}

static uint64_t handle_of(const struct physical *p)
{
	return HANDLE_BASE + ((uint64_t)(p - physicals) << 9);
}

/* Ends it if nobody holds it any more. */
static void physical_put(struct physical *p)
{
	if (p->refs || p->maps)
		return;
	if (p->device >= 0)
		device_uncharge(p->device, p->bytes);
	p->bytes = 0;
	p->next_free = first_free;
	first_free = (uint32_t)(p - physicals);
	block_count_free();
}

static struct physical *physical_place(void)
{
	struct physical *p = physicals;

	if (first_free != UINT32_MAX) {
		p += first_free;
		first_free = p->next_free;
		return p;
	}
	p = grow(p, physical_len, sizeof(*p), &physical_cap);
	if (!p)
		return NULL;
	physicals = p;
	return &physicals[physical_len++];
}

static CUresult fail(CUresult error)
{
	block_count_fail();
	return error;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop, int option)
{
	(void)option;
	if (!out_is_plausible(bytes) || !out_is_plausible(prop))
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = GRANULARITY;
	return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop,
		     unsigned long long flags)
{
	CUresult r = driver_ready();
	struct physical *p;
	int device;

	if (r)
		return fail(r);
	if (!out_is_plausible(handle) || !out_is_plausible(prop) || flags || !bytes || bytes % GRANULARITY ||
	    prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return fail(CUDA_ERROR_INVALID_VALUE);
	if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE && device_is_valid(prop->location.id))
		device = prop->location.id;
	else if (prop->location.type >= CU_MEM_LOCATION_TYPE_HOST && prop->location.type <= 4)
		device = -1;
	else
		return fail(CUDA_ERROR_INVALID_DEVICE);
	if (device >= 0 ? !device_charge(device, bytes) : bytes > 1ull << 40)
		return fail(CUDA_ERROR_OUT_OF_MEMORY);
	pthread_mutex_lock(&lock);
	p = physical_place();
	if (p)
		*p = (struct physical){ .bytes = bytes, .device = device, .refs = 1 };
	if (p)
		*handle = handle_of(p);
	pthread_mutex_unlock(&lock);
	if (!p && device >= 0)
		device_uncharge(device, bytes);
	if (!p)
		return fail(CUDA_ERROR_OUT_OF_MEMORY);
	block_count_alloc();
	return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct physical *p;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&lock);
	p = physical_of(handle);
	if (p && p->refs) {
		p->refs--;
		physical_put(p);
	} else {
		block_count_free_fail();
		r = CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

/* Index of the first mapping that ends after addr. */
static size_t map_after(uint64_t addr)
{
	size_t lo = 0, hi = map_len;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (maps[mid].addr + maps[mid].bytes <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	size_t i;

	if (!out_is_plausible(handle))
		return r;
	pthread_mutex_lock(&lock);
	i = map_after((uintptr_t)addr);
	if (i < map_len && maps[i].addr <= (uintptr_t)addr) {
		physicals[maps[i].index].refs++;
		*handle = handle_of(&physicals[maps[i].index]);
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

/* Address space is not memory: it is not counted. A freed range of the same size is used again first. */
static uint64_t range_take(uint64_t bytes)
{
	struct range *r;

	for (size_t i = 0; i < range_len; i++) {
		if (ranges[i].bytes == (bytes | 1)) { /* odd: free */
			ranges[i].bytes = bytes;
			return ranges[i].addr;
		}
	}
	if (bytes > RESERVE_END - next_range)
		return 0;
	r = grow(ranges, range_len, sizeof(*r), &range_cap);
	if (!r)
		return 0;
	ranges = r;
	ranges[range_len++] = (struct range){ .addr = next_range, .bytes = bytes };
	next_range += bytes;
	return ranges[range_len - 1].addr;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t bytes, size_t alignment, CUdeviceptr addr,
			     unsigned long long flags)
{
	CUresult r = driver_ready();
	uint64_t at;

	(void)addr; /* a wish only */
	if (r)
		return r;
	if (!out_is_plausible(ptr) || flags || !bytes || bytes % GRANULARITY || alignment & (alignment - 1) ||
	    alignment > GRANULARITY)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	at = range_take(bytes);
	pthread_mutex_unlock(&lock);
	if (!at)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ptr = at;
	return CUDA_SUCCESS;
}

static struct range *range_of(uint64_t addr, uint64_t bytes)
{
	for (size_t i = 0; i < range_len; i++) {
		struct range *r = &ranges[i];

		if (!(r->bytes & 1) && addr >= r->addr && addr - r->addr < r->bytes &&
		    bytes <= r->bytes - (addr - r->addr))
			return r;
	}
	return NULL;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t bytes)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	struct range *range;
	size_t i;

	pthread_mutex_lock(&lock);
	range = range_of(ptr, bytes);
	i = map_after(ptr);
	if (range && range->addr == ptr && range->bytes == bytes && (i == map_len || maps[i].addr >= ptr + bytes)) {
		range->bytes |= 1;
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	struct physical *p;
	struct map *m;
	size_t i;

	if (offset || flags || !bytes || bytes % GRANULARITY || ptr % GRANULARITY)
		return r;
	pthread_mutex_lock(&lock);
	p = physical_of(handle);
	i = map_after(ptr);
	m = grow(maps, map_len, sizeof(*m), &map_cap);
	if (m)
		maps = m;
	if (m && p && bytes <= p->bytes && range_of(ptr, bytes) && (i == map_len || m[i].addr >= ptr + bytes)) {
		for (size_t k = map_len++; k > i; k--)
			maps[k] = maps[k - 1];
		maps[i] = (struct map){ .addr = ptr, .bytes = bytes, .index = (uint32_t)(p - physicals) };
		p->maps++;
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

/* The range has to be made of whole mappings. */
CUresult cuMemUnmap(CUdeviceptr ptr, size_t bytes)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	uint64_t at = ptr;
	size_t first, n = 0;

	pthread_mutex_lock(&lock);
	first = map_after(ptr);
	while (first + n < map_len && maps[first + n].addr == at && at < ptr + bytes)
		at += maps[first + n++].bytes;
	if (n && at == ptr + bytes) {
		for (size_t i = first; i < first + n; i++) {
			physicals[maps[i].index].maps--;
			physical_put(&physicals[maps[i].index]);
		}
		for (size_t i = first; i + n < map_len; i++)
			maps[i] = maps[i + n];
		map_len -= n;
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *desc, size_t count)
{
	bool is_mapped;
	size_t i;

	if (!out_is_plausible(desc) || !count || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	i = map_after(ptr);
	is_mapped = i < map_len && maps[i].addr <= ptr;
	pthread_mutex_unlock(&lock);
	return is_mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void vmm_totals(struct fake_gpu_totals *t)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < physical_len; i++) {
		const struct physical *p = &physicals[i];
		unsigned int class = p->device >= 0 ? CLASS_PHYSICAL : CLASS_HOST;

		if (!p->bytes)
			continue;
		t->live_bytes[class] += p->bytes;
		t->live_count[class]++;
		if (p->device >= 0)
			t->device_bytes[p->device] += p->bytes;
	}
	pthread_mutex_unlock(&lock);
}
