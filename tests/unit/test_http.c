/* SPDX-License-Identifier: MIT */
/* The server, without threads: it works while the tests turn its event loop. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "http/server_private.h"
#include "test.h"

struct world {
	sd_event *event;
	struct http_server *server;
	char port[8];
	unsigned int rendered[2];
	size_t bytes; /* of a body */
	int error;
};

static int render(enum metrics_format format, struct strbuf *sb, char *reterr, size_t size, void *userdata)
{
	struct world *w = userdata;

	w->rendered[format]++;
	if (w->error) {
		(void)snprintf(reterr, size, "it is away");
		strbuf_adds(sb, "half of it");
		return w->error;
	}
	strbuf_addf(sb, "%s %u\n", format == METRICS_OPENMETRICS ? "openmetrics" : "prometheus", w->rendered[format]);
	while (sb->len < w->bytes)
		strbuf_adds(sb, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
	return 0;
}

static bool world_begin(struct world *w)
{
	char error[256] = "", name[HTTP_NAME_MAX];

	(void)signal(SIGPIPE, SIG_IGN);
	if (sd_event_new(&w->event) < 0 ||
	    http_server_new(w->event, "127.0.0.1:0", render, w, &w->server, error, sizeof(error)) < 0) {
		printf("# %s\n", error);
		return false;
	}
	(void)snprintf(w->port, sizeof(w->port), "%s", strrchr(http_socket_name(w->server->listeners[0].fd, name), ':') + 1);
	return true;
}

static void world_end(struct world *w)
{
	http_server_free(w->server);
	sd_event_unref(w->event);
}

/* Lets the server do what it can. */
static void pump(struct world *w, int turns)
{
	for (int i = 0; i < turns; i++)
		(void)sd_event_run(w->event, 2000);
}

/* Who has gone is noticed soon. */
static void pump_until_idle(struct world *w)
{
	for (int i = 0; i < 1500 && w->server->connections; i++)
		pump(w, 1);
}

static int client(struct world *w)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) },
				  .sin_port = htons((uint16_t)atoi(w->port)) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || (connect(fd, (struct sockaddr *)&in, sizeof(in)) < 0 && errno != EINPROGRESS))
		abort();
	return fd;
}

/* All that comes until the server closes; "" and *ret_open when it does not within some time. */
static void read_all(struct world *w, int fd, struct strbuf *sb, bool *ret_open)
{
	const uint64_t end_ns = clock_monotonic_ns() + 3 * NSEC_PER_SEC;
	char part[65536];
	ssize_t n;

	*ret_open = false;
	for (;;) {
		n = recv(fd, part, sizeof(part), 0);
		if (n > 0) {
			strbuf_add(sb, part, (size_t)n);
			continue;
		}
		if (n == 0 || errno != EAGAIN)
			return;
		if (clock_monotonic_ns() > end_ns) {
			*ret_open = true;
			return;
		}
		pump(w, 1);
	}
}

static void talk(struct world *w, const char *request, size_t len, struct strbuf *answer)
{
	const uint64_t end_ns = clock_monotonic_ns() + 3 * NSEC_PER_SEC;
	_cleanup_close_ int fd = client(w);
	bool is_open;

	while (len > 0 && clock_monotonic_ns() < end_ns) {
		ssize_t n = send(fd, request, len, MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN && errno != ENOTCONN)
			break;
		request += MAX(n, 0);
		len -= (size_t)MAX(n, 0);
		pump(w, 1);
	}
	read_all(w, fd, answer, &is_open);
	EXPECT(!is_open);
}

static void ask(struct world *w, const char *request, struct strbuf *answer)
{
	strbuf_reset(answer);
	talk(w, request, strlen(request), answer);
}

static bool says(const struct strbuf *answer, const char *status)
{
	return strncmp(strbuf_str(answer), status, strlen(status)) == 0;
}

#define HOST "\r\nHost: a\r\n"

