/* SPDX-License-Identifier: MIT */
/*
 * The part of AMD's HIP interface that the stand-in offers and its workload uses: the exported names, argument orders,
 * structure layouts and error codes of libamdhip64.so, so that probes written for the real library fit this one.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef int hipError_t;
typedef struct fake_block *hipArray_t;
typedef struct fake_block *hipMipmappedArray_t;
typedef struct fake_block *hipMemGenericAllocationHandle_t;
typedef struct fake_block *hipExternalMemory_t;
typedef struct fake_pool *hipMemPool_t;
typedef struct fake_stream *hipStream_t;
typedef struct fake_graph *hipGraph_t;
typedef struct fake_graph *hipGraphExec_t;
typedef void *hipGraphNode_t;
typedef struct fake_device *hipCtx_t;

enum {
	hipSuccess = 0,
	hipErrorInvalidValue = 1,
	hipErrorOutOfMemory = 2,
	hipErrorInvalidDevicePointer = 17,
	hipErrorInvalidDevice = 101,
	hipErrorHostMemoryAlreadyRegistered = 712,
	hipErrorHostMemoryNotRegistered = 713,
	hipErrorNotSupported = 801,
};

enum {
	HIP_AD_FORMAT_UNSIGNED_INT8 = 0x01,
	HIP_AD_FORMAT_HALF = 0x10,
	HIP_AD_FORMAT_FLOAT = 0x20,
	hipMemLocationTypeDevice = 1,
	hipMemLocationTypeHost = 2,
	hipMemPoolAttrReleaseThreshold = 4,
	hipMemPoolAttrReservedMemCurrent = 5,
	hipMemPoolAttrUsedMemCurrent = 7,
};

typedef struct {
	char bytes[16];
} hipUUID;

typedef struct {
	int x, y, z, w; /* bits */
	int f;
} hipChannelFormatDesc;

typedef struct {
	size_t width, height, depth;
} hipExtent;

typedef struct {
	void *ptr;
	size_t pitch, xsize, ysize;
} hipPitchedPtr;

typedef struct {
	size_t Width, Height;
	int Format;
	unsigned int NumChannels;
} HIP_ARRAY_DESCRIPTOR;

typedef struct {
	size_t Width, Height, Depth;
	int Format;
	unsigned int NumChannels, Flags;
} HIP_ARRAY3D_DESCRIPTOR;

typedef struct {
	int type, id;
} hipMemLocation;

typedef struct {
	int type, requestedHandleType;
	hipMemLocation location;
	void *win32HandleMetaData;
	struct {
		unsigned char compressionType, gpuDirectRDMACapable;
		unsigned short usage;
	} allocFlags;
} hipMemAllocationProp;

typedef struct {
	int allocType, handleTypes;
	hipMemLocation location;
	void *win32SecurityAttributes;
	size_t maxSize;
	unsigned char reserved[56];
} hipMemPoolProps;

typedef struct {
	hipMemPoolProps poolProps;
	const void *accessDescs;
	size_t accessDescCount, bytesize;
	void *dptr;
} hipMemAllocNodeParams;

typedef struct {
	char reserved[64];
} hipIpcMemHandle_t;

typedef struct {
	int type;
	union {
		int fd;
		struct {
			void *handle;
			const void *name;
		} win32;
	} handle;
	unsigned long long size;
	unsigned int flags, reserved[16];
} hipExternalMemoryHandleDesc;

_Static_assert(sizeof(hipExtent) == 24 && sizeof(hipPitchedPtr) == 32, "passed by value");
_Static_assert(sizeof(HIP_ARRAY_DESCRIPTOR) == 24 && sizeof(HIP_ARRAY3D_DESCRIPTOR) == 40, "array descriptors");
_Static_assert(sizeof(hipMemPoolProps) == 88 && offsetof(hipMemAllocNodeParams, dptr) == 112, "pool properties");
_Static_assert(offsetof(hipExternalMemoryHandleDesc, size) == 24, "external memory");

#pragma GCC visibility push(default)

hipError_t hipGetDeviceCount(int *count);
hipError_t hipDeviceGetUuid(hipUUID *uuid, int device);
hipError_t hipSetDevice(int device);
hipError_t hipGetDevice(int *device);
hipError_t hipDeviceReset(void);
hipError_t hipDevicePrimaryCtxRetain(hipCtx_t *ctx, int device);
hipError_t hipDevicePrimaryCtxRelease(int device);
hipError_t hipDevicePrimaryCtxReset(int device);
hipError_t hipCtxSetCurrent(hipCtx_t ctx);
hipError_t hipCtxPushCurrent(hipCtx_t ctx);
hipError_t hipCtxPopCurrent(hipCtx_t *ctx);
hipError_t hipCtxDestroy(hipCtx_t ctx);

