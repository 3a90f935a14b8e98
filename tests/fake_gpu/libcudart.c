/* SPDX-License-Identifier: MIT */
/* A stand-in for the runtime library: opens the driver at its first call, as the real one does, and calls it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

#include "cuda_api.h"

#define EXPORT __attribute__((visibility("default")))

typedef int cudaError_t;

EXPORT cudaError_t cudaGetDeviceCount(int *count);
EXPORT cudaError_t cudaSetDevice(int device);
EXPORT cudaError_t cudaGetDevice(int *device);
EXPORT cudaError_t cudaDeviceReset(void);
EXPORT cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
EXPORT cudaError_t cudaMalloc(void **p, size_t bytes);
EXPORT cudaError_t cudaMallocManaged(void **p, size_t bytes, unsigned int flags);
EXPORT cudaError_t cudaMallocPitch(void **p, size_t *pitch, size_t width, size_t height);
EXPORT cudaError_t cudaFree(void *p);
EXPORT cudaError_t cudaMallocHost(void **p, size_t bytes);
EXPORT cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned int flags);
EXPORT cudaError_t cudaFreeHost(void *p);
EXPORT cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned int flags);
EXPORT cudaError_t cudaHostUnregister(void *p);
EXPORT cudaError_t cudaDeviceSynchronize(void);
EXPORT cudaError_t cudaGetLastError(void);
EXPORT cudaError_t cudaMallocAsync(void **p, size_t bytes, CUstream stream);
EXPORT cudaError_t cudaFreeAsync(void *p, CUstream stream);
EXPORT const char *cudaGetErrorString(cudaError_t error);

#define DRIVER_CALLS(X)                                                                                                \
	X(cuInit)                                                                                                      \
	X(cuGetErrorString)                                                                                            \
	X(cuDeviceGetCount)                                                                                            \
	X(cuDeviceGetUuid_v2)                                                                                          \
	X(cuDevicePrimaryCtxRetain)                                                                                    \
	X(cuDevicePrimaryCtxReset_v2)                                                                                  \
	X(cuCtxSetCurrent)                                                                                             \
	X(cuMemGetInfo_v2)                                                                                             \
	X(cuMemAlloc_v2)                                                                                               \
	X(cuMemAllocManaged)                                                                                           \
	X(cuMemAllocPitch_v2)                                                                                          \
	X(cuMemFree_v2)                                                                                                \
	X(cuMemHostAlloc)                                                                                              \
	X(cuMemFreeHost)                                                                                               \
	X(cuMemHostRegister_v2)                                                                                        \
	X(cuMemHostUnregister)                                                                                         \
	X(cuCtxSynchronize)                                                                                            \
	X(cuMemAllocAsync)                                                                                             \
	X(cuMemFreeAsync)

static struct {
#define X(name) __typeof__(&name) name;
	DRIVER_CALLS(X)
#undef X
	int is_ready, device_count;
} driver;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CUcontext primary[64];
static __thread int thread_device;
static __thread CUcontext thread_context;

static void load(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	CUuuid uuid;

	if (!lib)
		return;
#define X(name)                                                                                                        \
	driver.name = (__typeof__(&name))(uintptr_t)dlsym(lib, #name);                                                 \
	if (!driver.name)                                                                                              \
		return;
	DRIVER_CALLS(X)
#undef X
	if (driver.cuInit(0) || driver.cuDeviceGetCount(&driver.device_count))
		return;
	/* The real one asks for the uuid of every device when it starts. */
	for (int i = 0; i < driver.device_count; i++)
		driver.cuDeviceGetUuid_v2(&uuid, i);
	driver.is_ready = 1;
}

/* Driver loaded and the thread's device current. Two threads may both retain a device: harmless. */
static cudaError_t enter(void)
{
	CUresult r;

	pthread_once(&once, load);
	if (!driver.is_ready)
		return 35; /* cudaErrorInsufficientDriver */
	if (thread_context)
		return 0;
	if (!primary[thread_device]) {
		CUcontext c;

		r = driver.cuDevicePrimaryCtxRetain(&c, thread_device);
		if (r)
			return r;
		primary[thread_device] = c;
	}
	r = driver.cuCtxSetCurrent(primary[thread_device]);
	if (!r)
		thread_context = primary[thread_device];
	return r;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	pthread_once(&once, load);
	if (!driver.is_ready)
		return 35;
	*count = driver.device_count;
	return 0;
}

