/* SPDX-License-Identifier: MIT */
#include "base/textfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"

int textfile_write(const char *path, const char *data, size_t len)
{
	_cleanup_free_ char *temp = NULL;
	_cleanup_close_ int fd = -1;
	int r;

	/* Its name does not end in .prom: the collector passes over it. */
	if (asprintf(&temp, "%s.XXXXXX", path) < 0) {
		temp = NULL;
		return -ENOMEM;
	}
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = file_write_all(fd, data, len);
	if (r == 0 && (fchmod(fd, 0644) < 0 || rename(temp, path) < 0))
		r = -errno;
	if (r < 0)
		(void)unlink(temp);
	return r;
}

bool textfile_is_read(const char *path)
{
	const size_t len = strlen(path), end = strlen(".prom");

	return len > end && strcmp(path + len - end, ".prom") == 0;
}

const char *textfile_cure(int err)
{
	switch (-err) {
	case ENOENT:
		return "make the folder";
	case EROFS:
		return "if the file system is writable, the unit may not write there: gpuxray-metrics.conf beside it lets it";
	case EACCES:
	case EPERM:
		return "give the folder to root, or its group with a mode that lets it write: the service is root without the power to "
		       "write where others may not";
	case ENOSPC:
	case EDQUOT:
		return "make room";
	}
	return "choose another folder";
}
