/* SPDX-License-Identifier: MIT */
/*
 * What the probes and the daemon say to each other: the one header that both compilers see.
 * Only __u and __s types, explicit padding, sizes asserted below. Change a layout, raise EVENT_LAYOUT.
 */
#ifndef GPUXRAY_EVENT_H
#define GPUXRAY_EVENT_H

#ifndef __BPF__
#include <linux/types.h>
#endif

#define EVENT_LAYOUT 3

/* Kinds of memory, kept apart in every total. */
enum mem_class {
	CLASS_DEVICE,	 /* cuMemAlloc and kin */
	CLASS_MANAGED,	 /* migrates between host and device: never counted as device memory */
	CLASS_HOST,	 /* pinned host memory, allocated or registered */
	CLASS_ARRAY,	 /* textures and surfaces */
	CLASS_PHYSICAL,	 /* cuMemCreate: bytes of the handle, whether mapped or not */
	CLASS_ASYNC,	 /* stream-ordered: bytes asked for, not what the pool reserved */
	CLASS_GRAPH,
	CLASS_IMPORTED,	 /* somebody else's memory: never counted as memory of the importer */
	CLASS_FRAMEWORK, /* blocks of a framework's own allocator, cut out of the above: counted apart from all of it */
	CLASS_MAX,
};

/* Arrays by class in the kernel's books are so long: a mask bounds the index. */
#define CLASS_SLOTS 16

/* Classes whose bytes lie on the device: what a rule means by "live bytes" unless it says otherwise. */
#define CLASS_DEVICE_MASK                                                                                              \
	((1u << CLASS_DEVICE) | (1u << CLASS_ARRAY) | (1u << CLASS_PHYSICAL) | (1u << CLASS_ASYNC) |                   \
	 (1u << CLASS_GRAPH))

/* Addresses of different kinds may coincide. */
enum addr_kind {
	ADDR_POINTER, /* a pointer in the process's unified address space, host or device */
	ADDR_HANDLE,  /* a physical allocation handle */
	ADDR_OBJECT,  /* an array, a mipmapped array, external memory: the driver's own objects in host memory */
	ADDR_FRAMEWORK, /* a block of a framework's allocator: the first one of a segment has the segment's address */
};

enum event_type {
	EVENT_ALLOC = 1, /* addr, bytes, class, device, stack */
	EVENT_FREE,	 /* as the allocation it ends, with birth_ns; EVENT_F_UNKNOWN: older than the tracer */
	EVENT_FAIL,	 /* bytes asked for, error, stack; a failed free has bytes 0 and addr set */
	EVENT_PROCESS,	 /* first call of this process seen */
	EVENT_EXEC,	 /* that process's image is gone, and its GPU memory with it */
	EVENT_EXIT,	 /* its last thread has exited */
	EVENT_UUID,	 /* device ordinal of this process is uuid: struct event_uuid */
	EVENT_STACK,	 /* a stack not seen before: struct event_stack, in stack_event.h */
};

#define EVENT_F_CROSSED 0x01  /* an armed bound was crossed by this change */
#define EVENT_F_UNKNOWN 0x02  /* free of an address that is not in the books */
#define EVENT_F_REPLACED 0x04 /* the address was still in the books: its old bytes were taken out first */
#define EVENT_F_UNTRACKED 0x08 /* the live map was full: not in the totals, its free will be unknown */

#define EVENT_NO_DEVICE (-1)

/* Why an event has no stack. */
enum stack_reason {
	STACK_OK,
	STACK_NONE,    /* this kind of event carries no stack */
	STACK_FAULT,   /* reading the user stack faulted at its first word */
	STACK_SAMPLED, /* more new stacks in this second than the budget allows */
	STACK_LOST,    /* the ring was full when the stack was to be sent */
	STACK_EVICTED, /* user space had too many stacks and dropped it */
};

