/* SPDX-License-Identifier: MIT */
/* DWARF expressions as call frame information uses them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct expr_reader {
	void *userdata;
	/* False when it is not known. size: 1 to 8 bytes. */
	bool (*get_register)(void *userdata, unsigned int reg, uint64_t *ret);
	bool (*get_memory)(void *userdata, uint64_t addr, unsigned int size, uint64_t *ret);
};

/*
 * Evaluates with *initial (may be NULL) on the stack. 0, -EBADMSG (not an expression, or one that does not end),
 * -ENODATA: a register or memory word it needs is not known.
 */
int expr_eval(const uint8_t *code, size_t len, const uint64_t *initial, const struct expr_reader *reader,
	      uint64_t *ret);
