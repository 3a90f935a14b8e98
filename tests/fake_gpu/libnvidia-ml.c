/* SPDX-License-Identifier: MIT */
/*
 * A stand-in for NVML over the stand-in driver's state file. To be unwell on purpose, environment: FAKE_NVML_INIT=N
 * nvmlInit returns N; FAKE_NVML_DELAY_MS each question takes so long; FAKE_NVML_OLD=1 newest calls answer 13 (not
 * found); FAKE_NVML_NO_USED=1 a process's bytes are not available; FAKE_NVML_535=1 the records behind the _v3 name are
 * 32 bytes long, as in driver 535; FAKE_NVML_LOST=N card N answers each question with 15 (lost), but there is a handle;
 * FAKE_NVML_GHOSTS=1 each list starts with a record of process 0 and one of 4294967295.
 *
 * Which lists have the processes: FAKE_NVML_LISTS, the sum of 1 compute (that alone is the default), 2 graphics and 4
 * MPS.
 *
 * FAKE_GPU_MIG=1: card 0 is in MIG mode with two instances at places 0 and 2, each with half of its memory; the first
 * has the processes with even pids, the other those with odd ones. The card itself then may not be asked for processes
 * (4).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "fake_gpu.h"

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
#define INSTANCES 2
#define INSTANCE_STEP 2 /* the place between them is empty */

enum list { LIST_COMPUTE = 1, LIST_GRAPHICS = 2, LIST_MPS = 4 };

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

_Static_assert(sizeof(struct pci) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(struct process_v1) == 16 && sizeof(struct process_v2) == 24 && sizeof(struct process_535) == 32,
	       "record sizes");

static struct device devices[FAKE_GPU_MAX] = { { 0, 0 }, { 1, 0 }, { 2, 0 }, { 3, 0 },
					       { 4, 0 }, { 5, 0 }, { 6, 0 }, { 7, 0 } };
static struct device instances[INSTANCES] = { { 0, 1 }, { 0, 2 } };
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
	case NVML_ERROR_NOT_SUPPORTED:
		return "Not Supported";
	case NVML_ERROR_NO_PERMISSION:
		return "Insufficient Permissions";
	case NVML_ERROR_GPU_IS_LOST:
		return "GPU is lost";
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

static bool is_mig(const struct device *card)
{
	return card->index == 0 && state_env("FAKE_GPU_MIG", 0) && state_device_count() > 0;
}

