/* SPDX-License-Identifier: MIT */
/* A stand-in for the CUDA driver library: devices, contexts, errors. Real names, argument orders and return codes. */
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcuda.h"

enum driver_state {
	DRIVER_NEW,
	DRIVER_READY,
	DRIVER_FORKED, /* a context does not survive fork: all calls of the child fail, as in the real driver */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below but slot's numbers */
static int state;
static struct fake_gpu_slot *slot;
static int device_count; /* visible ones */
static int physical[FAKE_GPU_MAX]; /* index of each ordinal */
static uint64_t capacity;

bool out_is_plausible(const volatile void *p)
{
	return (uintptr_t)p >= 65536 && (uintptr_t)p < 1ull << USER_ADDRESS_BITS;
}

static void in_child(void)
{
	if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == DRIVER_READY)
		__atomic_store_n(&state, DRIVER_FORKED, __ATOMIC_RELEASE);
	slot = NULL; /* the parent's */
}

static void __attribute__((destructor)) at_exit(void)
{
	if (slot && __atomic_load_n(&state, __ATOMIC_ACQUIRE) == DRIVER_READY)
		__atomic_store_n(&slot->pid, 0, __ATOMIC_RELEASE);
}

/* One item of CUDA_VISIBLE_DEVICES: an index, or a uuid or its beginning. -1: none such. */
static int visible_item(const char *s, size_t len, int count)
{
	char text[41];
	int v = 0;

	if (!len)
		return -1;
	for (int i = 0; i < count && len > 4 && len <= 40; i++) {
		state_uuid_text(i, text);
		if (!strncmp(s, text, len))
			return i;
	}
	for (size_t i = 0; i < len; i++) {
		if (!isdigit((unsigned char)s[i]) || v > 1000)
			return -1;
		v = 10 * v + s[i] - '0';
	}
	return v < count ? v : -1;
}

/* As the real driver reads it: the list ends at the first item that is not good. */
static void find_devices(void)
{
	const char *s = getenv("CUDA_VISIBLE_DEVICES");
	int count = state_device_count();

	device_count = 0;
	if (!s) {
		for (; device_count < count; device_count++)
			physical[device_count] = device_count;
		return;
	}
	while (device_count < FAKE_GPU_MAX) {
		size_t len = strcspn(s, ",");
		int v = visible_item(s, len, count);

		if (v < 0)
			return;
		physical[device_count++] = v;
		if (!s[len])
			return;
		s += len + 1;
	}
}

CUresult cuInit(unsigned int flags)
{
	CUresult r = CUDA_SUCCESS;

	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (state == DRIVER_FORKED) {
		r = CUDA_ERROR_NOT_INITIALIZED;
	} else if (state == DRIVER_NEW) {
		find_devices();
		capacity = state_device_bytes();
		slot = state_claim();
		if (!slot || !device_count) {
			r = slot ? ERROR_NO_DEVICE : CUDA_ERROR_OUT_OF_MEMORY;
		} else {
			contexts_init();
			pthread_atfork(NULL, NULL, in_child);
			__atomic_store_n(&state, DRIVER_READY, __ATOMIC_RELEASE);
		}
	}
	pthread_mutex_unlock(&lock);
	return r;
}

