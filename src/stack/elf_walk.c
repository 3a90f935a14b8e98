/* SPDX-License-Identifier: MIT */
/*
 * All functions of a file with their names. Symbols lie in another order than their names: they are taken by the
 * thousand, sorted by the place of the name, and the names read through a window that moves on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stack/elf_file.h"
#include "stack/elf_layout.h"

#define WALK_BATCH 4096
#define NAMES_BYTES_PER_SYMBOL 256 /* on average: so max_symbols bounds what is read of the string table too */

struct entry {
	uint64_t offset, size;
	uint32_t name;
};

struct walk {
	const struct elf_file *f;
	const struct elf_table *table;
	elf_function_fn fn;
	void *arg;
	int error;
	bool is_cut;
	uint64_t bytes_left;
	char *window; /* ELF_CHUNK bytes of the string table from window_at */
	uint64_t window_at;
	size_t window_len, batch_len;
	struct entry batch[WALK_BATCH];
};

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

static const char *name_in_window(const struct walk *w, uint32_t name, size_t *ret_len)
{
	const char *start, *end;
	size_t left;

	if (name < w->window_at || name - w->window_at >= w->window_len)
		return NULL;
	start = w->window + (name - w->window_at);
	left = w->window_len - (size_t)(name - w->window_at);
	end = memchr(start, 0, left);
	if (!end)
		return NULL;
	*ret_len = (size_t)(end - start);
	return start;
}

/* NULL: none, or longer than the window. */
static const char *find_name(struct walk *w, uint32_t name, size_t *ret_len)
{
	const struct elf_table *t = w->table;
	const char *found = name_in_window(w, name, ret_len);
	size_t want;
	ssize_t n;

	if (found || !name || name >= t->names_bytes || t->names_offset > INT64_MAX - UINT32_MAX)
		return found;
	want = (size_t)MIN(t->names_bytes - name, ELF_CHUNK);
	if (want > w->bytes_left) {
		w->is_cut = true;
		return NULL;
	}
	w->bytes_left -= want;
	n = elf_read_at(w->f, w->window, want, t->names_offset + name);
	if (n < 0) {
		w->error = (int)n;
		return NULL;
	}
	w->window_at = name;
	w->window_len = (size_t)n;
	return name_in_window(w, name, ret_len);
}

static void flush(struct walk *w)
{
	qsort(w->batch, w->batch_len, sizeof(*w->batch), compare_entries);
	for (size_t i = 0; i < w->batch_len && w->error == 0; i++) {
		size_t len = 0;
		const char *name = find_name(w, w->batch[i].name, &len), *version;
		char *at;

		if (!name || !len)
			continue;
		version = memchr(name + 1, '@', len - 1);
		at = version ? w->window + (version - w->window) : NULL;
		if (at)
			*at = '\0';
		w->error = w->fn(name, w->batch[i].offset, w->batch[i].size, w->arg);
		if (at)
			*at = '@'; /* another symbol may share the text */
	}
	w->batch_len = 0;
}

static void walk_symbol(const Elf64_Sym *sym, uint64_t index, void *arg)
{
	struct walk *w = arg;
	const struct elf_segment *segment;

	if (w->error || ELF64_ST_TYPE(sym->st_info) != STT_FUNC || !elf_symbol_is_defined(sym))
		return;
	segment = elf_segment_at(w->f, sym->st_value);
	if (!segment || !segment->is_exec)
		return;
	w->batch[w->batch_len++] = (struct entry){ .offset = segment->offset + (sym->st_value - segment->vaddr),
						   .size = sym->st_size,
						   .name = sym->st_name };
	if (w->batch_len == WALK_BATCH)
		flush(w);
}

static int walk_table(struct walk *w, const struct elf_table *t, uint64_t max_symbols)
{
	int r;

	w->table = t;
	w->window_len = 0;
	w->bytes_left = MIN(max_symbols, UINT64_MAX / NAMES_BYTES_PER_SYMBOL) * NAMES_BYTES_PER_SYMBOL + ELF_CHUNK;
	w->is_cut |= t->count > max_symbols;
	r = elf_table_each(w->f, t, max_symbols, walk_symbol, w);
	if (r == 0)
		flush(w);
	return r < 0 ? r : w->error;
}

int elf_file_each_function(const struct elf_file *f, unsigned tables, uint64_t max_symbols, elf_function_fn fn,
			   void *arg)
{
	_cleanup_free_ struct walk *w = calloc(1, sizeof(*w));
	_cleanup_free_ char *window = malloc(ELF_CHUNK);
	int r = 0;

	if (!w || !window)
		return -ENOMEM;
	w->f = f;
	w->fn = fn;
	w->arg = arg;
	w->window = window;
	if (tables & ELF_DYNSYM)
		r = walk_table(w, &f->dynsym, max_symbols);
	if (r == 0 && tables & ELF_SYMTAB)
		r = walk_table(w, &f->symtab, max_symbols);
	return r < 0 ? r : w->is_cut;
}

ssize_t elf_file_read(const struct elf_file *f, void *buf, size_t len, uint64_t offset)
{
	return offset > INT64_MAX ? -EINVAL : elf_read_at(f, buf, len, offset);
}
