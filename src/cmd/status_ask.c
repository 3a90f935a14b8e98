/* SPDX-License-Identifier: MIT */
/* The asking end of the status socket. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "cmd/status_server.h"

#define ANSWER_MAX (256u << 20)
/* One that hangs lets others queue, and then wait. */
#define CONNECT_SEC 10

const char *status_socket_default(void)
{
	const char *s = getenv("GPUXRAY_SOCKET");

	return s && s[0] ? s : "/run/gpuxray/status.sock";
}

static int address(const char *path, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(ret->sun_path))
		return -ENAMETOOLONG;
	memcpy(ret->sun_path, path, strlen(path) + 1);
	return 0;
}

int status_connect(const char *path, int *ret_fd)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const struct timeval limit = { .tv_sec = CONNECT_SEC };
	struct sockaddr_un sa;
	int r = address(path, &sa);

	if (r < 0)
		return r;
	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int status_ask(const char *path, bool json, char **ret)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct timeval limit = { .tv_sec = 10 };
	_cleanup_close_ int fd = -1;
	int r = status_connect(path, &fd);

	if (r < 0)
		return r;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (send(fd, json ? "json\n" : "text\n", 5, MSG_NOSIGNAL) != 5)
		return -EIO;
	for (;;) {
		char part[16384];
		ssize_t n = read(fd, part, sizeof(part));

		if (n < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		if (n == 0)
			return sb.len ? strbuf_steal(&sb, ret) : -EBUSY;
		/* Who listens there may be anybody. */
		if (sb.len + (size_t)n > ANSWER_MAX)
			return -E2BIG;
		strbuf_add(&sb, part, (size_t)n);
		if (sb.error)
			return sb.error;
	}
}

/* Some bytes more. Their number, 0 at the end, -ETIMEDOUT, -errno. */
static ssize_t receive(int fd, void *buf, size_t size, uint64_t until_ns)
{
	for (;;) {
		uint64_t now = clock_monotonic_ns();
		struct pollfd p = { .fd = fd, .events = POLLIN };
		bool is_over = now >= until_ns;
		ssize_t n;

		/* What is there counts, however late we look: a shell may have stopped us meanwhile. */
		n = poll(&p, 1, is_over ? 0 : (int)((until_ns - now) / NSEC_PER_MSEC) + 1);
		if (n == 0 && is_over)
			return -ETIMEDOUT;
		if (n == 0)
			continue;
		if (n > 0)
			n = recv(fd, buf, size, MSG_DONTWAIT);
		if (n >= 0)
			return n;
		if (errno != EAGAIN && errno != EINTR)
			return errno == ECONNRESET ? 0 : -errno;
	}
}

/* The line before an answer; it comes byte by byte, so that nothing behind it is taken. */
static int receive_length(int fd, uint64_t until_ns, size_t *ret)
{
	char head[24];
	uint64_t len;

	for (size_t i = 0; i < sizeof(head); i++) {
		ssize_t n = receive(fd, head + i, 1, until_ns);

		if (n <= 0)
			return n < 0 ? (int)n : -ENOTCONN;
		if (head[i] != '\n')
			continue;
		head[i] = '\0';
		if (parse_u64(head, &len) < 0)
			return -EPROTO;
		*ret = len;
		return len > ANSWER_MAX ? -E2BIG : 0;
	}
	return -EPROTO;
}

static int send_line(int fd, const char *line)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	ssize_t n;

	strbuf_adds(&sb, line);
	strbuf_addc(&sb, '\n');
	if (sb.error)
		return sb.error;
	/* It fits into any socket's buffer. */
	n = send(fd, sb.buf, sb.len, MSG_NOSIGNAL);
	if (n < 0)
		return errno == EPIPE || errno == ECONNRESET ? -ENOTCONN : errno == EAGAIN ? -ETIMEDOUT : -errno;
	return (size_t)n == sb.len ? 0 : -EIO;
}

int status_ask_on(int fd, const char *line, int timeout_ms, char **ret, size_t *ret_len)
{
	uint64_t until = clock_monotonic_ns() + (uint64_t)timeout_ms * NSEC_PER_MSEC;
	_cleanup_free_ char *answer = NULL;
	size_t len = 0, got = 0;
	int r = send_line(fd, line);

	if (r == 0)
		r = receive_length(fd, until, &len);
	if (r < 0)
		return r;
	answer = malloc(len + 1);
	if (!answer)
		return -ENOMEM;
	while (got < len) {
		ssize_t n = receive(fd, answer + got, len - got, until);

		if (n <= 0)
			return n < 0 ? (int)n : -ENOTCONN;
		got += (size_t)n;
	}
	answer[len] = '\0';
	*ret = TAKE_PTR(answer);
	*ret_len = len;
	return 0;
}
