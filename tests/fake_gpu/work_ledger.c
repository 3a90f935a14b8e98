/* SPDX-License-Identifier: MIT */
/*
 * Random operations over all classes and calls, and an exact ledger of them. --seed N --ops N (of all threads together)
 * --threads N --live N (blocks a thread keeps) --arrays (cuArray* too) --reset (contexts destroyed and reset near the end);
 * --pause-at N prints the ledger after N operations and waits for a line; the end does the same if asked to. The stand-in's
 * own totals are compared with the ledger each time it is printed.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

#define MIB (1ull << 20)
#define PAGE_BYTES 4096u
#define MAPS_MAX 3

enum item_kind {
	ITEM_POINTER,	 /* cuMemFree */
	ITEM_HOST,	 /* cuMemFreeHost */
	ITEM_REGISTERED, /* cuMemHostUnregister */
	ITEM_ASYNC,	 /* cuMemFreeAsync and its kin */
	ITEM_ARRAY,
	ITEM_PHYSICAL, /* one handle, mapped up to MAPS_MAX times */
	ITEM_PAIR,     /* two handles in one range, unmapped in one call */
};

struct item {
	enum item_kind kind;
	unsigned int class;
	int device; /* it is charged to */
	int ctx;    /* device whose primary context it goes with, -1 = none */
	uint64_t bytes;
	uint64_t addr; /* pointer or handle */
	uint64_t other; /* second handle of a pair */
	CUdeviceptr va[MAPS_MAX];
	unsigned int refs, maps;
	void *pages; /* registered ones */
};

struct worker {
	pthread_t thread;
	struct ledger books;
	struct item *items;
	size_t len;
	uint64_t rng, ops;
	int device; /* current */
};

static uint64_t seed = 1, total_ops = 20000, thread_count = 1, live_max = 256, pause_at;
static bool with_arrays, with_reset;
static int device_count;
static CUcontext primary[FAKE_GPU_MAX];
static CUmemoryPool pools[2 * FAKE_GPU_MAX]; /* default pools, then one made by us for each device */

static uint64_t below(struct worker *w, uint64_t n)
{
	return random_next(&w->rng) % n;
}

/* Books the result of an allocation call; running out of memory is a result like any other. */
static bool booked(struct worker *w, CUresult r, uint64_t addr, const struct item *item)
{
	if (r) {
		if (r != CUDA_ERROR_OUT_OF_MEMORY)
			die("an allocation that should succeed returned %d (kind %d)", r, item->kind);
		w->books.fail_count++;
		return false;
	}
	ledger_alloc(&w->books, item->class, item->bytes, item->device);
	w->items[w->len] = *item;
	w->items[w->len++].addr = addr;
	return true;
}

static void alloc_plain(struct worker *w, unsigned int class)
{
	struct item it = { .kind = ITEM_POINTER, .class = class, .device = w->device, .ctx = w->device };
	bool is_managed = class == CLASS_MANAGED;
	CUdeviceptr p = 0;
	CUresult r;

	it.bytes = random_size(&w->rng, is_managed ? 34 : 25); /* managed memory may be more than the device has */
	r = is_managed ? cuMemAllocManaged(&p, it.bytes, CU_MEM_ATTACH_GLOBAL) : cuMemAlloc_v2(&p, it.bytes);
	booked(w, r, p, &it);
}

static void alloc_device(struct worker *w)
{
	alloc_plain(w, CLASS_DEVICE);
}

static void alloc_managed(struct worker *w)
{
	alloc_plain(w, CLASS_MANAGED);
}

static void alloc_pitch(struct worker *w)
{
	struct item it = { .kind = ITEM_POINTER, .class = CLASS_DEVICE, .device = w->device, .ctx = w->device };
	size_t pitch = 0, width = random_size(&w->rng, 13), height = 1 + below(w, 500);
	CUdeviceptr p = 0;
	CUresult r = cuMemAllocPitch_v2(&p, &pitch, width, height, 4u << below(w, 3));

	it.bytes = pitch * height;
	booked(w, r, p, &it);
}

static void alloc_host(struct worker *w)
{
	struct item it = { .kind = ITEM_HOST, .class = CLASS_HOST, .device = w->device, .ctx = w->device };
	void *p = NULL;
	CUresult r;

	it.bytes = random_size(&w->rng, 26);
	r = below(w, 2) ? cuMemHostAlloc(&p, it.bytes, 0) : cuMemAllocHost_v2(&p, it.bytes);
	booked(w, r, (uintptr_t)p, &it);
}

