/* SPDX-License-Identifier: MIT */
#include <dwarf.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "stack/debug_line_names.h"
#include "stack/elf_section.h"
#include "stack/unwind_bytes.h"

struct entry_format { /* DWARF 5: how each folder or file is described */
	uint64_t content[UINT8_MAX], form[UINT8_MAX];
	size_t count;
};

/* A name without what stands before its last slash. Empty or longer than a file's name can be: NULL, not found. */
static int copy_base_name(const uint8_t *name, size_t len, char **ret)
{
	const uint8_t *slash = memrchr(name, '/', len);
	const uint8_t *base = slash ? slash + 1 : name;
	const size_t base_len = len - (size_t)(base - name);

	*ret = NULL;
	if (!base_len || base_len > NAME_MAX)
		return 0;
	*ret = strndup((const char *)base, base_len);
	return *ret ? 0 : -ENOMEM;
}

/* NULL past the end. */
static const uint8_t *take_string(struct bytes *b, size_t *ret_len)
{
	const uint8_t *end = memchr(b->p, 0, (size_t)(b->end - b->p)), *p = b->p;

	if (!end) {
		b->is_bad = true;
		return NULL;
	}
	*ret_len = (size_t)(end - p);
	b->p = end + 1;
	return p;
}

struct name { /* text, or a place in another section, or neither */
	const uint8_t *text;
	size_t len;
	uint64_t offset;
	bool is_line_str, is_str;
};

struct collector {
	struct line_match *m;
	size_t n;
	struct debug_line *query;
	struct line_string *strings;
	size_t *string_count;
};

/* Gives the name to the matches of this file, which are the first that are left. */
static int collect(struct collector *c, uint64_t file, const struct name *name)
{
	for (; c->n && c->m->file == file; c->m++, c->n--) {
		struct debug_line *q = &c->query[c->m->query];
		int r = 0;

		q->line = c->m->line;
		if (name->text)
			r = copy_base_name(name->text, name->len, &q->file);
		else if (name->is_line_str || name->is_str)
			c->strings[(*c->string_count)++] = (struct line_string){
				.query = c->m->query, .offset = name->offset, .is_line_str = name->is_line_str,
			};
		if (r < 0)
			return r;
	}
	return 0;
}

/* Ends with an empty name, as does the list of folders before it. */
static int old_files(struct bytes b, struct collector *c)
{
	size_t len;

	while (take_string(&b, &len) && len)
		;
	for (uint64_t i = 1; c->n; i++) {
		struct name name = {};
		int r;

		name.text = take_string(&b, &name.len);
		if (!name.text || !name.len)
			break;
		for (int skip = 0; skip < 3; skip++) /* folder, time, length */
			(void)bytes_uleb(&b);
		r = collect(c, i, &name);
		if (r < 0)
			return r;
	}
	return 0;
}

static void read_format(struct bytes *b, struct entry_format *ret)
{
	ret->count = bytes_u8(b);
	for (size_t i = 0; i < ret->count; i++) {
		ret->content[i] = bytes_uleb(b);
		ret->form[i] = bytes_uleb(b);
	}
}

/* Passes over one value; every form known here takes at least a byte, so that the bytes bound all counts. */
static void take_value(struct bytes *b, uint64_t form, bool is_64, struct name *ret)
{
	*ret = (struct name){};
	switch (form) {
	case DW_FORM_string:
		ret->text = take_string(b, &ret->len);
		break;
	case DW_FORM_line_strp:
	case DW_FORM_strp:
		ret->offset = is_64 ? bytes_u64(b) : bytes_u32(b);
		ret->is_line_str = form == DW_FORM_line_strp;
		ret->is_str = form == DW_FORM_strp;
		break;
	case DW_FORM_strp_sup: /* in a file shared by several */
	case DW_FORM_sec_offset:
		(void)bytes_take(b, is_64 ? 8 : 4);
		break;
	case DW_FORM_udata:
	case DW_FORM_sdata:
	case DW_FORM_strx: /* by the unit's entry in .debug_info: not read */
		(void)bytes_uleb(b);
		break;
	case DW_FORM_data1:
	case DW_FORM_flag:
	case DW_FORM_strx1:
		(void)bytes_take(b, 1);
		break;
	case DW_FORM_data2:
	case DW_FORM_strx2:
		(void)bytes_take(b, 2);
		break;
	case DW_FORM_strx3:
		(void)bytes_take(b, 3);
		break;
	case DW_FORM_data4:
	case DW_FORM_strx4:
		(void)bytes_take(b, 4);
		break;
	case DW_FORM_data8:
		(void)bytes_take(b, 8);
		break;
	case DW_FORM_data16:
		(void)bytes_take(b, 16);
		break;
	case DW_FORM_block1:
		(void)bytes_take(b, bytes_u8(b));
		break;
	case DW_FORM_block2:
		(void)bytes_take(b, bytes_u16(b));
		break;
	case DW_FORM_block4:
		(void)bytes_take(b, bytes_u32(b));
		break;
	case DW_FORM_block:
		(void)bytes_take(b, bytes_uleb(b));
		break;
	default:
		b->is_bad = true;
	}
}