TEST(paths)
{
	_cleanup_strbuf_ struct strbuf a = STRBUF_INIT;
	struct world w = {};

	ASSERT(world_begin(&w));
	ask(&w, "GET /metrics HTTP/1.1" HOST "\r\n", &a);
	EXPECT(says(&a, "HTTP/1.1 200 "));
	EXPECT(strstr(strbuf_str(&a), "\r\n\r\nprometheus 1\n"));
	EXPECT(strstr(strbuf_str(&a), "Content-Type: text/plain; version=0.0.4"));
	EXPECT(strstr(strbuf_str(&a), "Connection: close\r\n"));
	EXPECT(strstr(strbuf_str(&a), "X-Content-Type-Options: nosniff\r\n"));
	ask(&w, "GET /metrics?collect[]=all HTTP/1.0\r\n\r\n", &a);
	EXPECT(strstr(strbuf_str(&a), "\r\n\r\nprometheus 1\n"));
	ask(&w, "GET / HTTP/1.1" HOST "\r\n", &a);
	EXPECT(says(&a, "HTTP/1.1 200 ") && strstr(strbuf_str(&a), "<a href=\"metrics\">"));
	ask(&w, "GET /healthz HTTP/1.1" HOST "\r\n", &a);
	EXPECT(says(&a, "HTTP/1.1 200 ") && strstr(strbuf_str(&a), "\r\n\r\nok\n"));
	ask(&w, "GET /metrics/ HTTP/1.1" HOST "\r\n", &a);
	EXPECT(says(&a, "HTTP/1.1 404 "));
	ask(&w, "GET /../etc/passwd HTTP/1.1" HOST "\r\n", &a);
	EXPECT(says(&a, "HTTP/1.1 404 "));
	EXPECT_EQ(w.rendered[0], 1);
	world_end(&w);
}

TEST(methods)
{
	_cleanup_strbuf_ struct strbuf a = STRBUF_INIT;
	struct world w = {};
	const char *body;

	ASSERT(world_begin(&w));
	ask(&w, "HEAD /metrics HTTP/1.1" HOST "\r\n", &a);
	EXPECT(says(&a, "HTTP/1.1 200 ") && strstr(strbuf_str(&a), "Content-Length: 13\r\n"));
	body = strstr(strbuf_str(&a), "\r\n\r\n");
	EXPECT(body && body[4] == '\0');
	ask(&w, "PUT /metrics HTTP/1.1" HOST "\r\n", &a);
	EXPECT(says(&a, "HTTP/1.1 405 ") && strstr(strbuf_str(&a), "Allow: GET, HEAD\r\n"));
	ask(&w, "POST /metrics HTTP/1.1" HOST "Content-Length: 1000000000000\r\n\r\nabc", &a);
	EXPECT(says(&a, "HTTP/1.1 405 "));
	ask(&w, "GET /metrics HTTP/1.1" HOST "Content-Length: 3\r\n\r\nabc", &a);
	EXPECT(says(&a, "HTTP/1.1 413 "));
	ask(&w, "GET /metrics HTTP/1.1" HOST "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n", &a);
	EXPECT(says(&a, "HTTP/1.1 413 "));
	ask(&w, "GET /metrics HTTP/1.1" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", &a);
	EXPECT(says(&a, "HTTP/1.1 413 "));
	ask(&w, "GET /metrics HTTP/1.1" HOST "Content-Length: 0\r\n\r\n", &a);
	EXPECT(says(&a, "HTTP/1.1 200 "));
	/* One request a connection: what follows is not read. */
	ask(&w, "GET /healthz HTTP/1.1" HOST "\r\nGET /metrics HTTP/1.1" HOST "\r\n", &a);
	EXPECT(strstr(strbuf_str(&a), "ok\n") && !strstr(strbuf_str(&a), "prometheus"));
	EXPECT_EQ(w.rendered[0], 1);
	EXPECT_EQ(w.server->connections, 0);
	world_end(&w);
}

/* A page of evil.example whose name has come to mean 127.0.0.1 is of the same origin as what it reads there. */
TEST(a_name_of_the_internet_is_refused_on_the_loopback)
{
	static const char *const good[] = { "localhost:2112", "LOCALHOST", "a.localhost.:1", "127.0.0.1:2112", "[::1]:2112", "gpu01",
					    "gpu01.", "10.0.0.1", "" },
				 *const bad[] = { "evil.example", "evil.example:2112", "evil.example.", "127.0.0.1.evil.example",
						  "localhost.evil.example", "notlocalhost.example", "a.notlocalhost", "127.0.0.1x.y" };
	_cleanup_strbuf_ struct strbuf a = STRBUF_INIT;
	struct world w = {};
	char request[256];

	ASSERT(world_begin(&w));
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		EXPECT(http_host_is_local(good[i]));
		(void)snprintf(request, sizeof(request), "GET /metrics HTTP/1.1\r\nHost: %s\r\n\r\n", good[i]);
		ask(&w, request, &a);
		EXPECT(says(&a, "HTTP/1.1 200 "));
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT(!http_host_is_local(bad[i]));
		(void)snprintf(request, sizeof(request), "GET /metrics HTTP/1.1\r\nHost: %s\r\n\r\n", bad[i]);
		ask(&w, request, &a);
		EXPECT(says(&a, "HTTP/1.1 403 ") && !strstr(strbuf_str(&a), "prometheus 1"));
	}
	/* Where others are let in it is not known how they call this host. */
	w.server->is_local = false;
	ask(&w, "GET /metrics HTTP/1.1\r\nHost: gpu01.example\r\n\r\n", &a);
	EXPECT(says(&a, "HTTP/1.1 200 "));
	world_end(&w);
}

