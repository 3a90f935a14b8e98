/* SPDX-License-Identifier: MIT */
/* .gnu_debugdata: a small ELF file with the names of local functions, xz-packed into a stripped one. */
#pragma once

#include <stddef.h>

#include "stack/elf_file.h"

/*
 * Unpacks it into a sealed memory file of at most max_bytes; the packed form may be no larger either. 0, with
 * *ret_bytes the memory the file takes; -ENOENT: there is none, or it is too large, damaged, or no ELF file; -ENOMEM.
 */
int minidebug_open(const struct elf_file *f, size_t max_bytes, struct elf_file **ret, size_t *ret_bytes);
