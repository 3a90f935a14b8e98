/* SPDX-License-Identifier: MIT */
/* The ledger of work_random, its blocks, and how each of them is given back. */
#include <stdlib.h>
#include <string.h>

#include "random_ops.h"

#define PASSED_MAX 64
#define ITEMS_ROOM(live) ((live) + 2 * PASSED_MAX + 64)

struct ledger books;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all in this file */
static uint64_t largest_bytes;				 /* of one call on a device */
static struct item passed[PASSED_MAX];
static size_t passed_len;

struct worker *worker_new(uint64_t number)
{
	struct worker *w = calloc(1, sizeof(*w));

	if (w)
		w->items = calloc(ITEMS_ROOM(live_max), sizeof(*w->items));
	if (!w || !w->items)
		die("out of memory");
	w->rng = (seed + number * 1000003) * 0x9e3779b97f4a7c15ull | 1;
	return w;
}

void worker_free(struct worker *w)
{
	free(w->items);
	free(w);
}

uint64_t books_peak_slack(void)
{
	return thread_count > 1 ? thread_count * largest_bytes : 0;
}

void books_alloc(unsigned int class, uint64_t bytes, int device)
{
	pthread_mutex_lock(&lock);
	ledger_alloc(&books, class, bytes, device);
	if ((CLASS_DEVICE_MASK >> class) & 1 && bytes > largest_bytes)
		largest_bytes = bytes;
	pthread_mutex_unlock(&lock);
}

void books_free(unsigned int class, uint64_t bytes, int device)
{
	pthread_mutex_lock(&lock);
	ledger_free(&books, class, bytes, device);
	pthread_mutex_unlock(&lock);
}

void books_fail(void)
{
	__atomic_fetch_add(&books.fail_count, 1, __ATOMIC_RELAXED);
}

void books_free_fail(void)
{
	__atomic_fetch_add(&books.free_fail_count, 1, __ATOMIC_RELAXED);
}

void books_null_free(void)
{
	__atomic_fetch_add(&books.null_free_count, 1, __ATOMIC_RELAXED);
}

bool booked(struct worker *w, CUresult r, const struct item *it)
{
	if (r) {
		/* A real driver may have more reasons than we know. */
		if (r != CUDA_ERROR_OUT_OF_MEMORY && !is_real)
			die("an allocation that should succeed returned %d (kind %d)", r, it->kind);
		books_fail();
		return false;
	}
	books_alloc(it->class, it->bytes, it->device);
	if (w->len >= ITEMS_ROOM(live_max))
		die("too many blocks");
	w->items[w->len++] = *it;
	return true;
}

static CUresult async_free(struct worker *w, uint64_t addr)
{
	switch (below(w, 3)) {
	case 0:
		return cuMemFreeAsync(addr, NULL);
	case 1:
		return cuMemFreeAsync_ptsz(addr, NULL);
	}
	return cuMemFree_v2(addr); /* allowed too */
}

static CUresult free_call(struct worker *w, const struct item *it)
{
	void *p = (void *)(uintptr_t)it->addr;

	switch (it->kind) {
	case ITEM_POINTER:
		return it->class == CLASS_DEVICE && !is_real && !below(w, 8) ? cuMemFreeAsync(it->addr, NULL) :
									       cuMemFree_v2(it->addr);
	case ITEM_OLD:
		return cuMemFree((CUdeviceptr_v1)it->addr);
	case ITEM_HOST:
		return cuMemFreeHost(p);
	case ITEM_REGISTERED:
		return cuMemHostUnregister(p);
	case ITEM_ASYNC:
		return async_free(w, it->addr);
	case ITEM_ARRAY:
		return cuArrayDestroy(p);
	case ITEM_MIPMAP:
		return cuMipmappedArrayDestroy(p);
	case ITEM_IPC:
		return cuIpcCloseMemHandle(it->addr);
	case ITEM_PHYSICAL:
	case ITEM_PAIR:
	case ITEM_IMPORT:
	case ITEM_MULTICAST:
		return cuMemRelease(it->addr);
	case ITEM_EXTERNAL:
		return cuDestroyExternalMemory(p);
	}
	return CUDA_ERROR_UNKNOWN;
}