cudaError_t cudaSetDevice(int device)
{
	pthread_once(&once, load);
	if (!driver.is_ready)
		return 35;
	if (device < 0 || device >= driver.device_count)
		return 101;
	thread_device = device;
	thread_context = NULL;
	return enter();
}

cudaError_t cudaGetDevice(int *device)
{
	*device = thread_device;
	return 0;
}

cudaError_t cudaDeviceReset(void)
{
	cudaError_t r = enter();

	if (!r)
		r = driver.cuDevicePrimaryCtxReset_v2(thread_device);
	if (!r) { /* dead until it is retained again, at the next call */
		primary[thread_device] = NULL;
		thread_context = NULL;
	}
	return r;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
	cudaError_t r = enter();

	return r ? r : driver.cuMemGetInfo_v2(free_bytes, total_bytes);
}

static cudaError_t give(CUresult r, const CUdeviceptr *d, void **p)
{
	if (!r)
		*p = (void *)(uintptr_t)*d;
	return r;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
	cudaError_t r = enter();
	CUdeviceptr d = 0;

	return r ? r : give(driver.cuMemAlloc_v2(&d, bytes), &d, p);
}

cudaError_t cudaMallocManaged(void **p, size_t bytes, unsigned int flags)
{
	cudaError_t r = enter();
	CUdeviceptr d = 0;

	return r ? r : give(driver.cuMemAllocManaged(&d, bytes, flags), &d, p);
}

cudaError_t cudaMallocPitch(void **p, size_t *pitch, size_t width, size_t height)
{
	cudaError_t r = enter();
	CUdeviceptr d = 0;

	return r ? r : give(driver.cuMemAllocPitch_v2(&d, pitch, width, height, 4), &d, p);
}

/* The runtime does not bother the driver with a null pointer. */
cudaError_t cudaFree(void *p)
{
	cudaError_t r = enter();

	return r || !p ? r : driver.cuMemFree_v2((uintptr_t)p);
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
	cudaError_t r = enter();

	return r ? r : driver.cuMemHostAlloc(p, bytes, 0);
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned int flags)
{
	cudaError_t r = enter();

	return r ? r : driver.cuMemHostAlloc(p, bytes, flags);
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned int flags)
{
	cudaError_t r = enter();

	return r ? r : driver.cuMemHostRegister_v2(p, bytes, flags);
}

cudaError_t cudaHostUnregister(void *p)
{
	cudaError_t r = enter();

	return r ? r : driver.cuMemHostUnregister(p);
}

cudaError_t cudaDeviceSynchronize(void)
{
	cudaError_t r = enter();

	return r ? r : driver.cuCtxSynchronize();
}

/* Errors are not remembered here: each call returned its own. */
cudaError_t cudaGetLastError(void)
{
	return 0;
}

cudaError_t cudaFreeHost(void *p)
{
	cudaError_t r = enter();

	return r || !p ? r : driver.cuMemFreeHost(p);
}

cudaError_t cudaMallocAsync(void **p, size_t bytes, CUstream stream)
{
	cudaError_t r = enter();
	CUdeviceptr d = 0;

	return r ? r : give(driver.cuMemAllocAsync(&d, bytes, stream), &d, p);
}

cudaError_t cudaFreeAsync(void *p, CUstream stream)
{
	cudaError_t r = enter();

	return r ? r : driver.cuMemFreeAsync((uintptr_t)p, stream);
}

const char *cudaGetErrorString(cudaError_t error)
{
	const char *text = NULL;

	pthread_once(&once, load);
	if (!driver.is_ready || driver.cuGetErrorString(error, &text))
		return "unrecognized error code";
	return text;
}
