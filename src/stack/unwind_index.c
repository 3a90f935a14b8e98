/* SPDX-License-Identifier: MIT */
/* A search table for a file that has none: all of its FDEs once through. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stack/unwind_cfi.h"

#define WINDOW 65536
#define PLACES_MAX 262144 /* 4 MiB of memory; no file of that size was seen without a table of its own */
#define HEAD_MAX 32	  /* length, id and the first address of an FDE take 12 + 4 + 10 at most */

struct window { /* the bytes at vaddr, so that short reads in a row are one of the file */
	const struct elf_file *f;
	uint64_t *work;
	uint64_t vaddr;
	size_t len;
	uint8_t buf[WINDOW];
};

struct builder {
	struct window *window;
	struct cfi_place *places;
	size_t count, cap;
	uint64_t cie_vaddr; /* the one whose encoding is known */
	uint8_t encoding;
};

static int window_get(struct window *w, uint64_t vaddr, struct bytes *ret)
{
	uint64_t at = vaddr - w->vaddr;

	if (vaddr < w->vaddr || at > w->len || w->len - at < HEAD_MAX) {
		int n = cfi_read(w->f, vaddr, w->buf, sizeof(w->buf), w->work);

		if (n < 0)
			return n;
		w->vaddr = vaddr;
		w->len = (size_t)n;
		at = 0;
	}
	*ret = (struct bytes){ .p = w->buf + at, .end = w->buf + w->len };
	return 0;
}

static int add_place(struct builder *b, uint64_t start, uint64_t fde_vaddr)
{
	if (b->count == PLACES_MAX)
		return -E2BIG;
	if (b->count == b->cap) {
		const size_t cap = b->cap ? 2 * b->cap : 256;
		struct cfi_place *places = realloc(b->places, cap * sizeof(*places));

		if (!places)
			return -ENOMEM;
		b->places = places;
		b->cap = cap;
	}
	b->places[b->count++] = (struct cfi_place){ .start = start, .fde_vaddr = fde_vaddr };
	return 0;
}

/* How the FDEs of a CIE write addresses. Those of an unusable CIE are left out. */
static int know_cie(struct builder *b, uint64_t vaddr)
{
	_cleanup_(cfi_entry_done) struct cfi_entry e = { .large = NULL };
	struct cfi_cie cie;
	int r;

	if (b->cie_vaddr == vaddr)
		return 0;
	b->cie_vaddr = vaddr;
	b->encoding = CFI_OMIT;
	r = cfi_entry_read(b->window->f, vaddr, b->window->work, &e);
	if (r == -ENOMEM || r == -ENOBUFS)
		return r;
	if (r == 0 && cfi_cie_parse(&e, &cie) == 0)
		b->encoding = cie.pointer_encoding;
	return 0;
}

static int add_entry(struct builder *b, struct bytes bytes, uint64_t vaddr, uint64_t *ret_next)
{
	const uint8_t *head = bytes.p;
	uint64_t len = bytes_u32(&bytes), id, id_at, start;
	int r;

	if (len == UINT32_MAX)
		len = bytes_u64(&bytes);
	if (bytes.is_bad || len == 0)
		return -ENOENT;
	id_at = vaddr + (uint64_t)(bytes.p - head);
	if (len < 4 || len > UINT64_MAX - id_at)
		return -ENOENT;
	*ret_next = id_at + len;
	id = bytes_u32(&bytes);
	if (id == 0)
		return 0;
	r = know_cie(b, id_at - id);
	if (r < 0 || b->encoding == CFI_OMIT)
		return r;
	start = cfi_pointer(&bytes, b->encoding, id_at + 4, 0);
	return bytes.is_bad ? 0 : add_place(b, start, vaddr);
}

static int compare_places(const void *a, const void *b)
{
	const struct cfi_place *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* A damaged entry ends the list: what came before is good. */
static int build(struct builder *b, uint64_t vaddr, uint64_t len)
{
	const uint64_t end = len > UINT64_MAX - vaddr ? UINT64_MAX : vaddr + len;
	int r = 0;

	while (r == 0 && vaddr < end) {
		struct bytes bytes;

		r = window_get(b->window, vaddr, &bytes);
		if (r == 0)
			r = add_entry(b, bytes, vaddr, &vaddr);
	}
	return r == -ENOENT || r == -EBADMSG ? 0 : r;
}

int cfi_index(const struct elf_file *f, uint64_t vaddr, uint64_t len, uint64_t *work, struct cfi_place **ret,
	      size_t *ret_len)
{
	_cleanup_free_ struct window *window = malloc(sizeof(*window));
	struct builder b = { .window = window, .cie_vaddr = UINT64_MAX };
	int r;

	if (!window)
		return -ENOMEM;
	window->f = f;
	window->work = work;
	window->vaddr = window->len = 0;
	r = build(&b, vaddr, len);
	if (r < 0 || b.count == 0) {
		free(b.places);
		return r < 0 ? r : -EBADMSG;
	}
	qsort(b.places, b.count, sizeof(*b.places), compare_places);
	*ret = b.places;
	*ret_len = b.count;
	return 0;
}
