/* SPDX-License-Identifier: MIT */
/* From a code address in a mapping to its rules, through what was read before. For unwind.c and unwind_cache.c only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "model/stack.h"
#include "stack/object.h"
#include "stack/unwind.h"
#include "stack/unwind_cfi.h"

#define CACHE_WAYS 4

struct cache_row {
	uint64_t object; /* 0 = empty; object.id, never used again for another file */
	uint64_t offset; /* of the code in the file */
	int error;	 /* 0, -ENOENT, -EBADMSG: as from cfi_find() */
	struct cfi_row row;
};

struct cache_file { /* by object id modulo the limit: ids are given in order, so neighbours do not collide */
	uint64_t object;
	struct cfi *cfi; /* NULL = nothing usable */
};

/* The file of a mapping while one stack is unwound; zeros = none. */
struct cache_object {
	uint64_t id;
	const struct elf_file *elf; /* NULL = not an ELF file we can read */
	struct object *object;	    /* a reference, which keeps elf; NULL for the vdso */
};

struct unwind_cache {
	struct objects *objects; /* a reference */
	struct elf_file *vdso; /* of the running kernel, which is every process's; NULL = not yet, or none */
	bool is_vdso_tried;
	struct cache_file *files;
	uint32_t file_count;
	struct cache_row *rows;
	size_t row_count; /* power of two, CACHE_WAYS at least */
	uint64_t clock;	  /* of replacements */
	size_t index_bytes, max_index_bytes;
};

int unwind_cache_init(struct unwind_cache *c, struct objects *objects, const struct unwinder_limits *limits);
void unwind_cache_done(struct unwind_cache *c);
/* offset: of the code in the file. 0 and a row, valid until the next call; -ENOENT, -EBADMSG, -ENOBUFS, -ENOMEM as from
 * cfi_find(). */
int unwind_cache_row(struct unwind_cache *c, const struct cache_object *ob, uint64_t offset, uint64_t *work,
		     const struct cfi_row **ret);
size_t unwind_cache_bytes(const struct unwind_cache *c);

/* The files of one stack's mappings, each asked for once. */
#define MEMO_SIZE 16 /* a power of two */

struct cache_memo {
	struct {
		const struct mapping *mapping; /* NULL = empty */
		struct cache_object object;
	} slots[MEMO_SIZE];
};

/* 0, -ENOENT (no file), -EBADF (cannot be opened), -ENOMEM. What is returned is borrowed until the next call. */
int cache_memo_get(struct cache_memo *memo, struct unwind_cache *c, uint32_t pid, const struct mapping *m,
		   const struct cache_object **ret);
void cache_memo_done(struct cache_memo *memo);
