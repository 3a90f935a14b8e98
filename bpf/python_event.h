/* SPDX-License-Identifier: MIT */
/*
 * Python frames, as the probe and the daemon know them: the second header that both compilers see. Include event.h
 * first. The probe sends addresses only; names, files and lines are read later from the process's memory.
 */
#ifndef GPUXRAY_PYTHON_EVENT_H
#define GPUXRAY_PYTHON_EVENT_H

#ifndef __BPF__
#include <linux/types.h>
#endif

#define PYTHON_FRAMES_MAX 64 /* a power of two */

/*
 * entry: a Python frame is the last (outermost) of its evaluation loop, that is, of one C call of
 * _PyEval_EvalFrameDefault, when entry is not 0. The frames up to and including it stand for that one native frame.
 *   3.11 to 3.14: where on the C stack that call keeps its own frame, in bytes above the stack pointer at the probe:
 *     the native frame F to merge at has sp(F) <= sp + entry < sp(caller of F). No symbol is needed.
 *   3.9, 3.10: every frame is a call of its own and the stack address is not known (PYTHON_ENTRY_UNPLACED): merge the
 *     nth frame at the nth native frame within _PyEval_EvalFrameDefault (its .cold part too), innermost first.
 */
struct python_frame {
	__u64 code;  /* address of the code object */
	__u64 instr; /* 3.9: byte index; 3.10: index in units of 2 bytes; 3.11 and later: address of the instruction */
	__u32 check; /* co_version (3.12 and later) or co_firstlineno: if it differs later, so does the code object */
	__u32 entry;
};

#define PYTHON_ENTRY_UNPLACED 1 /* places are multiples of 8 */

#define PYTHON_F_TRUNCATED 0x1 /* more than PYTHON_FRAMES_MAX frames; the outermost are missing */
#define PYTHON_F_FAULT 0x2     /* a read faulted: the rest of the frames is missing */
#define PYTHON_F_NO_THREAD 0x4 /* the thread has no Python thread state: no frames, and none were to be expected */

struct python_stack {
	__u32 count;
	__u32 flags; /* PYTHON_F_* */
	__u64 hash;  /* over python_process.serial and all frames, places included */
	struct python_frame frame[PYTHON_FRAMES_MAX]; /* innermost first; only count of them are set */
};

/* How versions differ; everything else is an offset. */
#define PYTHON_HAS_CFRAME 0x1 /* 3.11, 3.12: the thread points to a record on the C stack, and that one to the frame */
#define PYTHON_HAS_ENTRY 0x2  /* 3.11: a byte in the frame marks the last one of a loop; its place is the record's */
#define PYTHON_HAS_SHIM 0x4   /* 3.12 and later: the last one is followed by a frame without code on the C stack */
#define PYTHON_INSTR_INT 0x8  /* 3.9, 3.10: the instruction is an int, not a pointer */

/* What the walk needs to know of one process; the daemon finds it out and puts it in the map. Offsets in bytes. */
struct python_process {
	__u64 start_ns; /* start of the process, as in struct event; 0 = not known: the end of the process takes it away */
	__u64 heads;	/* address of _PyRuntime.interpreters.head */
	__u32 serial;	/* never used twice: what threads remember is dropped when it changes */
	__u16 flags;	/* PYTHON_HAS_*, PYTHON_INSTR_INT */
	__u16 interp_next;
	__u16 interp_threads;
	__u16 interp_thread_count; /* a counter that grows with every new thread state */
	__u16 thread_prev;
	__u16 thread_next;
	__u16 thread_interp;
	__u16 thread_id;
	__u16 thread_frame; /* of the frame, or of the record on the C stack */
	__u16 cframe_frame;
	__u16 cframe_previous;
	__u16 frame_bytes; /* what one read takes: longer may run past the end of the memory the frames are in */
	__u16 frame_back;
	__u16 frame_code;
	__u16 frame_instr;
	__u16 frame_owner;
	__u16 frame_entry;
	__u16 code_check;
};

#define PYTHON_FRAME_BYTES_MAX 120

#ifndef __cplusplus
_Static_assert(sizeof(struct python_frame) == 24, "struct python_frame");
_Static_assert(sizeof(struct python_stack) == 16 + 24 * PYTHON_FRAMES_MAX, "struct python_stack");
_Static_assert(sizeof(struct python_process) == 56, "struct python_process");
#endif

#endif
