/* SPDX-License-Identifier: MIT */
/*
 * Random operations over all memory calls of Level Zero, and an exact ledger of them. --seed N --ops N --live N; the
 * ledger is printed half way ("pause") and at the end ("end"), each time a line is waited for. "full": fills a device
 * until it refuses.
 */
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "ze_api.h"

enum item_kind { ITEM_MEMORY, ITEM_PHYSICAL, ITEM_IMPORTED };

struct item {
	enum item_kind kind;
	unsigned int class;
	int device;
	uint64_t bytes, addr;
};

static uint64_t seed = 1, total_ops = 12000, live_max = 256, rng;
static struct item *items;
static size_t len;
static struct ledger books;
static ze_context_handle_t ctx;
static ze_device_handle_t devices[FAKE_GPU_MAX];
static uint32_t device_count;
static const ze_mem_alloc_desc_t desc;

static uint64_t below(uint64_t n)
{
	return random_next(&rng) % n;
}

#define MUST(call)                                                                                                     \
	do {                                                                                                           \
		ze_result_t must_r = (call);                                                                           \
		if (must_r)                                                                                            \
			die("%s: %#x", #call, (unsigned int)must_r);                                                   \
	} while (0)

static bool booked(ze_result_t r, const struct item *it)
{
	if (r) {
		if (r != ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)
			die("an allocation that should succeed returned %#x", (unsigned int)r);
		books.fail_count++;
		return false;
	}
	ledger_alloc(&books, it->class, it->bytes, it->device);
	items[len++] = *it;
	return true;
}

static void alloc_memory(void)
{
	static const unsigned int classes[] = { CLASS_DEVICE, CLASS_DEVICE, CLASS_MANAGED, CLASS_HOST };
	struct item it = { .kind = ITEM_MEMORY, .class = classes[below(4)], .device = (int)below(device_count) };
	void *p = NULL;
	ze_result_t r;

	it.bytes = random_size(&rng, it.class == CLASS_DEVICE ? 26 : 30);
	if (it.class == CLASS_DEVICE)
		r = zeMemAllocDevice(ctx, &desc, it.bytes, 64, devices[it.device], &p);
	else if (it.class == CLASS_MANAGED)
		r = zeMemAllocShared(ctx, &desc, &desc, it.bytes, 0, below(2) ? devices[it.device] : NULL, &p);
	else
		r = zeMemAllocHost(ctx, &desc, it.bytes, 4096, &p);
	it.addr = (uintptr_t)p;
	booked(r, &it);
}

static void alloc_physical(void)
{
	struct item it = { .kind = ITEM_PHYSICAL, .class = CLASS_PHYSICAL, .device = (int)below(device_count) };
	ze_physical_mem_desc_t d = { .stype = 0x18, .size = 65536 * (1 + below(300)) };
	ze_physical_mem_handle_t h = NULL;
	ze_result_t r = zePhysicalMemCreate(ctx, devices[it.device], &d, &h);

	it.bytes = d.size;
	it.addr = (uintptr_t)h;
	booked(r, &it);
}

static void import(void)
{
	struct item it = { .kind = ITEM_IMPORTED, .class = CLASS_IMPORTED };
	const struct item *of = &items[below(len)];
	ze_ipc_mem_handle_t handle;
	void *p = NULL;

	if (of->kind != ITEM_MEMORY || of->class != CLASS_DEVICE)
		return;
	MUST(zeMemGetIpcHandle(ctx, (void *)(uintptr_t)of->addr, &handle));
	MUST(zeMemOpenIpcHandle(ctx, devices[of->device], handle, 0, &p));
	it.addr = (uintptr_t)p;
	booked(0, &it);
}

static ze_result_t free_call(const struct item *it)
{
	const ze_memory_free_ext_desc_t d = { 0 };
	void *p = (void *)(uintptr_t)it->addr;

	switch (it->kind) {
	case ITEM_MEMORY:
		return below(2) ? zeMemFree(ctx, p) : zeMemFreeExt(ctx, &d, p);
	case ITEM_PHYSICAL:
		return zePhysicalMemDestroy(ctx, p);
	case ITEM_IMPORTED:
		return zeMemCloseIpcHandle(ctx, p);
	}
	return 1;
}

static void end_one(size_t i)
{
	struct item was = items[i];

	MUST(free_call(&was));
	ledger_free(&books, was.class, was.bytes, was.device);
	items[i] = items[--len];
	if (below(8))
		return;
	if (!free_call(&was))
		die("a second free succeeded (kind %d)", was.kind);
	books.free_fail_count++;
}

static void alloc_fails(void)
{
	ze_physical_mem_desc_t d = { .size = 1ull << 40 };
	ze_physical_mem_handle_t h;
	void *p;
	ze_result_t r;

	switch (below(6)) {
	case 0:
		r = zeMemAllocDevice(ctx, &desc, 1ull << 40, 0, devices[0], &p);
		break;
	case 1:
		r = zeMemAllocDevice(ctx, &desc, 4096, 0, devices[0], NULL);
		break;
	case 2:
		r = zeMemAllocShared(ctx, &desc, &desc, ~0ull, 0, NULL, &p);
		break;
	case 3:
		r = zeMemAllocHost(ctx, &desc, 0, 0, &p);
		break;
	case 4:
		r = zeMemAllocDevice(ctx, &desc, 4096, 3, devices[0], &p);
		break;
	default:
		r = zePhysicalMemCreate(ctx, devices[0], &d, &h);
	}
	if (!r)
		die("an allocation that should fail succeeded");
	books.fail_count++;
}

static void step(void)
{
	uint64_t what = below(100);

	if (what < 4) {
		alloc_fails();
	} else if (what < 6) {
		if (!zeMemFree(ctx, (void *)(uintptr_t)(random_next(&rng) >> 17 | 1)))
			die("a free of nothing succeeded");
		books.free_fail_count++;
	} else if (what < 10 && len && len < live_max) {
		import();
	} else if (len && (len == live_max || what < 52)) {
		end_one(below(len));
	} else if (what < 85) {
		alloc_memory();
	} else {
		alloc_physical();
	}
}

static FRAME void fill(void)
{
	struct item it = { .kind = ITEM_MEMORY, .class = CLASS_DEVICE, .bytes = 1ull << 30 };
	void *p;

	while (len < live_max && booked(zeMemAllocDevice(ctx, &desc, it.bytes, 0, devices[0], &p), &it))
		;
	if (!books.fail_count)
		die("the device was never full");
	KEEP_FRAME();
}

int main(int argc, char **argv)
{
	ze_driver_handle_t driver;
	uint32_t one = 1;
	int r = 0, words;
	const struct option_spec specs[] = {
		{ "--seed", OPTION_NUMBER, &seed }, { "--ops", OPTION_NUMBER, &total_ops },
		{ "--live", OPTION_NUMBER, &live_max }, { 0 },
	};

	words = options_parse(argc, argv, specs);
	common_start();
	rng = seed * 0x9e3779b97f4a7c15ull | 1;
	items = calloc(live_max, sizeof(*items));
	if (!items)
		die("out of memory");
	MUST(zeInit(0));
	MUST(zeDriverGet(&one, &driver));
	MUST(zeDeviceGet(driver, &device_count, devices));
	MUST(zeContextCreate(driver, NULL, &ctx));
	if (words && !strcmp(argv[1], "full")) {
		fill();
		r |= ledger_print(&books, "full", NULL);
		wait_line();
		return r;
	}
	for (uint64_t i = 0; i < total_ops; i++) {
		if (i == total_ops / 2) {
			r |= ledger_print(&books, "pause", NULL);
			wait_line();
		}
		step();
	}
	r |= ledger_print(&books, "end", NULL);
	wait_line();
	return r;
}
