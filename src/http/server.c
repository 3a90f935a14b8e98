/* SPDX-License-Identifier: MIT */
/* Connections and the event loop. */
#include "http/server.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "http/server_private.h"

/* For the client to ask: counted in all, as one byte now and then would keep a connection for ever. */
#define ASK_NS (10 * NSEC_PER_SEC)
#define IDLE_SEC 10u
#define CONNECTION_BYTES ((size_t)16 << 10)
/* How often deadlines are looked at while there are connections. */
#define SWEEP_USEC (USEC_PER_SEC / 4)
/* Those above HTTP_CONNECTIONS_MAX are shut, but MHD has not let go of them yet. */
#define MHD_CONNECTIONS_MAX (2u * HTTP_CONNECTIONS_MAX)

void http_cut(struct http_connection *c)
{
	c->is_cut = true;
	(void)shutdown(c->fd, SHUT_RDWR);
}

/* Who has not asked yet goes before who reads an answer; among these the oldest. */
static void make_room(struct http_server *s)
{
	struct http_connection *oldest = NULL;
	size_t open = 0;

	for (struct http_connection *c = s->first; c; c = c->next) {
		if (c->is_cut)
			continue;
		open++;
		if (!oldest || (oldest->is_answered && !c->is_answered))
			oldest = c;
	}
	if (open >= HTTP_CONNECTIONS_MAX && oldest)
		http_cut(oldest);
}

static void connection_started(struct http_server *s, struct MHD_Connection *mc, void **context)
{
	const union MHD_ConnectionInfo *info = s->mhd->get_connection_info(mc, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct http_connection *c = calloc(1, sizeof(*c));

	*context = c;
	if (!c || !info) { /* its request will be refused */
		free(c);
		*context = NULL;
		return;
	}
	make_room(s);
	c->server = s;
	c->fd = info->connect_fd;
	c->deadline_ns = clock_monotonic_ns() + ASK_NS;
	c->prev = s->last;
	*(s->last ? &s->last->next : &s->first) = c;
	s->last = c;
	s->connections++;
}

static void connection_closed(struct http_server *s, struct http_connection *c)
{
	http_body_release(c);
	*(c->prev ? &c->prev->next : &s->first) = c->next;
	*(c->next ? &c->next->prev : &s->last) = c->prev;
	s->connections--;
	free(c);
}

static void on_connection(void *cls, struct MHD_Connection *mc, void **context, enum MHD_ConnectionNotificationCode what)
{
	struct http_listener *l = cls;

	if (what == MHD_CONNECTION_NOTIFY_STARTED)
		connection_started(l->server, mc, context);
	else if (*context)
		connection_closed(l->server, TAKE_PTR(*(struct http_connection **)context));
}

/* MHD does not see an end that came with the last bytes of half a request: it would wait for the rest. */
static bool has_hung_up(const struct http_connection *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLRDHUP };

	return !c->is_answered && poll(&p, 1, 0) > 0;
}

static void cut_late(struct http_server *s)
{
	const uint64_t now = clock_monotonic_ns();

	for (struct http_connection *c = s->first; c; c = c->next) {
		if (!c->is_cut && (now >= c->deadline_ns || has_hung_up(c)))
			http_cut(c);
	}
}

/* MHD may have more to do without any socket saying so. */
static int arm_timer(struct http_server *s)
{
	uint64_t wait = s->connections ? SWEEP_USEC : UINT64_MAX;

	for (size_t i = 0; i < s->listeners_len; i++) {
		MHD_UNSIGNED_LONG_LONG ms;

		if (s->mhd->get_timeout(s->listeners[i].daemon, &ms) == MHD_YES)
			wait = MIN(wait, (uint64_t)ms * 1000);
	}
	if (wait == UINT64_MAX)
		return sd_event_source_set_enabled(s->timer, SD_EVENT_OFF);
	(void)sd_event_source_set_time_relative(s->timer, wait);
	return sd_event_source_set_enabled(s->timer, SD_EVENT_ONESHOT);
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct http_listener *l = userdata;

	(void)l->server->mhd->run(l->daemon);
	return arm_timer(l->server);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct http_server *s = userdata;

	cut_late(s);
	for (size_t i = 0; i < s->listeners_len; i++)
		(void)s->mhd->run(s->listeners[i].daemon);
	return arm_timer(s);
}

