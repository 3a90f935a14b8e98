/* SPDX-License-Identifier: MIT */
#include "proc/nvml.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "base/log.h"
#include "proc/nvml_records.h"
#include "proc/nvml_snapshot.h"
#include "proc/nvml_util.h"

#define NVML_LIBRARY "libnvidia-ml.so.1"

/* From the library's documented interface; none of its headers is needed. */
#define NVML_SUCCESS 0
#define NVML_ERROR_NOT_SUPPORTED 3
#define NVML_ERROR_NOT_FOUND 6
#define NVML_ERROR_INSUFFICIENT_SIZE 7
#define NVML_ERROR_DRIVER_NOT_LOADED 9
#define NVML_ERROR_FUNCTION_NOT_FOUND 13
#define NVML_ERROR_LIB_RM_VERSION_MISMATCH 18
#define NVML_VALUE_NOT_AVAILABLE UINT64_MAX
#define NVML_MIG_ENABLED 1

/* More than any host has: an answer above is garbage. */
#define NVML_INSTANCES_MAX 64 /* of one card */
#define NVML_PROCESSES_MAX 4096
#define NVML_PROCESSES_FIRST 64
#define NVML_SIZE_TRIES 4
/* nvmlPciInfo_t has 68 bytes. */
#define NVML_PCI_ROOM 256
#define NVML_PCI_BUS_ID 36
#define NVML_PCI_BUS_ID_LEN 32
#define NVML_PCI_LEGACY_LEN 16

struct nvml_memory {
	uint64_t total, free, used;
};

_Static_assert(sizeof(struct nvml_memory) == 24, "nvmlMemory_t");

enum nvml_list_kind { NVML_LIST_COMPUTE, NVML_LIST_GRAPHICS, NVML_LIST_MPS, NVML_LIST_COUNT };
#define NVML_LIST_VERSIONS 3

/* Newest first: the records are v2's but for the last one's. */
static const struct {
	uint32_t kind;
	const char *names[NVML_LIST_VERSIONS];
} nvml_lists[NVML_LIST_COUNT] = {
	[NVML_LIST_COMPUTE] = {
		GPU_PROCESS_COMPUTE,
		{ "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
		  "nvmlDeviceGetComputeRunningProcesses" },
	},
	[NVML_LIST_GRAPHICS] = {
		GPU_PROCESS_GRAPHICS,
		{ "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2",
		  "nvmlDeviceGetGraphicsRunningProcesses" },
	},
	[NVML_LIST_MPS] = {
		GPU_PROCESS_MPS,
		{ "nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2",
		  "nvmlDeviceGetMPSComputeRunningProcesses" },
	},
};

struct nvml {
	void *library;
	int (*init)(void);
	int (*shutdown)(void);
	const char *(*error_string)(int);
	int (*device_count)(unsigned int *);
	int (*device_handle)(unsigned int, void **);
	int (*device_uuid)(void *, char *, unsigned int);
	int (*device_name)(void *, char *, unsigned int);
	int (*device_memory)(void *, struct nvml_memory *);
	/* All below are NULL where the library is older. */
	int (*lists[NVML_LIST_COUNT][NVML_LIST_VERSIONS])(void *, unsigned int *, void *);
	int (*device_pci)(void *, void *);
	int (*mig_mode)(void *, unsigned int *, unsigned int *);
	int (*mig_count)(void *, unsigned int *);
	int (*mig_handle)(void *, unsigned int, void **);
	bool is_initialised;
	/* Of the last reading, whose busyness is asked after it. */
	struct nvml_card {
		void *handle;
		size_t place; /* in gpu_snapshot.devices */
		bool is_mig;
	} cards[NVML_CARDS_MAX];
	size_t card_count;
	size_t first_figures; /* the card that there was no time for: first next time */
	struct nvml_util util;
};

/* Symbol to function pointer without the cast that ISO C has no meaning for. */
static bool nvml_symbol(struct nvml *n, const char *name, void *ret_function)
{
	void *symbol = dlsym(n->library, name);

	memcpy(ret_function, &symbol, sizeof(symbol));
	return symbol != NULL;
}

static void nvml_resolve_util(struct nvml *n)
{
	struct nvml_util *u = &n->util;

	(void)nvml_symbol(n, "nvmlDeviceGetUtilizationRates", &u->rates);
	(void)nvml_symbol(n, "nvmlDeviceGetTemperature", &u->temperature);
	(void)nvml_symbol(n, "nvmlDeviceGetTemperatureV", &u->temperature_v);
	(void)nvml_symbol(n, "nvmlDeviceGetPowerUsage", &u->power);
	if (!nvml_symbol(n, "nvmlDeviceGetEnforcedPowerLimit", &u->power_limit))
		(void)nvml_symbol(n, "nvmlDeviceGetPowerManagementLimit", &u->power_limit);
	(void)nvml_symbol(n, "nvmlDeviceGetProcessUtilization", &u->work);
}

