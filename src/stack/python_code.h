/* SPDX-License-Identifier: MIT */
/*
 * Python frames to names and lines. What was read of a code object is remembered, so its frames keep their names
 * after the process has gone; frames of code objects not read by then have none. One thread owns it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "../bpf/event.h"
#include "../bpf/python_event.h"
#include "base/cleanup.h"
#include "stack/memory.h"
#include "stack/python_offsets.h"

struct python_codes;

#define PYTHON_CODES_BYTES_DEFAULT ((size_t)16 << 20)

/* max_bytes: of all names and line tables; the least recently used go first. 0 or -ENOMEM. */
int python_codes_new(size_t max_bytes, struct python_codes **ret);
void python_codes_free(struct python_codes *c);
DEFINE_CLEANUP(struct python_codes, python_codes_free)
/* Forgets what no frame lay in since before_ns (monotonic): where processes come and go it would be those that have gone. */
void python_codes_trim(struct python_codes *c, uint64_t before_ns);

/* UTF-8 but for bytes of file names that never were; hostile: escape them. Borrowed until the next call. */
struct python_name {
	const char *function; /* qualified from 3.11 on */
	const char *file;
	/* 0 = the instruction has none: the compiler made it up. A name that is given is whole: what could not be read,
	 * or not be trusted, is an error. */
	uint32_t line;
	uint32_t first_line; /* of the function */
};

/*
 * 0; -ESTALE: other things are at that address by now, or were before all was read ("code object was freed"); -ESRCH:
 * the process is gone and the code object was never read; -EPERM; -ENOMEM. What is known by the frame's address and
 * check is not read again; else five reads, a few more for long names, of a few hundred KiB at most.
 */
int python_codes_resolve(struct python_codes *c, const struct memory *m, const struct python_info *info,
			 const struct python_frame *f, struct python_name *ret);
