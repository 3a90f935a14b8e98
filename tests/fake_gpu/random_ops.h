/* SPDX-License-Identifier: MIT */
/* Inside work_random: what its files share. */
#pragma once

#include <pthread.h>

#include "gpu.h"

#define MIB (1ull << 20)
#define PAGE_BYTES 4096u
#define MAPS_MAX 3
#define STACK_MAX 5    /* contexts pushed by a thread */
#define OWN_MAX 3      /* contexts made by a thread */
#define POOLS_MAX 3    /* made by a thread */
#define PROGRAMS_MAX 4 /* graphs kept by a thread */

/* A driver may lack these; a family that needs one that is not there is off, and said to be. */
#pragma weak cuMemAlloc
#pragma weak cuMemAllocPitch
#pragma weak cuMemFree
#pragma weak cuMemAllocHost
#pragma weak cuMemHostRegister
#pragma weak cuArrayCreate
#pragma weak cuArray3DCreate
#pragma weak cuMipmappedArrayCreate
#pragma weak cuMipmappedArrayDestroy
#pragma weak cuCtxCreate
#pragma weak cuCtxCreate_v3
#pragma weak cuCtxCreate_v4
#pragma weak cuCtxAttach
#pragma weak cuCtxDetach
#pragma weak cuGreenCtxCreate
#pragma weak cuCtxFromGreenCtx
#pragma weak cuGreenCtxDestroy
#pragma weak cuDeviceGetMemPool
#pragma weak cuDeviceSetMemPool
#pragma weak cuMemGetDefaultMemPool
#pragma weak cuMemGetMemPool
#pragma weak cuMemSetMemPool
#pragma weak cuMemPoolExportToShareableHandle
#pragma weak cuMemPoolImportFromShareableHandle
#pragma weak cuMemPoolExportPointer
#pragma weak cuMemPoolImportPointer
#pragma weak cuStreamCreate
#pragma weak cuStreamDestroy_v2
#pragma weak cuStreamSynchronize
#pragma weak cuMemExportToShareableHandle
#pragma weak cuMemImportFromShareableHandle
#pragma weak cuImportExternalMemory
#pragma weak cuExternalMemoryGetMappedBuffer
#pragma weak cuExternalMemoryGetMappedMipmappedArray
#pragma weak cuDestroyExternalMemory
#pragma weak cuMulticastCreate
#pragma weak cuMulticastAddDevice
#pragma weak cuMulticastBindMem
#pragma weak cuMulticastBindAddr
#pragma weak cuMulticastUnbind
#pragma weak cuStreamBeginCapture
#pragma weak cuStreamBeginCapture_v2
#pragma weak cuStreamBeginCapture_v2_ptsz
#pragma weak cuStreamBeginCaptureToGraph
#pragma weak cuStreamEndCapture
#pragma weak cuStreamEndCapture_ptsz
#pragma weak cuEventCreate
#pragma weak cuEventDestroy_v2
#pragma weak cuEventRecord
#pragma weak cuStreamWaitEvent
#pragma weak cuGraphCreate
#pragma weak cuGraphAddMemAllocNode
#pragma weak cuGraphAddMemFreeNode
#pragma weak cuGraphAddNode
#pragma weak cuGraphAddNode_v2
#pragma weak cuGraphClone
#pragma weak cuGraphInstantiate_v2
#pragma weak cuGraphInstantiateWithFlags
#pragma weak cuGraphInstantiateWithParams
#pragma weak cuGraphLaunch
#pragma weak cuGraphLaunch_ptsz
#pragma weak cuGraphDestroy
#pragma weak cuGraphExecDestroy