static const char *nvml_resolve(struct nvml *n)
{
	bool has_processes = false;

	for (size_t l = 0; l < NVML_LIST_COUNT; l++)
		for (size_t v = 0; v < NVML_LIST_VERSIONS; v++)
			has_processes |= nvml_symbol(n, nvml_lists[l].names[v], &n->lists[l][v]) &&
					 l == NVML_LIST_COMPUTE;
	/* Nice to have, and then there is a fallback. */
	(void)nvml_symbol(n, "nvmlErrorString", &n->error_string);
	(void)nvml_symbol(n, "nvmlDeviceGetName", &n->device_name);
	if (!nvml_symbol(n, "nvmlDeviceGetPciInfo_v3", &n->device_pci))
		(void)nvml_symbol(n, "nvmlDeviceGetPciInfo_v2", &n->device_pci);
	(void)nvml_symbol(n, "nvmlDeviceGetMigMode", &n->mig_mode);
	(void)nvml_symbol(n, "nvmlDeviceGetMaxMigDeviceCount", &n->mig_count);
	(void)nvml_symbol(n, "nvmlDeviceGetMigDeviceHandleByIndex", &n->mig_handle);
	nvml_resolve_util(n);
	if (!nvml_symbol(n, "nvmlInit_v2", &n->init))
		return "the library lacks nvmlInit_v2";
	if (!nvml_symbol(n, "nvmlShutdown", &n->shutdown))
		return "the library lacks nvmlShutdown";
	if (!nvml_symbol(n, "nvmlDeviceGetCount_v2", &n->device_count))
		return "the library lacks nvmlDeviceGetCount_v2";
	if (!nvml_symbol(n, "nvmlDeviceGetHandleByIndex_v2", &n->device_handle))
		return "the library lacks nvmlDeviceGetHandleByIndex_v2";
	if (!nvml_symbol(n, "nvmlDeviceGetUUID", &n->device_uuid))
		return "the library lacks nvmlDeviceGetUUID";
	if (!nvml_symbol(n, "nvmlDeviceGetMemoryInfo", &n->device_memory))
		return "the library lacks nvmlDeviceGetMemoryInfo";
	if (!has_processes)
		return "the library lacks nvmlDeviceGetComputeRunningProcesses";
	return NULL;
}

int nvml_open(const char *library, struct nvml **ret, const char **reterr_reason)
{
	_cleanup_(nvml_closep) struct nvml *n = NULL;
	const char *reason;
	int r;

	n = calloc(1, sizeof(*n));
	if (!n) {
		*reterr_reason = "out of memory";
		return -ENOMEM;
	}
	/* Never unmapped: the library's texts stay valid, and so does the code of threads it may have started. */
	n->library = dlopen(library ? library : NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!n->library) {
		log_debug("NVML: %s", dlerror());
		*reterr_reason = "libnvidia-ml.so.1 not found";
		return -ENOENT;
	}
	reason = nvml_resolve(n);
	if (reason) {
		*reterr_reason = reason;
		return -EIO;
	}
	r = n->init();
	if (r != NVML_SUCCESS) {
		reason = n->error_string ? n->error_string(r) : NULL;
		*reterr_reason = reason ? reason : "nvmlInit_v2 failed";
		return r == NVML_ERROR_DRIVER_NOT_LOADED       ? -ENODEV :
		       r == NVML_ERROR_LIB_RM_VERSION_MISMATCH ? -EPROTO :
								 -EIO;
	}
	n->is_initialised = true;
	*ret = TAKE_PTR(n);
	return 0;
}

void nvml_close(struct nvml *n)
{
	if (!n)
		return;
	if (n->is_initialised)
		(void)n->shutdown();
	if (n->library)
		(void)dlclose(n->library);
	nvml_util_done(&n->util);
	free(n);
}

/* One list of a device's processes: 0, -ENOSYS, -ENOTSUP, -EIO when the driver does not say, -ENOMEM. */
static int nvml_ask_list(struct nvml *n, size_t list, size_t version, void *device, uint64_t total_bytes,
			 struct nvml_record **ret, size_t *ret_count, size_t *ret_left_out)
{
	enum nvml_record_form form = version + 1 == NVML_LIST_VERSIONS ? NVML_RECORD_V1 : NVML_RECORD_V2;
	unsigned int cap = NVML_PROCESSES_FIRST;