static void alloc_registered(struct worker *w)
{
	struct item it = { .kind = ITEM_REGISTERED, .class = CLASS_HOST, .device = w->device, .ctx = w->device };
	size_t bytes = PAGE_BYTES * (1 + below(w, 16));
	CUresult r;

	it.pages = aligned_alloc(PAGE_BYTES, bytes);
	if (!it.pages)
		die("out of memory");
	it.bytes = bytes - below(w, PAGE_BYTES);
	r = cuMemHostRegister_v2(it.pages, it.bytes, 0);
	if (!booked(w, r, (uintptr_t)it.pages, &it))
		free(it.pages);
}

static void alloc_async(struct worker *w)
{
	struct item it = { .kind = ITEM_ASYNC, .class = CLASS_ASYNC, .device = w->device, .ctx = -1 };
	CUmemoryPool pool;
	CUdeviceptr p = 0;
	CUresult r;

	it.bytes = random_size(&w->rng, 24);
	if (below(w, 2)) {
		r = below(w, 2) ? cuMemAllocAsync(&p, it.bytes, NULL) : cuMemAllocAsync_ptsz(&p, it.bytes, NULL);
	} else { /* a pool's memory lies on the pool's device, whatever is current */
		it.device = (int)below(w, (uint64_t)device_count);
		pool = pools[it.device + (below(w, 2) ? FAKE_GPU_MAX : 0)];
		r = below(w, 2) ? cuMemAllocFromPoolAsync(&p, it.bytes, pool, NULL)
				: cuMemAllocFromPoolAsync_ptsz(&p, it.bytes, pool, NULL);
	}
	booked(w, r, p, &it);
}

static void alloc_array(struct worker *w)
{
	struct item it = { .kind = ITEM_ARRAY, .class = CLASS_ARRAY, .device = w->device, .ctx = w->device };
	CUDA_ARRAY3D_DESCRIPTOR d3 = { .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1u << below(w, 3) };
	CUDA_ARRAY_DESCRIPTOR d2 = { .Format = CU_AD_FORMAT_FLOAT, .NumChannels = d3.NumChannels };
	CUarray a = NULL;
	CUresult r;

	d2.Width = d3.Width = 1 + below(w, 300);
	d2.Height = d3.Height = below(w, 300);
	d3.Depth = d3.Height ? below(w, 4) : 0;
	it.bytes = d3.Width * (d3.Height ? d3.Height : 1) * 4 * d3.NumChannels;
	if (below(w, 2)) {
		it.bytes *= d3.Depth ? d3.Depth : 1;
		r = cuArray3DCreate_v2(&a, &d3);
	} else {
		r = cuArrayCreate_v2(&a, &d2);
	}
	booked(w, r, (uintptr_t)a, &it);
}

static CUresult create(uint64_t bytes, int device, CUmemGenericAllocationHandle *ret)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = device < 0 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
			      .id = device < 0 ? 0 : device },
	};

	return cuMemCreate(ret, bytes, &prop, 0);
}

static void map_at(CUdeviceptr va, uint64_t bytes, uint64_t handle)
{
	CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE }, .flags = 3 };

	MUST(cuMemMap(va, bytes, 0, handle, 0));
	MUST(cuMemSetAccess(va, bytes, &access, 1));
}

static void physical_map(struct item *it)
{
	if (it->maps == MAPS_MAX || !it->refs)
		return;
	MUST(cuMemAddressReserve(&it->va[it->maps], it->bytes, 0, 0, 0));
	map_at(it->va[it->maps++], it->bytes, it->addr);
}

static void alloc_physical(struct worker *w)
{
	struct item it = { .kind = ITEM_PHYSICAL, .class = CLASS_PHYSICAL, .ctx = -1, .refs = 1 };
	CUmemGenericAllocationHandle h = 0;
	CUresult r;

	it.device = below(w, 16) ? (int)below(w, (uint64_t)device_count) : -1; /* -1: host memory by the same call */
	if (it.device < 0)
		it.class = CLASS_HOST;
	it.bytes = 2 * MIB * (1 + below(w, 8));
	r = create(it.bytes, it.device, &h);
	if (booked(w, r, h, &it) && below(w, 4))
		physical_map(&w->items[w->len - 1]);
}

