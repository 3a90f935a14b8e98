/* SPDX-License-Identifier: MIT */
#include "replay/recorder_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/cleanup.h"

/* Recordings of the stand-in workloads take 9 to 13 bytes an event, with level 1 a quarter more; 1 to 2 us of the recorder's
 * own thread, with level 1 a third of it. Two of the bytes are the last three of nine decimals. */
#define LEVEL 6
#define BUFFER_BYTES (64u << 10)
/* What deflateInit2() takes for a header of gzip and not of zlib. */
#define GZIP_WINDOW (15 + 16)

struct recorder_file {
	int fd;
	bool is_gz, is_flushed, is_ended;
	uint64_t bytes;
	z_stream z;
	unsigned char *buffer;
};

static int write_all(struct recorder_file *f, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = write(f->fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			struct pollfd pfd = { .fd = f->fd, .events = POLLOUT };

			(void)poll(&pfd, 1, -1);
			continue;
		}
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
		f->bytes += (uint64_t)n;
	}
	return 0;
}

static int compress_to(struct recorder_file *f, const char *data, size_t len, int how)
{
	int z;

	f->z.next_in = (unsigned char *)(uintptr_t)data;
	f->z.avail_in = (unsigned int)len;
	do {
		int r;

		f->z.next_out = f->buffer;
		f->z.avail_out = BUFFER_BYTES;
		z = deflate(&f->z, how);
		if (z == Z_STREAM_ERROR)
			return -EIO;
		r = write_all(f, f->buffer, BUFFER_BYTES - f->z.avail_out);
		if (r < 0)
			return r;
	} while (f->z.avail_out == 0);
	return 0;
}

int recorder_file_write(struct recorder_file *f, const char *data, size_t len, bool is_flush)
{
	int r = 0;

	if (!f->is_gz)
		return write_all(f, data, len);
	/* avail_in has 32 bits. */
	while (r == 0 && len > 1u << 30) {
		r = compress_to(f, data, 1u << 30, Z_NO_FLUSH);
		data += 1u << 30;
		len -= 1u << 30;
	}
	if (r == 0 && (len || (is_flush && !f->is_flushed)))
		r = compress_to(f, data, len, is_flush ? Z_SYNC_FLUSH : Z_NO_FLUSH);
	f->is_flushed = is_flush || (f->is_flushed && !len);
	return r;
}

bool recorder_file_is_flushed(const struct recorder_file *f)
{
	return !f->is_gz || f->is_flushed;
}

uint64_t recorder_file_bytes(const struct recorder_file *f)
{
	return f->bytes;
}

/* Under another name first: a link of this name is not followed, and who reads the old file goes on reading it. */
static int open_regular(const char *path, bool is_private)
{
	_cleanup_free_ char *temp = NULL;
	_cleanup_close_ int fd = -1;

	if (asprintf(&temp, "%s.XXXXXX", path) < 0) {
		temp = NULL;
		return -ENOMEM;
	}
	fd = mkostemp(temp, O_CLOEXEC | O_APPEND);
	if (fd < 0)
		return -errno;
	if ((!is_private && fchmod(fd, 0644) < 0) || rename(temp, path) < 0) {
		int r = -errno;

		(void)unlink(temp);
		return r;
	}
	return TAKE_FD(fd);
}

static int open_path(const char *path, bool is_private)
{
	struct stat st;
	int fd;

	if (strcmp(path, "-") == 0) {
		fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		return fd < 0 ? -errno : fd;
	}
	if (stat(path, &st) < 0 || S_ISREG(st.st_mode))
		return open_regular(path, is_private);
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

int recorder_file_open(const char *path, bool is_private, struct recorder_file **ret)
{
	struct recorder_file *f = calloc(1, sizeof(*f));
	size_t len = strlen(path);
	int r;

	if (!f)
		return -ENOMEM;
	f->is_flushed = true;
	f->fd = open_path(path, is_private);
	r = f->fd;
	if (r >= 0 && len > 3 && strcmp(path + len - 3, ".gz") == 0) {
		f->buffer = malloc(BUFFER_BYTES);
		r = f->buffer && deflateInit2(&f->z, LEVEL, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) == Z_OK ?
			    0 : -ENOMEM;
		f->is_gz = r == 0;
	}
	if (r < 0) {
		recorder_file_free(f);
		return r;
	}
	*ret = f;
	return 0;
}

int recorder_file_end(struct recorder_file *f)
{
	int r = 0;

	if (f->is_ended)
		return 0;
	f->is_ended = true;
	if (f->is_gz)
		r = compress_to(f, NULL, 0, Z_FINISH);
	/* Where a quota or a network file system says no, it may say so only now. */
	if (f->fd >= 0 && close(TAKE_FD(f->fd)) < 0 && r == 0)
		r = -errno;
	return r;
}

void recorder_file_free(struct recorder_file *f)
{
	if (!f)
		return;
	if (f->is_gz)
		(void)deflateEnd(&f->z);
	closep(&f->fd);
	free(f->buffer);
	free(f);
}
