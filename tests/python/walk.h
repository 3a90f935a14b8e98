/* SPDX-License-Identifier: MIT */
#ifndef WALK_H
#define WALK_H

#include "python_event.h"

struct walk_event {
	__u32 pid;
	__u32 known; /* the process was in the map */
	__u64 arg;
	__u64 ns; /* the walk took */
	struct python_stack stack;
};

#endif
