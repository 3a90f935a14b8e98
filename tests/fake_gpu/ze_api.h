/* SPDX-License-Identifier: MIT */
/* The part of Level Zero that the stand-in offers and its workload uses, as libze_loader.so.1 exports it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef int ze_result_t;
typedef struct fake_context *ze_context_handle_t;
typedef struct fake_device *ze_device_handle_t;
typedef struct fake_driver *ze_driver_handle_t;
typedef struct fake_block *ze_physical_mem_handle_t;

enum {
	ZE_RESULT_SUCCESS = 0,
	ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY = 0x70000002,
	ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY = 0x70000003,
	ZE_RESULT_ERROR_INVALID_ARGUMENT = 0x78000004,
	ZE_RESULT_ERROR_INVALID_NULL_HANDLE = 0x78000005,
	ZE_RESULT_ERROR_INVALID_NULL_POINTER = 0x78000007,
	ZE_RESULT_ERROR_UNSUPPORTED_SIZE = 0x78000009,
};

/* Memory descriptors are only passed on; both kinds begin so. */
typedef struct {
	uint32_t stype;
	const void *pNext;
	uint32_t flags, ordinal;
} ze_mem_alloc_desc_t;

typedef struct {
	uint32_t stype;
	const void *pNext;
	uint32_t freePolicy;
} ze_memory_free_ext_desc_t;

typedef struct {
	uint32_t stype;
	const void *pNext;
	uint32_t flags;
	size_t size;
} ze_physical_mem_desc_t;

typedef struct {
	char data[64];
} ze_ipc_mem_handle_t;

_Static_assert(offsetof(ze_physical_mem_desc_t, size) == 24, "ze_physical_mem_desc_t");

#pragma GCC visibility push(default)

ze_result_t zeInit(uint32_t flags);
ze_result_t zeDriverGet(uint32_t *count, ze_driver_handle_t *drivers);
ze_result_t zeDeviceGet(ze_driver_handle_t driver, uint32_t *count, ze_device_handle_t *devices);
ze_result_t zeContextCreate(ze_driver_handle_t driver, const void *desc, ze_context_handle_t *context);
ze_result_t zeMemAllocDevice(ze_context_handle_t context, const ze_mem_alloc_desc_t *desc, size_t bytes, size_t alignment,
			     ze_device_handle_t device, void **p);
ze_result_t zeMemAllocShared(ze_context_handle_t context, const ze_mem_alloc_desc_t *device_desc,
			     const ze_mem_alloc_desc_t *host_desc, size_t bytes, size_t alignment, ze_device_handle_t device,
			     void **p);
ze_result_t zeMemAllocHost(ze_context_handle_t context, const ze_mem_alloc_desc_t *desc, size_t bytes, size_t alignment,
			   void **p);
ze_result_t zeMemFree(ze_context_handle_t context, void *p);
ze_result_t zeMemFreeExt(ze_context_handle_t context, const ze_memory_free_ext_desc_t *desc, void *p);
ze_result_t zePhysicalMemCreate(ze_context_handle_t context, ze_device_handle_t device, ze_physical_mem_desc_t *desc,
				ze_physical_mem_handle_t *handle);
ze_result_t zePhysicalMemDestroy(ze_context_handle_t context, ze_physical_mem_handle_t handle);
ze_result_t zeMemGetIpcHandle(ze_context_handle_t context, const void *p, ze_ipc_mem_handle_t *handle);
ze_result_t zeMemOpenIpcHandle(ze_context_handle_t context, ze_device_handle_t device, ze_ipc_mem_handle_t handle,
			       uint32_t flags, void **p);
ze_result_t zeMemCloseIpcHandle(ze_context_handle_t context, const void *p);

#pragma GCC visibility pop