TEST(addresses_of_this_host_alone)
{
	static const struct {
		const char *text;
		bool is_local;
	} cases[] = { { "localhost:1", true }, { "127.0.0.1:1", true }, { "127.9.9.9:1", true }, { "[::1]:1", true },
		      { ":1", false }, { "10.0.0.1:1", false }, { "[fe80::1]:1", false }, { "unix:/run/x", false } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char error[HTTP_ADDRESS_ERROR_MAX];
		struct http_address a;

		ASSERT(http_address_parse(cases[i].text, &a, error) == 0);
		EXPECT_EQ(http_address_is_local(&a), cases[i].is_local);
	}
}

TEST(formats_are_what_the_client_wants)
{
	_cleanup_strbuf_ struct strbuf a = STRBUF_INIT;
	struct world w = {};

	ASSERT(world_begin(&w));
	ask(&w, "GET /metrics HTTP/1.1" HOST "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n\r\n", &a);
	EXPECT(strstr(strbuf_str(&a), "\r\n\r\nopenmetrics 1\n"));
	EXPECT(strstr(strbuf_str(&a), "Content-Type: application/openmetrics-text; version=1.0.0"));
	EXPECT(strstr(strbuf_str(&a), "Vary: Accept\r\n"));
	ask(&w, "GET /metrics HTTP/1.1" HOST "Accept: text/plain\r\n\r\n", &a);
	EXPECT(strstr(strbuf_str(&a), "\r\n\r\nprometheus 1\n"));
	world_end(&w);
}

TEST(a_storm_is_rendered_once_a_second)
{
	_cleanup_strbuf_ struct strbuf a = STRBUF_INIT;
	struct world w = {};

	ASSERT(world_begin(&w));
	for (int i = 0; i < 50; i++)
		ask(&w, "GET /metrics HTTP/1.1" HOST "\r\n", &a);
	EXPECT(w.rendered[0] <= 2);
	/* As if a second had gone by. */
	w.rendered[0] = 10;
	w.server->latest[0]->made_ns -= NSEC_PER_SEC;
	ask(&w, "GET /metrics HTTP/1.1" HOST "\r\n", &a);
	EXPECT(strstr(strbuf_str(&a), "prometheus 11\n"));
	EXPECT(w.server->bodies && !w.server->bodies->next);
	world_end(&w);
}

