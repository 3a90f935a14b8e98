/* SPDX-License-Identifier: MIT */
/*
 * Exported symbols of an ELF file as it lies in a process's memory: no file is opened, so neither deleted files nor
 * other mount namespaces matter.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "stack/memory.h"

struct image {
	uint64_t bias; /* address in memory - address in the file */
	uint64_t symbols, strings; /* addresses in memory */
	uint64_t gnu_hash, hash;   /* 0 = none */
};

/* base: where the file's first byte is mapped. 0; -ENOEXEC (no ELF64 with dynamic symbols there); read errors. */
int image_open(const struct memory *m, uint64_t base, struct image *ret);
/* Address of an exported symbol. 0, -ENOENT, read errors. */
int image_symbol(const struct memory *m, const struct image *im, const char *name, uint64_t *ret);
