/* SPDX-License-Identifier: MIT */
/*
 * What makes two stacks the same call site.
 *
 * GPUXRAY_STACK_ID (frames.id): a hash over the frames outside of allocators, innermost first. Native: build id and
 * address in the file (name of the file and offset where there is no build id). Python: file and qualified function, no
 * line, so that it survives edits elsewhere in the file; the file as below "site-packages/", "dist-packages/" or
 * "lib/python3.N/", else its last part: the same wherever it is installed. No address of the process, pid or path of
 * the host goes in: the same program has the same ids in every run and on every host. Code in no file (generated, or
 * the kernel's) and Python frames that could not be read are each one constant.
 * frames.site: the same with the lines of Python frames: two allocations in one function are two sites. And with the
 * addresses of code in no file, which is all that tells such code apart.
 * frames.exact: all frames, with process addresses.
 *
 * A stack of nothing but allocator frames is taken whole. Of the three none is 0 but for a stack without frames.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "model/stack.h"

struct allocators;

/* Patterns (PCRE2) for paths of files, native or Python, whose frames belong to an allocator. 0, -EINVAL, -ENOMEM. They
 * belong to the thread that uses them. */
int allocators_new(char *const *patterns, size_t len, struct allocators **ret);
void allocators_free(struct allocators *a); /* accepts NULL */
DEFINE_CLEANUP(struct allocators, allocators_free)
/* Those that are meant when nobody says otherwise: the CUDA driver and runtime, the caching allocators of PyTorch,
 * CuPy, RMM, Numba. NULL-terminated. */
extern const char *const allocators_default[];
/* Is it the path of an allocator's file? None is longer than 1,024 bytes. strikes: patterns that may still take too
 * long (which counts as no match, and is logged once for each), counted down; at 0 none is asked any more. */
bool allocators_match(const struct allocators *a, const char *path, size_t len, unsigned int *strikes);

/* Build id of the file of a mapping, at most 64 bytes to ret; length, 0 = none or not readable. ret_vaddr: the address
 * in the file of the file's offset; false in *ret_has_vaddr if it has none. */
typedef size_t (*site_file_fn)(const struct mapping *m, uint64_t offset, uint8_t ret[64], uint64_t *ret_vaddr,
			       bool *ret_has_vaddr, void *userdata);

/* Sets is_allocator of each frame, and site, id and exact. */
void site_key_set(struct frames *f, const struct allocators *a, site_file_fn file, void *userdata);

/* A Python file as users know it: what is below the last "site-packages/", "dist-packages/" or "lib/python3.N/" (lib64
 * too, and 3.Nt), else the whole path. Points into file. */
const char *python_file_short(const char *file);
