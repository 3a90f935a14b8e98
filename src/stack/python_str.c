/* SPDX-License-Identifier: MIT */
#include "stack/python_str.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define STR_HEAD_BYTES 128 /* more than any str header */

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

int python_str_read(const struct memory *m, const struct python_layout *l, uint64_t addr, size_t max,
		    struct strbuf *sb)
{
	_cleanup_free_ uint8_t *data = NULL;
	uint8_t head[STR_HEAD_BYTES];
	unsigned int width;
	uint64_t length;
	uint32_t state;
	bool is_ascii;
	int r;

	if (addr == 0 || l->str_ascii > sizeof(head) || l->str_length + 8u > l->str_ascii ||
	    l->str_state + 4u > l->str_ascii)
		return -EBADMSG;
	r = memory_read(m, addr, head, l->str_ascii);
	if (r < 0)
		return r;
	memcpy(&length, head + l->str_length, sizeof(length));
	memcpy(&state, head + l->str_state, sizeof(state));
	/* interned:2, kind:3, compact:1, ascii:1; some versions gave interned 16 bits. */
	if (!(state & 0x20))
		state >>= 14;
	width = state >> 2 & 7;
	is_ascii = state & 0x40;
	if (!(state & 0x20) || (width != 1 && width != 2 && width != 4) || (is_ascii && width != 1) ||
	    length > INT64_MAX)
		return -EBADMSG;

	size_t chars = length < max ? (size_t)length : max;

	data = malloc(chars * width + 1);
	if (!data)
		return -ENOMEM;
	r = memory_read(m, addr + (is_ascii ? l->str_ascii : l->str_wide), data, chars * width);
	if (r < 0)
		return r;
	python_chars(sb, data, chars, width);
	if (chars < length)
		strbuf_adds(sb, "...");
	return sb->error;
}

int python_bytes_read(const struct memory *m, const struct python_layout *l, uint64_t addr, size_t max, uint8_t **ret,
		      size_t *ret_len)
{
	_cleanup_free_ uint8_t *data = NULL;
	uint64_t length;
	int r;

	if (addr == 0)
		return -EBADMSG;
	r = memory_read(m, addr + l->bytes_length, &length, sizeof(length));
	if (r < 0)
		return r;
	if (length > INT64_MAX)
		return -EBADMSG;

	size_t n = length < max ? (size_t)length : max;

	data = malloc(n + 1);
	if (!data)
		return -ENOMEM;
	r = memory_read(m, addr + l->bytes_data, data, n);
	if (r < 0)
		return r;
	*ret_len = n;
	*ret = TAKE_PTR(data);
	return 0;
}
