/* SPDX-License-Identifier: MIT */
/* Numbers and strings to bytes and back, for files that only this machine reads. Reading is safe on any bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

/* Appends, in the machine's byte order; what fails is seen in sb->error. */
void pack_u8(struct strbuf *sb, uint8_t v);
void pack_u32(struct strbuf *sb, uint32_t v);
void pack_u64(struct strbuf *sb, uint64_t v);
void pack_bytes(struct strbuf *sb, const void *data, size_t len);
/* NULL stays NULL. */
void pack_str(struct strbuf *sb, const char *s);

/* Errors stick: once something was missing, everything reads as 0 or NULL; ask once at the end. */
struct unpack {
	const char *at;
	size_t left;
	bool is_bad;
};

/* Takes the next of that size. Once the input was too short all that is taken is 0, and is_bad says so. */
uint8_t unpack_u8(struct unpack *u);
uint32_t unpack_u32(struct unpack *u);
uint64_t unpack_u64(struct unpack *u);
void unpack_bytes(struct unpack *u, void *ret, size_t len);
/* A string without a NUL in it, in the input itself and not terminated. False: it was NULL, or bad. */
bool unpack_view(struct unpack *u, const char **ret, size_t *ret_len);
/* A copy, the caller's to free. NULL where it was NULL; without memory the reading is bad. */
char *unpack_str(struct unpack *u);
/* All was there and nothing is left. */
bool unpack_is_good(const struct unpack *u);
