/* SPDX-License-Identifier: MIT */
/*
 * Asks the driver what lives on when a context ends: memory of each kind is made, the context is destroyed (or the primary
 * one reset, or released for the last time), and NVML's figure of the device, or a second registration, tells. One line a
 * question: "fact: KIND EVENT: freed | survives (bytes ...; the free afterwards returned N)". Each question has a process of
 * its own: a driver that does not like it takes only that one along.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define SIZE (256 * MIB)

enum kind {
	KIND_DEVICE,
	KIND_ASYNC,
	KIND_OWN_POOL,
	KIND_PHYSICAL,
	KIND_PHYSICAL_MAPPED,
	KIND_MANAGED,
	KIND_HOST,
	KIND_REGISTERED,
	KIND_MAX,
};
static const char *const kind_names[] = { "cuMemAlloc", "cuMemAllocAsync", "cuMemAllocFromPoolAsync",
					  "cuMemCreate", "cuMemCreate+Map", "cuMemAllocManaged",
					  "cuMemHostAlloc", "cuMemHostRegister" };

enum event {
	EVENT_DESTROY,
	EVENT_RESET,
	EVENT_RELEASE,
	EVENT_MAX,
};
static const char *const event_names[] = { "cuCtxDestroy", "cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxRelease (last)" };

struct memory {
	unsigned long long total, free, used;
};

static int (*nvml_memory)(void *device, struct memory *m);
static void *nvml_device;
static CUdevice dev;

struct made {
	CUdeviceptr p;
	CUmemGenericAllocationHandle h;
	void *host;
};

static int must(CUresult r, const char *what)
{
	const char *name = NULL;

	if (r != CUDA_SUCCESS) {
		cuGetErrorName(r, &name);
		printf("fact: %s failed: %d %s\n", what, (int)r, name ? name : "");
	}
	return r == CUDA_SUCCESS;
}
#define MUST(call)                                                                                                     \
	do {                                                                                                           \
		if (!must((call), #call))                                                                              \
			return -1;                                                                                     \
	} while (0)

static long long used(void)
{
	struct memory m = { 0 };

	usleep(50000); /* what the driver lets go may show a moment later */
	return nvml_memory && !nvml_memory(nvml_device, &m) ? (long long)m.used : -1;
}

static int open_nvml(void)
{
	void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	int (*init)(void), (*by_index)(unsigned int, void **);

	if (!lib)
		return -1;
	*(void **)&init = dlsym(lib, "nvmlInit_v2");
	*(void **)&by_index = dlsym(lib, "nvmlDeviceGetHandleByIndex_v2");
	*(void **)&nvml_memory = dlsym(lib, "nvmlDeviceGetMemoryInfo");
	return init && by_index && nvml_memory && !init() && !by_index(0, &nvml_device) ? 0 : -1;
}

static int make(enum kind kind, struct made *m)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev },
	};
	CUmemPoolProps pool_props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = prop.location,
	};
	CUmemoryPool pool;

	switch (kind) {
	case KIND_DEVICE:
		MUST(cuMemAlloc(&m->p, SIZE));
		break;
	case KIND_ASYNC:
		MUST(cuMemAllocAsync(&m->p, SIZE, 0));
		MUST(cuCtxSynchronize());
		break;
	case KIND_OWN_POOL:
		MUST(cuMemPoolCreate(&pool, &pool_props));
		MUST(cuMemAllocFromPoolAsync(&m->p, SIZE, pool, 0));
		MUST(cuCtxSynchronize());
		break;
	case KIND_PHYSICAL:
		MUST(cuMemCreate(&m->h, SIZE, &prop, 0));
		break;
	case KIND_PHYSICAL_MAPPED:
		MUST(cuMemCreate(&m->h, SIZE, &prop, 0));
		MUST(cuMemAddressReserve(&m->p, SIZE, 0, 0, 0));
		MUST(cuMemMap(m->p, SIZE, 0, m->h, 0));
		break;
	case KIND_MANAGED:
		MUST(cuMemAllocManaged(&m->p, SIZE, CU_MEM_ATTACH_GLOBAL));
		MUST(cuMemsetD8(m->p, 1, SIZE)); /* brings the pages to the device */
		MUST(cuCtxSynchronize());
		break;
	case KIND_HOST:
		MUST(cuMemHostAlloc(&m->host, SIZE, 0));
		break;
	default:
		m->host = aligned_alloc(4096, SIZE);
		if (!m->host)
			return -1;
		memset(m->host, 1, SIZE);
		MUST(cuMemHostRegister(m->host, SIZE, 0));
	}
	return 0;
}