TEST(without_figures_it_says_why)
{
	_cleanup_strbuf_ struct strbuf a = STRBUF_INIT;
	struct world w = { .error = -ENOTCONN };

	ASSERT(world_begin(&w));
	for (int i = 0; i < 3; i++)
		ask(&w, "GET /metrics HTTP/1.1" HOST "\r\n", &a);
	EXPECT(says(&a, "HTTP/1.1 503 ") && strstr(strbuf_str(&a), "\r\n\r\nno metrics now: it is away\n"));
	EXPECT_EQ(w.rendered[0], 1);
	w.error = 0;
	w.server->latest[0]->made_ns -= NSEC_PER_SEC;
	ask(&w, "GET /metrics HTTP/1.1" HOST "\r\n", &a);
	EXPECT(says(&a, "HTTP/1.1 200 "));
	world_end(&w);
}

TEST(garbage_is_refused)
{
	static const char *const bad[] = { "\r\n\r\n\r\n", "GET\r\n\r\n", "GET /metrics HTTP/9.9\r\n\r\n",
					   "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" };
	_cleanup_strbuf_ struct strbuf a = STRBUF_INIT, big = STRBUF_INIT;
	struct world w = {};
	uint32_t x = 1;

	ASSERT(world_begin(&w));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_close_ int fd = client(&w);

		EXPECT(fd >= 0);
		pump(&w, 2);
		EXPECT(send(fd, bad[i], strlen(bad[i]), MSG_NOSIGNAL) > 0);
		pump(&w, 3);
	}
	strbuf_adds(&big, "GET /metrics HTTP/1.1" HOST "X: ");
	while (big.len < 1 << 20)
		strbuf_adds(&big, "0123456789abcdef0123456789abcdef");
	strbuf_adds(&big, "\r\n\r\n");
	talk(&w, big.buf, big.len, &a);
	EXPECT(a.len == 0 || says(&a, "HTTP/1.1 431 ") || says(&a, "HTTP/1.1 413 "));
	strbuf_reset(&a);
	strbuf_reset(&big);
	strbuf_adds(&big, "GET /");
	while (big.len < 1 << 20)
		strbuf_adds(&big, "0123456789abcdef0123456789abcdef");
	strbuf_adds(&big, " HTTP/1.1" HOST "\r\n");
	talk(&w, big.buf, big.len, &a);
	EXPECT(a.len == 0 || says(&a, "HTTP/1.1 414 "));
	for (int i = 0; i < 60; i++) {
		_cleanup_close_ int fd = client(&w);
		char noise[64];

		for (size_t k = 0; k < sizeof(noise); k++)
			noise[k] = (char)((x = x * 1664525u + 1013904223u) >> 24);
		pump(&w, 2);
		(void)send(fd, noise, 1 + x % sizeof(noise), MSG_NOSIGNAL);
	}
	EXPECT_EQ(w.rendered[0], 0);
	ask(&w, "GET /metrics HTTP/1.1" HOST "\r\n", &a);
	EXPECT(says(&a, "HTTP/1.1 200 "));
	pump_until_idle(&w);
	EXPECT_EQ(w.server->connections, 0);
	world_end(&w);
}

TEST(the_oldest_makes_room)
{
	enum { MANY = 150 };
	_cleanup_strbuf_ struct strbuf a = STRBUF_INIT;
	struct world w = {};
	int fds[MANY];
	size_t most = 0;

	ASSERT(world_begin(&w));
	for (size_t i = 0; i < MANY; i++) {
		fds[i] = client(&w);
		(void)send(fds[i], "GET /met", 8, MSG_NOSIGNAL);
		pump(&w, 1);
		most = MAX(most, w.server->connections);
	}
	EXPECT(most <= 2 * HTTP_CONNECTIONS_MAX);
	ask(&w, "GET /metrics HTTP/1.1" HOST "\r\n", &a);
	EXPECT(says(&a, "HTTP/1.1 200 "));
	pump(&w, 20);
	EXPECT(w.server->connections > 0 && w.server->connections <= HTTP_CONNECTIONS_MAX);
	for (size_t i = 0; i < MANY; i++)
		closep(&fds[i]);
	pump_until_idle(&w);
	EXPECT_EQ(w.server->connections, 0);
	world_end(&w);
}

