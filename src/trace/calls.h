/* SPDX-License-Identifier: MIT */
/* The table of driver calls: what is probed, and what each call does. */
#pragma once

#include <stddef.h>

#include "../bpf/event.h"

struct call {
	const char *symbol;
	struct call_desc desc;
	int entry_only; /* arguments suffice: no return probe, which costs more than the entry and, on kernels 6.11 and
			   later, a system call that old seccomp filters punish */
};

/* Row of the table = index = attach cookie. */
extern const struct call cuda_calls[];
extern const size_t cuda_calls_len;

/* Name of the function in a row; NULL beyond the table. */
const char *call_symbol(unsigned int row);
