/* SPDX-License-Identifier: MIT */
#include "proc/nvml.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "base/log.h"

#define NVML_LIBRARY "libnvidia-ml.so.1"

/* From the library's documented interface; none of its headers is needed. */
#define NVML_SUCCESS 0
#define NVML_ERROR_INSUFFICIENT_SIZE 7
#define NVML_ERROR_FUNCTION_NOT_FOUND 13
#define NVML_VALUE_NOT_AVAILABLE UINT64_MAX

/* More than any host has: an answer above is garbage. */
#define NVML_DEVICES_MAX 256
#define NVML_PROCESSES_MAX 4096
#define NVML_PROCESSES_FIRST 64
#define NVML_SIZE_TRIES 4
/* The longest record any driver is known to write, and what the buffer holds before. */
#define NVML_RECORD_MAX 32
#define NVML_UNTOUCHED 0xa5

struct nvml_memory {
	uint64_t total, free, used;
};

/* What nvmlDeviceGetComputeRunningProcesses fills in, and its _v2 and _v3. */
struct nvml_process_v1 {
	uint32_t pid;
	uint64_t used;
};

struct nvml_process_v2 {
	uint32_t pid;
	uint64_t used;
	uint32_t gpu_instance, compute_instance; /* ~0 without MIG */
};

_Static_assert(sizeof(struct nvml_memory) == 24, "nvmlMemory_t");
_Static_assert(sizeof(struct nvml_process_v1) == 16, "nvmlProcessInfo_v1_t");
_Static_assert(sizeof(struct nvml_process_v2) == 24, "nvmlProcessInfo_v2_t");

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
	/* Newest first; NULL where the library is older. The records are v2's but for the last one's. */
	int (*processes[3])(void *, unsigned int *, void *);
	bool is_initialised;
};

/* Symbol to function pointer without the cast that ISO C has no meaning for. */
static bool nvml_symbol(struct nvml *n, const char *name, void *ret_function)
{
	void *symbol = dlsym(n->library, name);

	memcpy(ret_function, &symbol, sizeof(symbol));
	return symbol != NULL;
}

static const char *nvml_resolve(struct nvml *n)
{
	static const char *const process_names[] = {
		"nvmlDeviceGetComputeRunningProcesses_v3",
		"nvmlDeviceGetComputeRunningProcesses_v2",
		"nvmlDeviceGetComputeRunningProcesses",
	};
	bool has_processes = false;

	for (size_t i = 0; i < ARRAY_SIZE(process_names); i++)
		has_processes |= nvml_symbol(n, process_names[i], &n->processes[i]);
	/* Nice to have, and then there is a fallback. */
	(void)nvml_symbol(n, "nvmlErrorString", &n->error_string);
	(void)nvml_symbol(n, "nvmlDeviceGetName", &n->device_name);
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
		return -EIO;
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
	free(n);
}

/*
 * The size of the records that a call wrote behind a name whose records ought to be 24 bytes long: some drivers of the
 * 535 series put 32 bytes there, which the untouched end of the buffer tells apart.
 */
static size_t nvml_record_size(const unsigned char *raw, size_t count)
{
	for (size_t i = count * sizeof(struct nvml_process_v2); i < count * NVML_RECORD_MAX; i++) {
		if (raw[i] != NVML_UNTOUCHED)
			return NVML_RECORD_MAX;
	}
	return sizeof(struct nvml_process_v2);
}

static int nvml_convert(const unsigned char *raw, size_t count, bool is_v1, struct nvml_process_v2 **ret)
{
	size_t size = is_v1 ? sizeof(struct nvml_process_v1) : nvml_record_size(raw, count);
	struct nvml_process_v2 *list;

	list = calloc(count > 0 ? count : 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		list[i].gpu_instance = UINT32_MAX;
		list[i].compute_instance = UINT32_MAX;
		memcpy(&list[i], raw + i * size, MIN(size, sizeof(*list)));
	}
	*ret = list;
	return 0;
}

/* One device's processes in the newest form. 0 with a list that may be empty, -EIO when the driver does not say. */
static int nvml_device_processes(struct nvml *n, void *device, size_t version, struct nvml_process_v2 **ret,
				 size_t *ret_count)
{
	bool is_v1 = version + 1 == ARRAY_SIZE(n->processes);
	unsigned int cap = NVML_PROCESSES_FIRST;

	/* Processes come and go between the answer "too small" and the next call. */
	for (int i = 0; i < NVML_SIZE_TRIES; i++) {
		_cleanup_free_ unsigned char *raw = malloc((size_t)cap * NVML_RECORD_MAX);
		unsigned int count = cap;
		int r;

		if (!raw)
			return -ENOMEM;
		memset(raw, NVML_UNTOUCHED, (size_t)cap * NVML_RECORD_MAX);
		r = n->processes[version](device, &count, raw);
		if (r == NVML_ERROR_FUNCTION_NOT_FOUND)
			return -ENOSYS;
		if (r == NVML_ERROR_INSUFFICIENT_SIZE && count > cap && count <= NVML_PROCESSES_MAX) {
			cap = count + count / 4;
			continue;
		}
		if (r != NVML_SUCCESS || count > cap)
			return -EIO;
		r = nvml_convert(raw, count, is_v1, ret);
		if (r < 0)
			return r;
		*ret_count = count;
		return 0;
	}
	return -EIO;
}