	/* Processes come and go between the answer "too small" and the next call. */
	for (int i = 0; i < NVML_SIZE_TRIES; i++) {
		size_t len = (size_t)cap * NVML_RECORD_ROOM;
		_cleanup_free_ unsigned char *raw = malloc(len);
		_cleanup_free_ struct nvml_record *records = NULL;
		unsigned int count = cap;
		int r;

		if (!raw)
			return -ENOMEM;
		memset(raw, NVML_UNTOUCHED, len);
		r = n->lists[list][version](device, &count, raw);
		if (r == NVML_ERROR_FUNCTION_NOT_FOUND)
			return -ENOSYS;
		if (r == NVML_ERROR_NOT_SUPPORTED)
			return -ENOTSUP;
		if (r == NVML_ERROR_INSUFFICIENT_SIZE && count > cap && count <= NVML_PROCESSES_MAX) {
			cap = count + count / 4;
			continue;
		}
		if (r != NVML_SUCCESS || count > cap)
			return -EIO;
		records = calloc(count > 0 ? count : 1, sizeof(*records));
		if (!records)
			return -ENOMEM;
		*ret_count = nvml_records_read(raw, len, count, form, total_bytes, records, ret_left_out);
		*ret = TAKE_PTR(records);
		return 0;
	}
	return -EIO;
}

/* Appends one list's processes on the device at that place. As nvml_ask_list; -ENOSYS: there is no version of it. */
static int nvml_read_list(struct nvml *n, size_t list, void *device, size_t place, struct gpu_snapshot *s)
{
	for (size_t version = 0; version < NVML_LIST_VERSIONS; version++) {
		_cleanup_free_ struct nvml_record *records = NULL;
		size_t count = 0, left_out = 0;
		int r;

		if (!n->lists[list][version])
			continue;
		r = nvml_ask_list(n, list, version, device, s->devices[place].total_bytes, &records, &count, &left_out);
		/* A library may have the name for a driver that lacks the function. */
		if (r == -ENOSYS)
			continue;
		if (r < 0)
			return r;
		r = gpu_snapshot_grow(s, count);
		if (r < 0)
			return r;
		for (size_t i = 0; i < count; i++)
			s->processes[s->process_count++] = (struct gpu_process){
				.pid = records[i].pid,
				.device = (uint32_t)place,
				.kinds = nvml_lists[list].kind,
				.used_bytes = records[i].used_bytes,
				.sm_percent = UINT32_MAX,
			};
		s->left_out_count += left_out;
		return 0;
	}
	return -ENOSYS;
}

/* All lists of a device. 0 or -ENOMEM. */
static int nvml_read_processes(struct nvml *n, void *device, size_t place, struct gpu_snapshot *s)
{
	size_t first = s->process_count;

	for (size_t list = 0; list < NVML_LIST_COUNT; list++) {
		int r = nvml_read_list(n, list, device, place, s);

		if (r == -ENOMEM)
			return r;
		/* A card that cannot draw, and a library from before MPS, have no such list and hide nothing. */
		if (r == -EIO || (r < 0 && list == NVML_LIST_COMPUTE))
			s->is_complete = false;
	}
	/* A process that is in several lists has in each of them all its bytes on the device. */
	gpu_snapshot_fold(s, first);
	return 0;
}

static void nvml_read_pci(struct nvml *n, void *device, char ret[16])
{
	char raw[NVML_PCI_ROOM] = { 0 }, text[NVML_PCI_BUS_ID_LEN + 1] = { 0 };

	if (!n->device_pci || n->device_pci(device, raw) != NVML_SUCCESS)
		return;
	memcpy(text, raw + NVML_PCI_BUS_ID, NVML_PCI_BUS_ID_LEN);
	if (gpu_pci_parse(text, ret) == 0)
		return;
	/* Before the field had room for the whole domain there was one at the start. */
	memset(text, 0, sizeof(text));
	memcpy(text, raw, NVML_PCI_LEGACY_LEN);
	(void)gpu_pci_parse(text, ret);
}

/* What the driver says of a card or an instance. False without a UUID: nothing else could be said of which it is. */
static bool nvml_read_device(struct nvml *n, void *device, struct gpu_device *ret)
{
	struct nvml_memory memory = { 0 };

	*ret = gpu_device_unknown("nvidia");
	/* One byte less than there is: the text ends even if the library forgets to end it. */
	if (n->device_uuid(device, ret->uuid, sizeof(ret->uuid) - 1) != NVML_SUCCESS || ret->uuid[0] == '\0')
		return false;
	if (!n->device_name || n->device_name(device, ret->name, sizeof(ret->name) - 1) != NVML_SUCCESS)
		ret->name[0] = '\0';
	ret->uuid[sizeof(ret->uuid) - 1] = '\0';
	ret->name[sizeof(ret->name) - 1] = '\0';
	if (n->device_memory(device, &memory) == NVML_SUCCESS && memory.total > 0 &&
	    memory.total != NVML_VALUE_NOT_AVAILABLE) {
		ret->total_bytes = memory.total;
		if (memory.used <= memory.total)
			ret->used_bytes = memory.used;
	}
	return true;
}

