/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <lzma.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "stack/elf_layout.h"
#include "stack/elf_section.h"
#include "stack/minidebug.h"

/* xz -9 has a window of 64 MiB. It is reserved as the file says, but only what is unpacked gets touched. */
#define DECODER_MAX_BYTES (80u << 20)

static void stream_end(lzma_stream *xz)
{
	lzma_end(xz);
}

static int write_out(int fd, const uint8_t *buf, size_t len)
{
	int r = file_write_all(fd, buf, len);

	return r == -ENOSPC ? -ENOMEM : r;
}

/* Unpacks the whole section. Bytes written, -ENOENT, -ENOMEM. */
static ssize_t unpack(struct elf_stream *in, size_t max_bytes, int fd)
{
	_cleanup_(stream_end) lzma_stream xz = LZMA_STREAM_INIT;
	_cleanup_free_ uint8_t *out = malloc(ELF_CHUNK);
	size_t total = 0;
	lzma_ret r;

	if (!out || lzma_stream_decoder(&xz, DECODER_MAX_BYTES, 0) != LZMA_OK)
		return -ENOMEM;
	do {
		size_t have = elf_stream_ahead(in, 1), n;

		xz.next_in = in->p;
		xz.avail_in = have;
		xz.next_out = out;
		xz.avail_out = ELF_CHUNK;
		r = lzma_code(&xz, have ? LZMA_RUN : LZMA_FINISH);
		in->p = xz.next_in;
		n = ELF_CHUNK - xz.avail_out;
		if (n > max_bytes - total)
			return -ENOENT;
		if (write_out(fd, out, n) < 0)
			return -ENOMEM;
		total += n;
	} while (r == LZMA_OK);
	if (r == LZMA_MEM_ERROR)
		return -ENOMEM;
	return r == LZMA_STREAM_END ? (ssize_t)total : -ENOENT;
}

int minidebug_open(const struct elf_file *f, size_t max_bytes, struct elf_file **ret, size_t *ret_bytes)
{
	static const char *const name[] = { ".gnu_debugdata" };
	_cleanup_(elf_stream_done) struct elf_stream in = {};
	_cleanup_close_ int fd = -1;
	struct elf_section section;
	ssize_t bytes;
	int r;

	r = elf_section_find(f, name, 1, &section);
	if (r < 0)
		return r == -ENOMEM ? r : -ENOENT;
	if (!section.stored_bytes || section.is_zlib || section.stored_bytes > max_bytes)
		return -ENOENT;
	r = elf_stream_init(&in, f, &section);
	if (r < 0)
		return r;
	fd = memfd_create("gnu_debugdata", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return errno == ENOMEM ? -ENOMEM : -ENOENT;
	bytes = unpack(&in, max_bytes, fd);
	if (bytes < 0)
		return (int)bytes;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return -ENOENT;
	r = elf_file_open(TAKE_FD(fd), ret);
	if (r < 0)
		return r == -ENOMEM ? r : -ENOENT;
	*ret_bytes = (size_t)bytes;
	return 0;
}
