/* SPDX-License-Identifier: MIT */
/*
 * A stand-in for AMD's HIP library: real names, argument orders and return codes, no memory behind an address. Blocks
 * are places in one table, the last one freed is the next to be handed out. As in the real library a thread is on
 * device 0 until it chooses, contexts are names of devices, and only hipDeviceReset ends memory. None of the calls
 * calls another exported one. FAKE_GPU_COUNT and FAKE_GPU_BYTES as in fake_gpu.h.
 */
#include <string.h>

#include "libamdhip64.h"

#define BASE 0x200000000000ull
#define STEP (1ull << 30) /* between addresses; larger blocks overlap, which nobody sees */
#define PITCH 256u

struct mapping {
	uint64_t at, bytes;
	struct fake_block *block;
};

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
struct fake_device devices[FAKE_GPU_MAX];
struct fake_gpu_totals totals;
int device_count;
__thread int current;

static struct fake_block blocks[BLOCKS];
static uint32_t freed[BLOCKS], freed_len, fresh;
static struct mapping mappings[BLOCKS];
static uint64_t reserved_next, capacity;

static void __attribute__((constructor)) start(void)
{
	device_count = state_device_count();
	capacity = state_device_bytes();
}

static bool is_on_device(unsigned int class)
{
	return (CLASS_DEVICE_MASK >> class) & 1;
}

hipError_t fail(hipError_t error)
{
	__atomic_fetch_add(&totals.fail_count, 1, __ATOMIC_RELAXED);
	return error;
}

hipError_t refuse(hipError_t error)
{
	__atomic_fetch_add(&totals.free_fail_count, 1, __ATOMIC_RELAXED);
	return error;
}

/* ---- blocks; the lock is held */

struct fake_block *block_take(void)
{
	uint32_t i = freed_len ? freed[--freed_len] : fresh < BLOCKS ? fresh++ : BLOCKS;

	if (i == BLOCKS)
		return NULL;
	blocks[i] = (struct fake_block){ .addr = BASE + i * STEP, .refs = 1, .is_used = true };
	return &blocks[i];
}

void block_give(struct fake_block *b)
{
	b->is_used = false;
	freed[freed_len++] = (uint32_t)(b - blocks);
}

struct fake_block *block_at(uint64_t addr)
{
	for (uint32_t i = 0; i < fresh; i++)
		if (blocks[i].is_used && blocks[i].addr == addr)
			return &blocks[i];
	return NULL;
}

bool block_live(struct fake_block *b)
{
	if (is_on_device(b->class)) {
		if (b->bytes > capacity - devices[b->device].used)
			return false;
		devices[b->device].used += b->bytes;
		totals.device_bytes[b->device] += b->bytes;
	}
	totals.live_bytes[b->class] += b->bytes;
	totals.live_count[b->class]++;
	totals.alloc_count++;
	return true;
}

void block_end(struct fake_block *b)
{
	if (is_on_device(b->class)) {
		devices[b->device].used -= b->bytes;
		totals.device_bytes[b->device] -= b->bytes;
	}
	totals.live_bytes[b->class] -= b->bytes;
	totals.live_count[b->class]--;
	totals.free_count++;
	block_give(b);
}

/* ---- allocation and free */

hipError_t make(unsigned int class, uint64_t bytes, int device, uint64_t at, void *ret_handle, void *ret_addr)
{
	struct fake_block *b;
	bool is_good = false;

	pthread_mutex_lock(&lock);
	b = block_take();
	if (b) {
		b->addr = at ? at : b->addr;
		b->bytes = bytes;
		b->class = (uint8_t)class;
		b->device = (int8_t)device;
		is_good = block_live(b);
		if (!is_good)
			block_give(b);
	}
	pthread_mutex_unlock(&lock);
	if (!is_good)
		return fail(hipErrorOutOfMemory);
	if (ret_handle)
		*(struct fake_block **)ret_handle = b;
	if (ret_addr)
		*(uint64_t *)ret_addr = b->addr;
	return hipSuccess;
}

static hipError_t alloc(unsigned int class, void **p, size_t bytes)
{
	if (!p)
		return fail(hipErrorInvalidValue);
	if (!bytes) { /* nothing asked for is nothing given, and no error */
		*p = NULL;
		return hipSuccess;
	}
	return make(class, bytes, current, 0, NULL, p);
}

hipError_t end_at(uint64_t addr, uint32_t mask, hipError_t missing)
{
	struct fake_block *b;

	pthread_mutex_lock(&lock);
	b = block_at(addr);
	if (b && (b->class & CLASS_RESERVED || !((mask >> b->class) & 1)))
		b = NULL;
	if (b)
		block_end(b);
	pthread_mutex_unlock(&lock);
	return b ? hipSuccess : refuse(missing);
}

