/* SPDX-License-Identifier: MIT */
/*
 * Each call of the stand-in that work_ledger does not make, once at least, with what it returns and what the stand-in's totals
 * are after it; those for graphs are in work_graphs. A check of the stand-in itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define STEP (32 * MIB) /* of a pool's reserve */
#define FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static CUcontext primary;
static CUstream stream;

static void array_one(int line, CUDA_ARRAY3D_DESCRIPTOR d, unsigned int levels, uint64_t bytes)
{
	CUmipmappedArray m;
	CUarray a;

	mark();
	if (levels)
		MUST(cuMipmappedArrayCreate(&m, &d, levels));
	else
		MUST(cuArray3DCreate_v2(&a, &d));
	changed(line, CLASS_ARRAY, (int64_t)bytes, 1, 1, 0);
	if (levels)
		MUST(cuMipmappedArrayDestroy(m));
	else
		MUST(cuArrayDestroy(a));
	changed(line, CLASS_ARRAY, -(int64_t)bytes, -1, 0, 1);
}
#define ARRAY(bytes, levels, ...) array_one(__LINE__, (CUDA_ARRAY3D_DESCRIPTOR){ __VA_ARGS__ }, levels, bytes)

static void arrays(void)
{
	CUDA_ARRAY3D_DESCRIPTOR_v1 d1 = { .Width = 10, .Height = 10, .Depth = 3, .Format = 0x10, .NumChannels = 2 };
	CUDA_ARRAY_DESCRIPTOR_v1 d2 = { .Width = 7, .Format = 0x02, .NumChannels = 4 };
	CUarray a;

	ARRAY(65536, 0, 65536, 0, 0, 0x01, 1, 0);
	ARRAY(64 * 64 * 4 * 8, 0, 64, 64, 4, 0x10, 4, 0);
	ARRAY(64 * 64 * 32 * 4, 0, 64, 64, 32, 0x20, 1, CUDA_ARRAY3D_LAYERED);
	ARRAY(64 * 64 * 6 * 4, 0, 64, 64, 6, 0x20, 1, CUDA_ARRAY3D_CUBEMAP);
	ARRAY(0, 0, 64, 64, 0, 0x20, 1, CUDA_ARRAY3D_SPARSE);
	ARRAY(0, 0, 64, 64, 0, 0x20, 1, CUDA_ARRAY3D_DEFERRED_MAPPING);
	ARRAY(16 * 8 * 8, 0, 62, 30, 0, 0x91, 4, 0); /* blocks of 4 x 4 */
	ARRAY(16 * 8 * 16, 0, 64, 32, 0, 0x9d, 4, 0);
	ARRAY(64 * 64 * 4, 0, 64, 64, 0, 0xc2, 4, 0);
	ARRAY(64 * 64 * 8, 0, 64, 64, 0, 0xcb, 4, 0);
	ARRAY((256 + 64 + 16 + 4 + 1) * 4, 100, 16, 16, 0, 0x20, 1, 0); /* no more levels than there are */
	ARRAY((8 * 4 * 5 + 4 * 2 * 5) * 4, 2, 8, 4, 5, 0x20, 1, CUDA_ARRAY3D_LAYERED);
	ARRAY((8 * 4 * 5 + 4 * 2 * 2) * 4, 2, 8, 4, 5, 0x20, 1, 0);
	MUST(cuArray3DCreate(&a, &d1));
	MADE(CLASS_ARRAY, 10 * 10 * 3 * 2 * 2);
	MUST(cuArrayDestroy(a));
	MUST(cuArrayCreate(&a, &d2));
	CHANGED(CLASS_ARRAY, 7 * 2 * 4 - 10 * 10 * 3 * 2 * 2, 0, 1, 1);
	EXPECT(400, cuMipmappedArrayDestroy((CUmipmappedArray)a));
	EXPECT(1, cuMemFree_v2((uintptr_t)a));
	MUST(cuArrayDestroy(a));
	EXPECT(400, cuArrayDestroy(a));
	d1.Format = 0x77;
	EXPECT(1, cuArray3DCreate(&a, &d1));
	FAILED(1, 3);
}

