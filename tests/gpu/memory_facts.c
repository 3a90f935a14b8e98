/* SPDX-License-Identifier: MIT */
/*
 * Asks the driver how memory behaves that is not simply allocated and freed: arrays, pools, graphs, imports, handles. One
 * line an answer, "fact: QUESTION: ...". Each question has a process of its own: a driver that does not like it takes only
 * that one along. What the probes assume of the driver is written from these answers.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static CUdevice dev;
static CUcontext ctx;
static CUstream stream;

static const char *error_name(CUresult r)
{
	const char *name = NULL;

	cuGetErrorName(r, &name);
	return name ? name : "?";
}
#define TRY(call)                                                                                                      \
	({                                                                                                             \
		CUresult r_ = (call);                                                                                  \
		if (r_ != CUDA_SUCCESS)                                                                                \
			printf("fact:   %s -> %d %s\n", #call, (int)r_, error_name(r_));                               \
		r_;                                                                                                    \
	})

static long long used_mib(void)
{
	size_t free_bytes = 0, total = 0;

	cuMemGetInfo(&free_bytes, &total);
	return (long long)((total - free_bytes) / MIB);
}

static void start(void)
{
	TRY(cuInit(0));
	TRY(cuDeviceGet(&dev, 0));
	TRY(cuDevicePrimaryCtxRetain(&ctx, dev));
	TRY(cuCtxSetCurrent(ctx));
	TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static void array_one(const char *what, size_t w, size_t h, size_t d, int format, unsigned ch, unsigned flags, size_t expect)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = { .Width = w, .Height = h, .Depth = d, .Format = format, .NumChannels = ch, .Flags = flags };
	CUDA_ARRAY_MEMORY_REQUIREMENTS req = { 0 };
	CUarray a = NULL;
	long long before = used_mib();

	if (TRY(cuArray3DCreate(&a, &desc)))
		return;
	cuArrayGetMemoryRequirements(&req, a, dev);
	printf("fact: array %s: descriptor %zu bytes, device %+lld MiB, requirements %zu\n", what, expect,
	       used_mib() - before, (size_t)req.size);
	TRY(cuArrayDestroy(a));
	printf("fact:   after destroy %+lld MiB\n", used_mib() - before);
}

static void arrays(void)
{
	start();
	array_one("2D float 8192x8192", 8192, 8192, 0, CU_AD_FORMAT_FLOAT, 1, 0, (size_t)8192 * 8192 * 4);
	array_one("1D u8 64Ki", 65536, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0, 65536);
	array_one("3D half4 256^3", 256, 256, 256, CU_AD_FORMAT_HALF, 4, 0, (size_t)256 * 256 * 256 * 8);
	array_one("layered 1024x1024x32 float", 1024, 1024, 32, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_LAYERED, (size_t)1024 * 1024 * 32 * 4);
	array_one("cubemap 1024x1024x6 float", 1024, 1024, 6, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP, (size_t)1024 * 1024 * 6 * 4);
	array_one("sparse 8192x8192 float", 8192, 8192, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SPARSE, (size_t)8192 * 8192 * 4);
	array_one("deferred 8192x8192 float", 8192, 8192, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_DEFERRED_MAPPING, (size_t)8192 * 8192 * 4);
	array_one("NV12 8192x8192", 8192, 8192, 0, CU_AD_FORMAT_NV12, 3, 0, (size_t)8192 * 8192 * 3 / 2);
	array_one("BC1 8192x8192", 8192, 8192, 0, CU_AD_FORMAT_BC1_UNORM, 4, 0, (size_t)8192 * 8192 / 2);
	array_one("BC7 8192x8192", 8192, 8192, 0, CU_AD_FORMAT_BC7_UNORM, 4, 0, (size_t)8192 * 8192);
	array_one("UNORM8X4 8192x8192", 8192, 8192, 0, CU_AD_FORMAT_UNORM_INT8X4, 4, 0, (size_t)8192 * 8192 * 4);
	CUDA_ARRAY_DESCRIPTOR d2 = { .Width = 4096, .Height = 4096, .Format = CU_AD_FORMAT_SIGNED_INT16, .NumChannels = 2 };
	CUarray a2;
	long long before = used_mib();

	if (!TRY(cuArrayCreate(&a2, &d2)))
		printf("fact: cuArrayCreate_v2 4096x4096x2xs16: %+lld MiB of 64\n", used_mib() - before);
	CUDA_ARRAY3D_DESCRIPTOR md = { .Width = 4096, .Height = 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4 };
	CUmipmappedArray mm;

	before = used_mib();
	if (!TRY(cuMipmappedArrayCreate(&mm, &md, 13))) {
		CUarray level;

		printf("fact: mipmap 4096x4096 float4 13 levels: %+lld MiB, level 0 alone 256\n", used_mib() - before);
		TRY(cuMipmappedArrayGetLevel(&level, mm, 0));
		printf("fact:   destroy of a level: %s\n", error_name(cuArrayDestroy(level)));
		TRY(cuMipmappedArrayDestroy(mm));
		printf("fact:   after destroy %+lld MiB\n", used_mib() - before);
	}
}

static void pool_line(const char *when, CUmemoryPool pool)
{
	cuuint64_t reserved = 0, now = 0, high = 0;

	cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
	cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &now);
	cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &high);
	printf("fact: pool %s: used %llu reserved %llu reserved high %llu bytes, device %lld MiB\n", when,
	       (unsigned long long)now, (unsigned long long)reserved, (unsigned long long)high, used_mib());
}

static void pool_story(const char *name, CUmemoryPool pool, cuuint64_t threshold)
{
	CUdeviceptr p[4];

	printf("fact: -- pool %s, threshold %llu\n", name, (unsigned long long)threshold);
	TRY(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	TRY(cuMemAllocFromPoolAsync(&p[0], 1000, pool, stream));
	pool_line("after 1000 bytes", pool);
	TRY(cuMemAllocFromPoolAsync(&p[1], 100 * MIB, pool, stream));
	pool_line("after 100 MiB more", pool);
	TRY(cuMemFreeAsync(p[1], stream));
	pool_line("after freeing 100 MiB, not synchronized", pool);
	TRY(cuStreamSynchronize(stream));
	pool_line("after synchronizing the stream", pool);
	TRY(cuMemPoolTrimTo(pool, 0));
	pool_line("after trim to 0", pool);
	TRY(cuMemFreeAsync(p[0], stream));
	TRY(cuStreamSynchronize(stream));
	TRY(cuMemPoolTrimTo(pool, 0));
	pool_line("empty and trimmed", pool);
}

static void pools(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
	CUmemoryPool own, def;
	CUdeviceptr p;

	start();
	TRY(cuDeviceGetDefaultMemPool(&def, dev));
	pool_story("default", def, 0);
	pool_story("default", def, ~0ull);
	TRY(cuMemPoolCreate(&own, &props));
	pool_story("own", own, 64 * MIB);
	cuuint64_t keep = ~0ull;
	TRY(cuMemPoolSetAttribute(own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	TRY(cuMemAllocFromPoolAsync(&p, 300 * MIB, own, stream));
	TRY(cuStreamSynchronize(stream));
	printf("fact: own pool with 300 MiB in use: device %lld MiB\n", used_mib());
	TRY(cuMemPoolDestroy(own));
	printf("fact: destroyed with the block live: device %lld MiB\n", used_mib());
	printf("fact: free after the pool's destroy: %s", error_name(cuMemFreeAsync(p, stream)));
	TRY(cuStreamSynchronize(stream));
	printf(", device %lld MiB\n", used_mib());
	/* the current pool of the device */
	TRY(cuMemPoolCreate(&own, &props));
	TRY(cuDeviceSetMemPool(dev, own));
	TRY(cuMemAllocAsync(&p, 64 * MIB, stream));
	TRY(cuStreamSynchronize(stream));
	pool_line("own, made current, after cuMemAllocAsync of 64 MiB", own);
	printf("fact: cuMemFree of a stream-ordered block: %s\n", error_name(cuMemFree(p)));
	TRY(cuMemAlloc(&p, 64 * MIB));
	printf("fact: cuMemFreeAsync of a cuMemAlloc block: %s\n", error_name(cuMemFreeAsync(p, stream)));
	CUmemPoolProps bad = props;
	for (int type = 1; type <= 4; type++) {
		bad.location.type = type;
		bad.location.id = 0;
		CUmemoryPool hp;
		CUresult r = cuMemPoolCreate(&hp, &bad);

		printf("fact: cuMemPoolCreate of location type %d: %s", type, error_name(r));
		if (!r) {
			long long before = used_mib();

			r = cuMemAllocFromPoolAsync(&p, 64 * MIB, hp, stream);
			cuStreamSynchronize(stream);
			printf("; 64 MiB of it: %s, device %+lld MiB", error_name(r), used_mib() - before);
		}
		printf("\n");
	}
}

