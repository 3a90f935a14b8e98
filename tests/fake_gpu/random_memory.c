/* SPDX-License-Identifier: MIT */
/* Memory with a pointer of its own, arrays, and pools. */
#include <stdlib.h>

#include "random_ops.h"

static struct item item_here(struct worker *w, enum item_kind kind, unsigned int class)
{
	return (struct item){ .kind = kind, .class = class, .device = device_of(w), .owner = owner_of(w) };
}

void alloc_device(struct worker *w)
{
	struct item it = item_here(w, ITEM_POINTER, CLASS_DEVICE);
	CUdeviceptr p = 0;
	CUresult r;

	it.bytes = random_size(&w->rng, 25);
	r = cuMemAlloc_v2(&p, it.bytes);
	it.addr = p;
	booked(w, r, &it);
}

void alloc_pitch(struct worker *w)
{
	struct item it = item_here(w, ITEM_POINTER, CLASS_DEVICE);
	size_t pitch = 0, width = random_size(&w->rng, 13), height = 1 + below(w, 500);
	CUdeviceptr p = 0;
	CUresult r = cuMemAllocPitch_v2(&p, &pitch, width, height, 4u << below(w, 3));

	it.bytes = pitch * height;
	it.addr = p;
	booked(w, r, &it);
}

static void alloc_old_array(struct worker *w)
{
	struct item it = item_here(w, ITEM_ARRAY, CLASS_ARRAY);
	CUDA_ARRAY3D_DESCRIPTOR_v1 d3 = { .Width = 1 + (unsigned int)below(w, 300), .Format = CU_AD_FORMAT_FLOAT,
					  .NumChannels = 1u << below(w, 3) };
	CUDA_ARRAY_DESCRIPTOR_v1 d2 = { .Format = CU_AD_FORMAT_FLOAT, .NumChannels = d3.NumChannels };
	CUarray a = NULL;
	CUresult r;

	d2.Width = d3.Width;
	d2.Height = d3.Height = (unsigned int)below(w, 300);
	d3.Depth = d3.Height ? (unsigned int)below(w, 4) : 0;
	it.bytes = (uint64_t)d3.Width * (d3.Height ? d3.Height : 1) * 4 * d3.NumChannels;
	if (below(w, 2)) {
		it.bytes *= d3.Depth ? d3.Depth : 1;
		r = cuArray3DCreate(&a, &d3);
	} else {
		r = cuArrayCreate(&a, &d2);
	}
	it.addr = (uintptr_t)a;
	booked(w, r, &it);
}

static void alloc_old_host(struct worker *w)
{
	struct item it = item_here(w, ITEM_HOST, CLASS_HOST);
	void *p = NULL;
	CUresult r;

	it.bytes = random_size(&w->rng, 22);
	r = cuMemAllocHost(&p, (unsigned int)it.bytes);
	it.addr = (uintptr_t)p;
	booked(w, r, &it);
}

/* As a program of 2010 does it: addresses and sizes of 32 bits, with something else right behind them in memory. */
void alloc_old(struct worker *w)
{
	struct item it = item_here(w, ITEM_OLD, CLASS_DEVICE);
	unsigned int width = (unsigned int)random_size(&w->rng, 13), height = 1 + (unsigned int)below(w, 100);
	struct {
		CUdeviceptr_v1 p;
		unsigned int guard, pitch, guard2;
	} out = { .guard = 0xdeadbeef, .guard2 = 0xfeedface };
	CUresult r;

	switch (below(w, 4)) {
	case 0:
		it.bytes = random_size(&w->rng, 22);
		r = cuMemAlloc(&out.p, (unsigned int)it.bytes);
		break;
	case 1:
		r = cuMemAllocPitch(&out.p, &out.pitch, width, height, 4);
		it.bytes = (uint64_t)out.pitch * height;
		break;
	case 2:
		alloc_old_host(w);
		return;
	default:
		alloc_old_array(w);
		return;
	}
	if (out.guard != 0xdeadbeef || out.guard2 != 0xfeedface)
		die("a CUDA 3 call wrote 64 bits");
	it.addr = out.p;
	booked(w, r, &it);
}

void alloc_managed(struct worker *w)
{
	struct item it = item_here(w, ITEM_POINTER, CLASS_MANAGED);
	CUdeviceptr p = 0;
	CUresult r;

	it.bytes = random_size(&w->rng, is_real ? 28 : 34); /* may be more than the device has */
	r = cuMemAllocManaged(&p, it.bytes, CU_MEM_ATTACH_GLOBAL);
	it.addr = p;
	booked(w, r, &it);
}

void alloc_host(struct worker *w)
{
	struct item it = item_here(w, ITEM_HOST, CLASS_HOST);
	void *p = NULL;
	CUresult r;

	it.bytes = random_size(&w->rng, is_real ? 20 : 26);
	r = below(w, 2) ? cuMemHostAlloc(&p, it.bytes, 0) : cuMemAllocHost_v2(&p, it.bytes);
	it.addr = (uintptr_t)p;
	booked(w, r, &it);
}

