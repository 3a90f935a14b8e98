/* SPDX-License-Identifier: MIT */
/* Physical memory by handle, and where it is mapped. Bytes live until the handle is released and unmapped everywhere. */
#include <pthread.h>
#include <stdlib.h>

#include "libcuda_vmm.h"

#define RESERVE_BASE 0x080000000000ull /* address space to map into: 8 TiB below the arena of blocks */
#define RESERVE_END 0x100000000000ull
#define HANDLE_BASE 0x100000000000ull /* numbers that pointers have too: only the kind tells them apart */

struct map {
	uint64_t addr, bytes;
	uint32_t index; /* of the physical memory */
};

struct range {
	uint64_t addr, bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct physical *physicals;
static uint32_t first_free = PLACE_NONE; /* the last that ended: its handle is the next to be handed out */
static size_t physical_len, physical_cap;
static uint64_t next_serial;
static struct map *maps; /* ascending by address */
static size_t map_len, map_cap;
static struct range *ranges;
static size_t range_len, range_cap;
static uint64_t next_range = RESERVE_BASE;

void vmm_lock(void)
{
	pthread_mutex_lock(&lock);
}

void vmm_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

struct physical *physical_of(uint64_t handle)
{
	uint64_t i = (handle - HANDLE_BASE) >> 9;

	if (handle < HANDLE_BASE || handle & 511 || i >= physical_len || !physicals[i].bytes || !physicals[i].is_live)
		return NULL;
	return &physicals[i];
}

struct physical *physical_at(uint32_t place)
{
	return &physicals[place];
}

uint32_t physical_place(const struct physical *p)
{
	return (uint32_t)(p - physicals);
}

static uint64_t handle_of(const struct physical *p)
{
	return HANDLE_BASE + ((uint64_t)(p - physicals) << 9);
}

void physical_put(struct physical *p)
{
	if (p->is_live) {
		if (p->refs || p->maps || p->binds)
			return;
		p->is_live = false;
		block_count_free();
		if (p->kind == PHYSICAL_MULTICAST)
			multicast_ended(physical_place(p));
		if (p->origin != PLACE_NONE) {
			physicals[p->origin].imports--;
			physical_put(&physicals[p->origin]);
		}
	}
	if (p->imports)
		return;
	if (p->device >= 0 && p->kind == PHYSICAL_CREATED)
		device_uncharge(p->device, p->bytes);
	p->bytes = 0;
	p->next_free = first_free;
	first_free = physical_place(p);
}

struct physical *physical_new(const struct physical *what, uint64_t *ret_handle)
{
	struct physical *p = physicals;

	if (first_free != PLACE_NONE) {
		p += first_free;
		first_free = p->next_free;
	} else {
		p = array_grow(p, physical_len, sizeof(*p), &physical_cap);
		if (!p)
			return NULL;
		physicals = p;
		p += physical_len++;
	}
	*p = *what;
	p->serial = ++next_serial;
	p->refs = 1;
	p->is_live = true;
	*ret_handle = handle_of(p);
	return p;
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
	struct physical what = { .kind = PHYSICAL_CREATED, .origin = PLACE_NONE, .bytes = bytes, .device = -1 };
	CUresult r = driver_ready();
	uint64_t made = 0;

	if (r)
		return fail(r);
	if (!out_is_plausible(handle) || !out_is_plausible(prop) || flags || !bytes || bytes % GRANULARITY ||
	    prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return fail(CUDA_ERROR_INVALID_VALUE);
	if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE && device_is_valid(prop->location.id))
		what.device = prop->location.id;
	else if (prop->location.type < CU_MEM_LOCATION_TYPE_HOST || prop->location.type > 4)
		return fail(CUDA_ERROR_INVALID_DEVICE);
	what.may_share = prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	if (what.device >= 0 ? !device_charge(what.device, bytes) : bytes > 1ull << 40)
		return fail(CUDA_ERROR_OUT_OF_MEMORY);
	vmm_lock();
	if (physical_new(&what, &made))
		*handle = made;
	vmm_unlock();
	if (!made && what.device >= 0)
		device_uncharge(what.device, bytes);
	if (!made)
		return fail(CUDA_ERROR_OUT_OF_MEMORY);
	block_count_alloc();
	return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct physical *p;
	CUresult r = driver_ready();

	if (r) {
		block_count_free_fail();
		return r;
	}
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

