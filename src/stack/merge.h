/* SPDX-License-Identifier: MIT */
/*
 * Native and Python frames to one list. Each Python evaluation loop is one native frame; the Python frames of that loop
 * take its place, and the interpreter's own C functions around them are left out. Merged by stack address (see
 * bpf/python_event.h), which survives stripping, link-time optimisation and 3.14's tail calls; for 3.9 and 3.10, which
 * do not tell the address, by the nth frame of _PyEval_EvalFrameDefault. Pure.
 *
 * All Python frames are in the list, in their order, whatever the numbers say; so are all native frames but those left
 * out. The interpreter's are left out only between places that are known: not where Python frames without a place
 * belong, nor outside of the last Python frame when further ones are missing (too many, or unreadable).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/stack.h"
#include "stack/unwind.h"

struct merge_python {
	const struct python_stack *stack; /* NULL = no Python in this process */
	/* Address range of _PyEval_EvalFrameDefault in the process (its .cold part lies elsewhere); 0 = not known. 3.9
	 * and 3.10 need it; with any other it finds the place of a loop of which not all Python frames are known. */
	uint64_t eval_start, eval_end;
};

struct merge_entry {
	bool is_python;
	uint32_t index; /* in unwound.frames or in python_stack.frame */
};

struct merge {
	struct merge_entry *list; /* innermost first; the caller frees */
	size_t count;
	size_t hidden;	 /* frames of the interpreter left out, those that Python frames stand for not counted */
	size_t unplaced; /* Python frames for which no native frame was found: before the next one that has a place,
			    else the outermost of the list */
};

/*
 * sp: the stack pointer at the probe. is_interpreter says of each native frame whether it lies in a file whose C
 * functions may be left out (libpython*, python*): borrowed, u->count entries. 0 or -ENOMEM.
 */
int merge_frames(const struct unwound *u, uint64_t sp, const struct merge_python *p, const bool *is_interpreter,
		 struct merge *ret);
