/* SPDX-License-Identifier: MIT */
#include "stack/python_code.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map64.h"
#include "base/strbuf.h"
#include "stack/python_lines.h"
#include "stack/python_str.h"

#define FUNCTION_CHARS_MAX 512
#define FILE_CHARS_MAX 4096
#define TABLE_BYTES_MAX ((size_t)256 << 10) /* some 60,000 instructions */

/* In every version, in bytes. */
#define OBJECT_TYPE 8
#define TYPE_NAME 24

struct code { /* what it takes to name any frame of one code object */
	uint64_t key;
	uint64_t addr;
	uint32_t serial, check;
	enum python_lines lines;
	uint16_t instrs;
	int64_t instr_bytes; /* of all instructions; 0 = not known */
	uint32_t first_line;
	char *function, *file;
	uint8_t *table;
	size_t table_len;
	uint64_t used_ns; /* monotonic */
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
	k->used_ns = clock_monotonic_ns();
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

void python_codes_trim(struct python_codes *c, uint64_t before_ns)
{
	while (c->oldest && c->oldest->used_ns < before_ns)
		drop(c, c->oldest);
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

static uint16_t name_offset(const struct python_layout *l)
{
	return l->code_qualname ? l->code_qualname : l->code_name;
}

static bool is_same(const uint8_t *a, const uint8_t *b, uint16_t offset)
{
	return word_at(a, offset) == word_at(b, offset);
}

static int read_text(const struct memory *m, const struct python_layout *l, uint64_t addr, size_t max, char **ret)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	int r;

	r = python_str_read(m, l, addr, max, &sb);
	return r < 0 ? r : strbuf_steal(&sb, ret);
}

/* As the probe makes it. */
static uint32_t check_of(const struct memory *m, const struct python_layout *l, const uint8_t *raw)
{
	const uint64_t file = word_at(raw, l->code_filename) + PYTHON_TEXT_AT, page = 4096 - (file & 4095);
	__u64 words[PYTHON_CHECK_WORDS_MAX], text[PYTHON_TEXT_WORDS] = {};

	if (!l->check_words)
		return half_at(raw, l->code_check);
	memcpy(words, raw + l->code_check, l->check_words * sizeof(*words));
	if (memory_read(m, file, text, MIN(page, sizeof(text))) < 0)
		memset(text, 0, sizeof(text));
	return python_check_text(python_check_of(words, l->check_words), text);
}

/*
 * The type of a code object is PyCode_Type. Where that is not known to be, its name tells: the interpreter may export
 * none, and a program linked against it at a fixed address has its own copy, which all use then.
 */
static int check_type(const struct memory *m, const struct python_info *info, uint64_t type)
{
	uint64_t name;
	char text[5];
	int r;

	if (info->code_type && type == info->code_type)
		return 0;
	r = memory_read(m, type + TYPE_NAME, &name, sizeof(name));
	if (r == 0)
		r = memory_read(m, name, text, sizeof(text));
	if (r == 0 && memcmp(text, "code", sizeof(text)) != 0)
		r = -ESTALE;
	return r;
}

/*
 * Is this the code object of that frame, and alive? What is freed keeps its words, except that allocators link free
 * blocks through the first ones, or leave a reference count of 0.
 */
static int check_code(const struct memory *m, const struct python_layout *l, const struct python_frame *f, const uint8_t *raw)
{
	uint64_t refcount = word_at(raw, 0);

	if (!(refcount & UINT32_MAX) || refcount & l->refcount_zero)
		return -ESTALE;
	return check_of(m, l, raw) == f->check ? 0 : -ESTALE;
}

static int read_parts(const struct memory *m, const struct python_layout *l, const uint8_t *raw, struct code *k)
{
	int r;

	k->first_line = half_at(raw, l->code_first_line);
	k->instr_bytes = l->code_units ? 2 * (int64_t)half_at(raw, l->code_units) : 0;
	r = read_text(m, l, word_at(raw, name_offset(l)), FUNCTION_CHARS_MAX, &k->function);
	if (r == 0)
		r = read_text(m, l, word_at(raw, l->code_filename), FILE_CHARS_MAX, &k->file);
	if (r == 0)
		r = python_bytes_read(m, l, word_at(raw, l->code_table), TABLE_BYTES_MAX, &k->table, &k->table_len);
	return r;
}

/* The parts are read one after the other while the process runs: they are the code object's if it was alive before and
 * after, and the same. */
static int read_code(const struct memory *m, const struct python_info *info, const struct python_frame *f,
		     struct code *k)
{
	const struct python_layout *l = &info->layout;
	uint8_t raw[PYTHON_CODE_BYTES_MAX], again[PYTHON_CODE_BYTES_MAX];
	int r;

	if (l->code_bytes > sizeof(raw) || l->check_words > PYTHON_CHECK_WORDS_MAX)
		return -EBADMSG;
	r = memory_read(m, f->code, raw, l->code_bytes);
	if (r == 0)
		r = check_code(m, l, f, raw);
	if (r == 0)
		r = check_type(m, info, word_at(raw, OBJECT_TYPE));
	if (r == 0)
		r = read_parts(m, l, raw, k);
	if (r == 0)
		r = memory_read(m, f->code, again, l->code_bytes);
	if (r == 0)
		r = check_code(m, l, f, again);
	if (r < 0)
		return r;
	if (!is_same(raw, again, OBJECT_TYPE) || !is_same(raw, again, name_offset(l)) ||
	    !is_same(raw, again, l->code_filename) || !is_same(raw, again, l->code_table))
		return -ESTALE;
	return memory_check(m);
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
	int64_t at;
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
	at = instr_offset(k, f);
	/* An instruction of other code; one unit before the first is where a frame begins. */
	if (k->instr_bytes && (at < -2 || at >= k->instr_bytes))
		return -ESTALE;
	ret->function = k->function;
	ret->file = k->file;
	ret->first_line = k->first_line;
	ret->line = python_line(k->lines, k->table, k->table_len, k->first_line, at);
	return 0;
}
