/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "stack/elf_layout.h"
#include "stack/elf_section.h"

#define NAMES_MAX_BYTES (256u << 10) /* of all section names together */

static void take_section(const struct elf_file *f, const Elf64_Shdr *sh, struct elf_section *ret)
{
	struct elf_section section = { .offset = sh->sh_offset, .stored_bytes = sh->sh_size, .bytes = sh->sh_size };
	Elf64_Chdr ch;

	if (ret->stored_bytes || sh->sh_type == SHT_NOBITS)
		return;
	if (sh->sh_flags & SHF_COMPRESSED) {
		if (sh->sh_size < sizeof(ch) || sh->sh_offset > INT64_MAX ||
		    elf_read_at(f, &ch, sizeof(ch), sh->sh_offset) != sizeof(ch) || ch.ch_type != ELFCOMPRESS_ZLIB)
			return;
		section.offset += sizeof(ch);
		section.stored_bytes -= sizeof(ch);
		section.bytes = ch.ch_size;
		section.is_zlib = true;
	}
	*ret = section;
}

/* The names of all sections, a 0 behind them. */
static int read_names(const struct elf_file *f, char **ret, size_t *ret_len)
{
	_cleanup_free_ char *names = NULL;
	Elf64_Shdr sh;
	size_t len;
	ssize_t n;

	*ret_len = 0;
	if (f->section_names >= f->section_count)
		return 0;
	n = elf_read_at(f, &sh, sizeof(sh), f->sections_offset + f->section_names * sizeof(sh));
	if (n != sizeof(sh))
		return n < 0 ? (int)n : 0;
	len = (size_t)MIN(sh.sh_size, NAMES_MAX_BYTES);
	names = malloc(len + 1);
	if (!names)
		return -ENOMEM;
	n = elf_read_at(f, names, len, sh.sh_offset);
	if (n < 0)
		return (int)n;
	names[n] = 0;
	*ret = TAKE_PTR(names);
	*ret_len = (size_t)n;
	return 0;
}

int elf_section_find(const struct elf_file *f, const char *const *names, size_t n, struct elf_section *ret)
{
	enum { BATCH = ELF_CHUNK / sizeof(Elf64_Shdr) };
	_cleanup_free_ Elf64_Shdr *sh = NULL;
	_cleanup_free_ char *all = NULL;
	size_t all_len;
	int r;

	memset(ret, 0, n * sizeof(*ret));
	r = read_names(f, &all, &all_len);
	if (r < 0 || !all_len)
		return r;
	sh = calloc(MIN(f->section_count, BATCH), sizeof(*sh));
	if (!sh)
		return -ENOMEM;
	for (uint64_t at = 0; at < f->section_count;) {
		const size_t want = (size_t)MIN(f->section_count - at, BATCH);
		ssize_t got = elf_read_at(f, sh, want * sizeof(*sh), f->sections_offset + at * sizeof(*sh));

		if (got < 0)
			return (int)got;
		for (size_t i = 0; i < (size_t)got / sizeof(*sh); i++) {
			for (size_t j = 0; j < n && sh[i].sh_name < all_len; j++) {
				if (strcmp(all + sh[i].sh_name, names[j]) == 0)
					take_section(f, &sh[i], &ret[j]);
			}
		}
		if ((size_t)got < want * sizeof(*sh))
			break;
		at += want;
	}
	return 0;
}

int elf_stream_init(struct elf_stream *s, const struct elf_file *f, const struct elf_section *section)
{
	*s = (struct elf_stream){
		.f = f,
		.offset = section->offset,
		.stored_left = section->offset <= INT64_MAX ? section->stored_bytes : 0,
		.left = section->bytes,
	};
	s->window = malloc(ELF_CHUNK);
	if (!s->window)
		return -ENOMEM;
	s->p = s->end = s->window;
	if (!section->is_zlib)
		return 0;
	s->packed = malloc(ELF_CHUNK);
	s->z = calloc(1, sizeof(*s->z));
	if (!s->packed || !s->z)
		return -ENOMEM;
	if (inflateInit(s->z) != Z_OK) {
		free(s->z);
		s->z = NULL;
		return -ENOMEM;
	}
	return 0;
}

void elf_stream_done(struct elf_stream *s)
{
	if (s->z)
		(void)inflateEnd(s->z);
	free(s->z);
	free(s->packed);
	free(s->window);
	*s = (struct elf_stream){};
}

/* Bytes read, 0 at the end. */
static size_t read_stored(struct elf_stream *s, uint8_t *buf, size_t len)
{
	ssize_t n;

	if (s->offset > INT64_MAX - ELF_CHUNK)
		return 0;
	len = (size_t)MIN(s->stored_left, len);
	n = elf_read_at(s->f, buf, len, s->offset);
	if (n <= 0) {
		s->stored_left = 0;
		return 0;
	}
	s->offset += (uint64_t)n;
	s->stored_left -= (uint64_t)n;
	return (size_t)n;
}

static size_t unpack(struct elf_stream *s, uint8_t *buf, size_t len)
{
	s->z->next_out = buf;
	s->z->avail_out = (uInt)len;
	while (s->z->avail_out) {
		int r;

		if (!s->z->avail_in) {
			s->z->next_in = s->packed;
			s->z->avail_in = (uInt)read_stored(s, s->packed, ELF_CHUNK);
		}
		r = inflate(s->z, Z_NO_FLUSH);
		if (r == Z_MEM_ERROR)
			s->error = -ENOMEM;
		if (r != Z_OK) {
			s->stored_left = 0;
			s->z->avail_in = 0;
			return len - s->z->avail_out;
		}
	}
	return len;
}

static bool fill(struct elf_stream *s)
{
	const size_t kept = (size_t)(s->end - s->p);
	const size_t room = (size_t)MIN(ELF_CHUNK - kept, s->left);
	size_t n;

	if (!room)
		return false;
	memmove(s->window, s->p, kept);
	n = s->z ? unpack(s, s->window + kept, room) : read_stored(s, s->window + kept, room);
	s->left = n ? s->left - n : 0;
	s->window_end += n;
	s->p = s->window;
	s->end = s->window + kept + n;
	return n > 0;
}

size_t elf_stream_ahead(struct elf_stream *s, size_t n)
{
	while ((size_t)(s->end - s->p) < n && fill(s))
		;
	return (size_t)(s->end - s->p);
}

void elf_stream_seek(struct elf_stream *s, uint64_t position)
{
	while (position > s->window_end) {
		s->p = s->end;
		if (!s->z) {
			const uint64_t skip = MIN(position - s->window_end, MIN(s->left, s->stored_left));

			s->offset += skip;
			s->stored_left -= skip;
			s->left -= skip;
			s->window_end += skip;
			return;
		}
		if (!fill(s))
			return;
	}
	if (position > elf_stream_position(s))
		s->p = s->end - (s->window_end - position);
}
