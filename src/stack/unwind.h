/* SPDX-License-Identifier: MIT */
/*
 * Native frames from a copy of a thread's stack, by the call frame information (.eh_frame) of the files mapped there.
 *
 * The information is read by our own small reader, with pread, rather than by libdw 0.188. Measured on equal stacks
 * against dwfl_thread_getframes (virtual machine, files in the page cache): 22 frames take 3.2 us once seen against 12,
 * 202 frames 26 us against 98 to 148; the first stack of a process 0.23 ms against 0.9, as libdw's session is tied to
 * one process's addresses and starts anew for each. A code address seen for the first time in a library of 100 MiB is
 * the one thing that costs more: 10 us against 6. Memory is 1.5 MiB whatever is unwound; libdw kept 7.7 MiB for 5,000
 * addresses of that library, and more with each, as it never forgets an entry. And libdw maps the files: a process
 * that truncates its own would kill us with SIGBUS.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "model/stack.h"
#include "stack/object.h"

struct unwinder;

struct unwinder_limits {
	uint32_t files;	    /* whose tables are kept */
	uint32_t rows;	    /* rules remembered, one for each code address seen; 184 bytes each. Rounded up to 2^n */
	uint32_t depth;	    /* frames */
	size_t index_bytes; /* search tables made for files that come without one, all together */
	uint64_t work;	    /* bytes of a hostile file looked at for one stack */
	bool frame_pointers_only; /* no rules are read */
};
#define UNWINDER_LIMITS_DEFAULT                                                                                        \
	{ .files = 512, .rows = 8192, .depth = 512, .index_bytes = 16u << 20, .work = 64u << 20 }

/* A word of the stack that a return probe replaced, and what was there. */
struct unwind_fix {
	uint64_t address, value;
};

/* What the probe took. Everything in it is the traced process's and not believed. */
struct raw_stack {
	uint32_t pid;
	uint64_t ip, sp, bp, bx, r12, r13, r14, r15; /* arm64: bp is x29, and those behind it are not used */
	uint64_t lr;   /* arm64: x30; else 0 */
	bool at_entry; /* ip is the first instruction of a function: the return address is at sp, on arm64 in lr, whatever
			  a file says */
	const uint8_t *copy;
	size_t copy_len; /* from sp on */
	bool is_truncated; /* the stack goes on behind the copy */
	uint32_t missing;  /* bit n: page n of the copy, counted from that of sp, is not there (zeros) */
	struct address_space *space; /* borrowed; may be NULL */
	const struct unwind_fix *fixes; /* borrowed; may be NULL */
	size_t fix_count;
};

enum unwind_reason {
	UNWIND_COMPLETE,     /* down to where the thread began */
	UNWIND_DEPTH,	     /* limit of frames */
	UNWIND_COPY_END,     /* what is needed next lies behind the copy, which was truncated */
	UNWIND_MISSING,	     /* ... in a page of the copy that could not be read */
	UNWIND_OUTSIDE,	     /* ... outside the stack: on another one, or the stack is damaged */
	UNWIND_NO_MAPS,	     /* nothing known of the address space */
	UNWIND_NOT_MAPPED,   /* the return address lies in no known executable mapping: wrong, or mapped later */
	UNWIND_RETURN_PROBE, /* a return probe hides the caller, and no fix tells it */
	UNWIND_NO_FILE,	     /* code in no file, and no usable frame pointer */
	UNWIND_UNREADABLE,   /* the file could not be opened */
	UNWIND_NO_INFO,	     /* the file says nothing about this code, and no usable frame pointer */
	UNWIND_BAD_INFO,     /* ... or nothing we can use */
	UNWIND_NO_REGISTER,  /* the rule needs a register that is not known */
	UNWIND_LOOP,	     /* the rule does not lead up the stack */
	UNWIND_WORK,	     /* limit of work */
	UNWIND_REASON_MAX,
};

#define UNWIND_NO_SLOT UINT32_MAX

struct unwound_frame {
	uint64_t pc;
	uint64_t cfa; /* stack address just above the frame's return address; 0 = not known. Grows from frame to frame.
			 arm64, with frame_pointers_only, as that lies at the bottom of a frame: where the caller's frame
			 pointer points */
	uint32_t return_slot; /* offset in the copy of the return address, which is the next frame's pc (on arm64 with a
				 signature in its upper bits); UNWIND_NO_SLOT = there was none in the stack */
	bool is_exact;	/* pc is the instruction itself (innermost, or interrupted by a signal), not a return address:
			   look others up with pc - 1 */
	bool is_signal; /* the kernel's frame around a signal handler */
	bool is_guessed; /* the caller was found by the frame pointer, for want of rules */
};

#define UNWOUND_ADDRESS_SLOTS_MAX 512

struct unwound {
	const struct unwound_frame *frames; /* innermost first; valid until the next unwind() */
	size_t count; /* 1 at least */
	enum unwind_reason reason;
	const struct mapping *at; /* what the reason is about: that of the last frame's pc (or of the return address, for
				     UNWIND_RETURN_PROBE); NULL = none. In the stack's address space */
	/*
	 * Words of the copy that are no return addresses but say where those lie (saved frame pointers, by which a frame
	 * of variable size is left). Two stacks with equal ip (arm64: and lr), equal words at all return slots and,
	 * relative to sp, equal words at these and equal registers of register_mask have the same frames.
	 */
	uint32_t address_slots[UNWOUND_ADDRESS_SLOTS_MAX];
	size_t address_slot_count;
	bool has_more_slots;	/* than there was room for */
	uint32_t register_mask; /* bit n: DWARF register n as the probe took it (3 bx, 6 bp, 12-15; arm64: 29, 30) */
};

/* objects: a reference is taken. 0 or -ENOMEM. */
int unwinder_new(struct objects *objects, const struct unwinder_limits *limits, struct unwinder **ret);
void unwinder_free(struct unwinder *u);
DEFINE_CLEANUP(struct unwinder, unwinder_free)

/* 0, whether complete or not, -E2BIG (a copy of 4 GiB), -ENOMEM. */
int unwind(struct unwinder *u, const struct raw_stack *s, struct unwound *ret);
/* Why a stack ends early, in a few words, to go before "in MODULE"; NULL for a complete one. */
const char *unwind_reason_text(enum unwind_reason reason);
/* Bytes of memory held. */
size_t unwinder_bytes(const struct unwinder *u);