struct event {
	__u8 type;	   /* enum event_type */
	__u8 class;	   /* enum mem_class */
	__u8 flags;	   /* EVENT_F_* */
	__u8 stack_reason; /* enum stack_reason */
	__u16 call;	   /* row of the call table; the daemon knows the function's name */
	__u8 kind;	   /* enum addr_kind, of addr */
	__u8 pad;
	__u32 pid;	   /* host thread-group id */
	__u32 tid;	   /* host thread id */
	__u64 start_ns;	   /* start of the process, boot-time clock: with pid, its identity */
	__u64 time_ns;	   /* CLOCK_MONOTONIC */
	__u64 addr;
	__u64 bytes;
	__u64 stack;	 /* number of the stack, never used twice; 0 = none */
	__u64 birth_ns;	 /* free: time_ns of the allocation */
	__u64 live_bytes; /* device-class bytes of the process after this change, as the kernel's books have it */
	__s32 device;	 /* the process's own ordinal, EVENT_NO_DEVICE if not known */
	__s32 error;	 /* return code of the call */
};

/* How long the driver took, in the traced programs. A bucket for each factor of four: the first is below 1,024 ns, the last
 * above 17 s. */
#define LATENCY_BUCKETS 14

struct latency {
	__u64 sum_ns;
	__u64 buckets[LATENCY_BUCKETS];
	__u64 pad; /* an index is held within 16 words by a mask */
};

struct event_uuid {
	struct event head; /* device = ordinal */
	__u8 uuid[16];
};

/* The same, kept: the event may be lost, and programs ask once. */
struct uuid_key {
	__u32 gen;
	__s32 ordinal;
};

struct uuid_value {
	__u8 uuid[16];
	__u32 call;
	__u32 pad;
};

/* A process's books in the kernel. Bytes and counts change by atomic adds, so they are exact whatever the ring lost. */
struct books {
	__u32 gen;	/* number of this incarnation: the first word of every other map's key */
	__u32 pad;
	__u64 start_ns;
	__u64 live_bytes[CLASS_SLOTS];
	__u64 device_bytes; /* sum of the device classes: what the bounds are compared with */
	__u64 peak_bytes;   /* of device_bytes */
	__u64 live_count; /* here and below without CLASS_FRAMEWORK, which has counts of its own */
	__u64 alloc_count;
	__u64 free_count;
	__u64 fail_count;
	__u64 unknown_free_count;
	__u64 lost_count;	/* events that did not fit in the ring */
	__u64 untracked_count;	/* allocations that did not fit in the live map */
	__u64 untracked_bytes;
	__u64 bound_high;	/* wake the daemon when device_bytes goes above; ~0 = never */
	__u64 bound_low;	/* ... or below; 0 = never */
	__u64 bound_single;	/* ... or for one allocation of at least so many bytes; ~0 = never */
	__u64 copies_paid_ns;	/* its budget of copies of stacks is spent up to this time */
	__u64 wakes_paid_ns;	/* ... and that of waking the daemon */
	__u64 uuids_paid_ns;	/* ... and that of telling it of devices */
	__u64 framework_live_count, framework_alloc_count, framework_free_count;
	__u64 missed_count; /* calls of which nothing is known but that they were made: the books may be wrong by them */
	__u32 object_count, mapping_count; /* entries of its own: objects, captures and graph_blocks; mappings */
	__u32 captures;	   /* captures of streams that are open */
	__u32 has_pools;   /* a device of it allocates from another pool than its default */
	__u64 capture;	   /* the last one begun */
	__u64 graph_low, graph_high; /* where blocks of graphs were seen */
};

struct live_key {
	__u32 gen;
	__u32 kind; /* enum addr_kind */
	__u64 addr;
};

#define LIVE_F_POOLED 1	  /* ctx is a pool: it outlives contexts */
#define LIVE_F_BINDINGS 2 /* a multicast object to which memory is bound */

struct live_value {
	__u64 bytes;
	__u64 stack;
	__u64 birth_ns;
	__u64 ctx;    /* context that owns it, 0 if unknown or none; of stream-ordered memory the pool */
	__s32 device;
	__u32 tid;
	__u8 class;
	__u8 flags; /* LIVE_F_* */
	__u16 call;
	__u32 refs;   /* of a handle: references to it plus mappings of it; of imported memory: how often it was opened */
};

