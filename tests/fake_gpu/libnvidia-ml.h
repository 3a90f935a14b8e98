/* SPDX-License-Identifier: MIT */
/* The part of NVML's interface that the stand-in has. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_FUNCTION_NOT_FOUND = 13,
	NVML_ERROR_GPU_IS_LOST = 15,
};

#define VALUE_NOT_AVAILABLE UINT64_MAX

struct device {
	int index;
	int instance; /* 0 = a card, else from 1 */
};

struct memory_v1 {
	unsigned long long total, free, used;
};

struct memory_v2 {
	unsigned int version;
	unsigned long long total, reserved, free, used;
};

struct process_v1 {
	unsigned int pid;
	unsigned long long used;
};

struct process_v2 {
	unsigned int pid;
	unsigned long long used;
	unsigned int gpu_instance, compute_instance;
};

struct process_535 {
	unsigned int pid;
	unsigned long long used;
	unsigned int gpu_instance, compute_instance;
	unsigned long long protected_used;
};

struct pci {
	char legacy_id[16];
	unsigned int domain, bus, device, device_id, subsystem_id;
	char id[32];
};

struct utilization {
	unsigned int gpu, memory;
};

struct process_sample {
	unsigned int pid;
	unsigned long long stamp_usec;
	unsigned int sm, memory, encoder, decoder;
};

_Static_assert(sizeof(struct pci) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(struct process_v1) == 16 && sizeof(struct process_v2) == 24 && sizeof(struct process_535) == 32,
	       "record sizes");
_Static_assert(sizeof(struct process_sample) == 32, "nvmlProcessUtilizationSample_t");

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlInit(void);
EXPORT int nvmlShutdown(void);
EXPORT const char *nvmlErrorString(int r);
EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned int len);
EXPORT int nvmlSystemGetNVMLVersion(char *version, unsigned int len);
EXPORT int nvmlDeviceGetCount_v2(unsigned int *count);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct device **ret);
EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **ret);
EXPORT int nvmlDeviceGetUUID(struct device *d, char *uuid, unsigned int len);
EXPORT int nvmlDeviceGetName(struct device *d, char *name, unsigned int len);
EXPORT int nvmlDeviceGetIndex(struct device *d, unsigned int *index);
EXPORT int nvmlDeviceGetMinorNumber(struct device *d, unsigned int *minor);
EXPORT int nvmlDeviceGetMemoryInfo(struct device *d, struct memory_v1 *m);
EXPORT int nvmlDeviceGetMemoryInfo_v2(struct device *d, struct memory_v2 *m);
EXPORT int nvmlDeviceGetPciInfo_v2(struct device *d, struct pci *pci);
EXPORT int nvmlDeviceGetPciInfo_v3(struct device *d, struct pci *pci);
EXPORT int nvmlDeviceGetMigMode(struct device *d, unsigned int *current, unsigned int *pending);
EXPORT int nvmlDeviceGetMaxMigDeviceCount(struct device *d, unsigned int *count);
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(struct device *d, unsigned int index, struct device **ret);
EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct device *d, struct device **ret);
EXPORT int nvmlDeviceIsMigDeviceHandle(struct device *d, unsigned int *is_mig);
EXPORT int nvmlDeviceGetComputeRunningProcesses(struct device *d, unsigned int *count, struct process_v1 *infos);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(struct device *d, unsigned int *count, struct process_v2 *infos);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(struct device *d, unsigned int *count, void *infos);
EXPORT int nvmlDeviceGetGraphicsRunningProcesses(struct device *d, unsigned int *count, struct process_v1 *infos);
EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v2(struct device *d, unsigned int *count, struct process_v2 *infos);
EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(struct device *d, unsigned int *count, void *infos);
EXPORT int nvmlDeviceGetMPSComputeRunningProcesses(struct device *d, unsigned int *count, struct process_v1 *infos);
EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v2(struct device *d, unsigned int *count, struct process_v2 *infos);
EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct device *d, unsigned int *count, void *infos);
EXPORT int nvmlDeviceGetUtilizationRates(struct device *d, struct utilization *u);
EXPORT int nvmlDeviceGetTemperature(struct device *d, int sensor, unsigned int *celsius);
EXPORT int nvmlDeviceGetPowerUsage(struct device *d, unsigned int *milliwatts);
EXPORT int nvmlDeviceGetEnforcedPowerLimit(struct device *d, unsigned int *milliwatts);
EXPORT int nvmlDeviceGetProcessUtilization(struct device *d, struct process_sample *samples, unsigned int *count,
					   unsigned long long last_seen_usec);
