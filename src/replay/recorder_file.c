/* SPDX-License-Identifier: MIT */
#include "replay/recorder_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/cleanup.h"

/* Recordings of the stand-in workloads take 9 to 13 bytes an event, with level 1 a quarter more; 1 to 2 us of the recorder's
 * own thread, with level 1 a third of it. Two of the bytes are the last three of nine decimals. */
#define LEVEL 6
#define BUFFER_BYTES (64u << 10)
/* What deflateInit2() takes for a header of gzip and not of zlib. */
#define GZIP_WINDOW (15 + 16)
#define NAMES_TRIED 100
/* Whoever has stopped us waits; a reader that is only slow takes something meanwhile. */
#define STALL_MS 3000
#define WAIT_MS 100

struct recorder_file {
	int fd;
	bool is_gz, is_flushed, is_ended;
	bool may_block; /* for as long as a reader likes */
	_Atomic bool is_hurried;
	uint64_t bytes;
	z_stream z;
	unsigned char *buffer;
};

/* Until the reader takes something. 0 or -ETIMEDOUT. */
static int wait_reader(const struct recorder_file *f)
{
	struct pollfd pfd = { .fd = f->fd, .events = POLLOUT };
	int stalled_ms = 0;

	while (poll(&pfd, 1, WAIT_MS) <= 0) {
		if (!f->is_hurried)
			continue;
		stalled_ms += WAIT_MS;
		if (stalled_ms >= STALL_MS)
			return -ETIMEDOUT;
	}
	return 0;
}

static int write_all(struct recorder_file *f, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		/* So much fits where poll() says that something does. */
		int r = f->may_block ? wait_reader(f) : 0;
		ssize_t n = r < 0 ? -1 : write(f->fd, p, f->may_block ? MIN(len, (size_t)PIPE_BUF) : len);

		if (r < 0)
			return r;
		if (n < 0 && (errno == EINTR || (errno == EAGAIN && f->may_block)))
			continue;
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

void recorder_file_hurry(struct recorder_file *f)
{
	f->is_hurried = true;
}

uint64_t recorder_file_bytes(const struct recorder_file *f)
{
	return f->bytes;
}

/* A new file of a name like path's, with what the umask leaves of the mode: mkostemp() would not heed it. */
static int open_temp(const char *path, mode_t mode, char **ret_name, int *ret_fd)
{
	for (int i = 0; i < NAMES_TRIED; i++) {
		_cleanup_free_ char *name = NULL;
		unsigned int random = 0;
		int fd;

		/* Without it the names that are tried are merely known before. */
		if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
			random = (unsigned int)i;
		if (asprintf(&name, "%s.%08x", path, random) < 0) {
			name = NULL;
			return -ENOMEM;
		}
		fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, mode);
		if (fd >= 0) {
			*ret_fd = fd;
			*ret_name = TAKE_PTR(name);
			return 0;
		}
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

/* Under another name first: a link of this name is not followed, and who reads the old file goes on reading it. */
static int open_regular(const char *path, bool is_private)
{
	_cleanup_free_ char *temp = NULL;
	_cleanup_close_ int fd = -1;
	int r = open_temp(path, is_private ? 0600 : 0644, &temp, &fd);

	if (r < 0)
		return r;
	if (rename(temp, path) < 0) {
		r = -errno;

		(void)unlink(temp);
		return r;
	}
	return TAKE_FD(fd);
}

/* /dev/stdout is a link to what may be a regular file: the link itself must stay. */
static int open_standard(const struct stat *st)
{
	struct stat standard;

	for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fstat(fd, &standard) == 0 && standard.st_dev == st->st_dev && standard.st_ino == st->st_ino)
			return fcntl(fd, F_DUPFD_CLOEXEC, 3);
	}
	return -1;
}

static int open_path(const char *path, bool is_private)
{
	struct stat st;
	int fd;

	if (strcmp(path, "-") == 0) {
		fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		return fd < 0 ? -errno : fd;
	}
	if (stat(path, &st) < 0)
		return open_regular(path, is_private);
	fd = open_standard(&st);
	if (fd >= 0)
		return fd;
	if (S_ISREG(st.st_mode))
		return open_regular(path, is_private);
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

int recorder_file_open(const char *path, bool is_private, struct recorder_file **ret)
{
	struct recorder_file *f = calloc(1, sizeof(*f));
	size_t len = strlen(path);
	struct stat st;
	int r;

	if (!f)
		return -ENOMEM;
	f->is_flushed = true;
	f->fd = open_path(path, is_private);
	r = f->fd;
	f->may_block = r >= 0 && fstat(f->fd, &st) == 0 && !S_ISREG(st.st_mode);
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