static void old_calls(void)
{
	unsigned int pitch = 0;
	CUdeviceptr_v1 p, q;
	static char page[8192];
	void *host;

	mark();
	MUST(cuMemAlloc(&p, 1000));
	MADE(CLASS_DEVICE, 1000);
	MUST(cuMemAllocPitch(&q, &pitch, 700, 10, 4));
	MADE(CLASS_DEVICE, 10 * pitch);
	CHECK(pitch >= 700 && p != q);
	MUST(cuMemFree(p));
	GONE(CLASS_DEVICE, 1000);
	MUST(cuMemFree_v2(q));
	GONE(CLASS_DEVICE, 10 * pitch);
	EXPECT(1, cuMemFree(q));
	MUST(cuMemFree(0));
	FAILED(0, 1);
	MUST(cuMemAllocHost(&host, 5000));
	MADE(CLASS_HOST, 5000);
	MUST(cuMemFreeHost(host));
	GONE(CLASS_HOST, 5000);
	MUST(cuMemHostRegister(page, sizeof(page), 0));
	MADE(CLASS_HOST, sizeof(page));
	MUST(cuMemHostUnregister(page));
	GONE(CLASS_HOST, sizeof(page));
}

static void made_contexts(void)
{
	CUcontext c, again;
	CUdeviceptr p;

	mark();
	MUST(cuCtxCreate(&c, 0, 0));
	MUST(cuMemAlloc_v2(&p, MIB));
	MUST(cuCtxAttach(&again, 0));
	CHECK(again == c);
	MUST(cuCtxDetach(c));
	MADE(CLASS_DEVICE, MIB);
	MUST(cuCtxDetach(c));
	GONE(CLASS_DEVICE, MIB);
	EXPECT(201, cuCtxDetach(c));
	MUST(cuCtxSetCurrent(primary));
}

static void green_contexts(void)
{
	CUgreenCtx green;
	CUcontext c;
	CUdeviceptr p;
	int device;

	MUST(cuGreenCtxCreate(&green, NULL, 1, 1));
	MUST(cuCtxFromGreenCtx(&c, green));
	MUST(cuCtxSetCurrent(c));
	MUST(cuCtxGetDevice(&device));
	CHECK(device == 1);
	MUST(cuMemAlloc_v2(&p, MIB));
	MADE(CLASS_DEVICE, MIB);
	MUST(cuDevicePrimaryCtxRetain(&c, 1));
	MUST(cuDevicePrimaryCtxRelease(1)); /* whose memory it is */
	GONE(CLASS_DEVICE, MIB);
	MUST(cuMemAlloc_v2(&p, MIB));
	MUST(cuGreenCtxDestroy(green));
	EXPECT(400, cuGreenCtxDestroy(green));
	EXPECT(709, cuMemAlloc_v2(&p, MIB));
	MADE(CLASS_DEVICE, MIB);
	MUST(cuCtxSetCurrent(primary));
	MUST(cuMemFree_v2(p));
	GONE(CLASS_DEVICE, MIB);
}

static void primary_contexts(void)
{
	CUdeviceptr p, async;
	CUcontext c;

	MUST(cuDevicePrimaryCtxRetain(&c, 1));
	MUST(cuDevicePrimaryCtxRetain(&c, 1));
	MUST(cuCtxSetCurrent(c));
	MUST(cuMemAlloc_v2(&p, MIB));
	MUST(cuDevicePrimaryCtxRelease(1));
	MADE(CLASS_DEVICE, MIB);
	MUST(cuDevicePrimaryCtxRelease_v2(1));
	GONE(CLASS_DEVICE, MIB);
	EXPECT(201, cuDevicePrimaryCtxRelease(1));
	MUST(cuCtxSetCurrent(c));
	EXPECT(709, cuMemAlloc_v2(&p, MIB));
	MUST(cuDevicePrimaryCtxRetain(&c, 1));
	MUST(cuMemAllocAsync(&async, MIB, NULL));
	MUST(cuMemAllocManaged(&p, MIB, 1));
	MUST(cuDevicePrimaryCtxReset(1));
	CHANGED(CLASS_ASYNC, MIB, 1, 2, 1); /* it outlives the context */
	MUST(cuCtxSetCurrent(c));
	EXPECT(709, cuMemAlloc_v2(&p, MIB));
	MUST(cuDevicePrimaryCtxRetain(&c, 1));
	MUST(cuMemAlloc_v2(&p, MIB));
	MUST(cuDevicePrimaryCtxRelease(1));
	MUST(cuMemFree_v2(p));
	MUST(cuDevicePrimaryCtxRelease(1));
	EXPECT(201, cuDevicePrimaryCtxRelease(1));
	MUST(cuMemFree_v2(async));
	CHANGED(CLASS_ASYNC, -(int64_t)MIB, -1, 1, 2);
	MUST(cuCtxSetCurrent(primary));
}

