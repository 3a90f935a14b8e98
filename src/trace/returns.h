/* SPDX-License-Identifier: MIT */
/*
 * Where a function's code ends, instruction by instruction. A kernel's return probe changes the return address on the
 * stack, and a C++ exception that passes by such a frame ends the process: the unwinder knows no function there (seen
 * with GCC 13 on Linux 6.18). PyTorch throws when memory is short. So functions that are not the driver's are probed at
 * their return instructions instead, where the stack pointer is what it was on entry.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct code_range {
	uint64_t offset; /* in the file */
	uint64_t len;
};

#define RETURNS_MAX 64		  /* of one range */
#define RETURNS_CODE_MAX (1u << 20) /* bytes of one range */

/*
 * Finds the return instructions of code, the bytes of range, and adds their offsets in the file to ret. Jumps to places
 * outside all ranges, which are the function's parts, end it as well. ret_jumps counts them; with wants_jumps they are
 * in the list too: whatever the function was to write is written by then, but what it returns is not known. Indirect
 * jumps, which may be a switch, count where wants_jumps is given: only with a frame that is gone is the stack pointer
 * the one on entry. Number of entries; -EILSEQ: an instruction that is not known, or one over the end; -E2BIG: more
 * than RETURNS_MAX.
 */
int returns_find(const uint8_t *code, const struct code_range *range, const struct code_range *ranges, size_t n,
		 bool wants_jumps, uint64_t ret[RETURNS_MAX], size_t *ret_jumps);

/* Length of an x86-64 instruction of at most len bytes, 0 = unknown; what is a return or a jump in *ret_kind. */
enum x86_kind { X86_OTHER, X86_RETURN, X86_JUMP, X86_JUMP_INDIRECT };
size_t x86_length(const uint8_t *code, size_t len, enum x86_kind *ret_kind, int64_t *ret_target);