/* What the driver's own objects mean. */
enum object_kind {
	OBJECT_CTX,	    /* device; refs: attached so often */
	OBJECT_PRIMARY,	    /* handle: device ordinal. ref: its context; refs: retained so often */
	OBJECT_GREEN,	    /* device */
	OBJECT_POOL,	    /* device, class; ref: the pool it is another name of; bytes */
	OBJECT_DEVICE_POOL, /* handle: device ordinal. ref: its current pool */
	OBJECT_STREAM,	    /* capturing. ref: the capture */
	OBJECT_GRAPH,	    /* a graph or an executable that holds memory. ref: the capture */
};

struct object_key {
	__u32 gen;
	__u32 kind; /* enum object_kind */
	__u64 handle;
};

struct object_value {
	__s32 device;
	__u32 class; /* of a pool's blocks, enum mem_class */
	__u64 ref;
	__u64 refs;
	struct pool_bytes {
		__u64 used, peak; /* peak: since it was last trimmed */
		__u64 threshold;  /* of release */
		__u64 reserved;	  /* as the driver last told the program; ~0 = never */
	} pool;
	__u64 born_ns; /* of a context: one that ends later by its handle may be another */
};

/*
 * One row of the call table: what to do at a call and where its arguments lie. Arguments are numbered from 0; from
 * ARG_STACK on they are 64-bit words of the caller's stack, where a structure passed by value lies on x86-64.
 */
#define ARG_STACK 6
#define ARG_MAX 16 /* a power of two: a mask bounds the index */

enum call_op {
	CALL_NONE,
	CALL_ALLOC,
	CALL_FREE,
	CALL_CTX_CREATE,      /* *arg0 = ctx on device arg[device_arg] */
	CALL_CTX_SET,	      /* arg0 becomes current */
	CALL_CTX_PUSH,	      /* arg0 pushed */
	CALL_CTX_POP,	      /* back to the one below */
	CALL_CTX_DESTROY,     /* arg0 */
	CALL_CTX_GET,	      /* *arg0 = current ctx */
	CALL_CTX_DEVICE,      /* *arg0 = device of the current ctx */
	CALL_CTX_DEVICE_OF,   /* *arg0 = device of ctx arg1, of the current one when that is 0 */
	CALL_CTX_ATTACH,      /* *arg0 = the current ctx: one more reference */
	CALL_CTX_DETACH,      /* arg0: one reference less, the last one destroys */
	CALL_PRIMARY_RETAIN,  /* *arg0 = primary ctx of device arg1 */
	CALL_PRIMARY_RELEASE, /* device arg0: the last release is a reset */
	CALL_PRIMARY_RESET,   /* device arg0 */
	CALL_GREEN_CREATE,    /* *arg0 = green context on device arg2 */
	CALL_GREEN_CTX,	      /* *arg0 = ctx of green context arg1 */
	CALL_DEVICE_UUID,     /* *arg0 = 16 bytes for device arg1 */
	CALL_DEVICE_SET,      /* device arg0 becomes current: a runtime without visible contexts */
	CALL_DEVICE_RESET,    /* the current device */
	CALL_MAP,	      /* arg0 ptr, arg1 size, arg3 handle */
	CALL_UNMAP,	      /* arg0 ptr, arg1 size */
	CALL_HANDLE_RETAIN,   /* *arg0 = handle: one more reference */
	CALL_MULTICAST_BIND,  /* arg0 multicast, arg1 offset, arg2 handle, or by kind the address it is mapped at: one more
				 reference */
	CALL_MULTICAST_UNBIND, /* arg0 multicast, arg2 offset */
	CALL_POOL_CREATE,     /* *arg0 = pool, device in the properties at arg1 */
	CALL_POOL_DEFAULT,    /* *arg0 = default pool of the device that device_how tells */
	CALL_POOL_GET,	      /* *arg0 = its current pool */
	CALL_POOL_CURRENT,    /* the device that device_how tells allocates from pool arg[addr_arg] from now on */
	CALL_POOL_IMPORT,     /* *arg0 = pool of another process */
	CALL_POOL_DESTROY,    /* pool arg0; its blocks live on */
	CALL_POOL_TRIM,	      /* pool arg0 keeps at most arg1 bytes in reserve */
	CALL_POOL_SET,	      /* attribute arg1 of pool arg0 = *arg2 */
	CALL_POOL_ASK,	      /* *arg2 = attribute arg1 of pool arg0 */
	CALL_EXPORT,	      /* *arg0 = 64 bytes by which others import arg1 */
	CALL_CAPTURE_BEGIN,   /* of stream arg0 */
	CALL_CAPTURE_INTO,    /* of stream arg0 into graph arg1 */
	CALL_CAPTURE_END,     /* of stream arg0: *arg1 = graph, 0 if it failed */
	CALL_GRAPH_ALLOC,     /* node in graph arg1, parameters at arg4: address written there */
	CALL_GRAPH_FREE,      /* node in graph arg1 that frees arg4 */
	CALL_GRAPH_NODE,      /* node of any kind in graph arg1, parameters at arg[addr_arg] */
	CALL_GRAPH_CLONE,     /* *arg0 = copy of graph arg1 */
	CALL_GRAPH_INSTANTIATE, /* *arg0 = executable of graph arg1 */
	CALL_GRAPH_LAUNCH,    /* executable arg0 */
	CALL_GRAPH_DESTROY,   /* arg0, a graph or an executable: ends its entry, not its memory */
};

