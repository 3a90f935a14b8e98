/* SPDX-License-Identifier: MIT */
/* The files that stacks point into, kept open: a process may be gone, or its file deleted, before it is asked about. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/map64.h"
#include "model/stack.h"
#include "stack/elf_file.h"

struct object {
	uint64_t id;  /* never used again: what is remembered under it cannot be taken for another file's */
	uint64_t key; /* hash of the four below */
	uint32_t dev_major, dev_minor; /* as in the maps file, which is not always what fstat says */
	uint64_t inode;
	char *path; /* some file systems show one device and inode for several files: the path tells them apart */
	struct elf_file *elf; /* NULL = not an ELF file we can read */
	uint64_t used_ns;     /* monotonic */
	struct object *newer, *older;
};

struct objects {
	char *proc_root;
	uint32_t limit;
	uint64_t last_id;
	struct map64 by_key;
	struct object *newest, *oldest;
};

int objects_init(struct objects *o, const char *proc_root, uint32_t limit);
void objects_done(struct objects *o);
/* Is it a file at all, by what the kernel shows? */
bool mapping_is_file(const struct mapping *m);
bool mapping_same_file(const struct mapping *a, const struct mapping *b);
/* Length of the path without " (deleted)". */
size_t mapping_path_len(const struct mapping *m);
/* The file's object, opened if need be. 0, -ENOENT (cannot be opened), -ENOMEM. Borrowed until the next call. */
int objects_get(struct objects *o, uint32_t pid, const struct mapping *m, struct object **ret);
/* Closes what was not asked for since before_ns: an open file keeps its disk space and its mount busy. */
void objects_trim(struct objects *o, uint64_t before_ns);
