/* SPDX-License-Identifier: MIT */
/* Memory of other processes: by IPC handle, by pointer of a pool, and external memory. No bytes of the importer's. */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libcuda.h"

#define TOKEN_MAGIC 0x6e656b6f742d6b66ull
#define IMPORT_BYTES_MAX (1ull << 38)

_Static_assert(sizeof(struct token) == 64, "struct token");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct import { /* what can be imported once more at the same address */
	struct token token;
	uint64_t addr, serial;
} *imports;
static size_t import_len, import_cap;
static uint32_t next_number;

void token_init(struct token *t, enum token_kind kind, int device)
{
	memset(t, 0, sizeof(*t));
	t->magic = TOKEN_MAGIC;
	t->kind = kind;
	t->pid = getpid();
	t->start = state_start_ticks((uint32_t)t->pid);
	t->device = device_physical(device);
}

int token_export(const struct token *t)
{
	int fd = memfd_create("fake-gpu", MFD_CLOEXEC);

	if (fd >= 0 && pwrite(fd, t, sizeof(*t), 0) != sizeof(*t)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool token_is_good(const struct token *t, enum token_kind kind)
{
	return t->magic == TOKEN_MAGIC && t->kind == kind && t->bytes <= IMPORT_BYTES_MAX && t->device >= -1 &&
	       t->device < FAKE_GPU_MAX;
}

bool token_import(int fd, enum token_kind kind, struct token *ret)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || st.st_size != sizeof(*ret) || pread(fd, ret, sizeof(*ret), 0) != sizeof(*ret))
		return false;
	return token_is_good(ret, kind);
}

bool token_is_own(const struct token *t)
{
	return t->pid == getpid() && t->start == state_start_ticks((uint32_t)t->pid);
}

/* A block given to others, by any address within it. */
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr)
{
	CUresult r = driver_ready();
	struct token t;
	struct block b;

	if (r)
		return r;
	if (!out_is_plausible(handle) || !block_find_within(dptr, &b) || b.class != CLASS_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	token_init(&t, TOKEN_IPC, b.device);
	t.place = b.addr;
	t.serial = b.serial;
	t.bytes = b.bytes;
	memcpy(handle, &t, sizeof(t));
	return CUDA_SUCCESS;
}

/* With the lock: the place of what is imported already, or else one for it. NULL: out of memory. */
static struct import *import_place(const struct token *t)
{
	struct import *array, *free_place = NULL;
	struct block b;

	for (size_t i = 0; i < import_len; i++) {
		struct import *m = &imports[i];
		bool is_there = block_find(m->addr, &b) && b.serial == m->serial;

		if (is_there && !memcmp(&m->token, t, sizeof(*t)))
			return m;
		if (!is_there)
			free_place = m;
	}
	if (!free_place) {
		array = array_grow(imports, import_len, sizeof(*array), &import_cap);
		if (!array)
			return NULL;
		imports = array;
		free_place = &imports[import_len++];
	}
	*free_place = (struct import){ .token = *t };
	return free_place;
}

/* Makes the block, or finds it: then *ret_old has it, and the caller does what is to be done. */
static CUresult import_block(const struct token *t, const struct block *what, struct block *ret_old, uint64_t *ret_addr)
{
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	struct import *m = import_place(t);
	struct block made;

	memset(ret_old, 0, sizeof(*ret_old));
	if (!m)
		return fail(r);
	if (m->addr && block_find(m->addr, ret_old)) {
		*ret_addr = m->addr;
		return CUDA_SUCCESS;
	}
	r = block_new(what, false, ret_addr);
	if (!r && block_find(*ret_addr, &made)) {
		m->addr = made.addr;
		m->serial = made.serial;
	}
	return r;
}

static CUresult ipc_open(CUdeviceptr *dptr, const CUipcMemHandle *handle)
{
	struct block b = { .class = CLASS_IMPORTED, .kind = BLOCK_IPC }, old;
	struct CUctx_st *c;
	CUresult r = context_current(&c);
	struct token t;
	uint64_t addr;

	if (r)
		return fail(r);
	memcpy(&t, handle, sizeof(t));
	if (!out_is_plausible(dptr) || !token_is_good(&t, TOKEN_IPC) || !t.bytes)
		return fail(CUDA_ERROR_INVALID_VALUE);
	if (token_is_own(&t))
		return fail(CUDA_ERROR_INVALID_CONTEXT);
	b.bytes = t.bytes;
	b.device = (int8_t)c->device;
	b.owner = c->owner;
	pthread_mutex_lock(&lock);
	r = import_block(&t, &b, &old, &addr);
	if (!r && old.addr && !block_ref(old.addr, old.serial))
		r = fail(CUDA_ERROR_UNKNOWN); /* closed at this very moment */
	pthread_mutex_unlock(&lock);
	if (!r)
		*dptr = addr;
	return r;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
	(void)flags;
	return ipc_open(dptr, &handle);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
	(void)flags;
	return ipc_open(dptr, &handle);
}

/* One of its openings; it is gone with the last of them. */
CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	CUresult r;

	pthread_mutex_lock(&lock);
	r = free_here(dptr, KIND(BLOCK_IPC), CUDA_ERROR_INVALID_VALUE);
	pthread_mutex_unlock(&lock);
	return r;
}