TEST(who_asks_slowly_is_cut_off)
{
	_cleanup_strbuf_ struct strbuf a = STRBUF_INIT;
	struct world w = {};
	_cleanup_close_ int fd = -1;
	bool is_open;

	ASSERT(world_begin(&w));
	fd = client(&w);
	pump(&w, 2);
	ASSERT(send(fd, "GET", 3, MSG_NOSIGNAL) == 3);
	pump(&w, 2);
	ASSERT(w.server->first);
	EXPECT(w.server->first->deadline_ns <= clock_monotonic_ns() + 10 * NSEC_PER_SEC);
	w.server->first->deadline_ns = 0; /* as if it had begun long ago */
	read_all(&w, fd, &a, &is_open);
	EXPECT(!is_open);
	EXPECT_EQ(a.len, 0);
	world_end(&w);
}

/* Each reads a first part and no more: what the kernel does not hold, the server must. */
TEST(slow_readers_do_not_keep_all_answers)
{
	enum { READERS = 7 };
	struct world w = { .bytes = HTTP_BODIES_BYTES_MAX / 4 };
	int fds[READERS];
	size_t bytes = 0;

	ASSERT(world_begin(&w));
	for (size_t i = 0; i < READERS; i++) {
		static const char request[] = "GET /metrics HTTP/1.1" HOST "\r\n";

		if (w.server->latest[0])
			w.server->latest[0]->made_ns -= NSEC_PER_SEC;
		fds[i] = client(&w);
		pump(&w, 1);
		EXPECT(send(fds[i], request, strlen(request), MSG_NOSIGNAL) > 0);
		pump(&w, 12);
	}
	EXPECT_EQ(w.rendered[0], READERS);
	for (const struct http_body *b = w.server->bodies; b; b = b->next)
		bytes += b->size;
	EXPECT(bytes > w.bytes && bytes <= HTTP_BODIES_BYTES_MAX + w.bytes + 64);
	for (size_t i = 0; i < READERS; i++)
		closep(&fds[i]);
	pump_until_idle(&w);
	EXPECT_EQ(w.server->connections, 0);
	EXPECT(w.server->bodies == w.server->latest[0] && !w.server->bodies->next);
	world_end(&w);
}

TEST(it_ends_with_clients_connected)
{
	struct world w = { .bytes = 4 << 20 };
	_cleanup_close_ int idle = -1, reading = -1;

	ASSERT(world_begin(&w));
	idle = client(&w);
	reading = client(&w);
	pump(&w, 2);
	EXPECT(send(reading, "GET /metrics HTTP/1.0\r\n\r\n", 25, MSG_NOSIGNAL) == 25);
	pump(&w, 5);
	EXPECT_EQ(w.server->connections, 2);
	world_end(&w);
}

TEST(it_sleeps_when_there_is_nothing_to_do)
{
	struct world w = {};
	int turns = 0;

	ASSERT(world_begin(&w));
	{
		_cleanup_close_ int fd = client(&w);

		EXPECT(fd >= 0);
		pump(&w, 3);
		EXPECT_EQ(w.server->connections, 1);
		/* A connection that says nothing wakes it a few times a second. */
		for (uint64_t until = clock_monotonic_ns() + 100 * NSEC_PER_MSEC; clock_monotonic_ns() < until;)
			turns += sd_event_run(w.event, 100000) > 0;
		EXPECT(turns <= 2);
	}
	pump(&w, 3);
	EXPECT_EQ(w.server->connections, 0);
	EXPECT_EQ(sd_event_run(w.event, 20000), 0);
	world_end(&w);
}

TEST(unix_servers_remove_their_socket)
{
	_cleanup_strbuf_ struct strbuf where = STRBUF_INIT;
	struct world w = {};
	char error[256], listen[64];

	(void)snprintf(listen, sizeof(listen), "unix:/tmp/test_http.%d", getpid());
	ASSERT(sd_event_new(&w.event) >= 0);
	ASSERT(http_server_new(w.event, listen, render, &w, &w.server, error, sizeof(error)) == 0);
	http_server_where(w.server, &where);
	EXPECT_STR(strbuf_str(&where), listen);
	EXPECT_EQ(access(listen + 5, F_OK), 0);
	world_end(&w);
	EXPECT(access(listen + 5, F_OK) < 0);
}

TEST_MAIN()
