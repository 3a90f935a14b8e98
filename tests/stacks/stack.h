/* SPDX-License-Identifier: MIT */
/*
 * What the programs of the stack tests share: an allocation that a test finds again by its size, and before it, on
 * standard output, what this process's own unwinder (libgcc's) makes of the stack: a second opinion.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A function that keeps its name and a frame of its own; KEEP_FRAME() after its last call prevents a tail call. */
#if defined(__has_attribute) && __has_attribute(noclone)
#define FRAME __attribute__((noinline, noclone))
#else
#define FRAME __attribute__((noinline))
#endif
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

extern uint64_t stack_key; /* of this program, from its arguments: (key << 20) + number of the call are the bytes */

/* Initialises the driver; false if there is none. */
void stack_open(void);
/* Fails, as no device has so many bytes: 1 << 50 more than said above. */
void stack_alloc(void);
/* The same without a second opinion, for where that cannot unwind. */
void stack_alloc_only(void);
/* Succeeds and is freed again: 8 GiB + (key << 20) + number. */
void stack_alloc_number(uint64_t number);
void stack_say(const char *label);
/* Until the test has seen what it wants to. */
void stack_wait(void);

#ifdef __cplusplus
}
#endif
