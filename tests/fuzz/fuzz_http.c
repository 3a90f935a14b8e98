/* SPDX-License-Identifier: MIT */
/*
 * What strangers send the metrics' listener, and where it listens. The first byte picks: a an address of the configuration,
 * h a Host header, n an Accept header, r a request, sent over a connection to a server as it comes (libmicrohttpd takes it
 * to pieces, what follows is ours).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/server_private.h"

#define TURNS_MAX 200

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is understood means the same when it is written as it was understood. */
static void fuzz_address(const char *text)
{
	char error[HTTP_ADDRESS_ERROR_MAX] = "", again[HTTP_ADDRESS_ERROR_MAX];
	struct http_address a, b;

	if (http_address_parse(text, &a, error) < 0) {
		if (!error[0] || strlen(error) >= sizeof(error))
			abort();
		return;
	}
	if (strlen(a.host) >= sizeof(a.host) || strlen(a.path) >= sizeof(a.path) || (a.kind == HTTP_UNIX && a.path[0] != '/'))
		abort();
	if (a.kind != HTTP_IP)
		return;
	(void)snprintf(again, sizeof(again), strchr(a.host, ':') ? "[%s]:%u" : "%s:%u", a.host, a.port);
	if (http_address_parse(again, &b, error) < 0 || strcmp(a.host, b.host) != 0 || a.port != b.port ||
	    http_address_is_local(&a) != http_address_is_local(&b))
		abort();
}

/* A site's name is never taken for ours: with a label of letters behind a dot before it, and no bracket. */
static void fuzz_host(const char *text)
{
	char name[512];

	(void)http_host_is_local(text);
	(void)snprintf(name, sizeof(name), "%.200s.example", text);
	if (!strpbrk(name, ":[") && http_host_is_local(name))
		abort();
}

static int render(enum metrics_format format, struct strbuf *sb, char *reterr, size_t size, void *userdata)
{
	strbuf_adds(sb, format == METRICS_OPENMETRICS ? "open 1\n# EOF\n" : "plain 1\n");
	return 0;
}

static struct world {
	sd_event *event;
	struct http_server *server;
	struct sockaddr_in in;
} world;

static void begin(void)
{
	socklen_t len = sizeof(world.in);
	char why[256] = "";

	(void)signal(SIGPIPE, SIG_IGN);
	if (sd_event_new(&world.event) < 0 ||
	    http_server_new(world.event, "127.0.0.1:0", render, NULL, &world.server, why, sizeof(why)) < 0 ||
	    getsockname(world.server->listeners[0].fd, (struct sockaddr *)&world.in, &len) < 0) {
		fprintf(stderr, "%s\n", why);
		abort();
	}
}

/* Each ends, with an answer of HTTP or none; the connection is reset at our end so that none lingers. */
static void fuzz_request(const uint8_t *data, size_t size)
{
	const struct linger reset = { .l_onoff = 1 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char answer[4096];
	ssize_t n;

	if (!world.server)
		begin();
	if (fd < 0 || connect(fd, (struct sockaddr *)&world.in, sizeof(world.in)) < 0)
		abort();
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	if (size)
		(void)send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)shutdown(fd, SHUT_WR);
	for (int i = 0; i < 3; i++)
		(void)sd_event_run(world.event, 0);
	n = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
	if (n > 0 && (n < 9 || memcmp(answer, "HTTP/1.", 7) != 0))
		abort();
	(void)close(fd);
	for (int i = 0; world.server->connections; i++) {
		if (i == TURNS_MAX)
			abort();
		(void)sd_event_run(world.event, 50000);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size == 0)
		return 0;
	if (data[0] == 'r') {
		fuzz_request(data + 1, size - 1);
		return 0;
	}
	text = malloc(size);
	if (!text)
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	if (data[0] == 'a')
		fuzz_address(text);
	else if (data[0] == 'h')
		fuzz_host(text);
	else if (data[0] == 'n' && metrics_negotiate(text) == METRICS_OPENMETRICS &&
		 !strcasestr(text, "application/openmetrics-text"))
		abort();
	free(text);
	return 0;
}
