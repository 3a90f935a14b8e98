/* SPDX-License-Identifier: MIT */
/*
 * What has a handle: physical memory, where it is mapped, what it is bound to; handles of others; external memory.
 * Physical memory lives until it is released, unmapped everywhere and unbound.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "random_ops.h"

CUresult physical_create(uint64_t bytes, int device, bool is_shared, CUmemGenericAllocationHandle *ret)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = is_shared ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0,
		.location = { .type = device < 0 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
			      .id = device < 0 ? 0 : device },
	};

	return cuMemCreate(ret, bytes, &prop, 0);
}

static void map_at(CUdeviceptr va, uint64_t bytes, uint64_t handle, int device)
{
	CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device < 0 ? 0 : device },
				   .flags = 3 };

	MUST(cuMemMap(va, bytes, 0, handle, 0));
	MUST(cuMemSetAccess(va, bytes, &access, 1));
}

/* One more mapping of all of it. */
void handle_map(struct worker *w, struct item *it)
{
	unsigned int n = it->maps;

	(void)w;
	if (n == MAPS_MAX || !it->refs)
		return;
	it->va_bytes[n] = it->bytes;
	MUST(cuMemAddressReserve(&it->va[n], it->va_bytes[n], 0, 0, 0));
	map_at(it->va[n], it->va_bytes[n], it->addr, it->device);
	it->maps++;
}

static void unmap_last(struct item *it)
{
	unsigned int n = --it->maps;

	MUST(cuMemUnmap(it->va[n], it->va_bytes[n]));
	MUST(cuMemAddressFree(it->va[n], it->va_bytes[n]));
}

void alloc_physical(struct worker *w)
{
	struct item it = { .kind = ITEM_PHYSICAL, .class = CLASS_PHYSICAL, .refs = 1 };
	CUmemGenericAllocationHandle h = 0;
	CUresult r;

	/* -1: host memory by the same call */
	it.device = is_real || below(w, 16) ? (int)below(w, (uint64_t)device_count) : -1;
	if (it.device < 0)
		it.class = CLASS_HOST;
	it.bytes = 2 * MIB * (1 + below(w, 8));
	r = physical_create(it.bytes, it.device, false, &h);
	it.addr = h;
	if (booked(w, r, &it) && below(w, 4))
		handle_map(w, &w->items[w->len - 1]);
}

/* Two handles side by side in one range. Kept as one item, of two blocks. */
void alloc_pair(struct worker *w)
{
	struct item it = { .kind = ITEM_PAIR, .class = CLASS_PHYSICAL, .device = device_of(w), .refs = 1 };
	CUmemGenericAllocationHandle a = 0, b = 0;
	CUresult r;

	it.bytes = 2 * MIB;
	r = physical_create(it.bytes, it.device, false, &a);
	it.addr = a;
	if (!booked(w, r, &it))
		return;
	r = physical_create(it.bytes, it.device, false, &b);
	if (r) { /* stays a single one */
		books_fail();
		w->items[w->len - 1].kind = ITEM_PHYSICAL;
		return;
	}
	books_alloc(it.class, it.bytes, it.device);
	it.other = b;
	it.va_bytes[0] = 2 * it.bytes;
	MUST(cuMemAddressReserve(&it.va[0], it.va_bytes[0], 0, 0, 0));
	map_at(it.va[0], it.bytes, a, it.device);
	map_at(it.va[0] + it.bytes, it.bytes, b, it.device);
	it.maps = 1;
	w->items[w->len - 1] = it;
}

/* A handle that is held or mapped once more. */
void physical_more(struct worker *w)
{
	struct item *it = &w->items[below(w, w->len)];
	CUmemGenericAllocationHandle h = 0;

	if (it->kind != ITEM_PHYSICAL || it->is_kept)
		return;
	if (below(w, 2)) {
		handle_map(w, it);
	} else if (it->maps) {
		MUST(cuMemRetainAllocationHandle(&h, (void *)(uintptr_t)it->va[0]));
		if (h != it->addr)
			die("cuMemRetainAllocationHandle: another handle");
		it->refs++;
	}
}

