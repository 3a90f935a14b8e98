/* SPDX-License-Identifier: MIT */
/* A row of the call table from the configuration: a framework's own allocator, or a call that is not built in. */
#pragma once

#include <stdbool.h>

#include "../bpf/event.h"

#define USER_CALLS_MAX 64 /* rows; the built-in ones leave as many free in CALL_MAX */
#define USER_CALL_SYMBOLS_MAX 64 /* functions of one file that one row may match */

/* Strings are the caller's. */
struct user_call {
	char *library; /* pattern (glob) of the file's base name: "libc10_cuda.so*" */
	char *symbol;  /* glob over the mangled name or, with a '(' or "::" in it, over the demangled one */
	struct call_desc desc;
	char *file;    /* where it was written, for messages */
	int line;
	bool is_preset; /* of a built-in list: that it matches nothing in some version is no news */
};