enum family {
	FAMILY_DEVICE,
	FAMILY_OLD, /* CUDA 3 */
	FAMILY_MANAGED,
	FAMILY_HOST,
	FAMILY_REGISTER,
	FAMILY_ARRAY,
	FAMILY_ASYNC,
	FAMILY_POOL,
	FAMILY_VMM,
	FAMILY_GRAPH,
	FAMILY_IPC,
	FAMILY_FD,
	FAMILY_EXTERNAL,
	FAMILY_MULTICAST,
	FAMILY_CONTEXT,
	FAMILY_GREEN,
	FAMILY_FORK,
	FAMILY_EXEC,
	FAMILY_FAIL,
	FAMILY_MAX,
};

enum item_kind {
	ITEM_POINTER,	 /* cuMemFree */
	ITEM_OLD,	 /* ... of CUDA 3 */
	ITEM_HOST,	 /* cuMemFreeHost */
	ITEM_REGISTERED, /* cuMemHostUnregister */
	ITEM_ASYNC,	 /* cuMemFreeAsync and its kin */
	ITEM_ARRAY,
	ITEM_MIPMAP,
	ITEM_PHYSICAL, /* one handle, mapped up to MAPS_MAX times, perhaps bound to a multicast object */
	ITEM_PAIR,     /* two handles in one range, unmapped in one call */
	ITEM_IPC,      /* opened from another process */
	ITEM_IMPORT,   /* a handle of another process, mapped or not */
	ITEM_EXTERNAL, /* with a buffer and an array mapped or not: up to three blocks */
	ITEM_MULTICAST,
};

struct item {
	enum item_kind kind;
	unsigned int class;
	int device;	 /* it is charged to */
	CUcontext owner; /* ends with it; NULL: with none */
	uint64_t bytes;
	uint64_t addr;	/* pointer, handle or object */
	uint64_t other; /* second handle of a pair; buffer of external memory; memory bound to a multicast object */
	uint64_t third; /* array of external memory */
	CUdeviceptr va[MAPS_MAX];
	uint64_t va_bytes[MAPS_MAX];
	unsigned int refs, maps;
	void *pages;  /* registered ones */
	bool is_kept; /* somebody else relies on it: not to be freed */
};

struct program;
struct pool {
	CUmemoryPool pool;
	int device; /* -1: the host */
	unsigned int class; /* of what is allocated from it */
};

struct worker {
	pthread_t thread;
	struct item *items;
	size_t len;
	uint64_t rng, ops;
	struct {
		CUcontext ctx, owner; /* owner: of what is allocated while it is current */
		int device;
	} stack[STACK_MAX]; /* of current contexts; the last one is current */
	int depth;
	CUcontext own[OWN_MAX];
	int own_device[OWN_MAX];
	struct pool pools[POOLS_MAX];
	CUstream streams[FAKE_GPU_MAX], joined[FAKE_GPU_MAX];
	struct program *programs[PROGRAMS_MAX];
};

extern uint64_t seed, total_ops, thread_count, live_max;
extern bool is_real;
extern unsigned int families; /* bits */
extern int device_count;
extern CUcontext primary[FAKE_GPU_MAX];
extern CUmemoryPool default_pools[FAKE_GPU_MAX];

static inline bool has_family(enum family f)
{
	return (families >> f) & 1;
}

static inline uint64_t below(struct worker *w, uint64_t n)
{
	return random_next(&w->rng) % n;
}

static inline int device_of(const struct worker *w)
{
	return w->stack[w->depth - 1].device;
}

static inline CUcontext owner_of(const struct worker *w)
{
	return w->stack[w->depth - 1].owner;
}

/* Is the current context a primary one, and no green one of it? */
static inline bool is_primary(const struct worker *w)
{
	return w->stack[w->depth - 1].ctx == primary[device_of(w)];
}

