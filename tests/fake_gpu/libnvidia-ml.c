/* SPDX-License-Identifier: MIT */
/*
 * A stand-in for NVML over the stand-in driver's state file. To be unwell on purpose, environment:
 * FAKE_NVML_INIT=N nvmlInit returns N; FAKE_NVML_DELAY_MS each question takes so long; FAKE_NVML_OLD=1 newest calls answer
 * 13 (not found); FAKE_NVML_NO_USED=1 a process's bytes are not available; FAKE_NVML_535=1 the records behind the _v3 name
 * are 32 bytes long, as in driver 535.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "fake_gpu.h"

#define EXPORT __attribute__((visibility("default")))

enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_FUNCTION_NOT_FOUND = 13,
};

#define VALUE_NOT_AVAILABLE UINT64_MAX

struct device {
	int index;
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

_Static_assert(sizeof(struct process_v1) == 16 && sizeof(struct process_v2) == 24 && sizeof(struct process_535) == 32,
	       "record sizes");

static struct device devices[FAKE_GPU_MAX] = { { 0 }, { 1 }, { 2 }, { 3 }, { 4 }, { 5 }, { 6 }, { 7 } };
static struct fake_gpu_state *state;
static int init_count;

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
EXPORT int nvmlDeviceGetComputeRunningProcesses(struct device *d, unsigned int *count, struct process_v1 *infos);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(struct device *d, unsigned int *count, struct process_v2 *infos);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(struct device *d, unsigned int *count, void *infos);
EXPORT int nvmlDeviceGetGraphicsRunningProcesses(struct device *d, unsigned int *count, void *infos);
EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v2(struct device *d, unsigned int *count, void *infos);
EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(struct device *d, unsigned int *count, void *infos);
EXPORT int nvmlDeviceGetMPSComputeRunningProcesses(struct device *d, unsigned int *count, void *infos);
EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v2(struct device *d, unsigned int *count, void *infos);
EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct device *d, unsigned int *count, void *infos);

static int ready(void)
{
	uint64_t ms = state_env("FAKE_NVML_DELAY_MS", 0);
	struct timespec ts = { .tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000 };

	if (ms)
		nanosleep(&ts, NULL);
	return init_count ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

int nvmlInit_v2(void)
{
	int r = (int)state_env("FAKE_NVML_INIT", 0);

	if (r)
		return r;
	if (!state)
		state = state_map();
	init_count++;
	return NVML_SUCCESS;
}

int nvmlInit(void)
{
	return nvmlInit_v2();
}

int nvmlShutdown(void)
{
	if (!init_count)
		return NVML_ERROR_UNINITIALIZED;
	init_count--;
	return NVML_SUCCESS;
}

const char *nvmlErrorString(int r)
{
	switch (r) {
	case NVML_SUCCESS:
		return "Success";
	case NVML_ERROR_UNINITIALIZED:
		return "Uninitialized";
	case NVML_ERROR_INVALID_ARGUMENT:
		return "Invalid Argument";
	case NVML_ERROR_NOT_FOUND:
		return "Not Found";
	case NVML_ERROR_INSUFFICIENT_SIZE:
		return "Insufficient Size";
	case 9:
		return "Driver Not Loaded";
	case NVML_ERROR_FUNCTION_NOT_FOUND:
		return "Function Not Found";
	}
	return "Unknown Error";
}

static int put_text(char *buf, unsigned int len, const char *text)
{
	if (!buf)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (strlen(text) >= len)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(buf, text, strlen(text) + 1);
	return NVML_SUCCESS;
}

int nvmlSystemGetDriverVersion(char *version, unsigned int len)
{
	return ready() ? NVML_ERROR_UNINITIALIZED : put_text(version, len, "580.00.fake");
}

int nvmlSystemGetNVMLVersion(char *version, unsigned int len)
{
	return ready() ? NVML_ERROR_UNINITIALIZED : put_text(version, len, "13.580.00.fake");
}

int nvmlDeviceGetCount_v2(unsigned int *count)
{
	if (ready())
		return NVML_ERROR_UNINITIALIZED;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = (unsigned int)state_device_count();
	return NVML_SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct device **ret)
{
	if (ready())
		return NVML_ERROR_UNINITIALIZED;
	if (!ret || index >= (unsigned int)state_device_count())
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret = &devices[index];
	return NVML_SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **ret)
{
	char text[41];

	if (ready())
		return NVML_ERROR_UNINITIALIZED;
	if (!uuid || !ret)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < state_device_count(); i++) {
		state_uuid_text(i, text);
		if (!strcmp(text, uuid)) {
			*ret = &devices[i];
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

static int check(struct device *d, const void *out)
{
	if (ready())
		return NVML_ERROR_UNINITIALIZED;
	return d >= devices && d < devices + state_device_count() && out ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

int nvmlDeviceGetUUID(struct device *d, char *uuid, unsigned int len)
{
	int r = check(d, uuid);
	char text[41];

	if (r)
		return r;
	state_uuid_text(d->index, text);
	return put_text(uuid, len, text);
}

int nvmlDeviceGetName(struct device *d, char *name, unsigned int len)
{
	int r = check(d, name);

	return r ? r : put_text(name, len, "Fake GPU");
}

int nvmlDeviceGetIndex(struct device *d, unsigned int *index)
{
	int r = check(d, index);

	if (!r)
		*index = (unsigned int)d->index;
	return r;
}

int nvmlDeviceGetMinorNumber(struct device *d, unsigned int *minor)
{
	int r = check(d, minor);

	if (!r)
		*minor = (unsigned int)d->index;
	return r;
}

/* What one slot holds on a device, 0 if its process is gone. */
static uint64_t slot_used(const struct fake_gpu_slot *slot, int index, uint32_t *ret_pid)
{
	uint32_t pid = __atomic_load_n(&slot->pid, __ATOMIC_ACQUIRE);
	uint64_t start = __atomic_load_n(&slot->start_ticks, __ATOMIC_ACQUIRE), used;

	if (!pid || !start || state_start_ticks(pid) != start)
		return 0;
	used = __atomic_load_n(&slot->used_bytes[index], __ATOMIC_RELAXED);
	if (!used && !slot->contexts[index])
		return 0;
	*ret_pid = pid;
	return used + slot->contexts[index] * slot->context_bytes;
}

