/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "stack/debug_file.h"
#include "stack/debug_info.h"
#include "stack/debug_line.h"
#include "stack/elf_layout.h"
#include "stack/elf_section.h"
#include "stack/minidebug.h"

struct debug_info {
	const struct elf_file *f;
	struct elf_file *separate; /* NULL = none */
	struct elf_file *mini;	   /* NULL = none, or not yet asked for */
	size_t mini_bytes;
	bool has_tried_mini;
	struct debug_limits limits;
};

/* Has nothing that another file could add? */
static int is_complete(const struct elf_file *f)
{
	static const char *const name[] = { ".debug_line" };
	struct elf_section lines;
	int r;

	if (!f->symtab.count)
		return 0;
	r = elf_section_find(f, name, 1, &lines);
	return r < 0 ? r : lines.stored_bytes > 0;
}

int debug_info_open(const struct elf_file *f, const char *root, const char *path, const struct debug_limits *limits,
		    struct debug_info **ret)
{
	_cleanup_(debug_info_freep) struct debug_info *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return -ENOMEM;
	d->f = f;
	d->limits = *limits;
	r = is_complete(f);
	if (r == 0)
		r = debug_file_open(f, root, path, limits->max_crc_bytes, &d->separate);
	if (r == -ENOMEM)
		return r;
	*ret = TAKE_PTR(d);
	return 0;
}

void debug_info_free(struct debug_info *d)
{
	if (!d)
		return;
	elf_file_free(d->separate);
	elf_file_free(d->mini);
	free(d);
}

static bool has_unnamed(const struct elf_symbol *query, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!query[i].name)
			return true;
	}
	return false;
}

static int add_names(struct debug_info *d, const struct elf_file *from, struct elf_symbol *query, size_t n)
{
	int r = from ? elf_table_lookup(from, &from->symtab, d->f, query, n, d->limits.max_symbols) : 0;

	/* Only f is known to be a good file. */
	return r == -ENOMEM || from == d->f ? r : 0;
}

static int add_mini_names(struct debug_info *d, struct elf_symbol *query, size_t n)
{
	if (!d->has_tried_mini) {
		int r = minidebug_open(d->f, d->limits.max_minidebug, &d->mini, &d->mini_bytes);

		if (r == -ENOMEM)
			return r;
		d->has_tried_mini = true;
	}
	return add_names(d, d->mini, query, n);
}

int debug_info_symbols(struct debug_info *d, struct elf_symbol *query, size_t n)
{
	int r;

	if (!has_unnamed(query, n))
		return 0;
	r = add_names(d, d->f, query, n);
	if (r < 0)
		return r;
	r = add_names(d, d->separate, query, n);
	if (r < 0 || !has_unnamed(query, n))
		return r;
	r = add_mini_names(d, query, n);
	if (r < 0)
		return r;
	return elf_table_lookup(d->f, &d->f->dynsym, d->f, query, n, d->limits.max_symbols);
}

int debug_info_lines(struct debug_info *d, struct debug_line *query, size_t n)
{
	int r;

	for (size_t i = 0; i < n; i++) {
		query[i].file = NULL;
		query[i].line = 0;
	}
	r = debug_line_find(d->f, d->f, query, n, d->limits.max_line_bytes);
	if (r == 0 && d->separate)
		r = debug_line_find(d->separate, d->f, query, n, d->limits.max_line_bytes);
	for (size_t i = 0; i < n; i++) {
		if (r < 0) {
			free(query[i].file);
			query[i].file = NULL;
		}
		if (!query[i].file)
			query[i].line = 0;
	}
	return r;
}

size_t debug_info_bytes(const struct debug_info *d)
{
	size_t bytes = sizeof(*d) + d->mini_bytes;

	if (d->separate)
		bytes += sizeof(*d->separate) + d->separate->segment_count * sizeof(*d->separate->segments);
	if (d->mini)
		bytes += sizeof(*d->mini) + d->mini->segment_count * sizeof(*d->mini->segments);
	return bytes;
}