hipError_t hipMalloc(void **p, size_t bytes)
{
	return alloc(CLASS_DEVICE, p, bytes);
}

hipError_t hipExtMallocWithFlags(void **p, size_t bytes, unsigned int flags)
{
	return flags > 3 ? fail(hipErrorInvalidValue) : alloc(CLASS_DEVICE, p, bytes);
}

hipError_t hipMallocManaged(void **p, size_t bytes, unsigned int flags)
{
	return flags != 1 ? fail(hipErrorInvalidValue) : alloc(CLASS_MANAGED, p, bytes);
}

static hipError_t alloc_pitch(void **p, size_t *pitch, size_t width, size_t rows)
{
	size_t aligned = (width + PITCH - 1) & ~(size_t)(PITCH - 1), bytes;

	if (!p || !pitch || !width || !rows)
		return fail(hipErrorInvalidValue);
	if (aligned < width || __builtin_mul_overflow(aligned, rows, &bytes))
		return fail(hipErrorOutOfMemory);
	*pitch = aligned;
	return make(CLASS_DEVICE, bytes, current, 0, NULL, p);
}

hipError_t hipMallocPitch(void **p, size_t *pitch, size_t width, size_t height)
{
	return alloc_pitch(p, pitch, width, height);
}

hipError_t hipMemAllocPitch(void **p, size_t *pitch, size_t width, size_t height, unsigned int element)
{
	if (element != 4 && element != 8 && element != 16)
		return fail(hipErrorInvalidValue);
	return alloc_pitch(p, pitch, width, height);
}

hipError_t hipMalloc3D(hipPitchedPtr *p, hipExtent e)
{
	size_t rows;

	if (!p || __builtin_mul_overflow(e.height, e.depth, &rows))
		return fail(hipErrorInvalidValue);
	p->xsize = e.width;
	p->ysize = e.height;
	return alloc_pitch(&p->ptr, &p->pitch, e.width, rows);
}

hipError_t hipFree(void *p)
{
	return p ? END(p, MASK(CLASS_DEVICE) | MASK(CLASS_MANAGED) | MASK(CLASS_ASYNC) | MASK(CLASS_GRAPH),
		       hipErrorInvalidValue) : hipSuccess;
}

hipError_t hipHostMalloc(void **p, size_t bytes, unsigned int flags)
{
	return flags == 0xc0000000u ? fail(hipErrorInvalidValue) : alloc(CLASS_HOST, p, bytes);
}

hipError_t hipHostAlloc(void **p, size_t bytes, unsigned int flags)
{
	(void)flags;
	return alloc(CLASS_HOST, p, bytes);
}

hipError_t hipMallocHost(void **p, size_t bytes)
{
	return alloc(CLASS_HOST, p, bytes);
}

hipError_t hipMemAllocHost(void **p, size_t bytes)
{
	return alloc(CLASS_HOST, p, bytes);
}

hipError_t hipHostFree(void *p)
{
	return p ? END(p, MASK(CLASS_HOST), hipErrorInvalidValue) : hipSuccess;
}

hipError_t hipFreeHost(void *p)
{
	return p ? END(p, MASK(CLASS_HOST), hipErrorInvalidValue) : hipSuccess;
}

hipError_t hipHostRegister(void *p, size_t bytes, unsigned int flags)
{
	uint64_t at = (uint64_t)(uintptr_t)p;
	bool is_there;

	if (!p || !bytes || flags & ~0xfu)
		return fail(hipErrorInvalidValue);
	pthread_mutex_lock(&lock);
	is_there = block_at(at);
	pthread_mutex_unlock(&lock);
	return is_there ? fail(hipErrorHostMemoryAlreadyRegistered) : make(CLASS_HOST, bytes, current, at, NULL, NULL);
}

hipError_t hipHostUnregister(void *p)
{
	return END(p, MASK(CLASS_HOST), hipErrorHostMemoryNotRegistered);
}

/* ---- arrays: the handle is the block */

static hipError_t array_new(void *ret, hipExtent e, uint64_t element, unsigned int levels)
{
	uint64_t bytes = 0;

	if (!ret || !element || !e.width || !levels || levels > 16)
		return fail(hipErrorInvalidValue);
	if (e.width > 1 << 20 || e.height > 1 << 20 || e.depth > 1 << 20)
		return fail(hipErrorInvalidValue);
	for (unsigned int i = 0; i < levels; i++) {
		uint64_t w = e.width >> i, h = e.height >> i, d = e.depth >> i;

		bytes += (w ? w : 1) * (h ? h : 1) * (d ? d : 1) * element;
	}
	return make(CLASS_ARRAY, bytes, current, 0, ret, NULL);
}

