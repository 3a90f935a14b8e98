/* SPDX-License-Identifier: MIT */
#include "cmd/status_server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

#define CLIENTS_MAX 8
#define CLIENT_TIMEOUT_USEC (5 * USEC_PER_SEC)

struct client {
	struct status_server *server;
	int fd;
	char request[16];
	size_t request_len;
	char *answer;
	size_t answer_len, sent;
	sd_event_source *io, *timer;
};

struct status_server {
	sd_event *event;
	char *path;
	int fd;
	sd_event_source *io;
	status_fn fn;
	void *userdata;
	struct client *clients[CLIENTS_MAX];
};

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

static void client_free(struct client *c)
{
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		if (c->server->clients[i] == c)
			c->server->clients[i] = NULL;
	sd_event_source_disable_unref(c->io);
	sd_event_source_disable_unref(c->timer);
	if (c->fd >= 0)
		(void)close(c->fd);
	free(c->answer);
	free(c);
}

static int on_timeout(sd_event_source *s, uint64_t usec, void *userdata)
{
	client_free(userdata);
	return 0;
}

/* 1 when the request is complete. */
static int read_request(struct client *c)
{
	ssize_t n = read(c->fd, c->request + c->request_len, sizeof(c->request) - 1 - c->request_len);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	c->request_len += (size_t)n;
	c->request[c->request_len] = '\0';
	return n == 0 || strchr(c->request, '\n') || c->request_len == sizeof(c->request) - 1;
}

static int make_answer(struct client *c)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	c->server->fn(strncmp(c->request, "json", 4) == 0, &sb, c->server->userdata);
	c->answer_len = sb.len;
	return strbuf_steal(&sb, &c->answer);
}

static int on_client(sd_event_source *s, int fd, uint32_t revents, void *userdata)
{
	struct client *c = userdata;
	int r = 1;

	if (!c->answer) {
		r = read_request(c);
		if (r > 0)
			r = make_answer(c);
		if (r < 0)
			goto end;
		if (!c->answer)
			return 0;
		(void)sd_event_source_set_io_events(s, EPOLLOUT);
	}
	while (c->sent < c->answer_len) {
		ssize_t n = send(fd, c->answer + c->sent, c->answer_len - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n < 0)
			goto end;
		c->sent += (size_t)n;
	}
end:
	client_free(c);
	return 0;
}

static int on_connect(sd_event_source *s, int fd, uint32_t revents, void *userdata)
{
	struct status_server *server = userdata;
	struct client *c;
	size_t slot = 0;
	int own = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (own < 0)
		return 0;
	while (slot < CLIENTS_MAX && server->clients[slot])
		slot++;
	c = slot < CLIENTS_MAX ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		close(own);
		return 0;
	}
	c->server = server;
	c->fd = own;
	server->clients[slot] = c;
	if (sd_event_add_io(server->event, &c->io, own, EPOLLIN, on_client, c) < 0 ||
	    sd_event_add_time_relative(server->event, &c->timer, CLOCK_MONOTONIC, CLIENT_TIMEOUT_USEC, 0, on_timeout, c) < 0)
		client_free(c);
	return 0;
}

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

int status_server_new(sd_event *event, const char *path, status_fn fn, void *userdata, struct status_server **ret)
{
	_cleanup_(status_server_freep) struct status_server *s = calloc(1, sizeof(*s));
	struct sockaddr_un sa;
	struct stat st;
	mode_t mask;
	int r;

	if (!s)
		return -ENOMEM;
	s->fd = -1;
	r = address(path, &sa);
	if (r == 0)
		r = make_parent(path);
	if (r < 0)
		return r;
	s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0)
		return -errno;
	/* EAGAIN: its queue is full, so somebody is there. */
	if (connect(s->fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 || errno == EAGAIN)
		return -EADDRINUSE;
	if (lstat(path, &st) == 0) {
		if (!S_ISSOCK(st.st_mode))
			return -EEXIST;
		/* Left behind by a daemon that was killed. */
		(void)unlink(path);
	}
	mask = umask(0117);
	r = bind(s->fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ? -errno : 0;
	(void)umask(mask);
	if (r < 0)
		return r;
	s->path = strdup(path);
	if (!s->path)
		return -ENOMEM;
	if (listen(s->fd, CLIENTS_MAX) < 0)
		return -errno;
	s->event = event;
	s->fn = fn;
	s->userdata = userdata;
	r = sd_event_add_io(event, &s->io, s->fd, EPOLLIN, on_connect, s);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(s);
	return 0;
}

void status_server_free(struct status_server *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		if (s->clients[i])
			client_free(s->clients[i]);
	sd_event_source_disable_unref(s->io);
	if (s->fd >= 0)
		(void)close(s->fd);
	if (s->path)
		(void)unlink(s->path);
	free(s->path);
	free(s);
}

int status_ask(const char *path, bool json, char **ret)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct timeval limit = { .tv_sec = 10 };
	struct sockaddr_un sa;
	int r = address(path, &sa);

	if (r < 0)
		return r;
	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return -errno;
	if (send(fd, json ? "json\n" : "text\n", 5, MSG_NOSIGNAL) != 5)
		return -EIO;
	for (;;) {
		char part[16384];
		ssize_t n = read(fd, part, sizeof(part));

		if (n < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		if (n == 0)
			return sb.len ? strbuf_steal(&sb, ret) : -EBUSY;
		strbuf_add(&sb, part, (size_t)n);
	}
}