/* Two handles side by side in one range. Booked as one item, of two blocks. */
static void alloc_pair(struct worker *w)
{
	struct item it = { .kind = ITEM_PAIR, .class = CLASS_PHYSICAL, .device = w->device, .ctx = -1, .refs = 1 };
	CUmemGenericAllocationHandle a = 0, b = 0;
	CUresult r;

	it.bytes = 2 * MIB;
	r = create(it.bytes, it.device, &a);
	it.addr = a;
	if (!booked(w, r, a, &it))
		return;
	r = create(it.bytes, it.device, &b);
	if (r) { /* stays a single one */
		w->books.fail_count++;
		w->items[w->len - 1].kind = ITEM_PHYSICAL;
		return;
	}
	ledger_alloc(&w->books, it.class, it.bytes, it.device);
	it.other = b;
	MUST(cuMemAddressReserve(&it.va[0], 2 * it.bytes, 0, 0, 0));
	map_at(it.va[0], it.bytes, a);
	map_at(it.va[0] + it.bytes, it.bytes, b);
	it.maps = 1;
	w->items[w->len - 1] = it;
}

/* One step towards the end: a reference or a mapping less. True when it was the last. */
static bool physical_step(struct worker *w, struct item *it)
{
	if (it->refs && (!it->maps || below(w, 2))) {
		MUST(cuMemRelease(it->addr));
		it->refs--;
	} else {
		it->maps--;
		MUST(cuMemUnmap(it->va[it->maps], it->bytes));
		MUST(cuMemAddressFree(it->va[it->maps], it->bytes));
	}
	return !it->refs && !it->maps;
}

static bool pair_step(struct worker *w, struct item *it)
{
	if (it->refs && (!it->maps || below(w, 2))) {
		MUST(cuMemRelease(it->addr));
		MUST(cuMemRelease(it->other));
		it->refs = 0;
	} else {
		MUST(cuMemUnmap(it->va[0], 2 * it->bytes));
		MUST(cuMemAddressFree(it->va[0], 2 * it->bytes));
		it->maps = 0;
	}
	if (it->refs || it->maps)
		return false;
	ledger_free(&w->books, it->class, it->bytes, it->device);
	return true;
}

static CUresult async_free(struct worker *w, uint64_t addr)
{
	const uint64_t way = below(w, 3);

	if (way == 0)
		return cuMemFreeAsync(addr, NULL);
	return way == 1 ? cuMemFreeAsync_ptsz(addr, NULL) : cuMemFree_v2(addr); /* the last is allowed too */
}

static CUresult free_call(struct worker *w, const struct item *it)
{
	switch (it->kind) {
	case ITEM_POINTER:
		return cuMemFree_v2(it->addr);
	case ITEM_HOST:
		return cuMemFreeHost((void *)(uintptr_t)it->addr);
	case ITEM_REGISTERED:
		return cuMemHostUnregister((void *)(uintptr_t)it->addr);
	case ITEM_ASYNC:
		return async_free(w, it->addr);
	case ITEM_ARRAY:
		return cuArrayDestroy((CUarray)(uintptr_t)it->addr);
	case ITEM_PHYSICAL:
	case ITEM_PAIR:
		return cuMemRelease(it->addr);
	}
	return CUDA_ERROR_UNKNOWN;
}

static void item_step(struct worker *w, size_t i)
{
	struct item *it = &w->items[i], was;

	if (it->kind == ITEM_PHYSICAL || it->kind == ITEM_PAIR) {
		if (!(it->kind == ITEM_PAIR ? pair_step(w, it) : physical_step(w, it)))
			return;
	} else {
		MUST(free_call(w, it));
	}
	ledger_free(&w->books, it->class, it->bytes, it->device);
	was = *it;
	w->items[i] = w->items[--w->len];
	/* Once more, at once: nobody else can have been given the address while this is the only thread. */
	if (thread_count == 1 && !below(w, 8)) {
		if (!free_call(w, &was))
			die("a second free succeeded (kind %d)", was.kind);
		w->books.free_fail_count++;
	}
	free(was.pages);
}

/* A handle that is held or mapped once more. */
static void physical_more(struct worker *w)
{
	struct item *it = &w->items[below(w, w->len)];
	CUmemGenericAllocationHandle h = 0;

	if (it->kind != ITEM_PHYSICAL)
		return;
	if (below(w, 2)) {
		physical_map(it);
	} else if (it->maps) {
		MUST(cuMemRetainAllocationHandle(&h, (void *)(uintptr_t)it->va[0]));
		if (h != it->addr)
			die("cuMemRetainAllocationHandle: another handle");
		it->refs++;
	}
}

