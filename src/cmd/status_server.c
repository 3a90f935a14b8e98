/* SPDX-License-Identifier: MIT */
#include "cmd/status_server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unix_listen.h"

#define CLIENTS_MAX 24
#define SESSIONS_MAX 16 /* of them: who asks once always finds room */
/* A question must have come, or a part of the answer gone, within this time. */
#define CLIENT_TIMEOUT_USEC (5 * USEC_PER_SEC)
/* A session may rest longer: who looks at a screen once an hour. */
#define SESSION_TIMEOUT_USEC (7200 * USEC_PER_SEC)
#define REQUEST_MAX 8192

struct status_client {
	struct status_server *server;
	uint64_t id;
	int fd;
	char *request; /* as far as it has come */
	size_t request_len;
	char *answer;
	size_t answer_len, sent;
	bool is_session, is_only; /* is_only: the loop ends with it */
	bool is_waiting;	  /* for status_answer() */
	void *data;
	void (*data_done)(void *data);
	sd_event_source *io, *timer;
};

struct status_server {
	sd_event *event;
	char *path;
	int fd;
	sd_event_source *io;
	status_fn fn;
	void *userdata;
	uint64_t ids;
	struct status_client *clients[CLIENTS_MAX];
};

static void client_free(struct status_client *c)
{
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		if (c->server->clients[i] == c)
			c->server->clients[i] = NULL;
	if (c->is_only)
		(void)sd_event_exit(c->server->event, 0);
	if (c->data_done)
		c->data_done(c->data);
	sd_event_source_disable_unref(c->io);
	sd_event_source_disable_unref(c->timer);
	if (c->fd >= 0)
		(void)close(c->fd);
	free(c->request);
	free(c->answer);
	free(c);
}

static int on_timeout(sd_event_source *s, uint64_t usec, void *userdata)
{
	client_free(userdata);
	return 0;
}

static void rest(struct status_client *c, uint64_t usec)
{
	(void)sd_event_source_set_time_relative(c->timer, usec);
	(void)sd_event_source_set_enabled(c->timer, c->is_only ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

/* 1 when the request is complete; -errno, also when the other end is closed. */
static int read_request(struct status_client *c)
{
	char *end;
	ssize_t n;

	if (!c->request)
		c->request = malloc(REQUEST_MAX);
	if (!c->request)
		return -ENOMEM;
	n = read(c->fd, c->request + c->request_len, REQUEST_MAX - 1 - c->request_len);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0 && (c->is_session || c->is_only))
		return -ENOTCONN;
	c->request_len += (size_t)n;
	c->request[c->request_len] = '\0';
	end = strchr(c->request, '\n');
	if (end)
		*end = '\0'; /* nobody asks on before he has the answer */
	return n == 0 || end ? 1 : c->request_len == REQUEST_MAX - 1 ? -E2BIG : 0;
}

/* The answer, with its length before it where more follow. Takes text. */
static int set_answer(struct status_client *c, char *text, size_t len)
{
	_cleanup_free_ char *taken = text;
	char head[32];
	int n = 0;

	if (!text)
		return -ENOMEM;
	if (c->is_session)
		n = snprintf(head, sizeof(head), "%zu\n", len);
	c->answer = malloc((size_t)n + len + 1);
	if (!c->answer)
		return -ENOMEM;
	memcpy(c->answer, head, (size_t)n);
	memcpy(c->answer + n, taken, len);
	c->answer_len = (size_t)n + len;
	c->sent = 0;
	free(TAKE_PTR(c->request));
	c->request_len = 0;
	return 0;
}

static bool may_be_session(const struct status_client *c)
{
	size_t n = 0;

	for (size_t i = 0; i < CLIENTS_MAX; i++)
		n += c->server->clients[i] && c->server->clients[i]->is_session;
	return c->is_session || n < SESSIONS_MAX;
}

static int make_answer(struct status_client *c)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	_cleanup_free_ char *text = NULL;
	int r = c->server->fn(c, c->request, &sb, c->server->userdata);
	size_t len = sb.len;

	if (r < 0)
		return r;
	if (r != STATUS_DONE && !may_be_session(c))
		return -EBUSY;
	c->is_session = r != STATUS_DONE;
	c->is_waiting = r == STATUS_LATER;
	if (c->is_waiting) {
		rest(c, SESSION_TIMEOUT_USEC);
		return 0;
	}
	r = strbuf_steal(&sb, &text);
	return r < 0 ? r : set_answer(c, TAKE_PTR(text), len);
}

