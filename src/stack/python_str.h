/* SPDX-License-Identifier: MIT */
/* Python's str and bytes objects in another process. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "stack/memory.h"
#include "stack/python_offsets.h"

/*
 * Appends chars characters of width 1 (Latin-1), 2 or 4 bytes as UTF-8. A byte of a file name that was not UTF-8,
 * which Python keeps as U+DC80 to U+DCFF, becomes that byte again; other surrogates, NUL and what is no character
 * become U+FFFD.
 */
void python_chars(struct strbuf *sb, const uint8_t *data, size_t chars, unsigned int width);

/*
 * Appends at most max characters of the str at addr, then "...". 0; -EBADMSG (not a str we can read, or none any more);
 * read errors. One read, another one if it is long.
 */
int python_str_read(const struct memory *m, const struct python_layout *l, uint64_t addr, size_t max,
		    struct strbuf *sb);

/* The first max bytes of a bytes object at addr; the caller frees. 0; -EBADMSG; -ENOMEM; read errors; 1 or 2 reads. */
int python_bytes_read(const struct memory *m, const struct python_layout *l, uint64_t addr, size_t max, uint8_t **ret,
		      size_t *ret_len);