/* Allocations that must fail, each in its own way. */
static void alloc_fails(struct worker *w)
{
	CUmemGenericAllocationHandle h;
	size_t pitch;
	CUdeviceptr p;
	void *host;
	CUresult r;

	switch (below(w, 9)) {
	case 0:
		r = cuMemAlloc_v2(&p, (64ull << 40) + below(w, MIB));
		break;
	case 1:
		r = cuMemAlloc_v2(&p, 0);
		break;
	case 2:
		r = cuMemAllocAsync(&p, ~0ull - below(w, 64), NULL);
		break;
	case 3:
		r = create(2ull << 40, 0, &h);
		break;
	case 4:
		r = create(2 * MIB, 99, &h);
		break;
	case 5:
		r = cuMemAllocPitch_v2(&p, &pitch, 1ull << 40, 1ull << 40, 4);
		break;
	case 6:
		r = cuMemAlloc_v2(NULL, 4096);
		break;
	case 7:
		r = cuMemHostAlloc(&host, 1ull << 62, 0);
		break;
	default:
		r = cuMemAllocFromPoolAsync(&p, 1ull << 50, pools[0], NULL);
	}
	if (!r)
		die("an allocation that should fail succeeded");
	w->books.fail_count++;
}

/* Frees of what was never handed out: the stand-in's addresses are multiples of 512. */
static void free_nothing(struct worker *w)
{
	uint64_t addr = (random_next(&w->rng) >> 17) | 1;
	CUresult r;

	switch (below(w, 6)) {
	case 0:
		r = cuMemFree_v2(addr);
		break;
	case 1:
		r = cuMemFreeHost((void *)(uintptr_t)addr);
		break;
	case 2:
		r = cuMemFreeAsync(addr, NULL);
		break;
	case 3:
		r = cuMemRelease(addr);
		break;
	case 4:
		r = cuMemHostUnregister((void *)(uintptr_t)addr);
		break;
	default:
		MUST(cuMemFree_v2(0));
		w->books.null_free_count++;
		return;
	}
	if (!r)
		die("a free of nothing succeeded");
	w->books.free_fail_count++;
}

static void switch_device(struct worker *w)
{
	CUcontext was;
	int before = w->device, got;

	w->device = (int)below(w, (uint64_t)device_count);
	if (below(w, 2)) {
		MUST(cuCtxSetCurrent(primary[w->device]));
		return;
	}
	MUST(cuCtxPushCurrent_v2(primary[w->device]));
	MUST(cuCtxGetDevice(&got));
	if (got != w->device)
		die("cuCtxGetDevice: %d", got);
	if (w->len < live_max)
		alloc_device(w);
	MUST(cuCtxPopCurrent_v2(&was));
	w->device = before;
}

static void step(struct worker *w)
{
	static void (*const allocs[])(struct worker *) = { alloc_device,     alloc_device, alloc_pitch,
							   alloc_managed,    alloc_host,   alloc_registered,
							   alloc_async,	     alloc_async,  alloc_physical,
							   alloc_pair,	     alloc_array };
	uint64_t what = below(w, 100);

	if (what < 4)
		alloc_fails(w);
	else if (what < 7)
		free_nothing(w);
	else if (what < 12)
		switch_device(w);
	else if (what < 17 && w->len)
		physical_more(w);
	else if (w->len && (w->len == live_max || what < 55))
		item_step(w, below(w, w->len));
	else
		allocs[below(w, with_arrays ? 11 : 10)](w);
}

static void *worker_run(void *arg)
{
	struct worker *w = arg;

	MUST(cuCtxSetCurrent(primary[w->device]));
	for (uint64_t i = 0; i < w->ops; i++)
		step(w);
	return NULL;
}

/* ops operations, shared out; the main thread works when there is only one, so that its stack is seen too. */
static void run(struct worker *workers, uint64_t ops)
{
	for (uint64_t i = 0; i < thread_count; i++)
		workers[i].ops = ops / thread_count;
	if (thread_count == 1) {
		worker_run(workers);
		return;
	}
	for (uint64_t i = 0; i < thread_count; i++)
		if (pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]))
			die("pthread_create");
	for (uint64_t i = 0; i < thread_count; i++)
		pthread_join(workers[i].thread, NULL);
	/* What one thread allocated another one frees. */
	for (uint64_t i = 0; i < thread_count; i++)
		for (size_t k = workers[i].len; k-- > 0;)
			if (k % 3 == 0)
				item_step(&workers[i], k);
}