static uint64_t pool_ask(CUmemoryPool pool, int attr)
{
	uint64_t v = 0;

	MUST(cuMemPoolGetAttribute(pool, attr, &v));
	return v;
}
#define RESERVED(pool) pool_ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)

static CUmemoryPool pool_new(int alloc_type, int location_type, int handle_types)
{
	CUmemPoolProps props = { .allocType = alloc_type, .handleTypes = handle_types, .location = { location_type, 0 } };
	CUmemoryPool pool;

	MUST(cuMemPoolCreate(&pool, &props));
	return pool;
}

/* Reserve by steps, down to the threshold when synchronized, and no further than asked when trimmed. */
static void pool_reserve(void)
{
	CUmemoryPool pool = pool_new(1, 1, 0);
	uint64_t threshold = 70 * MIB, zero = 0, before = used_bytes();
	CUdeviceptr p, q;

	MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	CHECK(pool_ask(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == threshold);
	MUST(cuMemAllocFromPoolAsync(&p, 1000, pool, stream));
	CHECK(RESERVED(pool) == STEP && used_bytes() == before + STEP);
	MUST(cuMemAllocFromPoolAsync(&q, 100 * MIB, pool, stream));
	CHECK(RESERVED(pool) == 4 * STEP && pool_ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 100 * MIB + 1000);
	MUST(cuMemFreeAsync(q, stream));
	CHECK(RESERVED(pool) == 4 * STEP && used_bytes() == before + 4 * STEP);
	MUST(cuStreamSynchronize(stream));
	CHECK(RESERVED(pool) == 2 * STEP);
	MUST(cuMemPoolTrimTo(pool, 0));
	CHECK(RESERVED(pool) == STEP && pool_ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == 4 * STEP);
	MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
	CHECK(pool_ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == STEP);
	EXPECT(1, cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &zero));
	MUST(cuMemPoolDestroy(pool));
	EXPECT(1, cuMemPoolDestroy(pool));
	CHECK(used_bytes() == before + STEP); /* its block lives on */
	MUST(cuMemFree_v2(p));
	CHECK(used_bytes() == before);
}

static void pool_kinds(void)
{
	static const struct {
		int type, location;
		unsigned int class;
	} kinds[] = { { 1, 1, CLASS_ASYNC }, { 1, 2, CLASS_HOST }, { 1, 3, CLASS_HOST }, { 2, 1, CLASS_MANAGED },
		      { 2, 2, CLASS_MANAGED } };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		CUmemoryPool pool = pool_new(kinds[i].type, kinds[i].location, 0), def;
		CUmemLocation at = { kinds[i].location, 0 };
		CUdeviceptr p;

		mark();
		MUST(cuMemAllocFromPoolAsync(&p, MIB, pool, NULL));
		MADE(kinds[i].class, MIB);
		MUST(cuMemFreeAsync(p, NULL));
		MUST(cuMemSetMemPool(&at, kinds[i].type, pool));
		MUST(cuMemGetMemPool(&def, &at, kinds[i].type));
		CHECK(def == pool);
		MUST(cuMemPoolDestroy(pool));
		MUST(cuMemGetMemPool(&pool, &at, kinds[i].type));
		MUST(cuMemGetDefaultMemPool(&def, &at, kinds[i].type));
		CHECK(def == pool);
		MUST(cuMemAllocFromPoolAsync_ptsz(&p, MIB, def, NULL));
		MUST(cuMemFree_v2(p));
		CHANGED(kinds[i].class, -(int64_t)MIB, -1, 1, 2);
	}
}