/* Adds up what one process has in several MIG instances of the device, counting a record that comes twice once. */
static void nvml_merge(const struct nvml_process_v2 *list, size_t count, const struct gpu_device *device,
		       struct gpu_snapshot *s)
{
	size_t first = s->process_count;

	for (size_t i = 0; i < count; i++) {
		struct gpu_process *p = NULL;
		uint64_t used = list[i].used;
		bool is_repeated = false;

		if (list[i].pid == 0 || list[i].pid > INT32_MAX)
			continue;
		/* More than the device has is no answer. */
		if (device->total_bytes != UINT64_MAX && used > device->total_bytes)
			used = NVML_VALUE_NOT_AVAILABLE;
		for (size_t k = 0; k < i && !is_repeated; k++)
			is_repeated = list[k].pid == list[i].pid && list[k].gpu_instance == list[i].gpu_instance &&
				      list[k].compute_instance == list[i].compute_instance;
		if (is_repeated)
			continue;
		for (size_t k = first; k < s->process_count && !p; k++) {
			if (s->processes[k].pid == list[i].pid)
				p = &s->processes[k];
		}
		if (!p) {
			p = &s->processes[s->process_count++];
			*p = (struct gpu_process){ .pid = list[i].pid, .index = device->index, .used_bytes = used };
		} else if (used == NVML_VALUE_NOT_AVAILABLE ||
			   __builtin_add_overflow(p->used_bytes, used, &p->used_bytes)) {
			p->used_bytes = NVML_VALUE_NOT_AVAILABLE;
		}
	}
}

static int nvml_read_processes(struct nvml *n, void *device, const struct gpu_device *d, struct gpu_snapshot *s)
{
	for (size_t version = 0; version < ARRAY_SIZE(n->processes); version++) {
		_cleanup_free_ struct nvml_process_v2 *list = NULL;
		struct gpu_process *more;
		size_t count = 0;
		int r;

		if (!n->processes[version])
			continue;
		r = nvml_device_processes(n, device, version, &list, &count);
		/* A library may have the name for a driver that lacks the function. */
		if (r == -ENOSYS)
			continue;
		if (r < 0)
			return r == -ENOMEM ? r : 0;
		if (count == 0)
			return 0;
		more = reallocarray(s->processes, s->process_count + count, sizeof(*more));
		if (!more)
			return -ENOMEM;
		s->processes = more;
		nvml_merge(list, count, d, s);
		return 0;
	}
	return 0;
}

static void nvml_read_device(struct nvml *n, void *device, struct gpu_device *ret)
{
	struct nvml_memory memory = { 0 };

	/* One byte less than there is: the text ends even if the library forgets to end it. */
	if (n->device_uuid(device, ret->uuid, sizeof(ret->uuid) - 1) != NVML_SUCCESS)
		ret->uuid[0] = '\0';
	if (!n->device_name || n->device_name(device, ret->name, sizeof(ret->name) - 1) != NVML_SUCCESS)
		ret->name[0] = '\0';
	ret->uuid[sizeof(ret->uuid) - 1] = '\0';
	ret->name[sizeof(ret->name) - 1] = '\0';
	ret->total_bytes = UINT64_MAX;
	ret->used_bytes = UINT64_MAX;
	if (n->device_memory(device, &memory) == NVML_SUCCESS && memory.total > 0 &&
	    memory.total != NVML_VALUE_NOT_AVAILABLE) {
		ret->total_bytes = memory.total;
		if (memory.used <= memory.total)
			ret->used_bytes = memory.used;
	}
}

int nvml_read(struct nvml *n, struct gpu_snapshot *ret)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };
	unsigned int count = 0;
	int r;

	if (n->device_count(&count) != NVML_SUCCESS || count > NVML_DEVICES_MAX)
		return -EIO;
	s.devices = calloc(count > 0 ? count : 1, sizeof(*s.devices));
	if (!s.devices)
		return -ENOMEM;
	for (unsigned int i = 0; i < count; i++) {
		struct gpu_device *d = &s.devices[s.device_count];
		void *device = NULL;

		/* One that fell off the bus, or that we may not open, does not hide the others. */
		if (n->device_handle(i, &device) != NVML_SUCCESS || !device)
			continue;
		nvml_read_device(n, device, d);
		d->index = (int)i;
		s.device_count++;
		r = nvml_read_processes(n, device, d, &s);
		if (r < 0)
			return r;
	}
	if (count > 0 && s.device_count == 0)
		return -EIO;
	*ret = s;
	s = (struct gpu_snapshot){ 0 };
	return 0;
}

void gpu_snapshot_done(struct gpu_snapshot *s)
{
	free(s->devices);
	free(s->processes);
	*s = (struct gpu_snapshot){ 0 };
}