	if (driver_ready() || !out_is_plausible(handle))
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
	r = array_grow(ranges, range_len, sizeof(*r), &range_cap);
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

/* With the lock. i: the first mapping that ends after ptr. */
static CUresult map_check(const struct physical *p, uint64_t ptr, uint64_t bytes, uint64_t offset, size_t i)
{
	if (!p || offset > p->bytes || bytes > p->bytes - offset || !range_of(ptr, bytes) ||
	    (i < map_len && maps[i].addr < ptr + bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (p->kind == PHYSICAL_IMPORTED && bytes != p->bytes)
		return CUDA_ERROR_NOT_SUPPORTED; /* all of it or nothing */
	return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	struct physical *p;
	struct map *m;
	size_t i;

	if (driver_ready() || offset % GRANULARITY || flags || !bytes || bytes % GRANULARITY || ptr % GRANULARITY)
		return r;
	pthread_mutex_lock(&lock);
	p = physical_of(handle);
	i = map_after(ptr);
	m = array_grow(maps, map_len, sizeof(*m), &map_cap);
	if (m)
		maps = m;
	if (m)
		r = map_check(p, ptr, bytes, offset, i);
	if (!r) {
		for (size_t k = map_len++; k > i; k--)
			maps[k] = maps[k - 1];
		maps[i] = (struct map){ .addr = ptr, .bytes = bytes, .index = (uint32_t)(p - physicals) };
		p->maps++;
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

	if (driver_ready())
		return r;
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

struct physical *physical_mapped(uint64_t addr, uint64_t bytes)
{
	size_t i = map_after(addr);

	if (i == map_len || maps[i].addr > addr || bytes > maps[i].bytes - (addr - maps[i].addr))
		return NULL;
	return &physicals[maps[i].index];
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle, int type,
				      unsigned long long flags)
{
	CUresult r = driver_ready();
	struct physical *p;
	struct token t;
	int fd;

	if (r)
		return r;
	if (!out_is_plausible(shareable) || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags)
		return CUDA_ERROR_INVALID_VALUE;
	vmm_lock();
	p = physical_of(handle);
	if (p && p->may_share) {
		token_init(&t, TOKEN_PHYSICAL, p->device);
		t.place = physical_place(p);
		t.serial = p->serial;
		t.bytes = p->bytes;
		t.number = p->kind == PHYSICAL_MULTICAST;
	} else {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	vmm_unlock();
	if (r)
		return r;
	fd = token_export(&t);
	if (fd < 0)
		return CUDA_ERROR_UNKNOWN;
	*(int *)shareable = fd;
	return CUDA_SUCCESS;
}

/* With the lock: the place of what was exported here, as long as anything of it is there. */
static uint32_t origin_of(const struct token *t)
{
	if (!token_is_own(t) || t->place >= physical_len || !physicals[t->place].bytes ||
	    physicals[t->place].serial != t->serial)
		return PLACE_NONE;
	return (uint32_t)t->place;
}

/* Each import is a handle of its own, and no memory of this process. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable, int type)
{
	struct physical what = { .kind = PHYSICAL_IMPORTED, .may_share = true };
	CUresult r = driver_ready();
	uint64_t made = 0;
	struct token t;

	if (r)
		return fail(r);
	if (!out_is_plausible(handle) || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !token_import((int)(intptr_t)shareable, TOKEN_PHYSICAL, &t) || !t.bytes || t.bytes % GRANULARITY)
		return fail(CUDA_ERROR_INVALID_VALUE);
	what.bytes = t.bytes;
	what.device = device_ordinal(t.device);
	if (t.number)
		what.kind = PHYSICAL_MULTICAST;
	vmm_lock();
	what.origin = origin_of(&t);
	if (physical_new(&what, &made)) {
		*handle = made;
		if (what.origin != PLACE_NONE)
			physicals[what.origin].imports++;
	}
	vmm_unlock();
	if (!made)
		return fail(CUDA_ERROR_OUT_OF_MEMORY);
	block_count_alloc();
	return CUDA_SUCCESS;
}

void vmm_totals(struct fake_gpu_totals *t)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < physical_len; i++) {
		const struct physical *p = &physicals[i];
		unsigned int class = p->device >= 0 ? CLASS_PHYSICAL : CLASS_HOST;

		if (!p->bytes || !p->is_live)
			continue;
		if (p->kind != PHYSICAL_CREATED) { /* others' bytes */
			t->live_count[CLASS_IMPORTED]++;
			continue;
		}
		t->live_bytes[class] += p->bytes;
		t->live_count[class]++;
		if (p->device >= 0)
			t->device_bytes[p->device] += p->bytes;
	}
	pthread_mutex_unlock(&lock);
}
