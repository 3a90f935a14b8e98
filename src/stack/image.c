/* SPDX-License-Identifier: MIT */
#include "stack/image.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"

#define NAME_MAX_BYTES 64 /* of the names we ask for */
#define CHAIN_MAX 4096	  /* symbols looked at in one hash bucket */
#define SEGMENTS_MAX 64
#define DYNAMIC_MAX 128 /* entries; real files have some 30 */
#define PAGE_BYTES 4096u

static bool header_is_ours(const Elf64_Ehdr *h)
{
	return memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 && h->e_ident[EI_CLASS] == ELFCLASS64 &&
	       h->e_ident[EI_DATA] == ELFDATA2LSB && (h->e_type == ET_DYN || h->e_type == ET_EXEC) &&
	       h->e_phentsize == sizeof(Elf64_Phdr) && h->e_phnum > 0 && h->e_phnum <= SEGMENTS_MAX;
}

/* glibc writes addresses in memory into the dynamic section as it loads; others leave those of the file. */
static uint64_t dynamic_address(const struct image *im, uint64_t v)
{
	return v < im->bias ? v + im->bias : v;
}

static int read_dynamic(const struct memory *m, uint64_t addr, uint64_t bytes, struct image *im)
{
	Elf64_Dyn d[DYNAMIC_MAX];
	size_t n = MIN(bytes / sizeof(*d), (uint64_t)DYNAMIC_MAX);
	int r;

	r = memory_read(m, addr, d, n * sizeof(*d));
	if (r < 0)
		return r;
	for (size_t i = 0; i < n && d[i].d_tag != DT_NULL; i++) {
		uint64_t at = dynamic_address(im, d[i].d_un.d_ptr);

		if (d[i].d_tag == DT_SYMTAB)
			im->symbols = at;
		else if (d[i].d_tag == DT_STRTAB)
			im->strings = at;
		else if (d[i].d_tag == DT_GNU_HASH)
			im->gnu_hash = at;
		else if (d[i].d_tag == DT_HASH)
			im->hash = at;
	}
	return im->symbols && im->strings && (im->gnu_hash || im->hash) ? 0 : -ENOEXEC;
}

int image_open(const struct memory *m, uint64_t base, struct image *ret)
{
	Elf64_Phdr ph[SEGMENTS_MAX];
	const Elf64_Phdr *dynamic = NULL, *first = NULL;
	struct image im = { 0 };
	Elf64_Ehdr h;
	int r;

	r = memory_read(m, base, &h, sizeof(h));
	if (r < 0)
		return r;
	if (!header_is_ours(&h))
		return -ENOEXEC;
	r = memory_read(m, base + h.e_phoff, ph, h.e_phnum * sizeof(*ph));
	if (r < 0)
		return r;
	for (size_t i = 0; i < h.e_phnum; i++) {
		if (ph[i].p_type == PT_LOAD && !first)
			first = &ph[i];
		else if (ph[i].p_type == PT_DYNAMIC)
			dynamic = &ph[i];
	}
	if (!first || !dynamic)
		return -ENOEXEC;
	im.bias = base - (first->p_vaddr - first->p_offset) / PAGE_BYTES * PAGE_BYTES;
	r = read_dynamic(m, im.bias + dynamic->p_vaddr, dynamic->p_memsz, &im);
	if (r < 0)
		return r;
	*ret = im;
	return 0;
}

/* Does the symbol have the name, and a place? 1, 0 or read errors. */
static int symbol_is(const struct memory *m, const struct image *im, uint64_t index, const char *name, size_t len,
		     uint64_t *ret)
{
	char found[NAME_MAX_BYTES];
	Elf64_Sym s;
	int r;

	r = memory_read(m, im->symbols + index * sizeof(s), &s, sizeof(s));
	if (r < 0)
		return r;
	if (s.st_shndx == SHN_UNDEF || s.st_value == 0)
		return 0;
	r = memory_read(m, im->strings + s.st_name, found, len + 1);
	if (r < 0)
		return r == -EFAULT ? 0 : r;
	if (memcmp(found, name, len + 1) != 0)
		return 0;
	*ret = im->bias + s.st_value;
	return 1;
}

static int gnu_symbol(const struct memory *m, const struct image *im, const char *name, size_t len, uint64_t *ret)
{
	struct {
		uint32_t buckets, first, bloom_words, shift;
	} h;
	uint64_t bloom, chains;
	uint32_t hash = 5381, index, link = 0;
	int r;

	for (size_t i = 0; i < len; i++)
		hash = hash * 33 + (unsigned char)name[i];
	r = memory_read(m, im->gnu_hash, &h, sizeof(h));
	if (r < 0)
		return r;
	if (h.buckets == 0 || h.bloom_words == 0)
		return -ENOENT;
	r = memory_read(m, im->gnu_hash + sizeof(h) + 8ull * (hash / 64 % h.bloom_words), &bloom, sizeof(bloom));
	if (r < 0)
		return r;
	if (!(bloom >> hash % 64 & 1) || !(bloom >> (hash >> (h.shift & 31)) % 64 & 1))
		return -ENOENT;
	chains = im->gnu_hash + sizeof(h) + 8ull * h.bloom_words + 4ull * h.buckets;
	r = memory_read(m, chains - 4ull * h.buckets + 4ull * (hash % h.buckets), &index, sizeof(index));
	if (r < 0)
		return r;
	for (size_t i = 0; i < CHAIN_MAX && index >= h.first && !(link & 1); i++, index++) {
		r = memory_read(m, chains + 4ull * (index - h.first), &link, sizeof(link));
		if (r == 0 && (link | 1) == (hash | 1))
			r = symbol_is(m, im, index, name, len, ret);
		if (r != 0)
			return r < 0 ? r : 0;
	}
	return -ENOENT;
}

static int sysv_symbol(const struct memory *m, const struct image *im, const char *name, size_t len, uint64_t *ret)
{
	uint32_t h[2], hash = 0, index, high;
	int r;

	for (size_t i = 0; i < len; i++) {
		hash = (hash << 4) + (unsigned char)name[i];
		high = hash & 0xf0000000;
		hash = (hash ^ high >> 24) & ~high;
	}
	r = memory_read(m, im->hash, h, sizeof(h)); /* buckets, symbols */
	if (r < 0)
		return r;
	if (h[0] == 0)
		return -ENOENT;
	r = memory_read(m, im->hash + 8 + 4ull * (hash % h[0]), &index, sizeof(index));
	for (size_t i = 0; r == 0 && i < CHAIN_MAX && index != 0; i++) {
		r = symbol_is(m, im, index, name, len, ret);
		if (r > 0)
			return 0;
		if (r == 0)
			r = memory_read(m, im->hash + 8 + 4ull * h[0] + 4ull * index, &index, sizeof(index));
	}
	return r < 0 ? r : -ENOENT;
}

int image_symbol(const struct memory *m, const struct image *im, const char *name, uint64_t *ret)
{
	size_t len = strlen(name);

	if (len >= NAME_MAX_BYTES)
		return -EINVAL;
	return im->gnu_hash ? gnu_symbol(m, im, name, len, ret) : sysv_symbol(m, im, name, len, ret);
}