enum call_size {
	SIZE_NONE,
	SIZE_ARG,	/* bytes = arg[size_arg] */
	SIZE_PITCH,	/* bytes = *arg1 x arg3 after success; asked: arg2 x arg3 */
	SIZE_PITCHED,	/* {ptr, pitch, ...} at *arg0, extent {width, height, depth} in arg[size_arg]...: pitch x height x depth */
	SIZE_ARRAY,	/* CUDA_ARRAY_DESCRIPTOR at arg[size_arg] */
	SIZE_ARRAY3D,	/* CUDA_ARRAY3D_DESCRIPTOR at arg[size_arg] */
	SIZE_MIPMAP,	/* the same, for the number of levels in the next argument */
	SIZE_ARRAY_V1,	/* CUDA 3: the same descriptors with 32-bit sizes */
	SIZE_ARRAY3D_V1,
	SIZE_CHANNEL,	/* hipChannelFormatDesc at arg1, width and height in arg[size_arg]... */
	SIZE_CHANNEL3D, /* ... an extent by value there */
	SIZE_CHANNEL_MIPMAP, /* ... and the number of levels in arg2 */
	SIZE_EXTERNAL,	/* CUDA_EXTERNAL_MEMORY_HANDLE_DESC at arg[size_arg] */
	SIZE_EXPORTED,	/* what was said when the 64 bytes at arg[size_arg] were exported; by value: where ARG_STACK is */
	SIZE_PRODUCT,	/* arg[size_arg] x arg[size_arg + 1] */
};

enum call_device {
	DEVICE_CURRENT, /* that of the thread's current context */
	DEVICE_PROP,	/* CUmemAllocationProp.location at arg[device_arg] */
	DEVICE_LOCATION, /* CUmemLocation at arg[device_arg] */
	DEVICE_POOL,	/* that of the pool in arg[device_arg] */
	DEVICE_ARG,	/* arg[device_arg] itself */
	DEVICE_NONE,	/* not told in numbers */
};

enum call_result { /* how the call says that it has done what was asked */
	RESULT_ZERO,	/* it returns 0; anything else is its error */
	RESULT_POINTER, /* it returns the address, NULL = failed */
	RESULT_NONE,	/* it returns nothing: the address it wrote is not NULL */
};

#define CALL_F_ADDR_VALUE 0x01 /* the address is arg[addr_arg] itself, not what it points to after the call */
#define CALL_F_STACK 0x02      /* take the stack */
#define CALL_F_SIZE32 0x04     /* CUDA 3: sizes of 32 bits */
#define CALL_F_ARGS 0x08       /* arguments from ARG_STACK on are used */
#define CALL_F_SHARED 0x10     /* the same address may be given out again: each takes a free of its own */
#define CALL_F_ADDR32 0x20     /* ... and addresses */
#define CALL_F_DEVICE0 0x40    /* the thread's device is 0 until it sets another: no context is needed */