void alloc_registered(struct worker *w)
{
	struct item it = item_here(w, ITEM_REGISTERED, CLASS_HOST);
	size_t bytes = PAGE_BYTES * (1 + below(w, 16));
	CUresult r;

	it.pages = aligned_alloc(PAGE_BYTES, bytes);
	if (!it.pages)
		die("out of memory");
	it.addr = (uintptr_t)it.pages;
	it.bytes = bytes - below(w, PAGE_BYTES);
	if (has_family(FAMILY_OLD) && !below(w, 4))
		r = cuMemHostRegister(it.pages, it.bytes, 0);
	else
		r = cuMemHostRegister_v2(it.pages, it.bytes, 0);
	if (!booked(w, r, &it))
		free(it.pages);
}

static const struct {
	int format;
	unsigned int bytes;
} formats[] = {
	{ 0x01, 1 }, { 0x02, 2 }, { 0x03, 4 }, { 0x08, 1 }, { 0x09, 2 }, { 0x0a, 4 }, { 0x10, 2 }, { 0x20, 4 },
};

static void array_describe(struct worker *w, CUDA_ARRAY3D_DESCRIPTOR *d)
{
	d->Format = formats[below(w, sizeof(formats) / sizeof(formats[0]))].format;
	d->NumChannels = 1u << below(w, 3);
	d->Width = 1 + below(w, 300);
	d->Height = below(w, 300);
	d->Depth = d->Height ? below(w, 4) : 0;
	d->Flags = d->Depth && below(w, 2) ? CUDA_ARRAY3D_LAYERED : 0;
}

static uint64_t level_of(uint64_t n, unsigned int level)
{
	return n >> level ? n >> level : 1;
}

static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
	uint64_t sum = 0, texel = d->NumChannels;

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (formats[i].format == d->Format)
			texel *= formats[i].bytes;
	if (d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return 0;
	for (unsigned int l = 0; l < levels; l++)
		sum += texel * level_of(d->Width, l) * level_of(d->Height, l) *
		       (d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP) ? d->Depth : level_of(d->Depth, l));
	return sum;
}

void alloc_array(struct worker *w)
{
	struct item it = item_here(w, ITEM_ARRAY, CLASS_ARRAY);
	CUDA_ARRAY3D_DESCRIPTOR d = { 0 };
	CUDA_ARRAY_DESCRIPTOR d2;
	CUarray a = NULL;
	CUresult r;

	array_describe(w, &d);
	if (below(w, 2)) {
		d2 = (CUDA_ARRAY_DESCRIPTOR){ .Width = d.Width, .Height = d.Height, .Format = d.Format,
					      .NumChannels = d.NumChannels };
		d.Depth = d.Flags = 0;
		r = cuArrayCreate_v2(&a, &d2);
	} else {
		if (!is_real && !below(w, 8))
			d.Flags = CUDA_ARRAY3D_SPARSE; /* takes nothing */
		r = cuArray3DCreate_v2(&a, &d);
	}
	it.bytes = array_bytes(&d, 1);
	it.addr = (uintptr_t)a;
	booked(w, r, &it);
}

void alloc_mipmap(struct worker *w)
{
	struct item it = item_here(w, ITEM_MIPMAP, CLASS_ARRAY);
	CUDA_ARRAY3D_DESCRIPTOR d = { 0 };
	unsigned int levels = 1 + (unsigned int)below(w, 5);
	CUmipmappedArray a = NULL;
	CUresult r;

	array_describe(w, &d);
	if (is_real) /* it has rules of its own for how many there may be */
		levels = 1;
	while (levels > 1 && !(d.Width >> (levels - 1)) && !(d.Height >> (levels - 1)))
		levels--;
	it.bytes = array_bytes(&d, levels);
	r = cuMipmappedArrayCreate(&a, &d, levels);
	it.addr = (uintptr_t)a;
	booked(w, r, &it);
}

CUstream stream_of(struct worker *w)
{
	int d = device_of(w);

	if (!is_primary(w) || below(w, 2) || !cuStreamCreate || !has_family(FAMILY_GRAPH))
		return NULL;
	if (!w->streams[d])
		MUST(cuStreamCreate(&w->streams[d], 1 /* does not wait for the default one */));
	return w->streams[d];
}

void streams_end(struct worker *w)
{
	for (int d = 0; d < device_count; d++) {
		if (w->streams[d])
			MUST(cuStreamDestroy_v2(w->streams[d]));
		if (w->joined[d])
			MUST(cuStreamDestroy_v2(w->joined[d]));
		w->streams[d] = w->joined[d] = NULL;
	}
}

void alloc_async(struct worker *w)
{
	struct item it = item_here(w, ITEM_ASYNC, CLASS_ASYNC);
	CUstream s = stream_of(w);
	CUdeviceptr p = 0;
	CUresult r;

	it.owner = NULL;
	it.bytes = random_size(&w->rng, 24);
	r = below(w, 2) ? cuMemAllocAsync(&p, it.bytes, s) : cuMemAllocAsync_ptsz(&p, it.bytes, s);
	it.addr = p;
	booked(w, r, &it);
}