/* random_items.c: the ledger of this process, and the blocks of its threads */
extern struct ledger books; /* read it when only one thread is left */
struct worker *worker_new(uint64_t number);
void worker_free(struct worker *w);
/* Allocations come before their call and frees after it when threads race: what the peak may be off. */
uint64_t books_peak_slack(void);
void books_alloc(unsigned int class, uint64_t bytes, int device);
void books_free(unsigned int class, uint64_t bytes, int device);
void books_fail(void);
void books_free_fail(void);
void books_null_free(void);
/* Books the result of an allocation call and keeps the item. False: out of memory, counted as a failure. */
bool booked(struct worker *w, CUresult r, const struct item *it);
/* Frees it, or does a step towards that. */
void item_step(struct worker *w, size_t i);
/* Passes one on to whichever thread takes it, or frees one that was passed on. */
void item_give(struct worker *w);
void item_take(struct worker *w);
/* What was passed on and taken by nobody becomes that of w. */
void items_collect(struct worker *w);
/* Books the end of the worker's blocks that go with the context. */
void items_sweep(struct worker *w, CUcontext owner);
/* Frees those of the kinds in the mask that go with the context; NULL: all of them. */
void items_close(struct worker *w, unsigned int kinds, CUcontext owner);

/* random_memory.c */
typedef void (*operation)(struct worker *w);
void alloc_device(struct worker *w);
void alloc_pitch(struct worker *w);
void alloc_old(struct worker *w);
void alloc_managed(struct worker *w);
void alloc_host(struct worker *w);
void alloc_registered(struct worker *w);
void alloc_array(struct worker *w);
void alloc_mipmap(struct worker *w);
void alloc_async(struct worker *w);
CUstream stream_of(struct worker *w); /* one of the current device, or NULL, the default one */
void streams_end(struct worker *w);

/* random_pool.c */
void alloc_pool(struct worker *w);
void pools_end(struct worker *w);

/* random_handles.c */
CUresult physical_create(uint64_t bytes, int device, bool is_shared, CUmemGenericAllocationHandle *ret);
void alloc_physical(struct worker *w);
void alloc_pair(struct worker *w);
void physical_more(struct worker *w);
void alloc_import(struct worker *w);
void alloc_external(struct worker *w);
void alloc_multicast(struct worker *w);
/* One step towards the end. True when it was the last. */
bool handle_step(struct worker *w, struct item *it);
void handle_map(struct worker *w, struct item *it);

/* random_graph.c */
void graph_step(struct worker *w);
void graphs_end(struct worker *w); /* destroys them; what of their memory is live becomes items */

/* random_fail.c */
void alloc_fails(struct worker *w);
void free_nothing(struct worker *w);

/* random_context.c */
void contexts_open(struct ledger *l);
void context_begin(struct worker *w, int device);
void context_step(struct worker *w);
void contexts_end(struct worker *w); /* destroys the worker's own ones; one primary context is left */
/* With one thread only: the end of a primary context, by reset or release. */
void primary_end(struct worker *w, struct worker *const *all);

/* random_peer.c: a process that imports what this one exports */
void peer_start(void); /* before the first call of the driver */
void peer_step(struct worker *w);
void peer_finish(void); /* it goes on to print its ledger and to wait */

/* random_lives.c: other processes of all kinds. Each says on a pipe that it has printed its ledger, then waits. */
extern const char *lives_label; /* NULL: this process is nobody's child */
extern uint64_t lives_done_fd;	/* where a child says that it has printed */
/* Before the first call of the driver, with only one thread. */
void lives_start(char **argv);
int lives_fork(const char *label); /* process id, 0 in the child */
/* Of a process that uses the driver: all its calls fail. */
void lives_forked(void);
/* Prints the ledger, says so, waits; the exit status. The first process prints after all others, and lets them go. */
int lives_end(void);
/* Becomes a process with this id, which must be free, by way of a child; returns in neither. */
void lives_as_pid(uint64_t pid, int argc, char **argv);

/* work_random.c */
/* All operations of this process, then lives_end(). */
int random_run(void);
/* Some operations of this process, with one thread. */
void random_some(struct worker *w, uint64_t n);
void random_open(void);
