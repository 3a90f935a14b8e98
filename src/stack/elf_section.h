/* SPDX-License-Identifier: MIT */
/* Sections by name, and their bytes in order, unpacked as they are read. For the debug files of this folder only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "stack/elf_file.h"

#define ELF_STREAM_AHEAD 4096 /* bytes that can be looked at together */

struct z_stream_s;

struct elf_section {
	uint64_t offset, stored_bytes; /* in the file; stored_bytes 0 = not there */
	uint64_t bytes;		       /* unpacked, as the file says: an upper bound */
	bool is_zlib;
};

/*
 * ret[i] for names[i]; .debug_x stands for itself only, not for the old .zdebug_x. One without bytes in the file, or
 * packed with anything but zlib, is not there. 0, or -errno of reading.
 */
int elf_section_find(const struct elf_file *f, const char *const *names, size_t n, struct elf_section *ret);

/* Reads forward through a section. What cannot be read or unpacked is its end. */
struct elf_stream {
	const struct elf_file *f;
	uint64_t offset, stored_left; /* not yet read from the file */
	uint64_t left;		      /* not yet in the window */
	uint64_t window_end;	      /* position in the section, of what end points to */
	uint8_t *window;
	const uint8_t *p, *end; /* in the window: the bytes at hand; p may be moved up to end */
	uint8_t *packed;
	struct z_stream_s *z; /* NULL = not packed */
	int error;	      /* 0 or -ENOMEM, sticky */
};

/* f: borrowed. 0 or -ENOMEM; elf_stream_done() in any case. */
int elf_stream_init(struct elf_stream *s, const struct elf_file *f, const struct elf_section *section);
void elf_stream_done(struct elf_stream *s);
/* Bytes at p, at least n (up to ELF_STREAM_AHEAD) unless the section ends before. */
size_t elf_stream_ahead(struct elf_stream *s, size_t n);
/* Moves to a position in the section, no lower than the current one, or to its end. */
void elf_stream_seek(struct elf_stream *s, uint64_t position);

/* Of p. */
static inline uint64_t elf_stream_position(const struct elf_stream *s)
{
	return s->window_end - (uint64_t)(s->end - s->p);
}