static void take_entry(struct bytes *b, const struct entry_format *format, bool is_64, struct name *ret)
{
	*ret = (struct name){};
	for (size_t i = 0; i < format->count && !b->is_bad; i++) {
		struct name value;

		take_value(b, format->form[i], is_64, &value);
		if (format->content[i] == DW_LNCT_path)
			*ret = value;
	}
}

static int new_files(struct bytes b, bool is_64, struct collector *c)
{
	struct entry_format format;
	struct name name;
	uint64_t count;

	read_format(&b, &format);
	count = bytes_uleb(&b);
	for (uint64_t i = 0; i < count && format.count && !b.is_bad; i++)
		take_entry(&b, &format, is_64, &name);

	read_format(&b, &format);
	count = bytes_uleb(&b);
	for (uint64_t i = 0; i < count && format.count && c->n; i++) {
		int r;

		take_entry(&b, &format, is_64, &name);
		if (b.is_bad)
			break;
		r = collect(c, i, &name);
		if (r < 0)
			return r;
	}
	return 0;
}

static int compare_matches(const void *a, const void *b)
{
	const struct line_match *x = a, *y = b;

	return (x->file > y->file) - (x->file < y->file);
}

int line_names_match(const struct line_table *t, struct line_match *m, size_t n, struct debug_line *query,
		     struct line_string *strings, size_t *string_count)
{
	struct collector c = { .m = m, .n = n, .query = query, .strings = strings, .string_count = string_count };
	struct bytes b;

	if (!n || !t->len)
		return 0;
	b = (struct bytes){ .p = t->data, .end = t->data + t->len };
	qsort(m, n, sizeof(*m), compare_matches);
	if (t->version >= 5)
		return new_files(b, t->is_64, &c);
	for (; c.n && !c.m->file; c.m++) /* the files are counted from 1 */
		c.n--;
	return old_files(b, &c);
}

static int compare_strings(const void *a, const void *b)
{
	const struct line_string *x = a, *y = b;

	if (x->is_line_str != y->is_line_str)
		return x->is_line_str ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* n strings of one section, ascending. */
static int read_section_strings(const struct elf_file *f, const char *section_name, const struct line_string *strings,
				size_t n, struct debug_line *query, uint64_t max_bytes)
{
	_cleanup_(elf_stream_done) struct elf_stream in = {};
	struct elf_section section;
	int r;

	r = elf_section_find(f, &section_name, 1, &section);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	if (!n || !section.stored_bytes || (section.is_zlib && MAX(section.bytes, section.stored_bytes) > max_bytes))
		return 0;
	r = elf_stream_init(&in, f, &section);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		const uint8_t *end;
		size_t have;

		if (strings[i].offset >= section.bytes)
			break;
		elf_stream_seek(&in, strings[i].offset);
		have = MIN(elf_stream_ahead(&in, ELF_STREAM_AHEAD), ELF_STREAM_AHEAD);
		end = memchr(in.p, 0, have);
		if (!end)
			continue;
		r = copy_base_name(in.p, (size_t)(end - in.p), &query[strings[i].query].file);
		if (r < 0)
			return r;
	}
	return in.error;
}

int line_names_read(const struct elf_file *f, struct line_string *strings, size_t n, struct debug_line *query,
		    uint64_t max_bytes)
{
	size_t line_strs = 0;
	int r;

	if (!n)
		return 0;
	qsort(strings, n, sizeof(*strings), compare_strings);
	while (line_strs < n && strings[line_strs].is_line_str)
		line_strs++;
	r = read_section_strings(f, ".debug_line_str", strings, line_strs, query, max_bytes);
	if (r < 0)
		return r;
	return read_section_strings(f, ".debug_str", strings + line_strs, n - line_strs, query, max_bytes);
}
