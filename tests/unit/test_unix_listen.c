/* SPDX-License-Identifier: MIT */
/* One name, several who want it. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/unix_listen.h"
#include "test.h"

#define ROUNDS 300
#define RIVALS 6

static char folder[] = "/tmp/test_unix_listen.XXXXXX", path[64], lock[72];

__attribute__((constructor)) static void begin(void)
{
	if (!mkdtemp(folder))
		abort();
	(void)snprintf(path, sizeof(path), "%s/sock", folder);
	(void)snprintf(lock, sizeof(lock), "%s.lock", path);
}

__attribute__((destructor)) static void end(void)
{
	(void)unlink(path);
	(void)unlink(lock);
	(void)rmdir(folder);
}

/* As a program leaves it that was killed. */
static void leave_socket(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)unlink(path);
	(void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
	ASSERT(fd >= 0 && bind(fd, (struct sockaddr *)&un, sizeof(un)) == 0);
}

/* In a child: waits for the start, says how it went, and holds what it has until all have said so. */
static _noreturn_ void rival(int start, int said, int over)
{
	char c;
	int r;

	(void)!read(start, &c, 1);
	r = unix_listen(path, 1);
	c = (char)(r >= 0 ? 'y' : r == -EADDRINUSE ? 'n' : '?');
	(void)!write(said, &c, 1);
	(void)!read(over, &c, 1);
	_exit(0);
}

static void one_round(size_t *won, size_t *refused)
{
	int start[2], said[2], over[2];
	char c;

	ASSERT(pipe(start) == 0 && pipe(said) == 0 && pipe(over) == 0);
	for (int i = 0; i < RIVALS; i++) {
		if (fork() == 0) {
			(void)close(start[1]);
			(void)close(over[1]);
			rival(start[0], said[1], over[0]);
		}
	}
	(void)close(start[1]);
	for (int i = 0; i < RIVALS; i++) {
		ASSERT(read(said[0], &c, 1) == 1);
		*won += c == 'y';
		*refused += c == 'n';
	}
	(void)close(over[1]);
	while (wait(NULL) > 0)
		;
	(void)close(start[0]);
	(void)close(said[0]);
	(void)close(said[1]);
	(void)close(over[0]);
}

TEST(of_those_who_start_at_once_one_gets_it)
{
	size_t won = 0, refused = 0;
	struct stat st;

	for (int i = 0; i < ROUNDS; i++) {
		if (i % 2)
			leave_socket();
		else
			(void)unlink(path);
		one_round(&won, &refused);
	}
	EXPECT_EQ(won, ROUNDS);
	EXPECT_EQ(refused, ROUNDS * (RIVALS - 1));
	EXPECT(lstat(lock, &st) < 0 && errno == ENOENT);
}

TEST(a_lock_that_was_left_is_none)
{
	_cleanup_close_ int left = creat(lock, 0600), fd = -1;
	struct stat st;

	ASSERT(left >= 0);
	(void)unlink(path);
	fd = unix_listen(path, 1);
	EXPECT(fd >= 0);
	EXPECT_EQ(unix_listen(path, 1), -EADDRINUSE);
	EXPECT(lstat(lock, &st) < 0 && errno == ENOENT);
}

TEST(one_that_stands_still_with_the_lock_holds_nobody_for_ever)
{
	_cleanup_close_ int held = creat(lock, 0600);

	ASSERT(held >= 0 && flock(held, LOCK_EX) == 0);
	(void)unlink(path);
	EXPECT_EQ(unix_listen(path, 1), -EBUSY);
	(void)unlink(lock);
}

TEST(what_is_no_socket_stays)
{
	_cleanup_close_ int file = -1;
	struct stat st;

	(void)unlink(path);
	file = creat(path, 0600);
	ASSERT(file >= 0);
	EXPECT_EQ(unix_listen(path, 1), -EEXIST);
	EXPECT(lstat(path, &st) == 0 && S_ISREG(st.st_mode));
	EXPECT(lstat(lock, &st) < 0);
}

TEST_MAIN()