/* No two of them are alike, as a real driver's are. */
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *share, CUdeviceptr ptr)
{
	CUresult r = driver_ready();
	uint64_t pool;
	struct token t;
	struct block b;

	if (r)
		return r;
	if (!out_is_plausible(share) || !block_find(ptr, &b) || pool_of_block(b.pool, &pool))
		return CUDA_ERROR_INVALID_VALUE;
	token_init(&t, TOKEN_POINTER, b.device);
	t.place = b.addr;
	t.serial = b.serial;
	t.pool = pool;
	t.bytes = b.bytes;
	t.number = __atomic_add_fetch(&next_number, 1, __ATOMIC_RELAXED);
	memcpy(share, &t, sizeof(t));
	return CUDA_SUCCESS;
}

/* A second import of a block gives the address that the first one gave, and one free ends both. */
CUresult cuMemPoolImportPointer(CUdeviceptr *ptr, CUmemoryPool pool, CUmemPoolPtrExportData *share)
{
	struct block b = { .class = CLASS_IMPORTED, .kind = BLOCK_POINTER }, old;
	CUresult r = driver_ready();
	uint64_t number, addr;
	struct token t;
	int device;

	if (r)
		return fail(r);
	if (!out_is_plausible(ptr) || !out_is_plausible(share) || pool_imported(pool, &number, &device))
		return fail(CUDA_ERROR_INVALID_VALUE);
	memcpy(&t, share, sizeof(t));
	if (!token_is_good(&t, TOKEN_POINTER) || !t.bytes || t.pool != number)
		return fail(CUDA_ERROR_INVALID_VALUE);
	t.number = 0;
	b.bytes = t.bytes;
	b.device = (int8_t)device;
	pthread_mutex_lock(&lock);
	r = import_block(&t, &b, &old, &addr);
	pthread_mutex_unlock(&lock);
	if (r)
		return r;
	if (old.addr) {
		block_count_alloc();
		block_count_free();
	}
	*ptr = addr;
	return CUDA_SUCCESS;
}

/* The file descriptor is the driver's from here on. */
CUresult cuImportExternalMemory(CUexternalMemory *ext, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	struct block b = { .class = CLASS_IMPORTED, .kind = BLOCK_EXTERNAL };
	struct CUctx_st *c;
	CUresult r = context_current(&c);
	uint64_t addr;

	if (r)
		return fail(r);
	if (!out_is_plausible(ext) || !out_is_plausible(desc) || desc->type != 1 /* opaque file descriptor */ ||
	    !desc->size || desc->size > IMPORT_BYTES_MAX || fcntl(desc->handle.fd, F_GETFD) < 0)
		return fail(CUDA_ERROR_INVALID_VALUE);
	b.bytes = desc->size;
	b.device = (int8_t)c->device;
	b.owner = c->owner;
	r = block_new(&b, false, &addr);
	if (r)
		return r;
	close(desc->handle.fd);
	*ext = (CUexternalMemory)(uintptr_t)addr;
	return CUDA_SUCCESS;
}

/* A block of no bytes of its own over a part of external memory. */
static CUresult external_map(CUexternalMemory ext, uint64_t offset, uint64_t bytes, enum block_kind kind,
			     uint64_t *ret_addr)
{
	struct block b = { .class = CLASS_IMPORTED, .kind = (uint8_t)kind }, of;
	CUresult r = driver_ready();

	if (r)
		return fail(r);
	if (!block_find((uintptr_t)ext, &of) || of.kind != BLOCK_EXTERNAL || !bytes || offset > of.bytes ||
	    bytes > of.bytes - offset)
		return fail(CUDA_ERROR_INVALID_VALUE);
	b.device = of.device;
	b.owner = of.owner;
	return block_new(&b, false, ret_addr);
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *ptr, CUexternalMemory ext,
					 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
	uint64_t addr;
	CUresult r;

	if (!out_is_plausible(ptr) || !out_is_plausible(desc) || desc->flags)
		return fail(CUDA_ERROR_INVALID_VALUE);
	r = external_map(ext, desc->offset, desc->size, BLOCK_SYNC, &addr);
	if (!r)
		*ptr = addr;
	return r;
}

CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *array, CUexternalMemory ext,
						 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc)
{
	uint64_t addr, bytes;
	CUresult r;

	if (!out_is_plausible(array) || !out_is_plausible(desc))
		return fail(CUDA_ERROR_INVALID_VALUE);
	r = array_bytes(&desc->arrayDesc, desc->numLevels, &bytes);
	if (r)
		return fail(r);
	r = external_map(ext, desc->offset, bytes, BLOCK_MIPMAP, &addr);
	if (!r)
		*array = (CUmipmappedArray)(uintptr_t)addr;
	return r;
}

/* What is mapped of it stays until it is freed itself. */
CUresult cuDestroyExternalMemory(CUexternalMemory ext)
{
	return free_here((uintptr_t)ext, KIND(BLOCK_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
}
