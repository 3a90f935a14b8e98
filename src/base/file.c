/* SPDX-License-Identifier: MIT */
#include "base/file.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/cleanup.h"

#define FILE_FIRST_CAP 4096
#define FILE_PIPE_WAIT_MSEC 1000

/* A file of /proc can be one that waits for events, which is nothing that we read. */
static bool may_wait(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && !S_ISREG(st.st_mode);
}

/* read() that waits a while for a pipe's writer; the descriptor does not block. */
static ssize_t file_read_some(int fd, void *buf, size_t len)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	bool has_waited = false;

	for (;;) {
		ssize_t n = read(fd, buf, len);

		if (n >= 0)
			return n;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return -errno;
		if (has_waited || !may_wait(fd))
			return -EAGAIN;
		(void)poll(&p, 1, FILE_PIPE_WAIT_MSEC);
		has_waited = true;
	}
}

static int read_all(int fd, size_t max, bool may_cut, char **ret, size_t *ret_len)
{
	_cleanup_free_ char *buf = NULL;
	size_t len = 0, cap = 0, limit;

	/* One byte more than allowed tells "too long" from "just right". */
	limit = max < SIZE_MAX - 2 ? max + 1 : max;
	while (len < limit) {
		ssize_t n;

		if (len == cap) {
			char *more;

			cap = MIN(cap ? cap * 2 : FILE_FIRST_CAP, limit);
			more = realloc(buf, cap + 1);
			if (!more)
				return -ENOMEM;
			buf = more;
		}
		n = file_read_some(fd, buf + len, cap - len);
		if (n < 0)
			return (int)n;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	if (len > max) {
		if (!may_cut)
			return -E2BIG;
		len = max;
	}
	buf[len] = '\0';
	*ret = TAKE_PTR(buf);
	*ret_len = len;
	return 0;
}

static int file_open_and_read(int dir_fd, const char *path, size_t max, bool may_cut, char **ret, size_t *ret_len)
{
	_cleanup_close_ int fd = -1;

	/* A named pipe put in our way must not hold us at open. */
	fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	return read_all(fd, max, may_cut, ret, ret_len);
}

int file_read_fd(int fd, size_t max, char **ret, size_t *ret_len)
{
	return read_all(fd, max, false, ret, ret_len);
}

int file_read(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_len)
{
	return file_open_and_read(dir_fd, path, max, false, ret, ret_len);
}

int file_read_head(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_len)
{
	return file_open_and_read(dir_fd, path, max, true, ret, ret_len);
}

/* The second open goes to the very inode that was looked at. O_NONBLOCK: a lease must not hold us. */
int file_open_regular(const char *path, struct stat *ret)
{
	char again[sizeof("/proc/self/fd/") + 3 * sizeof(int)];
	_cleanup_close_ int at = open(path, O_PATH | O_CLOEXEC);
	struct stat st;
	int fd;

	if (at < 0 || fstat(at, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	(void)snprintf(again, sizeof(again), "/proc/self/fd/%d", at);
	fd = open(again, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (ret)
		*ret = st;
	return fd;
}

int file_write_all(int fd, const void *data, size_t len)
{
	const char *at = data;

	while (len > 0) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

int file_readlink(int dir_fd, const char *path, char **ret)
{
	for (size_t cap = 256; cap <= 16 * PATH_MAX; cap *= 2) {
		_cleanup_free_ char *buf = malloc(cap);
		ssize_t n;

		if (!buf)
			return -ENOMEM;
		n = readlinkat(dir_fd, path, buf, cap);
		if (n < 0)
			return -errno;
		if ((size_t)n < cap) {
			buf[n] = '\0';
			*ret = TAKE_PTR(buf);
			return 0;
		}
	}
	return -ENAMETOOLONG;
}
