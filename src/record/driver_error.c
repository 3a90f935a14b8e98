/* SPDX-License-Identifier: MIT */
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "record/driver_error.h"

struct error_name {
	int error;
	const char *name;
};

/* CUresult of cuda.h and hipError_t of hip_runtime_api.h: what memory and context calls can return. */
static const struct error_name cuda_errors[] = {
	{ 1, "CUDA_ERROR_INVALID_VALUE" },
	{ 2, "CUDA_ERROR_OUT_OF_MEMORY" },
	{ 3, "CUDA_ERROR_NOT_INITIALIZED" },
	{ 4, "CUDA_ERROR_DEINITIALIZED" },
	{ 34, "CUDA_ERROR_STUB_LIBRARY" },
	{ 46, "CUDA_ERROR_DEVICE_UNAVAILABLE" },
	{ 100, "CUDA_ERROR_NO_DEVICE" },
	{ 101, "CUDA_ERROR_INVALID_DEVICE" },
	{ 102, "CUDA_ERROR_DEVICE_NOT_LICENSED" },
	{ 201, "CUDA_ERROR_INVALID_CONTEXT" },
	{ 205, "CUDA_ERROR_MAP_FAILED" },
	{ 206, "CUDA_ERROR_UNMAP_FAILED" },
	{ 208, "CUDA_ERROR_ALREADY_MAPPED" },
	{ 211, "CUDA_ERROR_NOT_MAPPED" },
	{ 214, "CUDA_ERROR_ECC_UNCORRECTABLE" },
	{ 216, "CUDA_ERROR_CONTEXT_ALREADY_IN_USE" },
	{ 217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED" },
	{ 220, "CUDA_ERROR_NVLINK_UNCORRECTABLE" },
	{ 304, "CUDA_ERROR_OPERATING_SYSTEM" },
	{ 400, "CUDA_ERROR_INVALID_HANDLE" },
	{ 401, "CUDA_ERROR_ILLEGAL_STATE" },
	{ 600, "CUDA_ERROR_NOT_READY" },
	{ 700, "CUDA_ERROR_ILLEGAL_ADDRESS" },
	{ 701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" },
	{ 702, "CUDA_ERROR_LAUNCH_TIMEOUT" },
	{ 704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED" },
	{ 708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE" },
	{ 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED" },
	{ 710, "CUDA_ERROR_ASSERT" },
	{ 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED" },
	{ 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED" },
	{ 714, "CUDA_ERROR_HARDWARE_STACK_ERROR" },
	{ 715, "CUDA_ERROR_ILLEGAL_INSTRUCTION" },
	{ 716, "CUDA_ERROR_MISALIGNED_ADDRESS" },
	{ 717, "CUDA_ERROR_INVALID_ADDRESS_SPACE" },
	{ 718, "CUDA_ERROR_INVALID_PC" },
	{ 719, "CUDA_ERROR_LAUNCH_FAILED" },
	{ 800, "CUDA_ERROR_NOT_PERMITTED" },
	{ 801, "CUDA_ERROR_NOT_SUPPORTED" },
	{ 802, "CUDA_ERROR_SYSTEM_NOT_READY" },
	{ 803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" },
	{ 805, "CUDA_ERROR_MPS_CONNECTION_FAILED" },
	{ 806, "CUDA_ERROR_MPS_RPC_FAILURE" },
	{ 807, "CUDA_ERROR_MPS_SERVER_NOT_READY" },
	{ 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" },
	{ 901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" },
	{ 999, "CUDA_ERROR_UNKNOWN" },
};

static const struct error_name hip_errors[] = {
	{ 1, "hipErrorInvalidValue" },
	{ 2, "hipErrorOutOfMemory" },
	{ 3, "hipErrorNotInitialized" },
	{ 4, "hipErrorDeinitialized" },
	{ 100, "hipErrorNoDevice" },
	{ 101, "hipErrorInvalidDevice" },
	{ 201, "hipErrorInvalidContext" },
	{ 400, "hipErrorInvalidHandle" },
	{ 700, "hipErrorIllegalAddress" },
	{ 801, "hipErrorNotSupported" },
	{ 999, "hipErrorUnknown" },
};

static const char *find(const struct error_name *table, size_t len, int error)
{
	for (size_t i = 0; i < len; i++)
		if (table[i].error == error)
			return table[i].name;
	return NULL;
}

const char *driver_error_name(const char *function, int error)
{
	if (function && strncmp(function, "hip", 3) == 0)
		return find(hip_errors, ARRAY_SIZE(hip_errors), error);
	if (function && strncmp(function, "cu", 2) != 0)
		return NULL;
	return find(cuda_errors, ARRAY_SIZE(cuda_errors), error);
}
