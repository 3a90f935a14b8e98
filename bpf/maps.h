/* SPDX-License-Identifier: MIT */
/* All state the probes keep. Sizes are set by the daemon before loading; those written here are the defaults. */
#ifndef GPUXRAY_MAPS_H
#define GPUXRAY_MAPS_H

#include "kernel.h"
#include "stack_event.h"

const volatile __u32 filter_pids; /* 1: only processes in pid_filter */
const volatile __u32 ring_mark_bytes = 4u << 20; /* fill at which the daemon is woken in any case */
const volatile __u64 copy_ns = 2000000; /* of the budget for each copy of a stack */

__u32 next_gen = 1;
__u64 next_stack = 1;
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

struct object_key { /* a context or a pool */
	__u32 gen;
	__u32 is_pool;
	__u64 handle;
};

struct object_value {
	__s32 device;
	__u32 is_primary;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct object_key);
	__type(value, struct object_value);
} objects SEC(".maps");

struct mapping_key {
	__u32 gen;
	__u32 pad;
	__u64 addr;
};

struct mapping_value {
	__u64 size;
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

/*
 * A thread's own state: the call in progress, its current context, and room to take a stack. Task storage frees itself
 * with the thread and, unlike a per-CPU buffer, cannot be overwritten when a preempted probe shares the CPU.
 */
struct thread_state {
	/* the call in progress */
	__u64 sp; /* at entry; 0 = none */
	__u64 arg[8]; /* six are filled; eight so that a mask bounds the index */
	__u32 call;
	__u32 has_taken;
	struct live_key taken_key; /* a free takes its block out at entry, while nobody else can be given the address */
	struct live_value taken;
	__u64 stack;
	__s32 asked_device; /* from the properties of cuMemCreate and cuMemPoolCreate */
	__u32 asked_host;   /* ... which may ask for host memory */
	__u32 stack_reason;
	/* current context */
	__u32 ctx_depth;
	__u64 ctx;
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

#endif
