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
	/* co_version (3.12 and later) or made of what does not change in it: if it differs later, so does the code object.
	 * Not read at every event: see PYTHON_CHECK_EVERY. */
	__u32 check;
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
	__u16 thread_bytes; /* one read takes prev, id and frame */
	__u16 cframe_frame;
	__u16 cframe_previous;
	__u16 frame_bytes; /* what one read takes: longer may run past the end of the memory the frames are in */
	__u16 frame_back;
	__u16 frame_code;
	__u16 frame_instr;
	__u16 frame_owner;
	__u16 frame_entry;
	__u16 code_check; /* where the check is made of: co_version, or from co_firstlineno to co_linetable */
	__u16 check_words; /* 0: the check is the 32-bit word there; else python_check_of() so many 64-bit ones, ... */
	__u16 check_file;  /* ... and python_check_text() of the str that this one of them points to */
	__u16 pad;
};

#define PYTHON_FRAME_BYTES_MAX 120
#define PYTHON_THREAD_BYTES_MAX 256
#define PYTHON_CHECK_WORDS_MAX 12

/* All that does not change in the life of a code object: its line and the addresses of its bytecode, names and tables. */
static inline __attribute__((always_inline)) __u32 python_check_of(const __u64 *words, __u32 count)
{
	__u64 h = 0;

	for (__u32 i = 0; i < PYTHON_CHECK_WORDS_MAX; i++)
		if (i < count) {
			h = (h ^ words[i]) * 0x9e3779b97f4a7c15ull;
			h ^= h >> 29;
		}
	return (__u32)(h ^ h >> 32);
}

/*
 * Code that is freed and made again in a loop often gets all its addresses again; the name of its file tells it apart.
 * words: so many from a str at PYTHON_TEXT_AT (3.9 to 3.11: length, hash, state, wchar_t form, then the characters of an
 * ASCII string, those of others 24 bytes on), zeros where its page ends. Only what never changes goes in.
 */
#define PYTHON_TEXT_AT 16
#define PYTHON_TEXT_WORDS 14

static inline __attribute__((always_inline)) __u32 python_check_text(__u32 check, const __u64 *words)
{
	__u64 first = words[2] >> 6 & 1 ? 4 : 7, width = words[2] >> 2 & 7, bytes = words[0], h = check ^ bytes << 32;

	if (bytes > PYTHON_TEXT_WORDS * 8)
		bytes = PYTHON_TEXT_WORDS * 8;
	bytes *= width ? width : 1;
	for (__u32 i = 4; i < PYTHON_TEXT_WORDS; i++) {
		__u64 at = (i - first) * 8, word = words[i];

		if (i < first || at >= bytes)
			continue;
		if (bytes - at < 8)
			word &= (1ull << (bytes - at) * 8) - 1;
		h = (h ^ word) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 29;
	}
	return (__u32)(h ^ h >> 32);
}

#ifndef __cplusplus
_Static_assert(sizeof(struct python_frame) == 24, "struct python_frame");
_Static_assert(sizeof(struct python_stack) == 16 + 24 * PYTHON_FRAMES_MAX, "struct python_stack");
_Static_assert(sizeof(struct python_process) == 64, "struct python_process");
#endif

#endif
