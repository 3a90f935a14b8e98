/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>

struct stat;

/*
 * Reads at most max bytes of a file (proc files too: sizes are not trusted). The caller frees *ret, which is
 * NUL-terminated after *ret_len bytes. dir_fd may be AT_FDCWD. 0 or -errno; -E2BIG when there is more than max.
 */
int file_read(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_len);
/* The same, but a longer file is cut at max instead of refused. */
int file_read_head(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_len);
/* As file_read(), from an open descriptor, which stays the caller's and may be one that does not block. */
int file_read_fd(int fd, size_t max, char **ret, size_t *ret_len);
/* All of it, to a descriptor that blocks. 0 or -errno: then an unknown part was written. */
int file_write_all(int fd, const void *data, size_t len);
/*
 * Opens a regular file for reading, and looks what it is first: opening a device or a pipe has effects, and a path that
 * somebody else chose may lead anywhere. The descriptor, which is the caller's and does not block; -EINVAL (something else
 * is there), -errno. *ret (may be NULL) is what fstat() says of it.
 */
int file_open_regular(const char *path, struct stat *ret);
/* readlink into a new string. 0 or -errno. */
int file_readlink(int dir_fd, const char *path, char **ret);