static void pool_current(void)
{
	CUmemoryPool own = pool_new(1, 1, 0), host = pool_new(1, 2, 0), got, def;
	CUdeviceptr p;

	mark();
	MUST(cuDeviceGetDefaultMemPool(&def, 0));
	EXPECT(1, cuDeviceSetMemPool(0, host));
	EXPECT(1, cuDeviceSetMemPool(1, own));
	MUST(cuDeviceSetMemPool(0, own));
	MUST(cuDeviceGetMemPool(&got, 0));
	CHECK(got == own);
	MUST(cuMemAllocAsync(&p, MIB, stream));
	MADE(CLASS_ASYNC, MIB);
	CHECK(pool_ask(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == MIB);
	MUST(cuMemPoolDestroy(own));
	MUST(cuDeviceGetMemPool(&got, 0));
	CHECK(got == def);
	EXPECT(1, cuMemPoolDestroy(def));
	MUST(cuMemFree_v2(p));
	GONE(CLASS_ASYNC, MIB);
	MUST(cuMemPoolDestroy(host));
	MUST(cuMemAlloc_v2(&p, MIB));
	MUST(cuMemFreeAsync(p, stream));
	MUST(cuMemAllocManaged(&p, MIB, 1));
	EXPECT(801, cuMemFreeAsync(p, stream));
	MUST(cuMemFree_v2(p));
	CHANGED(CLASS_DEVICE, 0, 0, 2, 2);
}

static void pool_share(void)
{
	CUmemoryPool pool = pool_new(1, 1, FD), imported;
	CUmemPoolPtrExportData share;
	CUdeviceptr p, q, again;
	int fd = -1;

	mark();
	MUST(cuMemAllocFromPoolAsync(&p, 3 * MIB, pool, stream));
	MADE(CLASS_ASYNC, 3 * MIB);
	EXPECT(1, cuMemPoolExportPointer(&share, p)); /* the pool first */
	MUST(cuMemPoolExportToShareableHandle(&fd, pool, FD, 0));
	MUST(cuMemPoolExportPointer(&share, p));
	MUST(cuMemPoolImportFromShareableHandle(&imported, (void *)(uintptr_t)fd, FD, 0));
	close(fd);
	MUST(cuMemPoolImportPointer(&q, imported, &share));
	MADE(CLASS_IMPORTED, 3 * MIB);
	CHECK(q != p);
	MUST(cuMemPoolImportPointer(&again, imported, &share));
	CHECK(again == q);
	CHANGED(CLASS_IMPORTED, 0, 0, 1, 1);
	EXPECT(1, cuMemAllocFromPoolAsync(&again, MIB, imported, stream));
	MUST(cuMemFreeAsync(q, stream));
	GONE(CLASS_IMPORTED, 3 * MIB);
	EXPECT(1, cuMemFree_v2(q));
	MUST(cuMemFree_v2(p));
	GONE(CLASS_ASYNC, 3 * MIB);
	MUST(cuMemPoolDestroy(imported));
	MUST(cuMemPoolDestroy(pool));
}

static CUmemGenericAllocationHandle physical_new(uint64_t bytes)
{
	CUmemAllocationProp prop = { .type = 1, .requestedHandleTypes = FD, .location = { 1, 0 } };
	CUmemGenericAllocationHandle h;

	MUST(cuMemCreate(&h, bytes, &prop, 0));
	return h;
}

static void handles(void)
{
	CUmemGenericAllocationHandle h, a, b, kept;
	uint64_t before = used_bytes();
	CUdeviceptr va;
	int fd = -1;

	mark();
	h = physical_new(4 * MIB);
	MADE(CLASS_PHYSICAL, 4 * MIB);
	MUST(cuMemExportToShareableHandle(&fd, h, FD, 0));
	MUST(cuMemImportFromShareableHandle(&a, (void *)(uintptr_t)fd, FD));
	MUST(cuMemImportFromShareableHandle(&b, (void *)(uintptr_t)fd, FD));
	close(fd);
	CHANGED(CLASS_IMPORTED, 0, 2, 2, 0);
	CHECK(a != b && a != h && b != h);
	MUST(cuMemRelease(h));
	GONE(CLASS_PHYSICAL, 4 * MIB);
	CHECK(used_bytes() == before + 4 * MIB); /* the imports hold it */
	MUST(cuMemAddressReserve(&va, 4 * MIB, 0, 0, 0));
	EXPECT(801, cuMemMap(va, 2 * MIB, 0, a, 0));
	MUST(cuMemMap(va, 4 * MIB, 0, a, 0));
	MUST(cuMemRelease(a));
	MUST(cuMemRelease(b));
	GONE(CLASS_IMPORTED, 0);
	MUST(cuMemRetainAllocationHandle(&kept, (void *)(uintptr_t)va));
	CHECK(kept == a);
	MUST(cuMemUnmap(va, 4 * MIB));
	SAME();
	CHECK(used_bytes() == before + 4 * MIB);
	MUST(cuMemRelease(kept));
	GONE(CLASS_IMPORTED, 0);
	CHECK(used_bytes() == before);
	EXPECT(1, cuMemImportFromShareableHandle(&a, (void *)(intptr_t)-1, FD));
	FAILED(1, 0);
	MUST(cuMemAddressFree(va, 4 * MIB));
}

static void external(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = { .type = 1, .size = 2 * MIB };
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = { .offset = MIB, .size = MIB };
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC levels = { .arrayDesc = { 64, 64, 0, 0x20, 1, 0 }, .numLevels = 2 };
	CUmipmappedArray array;
	CUexternalMemory ext;
	CUdeviceptr p;

	desc.handle.fd = memfd_create("external", MFD_CLOEXEC);
	mark();
	MUST(cuImportExternalMemory(&ext, &desc));
	MADE(CLASS_IMPORTED, 2 * MIB);
	CHECK(fcntl(desc.handle.fd, F_GETFD) < 0); /* the driver's now */
	MUST(cuExternalMemoryGetMappedBuffer(&p, ext, &part));
	MADE(CLASS_IMPORTED, 0);
	MUST(cuExternalMemoryGetMappedMipmappedArray(&array, ext, &levels));
	MADE(CLASS_IMPORTED, 0);
	part.offset++;
	EXPECT(1, cuExternalMemoryGetMappedBuffer(&p, ext, &part));
	EXPECT(1, cuImportExternalMemory(&ext, &desc));
	FAILED(2, 0);
	MUST(cuMemFree_v2(p));
	MUST(cuMipmappedArrayDestroy(array));
	CHANGED(CLASS_IMPORTED, 0, -2, 0, 2);
	MUST(cuDestroyExternalMemory(ext));
	GONE(CLASS_IMPORTED, 2 * MIB);
	EXPECT(1, cuDestroyExternalMemory(ext));
	EXPECT(1, cuMemFree_v2(p));
}

static void multicast(void)
{
	CUmulticastObjectProp prop = { .numDevices = 1, .size = 8 * MIB };
	CUmemGenericAllocationHandle mc, a = physical_new(4 * MIB), b = physical_new(4 * MIB);
	struct fake_gpu_totals t;
	CUdeviceptr va;

	MUST(cuMemAddressReserve(&va, 4 * MIB, 0, 0, 0));
	MUST(cuMemMap(va, 4 * MIB, 0, b, 0));
	mark();
	MUST(cuMulticastCreate(&mc, &prop));
	MADE(CLASS_IMPORTED, 0);
	EXPECT(1, cuMulticastBindMem(mc, 0, a, 0, 4 * MIB, 0)); /* its device is not added */
	MUST(cuMulticastAddDevice(mc, 0));
	MUST(cuMulticastBindMem(mc, 0, a, 0, 4 * MIB, 0));
	EXPECT(1, cuMulticastBindMem(mc, 2 * MIB, a, 0, 4 * MIB, 0));
	MUST(cuMulticastBindAddr(mc, 4 * MIB, va, 4 * MIB, 0));
	MUST(cuMemRelease(a));
	MUST(cuMemRelease(b));
	MUST(cuMemUnmap(va, 4 * MIB));
	SAME();
	EXPECT(1, cuMulticastUnbind(mc, 0, 2 * MIB, 4 * MIB));
	MUST(cuMulticastUnbind(mc, 0, 0, 4 * MIB));
	GONE(CLASS_PHYSICAL, 4 * MIB);
	MUST(cuMemRelease(mc)); /* lets the other one go */
	fake_gpu_totals(&t);
	CHECK(t.live_bytes[CLASS_PHYSICAL] == was.live_bytes[CLASS_PHYSICAL] - 4 * MIB);
	CHECK(t.live_count[CLASS_IMPORTED] == was.live_count[CLASS_IMPORTED] - 1);
	CHECK(t.free_count == was.free_count + 2);
	MUST(cuMemAddressFree(va, 4 * MIB));
}

struct offer {
	CUipcMemHandle handle;
	pid_t pid;
	int fd;
};

/* Opened twice, it is closed twice; what its owner does changes nothing here. */
static int importer(int from)
{
	CUmemGenericAllocationHandle h;
	CUdeviceptr a, b, va;
	struct offer o;
	char path[64];
	int fd;

	if (read(from, &o, sizeof(o)) != sizeof(o))
		die("no offer");
	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&primary, 0));
	MUST(cuCtxSetCurrent(primary));
	mark();
	MUST(cuIpcOpenMemHandle(&a, o.handle, 1));
	MADE(CLASS_IMPORTED, 3 * MIB);
	MUST(cuIpcOpenMemHandle_v2(&b, o.handle, 1));
	MADE(CLASS_IMPORTED, 3 * MIB);
	CHECK(a == b && !used_bytes());
	EXPECT(1, cuMemFree_v2(a));
	MUST(cuIpcCloseMemHandle(a));
	GONE(CLASS_IMPORTED, 3 * MIB);
	MUST(cuIpcCloseMemHandle(a));
	GONE(CLASS_IMPORTED, 3 * MIB);
	EXPECT(1, cuIpcCloseMemHandle(a));
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)o.pid, o.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	MUST(cuMemImportFromShareableHandle(&h, (void *)(uintptr_t)fd, FD));
	MADE(CLASS_IMPORTED, 0);
	MUST(cuMemAddressReserve(&va, 2 * MIB, 0, 0, 0));
	MUST(cuMemMap(va, 2 * MIB, 0, h, 0));
	MUST(cuMemRelease(h));
	SAME();
	MUST(cuMemUnmap(va, 2 * MIB));
	GONE(CLASS_IMPORTED, 0);
	CHECK(!used_bytes());
	return 0;
}

