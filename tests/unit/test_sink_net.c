/* SPDX-License-Identifier: MIT */
/* Syslog by UDP and TCP, to receivers of ours on the loopback. */
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "record/reporter.h"
#include "record/sink.h"
#include "record/sink_net.h"
#include "record_make.h"
#include "test.h"

struct receiver {
	int fd, type, family;
	uint16_t port;
};

/* At v->port, or at one of the kernel's choice. */
static int receiver_open(struct receiver *v)
{
	const int one = 1;
	const struct timeval second = { .tv_sec = 1 };
	struct sockaddr_storage ss = { .ss_family = (sa_family_t)v->family };
	struct sockaddr_in *in = (struct sockaddr_in *)&ss;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ss;
	socklen_t len = v->family == AF_INET ? sizeof(*in) : sizeof(*in6);

	if (v->family == AF_INET) {
		in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		in->sin_port = htons(v->port);
	} else {
		in6->sin6_addr = in6addr_loopback;
		in6->sin6_port = htons(v->port);
	}
	v->fd = socket(v->family, v->type | SOCK_CLOEXEC, 0);
	(void)setsockopt(v->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	/* A connection that does not come is a failure, not the end of all tests. */
	(void)setsockopt(v->fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
	if (v->fd < 0 || bind(v->fd, (struct sockaddr *)&ss, len) < 0 || (v->type == SOCK_STREAM && listen(v->fd, 8) < 0) ||
	    getsockname(v->fd, (struct sockaddr *)&ss, &len) < 0)
		return -errno;
	v->port = ntohs(v->family == AF_INET ? in->sin_port : in6->sin6_port);
	return 0;
}

static struct syslog_settings settings_of(const struct receiver *v, bool is_newline_framed)
{
	return (struct syslog_settings){ .transport = v->type == SOCK_STREAM ? SYSLOG_TCP : SYSLOG_UDP,
					 .facility = SYSLOG_FACILITY_DAEMON, .port = v->port,
					 .is_newline_framed = is_newline_framed,
					 .address = (char *)(v->family == AF_INET ? "127.0.0.1" : "::1") };
}

/* What has arrived within a second, at least min bytes: "" when nothing did. */
static const char *got(int fd, size_t min)
{
	static char buf[1 << 16];
	size_t len = 0;

	do {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n = poll(&p, 1, 1000) > 0 ? recv(fd, buf + len, sizeof(buf) - 1 - len, MSG_DONTWAIT) : 0;

		if (n <= 0)
			break;
		len += (size_t)n;
	} while (len < min);
	buf[len] = '\0';
	return buf;
}

static int send_text(struct net *n, const char *text)
{
	return net_send(n, text, strlen(text));
}

static bool has_ipv6(void)
{
	struct receiver v = { .type = SOCK_DGRAM, .family = AF_INET6 };
	bool has = receiver_open(&v) == 0;

	(void)close(v.fd);
	return has;
}

static void framing(int family)
{
	struct receiver v = { .type = SOCK_STREAM, .family = family };
	_cleanup_(net_freep) struct net *octets = NULL, *lines = NULL;
	struct syslog_settings o;
	int a, b;

	ASSERT(receiver_open(&v) == 0);
	o = settings_of(&v, false);
	ASSERT(net_new(&o, &octets) == 0);
	o = settings_of(&v, true);
	ASSERT(net_new(&o, &lines) == 0);
	EXPECT_EQ(send_text(octets, "<28>1 ü"), 0);
	EXPECT_EQ(send_text(octets, "<28>1 b c"), 0);
	EXPECT_EQ(send_text(lines, "<28>1 a"), 0);
	EXPECT_EQ(send_text(lines, "<28>1 b"), 0);
	a = accept(v.fd, NULL, NULL);
	b = accept(v.fd, NULL, NULL);
	EXPECT_STR(got(a, 21), "8 <28>1 ü9 <28>1 b c");
	EXPECT_STR(got(b, 16), "<28>1 a\n<28>1 b\n");
	(void)close(a);
	(void)close(b);
	(void)close(v.fd);
}

TEST(tcp_framing)
{
	framing(AF_INET);
}

TEST(tcp_by_ipv6)
{
	if (has_ipv6())
		framing(AF_INET6);
	else
		printf("# SKIP tcp_by_ipv6: no IPv6 here\n");
}

static int to_ipv6(void)
{
	struct ifreq lo = { .ifr_name = "lo" }, more = { .ifr_name = "lo:1" };
	struct sockaddr_in *in = (struct sockaddr_in *)&more.ifr_addr;
	struct receiver v = { .type = SOCK_DGRAM, .family = AF_INET6 };
	_cleanup_(net_freep) struct net *n = NULL;
	struct syslog_settings o;
	int fd;

	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return 77;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	lo.ifr_flags = IFF_UP;
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(0x0a090001);
	if (ioctl(fd, SIOCSIFFLAGS, &lo) < 0 || ioctl(fd, SIOCSIFADDR, &more) < 0 || receiver_open(&v) < 0)
		return 77;
	o = settings_of(&v, false);
	if (net_new(&o, &n) < 0)
		return 1;
	return send_text(n, "<28>1 a") == 0 && strcmp(got(v.fd, 7), "<28>1 a") == 0 ? 0 : 1;
}

/* A host whose only addresses besides the loopback are of the other family. */
TEST(ipv6_where_the_host_has_none)
{
	const pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		_exit(to_ipv6());
	ASSERT(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		printf("# SKIP ipv6_where_the_host_has_none: no network namespace with IPv6 can be made here\n");
	else
		EXPECT_EQ(status, 0);
}

TEST(udp)
{
	struct receiver v = { .type = SOCK_DGRAM, .family = AF_INET };
	_cleanup_(net_freep) struct net *n = NULL;
	struct syslog_settings o;

	ASSERT(receiver_open(&v) == 0);
	o = settings_of(&v, false);
	ASSERT(net_new(&o, &n) == 0);
	EXPECT_EQ(send_text(n, "<28>1 a"), 0);
	EXPECT_EQ(send_text(n, "<28>1 b"), 0);
	EXPECT_STR(got(v.fd, 1), "<28>1 a");
	EXPECT_STR(got(v.fd, 1), "<28>1 b");
	(void)close(v.fd);
}

/* A refusal is of the datagram before: neither that nor the one in hand is lost, and nothing passes for sent meanwhile. */
TEST(udp_receiver_that_restarts)
{
	struct receiver v = { .type = SOCK_DGRAM, .family = AF_INET };
	_cleanup_(net_freep) struct net *n = NULL;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct syslog_settings o;

	ASSERT(receiver_open(&v) == 0);
	o = settings_of(&v, false);
	ASSERT(net_new(&o, &n) == 0);
	EXPECT_EQ(send_text(n, "a"), 0);
	EXPECT_STR(got(v.fd, 1), "a");
	(void)close(v.fd);
	EXPECT_EQ(send_text(n, "b"), 0); /* it cannot know yet */
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(send_text(n, "c"), -ECONNREFUSED);
	net_explain(n, -ECONNREFUSED, &sb);
	EXPECT(strncmp(strbuf_str(&sb), "udp://127.0.0.1:", 16) == 0 && strstr(strbuf_str(&sb), "start a receiver there"));
	ASSERT(receiver_open(&v) == 0);
	EXPECT_EQ(send_text(n, "c"), 0);
	EXPECT_EQ(send_text(n, "d"), 0);
	EXPECT_STR(got(v.fd, 1), "b");
	EXPECT_STR(got(v.fd, 1), "c");
	EXPECT_STR(got(v.fd, 1), "d");
	(void)close(v.fd);
}

TEST(udp_too_long)
{
	struct receiver v = { .type = SOCK_DGRAM, .family = AF_INET };
	_cleanup_(net_freep) struct net *n = NULL;
	static char big[70000];
	struct syslog_settings o;

	ASSERT(receiver_open(&v) == 0);
	o = settings_of(&v, false);
	ASSERT(net_new(&o, &n) == 0);
	memset(big, 'x', sizeof(big));
	EXPECT_EQ(net_send(n, big, sizeof(big)), -EMSGSIZE);
	EXPECT_EQ(send_text(n, "a"), 0);
	EXPECT_STR(got(v.fd, 1), "a");
	(void)close(v.fd);
}

/* It has closed while nothing was sent: seen before the next message is given to a connection that is dead. */
TEST(tcp_receiver_that_hangs_up)
{
	struct receiver v = { .type = SOCK_STREAM, .family = AF_INET };
	_cleanup_(net_freep) struct net *n = NULL;
	struct syslog_settings o;
	int fd;

	ASSERT(receiver_open(&v) == 0);
	o = settings_of(&v, true);
	ASSERT(net_new(&o, &n) == 0);
	EXPECT_EQ(send_text(n, "a"), 0);
	fd = accept(v.fd, NULL, NULL);
	EXPECT_STR(got(fd, 2), "a\n");
	/* What it says is nobody's business. */
	EXPECT_EQ(send(fd, "hello", 5, 0), 5);
	EXPECT_EQ(send_text(n, "b"), 0);
	EXPECT_STR(got(fd, 2), "b\n");
	(void)close(fd);
	EXPECT_EQ(send_text(n, "c"), 0);
	fd = accept(v.fd, NULL, NULL);
	EXPECT_STR(got(fd, 2), "c\n");
	(void)close(fd);
	(void)close(v.fd);
	/* Nobody listens now. */
	EXPECT_EQ(send_text(n, "d"), -ECONNREFUSED);
	EXPECT_EQ(send_text(n, "d"), -ECONNREFUSED);
	ASSERT(receiver_open(&v) == 0);
	EXPECT_EQ(send_text(n, "d"), 0);
	fd = accept(v.fd, NULL, NULL);
	EXPECT_STR(got(fd, 2), "d\n");
	(void)close(fd);
	(void)close(v.fd);
}

struct relay {
	int fd;
	pthread_t thread;
};

/* Accepts for a receiver that is not there, three times. */
static void *relay_thread(void *userdata)
{
	struct relay *relay = userdata;

	for (int i = 0; i < 3; i++) {
		int fd = accept(relay->fd, NULL, NULL);

		if (fd >= 0)
			(void)close(fd);
	}
	return NULL;
}

/* The first message goes the way of the first connection; after that nothing passes for sent. */
TEST(tcp_relay_without_a_receiver)
{
	struct receiver v = { .type = SOCK_STREAM, .family = AF_INET };
	_cleanup_(net_freep) struct net *n = NULL;
	struct relay relay = {};
	struct syslog_settings o;
	int fd;

	ASSERT(receiver_open(&v) == 0);
	relay.fd = v.fd;
	o = settings_of(&v, true);
	ASSERT(net_new(&o, &n) == 0 && pthread_create(&relay.thread, NULL, relay_thread, &relay) == 0);
	EXPECT_EQ(send_text(n, "a"), 0);
	(void)usleep(50000);
	EXPECT_EQ(send_text(n, "b"), -ECONNRESET);
	EXPECT_EQ(send_text(n, "b"), -ECONNRESET);
	(void)pthread_join(relay.thread, NULL);
	EXPECT_EQ(send_text(n, "b"), 0);
	fd = accept(v.fd, NULL, NULL);
	EXPECT_STR(got(fd, 2), "b\n");
	(void)close(fd);
	(void)close(v.fd);
}

static void *late_reader(void *userdata)
{
	int fd = *(int *)userdata;

	(void)usleep(200000);
	for (size_t len = 0; len < 1 << 20;) {
		static char buf[4096];
		ssize_t n = recv(fd, buf, sizeof(buf), 0);

		if (n <= 0)
			break;
		len += (size_t)n;
	}
	return NULL;
}

/* A receiver that does not read holds up the sender alone, and every byte arrives once it does. */
TEST(tcp_receiver_that_is_slow)
{
	struct receiver v = { .type = SOCK_STREAM, .family = AF_INET };
	_cleanup_(net_freep) struct net *n = NULL;
	static char line[8192];
	const int small = 4096;
	uint64_t before, longest = 0;
	struct syslog_settings o;
	pthread_t reader;
	int fd;

	ASSERT(receiver_open(&v) == 0);
	(void)setsockopt(v.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	o = settings_of(&v, true);
	ASSERT(net_new(&o, &n) == 0);
	memset(line, 'x', sizeof(line));
	ASSERT(net_send(n, line, sizeof(line) - 1) == 0);
	fd = accept(v.fd, NULL, NULL);
	ASSERT(fd >= 0 && pthread_create(&reader, NULL, late_reader, &fd) == 0);
	for (int i = 1; i < 128; i++) {
		before = clock_monotonic_ns();
		ASSERT(net_send(n, line, sizeof(line) - 1) == 0);
		longest = MAX(longest, clock_monotonic_ns() - before);
	}
	EXPECT(longest > 50 * NSEC_PER_MSEC);
	(void)pthread_join(reader, NULL);
	(void)close(fd);
	(void)close(v.fd);
}

TEST(names_that_are_none)
{
	/* A label of 64 characters: no name server is asked for it. */
	char name[65];
	const struct syslog_settings o = { .transport = SYSLOG_TCP, .port = 601, .address = name };
	_cleanup_(net_freep) struct net *n = NULL;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	ASSERT(net_new(&o, &n) == 0);
	EXPECT_EQ(send_text(n, "a"), -EHOSTUNREACH);
	net_explain(n, -EHOSTUNREACH, &sb);
	EXPECT(strncmp(strbuf_str(&sb), "tcp://xxx", 9) == 0 && strstr(strbuf_str(&sb), "xxx:601: the name cannot be looked up ("));
}

/* It does not answer at the start: no other sink takes its place, records wait, and it gets them. */
TEST(receiver_that_comes_late)
{
	struct receiver v = { .type = SOCK_STREAM, .family = AF_INET };
	struct syslog_settings syslog;
	struct reporter_options o = { .sink = SINK_SYSLOG, .queue = 16, .out_fd = -1, .syslog = &syslog };
	struct reporter *r = NULL;
	struct reporter_stats s;
	int fd;

	ASSERT(receiver_open(&v) == 0); /* for a port that is free */
	(void)close(v.fd);
	syslog = settings_of(&v, true);
	ASSERT(reporter_new(&o, &r) == 0);
	for (int i = 0; i < 3; i++)
		reporter_push(r, make_report(REPORT_LIVE_BYTES));
	(void)usleep(60000);
	reporter_stats(r, &s);
	EXPECT_EQ(s.sink, SINK_SYSLOG);
	EXPECT_EQ(s.queued, 3);
	EXPECT_EQ(s.written + s.failed + s.dropped, 0);
	ASSERT(receiver_open(&v) == 0);
	EXPECT_EQ(reporter_stop(r, 10 * NSEC_PER_SEC), 0);
	fd = accept(v.fd, NULL, NULL);
	for (const char *p = got(fd, 3000); (p = strchr(p, '\n')); p++)
		s.written++;
	EXPECT_EQ(s.written, 3);
	(void)close(fd);
	(void)close(v.fd);
}

/* Unless told otherwise a datagram is what receivers should take, and a message by TCP holds a record whole. */
TEST(sizes)
{
	static const struct {
		int type;
		uint32_t max_bytes;
		size_t frames, least, most;
	} cases[] = {
		{ SOCK_DGRAM, 0, 20, 1025, 2048 }, { SOCK_DGRAM, 480, 20, 300, 480 }, { SOCK_STREAM, 0, 60, 2049, 8100 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct receiver v = { .type = cases[i].type, .family = AF_INET };
		_cleanup_(report_freep) struct report *report = make_report(REPORT_LIVE_BYTES);
		_cleanup_(stack_text_freep) struct stack_text *st = make_stack(cases[i].frames);
		_cleanup_(record_freep) struct record *rec = NULL;
		_cleanup_(sink_closep) struct sink *s = NULL;
		struct syslog_settings o;
		size_t len;
		int fd;

		ASSERT(receiver_open(&v) == 0 && record_build(report, st, true, NULL, &rec) == 0);
		o = settings_of(&v, true);
		o.max_bytes = cases[i].max_bytes;
		o.hostname = (char *)"node-7";
		ASSERT(sink_syslog_open(&o, &s) == 0);
		EXPECT_EQ(s->ops->write(s, rec), 0);
		fd = v.type == SOCK_STREAM ? accept(v.fd, NULL, NULL) : dup(v.fd);
		len = strlen(got(fd, cases[i].least)) - (v.type == SOCK_STREAM);
		EXPECT(len >= cases[i].least && len <= cases[i].most);
		if (len < cases[i].least || len > cases[i].most)
			printf("# %zu bytes, not from %zu to %zu\n", len, cases[i].least, cases[i].most);
		(void)close(fd);
		(void)close(v.fd);
	}
}

TEST_MAIN()
