/* SPDX-License-Identifier: MIT */
/* Stacks of frames for tests, and a symbolizer for them. */
#pragma once

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "elf_make.h"
#include "proc/procfs.h"
#include "stack/elf_file.h"
#include "stack/symbolizer.h"
#include "test.h"

#define LIMITS &(struct symbolizer_limits)SYMBOLIZER_LIMITS_DEFAULT

/* File offset and size of a function, from the file itself. */
static inline uint64_t offset_of(const char *dir, const char *name, const char *function, uint64_t *ret_size)
{
	_cleanup_(elf_file_freep) struct elf_file *f = NULL;
	struct elf_symbol q = {};
	uint64_t offset = 0;

	if (elf_file_open(elf_open_at(dir, name), &f) < 0 || elf_file_functions(f, &function, 1, 1000, &offset) != 1 ||
	    elf_file_vaddr(f, offset, &q.vaddr) < 0 || elf_file_lookup(f, &q, 1, 1000) < 0)
		return 0;
	free(q.name);
	if (ret_size)
		*ret_size = q.size;
	return offset;
}

/* A line of a maps file for the whole of dir/name at start. */
static inline void maps_line(struct strbuf *sb, const char *dir, const char *name, uint64_t start)
{
	char path[256];
	struct stat st = {};

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	(void)stat(path, &st);
	strbuf_addf(sb, "%llx-%llx r-xp 00000000 %02x:%02x %llu %s\n", (unsigned long long)start,
		    (unsigned long long)start + 0x100000, major(st.st_dev), minor(st.st_dev),
		    (unsigned long long)st.st_ino, path);
}

/* Native frames as the resolver makes them: the first is where the probe lies, the others are return addresses. */
static inline struct frames *frames_new(struct address_space *as, const uint64_t *ips, size_t n)
{
	struct frames *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->list = calloc(n ? n : 1, sizeof(*f->list));
	f->count = n;
	f->id = 0x1234;
	f->space = as ? address_space_ref(as) : NULL;
	for (size_t i = 0; f->list && i < n; i++) {
		f->list[i].pc = ips[i];
		f->list[i].is_exact = i == 0;
		f->list[i].mapping = address_space_find(as, ips[i] - (i > 0 && ips[i] > 0));
	}
	return f;
}

static inline struct stack *stack_at(struct address_space *as, uint32_t pid, const uint64_t *ips, size_t n)
{
	struct frames *f = frames_new(as, ips, n);

	return f ? stack_new_done(1, pid, f) : NULL;
}

static inline struct stack_text *resolve_at(struct symbolizer *s, const char *maps, uint32_t pid, const uint64_t *ips,
					    size_t n)
{
	_cleanup_(address_space_unrefp) struct address_space *as = NULL;
	_cleanup_(stack_unrefp) struct stack *stack = NULL;
	struct stack_text *t = NULL;

	if (maps && maps_parse(maps, pid, 0, &as) < 0)
		return NULL;
	stack = stack_at(as, pid, ips, n);
	if (!stack || symbolizer_resolve(s, stack, STACK_OK, &t) < 0)
		return NULL;
	return t;
}

/* A symbolizer with a table of files of its own. */
static inline int new_symbolizer(const char *proc_root, struct symbolizer **ret)
{
	_cleanup_(objects_unrefp) struct objects *objects = NULL;
	int r = objects_new(proc_root, 512, &objects);

	return r < 0 ? r : symbolizer_new(objects, LIMITS, ret);
}

/* The file put together in made, under this path. */
static inline bool made_write(const struct made *m, const char *path)
{
	_cleanup_close_ int from = made_fd(m), to = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	char buf[65536];
	ssize_t n = from < 0 ? -1 : pread(from, buf, sizeof(buf), 0);

	return n > 0 && n < (ssize_t)sizeof(buf) && to >= 0 && write(to, buf, (size_t)n) == n;
}
