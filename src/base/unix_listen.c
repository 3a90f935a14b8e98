/* SPDX-License-Identifier: MIT */
#include "base/unix_listen.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/cleanup.h"

static int make_parent(const char *path)
{
	_cleanup_free_ char *dir = strdup(path);
	char *slash = dir ? strrchr(dir, '/') : NULL;

	if (!dir)
		return -ENOMEM;
	if (!slash || slash == dir)
		return 0;
	*slash = '\0';
	return mkdir(dir, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

int unix_listen(const char *path, int backlog)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct stat st;
	mode_t mask;
	int r;

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof(un.sun_path))
		return -ENAMETOOLONG;
	(void)strcpy(un.sun_path, path);
	r = make_parent(path);
	if (r < 0)
		return r;
	/* Somebody is there as well where its queue is full (EAGAIN), or where it is of another kind (EPROTOTYPE). */
	if (connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0 || errno == EAGAIN || errno == EPROTOTYPE)
		return -EADDRINUSE;
	if (lstat(path, &st) == 0) {
		if (!S_ISSOCK(st.st_mode))
			return -EEXIST;
		(void)unlink(path);
	}
	mask = umask(0117);
	r = bind(fd, (struct sockaddr *)&un, sizeof(un)) < 0 || listen(fd, backlog) < 0 ? -errno : 0;
	(void)umask(mask);
	return r < 0 ? r : TAKE_FD(fd);
}