/* Tries to free it afterwards; an error says that it was gone. */
static CUresult unmake(enum kind kind, struct made *m)
{
	CUresult r, first;

	switch (kind) {
	case KIND_DEVICE:
	case KIND_MANAGED:
		return cuMemFree(m->p);
	case KIND_ASYNC:
	case KIND_OWN_POOL:
		r = cuMemFreeAsync(m->p, 0);
		cuCtxSynchronize();
		return r;
	case KIND_PHYSICAL:
		return cuMemRelease(m->h);
	case KIND_PHYSICAL_MAPPED:
		first = cuMemUnmap(m->p, SIZE);
		r = cuMemRelease(m->h);
		cuMemAddressFree(m->p, SIZE);
		return first ? first : r;
	case KIND_HOST:
		return cuMemFreeHost(m->host);
	default:
		r = cuMemHostUnregister(m->host);
		free(m->host);
		return r;
	}
}

static int ask(enum kind kind, enum event event)
{
	struct made m = { 0 };
	CUcontext ctx, keep;
	long long before, during, after, last;
	CUresult r;

	if (open_nvml())
		printf("fact: no NVML: only return codes can tell\n");
	MUST(cuInit(0));
	MUST(cuDeviceGet(&dev, 0));
	MUST(cuCtxCreate(&keep, NULL, 0, dev));
	before = used();
	if (event == EVENT_DESTROY) {
		MUST(cuCtxCreate(&ctx, NULL, 0, dev));
	} else {
		MUST(cuDevicePrimaryCtxRetain(&ctx, dev));
		MUST(cuCtxSetCurrent(ctx));
	}
	if (make(kind, &m))
		return -1;
	during = used();
	if (event == EVENT_DESTROY)
		MUST(cuCtxDestroy(ctx));
	else if (event == EVENT_RESET)
		MUST(cuDevicePrimaryCtxReset(dev));
	else
		MUST(cuDevicePrimaryCtxRelease(dev));
	MUST(cuCtxSetCurrent(keep));
	after = used();
	r = unmake(kind, &m);
	last = used();
	printf("fact: %s %s: %s (device used before %lld, held %lld, after %lld, after a free %lld MiB; the free returned %d)\n",
	       kind_names[kind], event_names[event],
	       kind < KIND_MANAGED ? (after - before > (long long)SIZE / 2 ? "survives" : "freed")
				   : (r == CUDA_SUCCESS ? "survives" : "freed"),
	       before >> 20, during >> 20, after >> 20, last >> 20, (int)r);
	return 0;
}

int main(void)
{
	int bad = 0, status;
	pid_t child;

	for (int i = 0; i < EVENT_MAX * KIND_MAX; i++) {
		int event = i / KIND_MAX, kind = i % KIND_MAX;

		fflush(stdout);
		child = fork();
		if (child < 0)
			return 2;
		if (!child)
			return ask((enum kind)kind, (enum event)event) ? 1 : 0;
		if (waitpid(child, &status, 0) != child)
			return 2;
		if (WIFSIGNALED(status))
			printf("fact: %s %s: the process died of signal %d\n", kind_names[kind], event_names[event],
			       WTERMSIG(status));
		bad |= status;
	}
	return bad ? 1 : 0;
}
