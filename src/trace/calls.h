/* SPDX-License-Identifier: MIT */
/*
 * The table of probed calls: what each does, and where its arguments lie. Rows of drivers are built in (one file an API);
 * rows of frameworks' own allocators come from the configuration. The table is made once, before anything is attached, and
 * does not change: a row's number is the attach cookie and the number in events.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../bpf/event.h"
#include "base/cleanup.h"
#include "model/user_call.h"

enum call_api {
	API_CUDA, /* libcuda.so */
	API_HIP,  /* libamdhip64.so */
	API_ZE,	  /* libze_loader.so */
	API_USER, /* from the configuration */
	API_MAX,
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

struct call {
	const char *symbol; /* user rows: what the files are searched for, see user_call */
	struct call_desc desc;
	unsigned int how; /* enum call_how */
	enum call_api api;
};

/* Built-in rows, one array an API; each ends with a NULL symbol. */
extern const struct call cuda_calls[], hip_calls[], ze_calls[];
/* Exported functions of these libraries that touch memory by their names and need no row, with the reason; ends with
 * a NULL symbol. */
struct call_ignored {
	const char *symbol, *reason;
};
extern const struct call_ignored cuda_ignored[];
/* Does a function of a driver library take or give back memory, as far as its name tells? Then it must be a row or
 * ignored; what is neither is new to this version. */
bool call_name_is_memory(enum call_api api, const char *symbol);

/* Makes the table: the built-in rows, then these. user is kept by reference until the end. 0, -E2BIG (over CALL_MAX), -ENOMEM. */
int calls_init(const struct user_call *user, size_t user_len);
size_t calls_len(void);
/* NULL beyond the table. */
const struct call *call_get(unsigned int row);
const struct user_call *call_user(unsigned int row); /* NULL for built-in rows */
/* The row of a built-in symbol or -1. */
int call_find(enum call_api api, const char *symbol);

/* Name of the function in a row; NULL beyond the table. */
const char *call_symbol(unsigned int row);
/* Does the probe take the stack of its caller? */
bool call_takes_stack(unsigned int row);
/* Which API a library is of by its file name ("libcuda.so.580.1 (deleted)" too): API_MAX = of none. */
enum call_api call_api_of_file(const char *path);
/* A hash over all rows: equal where row numbers mean the same. */
uint64_t calls_digest(void);