/* How many instances the card may have; 0 also when it is not in MIG mode, or the library is from before. */
static unsigned int nvml_instance_limit(struct nvml *n, void *card)
{
	unsigned int current = 0, pending = 0, count = 0;

	if (!n->mig_mode || !n->mig_count || !n->mig_handle)
		return 0;
	if (n->mig_mode(card, &current, &pending) != NVML_SUCCESS || current != NVML_MIG_ENABLED)
		return 0;
	if (n->mig_count(card, &count) != NVML_SUCCESS || count > NVML_INSTANCES_MAX)
		return 0;
	return count;
}

/* 0 or -ENOMEM; what is over the limit is counted. */
static int nvml_add_device(struct gpu_snapshot *s, const struct gpu_device *d, bool *ret_is_added)
{
	int r = gpu_snapshot_add_device(s, d);

	*ret_is_added = r == 0;
	if (r != -E2BIG)
		return r;
	s->is_complete = false;
	s->left_out_count++;
	return 0;
}

static int nvml_read_instances(struct nvml *n, void *card, size_t parent, unsigned int limit, struct gpu_snapshot *s)
{
	for (unsigned int i = 0; i < limit; i++) {
		struct gpu_device d;
		void *instance = NULL;
		bool is_added;
		int r;

		r = n->mig_handle(card, i, &instance);
		if (r == NVML_ERROR_NOT_FOUND)
			continue;
		if (r != NVML_SUCCESS || !instance || !nvml_read_device(n, instance, &d)) {
			s->is_complete = false;
			continue;
		}
		d.index = s->devices[parent].index;
		d.parent = (int)parent;
		memcpy(d.pci, s->devices[parent].pci, sizeof(d.pci));
		r = nvml_add_device(s, &d, &is_added);
		if (r == 0 && is_added)
			r = nvml_read_processes(n, instance, s->device_count - 1, s);
		if (r < 0)
			return r;
	}
	return 0;
}

static int nvml_read_card(struct nvml *n, void *card, unsigned int index, struct gpu_snapshot *s)
{
	size_t place = s->device_count;
	struct gpu_device d;
	unsigned int limit;
	bool is_added;
	int r;

	if (!nvml_read_device(n, card, &d)) {
		s->is_complete = false;
		return 0;
	}
	d.index = (int)index;
	nvml_read_pci(n, card, d.pci);
	r = nvml_add_device(s, &d, &is_added);
	if (r < 0 || !is_added)
		return r;
	/* In MIG mode the card itself says nothing of its processes, or of all instances' together. */
	limit = nvml_instance_limit(n, card);
	n->cards[n->card_count++] = (struct nvml_card){ .handle = card, .place = place, .is_mig = limit > 0 };
	return limit > 0 ? nvml_read_instances(n, card, place, limit, s) : nvml_read_processes(n, card, place, s);
}

int nvml_read(struct nvml *n, struct gpu_snapshot *ret)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { .is_complete = true };
	unsigned int count = 0;

	n->card_count = 0;
	if (n->device_count(&count) != NVML_SUCCESS || count > NVML_CARDS_MAX)
		return -EIO;
	for (unsigned int i = 0; i < count; i++) {
		void *card = NULL;
		int r;

		/* One that fell off the bus, or that we may not open, does not hide the others. */
		if (n->device_handle(i, &card) != NVML_SUCCESS || !card) {
			s.is_complete = false;
			continue;
		}
		r = nvml_read_card(n, card, i, &s);
		if (r < 0)
			return r;
	}
	if (count > 0 && s.device_count == 0)
		return -EIO;
	*ret = s;
	s = (struct gpu_snapshot){ 0 };
	return 0;
}

int nvml_read_figures(struct nvml *n, uint64_t until_ns, struct gpu_snapshot *s)
{
	for (size_t i = 0; i < n->card_count; i++) {
		size_t k = (n->first_figures + i) % n->card_count;
		const struct nvml_card *c = &n->cards[k];
		int r = nvml_util_read(&n->util, c->handle, c->place, c->is_mig, until_ns, s);

		if (r < 0) {
			n->first_figures = k;
			return r;
		}
	}
	return 0;
}
