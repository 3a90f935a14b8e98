/* SPDX-License-Identifier: MIT */
/* The stand-in driver's arrays: as many bytes of the device as the descriptor says. */
#include "libcuda.h"

#define FLAGS_DEPTH_STAYS (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)
#define FLAGS_NO_MEMORY (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

struct format {
	int first, last;
	unsigned int bytes;    /* of a component, or of a block */
	unsigned int channels; /* that it has to have, 0 = 1, 2 or 4 */
	unsigned int side;     /* of a block of texels */
};

static const struct format formats[] = {
	{ 0x01, 0x01, 1, 0, 1 }, { 0x02, 0x02, 2, 0, 1 }, { 0x03, 0x03, 4, 0, 1 }, /* unsigned */
	{ 0x08, 0x08, 1, 0, 1 }, { 0x09, 0x09, 2, 0, 1 }, { 0x0a, 0x0a, 4, 0, 1 }, /* signed */
	{ 0x10, 0x10, 2, 0, 1 }, { 0x20, 0x20, 4, 0, 1 }, /* half, float */
	{ 0x91, 0x92, 8, 4, 4 }, { 0x93, 0x96, 16, 4, 4 }, /* BC1; BC2 and BC3 */
	{ 0x97, 0x98, 8, 1, 4 }, { 0x99, 0x9a, 16, 2, 4 }, /* BC4, BC5 */
	{ 0x9b, 0x9c, 16, 3, 4 }, { 0x9d, 0x9e, 16, 4, 4 }, /* BC6H, BC7 */
	{ 0xc0, 0xc0, 1, 1, 1 }, { 0xc1, 0xc1, 1, 2, 1 }, { 0xc2, 0xc2, 1, 4, 1 }, /* UNORM, 8 and 16 bits */
	{ 0xc3, 0xc3, 2, 1, 1 }, { 0xc4, 0xc4, 2, 2, 1 }, { 0xc5, 0xc5, 2, 4, 1 },
	{ 0xc6, 0xc6, 1, 1, 1 }, { 0xc7, 0xc7, 1, 2, 1 }, { 0xc8, 0xc8, 1, 4, 1 }, /* SNORM */
	{ 0xc9, 0xc9, 2, 1, 1 }, { 0xca, 0xca, 2, 2, 1 }, { 0xcb, 0xcb, 2, 4, 1 },
};

static const struct format *format_find(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	for (const struct format *f = formats; f < formats + sizeof(formats) / sizeof(formats[0]); f++) {
		if (d->Format < f->first || d->Format > f->last)
			continue;
		if (f->channels ? d->NumChannels != f->channels :
				  d->NumChannels != 1 && d->NumChannels != 2 && d->NumChannels != 4)
			return NULL;
		return f;
	}
	return NULL;
}

static uint64_t level_size(uint64_t n, unsigned int level)
{
	return level < 64 && n >> level ? n >> level : 1;
}

/* One more level than halvings that change anything. */
static unsigned int levels_most(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	uint64_t n = d->Width > d->Height ? d->Width : d->Height;

	if (!(d->Flags & FLAGS_DEPTH_STAYS) && d->Depth > n)
		n = d->Depth;
	return 64 - (unsigned int)__builtin_clzll(n);
}

CUresult array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels, uint64_t *ret)
{
	const struct format *f = format_find(d);
	uint64_t sum = 0;

	*ret = 0;
	if (!f || !d->Width || (d->Depth && !d->Height && !(d->Flags & CUDA_ARRAY3D_LAYERED)))
		return CUDA_ERROR_INVALID_VALUE;
	if (levels > levels_most(d))
		levels = levels_most(d);
	for (unsigned int l = 0; l < (levels ? levels : 1); l++) {
		uint64_t bytes = f->side > 1 ? f->bytes : f->bytes * d->NumChannels;
		uint64_t depth = d->Flags & FLAGS_DEPTH_STAYS ? level_size(d->Depth, 0) : level_size(d->Depth, l);
		uint64_t width = (level_size(d->Width, l) - 1) / f->side + 1;
		uint64_t height = (level_size(d->Height, l) - 1) / f->side + 1;

		if (__builtin_mul_overflow(bytes, width, &bytes) || __builtin_mul_overflow(bytes, height, &bytes) ||
		    __builtin_mul_overflow(bytes, depth, &bytes) || __builtin_add_overflow(sum, bytes, &sum))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = d->Flags & FLAGS_NO_MEMORY ? 0 : sum;
	return CUDA_SUCCESS;
}

static CUresult array_new(uint64_t *ret_addr, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels,
			  enum block_kind kind)
{
	struct block b = { .class = CLASS_ARRAY, .kind = (uint8_t)kind };
	struct CUctx_st *c;
	CUresult r = context_current(&c);

	if (!r)
		r = array_bytes(d, levels, &b.bytes);
	if (r)
		return fail(r);
	b.device = (int8_t)c->device;
	b.owner = c->owner;
	return block_new(&b, false, ret_addr);
}

static CUresult array_create(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	uint64_t addr;
	CUresult r;

	if (!out_is_plausible(array))
		return fail(CUDA_ERROR_INVALID_VALUE);
	r = array_new(&addr, d, 1, BLOCK_ARRAY);
	if (!r)
		*array = (CUarray)(uintptr_t)addr;
	return r;
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *desc)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { 0 };

	if (!out_is_plausible(desc))
		return fail(CUDA_ERROR_INVALID_VALUE);
	d.Width = desc->Width;
	d.Height = desc->Height;
	d.Format = desc->Format;
	d.NumChannels = desc->NumChannels;
	return array_create(array, &d);
}

CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *desc)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { 0 };

	if (!out_is_plausible(desc))
		return fail(CUDA_ERROR_INVALID_VALUE);
	d.Width = desc->Width;
	d.Height = desc->Height;
	d.Format = desc->Format;
	d.NumChannels = desc->NumChannels;
	return array_create(array, &d);
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	return out_is_plausible(desc) ? array_create(array, desc) : fail(CUDA_ERROR_INVALID_VALUE);
}

CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *desc)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { 0 };

	if (!out_is_plausible(desc))
		return fail(CUDA_ERROR_INVALID_VALUE);
	d.Width = desc->Width;
	d.Height = desc->Height;
	d.Depth = desc->Depth;
	d.Format = desc->Format;
	d.NumChannels = desc->NumChannels;
	d.Flags = desc->Flags;
	return array_create(array, &d);
}

CUresult cuArrayDestroy(CUarray array)
{
	return free_here((uintptr_t)array, KIND(BLOCK_ARRAY), ERROR_INVALID_HANDLE);
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels)
{
	uint64_t addr;
	CUresult r;

	if (!out_is_plausible(array) || !out_is_plausible(desc))
		return fail(CUDA_ERROR_INVALID_VALUE);
	r = array_new(&addr, desc, levels, BLOCK_MIPMAP);
	if (!r)
		*array = (CUmipmappedArray)(uintptr_t)addr;
	return r;
}

/* An array made here, or one of external memory. */
CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	return free_here((uintptr_t)array, KIND(BLOCK_MIPMAP), ERROR_INVALID_HANDLE);
}