/* What this process itself exported comes back as a handle with a life of its own. */
void alloc_import(struct worker *w)
{
	struct item it = { .kind = ITEM_IMPORT, .class = CLASS_IMPORTED, .device = device_of(w), .refs = 1 };
	struct item own = { .kind = ITEM_PHYSICAL, .class = CLASS_PHYSICAL, .device = it.device, .refs = 1 };
	CUmemGenericAllocationHandle h = 0, imported = 0;
	int fd = -1;
	CUresult r;

	own.bytes = 2 * MIB * (1 + below(w, 4));
	r = physical_create(own.bytes, own.device, true, &h);
	own.addr = h;
	if (!booked(w, r, &own))
		return;
	MUST(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	r = cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	close(fd);
	if (!r && imported == h) { /* one more reference to what it is */
		w->items[w->len - 1].refs++;
		return;
	}
	it.addr = imported;
	it.other = own.bytes;
	booked(w, r, &it);
}

/* Its buffer and its array are blocks of their own, of no bytes that are not counted already. */
void alloc_external(struct worker *w)
{
	struct item it = { .kind = ITEM_EXTERNAL, .class = CLASS_IMPORTED };
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = { .type = 1, .size = 2 * MIB * (1 + below(w, 4)) };
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = { .size = 4096 * (1 + below(w, 256)) };
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC array = {
		.arrayDesc = { .Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 },
		.numLevels = 1,
	};
	CUmipmappedArray a = NULL;
	CUexternalMemory ext = NULL;
	CUdeviceptr p = 0;
	CUresult r;

	desc.handle.fd = memfd_create("external", MFD_CLOEXEC);
	if (desc.handle.fd < 0 || ftruncate(desc.handle.fd, (off_t)desc.size))
		die("memfd_create");
	r = cuImportExternalMemory(&ext, &desc);
	if (r)
		close(desc.handle.fd); /* else the driver's */
	it.device = device_of(w);
	it.owner = owner_of(w);
	it.bytes = desc.size;
	it.addr = (uintptr_t)ext;
	if (!booked(w, r, &it))
		return;
	if (below(w, 2)) {
		MUST(cuExternalMemoryGetMappedBuffer(&p, ext, &buffer));
		books_alloc(CLASS_IMPORTED, 0, it.device);
		w->items[w->len - 1].other = p;
	}
	if (below(w, 2)) {
		MUST(cuExternalMemoryGetMappedMipmappedArray(&a, ext, &array));
		books_alloc(CLASS_IMPORTED, 0, it.device);
		w->items[w->len - 1].third = (uintptr_t)a;
	}
}

/* An object without memory, and memory of its own bound to it by handle or by address. Kept as one item of two blocks,
 * the object (addr) and the memory (other). */
void alloc_multicast(struct worker *w)
{
	CUmulticastObjectProp prop = { .numDevices = 1, .size = 2 * MIB * (1 + below(w, 4)),
				       .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR };
	struct item it = { .kind = ITEM_MULTICAST, .class = CLASS_IMPORTED, .device = device_of(w), .refs = 1 };
	CUmemGenericAllocationHandle mc = 0, h = 0;
	bool by_address = below(w, 2);
	CUresult r;

	r = cuMulticastCreate(&mc, &prop);
	it.addr = mc;
	if (!booked(w, r, &it))
		return;
	MUST(cuMulticastAddDevice(mc, it.device));
	r = physical_create(prop.size, it.device, false, &h);
	if (r) { /* it stays empty */
		books_fail();
		return;
	}
	books_alloc(CLASS_PHYSICAL, prop.size, it.device);
	it.other = h;
	it.va_bytes[0] = prop.size;
	if (by_address) {
		MUST(cuMemAddressReserve(&it.va[0], prop.size, 0, 0, 0));
		map_at(it.va[0], prop.size, h, it.device);
		it.maps = 1;
		MUST(cuMulticastBindAddr(mc, 0, it.va[0], prop.size, 0));
	} else {
		MUST(cuMulticastBindMem(mc, 0, h, 0, prop.size, 0));
	}
	w->items[w->len - 1] = it;
}

static bool pair_step(struct worker *w, struct item *it)
{
	if (it->refs && (!it->maps || below(w, 2))) {
		MUST(cuMemRelease(it->addr));
		MUST(cuMemRelease(it->other));
		it->refs = 0;
	} else {
		unmap_last(it);
	}
	if (it->refs || it->maps)
		return false;
	books_free(it->class, it->bytes, it->device);
	return true;
}

/* First what is mapped from it: a driver has no use for the rest then. */
static bool external_step(struct item *it)
{
	if (it->other) {
		MUST(cuMemFree_v2(it->other));
		it->other = 0;
	} else if (it->third) {
		MUST(cuMipmappedArrayDestroy((CUmipmappedArray)(uintptr_t)it->third));
		it->third = 0;
	} else {
		MUST(cuDestroyExternalMemory((CUexternalMemory)(uintptr_t)it->addr));
		return true;
	}
	books_free(CLASS_IMPORTED, 0, it->device);
	return false;
}

/* The memory is released while it is bound, and unmapped, and lives until it is unbound; or the other way round. */
static bool multicast_step(struct worker *w, struct item *it)
{
	bool is_bound = it->other && it->va_bytes[0];

	if (it->other && it->refs && below(w, 2)) {
		MUST(cuMemRelease(it->other));
		it->refs = 0;
	} else if (it->maps && below(w, 2)) {
		unmap_last(it);
	} else if (is_bound && !it->third) {
		MUST(cuMulticastUnbind(it->addr, it->device, 0, it->va_bytes[0]));
		it->third = 1; /* unbound */
	} else if (it->maps) {
		unmap_last(it);
	} else if (it->other && it->refs) {
		MUST(cuMemRelease(it->other));
		it->refs = 0;
	} else if (!it->other) {
		MUST(cuMemRelease(it->addr));
		return true;
	}
	if (it->other && !it->refs && !it->maps && it->third) {
		books_free(CLASS_PHYSICAL, it->va_bytes[0], it->device);
		it->other = 0;
	}
	return false;
}

/* A handle from elsewhere, of no bytes in the books: how many they are (other) is the exporter's to say. */
static bool import_step(struct worker *w, struct item *it)
{
	if (it->refs && !it->maps && it->other && below(w, 2)) {
		it->va_bytes[0] = it->other;
		MUST(cuMemAddressReserve(&it->va[0], it->other, 0, 0, 0));
		map_at(it->va[0], it->other, it->addr, it->device);
		it->maps = 1;
		it->other = 0; /* once is enough */
		return false;
	}
	if (it->refs && (!it->maps || below(w, 2))) {
		MUST(cuMemRelease(it->addr));
		it->refs = 0;
	} else {
		unmap_last(it);
	}
	return !it->refs && !it->maps;
}

bool handle_step(struct worker *w, struct item *it)
{
	switch (it->kind) {
	case ITEM_PAIR:
		return pair_step(w, it);
	case ITEM_EXTERNAL:
		return external_step(it);
	case ITEM_MULTICAST:
		return multicast_step(w, it);
	case ITEM_IMPORT:
		return import_step(w, it);
	default:
		break;
	}
	if (it->refs && (!it->maps || below(w, 2))) {
		MUST(cuMemRelease(it->addr));
		it->refs--;
	} else {
		unmap_last(it);
	}
	return !it->refs && !it->maps;
}