#define CALL_F_PTSZ 0x80       /* stream 0 is the thread's own, not the one of all threads */

#define ARG_NONE 0xff

struct call_desc {
	__u8 op;	/* enum call_op */
	__u8 class;	/* enum mem_class */
	__u8 kind;	/* enum addr_kind */
	__u8 flags;	/* CALL_F_* */
	__u8 addr_arg;	/* where the address is or is written, or its place in what is freed */
	__u8 size_how;	/* enum call_size */
	__u8 size_arg;
	__u8 device_how; /* enum call_device */
	__u8 device_arg;
	__u8 stream_arg; /* of a call that may be captured; ARG_NONE: none */
	__u8 result;	/* enum call_result */
	__u8 slot;	/* 0: of a driver; 1: of a framework, which may call a driver within */
	__u8 pad[4];
};

#define CALL_MAX 320

/* Arguments of the programs that the daemon itself runs. */
struct sweep_args {
	__u32 has_live; /* 0: only contexts, pools and mappings were left behind */
};

struct arm_args {
	__u32 pid;
	__u32 pad;
	__u64 start_ns;
	__u64 high, low, single;
};

/* Counters of the whole tracer, one slot each in a per-CPU array. */
enum counter {
	COUNTER_EVENTS,
	COUNTER_LOST,		/* ring full */
	COUNTER_THREAD_FULL,	/* no memory for a thread's state: the call was not seen */
	COUNTER_PROCESS_FULL,	/* process map full: calls of that process were not seen */
	COUNTER_LIVE_FULL,	/* live map full */
	COUNTER_STACK_LOST,
	COUNTER_STACK_FAULT,
	COUNTER_STACK_KNOWN,	/* stacks known again by their learned slots */
	COUNTER_STACK_COPIED,	/* stacks sent as a copy */
	COUNTER_STACK_SAMPLED,	/* new stacks over the budget: their bytes are counted, their stack is not known */
	COUNTER_RETURN_MISSED,	/* a call's return was never seen; its effect was assumed at the next call */
	COUNTER_FAULT,		/* reading an argument or a result faulted */
	COUNTER_MAP_FULL,	/* context, pool, mapping or graph table full, or a process has more than its share of them */
	COUNTER_LIVE_SHARE,	/* a process has more than its share of the live map */
	COUNTER_FOREIGN_NS,	/* calls of processes outside our PID namespace: not seen */
	COUNTER_FRAMEWORK_UNKNOWN, /* frees of framework blocks older than the tracer */
	COUNTER_FORMAT,		/* arrays of a format that is not known: booked with 4 bytes an element */
	COUNTER_CAPTURE_GUESS,	/* an allocation during a capture on a stream that did not begin one: told apart by its address */
	COUNTER_UUID_SKIPPED,	/* more calls for a device's uuid than a process is listened to */
	COUNTER_MAX,
};

/* What kept maps are of: a later daemon goes on with them if all of it is the same. */
struct about {
	__u32 layout; /* EVENT_LAYOUT */
	__u32 pad;
	__u64 digest;	     /* of the call table */
	__u64 limits_digest; /* of what sizes the maps and is fixed in the programs */
	__u64 types_digest;  /* of the types in the maps */
	__u8 id[16];	     /* random: whose numbers of stacks these are */
};

_Static_assert(sizeof(struct event) == 80, "struct event");
_Static_assert(sizeof(struct event_uuid) == 96, "struct event_uuid");
_Static_assert(sizeof(struct live_key) == 16, "struct live_key");
_Static_assert(sizeof(struct live_value) == 48, "struct live_value");
_Static_assert(sizeof(struct object_key) == 16, "struct object_key");
_Static_assert(sizeof(struct object_value) == 64, "struct object_value");
_Static_assert(sizeof(struct uuid_value) == 24, "struct uuid_value");
_Static_assert(sizeof(struct call_desc) == 16, "struct call_desc");
_Static_assert(CLASS_MAX <= CLASS_SLOTS, "CLASS_SLOTS");

#endif
