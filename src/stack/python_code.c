/* SPDX-License-Identifier: MIT */
#include "stack/python_code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/map64.h"
#include "base/strbuf.h"
#include "stack/python_lines.h"
#include "stack/python_str.h"

#define FUNCTION_CHARS_MAX 512
#define FILE_CHARS_MAX 4096
#define TABLE_BYTES_MAX ((size_t)256 << 10) /* some 60,000 instructions */

struct code { /* what it takes to name any frame of one code object */
	uint64_t key;
	uint64_t addr;
	uint32_t serial, check;
	enum python_lines lines;
	uint16_t instrs;
	uint32_t first_line;
	char *function, *file;
	uint8_t *table;
	size_t table_len;
	struct code *newer, *older;
};

struct python_codes {
	struct map64 by_key;
	size_t bytes, max_bytes;
	struct code *newest, *oldest;
};

static void code_free(struct code *k)
{
	if (!k)
		return;
	free(k->function);
	free(k->file);
	free(k->table);
	free(k);
}
DEFINE_CLEANUP(struct code, code_free)

static size_t code_size(const struct code *k)
{
	return sizeof(*k) + strlen(k->function) + strlen(k->file) + k->table_len + sizeof(struct map64_slot);
}

static void detach(struct python_codes *c, struct code *k)
{
	*(k->newer ? &k->newer->older : &c->newest) = k->older;
	*(k->older ? &k->older->newer : &c->oldest) = k->newer;
	k->newer = k->older = NULL;
}

static void put_first(struct python_codes *c, struct code *k)
{
	k->older = c->newest;
	*(c->newest ? &c->newest->newer : &c->oldest) = k;
	c->newest = k;
}

static void drop(struct python_codes *c, struct code *k)
{
	detach(c, k);
	(void)map64_remove(&c->by_key, k->key);
	c->bytes -= code_size(k);
	code_free(k);
}

int python_codes_new(size_t max_bytes, struct python_codes **ret)
{
	struct python_codes *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->max_bytes = max_bytes;
	*ret = c;
	return 0;
}

void python_codes_free(struct python_codes *c)
{
	if (!c)
		return;
	while (c->oldest)
		drop(c, c->oldest);
	map64_done(&c->by_key);
	free(c);
}

static uint64_t word_at(const uint8_t *raw, uint16_t offset)
{
	uint64_t v;

	memcpy(&v, raw + offset, sizeof(v));
	return v;
}

static uint32_t half_at(const uint8_t *raw, uint16_t offset)
{
	uint32_t v;

	memcpy(&v, raw + offset, sizeof(v));
	return v;
}

static int read_text(const struct memory *m, const struct python_layout *l, uint64_t addr, size_t max, char **ret)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	int r;

	r = python_str_read(m, l, addr, max, &sb);
	return r < 0 ? r : strbuf_steal(&sb, ret);
}

/* The parts are read one after the other while the process runs: the check word is looked at before and after. */
static int read_code(const struct memory *m, const struct python_info *info, const struct python_frame *f,
		     struct code *k)
{
	const struct python_layout *l = &info->layout;
	uint8_t raw[PYTHON_CODE_BYTES_MAX];
	uint32_t check;
	int r;

	if (l->code_bytes > sizeof(raw))
		return -EBADMSG;
	r = memory_read(m, f->code, raw, l->code_bytes);
	if (r < 0)
		return r;
	if (half_at(raw, l->code_check) != f->check)
		return -ESTALE;
	k->first_line = half_at(raw, l->code_first_line);
	r = read_text(m, l, word_at(raw, l->code_qualname ? l->code_qualname : l->code_name), FUNCTION_CHARS_MAX,
		      &k->function);
	if (r == 0)
		r = read_text(m, l, word_at(raw, l->code_filename), FILE_CHARS_MAX, &k->file);
	if (r == 0)
		r = python_bytes_read(m, l, word_at(raw, l->code_table), TABLE_BYTES_MAX, &k->table, &k->table_len);
	if (r < 0)
		return r;
	r = memory_read(m, f->code + l->code_check, &check, sizeof(check));
	if (r < 0)
		return r;
	return check == f->check ? memory_check(m) : -ESTALE;
}

static int add_code(struct python_codes *c, const struct memory *m, const struct python_info *info,
		    const struct python_frame *f, uint64_t key, struct code **ret)
{
	_cleanup_(code_freep) struct code *k = calloc(1, sizeof(*k));
	int r;

	if (!k)
		return -ENOMEM;
	k->key = key;
	k->addr = f->code;
	k->serial = info->probe.serial;
	k->check = f->check;
	k->lines = info->layout.lines;
	k->instrs = info->layout.code_instrs;
	r = read_code(m, info, f, k);
	/* Memory that is not there any more, or holds no code object: it was one when the probe saw it. */
	if (r == -EFAULT || r == -EBADMSG)
		return memory_check(m) < 0 ? -ESRCH : -ESTALE;
	if (r < 0)
		return r;
	while (c->oldest && c->bytes + code_size(k) > c->max_bytes)
		drop(c, c->oldest);
	r = map64_put(&c->by_key, key, k);
	if (r < 0)
		return r;
	put_first(c, k);
	c->bytes += code_size(k);
	*ret = TAKE_PTR(k);
	return 0;
}

/* Byte offset of the frame's instruction. */
static int64_t instr_offset(const struct code *k, const struct python_frame *f)
{
	if (k->instrs)
		return (int64_t)(f->instr - (k->addr + k->instrs));
	return k->lines == PYTHON_LINES_RANGES ? 2 * (int64_t)(int32_t)f->instr : (int64_t)(int32_t)f->instr;
}

int python_codes_resolve(struct python_codes *c, const struct memory *m, const struct python_info *info,
			 const struct python_frame *f, struct python_name *ret)
{
	uint64_t key = hash64(hash64(f->code) ^ ((uint64_t)info->probe.serial << 32 | f->check));
	struct code *k = map64_get(&c->by_key, key);
	int r;

	if (k && (k->addr != f->code || k->serial != info->probe.serial || k->check != f->check)) {
		drop(c, k); /* two keys with one hash: the newer one wins */
		k = NULL;
	}
	if (k) {
		detach(c, k);
		put_first(c, k);
	} else {
		r = add_code(c, m, info, f, key, &k);
		if (r < 0)
			return r;
	}
	ret->function = k->function;
	ret->file = k->file;
	ret->first_line = k->first_line;
	ret->line = python_line(k->lines, k->table, k->table_len, k->first_line, instr_offset(k, f));
	return 0;
}