/* Takes the socket in any case. 0 or -errno. */
static int start_listener(struct http_server *s, sd_event *event, int fd)
{
	struct http_listener *l = &s->listeners[s->listeners_len];
	const union MHD_DaemonInfo *info;
	int r;

	l->server = s;
	l->fd = fd;
	errno = 0;
	l->daemon = s->mhd->start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, http_answer, l, MHD_OPTION_LISTEN_SOCKET, fd,
					 MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES, MHD_OPTION_CONNECTION_LIMIT,
					 MHD_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SEC,
					 MHD_OPTION_NOTIFY_CONNECTION, on_connection, l, MHD_OPTION_END);
	if (!l->daemon) {
		r = errno ? -errno : -EIO;
		(void)close(fd);
		return r;
	}
	s->listeners_len++;
	info = s->mhd->get_daemon_info(l->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info || info->epoll_fd < 0)
		return -EOPNOTSUPP;
	return sd_event_add_io(event, &l->io, info->epoll_fd, EPOLLIN, on_io, l);
}

static int start(struct http_server *s, sd_event *event, const struct http_sockets *sockets)
{
	int r = sd_event_add_time_relative(event, &s->timer, CLOCK_MONOTONIC, 0, 1000, on_timer, s);

	if (r >= 0)
		r = sd_event_source_set_enabled(s->timer, SD_EVENT_OFF);
	for (size_t i = 0; i < sockets->len; i++) {
		if (r >= 0)
			r = start_listener(s, event, sockets->fds[i]);
		else
			(void)close(sockets->fds[i]);
	}
	return r < 0 ? r : 0;
}

int http_server_new(sd_event *event, const char *listen, http_render_fn render, void *userdata, struct http_server **ret,
		    char *reterr, size_t size)
{
	_cleanup_(http_server_freep) struct http_server *s = calloc(1, sizeof(*s));
	char error[HTTP_ADDRESS_ERROR_MAX];
	struct http_address address;
	struct http_sockets sockets;
	int r;

	(void)snprintf(reterr, size, "out of memory");
	if (!s)
		return -ENOMEM;
	s->render = render;
	s->userdata = userdata;
	r = http_address_parse(listen, &address, error);
	if (r < 0) {
		(void)snprintf(reterr, size, "cannot listen: %s", error);
		return r;
	}
	s->is_local = http_address_is_local(&address);
	s->mhd = mhd_load(reterr, size);
	if (!s->mhd)
		return -ENOENT;
	r = http_listen(&address, &sockets, reterr, size);
	if (r < 0)
		return r;
	r = start(s, event, &sockets);
	if (address.kind == HTTP_UNIX) {
		s->path = strdup(address.path);
		r = s->path || r < 0 ? r : -ENOMEM;
	}
	if (r < 0) {
		(void)snprintf(reterr, size, "cannot listen on %s: %s", listen, strerror(-r));
		return r;
	}
	*ret = TAKE_PTR(s);
	return 0;
}

void http_server_free(struct http_server *s)
{
	if (!s)
		return;
	/* The name first: once nobody listens, the next program may make its own. */
	if (s->path)
		(void)unlink(s->path);
	for (size_t i = 0; i < s->listeners_len; i++) {
		sd_event_source_disable_unref(s->listeners[i].io);
		s->mhd->stop_daemon(s->listeners[i].daemon);
	}
	sd_event_source_disable_unref(s->timer);
	http_bodies_done(s);
	free(s->path);
	free(s);
}

void http_server_where(const struct http_server *s, struct strbuf *sb)
{
	for (size_t i = 0; i < s->listeners_len; i++) {
		char name[HTTP_NAME_MAX];

		(void)http_socket_name(s->listeners[i].fd, name);
		if (s->path)
			strbuf_adds(sb, name);
		else
			strbuf_addf(sb, "%shttp://%s/metrics", i ? " and " : "", name);
	}
}
