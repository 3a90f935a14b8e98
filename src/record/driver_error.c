/* SPDX-License-Identifier: MIT */
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "record/driver_error.h"

struct error_name {
	int error;
	const char *name;
};

/* CUresult of cuda.h: what memory and context calls can return. */
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

/* hipError_t of hip_runtime_api.h. */
static const struct error_name hip_errors[] = {
	{ 1, "hipErrorInvalidValue" },
	{ 2, "hipErrorOutOfMemory" },
	{ 3, "hipErrorNotInitialized" },
	{ 4, "hipErrorDeinitialized" },
	{ 9, "hipErrorInvalidConfiguration" },
	{ 12, "hipErrorInvalidPitchValue" },
	{ 17, "hipErrorInvalidDevicePointer" },
	{ 35, "hipErrorInsufficientDriver" },
	{ 98, "hipErrorInvalidDeviceFunction" },
	{ 100, "hipErrorNoDevice" },
	{ 101, "hipErrorInvalidDevice" },
	{ 201, "hipErrorInvalidContext" },
	{ 205, "hipErrorMapFailed" },
	{ 206, "hipErrorUnmapFailed" },
	{ 207, "hipErrorArrayIsMapped" },
	{ 208, "hipErrorAlreadyMapped" },
	{ 210, "hipErrorAlreadyAcquired" },
	{ 211, "hipErrorNotMapped" },
	{ 214, "hipErrorECCNotCorrectable" },
	{ 215, "hipErrorUnsupportedLimit" },
	{ 216, "hipErrorContextAlreadyInUse" },
	{ 217, "hipErrorPeerAccessUnsupported" },
	{ 304, "hipErrorOperatingSystem" },
	{ 400, "hipErrorInvalidHandle" },
	{ 401, "hipErrorIllegalState" },
	{ 500, "hipErrorNotFound" },
	{ 600, "hipErrorNotReady" },
	{ 700, "hipErrorIllegalAddress" },
	{ 701, "hipErrorLaunchOutOfResources" },
	{ 702, "hipErrorLaunchTimeOut" },
	{ 704, "hipErrorPeerAccessAlreadyEnabled" },
	{ 705, "hipErrorPeerAccessNotEnabled" },
	{ 708, "hipErrorSetOnActiveProcess" },
	{ 709, "hipErrorContextIsDestroyed" },
	{ 710, "hipErrorAssert" },
	{ 712, "hipErrorHostMemoryAlreadyRegistered" },
	{ 713, "hipErrorHostMemoryNotRegistered" },
	{ 719, "hipErrorLaunchFailure" },
	{ 801, "hipErrorNotSupported" },
	{ 900, "hipErrorStreamCaptureUnsupported" },
	{ 901, "hipErrorStreamCaptureInvalidated" },
	{ 906, "hipErrorStreamCaptureImplicit" },
	{ 911, "hipErrorInvalidChannelDescriptor" },
	{ 999, "hipErrorUnknown" },
	{ 1052, "hipErrorRuntimeMemory" },
	{ 1053, "hipErrorRuntimeOther" },
};

/* ze_result_t of ze_api.h. */
static const struct error_name ze_errors[] = {
	{ 1, "ZE_RESULT_NOT_READY" },
	{ 0x70000001, "ZE_RESULT_ERROR_DEVICE_LOST" },
	{ 0x70000002, "ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY" },
	{ 0x70000003, "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY" },
	{ 0x70000006, "ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET" },
	{ 0x70000007, "ZE_RESULT_ERROR_DEVICE_IN_LOW_POWER_STATE" },
	{ 0x70010000, "ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS" },
	{ 0x70010001, "ZE_RESULT_ERROR_NOT_AVAILABLE" },
	{ 0x70020000, "ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE" },
	{ 0x78000001, "ZE_RESULT_ERROR_UNINITIALIZED" },
	{ 0x78000002, "ZE_RESULT_ERROR_UNSUPPORTED_VERSION" },
	{ 0x78000003, "ZE_RESULT_ERROR_UNSUPPORTED_FEATURE" },
	{ 0x78000004, "ZE_RESULT_ERROR_INVALID_ARGUMENT" },
	{ 0x78000005, "ZE_RESULT_ERROR_INVALID_NULL_HANDLE" },
	{ 0x78000006, "ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE" },
	{ 0x78000007, "ZE_RESULT_ERROR_INVALID_NULL_POINTER" },
	{ 0x78000008, "ZE_RESULT_ERROR_INVALID_SIZE" },
	{ 0x78000009, "ZE_RESULT_ERROR_UNSUPPORTED_SIZE" },
	{ 0x7800000a, "ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT" },
	{ 0x7800000c, "ZE_RESULT_ERROR_INVALID_ENUMERATION" },
	{ 0x7800000d, "ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION" },
	{ 0x7ffffffe, "ZE_RESULT_ERROR_UNKNOWN" },
};

static const struct {
	const char *prefix; /* a capital letter follows: "cupy_alloc" is no function of the driver */
	const struct error_name *names;
	size_t len;
} apis[] = {
	{ "cu", cuda_errors, ARRAY_SIZE(cuda_errors) },
	{ "hip", hip_errors, ARRAY_SIZE(hip_errors) },
	{ "ze", ze_errors, ARRAY_SIZE(ze_errors) },
};

const char *driver_error_name(const char *function, int error)
{
	if (!function)
		function = "cuMem";
	for (size_t i = 0; i < ARRAY_SIZE(apis); i++) {
		size_t n = strlen(apis[i].prefix);

		if (strncmp(function, apis[i].prefix, n) != 0 || function[n] < 'A' || function[n] > 'Z')
			continue;
		for (size_t j = 0; j < apis[i].len; j++)
			if (apis[i].names[j].error == error)
				return apis[i].names[j].name;
	}
	return NULL;
}
