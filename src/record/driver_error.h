/* SPDX-License-Identifier: MIT */
#pragma once

/* Name of a driver function's return code, "CUDA_ERROR_OUT_OF_MEMORY", "hipErrorOutOfMemory" or
 * "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY"; NULL when not known. function tells the driver by its prefix, NULL is CUDA. */
const char *driver_error_name(const char *function, int error);