static uint64_t channel_bytes(const hipChannelFormatDesc *d)
{
	return d ? (uint64_t)(d->x + d->y + d->z + d->w) / 8 : 0;
}

static uint64_t format_bytes(int format, unsigned int channels)
{
	return channels * (format == HIP_AD_FORMAT_UNSIGNED_INT8 ? 1u : format == HIP_AD_FORMAT_HALF ? 2u :
			   format == HIP_AD_FORMAT_FLOAT ? 4u : 0u);
}

hipError_t hipMallocArray(hipArray_t *a, const hipChannelFormatDesc *desc, size_t width, size_t height, unsigned int flags)
{
	(void)flags;
	return array_new(a, (hipExtent){ width, height, 0 }, channel_bytes(desc), 1);
}

hipError_t hipMalloc3DArray(hipArray_t *a, const hipChannelFormatDesc *desc, hipExtent extent, unsigned int flags)
{
	(void)flags;
	return array_new(a, extent, channel_bytes(desc), 1);
}

hipError_t hipMallocMipmappedArray(hipMipmappedArray_t *a, const hipChannelFormatDesc *desc, hipExtent extent,
				   unsigned int levels, unsigned int flags)
{
	(void)flags;
	return array_new(a, extent, channel_bytes(desc), levels);
}

hipError_t hipArrayCreate(hipArray_t *a, const HIP_ARRAY_DESCRIPTOR *d)
{
	return array_new(a, (hipExtent){ d->Width, d->Height, 0 }, format_bytes(d->Format, d->NumChannels), 1);
}

hipError_t hipArray3DCreate(hipArray_t *a, const HIP_ARRAY3D_DESCRIPTOR *d)
{
	return array_new(a, (hipExtent){ d->Width, d->Height, d->Depth }, format_bytes(d->Format, d->NumChannels), 1);
}

hipError_t hipMipmappedArrayCreate(hipMipmappedArray_t *a, const HIP_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
	return array_new(a, (hipExtent){ d->Width, d->Height, d->Depth }, format_bytes(d->Format, d->NumChannels), levels);
}

static hipError_t handle_end(struct fake_block *b, unsigned int class)
{
	bool is_good;

	pthread_mutex_lock(&lock);
	is_good = b >= blocks && b < blocks + BLOCKS && b->is_used && b->class == class && b->refs;
	if (is_good && --b->refs == 0 && !b->maps)
		block_end(b);
	pthread_mutex_unlock(&lock);
	return is_good ? hipSuccess : refuse(hipErrorInvalidValue);
}

hipError_t hipFreeArray(hipArray_t a)
{
	return handle_end(a, CLASS_ARRAY);
}

hipError_t hipArrayDestroy(hipArray_t a)
{
	return handle_end(a, CLASS_ARRAY);
}

hipError_t hipFreeMipmappedArray(hipMipmappedArray_t a)
{
	return handle_end(a, CLASS_ARRAY);
}

hipError_t hipMipmappedArrayDestroy(hipMipmappedArray_t a)
{
	return handle_end(a, CLASS_ARRAY);
}

/* ---- physical memory */

hipError_t hipMemAddressReserve(void **p, size_t bytes, size_t alignment, void *at, unsigned long long flags)
{
	(void)alignment, (void)at, (void)flags;
	*p = (void *)(uintptr_t)(2 * BASE + __atomic_fetch_add(&reserved_next, bytes, __ATOMIC_RELAXED));
	return hipSuccess;
}

hipError_t hipMemAddressFree(void *p, size_t bytes)
{
	(void)bytes;
	return p ? hipSuccess : hipErrorInvalidValue;
}

hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *h, size_t bytes, const hipMemAllocationProp *prop,
			unsigned long long flags)
{
	bool is_host = prop && prop->location.type == hipMemLocationTypeHost;

	if (!h || !prop || flags || !bytes || bytes % (2 << 20))
		return fail(hipErrorInvalidValue);
	if (!is_host && (prop->location.type != hipMemLocationTypeDevice || prop->location.id < 0 ||
			 prop->location.id >= device_count))
		return fail(hipErrorInvalidDevice);
	return make(is_host ? CLASS_HOST : CLASS_PHYSICAL, bytes, is_host ? 0 : prop->location.id, 0, h, NULL);
}

