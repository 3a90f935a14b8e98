/* SPDX-License-Identifier: MIT */
/* Reading DWARF's encodings out of a piece of memory: past its end everything is 0, and is_bad says so. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
	const uint8_t *p, *end;
	bool is_bad;
};

static inline const uint8_t *bytes_take(struct bytes *b, uint64_t n)
{
	const uint8_t *p = b->p;

	if (b->is_bad || n > (uint64_t)(b->end - b->p)) {
		b->is_bad = true;
		return NULL;
	}
	b->p += n;
	return p;
}

#define BYTES_READER(name, type)                                                                                       \
	static inline type name(struct bytes *b)                                                                       \
	{                                                                                                              \
		const uint8_t *p = bytes_take(b, sizeof(type));                                                        \
		type v = 0;                                                                                            \
                                                                                                                       \
		if (p)                                                                                                 \
			memcpy(&v, p, sizeof(v));                                                                      \
		return v;                                                                                              \
	}

BYTES_READER(bytes_u8, uint8_t)
BYTES_READER(bytes_u16, uint16_t)
BYTES_READER(bytes_u32, uint32_t)
BYTES_READER(bytes_u64, uint64_t)
BYTES_READER(bytes_s8, int8_t)
BYTES_READER(bytes_s16, int16_t)
BYTES_READER(bytes_s32, int32_t)

/* Seven bits a byte, the lowest first; what does not fit in 64 bits is lost. */
static inline uint64_t bytes_leb(struct bytes *b, bool is_signed)
{
	uint64_t v = 0;
	unsigned int shift = 0;
	uint8_t byte;

	do {
		byte = bytes_u8(b);
		if (shift < 64)
			v |= (uint64_t)(byte & 0x7f) << shift;
		shift = shift < 64 ? shift + 7 : shift;
	} while (byte & 0x80);
	if (is_signed && (byte & 0x40) && shift < 64)
		v |= UINT64_MAX << shift;
	return v;
}

static inline uint64_t bytes_uleb(struct bytes *b)
{
	return bytes_leb(b, false);
}

static inline int64_t bytes_sleb(struct bytes *b)
{
	return (int64_t)bytes_leb(b, true);
}
