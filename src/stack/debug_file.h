/* SPDX-License-Identifier: MIT */
/* The separate file that a stripped one's debug information was moved to. */
#pragma once

#include <stdint.h>

#include "stack/elf_file.h"

/*
 * Where it is looked for, and what it must prove, is said at debug_info_open(). One without .symtab and .debug_line is
 * passed over. *ret is NULL when there is none. 0 or -ENOMEM.
 */
int debug_file_open(const struct elf_file *f, const char *root, const char *path, uint64_t max_crc_bytes,
		    struct elf_file **ret);