/* Books the end of the items from first on that went with the primary context of a device, -1: with any context. */
static void sweep(struct worker *w, size_t first, int device)
{
	for (size_t k = w->len; k-- > first;) {
		struct item *it = &w->items[k];

		if (it->ctx < 0 || (device >= 0 && it->ctx != device))
			continue;
		ledger_sweep(&w->books, it->class, it->bytes, it->device);
		free(it->pages);
		w->items[k] = w->items[--w->len];
	}
}

/* A context of our own on the first device, some memory of each class under it, and its end. */
static void context_life(struct worker *w)
{
	CUcontext ctx, was;
	size_t before = w->len;

	if (before + 16 > live_max)
		return;
	MUST(cuCtxGetCurrent(&was));
	MUST(cuCtxCreate_v2(&ctx, 0, 0));
	w->device = 0;
	for (int i = 0; i < 14; i++) {
		static void (*const allocs[])(struct worker *) = {
			alloc_device, alloc_pitch, alloc_managed, alloc_host, alloc_registered, alloc_physical, alloc_async,
		};

		allocs[i % 7](w); /* the last two outlive the context */
	}
	MUST(cuCtxDestroy_v2(ctx));
	sweep(w, before, -1);
	MUST(cuCtxSetCurrent(was));
}

static void open_devices(struct ledger *l)
{
	gpu_open(l);
	device_count = l->device_count < FAKE_GPU_MAX ? l->device_count : FAKE_GPU_MAX;
	for (int d = 0; d < device_count; d++) {
		CUmemPoolProps props = {
			.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d },
		};

		MUST(cuDevicePrimaryCtxRetain(&primary[d], d));
		MUST(cuDeviceGetDefaultMemPool(&pools[d], d));
		MUST(cuMemPoolCreate(&pools[FAKE_GPU_MAX + d], &props));
	}
}

static int print(const struct worker *workers, const struct ledger *devices, const char *label)
{
	struct ledger sum = *devices;

	for (uint64_t i = 0; i < thread_count; i++)
		ledger_merge(&sum, &workers[i].books);
	sum.is_merged = thread_count > 1;
	return ledger_print(&sum, label, NULL);
}

int main(int argc, char **argv)
{
	static struct ledger devices;
	struct worker *workers;
	int r = 0;
	const struct option_spec specs[] = {
		{ "--seed", OPTION_NUMBER, &seed },	   { "--ops", OPTION_NUMBER, &total_ops },
		{ "--threads", OPTION_NUMBER, &thread_count }, { "--live", OPTION_NUMBER, &live_max },
		{ "--pause-at", OPTION_NUMBER, &pause_at }, { "--arrays", OPTION_FLAG, &with_arrays },
		{ "--reset", OPTION_FLAG, &with_reset },   { 0 },
	};

	options_parse(argc, argv, specs);
	if (!thread_count || !live_max || thread_count > 256 || pause_at > total_ops)
		die("--threads 1..256, --live 1.., --pause-at up to --ops");
	common_start();
	open_devices(&devices);
	workers = calloc(thread_count, sizeof(*workers));
	for (uint64_t i = 0; workers && i < thread_count; i++) {
		workers[i].items = calloc(live_max + 1, sizeof(struct item));
		workers[i].rng = (seed + i) * 0x9e3779b97f4a7c15ull | 1;
		workers[i].device = (int)i % device_count;
		if (!workers[i].items)
			die("out of memory");
	}
	if (!workers)
		die("out of memory");
	if (pause_at) {
		run(workers, pause_at);
		r |= print(workers, &devices, "pause");
		wait_line();
	}
	run(workers, total_ops - pause_at);
	if (with_reset) {
		context_life(&workers[0]);
		MUST(cuDevicePrimaryCtxReset_v2(device_count - 1));
		MUST(cuDevicePrimaryCtxRetain(&primary[device_count - 1], device_count - 1)); /* it is dead until then */
		for (uint64_t i = 0; i < thread_count; i++)
			sweep(&workers[i], 0, device_count - 1);
		run(workers, thread_count * 10);
	}
	r |= print(workers, &devices, "end");
	if (common.wait_end)
		wait_line();
	return r;
}