static void exporter(pid_t child, int to)
{
	CUmemGenericAllocationHandle h = physical_new(2 * MIB);
	struct offer o = { .pid = getpid(), .fd = -1 };
	CUipcMemHandle again;
	CUdeviceptr p, q;
	int status = 1;

	MUST(cuMemAlloc_v2(&p, 3 * MIB));
	MUST(cuIpcGetMemHandle(&o.handle, p));
	MUST(cuIpcGetMemHandle(&again, p + 512));
	CHECK(!memcmp(&o.handle, &again, sizeof(again)));
	MUST(cuMemExportToShareableHandle(&o.fd, h, FD, 0));
	mark();
	EXPECT(201, cuIpcOpenMemHandle_v2(&q, o.handle, 1));
	FAILED(1, 0);
	if (write(to, &o, sizeof(o)) != sizeof(o))
		die("write: %s", strerror(errno));
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	MUST(cuMemFree_v2(p));
	MUST(cuMemAlloc_v2(&p, 3 * MIB)); /* the same address, another block */
	MUST(cuIpcGetMemHandle(&again, p));
	CHECK(memcmp(&o.handle, &again, sizeof(again)));
	MUST(cuMemFree_v2(p));
	MUST(cuMemRelease(h));
	close(o.fd);
}

int main(int argc, char **argv)
{
	static struct ledger books; /* stays empty */
	int to[2];
	pid_t child;

	options_parse(argc, argv, NULL);
	if (pipe(to) || (child = fork()) < 0)
		die("fork: %s", strerror(errno));
	if (!child) {
		close(to[1]); /* so that it sees the end of the parent */
		return importer(to[0]);
	}
	common_start();
	primary = gpu_open(&books);
	if (books.device_count < 2)
		die("needs two devices");
	MUST(cuStreamCreate(&stream, 1));
	arrays();
	old_calls();
	made_contexts();
	green_contexts();
	primary_contexts();
	pool_reserve();
	pool_kinds();
	pool_current();
	pool_share();
	handles();
	external();
	multicast();
	exporter(child, to[1]);
	MUST(cuStreamDestroy_v2(stream));
	EXPECT(400, cuStreamDestroy_v2(stream));
	EXPECT(400, cuMemAllocAsync(&(CUdeviceptr){ 0 }, MIB, stream));
	MUST(cuCtxSynchronize());
	check_empty();
	printf("{\"label\":\"calls\",\"pid\":%d,\"ok\":true}\n", (int)getpid());
	if (common.wait_end)
		wait_line();
	return 0;
}
