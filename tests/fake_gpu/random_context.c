/* SPDX-License-Identifier: MIT */
/* Contexts: which is current, those a thread makes itself, and what ends with them. */
#include "random_ops.h"

CUcontext primary[FAKE_GPU_MAX];
CUmemoryPool default_pools[FAKE_GPU_MAX];
int device_count;

void contexts_open(struct ledger *l)
{
	gpu_open(l);
	device_count = l->device_count < FAKE_GPU_MAX ? l->device_count : FAKE_GPU_MAX;
	for (int d = 0; d < device_count; d++) {
		MUST(cuDevicePrimaryCtxRetain(&primary[d], d));
		MUST(cuDeviceGetDefaultMemPool(&default_pools[d], d));
	}
}

static void note_top(struct worker *w, CUcontext ctx, CUcontext owner, int device)
{
	w->stack[w->depth - 1].ctx = ctx;
	w->stack[w->depth - 1].owner = owner;
	w->stack[w->depth - 1].device = device;
}

static void note_push(struct worker *w, CUcontext ctx, CUcontext owner, int device)
{
	w->depth++;
	note_top(w, ctx, owner, device);
}

void context_begin(struct worker *w, int device)
{
	MUST(cuCtxSetCurrent(primary[device]));
	w->depth = 0;
	note_push(w, primary[device], primary[device], device);
}

static void create(struct worker *w, int slot)
{
	int device = (int)below(w, (uint64_t)device_count);
	bool is_old = has_family(FAMILY_OLD) && !below(w, 4);
	CUcontext ctx = NULL;

	if (w->depth == STACK_MAX)
		return;
	if (is_old)
		MUST(cuCtxCreate(&ctx, 0, device));
	else if (is_real || below(w, 3))
		MUST(cuCtxCreate_v2(&ctx, 0, device));
	else if (below(w, 2))
		MUST(cuCtxCreate_v3(&ctx, NULL, 0, 0, device));
	else
		MUST(cuCtxCreate_v4(&ctx, NULL, 0, device));
	w->own[slot] = ctx;
	w->own_device[slot] = device;
	note_push(w, ctx, ctx, device);
}

static bool is_below(const struct worker *w, CUcontext ctx)
{
	for (int i = 0; i < w->depth - 1; i++)
		if (w->stack[i].ctx == ctx)
			return true;
	return false;
}

/* By its destruction, or by the last of two references. */
static void destroy(struct worker *w, int slot)
{
	CUcontext ctx = w->own[slot], got = NULL;
	bool is_top = w->stack[w->depth - 1].ctx == ctx;

	if (is_below(w, ctx))
		return;
	if (is_top && has_family(FAMILY_OLD) && below(w, 2)) {
		if (below(w, 2)) {
			MUST(cuCtxAttach(&got, 0));
			if (got != ctx)
				die("cuCtxAttach: another context");
			MUST(cuCtxDetach(ctx)); /* not the last one */
			if (w->len < live_max)
				alloc_device(w);
		}
		MUST(cuCtxDetach(ctx));
	} else {
		MUST(cuCtxDestroy_v2(ctx));
	}
	items_sweep(w, ctx);
	w->own[slot] = NULL;
	if (is_top)
		w->depth--;
	if (is_top && !w->depth) /* it had been set in the place of the first */
		context_begin(w, w->own_device[slot]);
}

static void push_or_pop(struct worker *w)
{
	int d = (int)below(w, (uint64_t)device_count), slot = (int)below(w, OWN_MAX);
	CUcontext was = NULL;

	if (w->depth > 1 && below(w, 2)) {
		MUST(cuCtxPopCurrent_v2(&was));
		if (was != w->stack[w->depth - 1].ctx)
			die("cuCtxPopCurrent: another context");
		w->depth--;
	} else if (w->depth < STACK_MAX && w->own[slot] && below(w, 2)) {
		MUST(cuCtxPushCurrent_v2(w->own[slot]));
		note_push(w, w->own[slot], w->own[slot], w->own_device[slot]);
	} else if (w->depth < STACK_MAX) {
		MUST(cuCtxPushCurrent_v2(primary[d]));
		note_push(w, primary[d], primary[d], d);
	}
}

/* Memory made under a green context is the primary context's. */
static void green_life(struct worker *w)
{
	int d = (int)below(w, (uint64_t)device_count);
	CUcontext ctx = NULL, was;
	CUgreenCtx green = NULL;

	if (w->depth == STACK_MAX)
		return;
	MUST(cuGreenCtxCreate(&green, NULL, d, 1));
	MUST(cuCtxFromGreenCtx(&ctx, green));
	MUST(cuCtxPushCurrent_v2(ctx));
	note_push(w, ctx, primary[d], d);
	for (int i = 0; i < 3 && w->len < live_max; i++)
		(i & 1 ? alloc_host : alloc_device)(w);
	MUST(cuCtxPopCurrent_v2(&was));
	w->depth--;
	MUST(cuGreenCtxDestroy(green));
}

static void check_device(struct worker *w)
{
	int device = -1;

	MUST(below(w, 2) ? cuCtxGetDevice(&device) : cuCtxGetDevice_v2(&device, NULL));
	if (device != device_of(w))
		die("the current device is %d, not %d", device, device_of(w));
}

void context_step(struct worker *w)
{
	int d = (int)below(w, (uint64_t)device_count), slot = (int)below(w, OWN_MAX);
	uint64_t what = below(w, 20);

	if (what < 5 || !has_family(FAMILY_CONTEXT)) {
		MUST(cuCtxSetCurrent(primary[d]));
		note_top(w, primary[d], primary[d], d);
	} else if (what < 7 && w->own[slot]) {
		MUST(cuCtxSetCurrent(w->own[slot]));
		note_top(w, w->own[slot], w->own[slot], w->own_device[slot]);
	} else if (what < 13) {
		push_or_pop(w);
	} else if (what < 15 && has_family(FAMILY_GREEN)) {
		green_life(w);
	} else if (what < 17) {
		check_device(w);
	} else if (w->own[slot]) {
		destroy(w, slot);
	} else if (!is_real || !below(w, 20)) { /* takes a real driver 100 ms */
		create(w, slot);
	}
}

void contexts_end(struct worker *w)
{
	CUcontext was;

	while (w->depth > 1) {
		MUST(cuCtxPopCurrent_v2(&was));
		w->depth--;
	}
	context_begin(w, (int)below(w, (uint64_t)device_count));
	for (int i = 0; i < OWN_MAX; i++)
		if (w->own[i])
			destroy(w, i);
}

void primary_end(struct worker *w, struct worker *const *all)
{
	int d = (int)below(w, (uint64_t)device_count), active = 1;
	CUcontext old = primary[d];
	unsigned int flags;

	for (uint64_t i = 0; i < thread_count && is_real; i++)
		items_close(all[i], 1u << ITEM_IPC, old); /* what a context takes along of these was not asked */
	if (below(w, 2)) {
		MUST(below(w, 2) ? cuDevicePrimaryCtxReset_v2(d) : cuDevicePrimaryCtxReset(d));
	} else {
		while (active) {
			MUST(below(w, 2) ? cuDevicePrimaryCtxRelease_v2(d) : cuDevicePrimaryCtxRelease(d));
			MUST(cuDevicePrimaryCtxGetState(d, &flags, &active));
		}
	}
	for (uint64_t i = 0; i < thread_count; i++)
		items_sweep(all[i], old);
	MUST(cuDevicePrimaryCtxRetain(&primary[d], d));
	context_begin(w, d);
}
