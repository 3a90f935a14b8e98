/* SPDX-License-Identifier: MIT */
/*
 * Stacks, as the probe and the daemon know them. A stack not seen before is sent as a copy, which the daemon unwinds; it
 * then tells the probe at which offsets the return addresses lay, and by the words there the probe knows the stack again.
 * Why that is exact: the same instruction has the same unwind rule, hence the same place of the return address; the same
 * word there is the same caller, and so on to the root.
 */
#ifndef GPUXRAY_STACK_EVENT_H
#define GPUXRAY_STACK_EVENT_H

#include "event.h"
#include "python_event.h"

#define STACK_BURST_SEC 4     /* so many seconds' budget of copies may be taken at once */
#define STACK_COPY_MAX 65536 /* bytes, from the stack pointer up */
#define STACK_PIECE 4096     /* what is read at once: never across a page */
#define STACK_PIECES_MAX (STACK_COPY_MAX / STACK_PIECE + 1)

#define STACK_F_TRUNCATED 0x1 /* the stack goes on behind the copy */
#define STACK_F_NO_TOP 0x2    /* where the stack ends is not known: it is none that the thread was started on */
#define STACK_F_PYTHON 0x4    /* Python was known in this process: python is its word */
#define STACK_F_CHECK 0x8     /* a stack that was known: head.stack is what the probe took it for */

/* Registers by DWARF number where the unwind rules of callers may need them (they are kept across calls). */
struct stack_registers {
	__u64 ip, sp;
	__u64 bp;  /* x86-64: rbp; arm64: x29 */
	__u64 bx, r12, r13, r14, r15; /* x86-64 only */
	__u64 lr;  /* arm64 only: at a function's entry the return address */
};

struct event_stack {
	struct event head; /* stack = number of this copy */
	__u64 path;	   /* key under which the daemon's answer is looked for */
	struct stack_registers regs;
	__u32 copy_bytes;  /* that follow */
	__u32 flags;	   /* STACK_F_* */
	__u32 missing;	   /* bit n: page n of the copy, counted from that of sp, could not be read and is zeros */
	__u32 pad;
	struct python_stack python;
	__u8 copy[];
};

/*
 * The daemon's answer: a tree of nodes, found by key. The root's key is the path. A leaf is a stack, if the words at its
 * slots hash to what they should. Where several stacks share a path, a branch tells them apart by the first word that
 * differs: the key of the child is the hash of the branch's key and that word.
 */
#define STACK_SLOTS_MAX 256
#define STACK_SLOT_RELATIVE 0x8000u /* the word is an address: what counts is its distance from sp */
#define STACK_SLOT_OFFSET 0x7fffu   /* in words of 8 bytes from sp */
#define STACK_TREE_DEPTH 32	    /* branches on the way to a leaf */

struct stack_path {
	__u64 stack; /* leaf: number of the stack, as sent with its copy. 0: a branch */
	__u64 hash;  /* leaf: stack_hash_word() over the slots in their order, then the registers by ascending number.
			Branch without a slot: number of the register that is the word, relative to sp */
	__u32 registers; /* leaf: bit n: DWARF register n (x86-64: 3 bx, 6 bp, 12-15; arm64: 29, 30), relative to sp but
			    for 30, which is a code address */
	__u32 slots;	 /* leaf: number of them; branch: 1 or 0 */
	__u16 slot[STACK_SLOTS_MAX]; /* leaf: ascending */
};

static inline __attribute__((always_inline)) __u64 stack_hash_word(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 29;
}
#define STACK_HASH_INIT 0xcbf29ce484222325ull

#ifndef __cplusplus
_Static_assert(sizeof(struct event_stack) == 80 + 8 + 72 + 16 + sizeof(struct python_stack), "struct event_stack");
_Static_assert(sizeof(struct stack_path) == 24 + 2 * STACK_SLOTS_MAX, "struct stack_path");
#endif

#endif
