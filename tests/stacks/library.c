/* SPDX-License-Identifier: MIT */
/* A library between a program and what it calls: stripped, or without unwind information, as a test wants it. */
#include "library.h"

static FRAME void library_inner(void (*fn)(void))
{
	fn();
	KEEP_FRAME();
}

void library_call(void (*fn)(void))
{
	char room[72];

	__asm__ volatile("" : : "r"(room) : "memory");
	library_inner(fn);
	__asm__ volatile("" : : "r"(room) : "memory");
}
