/* SPDX-License-Identifier: MIT */
/*
 * A stand-in for the Level Zero loader: real names, argument orders and return codes, no memory behind an address. The
 * last block freed is the next to be handed out. FAKE_GPU_COUNT and FAKE_GPU_BYTES as in fake_gpu.h.
 */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "../../bpf/event.h"
#include "fake_gpu.h"
#include "ze_api.h"

#define BLOCKS 16384u
#define BASE 0x300000000000ull
#define STEP (1ull << 30) /* between addresses; larger blocks overlap, which nobody sees */

struct fake_block {
	uint64_t bytes;
	uint8_t class, device;
	bool is_used;
};

struct fake_device {
	uint64_t used;
};

struct fake_context {
	int unused;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static struct fake_block blocks[BLOCKS];
static uint32_t freed[BLOCKS], freed_len, fresh;
static struct fake_device devices[FAKE_GPU_MAX];
static struct fake_context the_context;
static struct fake_gpu_totals totals;

static bool is_on_device(unsigned int class)
{
	return (CLASS_DEVICE_MASK >> class) & 1;
}

static ze_result_t fail(ze_result_t error)
{
	__atomic_fetch_add(&totals.fail_count, 1, __ATOMIC_RELAXED);
	return error;
}

static ze_result_t refuse(ze_result_t error)
{
	__atomic_fetch_add(&totals.free_fail_count, 1, __ATOMIC_RELAXED);
	return error;
}

static bool device_is_good(ze_device_handle_t d)
{
	return d >= devices && d < devices + state_device_count();
}

static uint64_t addr_of(const struct fake_block *b)
{
	return BASE + (uint64_t)(b - blocks) * STEP;
}

static ze_result_t make(unsigned int class, uint64_t bytes, ze_device_handle_t d, struct fake_block **ret)
{
	struct fake_block *b = NULL;

	if (!bytes || bytes > 1ull << 46)
		return fail(ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
	pthread_mutex_lock(&lock);
	if ((freed_len || fresh < BLOCKS) && (!is_on_device(class) || bytes <= state_device_bytes() - d->used)) {
		b = &blocks[freed_len ? freed[--freed_len] : fresh++];
		*b = (struct fake_block){ .bytes = bytes, .class = (uint8_t)class, .is_used = true };
		totals.live_bytes[class] += bytes;
		totals.live_count[class]++;
		totals.alloc_count++;
		if (is_on_device(class)) {
			b->device = (uint8_t)(d - devices);
			d->used += bytes;
			totals.device_bytes[b->device] += bytes;
		}
	}
	pthread_mutex_unlock(&lock);
	if (!b)
		return fail(is_on_device(class) ? ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY : ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
	*ret = b;
	return ZE_RESULT_SUCCESS;
}

static ze_result_t end(uint64_t addr, uint32_t mask)
{
	uint64_t i = (addr - BASE) / STEP;
	struct fake_block *b = addr >= BASE && i < BLOCKS && (addr - BASE) % STEP == 0 ? &blocks[i] : NULL;

	pthread_mutex_lock(&lock);
	if (b && (!b->is_used || !((mask >> b->class) & 1)))
		b = NULL;
	if (b) {
		b->is_used = false;
		freed[freed_len++] = (uint32_t)i;
		totals.live_bytes[b->class] -= b->bytes;
		totals.live_count[b->class]--;
		totals.free_count++;
		if (is_on_device(b->class)) {
			devices[b->device].used -= b->bytes;
			totals.device_bytes[b->device] -= b->bytes;
		}
	}
	pthread_mutex_unlock(&lock);
	return b ? ZE_RESULT_SUCCESS : refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

static ze_result_t alloc(unsigned int class, ze_context_handle_t c, const void *desc, size_t bytes, size_t alignment,
			 ze_device_handle_t d, void **p)
{
	struct fake_block *b;
	ze_result_t r;

	if (c != &the_context || (is_on_device(class) && !device_is_good(d)))
		return fail(ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
	if (!desc || !p)
		return fail(ZE_RESULT_ERROR_INVALID_NULL_POINTER);
	if (alignment & (alignment - 1))
		return fail(ZE_RESULT_ERROR_INVALID_ARGUMENT);
	r = make(class, bytes, d, &b);
	if (!r)
		*p = (void *)(uintptr_t)addr_of(b);
	return r;
}

ze_result_t zeInit(uint32_t flags)
{
	return flags > 1 ? ZE_RESULT_ERROR_INVALID_ARGUMENT : ZE_RESULT_SUCCESS;
}

ze_result_t zeDriverGet(uint32_t *count, ze_driver_handle_t *drivers)
{
	*count = 1;
	if (drivers)
		*drivers = (ze_driver_handle_t)&the_context;
	return ZE_RESULT_SUCCESS;
}

ze_result_t zeDeviceGet(ze_driver_handle_t driver, uint32_t *count, ze_device_handle_t *ret)
{
	(void)driver;
	*count = (uint32_t)state_device_count();
	for (uint32_t i = 0; ret && i < *count; i++)
		ret[i] = &devices[i];
	return ZE_RESULT_SUCCESS;
}

ze_result_t zeContextCreate(ze_driver_handle_t driver, const void *desc, ze_context_handle_t *context)
{
	(void)driver, (void)desc;
	*context = &the_context;
	return ZE_RESULT_SUCCESS;
}

ze_result_t zeMemAllocDevice(ze_context_handle_t context, const ze_mem_alloc_desc_t *desc, size_t bytes, size_t alignment,
			     ze_device_handle_t device, void **p)
{
	return alloc(CLASS_DEVICE, context, desc, bytes, alignment, device, p);
}

ze_result_t zeMemAllocShared(ze_context_handle_t context, const ze_mem_alloc_desc_t *device_desc,
			     const ze_mem_alloc_desc_t *host_desc, size_t bytes, size_t alignment, ze_device_handle_t device,
			     void **p)
{
	return host_desc ? alloc(CLASS_MANAGED, context, device_desc, bytes, alignment, device, p)
			 : fail(ZE_RESULT_ERROR_INVALID_NULL_POINTER);
}

ze_result_t zeMemAllocHost(ze_context_handle_t context, const ze_mem_alloc_desc_t *desc, size_t bytes, size_t alignment,
			   void **p)
{
	return alloc(CLASS_HOST, context, desc, bytes, alignment, NULL, p);
}

#define ANY_MEMORY (1u << CLASS_DEVICE | 1u << CLASS_MANAGED | 1u << CLASS_HOST)

ze_result_t zeMemFree(ze_context_handle_t context, void *p)
{
	return context ? end((uint64_t)(uintptr_t)p, ANY_MEMORY) : refuse(ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
}

ze_result_t zeMemFreeExt(ze_context_handle_t context, const ze_memory_free_ext_desc_t *desc, void *p)
{
	return context && desc ? end((uint64_t)(uintptr_t)p, ANY_MEMORY) : refuse(ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
}

ze_result_t zePhysicalMemCreate(ze_context_handle_t context, ze_device_handle_t device, ze_physical_mem_desc_t *desc,
				ze_physical_mem_handle_t *handle)
{
	if (!context || !device_is_good(device))
		return fail(ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
	return desc && handle ? make(CLASS_PHYSICAL, desc->size, device, handle) : fail(ZE_RESULT_ERROR_INVALID_NULL_POINTER);
}

/* A handle is the block itself, not its address. */
ze_result_t zePhysicalMemDestroy(ze_context_handle_t context, ze_physical_mem_handle_t handle)
{
	if (!context || handle < blocks || handle >= blocks + BLOCKS)
		return refuse(ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
	return end(addr_of(handle), 1u << CLASS_PHYSICAL);
}

/* Of this process too, so that one is enough for a test. */
ze_result_t zeMemGetIpcHandle(ze_context_handle_t context, const void *p, ze_ipc_mem_handle_t *handle)
{
	uint64_t i = ((uint64_t)(uintptr_t)p - BASE) / STEP;

	(void)context;
	if (i >= BLOCKS || !blocks[i].is_used)
		return ZE_RESULT_ERROR_INVALID_ARGUMENT;
	memset(handle, 0x5a, sizeof(*handle));
	memcpy(handle->data + 56, &blocks[i].bytes, 8);
	return ZE_RESULT_SUCCESS;
}

/* The caller does not say how much it is, so it is counted as nothing. */
ze_result_t zeMemOpenIpcHandle(ze_context_handle_t context, ze_device_handle_t device, ze_ipc_mem_handle_t handle,
			       uint32_t flags, void **p)
{
	struct fake_block *b;
	ze_result_t r;

	if (!context || !device_is_good(device) || flags || handle.data[0] != 0x5a)
		return fail(ZE_RESULT_ERROR_INVALID_ARGUMENT);
	r = make(CLASS_IMPORTED, 1, device, &b);
	if (!r) {
		pthread_mutex_lock(&lock);
		totals.live_bytes[CLASS_IMPORTED]--;
		b->bytes = 0;
		pthread_mutex_unlock(&lock);
		*p = (void *)(uintptr_t)addr_of(b);
	}
	return r;
}

ze_result_t zeMemCloseIpcHandle(ze_context_handle_t context, const void *p)
{
	return context ? end((uint64_t)(uintptr_t)p, 1u << CLASS_IMPORTED) : refuse(ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
}

void fake_gpu_totals(struct fake_gpu_totals *ret)
{
	pthread_mutex_lock(&lock);
	*ret = totals;
	pthread_mutex_unlock(&lock);
}