static void graph_line(const char *when)
{
	cuuint64_t used = 0, reserved = 0;

	cuDeviceGetGraphMemAttribute(dev, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used);
	cuDeviceGetGraphMemAttribute(dev, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved);
	printf("fact: graph %s: used %llu reserved %llu MiB, device %lld MiB\n", when, (unsigned long long)used >> 20,
	       (unsigned long long)reserved >> 20, used_mib());
}

static void graphs(void)
{
	CUdeviceptr plain, kept, scratch, other;
	CUgraph g, g2;
	CUgraphExec e, e2;
	CUgraphNode n, fn;
	CUstream s2;
	CUevent ev;

	start();
	TRY(cuMemAllocAsync(&plain, 10 * MIB, stream));
	TRY(cuStreamSynchronize(stream));
	graph_line("before");
	TRY(cuStreamCreate(&s2, CU_STREAM_NON_BLOCKING));
	TRY(cuEventCreate(&ev, CU_EVENT_DISABLE_TIMING));
	TRY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	TRY(cuMemAllocAsync(&kept, 200 * MIB, stream));
	TRY(cuMemAllocAsync(&scratch, 100 * MIB, stream));
	TRY(cuMemFreeAsync(scratch, stream));
	TRY(cuEventRecord(ev, stream));
	TRY(cuStreamWaitEvent(s2, ev, 0));
	TRY(cuMemAllocAsync(&other, 50 * MIB, s2));
	TRY(cuEventRecord(ev, s2));
	TRY(cuStreamWaitEvent(stream, ev, 0));
	TRY(cuStreamEndCapture(stream, &g));
	printf("fact: graph addresses: plain %llx, captured %llx %llx, on a joined stream %llx\n", plain, kept, scratch, other);
	graph_line("captured");
	TRY(cuGraphInstantiateWithFlags(&e, g, 0));
	graph_line("instantiated");
	TRY(cuGraphLaunch(e, stream));
	TRY(cuStreamSynchronize(stream));
	graph_line("launched");
	printf("fact: second launch with its memory live: %s\n", error_name(cuGraphLaunch(e, stream)));
	printf("fact: free of a graph's block outside: %s", error_name(cuMemFreeAsync(kept, stream)));
	printf(", of the other: %s\n", error_name(cuMemFreeAsync(other, stream)));
	TRY(cuStreamSynchronize(stream));
	graph_line("freed outside");
	TRY(cuDeviceGraphMemTrim(dev));
	graph_line("trimmed");
	printf("fact: launch again: %s\n", error_name(cuGraphLaunch(e, stream)));
	TRY(cuStreamSynchronize(stream));
	graph_line("launched again");
	TRY(cuGraphExecDestroy(e));
	TRY(cuGraphDestroy(g));
	graph_line("exec and graph destroyed, memory live");
	printf("fact: free after the exec's destroy: %s", error_name(cuMemFreeAsync(kept, stream)));
	printf(" %s\n", error_name(cuMemFree(other)));
	TRY(cuStreamSynchronize(stream));
	TRY(cuDeviceGraphMemTrim(dev));
	graph_line("freed and trimmed");
	/* nodes by hand; one graph allocates, another frees */
	CUDA_MEM_ALLOC_NODE_PARAMS params = { .poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } }, .bytesize = 64 * MIB };
	TRY(cuGraphCreate(&g, 0));
	TRY(cuGraphAddMemAllocNode(&n, g, NULL, 0, &params));
	printf("fact: node address %llx; offsets: bytesize %zu dptr %zu\n", params.dptr, offsetof(CUDA_MEM_ALLOC_NODE_PARAMS, bytesize),
	       offsetof(CUDA_MEM_ALLOC_NODE_PARAMS, dptr));
	TRY(cuGraphCreate(&g2, 0));
	TRY(cuGraphAddMemFreeNode(&fn, g2, NULL, 0, params.dptr));
	TRY(cuGraphInstantiateWithFlags(&e, g, 0));
	TRY(cuGraphInstantiateWithFlags(&e2, g2, 0));
	TRY(cuGraphLaunch(e, stream));
	TRY(cuStreamSynchronize(stream));
	graph_line("node graph launched");
	TRY(cuGraphLaunch(e2, stream));
	TRY(cuStreamSynchronize(stream));
	graph_line("freeing graph launched");
	TRY(cuGraphExecDestroy(e));
	TRY(cuGraphExecDestroy(e2));
	/* auto free */
	CUgraph g3;
	TRY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	TRY(cuMemAllocAsync(&kept, 128 * MIB, stream));
	TRY(cuStreamEndCapture(stream, &g3));
	TRY(cuGraphInstantiateWithFlags(&e, g3, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	for (int i = 0; i < 3; i++)
		TRY(cuGraphLaunch(e, stream));
	TRY(cuStreamSynchronize(stream));
	graph_line("auto-free graph launched three times");
	TRY(cuGraphExecDestroy(e));
	graph_line("its exec destroyed");
	/* a captured free of a block from outside */
	TRY(cuMemAllocAsync(&plain, 10 * MIB, stream));
	TRY(cuStreamSynchronize(stream));
	CUgraph g4;
	TRY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	printf("fact: captured free of an outside block: %s\n", error_name(cuMemFreeAsync(plain, stream)));
	CUdeviceptr inside;
	printf("fact: cuMemAlloc during a relaxed capture: %s\n", error_name(cuMemAlloc(&inside, MIB)));
	CUresult r = cuStreamEndCapture(stream, &g4);
	printf("fact: end of that capture: %s\n", error_name(r));
	CUgraph g5 = NULL;
	TRY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	TRY(cuMemAllocAsync(&inside, 3 * MIB, s2));
	printf("fact: allocation on another stream during a capture: %llx\n", inside);
	TRY(cuStreamEndCapture(stream, &g5));
}

static void fd_line(const char *what, CUresult r, long long before)
{
	printf("fact: shared by fd: %s: %s, device %+lld MiB\n", what, error_name(r), used_mib() - before);
}

static void imports(void)
{
	int pfd[2], back[2];
	CUipcMemHandle h;
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
	char ok = 1;

	if (pipe(pfd) || pipe(back))
		return;
	pid_t pid = fork();

	if (pid == 0) {
		CUdeviceptr a = 0, b = 0;

		start();
		if (read(pfd[0], &h, sizeof(h)) != sizeof(h))
			_exit(1);
		long long before = used_mib();

		CUresult one = cuIpcOpenMemHandle(&a, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
		CUresult two = cuIpcOpenMemHandle(&b, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

		printf("fact: ipc open twice: %s %s, addresses %llx %llx, device %+lld MiB\n", error_name(one), error_name(two), a, b,
		       used_mib() - before);
		CUdeviceptr base = 0;
		size_t size = 0;

		cuMemGetAddressRange(&base, &size, a);
		printf("fact: ipc range in the importer: %llx + %zu\n", base, size);
		printf("fact: cuMemFree of an import: %s\n", error_name(cuMemFree(a)));
		printf("fact: ipc close: %s", error_name(cuIpcCloseMemHandle(a)));
		printf(", again: %s", error_name(cuIpcCloseMemHandle(a)));
		printf(", and again: %s\n", error_name(cuIpcCloseMemHandle(a)));
		TRY(cuIpcOpenMemHandle(&a, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
		if (write(back[1], &ok, 1) != 1 || read(pfd[0], &ok, 1) != 1)
			_exit(1);
		printf("fact: exporter freed while opened here: device %+lld MiB here\n", used_mib() - before);
		printf("fact: close then: %s, device %+lld MiB\n", error_name(cuIpcCloseMemHandle(a)), used_mib() - before);
		fflush(stdout);
		_exit(0);
	}
	start();
	CUdeviceptr p;

	TRY(cuMemAlloc(&p, 300 * MIB));
	TRY(cuIpcGetMemHandle(&h, p));
	printf("fact: ipc handle:");
	for (size_t i = 0; i < sizeof(h); i++)
		printf("%02x", ((unsigned char *)&h)[i]);
	CUdeviceptr sub;
	CUipcMemHandle hs;

	TRY(cuMemAlloc(&sub, 1000));
	TRY(cuIpcGetMemHandle(&hs, sub + 512));
	printf("\nfact: ipc handle of a block of 1000 at 512:");
	for (size_t i = 0; i < sizeof(h); i++)
		printf("%02x", ((unsigned char *)&hs)[i]);
	printf("\n");
	fflush(stdout);
	if (write(pfd[1], &h, sizeof(h)) != sizeof(h) || read(back[0], &ok, 1) != 1)
		return;
	printf("fact: exporter frees: %s\n", error_name(cuMemFree(p)));
	fflush(stdout);
	(void)!write(pfd[1], &ok, 1);
	waitpid(pid, NULL, 0);
	/* file descriptors, within one process */
	CUmemGenericAllocationHandle ph, imported, again, kept;
	int fd = -1;
	CUdeviceptr va;
	long long before = used_mib();

	TRY(cuMemCreate(&ph, 256 * MIB, &prop, 0));
	TRY(cuMemExportToShareableHandle(&fd, ph, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	TRY(cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	TRY(cuMemImportFromShareableHandle(&again, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	printf("fact: fd handles: created %llx, imported %llx %llx, device %+lld MiB\n", ph, imported, again, used_mib() - before);
	fd_line("the created handle released", cuMemRelease(ph), before);
	fd_line("fd closed", close(fd) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS, before);
	TRY(cuMemAddressReserve(&va, 256 * MIB, 0, 0, 0));
	fd_line("an imported handle mapped", cuMemMap(va, 256 * MIB, 0, imported, 0), before);
	fd_line("it is released", cuMemRelease(imported), before);
	fd_line("the other import is released", cuMemRelease(again), before);
	fd_line("retained by its address", cuMemRetainAllocationHandle(&kept, (void *)va), before);
	printf("fact:   (handle %llx)\n", kept);
	fd_line("unmapped", cuMemUnmap(va, 256 * MIB), before);
	fd_line("last release", cuMemRelease(kept), before);
	/* pools */
	CUmemPoolProps pp = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
	CUmemoryPool pool, ipool;
	CUmemPoolPtrExportData share;
	CUdeviceptr ip;

	TRY(cuMemPoolCreate(&pool, &pp));
	TRY(cuMemAllocFromPoolAsync(&p, 40 * MIB, pool, stream));
	TRY(cuStreamSynchronize(stream));
	TRY(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	TRY(cuMemPoolExportPointer(&share, p));
	printf("fact: pool share data:");
	for (size_t i = 0; i < sizeof(share); i++)
		printf("%02x", ((unsigned char *)&share)[i]);
	printf("\n");
	if (!TRY(cuMemPoolImportFromShareableHandle(&ipool, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))) {
		printf("fact: pool import of a pointer in one process: %s", error_name(cuMemPoolImportPointer(&ip, ipool, &share)));
		printf(" %llx (own %llx)\n", ip, p);
	}
	CUmulticastObjectProp mp = { .numDevices = 1, .size = 2 * MIB, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR };
	CUmemGenericAllocationHandle mc;
	printf("fact: cuMulticastCreate for one device: %s\n", error_name(cuMulticastCreate(&mc, &mp)));
	printf("fact: sizes: CUDA_EXTERNAL_MEMORY_HANDLE_DESC size at %zu; CUmulticastObjectProp size at %zu; CUDA_ARRAY3D_DESCRIPTOR flags at %zu; CUgraphNodeParams alloc at %zu\n",
	       offsetof(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size), offsetof(CUmulticastObjectProp, size),
	       offsetof(CUDA_ARRAY3D_DESCRIPTOR, Flags), offsetof(CUgraphNodeParams, alloc));
}

/* What goes with a context beside what driver_facts asks: arrays, graph memory, imports. */
static void ends(void)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = { .Width = 8192, .Height = 8192, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 };
	CUmemPoolProps pp = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
	CUresult (*create)(CUcontext *, unsigned, CUdevice) = dlsym(RTLD_DEFAULT, "cuCtxCreate_v2");
	CUmemPoolPtrExportData share;
	CUmemoryPool pool, ipool;
	CUmipmappedArray mm;
	CUgraphExec e;
	CUgraph g;
	CUcontext c;
	CUstream s;
	CUarray a;
	CUdeviceptr kept, ip, shared;
	int fd;

	start();
	long long before = used_mib();

	TRY(create(&c, 0, dev));
	TRY(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	TRY(cuArray3DCreate(&a, &desc));
	TRY(cuMipmappedArrayCreate(&mm, &desc, 1));
	TRY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	TRY(cuMemAllocAsync(&kept, 512 * MIB, s));
	TRY(cuStreamEndCapture(s, &g));
	TRY(cuGraphInstantiateWithFlags(&e, g, 0));
	TRY(cuGraphLaunch(e, s));
	TRY(cuStreamSynchronize(s));
	TRY(cuMemPoolCreate(&pool, &pp));
	TRY(cuMemAllocFromPoolAsync(&shared, 40 * MIB, pool, s));
	TRY(cuStreamSynchronize(s));
	TRY(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	TRY(cuMemPoolExportPointer(&share, shared));
	TRY(cuMemPoolImportFromShareableHandle(&ipool, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	TRY(cuMemPoolImportPointer(&ip, ipool, &share));
	printf("fact: end of a context: held %lld MiB (array 256, mipmap 256, graph 512, pool 64)\n", used_mib() - before);
	TRY(cuCtxDestroy(c));
	TRY(cuCtxSetCurrent(ctx));
	printf("fact: end of a context: destroyed %+lld MiB\n", used_mib() - before);
	printf("fact:   the array: %s\n", error_name(cuArrayDestroy(a)));
	printf("fact:   the mipmap: %s\n", error_name(cuMipmappedArrayDestroy(mm)));
	printf("fact:   the graph's block: %s\n", error_name(cuMemFree(kept)));
	printf("fact:   the imported pointer: %s\n", error_name(cuMemFreeAsync(ip, stream)));
	printf("fact:   the pool's block: %s\n", error_name(cuMemFreeAsync(shared, stream)));
	TRY(cuStreamSynchronize(stream));
	TRY(cuDeviceGraphMemTrim(dev));
	printf("fact:   then %+lld MiB\n", used_mib() - before);
	/* green contexts */
	CUdevResource sm;
	CUdevResourceDesc rd;
	CUgreenCtx gc;
	CUcontext gctx;
	CUdeviceptr p;

	TRY(cuDeviceGetDevResource(dev, &sm, CU_DEV_RESOURCE_TYPE_SM));
	TRY(cuDevResourceGenerateDesc(&rd, &sm, 1));
	TRY(cuGreenCtxCreate(&gc, rd, dev, CU_GREEN_CTX_DEFAULT_STREAM));
	TRY(cuCtxFromGreenCtx(&gctx, gc));
	TRY(cuCtxSetCurrent(gctx));
	before = used_mib();
	TRY(cuMemAlloc(&p, 256 * MIB));
	TRY(cuCtxSetCurrent(ctx));
	TRY(cuGreenCtxDestroy(gc));
	printf("fact: a green context destroyed with 256 MiB of it live: %+lld MiB", used_mib() - before);
	printf(", free afterwards %s\n", error_name(cuMemFree(p)));
	/* a level of a mipmap is no array of its own */
	CUarray level;

	TRY(cuMipmappedArrayCreate(&mm, &desc, 3));
	before = used_mib();
	TRY(cuMipmappedArrayGetLevel(&level, mm, 0));
	printf("fact: destroying a level: %s", error_name(cuArrayDestroy(level)));
	printf(", device %+lld MiB", used_mib() - before);
	printf(", destroying the whole: %s", error_name(cuMipmappedArrayDestroy(mm)));
	printf(", device %+lld MiB\n", used_mib() - before);
}

static void contexts(void)
{
	CUcontext c, c2;
	CUdeviceptr p;
	CUresult r;

	start();
	TRY(cuDevicePrimaryCtxRetain(&c2, dev));
	TRY(cuMemAlloc(&p, 100 * MIB));
	TRY(cuDevicePrimaryCtxRelease(dev));
	printf("fact: one release after two retains: free says %s\n", error_name(cuMemFree(p)));
	TRY(cuMemAlloc(&p, 100 * MIB));
	TRY(cuDevicePrimaryCtxRelease(dev));
	r = cuDevicePrimaryCtxRelease(dev);
	printf("fact: release beyond the last: %s\n", error_name(r));
	TRY(cuDevicePrimaryCtxRetain(&c, dev));
	TRY(cuCtxSetCurrent(c));
	TRY(cuDevicePrimaryCtxRetain(&c2, dev));
	TRY(cuDevicePrimaryCtxReset(dev));
	printf("fact: after a reset with two retains: set current %s", error_name(cuCtxSetCurrent(c)));
	printf(", alloc %s", error_name(cuMemAlloc(&p, MIB)));
	printf(", release %s", error_name(cuDevicePrimaryCtxRelease(dev)));
	printf(", release %s", error_name(cuDevicePrimaryCtxRelease(dev)));
	printf(", release %s\n", error_name(cuDevicePrimaryCtxRelease(dev)));
	/* deprecated attach and detach */
	CUresult (*create_old)(CUcontext *, unsigned, CUdevice) = dlsym(RTLD_DEFAULT, "cuCtxCreate_v2");
	CUresult (*attach)(CUcontext *, unsigned) = dlsym(RTLD_DEFAULT, "cuCtxAttach");
	CUresult (*detach)(CUcontext) = dlsym(RTLD_DEFAULT, "cuCtxDetach");

	if (create_old && attach && detach) {
		TRY(create_old(&c, 0, dev));
		TRY(cuMemAlloc(&p, 100 * MIB));
		printf("fact: cuCtxAttach %s", error_name(attach(&c2, 0)));
		printf(", cuCtxDetach %s", error_name(detach(c)));
		printf(", free %s", error_name(cuMemFree(p)));
		TRY(cuMemAlloc(&p, 100 * MIB));
		printf(", cuCtxDetach %s", error_name(detach(c)));
		printf(", free %s\n", error_name(cuMemFree(p)));
	}
}

static void nvml(void)
{
	struct { unsigned pid; unsigned pad; unsigned long long used; unsigned gi, ci; } list[64];
	void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW), *device = NULL;
	int (*init)(void), (*handle)(unsigned, void **), (*procs)(void *, unsigned *, void *), (*util)(void *, void *, unsigned *, unsigned long long);
	unsigned n = 64;
	CUdeviceptr p;

	start();
	TRY(cuMemAlloc(&p, 1000 * MIB));
	if (!lib)
		return;
	*(void **)&init = dlsym(lib, "nvmlInit_v2");
	*(void **)&handle = dlsym(lib, "nvmlDeviceGetHandleByIndex_v2");
	*(void **)&procs = dlsym(lib, "nvmlDeviceGetComputeRunningProcesses_v3");
	*(void **)&util = dlsym(lib, "nvmlDeviceGetProcessUtilization");
	init();
	handle(0, &device);
	int r = procs(device, &n, list);

	printf("fact: nvml compute processes: %d, %u records, own pid %d\n", r, n, (int)getpid());
	for (unsigned i = 0; !r && i < n && i < 64; i++)
		printf("fact:   pid %u used %llu MiB instance %u %u\n", list[i].pid, list[i].used >> 20, list[i].gi, list[i].ci);
	(void)util;
	fflush(stdout);
	(void)!system("grep -H NSpid /proc/self/status; readlink /proc/self/ns/pid; nvidia-smi --query-compute-apps=pid,used_memory --format=csv; nvidia-smi -q | grep -i -A3 -E 'mig mode|fb memory' | head -20");
}

int main(void)
{
	void (*questions[])(void) = { arrays, pools, graphs, imports, ends, contexts, nvml };

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof(questions) / sizeof(*questions); i++) {
		pid_t pid = fork();
		int status = 0;

		if (pid == 0) {
			questions[i]();
			fflush(stdout);
			_exit(0);
		}
		waitpid(pid, &status, 0);
		if (status)
			printf("fact: question %zu ended with status %d\n", i, status);
	}
	return 0;
}
