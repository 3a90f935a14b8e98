/* SPDX-License-Identifier: MIT */
/*
 * Random operations over HIP's memory calls, and an exact ledger of them. --seed N --ops N --live N; the ledger is
 * printed half way ("pause") and at the end ("end"), each time a line is waited for. Other ways: "full" fills a device
 * until it refuses; "threads" allocates from threads that choose a device and one that does not; "reset" ends a
 * device's memory, before which contexts are destroyed and released, which ends none.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "hip_api.h"

#define MIB (1ull << 20)
#define PAGE_BYTES 4096u

enum item_kind {
	ITEM_POINTER, /* hipFree */
	ITEM_HOST,
	ITEM_REGISTERED,
	ITEM_ASYNC, /* also of a graph */
	ITEM_ARRAY,
	ITEM_MIPMAP,
	ITEM_PHYSICAL, /* one handle, mapped or not */
	ITEM_IPC,
	ITEM_EXTERNAL,
};

struct item {
	enum item_kind kind;
	unsigned int class;
	int device;
	uint64_t bytes, addr;
	unsigned int refs;
	void *va, *pages;
};

static uint64_t seed = 1, total_ops = 12000, live_max = 256, rng;
static struct item *items;
static size_t len;
static struct ledger books;
static hipStream_t streams[FAKE_GPU_MAX];
static hipMemPool_t pools[2 * FAKE_GPU_MAX]; /* default pools, then one of ours for each device */
static hipCtx_t contexts[FAKE_GPU_MAX];
static int device_count, device;

