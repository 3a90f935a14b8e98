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
 *
 * How busy and hot: state_figure() in fake_gpu.h, asked anew at each call. Card N says what "NAME.N" and else "NAME" is:
 * busy and memory_busy (percent), celsius, milliwatts, milliwatts_max. A process's share of the multiprocessors is
 * "sm.PID", else FAKE_GPU_SM in its own environment, else "sm"; 0 = it has no sample. What nobody has set is not
 * supported (3), as is all of it for instances and busy and sm for their card. busy_error, celsius_error,
 * milliwatts_error, milliwatts_max_error, sm_error: the call answers with that instead; busy_delay_ms and so on: it takes
 * so long. sm_filler: so many empty samples come first.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "fake_gpu.h"
#include "libnvidia-ml.h"

#define INSTANCES 2
#define INSTANCE_STEP 2 /* the place between them is empty */

/* How often it samples, and how many samples it gives at most. */
#define SAMPLE_USEC 100000
#define SAMPLES_MAX 100

enum list { LIST_COMPUTE = 1, LIST_GRAPHICS = 2, LIST_MPS = 4 };

static struct device devices[FAKE_GPU_MAX] = { { 0, 0 }, { 1, 0 }, { 2, 0 }, { 3, 0 },
					       { 4, 0 }, { 5, 0 }, { 6, 0 }, { 7, 0 } };
static struct device instances[INSTANCES] = { { 0, 1 }, { 0, 2 } };
static struct fake_gpu_state *state;
static int init_count;

static void delay(uint64_t ms)
{
	struct timespec ts = { .tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000 };

	if (ms)
		nanosleep(&ts, NULL);
}

static int ready(void)
{
	delay(state_env("FAKE_NVML_DELAY_MS", 0));
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

static uint64_t figure_option(const struct device *d, const char *name, const char *option)
{
	char key[64];

	snprintf(key, sizeof(key), "%s_%s", name, option);
	return state_figure(key, d->index, 0);
}

/* As check, of a figure. */
static int check_figure(struct device *d, const char *name, const void *out)
{
	int r = check(d, out);

	if (r)
		return r;
	delay(figure_option(d, name, "delay_ms"));
	r = (int)figure_option(d, name, "error");
	return r ? r : d->instance ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

static int get_figure(struct device *d, const char *name, unsigned int *ret)
{
	int r = check_figure(d, name, ret);
	uint64_t v = r ? 0 : state_figure(name, d->index, UINT64_MAX);

	if (v == UINT64_MAX)
		return NVML_ERROR_NOT_SUPPORTED;
	if (!r)
		*ret = (unsigned int)v;
	return r;
}

int nvmlDeviceGetUtilizationRates(struct device *d, struct utilization *u)
{
	int r = check_figure(d, "busy", u);
	uint64_t busy, memory;

	if (r)
		return r;
	busy = state_figure("busy", d->index, UINT64_MAX);
	memory = state_figure("memory_busy", d->index, busy);
	if (is_mig(d) || busy == UINT64_MAX)
		return NVML_ERROR_NOT_SUPPORTED;
	*u = (struct utilization){ .gpu = (unsigned int)busy, .memory = (unsigned int)memory };
	return NVML_SUCCESS;
}

int nvmlDeviceGetTemperature(struct device *d, int sensor, unsigned int *celsius)
{
	return sensor ? NVML_ERROR_INVALID_ARGUMENT : get_figure(d, "celsius", celsius);
}

int nvmlDeviceGetPowerUsage(struct device *d, unsigned int *milliwatts)
{
	return get_figure(d, "milliwatts", milliwatts);
}

int nvmlDeviceGetEnforcedPowerLimit(struct device *d, unsigned int *milliwatts)
{
	return get_figure(d, "milliwatts_max", milliwatts);
}

static uint64_t real_usec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* What a process does on a device; UINT64_MAX when nobody has said, or it is not there. */
static uint64_t slot_sm(int i, const struct device *d, uint32_t *ret_pid)
{
	char key[24];

	*ret_pid = 0;
	(void)slot_used(&state->slots[i], d, ret_pid);
	snprintf(key, sizeof(key), "sm.%u", *ret_pid);
	if (!*ret_pid)
		return UINT64_MAX;
	return state_figure_named(key, state->sm[i] ? state->sm[i] - 1 : state_figure_named("sm", UINT64_MAX));
}

int nvmlDeviceGetProcessUtilization(struct device *d, struct process_sample *samples, unsigned int *count,
				    unsigned long long last_seen_usec)
{
	uint64_t now = real_usec(), stamp = now - now % SAMPLE_USEC;
	struct process_sample found[SAMPLES_MAX] = { { .pid = 0 } };
	unsigned int n = 0, room;
	bool is_set = false;
	int r = check_figure(d, "sm", count);

	if (r)
		return r;
	while (n < SAMPLES_MAX / 2 && n < state_figure("sm_filler", d->index, 0))
		n++;
	for (int i = 0; state && i < FAKE_GPU_SLOTS && n < SAMPLES_MAX; i++) {
		uint32_t pid;
		uint64_t sm = slot_sm(i, d, &pid);

		is_set |= sm != UINT64_MAX;
		if (sm != UINT64_MAX && sm > 0 && stamp > last_seen_usec)
			found[n++] = (struct process_sample){ .pid = pid, .stamp_usec = stamp, .sm = (unsigned int)sm };
	}
	if (is_mig(d) || (!is_set && state_figure_named("sm", UINT64_MAX) == UINT64_MAX))
		return NVML_ERROR_NOT_SUPPORTED;
	room = *count;
	/* As the real one: how many there may be, not how many there are. */
	*count = SAMPLES_MAX;
	if (!samples || room < n)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	*count = n;
	memcpy(samples, found, n * sizeof(*found));
	return n ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