static bool is_handle(const struct item *it)
{
	return it->kind == ITEM_PHYSICAL || it->kind == ITEM_PAIR || it->kind == ITEM_IMPORT ||
	       it->kind == ITEM_EXTERNAL || it->kind == ITEM_MULTICAST;
}

/* A real driver looks into objects before it knows whether they are still there. */
static bool is_safe_twice(const struct item *it)
{
	if (it->kind == ITEM_IPC) /* another opening of the same memory may have the address */
		return false;
	return !is_real || it->kind == ITEM_POINTER || it->kind == ITEM_HOST || it->kind == ITEM_REGISTERED;
}

void item_step(struct worker *w, size_t i)
{
	struct item *it = &w->items[i], was;

	if (it->is_kept)
		return;
	if (is_handle(it)) {
		while (!handle_step(w, it)) /* half done is a state too */
			if (!below(w, 4))
				return;
	} else {
		/* An array is given back where it was made. */
		if (is_real && it->owner && it->owner != owner_of(w)) {
			MUST(cuCtxPushCurrent_v2(it->owner));
			MUST(free_call(w, it));
			MUST(cuCtxPopCurrent_v2(&it->owner));
		} else {
			MUST(free_call(w, it));
		}
	}
	books_free(it->class, it->bytes, it->device);
	was = *it;
	w->items[i] = w->items[--w->len];
	/* Once more, at once: nobody else can have been given the address while this is the only thread. */
	if (thread_count == 1 && !below(w, 8) && is_safe_twice(&was) && has_family(FAMILY_FAIL)) {
		if (!free_call(w, &was))
			die("a second free succeeded (kind %d)", was.kind);
		books_free_fail();
	}
	free(was.pages);
}

/* What goes with a context that a thread made must not be in other hands when that one ends. */
static bool is_free_to_go(const struct item *it)
{
	if (it->is_kept)
		return false;
	for (int d = 0; d < device_count; d++)
		if (it->owner == primary[d])
			return true;
	return !it->owner;
}

void item_give(struct worker *w)
{
	size_t i = w->len ? below(w, w->len) : 0;

	if (!w->len || !is_free_to_go(&w->items[i]))
		return;
	pthread_mutex_lock(&lock);
	if (passed_len < PASSED_MAX) {
		passed[passed_len++] = w->items[i];
		w->items[i] = w->items[--w->len];
	}
	pthread_mutex_unlock(&lock);
}

void item_take(struct worker *w)
{
	bool is_taken;

	pthread_mutex_lock(&lock);
	is_taken = passed_len > 0;
	if (is_taken)
		w->items[w->len++] = passed[--passed_len];
	pthread_mutex_unlock(&lock);
	if (is_taken)
		item_step(w, w->len - 1);
}

void items_collect(struct worker *w)
{
	while (passed_len)
		w->items[w->len++] = passed[--passed_len];
}

void items_sweep(struct worker *w, CUcontext owner)
{
	for (size_t k = w->len; k-- > 0;) {
		struct item *it = &w->items[k];

		if (it->owner != owner)
			continue;
		pthread_mutex_lock(&lock);
		ledger_sweep(&books, it->class, it->bytes, it->device);
		if (it->kind == ITEM_EXTERNAL && it->other)
			ledger_sweep(&books, it->class, 0, it->device);
		if (it->kind == ITEM_EXTERNAL && it->third)
			ledger_sweep(&books, it->class, 0, it->device);
		pthread_mutex_unlock(&lock);
		free(it->pages);
		w->items[k] = w->items[--w->len];
	}
}

void items_close(struct worker *w, unsigned int kinds, CUcontext owner)
{
	for (size_t k = w->len; k-- > 0;) {
		uint64_t left = w->len;

		if (!((kinds >> w->items[k].kind) & 1) || (owner && w->items[k].owner != owner))
			continue;
		while (!w->items[k].is_kept && w->len == left)
			item_step(w, k);
	}
}