#define MUST(call)                                                                                                     \
	do {                                                                                                           \
		hipError_t must_r = (call);                                                                            \
		if (must_r)                                                                                            \
			die("%s: %d", #call, must_r);                                                                  \
	} while (0)

static uint64_t below(uint64_t n)
{
	return random_next(&rng) % n;
}

static bool booked(hipError_t r, const struct item *it)
{
	if (r) {
		if (r != hipErrorOutOfMemory)
			die("an allocation that should succeed returned %d (kind %d)", r, it->kind);
		books.fail_count++;
		return false;
	}
	ledger_alloc(&books, it->class, it->bytes, it->device);
	items[len++] = *it;
	return true;
}

static bool booked_at(hipError_t r, struct item *it, const void *p)
{
	it->addr = (uintptr_t)p;
	return booked(r, it);
}

static void alloc_device(void)
{
	struct item it = { .kind = ITEM_POINTER, .class = CLASS_DEVICE, .device = device, .bytes = random_size(&rng, 26) };
	void *p = NULL;
	hipError_t r = below(3) ? hipMalloc(&p, it.bytes) : hipExtMallocWithFlags(&p, it.bytes, 1);

	booked_at(r, &it, p);
}

static void alloc_managed(void)
{
	struct item it = { .kind = ITEM_POINTER, .class = CLASS_MANAGED, .device = device, .bytes = random_size(&rng, 34) };
	void *p = NULL;
	hipError_t r = hipMallocManaged(&p, it.bytes, 1);

	booked_at(r, &it, p);
}

static void alloc_pitch(void)
{
	struct item it = { .kind = ITEM_POINTER, .class = CLASS_DEVICE, .device = device };
	hipExtent e = { random_size(&rng, 12), 1 + below(300), 1 + below(4) };
	hipPitchedPtr p = { 0 };
	uint64_t which = below(3);
	hipError_t r;

	if (which == 0)
		r = hipMalloc3D(&p, e);
	else if (which == 1)
		r = hipMallocPitch(&p.ptr, &p.pitch, e.width, e.height);
	else
		r = hipMemAllocPitch(&p.ptr, &p.pitch, e.width, e.height, 8);
	it.bytes = p.pitch * e.height * (which ? 1 : e.depth);
	booked_at(r, &it, p.ptr);
}

static void alloc_host(void)
{
	struct item it = { .kind = ITEM_HOST, .class = CLASS_HOST, .device = device, .bytes = random_size(&rng, 26) };
	void *p = NULL;
	hipError_t r;

	switch (below(4)) {
	case 0:
		r = hipHostMalloc(&p, it.bytes, 0);
		break;
	case 1:
		r = hipHostAlloc(&p, it.bytes, 0);
		break;
	case 2:
		r = hipMallocHost(&p, it.bytes);
		break;
	default:
		r = hipMemAllocHost(&p, it.bytes);
	}
	booked_at(r, &it, p);
}

static void alloc_registered(void)
{
	struct item it = { .kind = ITEM_REGISTERED, .class = CLASS_HOST, .device = device };
	size_t bytes = PAGE_BYTES * (1 + below(16));

	it.pages = aligned_alloc(PAGE_BYTES, bytes);
	if (!it.pages)
		die("out of memory");
	it.bytes = bytes - below(PAGE_BYTES);
	booked_at(hipHostRegister(it.pages, it.bytes, 0), &it, it.pages);
}

static void alloc_async(void)
{
	struct item it = { .kind = ITEM_ASYNC, .class = CLASS_ASYNC, .device = device, .bytes = random_size(&rng, 24) };
	hipStream_t s = below(2) ? streams[device] : NULL;
	void *p = NULL;
	hipError_t r;

	if (below(2)) {
		r = hipMallocAsync(&p, it.bytes, s);
	} else { /* a pool's memory lies on the pool's device, whatever is current */
		it.device = (int)below((uint64_t)device_count);
		r = hipMallocFromPoolAsync(&p, it.bytes, pools[it.device + (below(2) ? FAKE_GPU_MAX : 0)], s);
	}
	booked_at(r, &it, p);
}

static void alloc_array(void)
{
	struct item it = { .kind = ITEM_ARRAY, .class = CLASS_ARRAY, .device = device };
	unsigned int channels = 1u << below(3);
	HIP_ARRAY3D_DESCRIPTOR d3 = { 1 + below(300), 1 + below(300), below(4), HIP_AD_FORMAT_HALF, channels, 0 };
	HIP_ARRAY_DESCRIPTOR d2 = { d3.Width, d3.Height, HIP_AD_FORMAT_FLOAT, channels };
	hipChannelFormatDesc ch = { 16, channels > 1 ? 16 : 0, channels > 2 ? 16 : 0, channels > 2 ? 16 : 0, 2 };
	uint64_t area = d3.Width * d3.Height, depth = d3.Depth ? d3.Depth : 1;
	hipArray_t a = NULL;
	hipError_t r;

	switch (below(4)) {
	case 0:
		r = hipMallocArray(&a, &ch, d3.Width, d3.Height, 0);
		it.bytes = area * 2 * channels;
		break;
	case 1:
		r = hipMalloc3DArray(&a, &ch, (hipExtent){ d3.Width, d3.Height, d3.Depth }, 0);
		it.bytes = area * depth * 2 * channels;
		break;
	case 2:
		r = hipArrayCreate(&a, &d2);
		it.bytes = area * 4 * channels;
		break;
	default:
		r = hipArray3DCreate(&a, &d3);
		it.bytes = area * depth * 2 * channels;
	}
	booked_at(r, &it, a);
}

static void alloc_mipmap(void)
{
	struct item it = { .kind = ITEM_MIPMAP, .class = CLASS_ARRAY, .device = device };
	HIP_ARRAY3D_DESCRIPTOR d = { 64 + below(64), 64 + below(64), 0, HIP_AD_FORMAT_FLOAT, 2, 0 };
	hipChannelFormatDesc ch = { 32, 32, 0, 0, 2 };
	unsigned int levels = 1 + (unsigned int)below(6);
	hipMipmappedArray_t a = NULL;
	hipError_t r;

	for (unsigned int i = 0; i < levels; i++)
		it.bytes += (d.Width >> i) * (d.Height >> i) * 8;
	if (below(2))
		r = hipMipmappedArrayCreate(&a, &d, levels);
	else
		r = hipMallocMipmappedArray(&a, &ch, (hipExtent){ d.Width, d.Height, 0 }, levels, 0);
	booked_at(r, &it, a);
}

static void alloc_physical(void)
{
	struct item it = { .kind = ITEM_PHYSICAL, .class = CLASS_PHYSICAL, .refs = 1, .bytes = 2 * MIB * (1 + below(8)) };
	hipMemAllocationProp prop = { .type = 1, .location = { hipMemLocationTypeDevice, 0 } };
	hipMemGenericAllocationHandle_t h = NULL, again = NULL;
	hipError_t r;

	it.device = prop.location.id = (int)below((uint64_t)device_count);
	if (!below(16)) { /* host memory by the same call */
		prop.location.type = hipMemLocationTypeHost;
		it.class = CLASS_HOST;
	}
	r = hipMemCreate(&h, it.bytes, &prop, 0);
	if (!booked_at(r, &it, h) || below(2))
		return;
	MUST(hipMemAddressReserve(&items[len - 1].va, it.bytes, 0, NULL, 0));
	MUST(hipMemMap(items[len - 1].va, it.bytes, 0, h, 0));
	if (below(2)) {
		MUST(hipMemRetainAllocationHandle(&again, items[len - 1].va));
		items[len - 1].refs++;
	}
}

static void alloc_imported(void)
{
	struct item it = { .kind = ITEM_EXTERNAL, .class = CLASS_IMPORTED, .device = device };
	hipExternalMemoryHandleDesc d = { .type = 1, .size = random_size(&rng, 30) };
	const struct item *of = len ? &items[below(len)] : NULL;
	hipExternalMemory_t ext = NULL;
	hipIpcMemHandle_t handle;
	void *p = NULL;
	hipError_t r;

	if (!of || of->kind != ITEM_POINTER || of->class != CLASS_DEVICE) {
		it.bytes = d.size;
		r = hipImportExternalMemory(&ext, &d);
		booked_at(r, &it, ext);
		return;
	}
	it.kind = ITEM_IPC;
	it.bytes = of->bytes;
	MUST(hipIpcGetMemHandle(&handle, (void *)(uintptr_t)of->addr));
	r = hipIpcOpenMemHandle(&p, handle, 1);
	booked_at(r, &it, p);
}

/* A graph that leaves one block behind: made by nodes or by capture, with one that it gives back itself. */
static hipGraph_t graph_make(struct item *it)
{
	hipMemAllocNodeParams params = { .bytesize = it->bytes };
	hipStream_t s = streams[device];
	bool is_spt = below(2);
	void *p = NULL, *inner = NULL;
	hipGraph_t g = NULL;
	hipGraphNode_t node;

	if (below(2)) {
		MUST(is_spt ? hipStreamBeginCapture_spt(s, 0) : hipStreamBeginCapture(s, 0));
		MUST(hipMallocAsync(&p, it->bytes, s));
		MUST(hipMallocAsync(&inner, 12345, s));
		MUST(hipFreeAsync(inner, s));
		MUST(is_spt ? hipStreamEndCapture_spt(s, &g) : hipStreamEndCapture(s, &g));
	} else {
		params.poolProps.location = (hipMemLocation){ hipMemLocationTypeDevice, it->device };
		MUST(hipGraphCreate(&g, 0));
		MUST(hipGraphAddMemAllocNode(&node, g, NULL, 0, &params));
		p = params.dptr;
		MUST(hipGraphAddMemAllocNode(&node, g, NULL, 0, &params));
		MUST(hipGraphAddMemFreeNode(&node, g, NULL, 0, params.dptr));
	}
	it->addr = (uintptr_t)p;
	return g;
}

static void alloc_graph(void)
{
	struct item it = { .kind = ITEM_ASYNC, .class = CLASS_GRAPH, .device = device, .bytes = random_size(&rng, 22) };
	hipGraph_t g = graph_make(&it);
	hipGraphExec_t exec;

	MUST(below(2) ? hipGraphInstantiate(&exec, g, NULL, NULL, 0) : hipGraphInstantiateWithFlags(&exec, g, 0));
	MUST(hipGraphDestroy(g));
	MUST(below(2) ? hipGraphLaunch(exec, streams[device]) : hipGraphLaunch_spt(exec, streams[device]));
	booked(hipSuccess, &it);
	MUST(hipGraphExecDestroy(exec));
}

static hipError_t free_call(const struct item *it)
{
	void *p = (void *)(uintptr_t)it->addr;
	bool coin = below(2);

	switch (it->kind) {
	case ITEM_POINTER:
		return hipFree(p);
	case ITEM_HOST:
		return coin ? hipHostFree(p) : hipFreeHost(p);
	case ITEM_REGISTERED:
		return hipHostUnregister(p);
	case ITEM_ASYNC:
		return coin ? hipFreeAsync(p, streams[device]) : hipFree(p);
	case ITEM_ARRAY:
		return coin ? hipFreeArray(p) : hipArrayDestroy(p);
	case ITEM_MIPMAP:
		return coin ? hipFreeMipmappedArray(p) : hipMipmappedArrayDestroy(p);
	case ITEM_PHYSICAL:
		return hipMemRelease(p);
	case ITEM_IPC:
		return hipIpcCloseMemHandle(p);
	case ITEM_EXTERNAL:
		return hipDestroyExternalMemory(p);
	}
	return 1;
}

/* One step towards the end of a handle: a reference or the mapping less. True when it was the last. */
static bool physical_step(struct item *it)
{
	if (it->refs && (!it->va || below(2))) {
		MUST(free_call(it));
		it->refs--;
	} else {
		MUST(hipMemUnmap(it->va, it->bytes));
		MUST(hipMemAddressFree(it->va, it->bytes));
		it->va = NULL;
	}
	return !it->refs && !it->va;
}

static void end_one(size_t i)
{
	struct item was = items[i];

	if (was.kind == ITEM_PHYSICAL) {
		if (!physical_step(&items[i]))
			return;
	} else {
		MUST(free_call(&was));
	}
	ledger_free(&books, was.class, was.bytes, was.device);
	items[i] = items[--len];
	if (!below(8)) {
		if (!free_call(&was))
			die("a second free succeeded (kind %d)", was.kind);
		books.free_fail_count++;
	}
	free(was.pages);
}

static void alloc_fails(void)
{
	hipMemAllocationProp prop = { .type = 1, .location = { hipMemLocationTypeDevice, 99 } };
	hipMemGenericAllocationHandle_t h;
	hipPitchedPtr pp;
	hipArray_t a;
	void *p;
	hipError_t r;

	switch (below(7)) {
	case 0:
		r = hipMalloc(&p, (64ull << 40) + below(MIB));
		break;
	case 1:
		r = hipMalloc(NULL, 4096);
		break;
	case 2:
		r = hipMallocAsync(&p, 1ull << 50, streams[device]);
		break;
	case 3:
		r = hipMemCreate(&h, 2 * MIB, &prop, 0);
		break;
	case 4:
		r = hipMalloc3D(&pp, (hipExtent){ 1ull << 40, 1ull << 20, 1ull << 20 });
		break;
	case 5:
		r = hipMallocArray(&a, NULL, 100, 100, 0);
		break;
	default:
		r = hipMallocManaged(&p, 4096, 9);
	}
	if (!r)
		die("an allocation that should fail succeeded");
	books.fail_count++;
}

/* Nothing comes of these, and they are no error. */
static void nothing(void)
{
	void *p = &p;

	switch (below(4)) {
	case 0:
		MUST(hipMalloc(&p, 0));
		break;
	case 1:
		MUST(hipMallocAsync(&p, 0, NULL));
		break;
	case 2:
		MUST(hipHostFree(NULL));
		books.null_free_count++;
		return;
	default:
		MUST(hipFree(NULL));
		books.null_free_count++;
		return;
	}
	if (p)
		die("zero bytes have an address");
}

static void switch_device(void)
{
	hipCtx_t was;

	if (!below(4) && !hipSetDevice(device_count))
		die("a device that is not there was set");
	device = (int)below((uint64_t)device_count);
	switch (below(3)) {
	case 0:
		MUST(hipCtxSetCurrent(contexts[device]));
		break;
	case 1:
		MUST(hipCtxPushCurrent(contexts[device]));
		MUST(hipCtxPopCurrent(&was)); /* and the thread stays where it is */
		break;
	default:
		MUST(hipSetDevice(device));
	}
}

/* Calls that would move or end much elsewhere, and here nothing. */
static void odd_calls(void)
{
	int other = (int)below((uint64_t)device_count);
	hipMemPool_t pool;

	MUST(hipDevicePrimaryCtxRelease(other));
	MUST(hipDevicePrimaryCtxReset(other));
	MUST(hipCtxDestroy(contexts[other]));
	MUST(hipDeviceGetMemPool(&pool, other));
	MUST(hipDeviceSetMemPool(other, pools[other + (below(2) ? FAKE_GPU_MAX : 0)]));
	MUST(hipMemPoolTrimTo(pool, 0));
}

static void step(void)
{
	static void (*const allocs[])(void) = { alloc_device, alloc_device,  alloc_pitch,    alloc_managed,  alloc_host,
						alloc_async,  alloc_array,   alloc_mipmap,   alloc_physical, alloc_imported,
						alloc_graph,  alloc_registered };
	uint64_t what = below(100);

	if (what < 4)
		alloc_fails();
	else if (what < 6)
		nothing();
	else if (what < 11)
		switch_device();
	else if (what < 12)
		odd_calls();
	else if (len && (len == live_max || what < 56))
		end_one(below(len));
	else
		allocs[below(sizeof(allocs) / sizeof(allocs[0]))]();
}

static void open_devices(void)
{
	MUST(hipGetDeviceCount(&device_count));
	books.device_count = device_count;
	for (int d = 0; d < device_count && d < FAKE_GPU_MAX; d++) {
		hipMemPoolProps props = { .allocType = 1, .location = { hipMemLocationTypeDevice, d } };
		hipUUID uuid;

		MUST(hipDeviceGetUuid(&uuid, d));
		snprintf(books.uuid[d], sizeof(books.uuid[d]), "GPU-%.16s", uuid.bytes);
		MUST(hipStreamCreate(&streams[d]));
		MUST(hipDeviceGetDefaultMemPool(&pools[d], d));
		MUST(hipMemPoolCreate(&pools[FAKE_GPU_MAX + d], &props));
		MUST(hipDevicePrimaryCtxRetain(&contexts[d], d));
	}
}

static int stop_at(const char *label)
{
	int r = ledger_print(&books, label, NULL);

	wait_line();
	return r;
}

static FRAME void fill(void)
{
	struct item it = { .kind = ITEM_POINTER, .class = CLASS_DEVICE, .bytes = 1ull << 30 };
	void *p;

	while (len < live_max && booked(hipMalloc(&p, it.bytes), &it))
		;
	if (!books.fail_count)
		die("the device was never full");
	KEEP_FRAME();
}

/* Each thread in turn; device -1: chooses none, whatever the others have chosen. */
static void *thread_run(void *arg)
{
	device = *(const int *)arg;
	if (device >= 0)
		MUST(hipSetDevice(device));
	else
		device = 0;
	for (int i = 0; i < 10; i++)
		alloc_device();
	return NULL;
}

static void threads(void)
{
	static const int choices[] = { 1, -1, 0, -1, 1 };
	pthread_t t;

	MUST(hipSetDevice(1));
	for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++)
		if (pthread_create(&t, NULL, thread_run, (void *)&choices[i]) || pthread_join(t, NULL))
			die("pthread_create");
}