CUresult driver_ready(void)
{
	return __atomic_load_n(&state, __ATOMIC_ACQUIRE) == DRIVER_READY ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

bool device_is_valid(CUdevice dev)
{
	return dev >= 0 && dev < device_count;
}

bool device_charge_plain(int device, uint64_t bytes)
{
	uint64_t *used = &slot->used_bytes[physical[device]], was = __atomic_load_n(used, __ATOMIC_RELAXED);

	do {
		if (bytes > capacity || was > capacity - bytes)
			return false;
	} while (!__atomic_compare_exchange_n(used, &was, was + bytes, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return true;
}

bool device_charge(int device, uint64_t bytes)
{
	if (device_charge_plain(device, bytes))
		return true;
	pool_reclaim(device);
	return device_charge_plain(device, bytes);
}

void device_uncharge(int device, uint64_t bytes)
{
	__atomic_fetch_sub(&slot->used_bytes[physical[device]], bytes, __ATOMIC_RELAXED);
}

void device_context_count(int device, int change)
{
	__atomic_fetch_add(&slot->contexts[physical[device]], change, __ATOMIC_RELAXED);
}

int device_physical(int device)
{
	return device < 0 ? -1 : physical[device];
}

int device_ordinal(int index)
{
	for (int i = 0; i < device_count; i++)
		if (physical[i] == index)
			return i;
	return -1;
}

CUresult cuDriverGetVersion(int *version)
{
	if (!out_is_plausible(version))
		return CUDA_ERROR_INVALID_VALUE;
	*version = 13000;
	return CUDA_SUCCESS;
}

static const struct {
	CUresult code;
	const char *name, *text;
} errors[] = {
	{ CUDA_SUCCESS, "CUDA_SUCCESS", "no error" },
	{ CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
	{ CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
	{ CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
	{ ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
	{ CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
	{ CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
	{ CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed" },
	{ ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
	{ ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state" },
	{ CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
	  "part or all of the requested memory range is already mapped" },
	{ CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
	  "pointer does not correspond to a registered memory region" },
	{ CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
	{ ERROR_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
	  "operation not permitted when stream is capturing" },
	{ ERROR_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
	  "operation failed due to a previous error during capture" },
	{ ERROR_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
	  "capture was not ended in the same stream as it began" },
	{ ERROR_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
	  "capturing stream has unjoined work" },
	{ CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

static CUresult error_text(CUresult error, const char **str, bool is_name)
{
	if (!out_is_plausible(str))
		return CUDA_ERROR_INVALID_VALUE;
	*str = NULL;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == error)
			*str = is_name ? errors[i].name : errors[i].text;
	return *str ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **str)
{
	return error_text(error, str, true);
}

CUresult cuGetErrorString(CUresult error, const char **str)
{
	return error_text(error, str, false);
}

CUresult cuDeviceGetCount(int *count)
{
	if (driver_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!out_is_plausible(count))
		return CUDA_ERROR_INVALID_VALUE;
	*count = device_count;
	return CUDA_SUCCESS;
}

CUresult device_check(CUdevice dev, const volatile void *out)
{
	if (driver_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!out_is_plausible(out))
		return CUDA_ERROR_INVALID_VALUE;
	return device_is_valid(dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult r = device_check(ordinal, device);

	if (!r)
		*device = ordinal;
	return r;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	CUresult r = device_check(dev, name);

	if (!r && len > 0)
		snprintf(name, (size_t)len, "Fake GPU");
	return r;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	CUresult r = device_check(dev, bytes);

	if (!r)
		*bytes = capacity;
	return r;
}

static CUresult get_uuid(CUuuid *uuid, CUdevice dev)
{
	CUresult r = device_check(dev, uuid);

	if (!r)
		state_uuid(physical[dev], uuid->bytes);
	return r;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	return get_uuid(uuid, dev);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	return get_uuid(uuid, dev);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	struct CUctx_st *c;
	CUresult r = context_current(&c);
	uint64_t used;

	if (r)
		return r;
	if (!out_is_plausible(free_bytes) || !out_is_plausible(total_bytes))
		return CUDA_ERROR_INVALID_VALUE;
	used = __atomic_load_n(&slot->used_bytes[physical[c->device]], __ATOMIC_RELAXED);
	*free_bytes = capacity > used ? capacity - used : 0;
	*total_bytes = capacity;
	return CUDA_SUCCESS;
}

void fake_gpu_totals(struct fake_gpu_totals *ret)
{
	memset(ret, 0, sizeof(*ret));
	block_totals(ret);
	vmm_totals(ret);
}
