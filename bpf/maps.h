/* SPDX-License-Identifier: MIT */
/* All state the probes keep. Sizes are set by the daemon before loading; those written here are the defaults. */
#ifndef GPUXRAY_MAPS_H
#define GPUXRAY_MAPS_H

#include "kernel.h"
#include "stack_event.h"

const volatile __u32 filter_pids; /* 1: only processes in pid_filter */
const volatile __u32 ring_mark_bytes = 4u << 20; /* fill at which the daemon is woken in any case */
const volatile __u64 copy_ns = 2000000; /* of the budget for each copy of a stack */
const volatile __u32 live_max = 1048576; /* entries that the live map has room for */
/* Inode of the PID namespace whose numbers are used; 0 = the initial one. Processes outside it are not seen. */
const volatile __u32 pid_ns;

__u32 next_gen = 1;
__u64 next_stack = 1;
__u64 next_capture = 1;
__u64 live_blocks; /* entries of the live map, of all processes */
__u64 lives_paid_ns; /* the budget of wakes for processes that come and go is spent up to this time */
__u64 since_ns; /* boot-time clock: processes that started later have been seen from their first call on */
__u64 copies_paid_ns; /* the budget of copies is spent up to this time */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CALL_MAX);
	__type(key, __u32);
	__type(value, struct call_desc);
} calls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTER_MAX);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

/* Hits of each row of the call table: what is probed often is what costs. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CALL_MAX);
	__type(key, __u32);
	__type(value, __u64);
} hits SEC(".maps");

/* How long calls of each row took. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CALL_MAX);
	__type(key, __u32);
	__type(value, struct latency);
} latencies SEC(".maps");

/* Host pid -> books. Not preallocated: kernel memory follows use. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 10000);
	__type(key, __u32);
	__type(value, struct books);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1048576);
	__type(key, struct live_key);
	__type(value, struct live_value);
} live SEC(".maps");

/* Incarnations that are gone and may have left entries in the maps below; the daemon sweeps and clears it. Value: 1 if
 * there may be entries in live. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, __u32);
} dead SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct object_key);
	__type(value, struct object_value);
} objects SEC(".maps");
#define OBJECTS_SHARE 49152 /* of one process */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct uuid_key);
	__type(value, struct uuid_value);
} uuids SEC(".maps");

enum mapping_kind {
	MAPPING_ADDRESS,
	MAPPING_MULTICAST, /* addr: of multicast object and offset */
};

struct mapping_key {
	__u32 gen;
	__u32 kind; /* enum mapping_kind */
	__u64 addr;
};

struct mapping_value {
	__u64 size; /* MAPPING_MULTICAST: the multicast object */
	__u64 handle;
};

/* Where physical handles are mapped: their memory lives until it is released and unmapped everywhere. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, struct mapping_key);
	__type(value, struct mapping_value);
} mappings SEC(".maps");
#define MAPPINGS_SHARE 196608

struct capture_key {
	__u32 gen;
	__u32 pad;
	__u64 id;
};

struct capture_value {
	__u32 count; /* entries in graph_blocks */
	__u32 kept;  /* of them those that a launch makes live or frees */
	__u32 refs;  /* stream, graphs and executables made of it */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct capture_key);
	__type(value, struct capture_value);
} captures SEC(".maps");

struct graph_key {
	__u32 gen;
	__u32 index;
	__u64 capture;
};

enum graph_block_state {
	GRAPH_KEPT,  /* allocated in the graph, not freed in it: live from the launch on */
	GRAPH_FREED, /* freed in it: nobody outside ever sees it */
	GRAPH_FREES, /* the graph frees a block of another one */
};

struct graph_block {
	__u64 addr, bytes, stack;
	__s32 device;
	__u32 tid;
	__u16 call;
	__u8 state; /* enum graph_block_state */
	__u8 stack_reason;
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct graph_key);
	__type(value, struct graph_block);
} graph_blocks SEC(".maps");

#define EXPORT_WORDS 8

struct export_key {
	__u64 word[EXPORT_WORDS]; /* the 64 bytes that the driver made of it */
};

struct export_value {
	__u64 bytes;
	__s32 device;
	__u32 pad;
};

/* Blocks that processes have exported: how an importer's are known to be so long. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct export_key);
	__type(value, struct export_value);
} exports SEC(".maps");

/* How to know stacks again. Least recently used go first; a stack that comes back is simply learned again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct stack_path);
} paths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} pid_filter SEC(".maps");

#define CTX_DEPTH 8
#define CHUNK_WORDS 256

/* What a free has done at its entry. */
enum taken {
	TAKEN_NOTHING,
	TAKEN_BLOCK,
	TAKEN_REFERENCE, /* of a handle that others still hold */
	TAKEN_SHARE,	 /* of imported memory that is open more than once */
};

/* A call in progress. */
struct call_state {
	__u64 sp; /* at entry; 0 = none */
	__u64 arg[ARG_MAX];
	__u32 call;
	__u32 has_taken;	   /* enum taken */
	struct live_key taken_key; /* a free takes its block out at entry, while nobody else can be given the address */
	struct live_value taken;
	__u64 bytes;   /* asked for */
	__u64 capture; /* its stream is captured there; 0 */
	__u64 stack;
	__u32 stack_reason;
	__u32 asked_class; /* CLASS_MAX: that of the row */
	__s32 asked_device; /* from properties or a location */
	__u32 pad;
	__u64 entry_ns; /* of calls that make or end a block, or a context */
	__u64 guess;	/* the capture that its stream is in if it has joined one */
};

/*
 * A thread's own state: the calls in progress, its current context, and room to take a stack. Task storage frees itself
 * with the thread and, unlike a per-CPU buffer, cannot be overwritten when a preempted probe shares the CPU.
 */
struct thread_state {
	struct call_state slot[3]; /* see call_slot() */
	__u64 stack; /* last taken */
	__u32 stack_reason;
	__u32 pad2;
	/* current context */
	__u32 ctx_depth;
	__u64 ctx;
	__u64 owner;   /* of what is allocated under it: 0 for a green context, whose memory is the primary one's */
	__u64 capture; /* the last one that this thread began, 0 after its end */
	__s32 device;
	__u32 gen; /* of the process the above belongs to */
	__u64 ctx_below[CTX_DEPTH];
	/*
	 * The stack being looked at. Here and not on the program's own stack, because the verifier does not follow what
	 * lies in map memory: it would walk the same code again for each value that it can tell.
	 */
	__u64 stack_sp, stack_bytes;
	__u64 stack_limit; /* end of what is read of it to know it again */
	__u64 stack_path, stack_hash;
	__u64 chunk_base; /* address of chunk[0] */
	__u32 chunk_bytes; /* that are filled */
	__u32 is_unreadable;
	__u32 stack_flags;
	__u32 pad;
	__u64 known; /* stacks known again */
	__u64 reg[32]; /* by DWARF number; those that are kept across calls */
	__u64 chunk[CHUNK_WORDS]; /* a piece of the user stack */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_state);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct about);
} about SEC(".maps");

#endif
