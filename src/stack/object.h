/* SPDX-License-Identifier: MIT */
/*
 * The files that stacks point into, kept open: a process may be gone, or its file deleted, before it is asked about.
 * One table for all threads: the resolver opens the files, the symbolizer reads their names later.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/map64.h"
#include "model/stack.h"
#include "stack/elf_file.h"

/* Immutable but for the links and used_ns, which are the table's. */
struct object {
	atomic_uint refs;
	uint64_t id;  /* never used again: what is remembered under it cannot be taken for another file's */
	uint64_t key; /* hash of the four below */
	uint32_t dev_major, dev_minor; /* as in the maps file, which is not always what fstat says */
	uint64_t inode;
	char *path; /* some file systems show one device and inode for several files: the path tells them apart */
	struct elf_file *elf; /* NULL = not an ELF file we can read */
	uint64_t used_ns;     /* monotonic */
	struct object *newer, *older;
};

struct objects;

/* proc_root: "/proc" in production. limit: files open at once; the least recently used are closed (when nobody has a
 * reference any more). */
int objects_new(const char *proc_root, uint32_t limit, struct objects **ret);
struct objects *objects_ref(struct objects *o);
void objects_unref(struct objects *o); /* accepts NULL */
DEFINE_CLEANUP(struct objects, objects_unref)
const char *objects_proc_root(const struct objects *o);

/* Is it a file at all, by what the kernel shows? */
bool mapping_is_file(const struct mapping *m);
bool mapping_same_file(const struct mapping *a, const struct mapping *b);
/* Length of the path without " (deleted)". */
size_t mapping_path_len(const struct mapping *m);
/* The file's object, opened if need be; opening, which may block, holds up no other thread. 0 and a reference, -ENOENT
 * (cannot be opened), -ENOMEM. */
int objects_get(struct objects *o, uint32_t pid, const struct mapping *m, struct object **ret);
struct object *object_ref(struct object *ob);
void object_unref(struct object *ob); /* accepts NULL */
DEFINE_CLEANUP(struct object, object_unref)
/* Closes what was not asked for since before_ns: an open file keeps its disk space and its mount busy. */
void objects_trim(struct objects *o, uint64_t before_ns);