/* Of the last device, chosen by hipSetDevice so that its number is what is known. */
static int reset(void)
{
	int r;

	for (device = 0; device < device_count; device++) {
		MUST(hipSetDevice(device));
		for (int i = 0; i < 5; i++) {
			alloc_device();
			alloc_pitch();
			alloc_array();
			alloc_mipmap();
		}
	}
	odd_calls();
	r = stop_at("reset-before");
	device = device_count - 1;
	MUST(hipDeviceReset());
	for (size_t i = len; i-- > 0;) {
		if (items[i].device != device)
			continue;
		ledger_sweep(&books, items[i].class, items[i].bytes, device);
		items[i] = items[--len];
	}
	return r | stop_at("reset");
}

int main(int argc, char **argv)
{
	const struct option_spec specs[] = {
		{ "--seed", OPTION_NUMBER, &seed }, { "--ops", OPTION_NUMBER, &total_ops },
		{ "--live", OPTION_NUMBER, &live_max }, { 0 },
	};
	const char *way = options_parse(argc, argv, specs) ? argv[1] : "";
	int r = 0;

	common_start();
	rng = seed * 0x9e3779b97f4a7c15ull | 1;
	items = calloc(live_max, sizeof(*items));
	if (!items || live_max < 100)
		die("--live 100..");
	open_devices();
	if (!strcmp(way, "reset"))
		return reset();
	if (!strcmp(way, "full") || !strcmp(way, "threads")) {
		!strcmp(way, "full") ? fill() : threads();
		return stop_at(way);
	}
	for (uint64_t i = 0; i < total_ops; i++) {
		if (i == total_ops / 2)
			r |= stop_at("pause");
		step();
	}
	return r | stop_at("end");
}
