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

#define EVENT_LAYOUT 2

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
	CLASS_MAX,
};

/* Classes whose bytes lie on the device: what a rule means by "live bytes" unless it says otherwise. */
#define CLASS_DEVICE_MASK                                                                                              \
	((1u << CLASS_DEVICE) | (1u << CLASS_ARRAY) | (1u << CLASS_PHYSICAL) | (1u << CLASS_ASYNC) |                   \
	 (1u << CLASS_GRAPH))

/* Addresses of different kinds may coincide. */
enum addr_kind {
	ADDR_POINTER, /* a pointer in the process's unified address space, host or device */
	ADDR_HANDLE,  /* a physical allocation handle */
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
	__u32 call;	   /* row of the call table; the daemon knows the function's name */
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

struct event_uuid {
	struct event head; /* device = ordinal */
	__u8 uuid[16];
};

/* A process's books in the kernel. Bytes and counts change by atomic adds, so they are exact whatever the ring lost. */
struct books {
	__u32 gen;	/* number of this incarnation: the first word of every other map's key */
	__u32 pad;
	__u64 start_ns;
	__u64 live_bytes[CLASS_MAX];
	__u64 device_bytes; /* sum of the device classes: what the bounds are compared with */
	__u64 peak_bytes;   /* of device_bytes */
	__u64 live_count;
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
};

struct live_key {
	__u32 gen;
	__u32 kind; /* enum addr_kind */
	__u64 addr;
};

struct live_value {
	__u64 bytes;
	__u64 stack;
	__u64 birth_ns;
	__u64 ctx;    /* context that owns it, 0 if unknown or none */
	__s32 device;
	__u32 tid;
	__u16 class;
	__u16 call;
	__u32 refs;   /* handles only: references to the handle plus mappings of it */
};

/* One row of the call table: what to do at a call and where its arguments lie. */
enum call_op {
	CALL_NONE,
	CALL_ALLOC,
	CALL_FREE,
	CALL_CTX_CREATE,     /* *arg0 = ctx on device argN */
	CALL_CTX_SET,	     /* arg0 becomes current */
	CALL_CTX_PUSH,	     /* arg0 pushed */
	CALL_CTX_POP,	     /* back to the one below */
	CALL_CTX_DESTROY,    /* arg0 */
	CALL_CTX_GET,	     /* *arg0 = current ctx */
	CALL_CTX_DEVICE,     /* *arg0 = device of the current ctx */
	CALL_CTX_DEVICE_OF,  /* *arg0 = device of ctx arg1, of the current one when that is 0 */
	CALL_PRIMARY_RETAIN, /* *arg0 = primary ctx of device arg1 */
	CALL_PRIMARY_RESET,  /* device arg0 */
	CALL_DEVICE_UUID,    /* *arg0 = 16 bytes for device arg1 */
	CALL_MAP,	     /* arg0 ptr, arg1 size, arg3 handle */
	CALL_UNMAP,	     /* arg0 ptr, arg1 size */
	CALL_HANDLE_RETAIN,  /* *arg0 = handle: one more reference */
	CALL_POOL_CREATE,    /* *arg0 = pool, device in the properties at arg1 */
	CALL_POOL_GET,	     /* *arg0 = pool of device arg1 */
};

enum call_size {
	SIZE_NONE,
	SIZE_ARG,   /* bytes = arg[size_arg] */
	SIZE_PITCH, /* bytes = *arg1 x arg3 after success; asked: arg2 x arg3 */
};

enum call_device {
	DEVICE_CURRENT, /* that of the thread's current context */
	DEVICE_PROP,	/* CUmemAllocationProp.location at arg2 */
	DEVICE_POOL,	/* that of the pool at arg2 */
};

#define CALL_F_ADDR_VALUE 0x1 /* the address is arg[addr_arg] itself, not what it points to after the call */
#define CALL_F_STACK 0x2      /* take the stack */

struct call_desc {
	__u8 op;	/* enum call_op */
	__u8 class;	/* enum mem_class */
	__u8 kind;	/* enum addr_kind */
	__u8 flags;	/* CALL_F_* */
	__u8 addr_arg;	/* 0..5 */
	__u8 size_how;	/* enum call_size */
	__u8 size_arg;	/* 0..5 */
	__u8 device_how; /* enum call_device */
};

#define CALL_MAX 128

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
	COUNTER_MAP_FULL,	/* context, pool or mapping table full */
	COUNTER_MAX,
};

_Static_assert(sizeof(struct event) == 80, "struct event");
_Static_assert(sizeof(struct event_uuid) == 96, "struct event_uuid");
_Static_assert(sizeof(struct live_key) == 16, "struct live_key");
_Static_assert(sizeof(struct live_value) == 48, "struct live_value");
_Static_assert(sizeof(struct call_desc) == 8, "struct call_desc");

#endif
