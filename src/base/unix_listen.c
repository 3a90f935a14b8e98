/* SPDX-License-Identifier: MIT */
#include "base/unix_listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"

#define LOCK_SUFFIX ".lock"
/* Whoever has the lock does not wait for anything; one that is stopped with it must not hold the others for ever. */
#define LOCK_STEP_USEC 10000
#define LOCK_STEPS 300

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

static bool is_file_at(int fd, const char *path)
{
	struct stat mine, named;

	return fstat(fd, &mine) == 0 && lstat(path, &named) == 0 && mine.st_dev == named.st_dev &&
	       mine.st_ino == named.st_ino;
}

/*
 * To look whether somebody answers and to take the name are two steps: two who look at the same moment would each remove
 * what the other has made. The kernel lets go of the lock when its holder ends, whatever way; the file goes before the
 * lock does, so that one who waited for it sees that it is no longer the one at this path. -EBUSY, -errno.
 */
static int lock_path(const char *lock)
{
	for (int i = 0; i < LOCK_STEPS; i++) {
		_cleanup_close_ int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

		if (fd < 0)
			return -errno;
		if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
			if (is_file_at(fd, lock))
				return TAKE_FD(fd);
			continue; /* that of one who has finished meanwhile */
		}
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		(void)usleep(LOCK_STEP_USEC);
	}
	return -EBUSY;
}

/* With the lock held. */
static int listen_at(int fd, const struct sockaddr_un *un, int backlog)
{
	struct stat st;
	mode_t mask;
	int r;

	/* Somebody is there as well where its queue is full (EAGAIN), or where it is of another kind (EPROTOTYPE). */
	if (connect(fd, (const struct sockaddr *)un, sizeof(*un)) == 0 || errno == EAGAIN || errno == EPROTOTYPE)
		return -EADDRINUSE;
	if (lstat(un->sun_path, &st) == 0) {
		if (!S_ISSOCK(st.st_mode))
			return -EEXIST;
		(void)unlink(un->sun_path);
	}
	mask = umask(0117);
	r = bind(fd, (const struct sockaddr *)un, sizeof(*un)) < 0 || listen(fd, backlog) < 0 ? -errno : 0;
	(void)umask(mask);
	return r;
}

int unix_listen(const char *path, int backlog)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), held = -1;
	char lock[sizeof(((struct sockaddr_un *)NULL)->sun_path) + sizeof(LOCK_SUFFIX)];
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int r;

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof(un.sun_path))
		return -ENAMETOOLONG;
	(void)strcpy(un.sun_path, path);
	(void)snprintf(lock, sizeof(lock), "%s" LOCK_SUFFIX, path);
	r = make_parent(path);
	if (r < 0)
		return r;
	held = lock_path(lock);
	if (held < 0)
		return held;
	r = listen_at(fd, &un, backlog);
	(void)unlink(lock);
	return r < 0 ? r : TAKE_FD(fd);
}