hipError_t hipMemRelease(hipMemGenericAllocationHandle_t h)
{
	bool is_host = h >= blocks && h < blocks + BLOCKS && h->class == CLASS_HOST;

	return handle_end(h, is_host ? CLASS_HOST : CLASS_PHYSICAL);
}

static struct mapping *mapping_at(uint64_t at)
{
	for (uint32_t i = 0; i < BLOCKS; i++)
		if (mappings[i].at == at)
			return &mappings[i];
	return NULL;
}

hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *h, void *at)
{
	struct mapping *m;

	pthread_mutex_lock(&lock);
	m = at ? mapping_at((uint64_t)(uintptr_t)at) : NULL;
	if (m) {
		m->block->refs++;
		*h = m->block;
	}
	pthread_mutex_unlock(&lock);
	return m ? hipSuccess : hipErrorInvalidValue;
}

hipError_t hipMemMap(void *p, size_t bytes, size_t offset, hipMemGenericAllocationHandle_t h, unsigned long long flags)
{
	struct mapping *m;

	if (offset || flags || bytes != h->bytes)
		return hipErrorInvalidValue;
	pthread_mutex_lock(&lock);
	m = mapping_at(0);
	if (m) {
		*m = (struct mapping){ (uint64_t)(uintptr_t)p, bytes, h };
		h->maps++;
	}
	pthread_mutex_unlock(&lock);
	return m ? hipSuccess : hipErrorOutOfMemory;
}

hipError_t hipMemUnmap(void *p, size_t bytes)
{
	uint64_t at = (uint64_t)(uintptr_t)p, end = at + bytes;

	pthread_mutex_lock(&lock);
	while (at < end) {
		struct mapping *m = mapping_at(at);

		if (!m)
			break;
		at += m->bytes;
		if (--m->block->maps == 0 && !m->block->refs)
			block_end(m->block);
		m->at = 0;
	}
	pthread_mutex_unlock(&lock);
	return at == end ? hipSuccess : hipErrorInvalidValue;
}

/* ---- others' memory: of this process too, so that one is enough for a test */

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *p)
{
	struct fake_block *b;

	memset(handle, 0x5a, sizeof(*handle));
	pthread_mutex_lock(&lock);
	b = block_at((uint64_t)(uintptr_t)p);
	if (b) {
		memcpy(handle->reserved, &b->bytes, 8);
		memcpy(handle->reserved + 56, &b->addr, 8);
	}
	pthread_mutex_unlock(&lock);
	return b ? hipSuccess : hipErrorInvalidDevicePointer;
}

hipError_t hipIpcOpenMemHandle(void **p, hipIpcMemHandle_t handle, unsigned int flags)
{
	uint64_t bytes;

	memcpy(&bytes, handle.reserved, 8);
	if (!p || flags != 1 || handle.reserved[20] != 0x5a)
		return fail(hipErrorInvalidValue);
	return make(CLASS_IMPORTED, bytes, current, 0, NULL, p);
}

hipError_t hipIpcCloseMemHandle(void *p)
{
	return END(p, MASK(CLASS_IMPORTED), hipErrorInvalidValue);
}

hipError_t hipImportExternalMemory(hipExternalMemory_t *ext, const hipExternalMemoryHandleDesc *desc)
{
	if (!ext || !desc || !desc->size)
		return fail(hipErrorInvalidValue);
	return make(CLASS_IMPORTED, desc->size, current, 0, ext, NULL);
}

hipError_t hipDestroyExternalMemory(hipExternalMemory_t ext)
{
	return handle_end(ext, CLASS_IMPORTED);
}

void fake_gpu_totals(struct fake_gpu_totals *ret)
{
	pthread_mutex_lock(&lock);
	*ret = totals;
	pthread_mutex_unlock(&lock);
}

/* All of the current device; memory of the host, managed too, is of all devices together and stays as long as there are
 * others (Device::Reset() and MemObjMap::Purge() of AMD's sources). Physical memory was not asked about: it stays. */
hipError_t hipDeviceReset(void)
{
	const uint32_t always = MASK(CLASS_DEVICE) | MASK(CLASS_ARRAY) | MASK(CLASS_ASYNC) | MASK(CLASS_GRAPH);
	const uint32_t alone = MASK(CLASS_HOST) | MASK(CLASS_MANAGED);
	uint32_t mask = device_count == 1 ? always | alone : always;

	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < fresh; i++) {
		struct fake_block *b = &blocks[i];

		if (!b->is_used || b->class & CLASS_RESERVED || b->device != current || !((mask >> b->class) & 1))
			continue;
		block_end(b);
		totals.swept_count++;
	}
	pthread_mutex_unlock(&lock);
	return hipSuccess;
}
