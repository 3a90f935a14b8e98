/* SPDX-License-Identifier: MIT */
/* The table of driver calls: what is probed, and what each call does. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "../bpf/event.h"

struct call {
	const char *symbol;
	struct call_desc desc;
	unsigned int how; /* enum call_how */
};

enum call_how {
	/* Arguments suffice: no return probe, which costs more than the entry and, on kernels 6.11 and later, a system call
	 * that old seccomp filters punish. */
	CALL_ENTRY_ONLY = 1,
	/* Tells the current device of a thread whose context was set before we came. PyTorch calls cuCtxGetDevice 290 times in
	 * a training step, and probing it cost 22 % of the steps (H200): probed only for a moment, where the library was in
	 * use before us. */
	CALL_TEACHER = 2,
};

/* Row of the table = index = attach cookie. */
extern const struct call cuda_calls[];
extern const size_t cuda_calls_len;

/* Name of the function in a row; NULL beyond the table. */
const char *call_symbol(unsigned int row);
/* Does the probe take the stack of its caller? */
bool call_takes_stack(unsigned int row);