/* 0: it goes on; else the client is to go. */
static int send_answer(struct status_client *c)
{
	while (c->sent < c->answer_len) {
		ssize_t n = send(c->fd, c->answer + c->sent, c->answer_len - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n < 0)
			return -errno;
		c->sent += (size_t)n;
		rest(c, CLIENT_TIMEOUT_USEC);
	}
	if (!c->is_session)
		return -ENOTCONN;
	free(TAKE_PTR(c->answer));
	rest(c, SESSION_TIMEOUT_USEC);
	return sd_event_source_set_io_events(c->io, EPOLLIN);
}

static int step(struct status_client *c)
{
	int r;

	if (c->answer)
		return send_answer(c);
	r = read_request(c);
	if (r <= 0)
		return r;
	if (c->is_waiting)
		return -EPROTO;
	r = make_answer(c);
	if (r < 0 || !c->answer)
		return r;
	(void)sd_event_source_set_io_events(c->io, EPOLLOUT);
	return send_answer(c);
}

static int on_client(sd_event_source *s, int fd, uint32_t revents, void *userdata)
{
	if (step(userdata) < 0)
		client_free(userdata);
	return 0;
}

void status_answer(struct status_client *c, char *text)
{
	int r = set_answer(c, text, text ? strlen(text) : 0);

	c->is_waiting = false;
	rest(c, CLIENT_TIMEOUT_USEC);
	if (r == 0)
		r = sd_event_source_set_io_events(c->io, EPOLLOUT);
	if (r < 0)
		client_free(c);
}

uint64_t status_client_id(const struct status_client *c)
{
	return c->id;
}

struct status_client *status_server_client(struct status_server *s, uint64_t id)
{
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		if (s->clients[i] && s->clients[i]->id == id)
			return s->clients[i];
	return NULL;
}

void status_client_set_data(struct status_client *c, void *data, void (*done)(void *data))
{
	c->data = data;
	c->data_done = done;
}

void *status_client_data(const struct status_client *c)
{
	return c->data;
}

void *status_server_next_data(const struct status_server *s, size_t *iter)
{
	while (*iter < CLIENTS_MAX) {
		const struct status_client *c = s->clients[(*iter)++];

		if (c && c->data)
			return c->data;
	}
	return NULL;
}

/* Takes fd. */
static int add_client(struct status_server *server, int fd, bool is_only)
{
	struct status_client *c;
	size_t slot = 0;
	int r;

	while (slot < CLIENTS_MAX && server->clients[slot])
		slot++;
	c = slot < CLIENTS_MAX ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		(void)close(fd);
		return slot < CLIENTS_MAX ? -ENOMEM : -EBUSY;
	}
	c->server = server;
	c->id = ++server->ids;
	c->fd = fd;
	server->clients[slot] = c;
	r = sd_event_add_io(server->event, &c->io, fd, EPOLLIN, on_client, c);
	if (r >= 0)
		r = sd_event_add_time_relative(server->event, &c->timer, CLOCK_MONOTONIC, CLIENT_TIMEOUT_USEC, 0, on_timeout, c);
	if (r < 0) {
		client_free(c);
		return r;
	}
	c->is_only = is_only;
	if (is_only)
		rest(c, 0);
	return 0;
}

static int on_connect(sd_event_source *s, int fd, uint32_t revents, void *userdata)
{
	int own = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (own >= 0)
		(void)add_client(userdata, own, false);
	return 0;
}

int status_server_add(struct status_server *s, int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		flags = -errno;
		(void)close(fd);
		return flags;
	}
	return add_client(s, fd, true);
}

static int listen_at(struct status_server *s, const char *path)
{
	s->path = strdup(path);
	if (!s->path)
		return -ENOMEM;
	s->fd = unix_listen(path, CLIENTS_MAX);
	return s->fd < 0 ? s->fd : sd_event_add_io(s->event, &s->io, s->fd, EPOLLIN, on_connect, s);
}

int status_server_new(sd_event *event, const char *path, status_fn fn, void *userdata, struct status_server **ret)
{
	_cleanup_(status_server_freep) struct status_server *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->fd = -1;
	s->event = event;
	s->fn = fn;
	s->userdata = userdata;
	r = path ? listen_at(s, path) : 0;
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
	/* The name first: once nobody listens, the next daemon may make its own. */
	if (s->fd >= 0) {
		(void)unlink(s->path);
		(void)close(s->fd);
	}
	free(s->path);
	free(s);
}
