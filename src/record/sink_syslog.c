/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "record/sink.h"

/* What receivers take by default: the oldest of them, and rsyslog, whose limit is 8 KiB. */
#define LINE_MAX_BYTES 1024
#define CEE_MAX_BYTES 8100

struct sink_syslog {
	struct sink sink;
	char *path;
	int is_cee, fd, type;
	char hostname[65];
};

int sink_connect(const char *path, int *ret_type)
{
	static const int types[] = { SOCK_DGRAM, SOCK_STREAM };
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int err = -EPROTOTYPE;

	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);
	for (size_t i = 0; i < ARRAY_SIZE(types) && err == -EPROTOTYPE; i++) {
		/* Non-blocking until connected: a stream's receiver that accepts nobody would hold us for ever. */
		_cleanup_close_ int fd = socket(AF_UNIX, types[i] | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		if (fd < 0)
			return -errno;
		if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0) {
			err = -errno;
			continue;
		}
		if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) < 0)
			return -errno;
		*ret_type = types[i];
		return TAKE_FD(fd);
	}
	return err;
}

static int send_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static int syslog_connect(struct sink_syslog *s)
{
	int fd = sink_connect(s->path, &s->type);

	if (fd < 0)
		return fd;
	closep(&s->fd);
	s->fd = fd;
	return 0;
}

static int syslog_write(struct sink *sink, const struct record *r)
{
	struct sink_syslog *s = (struct sink_syslog *)sink;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	int err;

	record_syslog(r, s->hostname, (uint32_t)getpid(), s->is_cee, s->is_cee ? CEE_MAX_BYTES : LINE_MAX_BYTES, &line);
	if (s->type == SOCK_STREAM)
		strbuf_addc(&line, '\n');
	if (line.error)
		return line.error;
	err = send_all(s->fd, line.buf, line.len);
	if (err == 0 || err == -EMSGSIZE || err == -ENOMEM)
		return err;
	/* The receiver was restarted and listens at a new socket. */
	err = syslog_connect(s);
	if (err < 0)
		return err;
	return send_all(s->fd, line.buf, line.len);
}

static void syslog_close(struct sink *sink)
{
	struct sink_syslog *s = (struct sink_syslog *)sink;

	closep(&s->fd);
	free(s->path);
	free(s);
}

static const struct sink_ops syslog_ops = { SINK_SYSLOG, syslog_write, syslog_close };

int sink_syslog_open(const char *socket_path, int is_cee, struct sink **ret)
{
	struct sink_syslog *s;
	int err;

	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->sink.ops = &syslog_ops;
	s->is_cee = is_cee;
	s->fd = -1;
	if (gethostname(s->hostname, sizeof(s->hostname) - 1) < 0)
		s->hostname[0] = '\0';
	s->path = strdup(socket_path);
	err = s->path ? syslog_connect(s) : -ENOMEM;
	if (err < 0) {
		syslog_close(&s->sink);
		return err;
	}
	*ret = &s->sink;
	return 0;
}
