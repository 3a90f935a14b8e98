/* SPDX-License-Identifier: MIT */
/*
 * Both ends of the status socket. The first byte picks: s what a client sends the server (each 0xff ends a part, and the
 * server runs before the next comes), c what a server answers a client.
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd/status_server.h"

#define PARTS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct served {
	struct status_server *server;
	uint64_t waiting; /* the client that is answered later; 0 = none */
	size_t data;	  /* sessions that have some */
};

static void data_done(void *data)
{
	struct served *s = data;

	if (s->data-- == 0)
		abort();
}

/* Requests choose each way that an answer can take. */
static int answer(struct status_client *c, const char *request, struct strbuf *sb, void *userdata)
{
	struct served *s = userdata;

	if (strchr(request, '\n'))
		abort();
	if (strncmp(request, "view", 4) != 0) {
		strbuf_adds(sb, request);
		return request[0] == 'e' ? -EINVAL : STATUS_DONE;
	}
	if (!status_client_data(c)) {
		status_client_set_data(c, s, data_done);
		s->data++;
	}
	if (request[4] == 'l') {
		/* One that waits is asked nothing more. */
		if (s->waiting == status_client_id(c))
			abort();
		s->waiting = status_client_id(c);
		return STATUS_LATER;
	}
	if (request[4] == 'b')
		for (int i = 0; i < 20000; i++)
			strbuf_adds(sb, "more than fits into a socket, ");
	strbuf_adds(sb, request);
	return STATUS_MORE;
}

static void turn(struct served *s, sd_event *event, int fd)
{
	char buf[65536];

	for (int i = 0; i < 3 && sd_event_get_state(event) != SD_EVENT_FINISHED; i++)
		(void)sd_event_run(event, 0);
	while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
	if (s->waiting) {
		struct status_client *c = status_server_client(s->server, s->waiting);

		s->waiting = 0;
		if (c)
			status_answer(c, strdup("later"));
	}
}

static void fuzz_server(const uint8_t *data, size_t size)
{
	struct served s = {};
	sd_event *event;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 || sd_event_new(&event) < 0 ||
	    status_server_new(event, NULL, answer, &s, &s.server) < 0 || status_server_add(s.server, pair[1]) < 0)
		abort();
	for (int i = 0; i < PARTS_MAX && size; i++) {
		const uint8_t *end = memchr(data, 0xff, size);
		const size_t len = end ? (size_t)(end - data) : size;

		if (len && send(pair[0], data, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN && errno != EPIPE)
			abort();
		turn(&s, event, pair[0]);
		data += len + !!end;
		size -= len + !!end;
	}
	(void)shutdown(pair[0], SHUT_WR);
	turn(&s, event, pair[0]);
	turn(&s, event, pair[0]);
	(void)close(pair[0]);
	status_server_free(s.server);
	if (s.data)
		abort();
	sd_event_unref(event);
}

static void fuzz_client(const uint8_t *data, size_t size)
{
	size_t len = 0;
	char *text;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	if (size)
		(void)send(pair[1], data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)shutdown(pair[1], SHUT_WR);
	for (int i = 0; i < PARTS_MAX && status_ask_on(pair[0], "view", 0, &text, &len) == 0; i++) {
		if (len > size || text[len] != '\0')
			abort();
		free(text);
	}
	(void)close(pair[0]);
	(void)close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	(void)signal(SIGPIPE, SIG_IGN);
	if (size && data[0] == 's')
		fuzz_server(data + 1, size - 1);
	else if (size && data[0] == 'c')
		fuzz_client(data + 1, size - 1);
	return 0;
}
