/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/map64.h"
#include "stack/unwind_cache.h"

#define VDSO_ID UINT64_MAX
#define VDSO_PAGE 4096
#define VDSO_PAGES_MAX 16

int unwind_cache_init(struct unwind_cache *c, struct objects *objects, const struct unwinder_limits *limits)
{
	size_t rows = CACHE_WAYS;

	while (rows < limits->rows && rows < (size_t)1 << 30)
		rows *= 2;
	*c = (struct unwind_cache){
		.objects = objects_ref(objects),
		.file_count = limits->files ? limits->files : 1,
		.row_count = rows,
		.max_index_bytes = limits->index_bytes,
	};
	c->files = calloc(c->file_count, sizeof(*c->files));
	c->rows = calloc(c->row_count, sizeof(*c->rows));
	return c->files && c->rows ? 0 : -ENOMEM;
}

static void drop_file(struct unwind_cache *c, struct cache_file *f)
{
	if (f->cfi)
		c->index_bytes -= cfi_index_bytes(f->cfi);
	cfi_free(TAKE_PTR(f->cfi));
	f->object = 0;
}

void unwind_cache_done(struct unwind_cache *c)
{
	for (uint32_t i = 0; c->files && i < c->file_count; i++)
		drop_file(c, &c->files[i]);
	free(TAKE_PTR(c->files));
	free(TAKE_PTR(c->rows));
	elf_file_free(TAKE_PTR(c->vdso));
	objects_unref(TAKE_PTR(c->objects));
}

/* Our own vdso is that of every process with our word size: it is part of the kernel. As a file it is read like any. */
static void open_vdso(struct unwind_cache *c)
{
	const unsigned long addr = getauxval(AT_SYSINFO_EHDR);
	_cleanup_close_ int fd = -1;

	c->is_vdso_tried = true;
	if (!addr)
		return;
	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0)
		return;
	/* Where the image ends the kernel finds no page to write from. */
	for (unsigned int i = 0; i < VDSO_PAGES_MAX; i++) {
		if (write(fd, (const void *)(addr + i * (unsigned long)VDSO_PAGE), VDSO_PAGE) != VDSO_PAGE)
			break;
	}
	(void)elf_file_open(TAKE_FD(fd), &c->vdso);
}

/* 0, -ENOENT (no file), -EBADF (cannot be opened), -ENOMEM. */
static int find_object(struct unwind_cache *c, uint32_t pid, const struct mapping *m, struct cache_object *ret)
{
	struct object *ob = NULL;
	int r;

	if (!mapping_is_file(m)) {
		if (!m->path || strcmp(m->path, "[vdso]") != 0)
			return -ENOENT;
		if (!c->is_vdso_tried)
			open_vdso(c);
		*ret = (struct cache_object){ .id = VDSO_ID, .elf = c->vdso };
		return c->vdso ? 0 : -EBADF;
	}
	r = objects_get(c->objects, pid, m, &ob);
	if (r < 0)
		return r == -ENOMEM ? r : -EBADF;
	*ret = (struct cache_object){ .id = ob->id, .elf = ob->elf, .object = ob };
	return 0;
}

static void object_done(struct cache_object *ob)
{
	object_unref(ob->object);
	*ob = (struct cache_object){};
}

int cache_memo_get(struct cache_memo *memo, struct unwind_cache *c, uint32_t pid, const struct mapping *m,
		   const struct cache_object **ret)
{
	const size_t i = hash64((uintptr_t)m) & (MEMO_SIZE - 1);
	struct cache_object ob = {};
	int r;

	if (memo->slots[i].mapping != m) {
		r = find_object(c, pid, m, &ob);
		if (r < 0)
			return r;
		object_done(&memo->slots[i].object);
		memo->slots[i].mapping = m;
		memo->slots[i].object = ob;
	}
	*ret = &memo->slots[i].object;
	return 0;
}

void cache_memo_done(struct cache_memo *memo)
{
	for (size_t i = 0; i < MEMO_SIZE; i++)
		object_done(&memo->slots[i].object);
}

static int get_file(struct unwind_cache *c, const struct cache_object *ob, uint64_t *work, struct cache_file **ret)
{
	struct cache_file *f = &c->files[ob->id % c->file_count];
	int r;

	if (f->object != ob->id) {
		drop_file(c, f);
		r = ob->elf ? cfi_open(ob->elf, work, &f->cfi) : 0;
		if (r < 0 && r != -EBADMSG)
			return r;
		f->object = ob->id;
	}
	*ret = f;
	return 0;
}

/* The tables made for other files go when there are too many. */
static void bound_index(struct unwind_cache *c, const struct cache_file *keep)
{
	if (c->index_bytes <= c->max_index_bytes)
		return;
	for (uint32_t i = 0; i < c->file_count; i++) {
		struct cache_file *f = &c->files[i];

		if (f == keep || !f->cfi)
			continue;
		c->index_bytes -= cfi_index_bytes(f->cfi);
		cfi_drop_index(f->cfi);
	}
}

static int find_row(struct unwind_cache *c, const struct cache_object *ob, uint64_t offset, uint64_t *work,
		    struct cfi_row *ret)
{
	struct cache_file *f = NULL;
	uint64_t vaddr;
	size_t before;
	int r;

	r = get_file(c, ob, work, &f);
	if (r < 0)
		return r;
	if (!ob->elf || !f->cfi || elf_file_vaddr(ob->elf, offset, &vaddr) < 0)
		return -ENOENT;
	before = cfi_index_bytes(f->cfi);
	r = cfi_find(f->cfi, ob->elf, vaddr, work, ret);
	/* Returned to is what lies behind the offset. */
	if (r == -ENOENT)
		r = cfi_find_signal(ob->elf, offset + 1, ret);
	c->index_bytes += cfi_index_bytes(f->cfi) - before;
	bound_index(c, f);
	return r;
}

int unwind_cache_row(struct unwind_cache *c, const struct cache_object *ob, uint64_t offset, uint64_t *work,
		     const struct cfi_row **ret)
{
	struct cache_row *set = &c->rows[hash64(offset ^ hash64(ob->id)) & (c->row_count - CACHE_WAYS)], *slot = NULL;
	struct cfi_row row = {};
	int r;

	for (size_t i = 0; i < CACHE_WAYS; i++) {
		if (set[i].object == ob->id && set[i].offset == offset) {
			*ret = &set[i].row;
			return set[i].error;
		}
		if (!slot && !set[i].object)
			slot = &set[i];
	}
	r = find_row(c, ob, offset, work, &row);
	if (r < 0 && r != -ENOENT && r != -EBADMSG)
		return r;
	if (!slot)
		slot = &set[c->clock++ % CACHE_WAYS];
	*slot = (struct cache_row){ .object = ob->id, .offset = offset, .error = r, .row = row };
	*ret = &slot->row;
	return r;
}

size_t unwind_cache_bytes(const struct unwind_cache *c)
{
	return c->row_count * sizeof(*c->rows) + c->file_count * sizeof(*c->files) + c->index_bytes;
}
