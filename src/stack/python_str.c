/* SPDX-License-Identifier: MIT */
#include "stack/python_str.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define HEAD_BYTES_MAX 128 /* more than any header */
#define FIRST_BYTES 512	   /* most names and tables end before */
#define PAGE_BYTES 4096
#define LENGTH_MAX ((uint64_t)INT32_MAX)

/* What one read gave of an object: its header, and what follows in the same page, so that it faults only if the header
 * does. */
struct object {
	uint64_t addr;
	size_t len;
	uint8_t bytes[FIRST_BYTES];
};

static int object_read(const struct memory *m, uint64_t addr, size_t head, struct object *ret)
{
	size_t in_page = PAGE_BYTES - (size_t)(addr % PAGE_BYTES);

	ret->addr = addr;
	ret->len = MAX(head, MIN(in_page, sizeof(ret->bytes)));
	return memory_read(m, addr, ret->bytes, ret->len);
}

/* size bytes from offset on; the caller frees. */
static int object_data(const struct memory *m, const struct object *o, size_t offset, size_t size, uint8_t **ret)
{
	_cleanup_free_ uint8_t *data = malloc(size + 1);
	int r;

	if (!data)
		return -ENOMEM;
	if (offset + size <= o->len) {
		memcpy(data, o->bytes + offset, size);
	} else {
		r = memory_read(m, o->addr + offset, data, size);
		if (r < 0)
			return r;
	}
	*ret = TAKE_PTR(data);
	return 0;
}

static void add_utf8(struct strbuf *sb, uint32_t c)
{
	char u[4];
	size_t n = 0;

	if (c >= 0xdc80 && c <= 0xdcff) {
		strbuf_addc(sb, (char)(c - 0xdc00));
		return;
	}
	if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		c = 0xfffd;
	if (c < 0x80) {
		u[n++] = (char)c;
	} else if (c < 0x800) {
		u[n++] = (char)(0xc0 | c >> 6);
		u[n++] = (char)(0x80 | (c & 63));
	} else if (c < 0x10000) {
		u[n++] = (char)(0xe0 | c >> 12);
		u[n++] = (char)(0x80 | (c >> 6 & 63));
		u[n++] = (char)(0x80 | (c & 63));
	} else {
		u[n++] = (char)(0xf0 | c >> 18);
		u[n++] = (char)(0x80 | (c >> 12 & 63));
		u[n++] = (char)(0x80 | (c >> 6 & 63));
		u[n++] = (char)(0x80 | (c & 63));
	}
	strbuf_add(sb, u, n);
}

void python_chars(struct strbuf *sb, const uint8_t *data, size_t chars, unsigned int width)
{
	for (size_t i = 0; i < chars; i++) {
		const uint8_t *p = data + i * width;
		uint32_t c = p[0];

		if (width > 1)
			c |= (uint32_t)p[1] << 8;
		if (width > 2)
			c |= (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
		add_utf8(sb, c);
	}
}

/* A NUL ends every str and bytes object. */
static bool is_zero(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i])
			return false;
	return true;
}

static bool is_ascii_text(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] >= 0x80)
			return false;
	return true;
}

int python_str_read(const struct memory *m, const struct python_layout *l, uint64_t addr, size_t max,
		    struct strbuf *sb)
{
	_cleanup_free_ uint8_t *data = NULL;
	struct object o;
	unsigned int width;
	uint64_t length;
	uint32_t state;
	bool is_ascii;
	int r;

	if (addr == 0 || l->str_ascii > HEAD_BYTES_MAX || l->str_length + 8u > l->str_ascii ||
	    l->str_state + 4u > l->str_ascii)
		return -EBADMSG;
	r = object_read(m, addr, l->str_ascii, &o);
	if (r < 0)
		return r;
	memcpy(&length, o.bytes + l->str_length, sizeof(length));
	memcpy(&state, o.bytes + l->str_state, sizeof(state));
	/* interned:2, kind:3, compact:1, ascii:1; some versions gave interned 16 bits. */
	if (!(state & 0x20))
		state >>= 14;
	width = state >> 2 & 7;
	is_ascii = state & 0x40;
	if (!(state & 0x20) || (width != 1 && width != 2 && width != 4) || (is_ascii && width != 1) ||
	    length > LENGTH_MAX)
		return -EBADMSG;

	size_t chars = length < max ? (size_t)length : max, end = chars == length ? width : 0;

	r = object_data(m, &o, is_ascii ? l->str_ascii : l->str_wide, chars * width + end, &data);
	if (r < 0)
		return r;
	if (!is_zero(data + chars * width, end) || (is_ascii && !is_ascii_text(data, chars)))
		return -EBADMSG;
	python_chars(sb, data, chars, width);
	if (chars < length)
		strbuf_adds(sb, "...");
	return sb->error;
}

int python_bytes_read(const struct memory *m, const struct python_layout *l, uint64_t addr, size_t max, uint8_t **ret,
		      size_t *ret_len)
{
	_cleanup_free_ uint8_t *data = NULL;
	struct object o;
	uint64_t length;
	int r;

	if (addr == 0 || l->bytes_data > HEAD_BYTES_MAX || l->bytes_length + 8u > l->bytes_data)
		return -EBADMSG;
	r = object_read(m, addr, l->bytes_data, &o);
	if (r < 0)
		return r;
	memcpy(&length, o.bytes + l->bytes_length, sizeof(length));
	if (length > LENGTH_MAX)
		return -EBADMSG;

	size_t n = length < max ? (size_t)length : max, end = n == length;

	r = object_data(m, &o, l->bytes_data, n + end, &data);
	if (r < 0)
		return r;
	if (!is_zero(data + n, end))
		return -EBADMSG;
	*ret_len = n;
	*ret = TAKE_PTR(data);
	return 0;
}
