/* SPDX-License-Identifier: MIT */
#include "http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/unix_listen.h"

/* Connections that the kernel has taken and we have not. */
#define BACKLOG 64
/* "localhost" with a port of the kernel's choice: that one must be free for the other protocol too. */
#define PORTS_TRIED 16

union address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
	struct sockaddr_storage any;
};

const char *http_socket_name(int fd, char buf[HTTP_NAME_MAX])
{
	char host[HTTP_NAME_MAX - 10], port[8];
	union address u = {};
	socklen_t len = sizeof(u);

	if (getsockname(fd, &u.sa, &len) < 0)
		(void)snprintf(buf, HTTP_NAME_MAX, "?");
	else if (u.sa.sa_family == AF_UNIX)
		(void)snprintf(buf, HTTP_NAME_MAX, "unix:%.108s", u.un.sun_path);
	else if (getnameinfo(&u.sa, len, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		(void)snprintf(buf, HTTP_NAME_MAX, "?");
	else
		(void)snprintf(buf, HTTP_NAME_MAX, u.sa.sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
	return buf;
}

static uint16_t bound_port(int fd)
{
	union address u = {};
	socklen_t len = sizeof(u);

	if (getsockname(fd, &u.sa, &len) < 0)
		return 0;
	return ntohs(u.sa.sa_family == AF_INET6 ? u.in6.sin6_port : u.in.sin_port);
}

/* The descriptor or -errno. is_dual: IPv4 comes by it too. */
static int bind_ip(const union address *u, socklen_t len, bool is_dual)
{
	_cleanup_close_ int fd = socket(u->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int on = 1, only = !is_dual;

	if (fd < 0)
		return -errno;
	/* Connections of the one before us, which linger for a minute, are nobody's address. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    (u->sa.sa_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only)) < 0) ||
	    bind(fd, &u->sa, len) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int bind_v4(in_addr_t address, uint16_t port)
{
	const union address u = { .in = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = { htonl(address) } } };

	return bind_ip(&u, sizeof(u.in), false);
}

static int bind_v6(struct in6_addr address, uint16_t port, bool is_dual)
{
	const union address u = { .in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = address } };

	return bind_ip(&u, sizeof(u.in6), is_dual);
}

static bool is_absent(int err)
{
	return err == -EAFNOSUPPORT || err == -EADDRNOTAVAIL;
}

static int bind_any(uint16_t port)
{
	const int fd = bind_v6((struct in6_addr)IN6ADDR_ANY_INIT, port, true);

	return is_absent(fd) ? bind_v4(INADDR_ANY, port) : fd;
}

/* A port that only one of the two has free is refused: by "localhost" clients would reach now us, now the other. */
static int bind_localhost_once(uint16_t port, struct http_sockets *ret)
{
	_cleanup_close_ int v4 = bind_v4(INADDR_LOOPBACK, port), v6 = -1;

	if (v4 < 0 && !is_absent(v4))
		return v4;
	v6 = bind_v6((struct in6_addr)IN6ADDR_LOOPBACK_INIT, v4 >= 0 ? bound_port(v4) : port, false);
	if (v6 < 0 && (v4 < 0 || !is_absent(v6)))
		return v6;
	if (v4 >= 0)
		ret->fds[ret->len++] = TAKE_FD(v4);
	if (v6 >= 0)
		ret->fds[ret->len++] = TAKE_FD(v6);
	return 0;
}

static int bind_localhost(uint16_t port, struct http_sockets *ret)
{
	int r = bind_localhost_once(port, ret);

	for (int i = 1; r == -EADDRINUSE && port == 0 && i < PORTS_TRIED; i++)
		r = bind_localhost_once(port, ret);
	return r;
}

static int bind_numeric(const struct http_address *a)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
	struct addrinfo *list = NULL;
	union address u = {};
	char port[8];
	int r;

	(void)snprintf(port, sizeof(port), "%u", a->port);
	r = getaddrinfo(a->host, port, &hints, &list);
	if (r != 0) /* no interface is called like its scope */
		return r == EAI_MEMORY ? -ENOMEM : -EADDRNOTAVAIL;
	memcpy(&u, list->ai_addr, MIN(list->ai_addrlen, sizeof(u)));
	r = bind_ip(&u, list->ai_addrlen, false);
	freeaddrinfo(list);
	return r;
}

static const char *cure(const struct http_address *a, int err)
{
	switch (-err) {
	case EADDRINUSE:
		return a->kind == HTTP_UNIX ? "another program answers there: end it, or choose another path" :
					      "another program listens there (ss -ltnp shows which): end it, or choose another port";
	case EADDRNOTAVAIL:
		return "no interface has this address: write one that `ip address` shows, or \":PORT\" for all";
	case EAFNOSUPPORT:
		return "this host has no such protocol, or the unit is shut off from the network: gpuxray-metrics.conf beside it "
		       "lets it listen";
	case EACCES:
	case EPERM:
		return a->kind != HTTP_UNIX ? "ports below 1024 need CAP_NET_BIND_SERVICE: choose a higher one" :
					      "choose a path in /run/gpuxray, or run as root";
	case EEXIST:
		return "something that is no socket is there: remove it, or choose another path";
	}
	return "choose another address";
}

static void explain(const struct http_address *a, int err, char *reterr, size_t size)
{
	static const char *const places[] = { [HTTP_LOCALHOST] = "localhost", [HTTP_ANY] = "" };

	if (a->kind == HTTP_UNIX)
		(void)snprintf(reterr, size, "cannot listen on unix:%s: %s: %s", a->path, strerror(-err), cure(a, err));
	else
		(void)snprintf(reterr, size, strchr(a->host, ':') && a->kind == HTTP_IP ? "cannot listen on [%s]:%u: %s: %s" :
											    "cannot listen on %s:%u: %s: %s",
			       a->kind == HTTP_IP ? a->host : places[a->kind], a->port, strerror(-err), cure(a, err));
}

int http_listen(const struct http_address *a, struct http_sockets *ret, char *reterr, size_t size)
{
	int r = 0;

	*ret = (struct http_sockets){};
	if (a->kind == HTTP_LOCALHOST) {
		r = bind_localhost(a->port, ret);
	} else {
		r = a->kind == HTTP_UNIX ? unix_listen(a->path, BACKLOG) : a->kind == HTTP_ANY ? bind_any(a->port) : bind_numeric(a);
		if (r >= 0)
			ret->fds[ret->len++] = r;
	}
	if (r < 0)
		explain(a, r, reterr, size);
	return r < 0 ? r : 0;
}