hipError_t hipMalloc(void **p, size_t bytes);
hipError_t hipExtMallocWithFlags(void **p, size_t bytes, unsigned int flags);
hipError_t hipMallocManaged(void **p, size_t bytes, unsigned int flags);
hipError_t hipMallocPitch(void **p, size_t *pitch, size_t width, size_t height);
hipError_t hipMemAllocPitch(void **p, size_t *pitch, size_t width, size_t height, unsigned int element);
hipError_t hipMalloc3D(hipPitchedPtr *p, hipExtent extent);
hipError_t hipFree(void *p);
hipError_t hipHostMalloc(void **p, size_t bytes, unsigned int flags);
hipError_t hipHostAlloc(void **p, size_t bytes, unsigned int flags);
hipError_t hipMallocHost(void **p, size_t bytes);
hipError_t hipMemAllocHost(void **p, size_t bytes);
hipError_t hipHostFree(void *p);
hipError_t hipFreeHost(void *p);
hipError_t hipHostRegister(void *p, size_t bytes, unsigned int flags);
hipError_t hipHostUnregister(void *p);

hipError_t hipMallocArray(hipArray_t *a, const hipChannelFormatDesc *desc, size_t width, size_t height, unsigned int flags);
hipError_t hipMalloc3DArray(hipArray_t *a, const hipChannelFormatDesc *desc, hipExtent extent, unsigned int flags);
hipError_t hipMallocMipmappedArray(hipMipmappedArray_t *a, const hipChannelFormatDesc *desc, hipExtent extent,
				   unsigned int levels, unsigned int flags);
hipError_t hipArrayCreate(hipArray_t *a, const HIP_ARRAY_DESCRIPTOR *desc);
hipError_t hipArray3DCreate(hipArray_t *a, const HIP_ARRAY3D_DESCRIPTOR *desc);
hipError_t hipMipmappedArrayCreate(hipMipmappedArray_t *a, const HIP_ARRAY3D_DESCRIPTOR *desc, unsigned int levels);
hipError_t hipFreeArray(hipArray_t a);
hipError_t hipArrayDestroy(hipArray_t a);
hipError_t hipFreeMipmappedArray(hipMipmappedArray_t a);
hipError_t hipMipmappedArrayDestroy(hipMipmappedArray_t a);

hipError_t hipMallocAsync(void **p, size_t bytes, hipStream_t stream);
hipError_t hipMallocFromPoolAsync(void **p, size_t bytes, hipMemPool_t pool, hipStream_t stream);
hipError_t hipFreeAsync(void *p, hipStream_t stream);
hipError_t hipMemPoolCreate(hipMemPool_t *pool, const hipMemPoolProps *props);
hipError_t hipMemPoolDestroy(hipMemPool_t pool);
hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t bytes);
hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, int attribute, void *value);
hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, int attribute, void *value);
hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *pool, int device);
hipError_t hipDeviceGetMemPool(hipMemPool_t *pool, int device);
hipError_t hipDeviceSetMemPool(int device, hipMemPool_t pool);

hipError_t hipMemAddressReserve(void **p, size_t bytes, size_t alignment, void *at, unsigned long long flags);
hipError_t hipMemAddressFree(void *p, size_t bytes);
hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *h, size_t bytes, const hipMemAllocationProp *prop,
			unsigned long long flags);
hipError_t hipMemRelease(hipMemGenericAllocationHandle_t h);
hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *h, void *at);
hipError_t hipMemMap(void *p, size_t bytes, size_t offset, hipMemGenericAllocationHandle_t h, unsigned long long flags);
hipError_t hipMemUnmap(void *p, size_t bytes);

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *p);
hipError_t hipIpcOpenMemHandle(void **p, hipIpcMemHandle_t handle, unsigned int flags);
hipError_t hipIpcCloseMemHandle(void *p);
hipError_t hipImportExternalMemory(hipExternalMemory_t *ext, const hipExternalMemoryHandleDesc *desc);
hipError_t hipDestroyExternalMemory(hipExternalMemory_t ext);

hipError_t hipStreamCreate(hipStream_t *stream);
hipError_t hipStreamBeginCapture(hipStream_t stream, int mode);
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph);
hipError_t hipStreamBeginCapture_spt(hipStream_t stream, int mode);
hipError_t hipStreamEndCapture_spt(hipStream_t stream, hipGraph_t *graph);
hipError_t hipGraphCreate(hipGraph_t *graph, unsigned int flags);
hipError_t hipGraphAddMemAllocNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *deps, size_t n,
				   hipMemAllocNodeParams *params);
hipError_t hipGraphAddMemFreeNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *deps, size_t n, void *p);
hipError_t hipGraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *bad, char *log, size_t log_len);
hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *exec, hipGraph_t graph, unsigned long long flags);
hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream);
hipError_t hipGraphLaunch_spt(hipGraphExec_t exec, hipStream_t stream);
hipError_t hipGraphDestroy(hipGraph_t graph);
hipError_t hipGraphExecDestroy(hipGraphExec_t exec);

#pragma GCC visibility pop