static uint64_t device_used(int index)
{
	uint64_t sum = 0;
	uint32_t pid;

	for (int i = 0; state && i < FAKE_GPU_SLOTS; i++)
		sum += slot_used(&state->slots[i], index, &pid);
	return sum < state_device_bytes() ? sum : state_device_bytes();
}

int nvmlDeviceGetMemoryInfo(struct device *d, struct memory_v1 *m)
{
	int r = check(d, m);

	if (r)
		return r;
	m->total = state_device_bytes();
	m->used = device_used(d->index);
	m->free = m->total - m->used;
	return NVML_SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(struct device *d, struct memory_v2 *m)
{
	int r = check(d, m);

	if (r)
		return r;
	if (state_env("FAKE_NVML_OLD", 0))
		return NVML_ERROR_FUNCTION_NOT_FOUND;
	if (m->version != (sizeof(*m) | 2u << 24))
		return 25; /* NVML_ERROR_ARGUMENT_VERSION_MISMATCH */
	m->total = state_device_bytes();
	m->reserved = 0;
	m->used = device_used(d->index);
	m->free = m->total - m->used;
	return NVML_SUCCESS;
}

/* Processes of a device, one record each, of record_bytes: pid at 0, bytes at 8, the rest zero. */
static int processes(struct device *d, unsigned int *count, void *infos, size_t record_bytes)
{
	struct process_v1 found[FAKE_GPU_SLOTS];
	unsigned int n = 0, room;
	int r = check(d, count);

	if (r)
		return r;
	for (int i = 0; state && i < FAKE_GPU_SLOTS; i++) {
		uint32_t pid = 0;
		uint64_t used = slot_used(&state->slots[i], d->index, &pid);
		unsigned int k = 0;

		if (!pid)
			continue;
		while (k < n && found[k].pid != pid)
			k++;
		if (k == n)
			found[n++] = (struct process_v1){ .pid = pid };
		found[k].used += used;
	}
	room = *count;
	*count = n;
	if (n > room || (n && !infos))
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned int k = 0; k < n; k++) {
		char *at = (char *)infos + k * record_bytes;

		if (state_env("FAKE_NVML_NO_USED", 0))
			found[k].used = VALUE_NOT_AVAILABLE;
		memset(at, 0, record_bytes);
		memcpy(at, &found[k], sizeof(found[k]));
	}
	return NVML_SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses(struct device *d, unsigned int *count, struct process_v1 *infos)
{
	return processes(d, count, infos, sizeof(*infos));
}

int nvmlDeviceGetComputeRunningProcesses_v2(struct device *d, unsigned int *count, struct process_v2 *infos)
{
	return processes(d, count, infos, sizeof(*infos));
}

int nvmlDeviceGetComputeRunningProcesses_v3(struct device *d, unsigned int *count, void *infos)
{
	if (state_env("FAKE_NVML_OLD", 0))
		return NVML_ERROR_FUNCTION_NOT_FOUND;
	return processes(d, count, infos,
			 state_env("FAKE_NVML_535", 0) ? sizeof(struct process_535) : sizeof(struct process_v2));
}

/* Nobody draws, and there is no MPS server. */
static int nobody(struct device *d, unsigned int *count)
{
	int r = check(d, count);

	if (!r)
		*count = 0;
	return r;
}

int nvmlDeviceGetGraphicsRunningProcesses(struct device *d, unsigned int *count, void *infos)
{
	(void)infos;
	return nobody(d, count);
}

int nvmlDeviceGetGraphicsRunningProcesses_v2(struct device *d, unsigned int *count, void *infos)
{
	(void)infos;
	return nobody(d, count);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(struct device *d, unsigned int *count, void *infos)
{
	(void)infos;
	return nobody(d, count);
}

int nvmlDeviceGetMPSComputeRunningProcesses(struct device *d, unsigned int *count, void *infos)
{
	(void)infos;
	return nobody(d, count);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v2(struct device *d, unsigned int *count, void *infos)
{
	(void)infos;
	return nobody(d, count);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct device *d, unsigned int *count, void *infos)
{
	(void)infos;
	return nobody(d, count);
}