static int check(struct device *d, const void *out)
{
	bool is_instance = d >= instances && d < instances + INSTANCES && is_mig(d);

	if (ready())
		return NVML_ERROR_UNINITIALIZED;
	if (!out || (!is_instance && (d < devices || d >= devices + state_device_count())))
		return NVML_ERROR_INVALID_ARGUMENT;
	return state_env("FAKE_NVML_LOST", FAKE_GPU_MAX) == (uint64_t)d->index ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

/* As check, of a card alone. */
static int check_card(struct device *d, const void *out)
{
	int r = check(d, out);

	return !r && d->instance ? NVML_ERROR_INVALID_ARGUMENT : r;
}

int nvmlDeviceGetUUID(struct device *d, char *uuid, unsigned int len)
{
	int r = check(d, uuid);
	char text[41];

	if (r)
		return r;
	state_uuid_text(d->index, text);
	if (d->instance) {
		memcpy(text, "MIG", 3);
		text[39] = (char)('a' + d->instance);
	}
	return put_text(uuid, len, text);
}

int nvmlDeviceGetName(struct device *d, char *name, unsigned int len)
{
	int r = check(d, name);

	if (r)
		return r;
	return put_text(name, len, d->instance ? "Fake GPU MIG 1g.8gb" : "Fake GPU");
}

int nvmlDeviceGetIndex(struct device *d, unsigned int *index)
{
	int r = check(d, index);

	if (!r)
		*index = d->instance ? (unsigned int)(d->instance - 1) * INSTANCE_STEP : (unsigned int)d->index;
	return r;
}

int nvmlDeviceGetMinorNumber(struct device *d, unsigned int *minor)
{
	int r = check(d, minor);

	if (!r)
		*minor = (unsigned int)d->index;
	return r;
}

int nvmlDeviceGetPciInfo_v3(struct device *d, struct pci *pci)
{
	int r = check(d, pci);
	int bus;

	if (r)
		return r;
	bus = 0x3a + d->index;
	*pci = (struct pci){ .bus = (unsigned int)bus, .device_id = 0xfa4e10deu };
	snprintf(pci->legacy_id, sizeof(pci->legacy_id), "0000:%02X:00.0", bus);
	snprintf(pci->id, sizeof(pci->id), "00000000:%02X:00.0", bus);
	return NVML_SUCCESS;
}

/* The one before the longer text, which it does not touch. */
int nvmlDeviceGetPciInfo_v2(struct device *d, struct pci *pci)
{
	struct pci p;
	int r = nvmlDeviceGetPciInfo_v3(d, &p);

	if (!r && pci)
		memcpy(pci, &p, offsetof(struct pci, id));
	return r;
}

int nvmlDeviceGetMigMode(struct device *d, unsigned int *current, unsigned int *pending)
{
	int r = check_card(d, current);

	if (r)
		return r;
	if (!is_mig(d))
		return NVML_ERROR_NOT_SUPPORTED;
	*current = 1;
	*pending = 1;
	return NVML_SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(struct device *d, unsigned int *count)
{
	int r = check_card(d, count);

	if (!r)
		*count = is_mig(d) ? 7 : 0;
	return r;
}

int nvmlDeviceGetMigDeviceHandleByIndex(struct device *d, unsigned int index, struct device **ret)
{
	int r = check_card(d, ret);

	if (r)
		return r;
	if (!is_mig(d))
		return NVML_ERROR_NOT_SUPPORTED;
	if (index % INSTANCE_STEP || index / INSTANCE_STEP >= INSTANCES)
		return NVML_ERROR_NOT_FOUND;
	*ret = &instances[index / INSTANCE_STEP];
	return NVML_SUCCESS;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct device *d, struct device **ret)
{
	int r = check(d, ret);

	if (!r)
		*ret = &devices[d->index];
	return r;
}

int nvmlDeviceIsMigDeviceHandle(struct device *d, unsigned int *is_instance)
{
	int r = check(d, is_instance);

	if (!r)
		*is_instance = d->instance != 0;
	return r;
}

/* What one slot holds on a device, 0 if its process is gone. */
static uint64_t slot_used(const struct fake_gpu_slot *slot, const struct device *d, uint32_t *ret_pid)
{
	uint32_t pid = __atomic_load_n(&slot->pid, __ATOMIC_ACQUIRE);
	uint64_t start = __atomic_load_n(&slot->start_ticks, __ATOMIC_ACQUIRE), used;

	if (!pid || !start || state_start_ticks(pid) != start)
		return 0;
	if (d->instance && (int)(pid % INSTANCES) + 1 != d->instance)
		return 0;
	used = __atomic_load_n(&slot->used_bytes[d->index], __ATOMIC_RELAXED);
	if (!used && !slot->contexts[d->index])
		return 0;
	*ret_pid = pid;
	return used + slot->contexts[d->index] * slot->context_bytes;
}

static uint64_t device_total(const struct device *d)
{
	return d->instance ? state_device_bytes() / INSTANCES : state_device_bytes();
}

static uint64_t device_used(const struct device *d)
{
	uint64_t sum = 0;
	uint32_t pid;

	for (int i = 0; state && i < FAKE_GPU_SLOTS; i++)
		sum += slot_used(&state->slots[i], d, &pid);
	return sum < device_total(d) ? sum : device_total(d);
}

int nvmlDeviceGetMemoryInfo(struct device *d, struct memory_v1 *m)
{
	int r = check(d, m);

	if (r)
		return r;
	m->total = device_total(d);
	m->used = device_used(d);
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
	m->total = device_total(d);
	m->reserved = 0;
	m->used = device_used(d);
	m->free = m->total - m->used;
	return NVML_SUCCESS;
}

static void add_process(struct process_v1 *found, unsigned int *n, uint32_t pid, uint64_t used)
{
	unsigned int k = 0;

	while (k < *n && found[k].pid != pid)
		k++;
	if (k == *n)
		found[(*n)++] = (struct process_v1){ .pid = pid };
	found[k].used += used;
}

/* Processes of a device, one record each, of record_bytes: pid at 0, bytes at 8, the instance at 16, the rest zero. */
static int processes(struct device *d, enum list list, unsigned int *count, void *infos, size_t record_bytes)
{
	const unsigned int ids[2] = { d->instance ? (unsigned int)d->instance : UINT32_MAX,
				      d->instance ? 0 : UINT32_MAX };
	struct process_v1 found[FAKE_GPU_SLOTS + 2];
	unsigned int n = 0, room;
	int r = check(d, count);

	if (r)
		return r;
	if (!d->instance && is_mig(d))
		return NVML_ERROR_NO_PERMISSION;
	if (state_env("FAKE_NVML_GHOSTS", 0)) {
		found[n++] = (struct process_v1){ .pid = 0, .used = 4096 };
		found[n++] = (struct process_v1){ .pid = UINT32_MAX, .used = 4096 };
	}
	for (int i = 0; state && i < FAKE_GPU_SLOTS && (state_env("FAKE_NVML_LISTS", LIST_COMPUTE) & list); i++) {
		uint32_t pid = 0;
		uint64_t used = slot_used(&state->slots[i], d, &pid);

		if (pid)
			add_process(found, &n, pid, used);
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
		if (record_bytes >= sizeof(struct process_v2))
			memcpy(at + offsetof(struct process_v2, gpu_instance), ids, sizeof(ids));
	}
	return NVML_SUCCESS;
}

static int processes_v3(struct device *d, enum list list, unsigned int *count, void *infos)
{
	if (state_env("FAKE_NVML_OLD", 0))
		return NVML_ERROR_FUNCTION_NOT_FOUND;
	return processes(d, list, count, infos,
			 state_env("FAKE_NVML_535", 0) ? sizeof(struct process_535) : sizeof(struct process_v2));
}

int nvmlDeviceGetComputeRunningProcesses(struct device *d, unsigned int *count, struct process_v1 *infos)
{
	return processes(d, LIST_COMPUTE, count, infos, sizeof(*infos));
}

int nvmlDeviceGetComputeRunningProcesses_v2(struct device *d, unsigned int *count, struct process_v2 *infos)
{
	return processes(d, LIST_COMPUTE, count, infos, sizeof(*infos));
}

int nvmlDeviceGetComputeRunningProcesses_v3(struct device *d, unsigned int *count, void *infos)
{
	return processes_v3(d, LIST_COMPUTE, count, infos);
}

int nvmlDeviceGetGraphicsRunningProcesses(struct device *d, unsigned int *count, struct process_v1 *infos)
{
	return processes(d, LIST_GRAPHICS, count, infos, sizeof(*infos));
}

int nvmlDeviceGetGraphicsRunningProcesses_v2(struct device *d, unsigned int *count, struct process_v2 *infos)
{
	return processes(d, LIST_GRAPHICS, count, infos, sizeof(*infos));
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(struct device *d, unsigned int *count, void *infos)
{
	return processes_v3(d, LIST_GRAPHICS, count, infos);
}

int nvmlDeviceGetMPSComputeRunningProcesses(struct device *d, unsigned int *count, struct process_v1 *infos)
{
	return processes(d, LIST_MPS, count, infos, sizeof(*infos));
}

int nvmlDeviceGetMPSComputeRunningProcesses_v2(struct device *d, unsigned int *count, struct process_v2 *infos)
{
	return processes(d, LIST_MPS, count, infos, sizeof(*infos));
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct device *d, unsigned int *count, void *infos)
{
	return processes_v3(d, LIST_MPS, count, infos);
}
