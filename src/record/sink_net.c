/* SPDX-License-Identifier: MIT */
#include "record/sink_net.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

/* For each address of the receiver, and for all of them. */
#define CONNECT_NS (5 * NSEC_PER_SEC)
#define CONNECT_ALL_NS (10 * NSEC_PER_SEC)
/* A receiver that has just failed is given so long to fail again before a message is taken as sent. */
#define DOUBT_MS 100
/* What the kernel takes beyond what the receiver has room for is lost with the connection. */
#define UNSENT_BYTES (16 << 10)
/* A host that has gone without a word: noticed by what it does not acknowledge, and while nothing is sent, by asking. */
#define UNACKNOWLEDGED_MS (120 * 1000)
#define IDLE_SEC 60
#define PROBE_SEC 15
#define PROBES 4

struct net {
	enum syslog_transport transport;
	bool is_newline_framed;
	char *host;
	char port[6];
	int fd;
	bool is_doubtful;     /* the last message was refused, or the peer hung up */
	int lookup;	      /* of the last failure: what getaddrinfo() returned */
	struct strbuf out;    /* TCP: the message with its frame. UDP: the one before, until it is known not to be refused */
};

static bool is_tcp(const struct net *n)
{
	return n->transport == SYSLOG_TCP;
}

int net_new(const struct syslog_settings *s, struct net **ret)
{
	_cleanup_(net_freep) struct net *n = NULL;

	n = calloc(1, sizeof(*n));
	if (!n)
		return -ENOMEM;
	n->transport = s->transport;
	n->is_newline_framed = s->is_newline_framed;
	n->fd = -1;
	(void)snprintf(n->port, sizeof(n->port), "%u", s->port);
	n->host = strdup(s->address);
	if (!n->host)
		return -ENOMEM;
	*ret = TAKE_PTR(n);
	return 0;
}

void net_free(struct net *n)
{
	if (!n)
		return;
	closep(&n->fd);
	strbuf_done(&n->out);
	free(n->host);
	free(n);
}

/* Until the socket is ready, hung up or broken. False: time is over. timeout_ms -1 = none. */
static bool wait_for(int fd, short events, int timeout_ms)
{
	const uint64_t end = clock_monotonic_ns() + (uint64_t)MAX(timeout_ms, 0) * NSEC_PER_MSEC;
	struct pollfd p = { .fd = fd, .events = events };
	int r;

	while ((r = poll(&p, 1, timeout_ms)) < 0 && errno == EINTR) {
		const uint64_t now = clock_monotonic_ns();

		if (timeout_ms >= 0)
			timeout_ms = now < end ? (int)((end - now) / NSEC_PER_MSEC) : 0;
	}
	return r > 0;
}

static int socket_error(int fd)
{
	int err = 0;
	socklen_t len = sizeof(err);

	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0 ? -errno : -err;
}

/* Without any of these it works all the same, only worse. */
static void tune(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS },
		{ IPPROTO_TCP, TCP_KEEPIDLE, IDLE_SEC },
		{ IPPROTO_TCP, TCP_KEEPINTVL, PROBE_SEC },
		{ IPPROTO_TCP, TCP_KEEPCNT, PROBES },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		(void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value));
}

static int connect_one(struct net *n, const struct addrinfo *a, uint64_t end_ns)
{
	_cleanup_close_ int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const uint64_t now = clock_monotonic_ns();
	int err;

	if (fd < 0)
		return -errno;
	if (is_tcp(n))
		tune(fd);
	if (connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
		if (errno != EINPROGRESS)
			return -errno;
		if (now >= end_ns || !wait_for(fd, POLLOUT, (int)(MIN(end_ns - now, CONNECT_NS) / NSEC_PER_MSEC)))
			return -ETIMEDOUT;
		err = socket_error(fd);
		if (err < 0)
			return err;
	}
	n->fd = TAKE_FD(fd);
	return 0;
}

/* An address is taken as it is: what this host has addresses of (AI_ADDRCONFIG) does not count the loopback. */
static int look_up(const struct net *n, struct addrinfo **ret)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = is_tcp(n) ? SOCK_STREAM : SOCK_DGRAM,
				  .ai_flags = AI_NUMERICSERV | AI_NUMERICHOST };
	int err = getaddrinfo(n->host, n->port, &hints, ret);

	if (err != EAI_NONAME)
		return err;
	hints.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG;
	return getaddrinfo(n->host, n->port, &hints, ret);
}

static int net_connect(struct net *n)
{
	const uint64_t end_ns = clock_monotonic_ns() + CONNECT_ALL_NS;
	struct addrinfo *list = NULL;
	int err = -EHOSTUNREACH;

	n->lookup = look_up(n, &list);
	if (n->lookup != 0)
		return n->lookup == EAI_MEMORY ? -EAGAIN : -EHOSTUNREACH;
	for (const struct addrinfo *a = list; a && n->fd < 0; a = a->ai_next)
		err = connect_one(n, a, end_ns);
	freeaddrinfo(list);
	if (n->fd >= 0)
		return 0;
	/* These would be said of the message, which is not at fault. */
	return err == -EINVAL || err == -EMSGSIZE ? -EADDRNOTAVAIL : err == -ENOMEM ? -ENOBUFS : err;
}

/* 0 or why the connection is of no use: the peer has hung up, or a message before was refused. */
static int check_peer(struct net *n)
{
	char ignored[512];
	ssize_t got;

	/* Nothing is expected from a receiver. */
	do
		got = recv(n->fd, ignored, sizeof(ignored), MSG_DONTWAIT);
	while (got > 0 || (got < 0 && errno == EINTR));
	if (got == 0)
		return is_tcp(n) ? -ECONNRESET : 0;
	return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
}

/* The same, after some time in which a peer that fails at once would have done so. */
static int doubt_peer(struct net *n)
{
	(void)wait_for(n->fd, POLLIN, DOUBT_MS);
	return check_peer(n);
}

static int give_up(struct net *n, int err)
{
	closep(&n->fd);
	n->is_doubtful = true;
	return err;
}

static int send_stream(struct net *n)
{
	for (size_t done = 0; done < n->out.len;) {
		const ssize_t sent = send(n->fd, n->out.buf + done, n->out.len - done, MSG_NOSIGNAL);

		if (sent >= 0)
			done += (size_t)sent;
		else if (errno == EAGAIN || errno == EWOULDBLOCK)
			(void)wait_for(n->fd, POLLOUT, -1);
		else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

static int send_tcp(struct net *n, const char *data, size_t len)
{
	int err;

	strbuf_reset(&n->out);
	if (!n->is_newline_framed)
		strbuf_addf(&n->out, "%zu ", len);
	strbuf_add(&n->out, data, len);
	if (n->is_newline_framed)
		strbuf_addc(&n->out, '\n');
	if (n->out.error)
		return n->out.error;
	/* Closed while nothing was sent, by a receiver that was restarted: the new one is as good as any. */
	if (n->fd >= 0 && check_peer(n) < 0)
		(void)give_up(n, 0);
	if (n->fd < 0) {
		err = net_connect(n);
		/* A relay may accept for a receiver that is not there, and hang up. */
		if (err == 0 && n->is_doubtful)
			err = doubt_peer(n);
		if (err < 0)
			return give_up(n, err);
	}
	err = send_stream(n);
	if (err < 0)
		return give_up(n, err);
	n->is_doubtful = false;
	return 0;
}

static int send_datagram(struct net *n, const char *data, size_t len)
{
	ssize_t sent;

	do {
		sent = send(n->fd, data, len, MSG_NOSIGNAL);
		if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			(void)wait_for(n->fd, POLLOUT, -1);
	} while (sent < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK));
	return sent < 0 ? -errno : 0;
}

/* A refusal comes after the message that was refused: that one is sent again first. */
static int send_udp(struct net *n, const char *data, size_t len)
{
	int err = n->fd >= 0 ? check_peer(n) : net_connect(n);

	if (err < 0)
		return give_up(n, err);
	if (n->is_doubtful && n->out.len > 0) {
		err = send_datagram(n, n->out.buf, n->out.len);
		if (err == 0)
			err = doubt_peer(n);
		if (err < 0)
			return give_up(n, err);
		strbuf_reset(&n->out);
	}
	err = send_datagram(n, data, len);
	if (err == -EMSGSIZE || err == -ENOMEM)
		return err;
	if (err == 0 && n->is_doubtful)
		err = doubt_peer(n);
	if (err < 0)
		return give_up(n, err);
	n->is_doubtful = false;
	strbuf_reset(&n->out);
	strbuf_add(&n->out, data, len);
	return 0; /* without memory the copy is missing, no more */
}

int net_send(struct net *n, const char *data, size_t len)
{
	return is_tcp(n) ? send_tcp(n, data, len) : send_udp(n, data, len);
}

static const char *cure(int err)
{
	switch (-err) {
	case ECONNREFUSED:
	case ECONNRESET:
	case EPIPE:
		return "start a receiver there, or correct syslog.server";
	case EAFNOSUPPORT:
	case EPERM:
	case EACCES:
		return "allow it: the unit is shut off from the network unless gpuxray-network-syslog.conf is installed beside it, "
		       "and a firewall may be in the way";
	case ETIMEDOUT:
	case ENETUNREACH:
	case EHOSTUNREACH:
		return "look at the network, at firewalls, and at what the unit's IPAddressAllow= lets through";
	}
	return "correct syslog.server, or mend the receiver";
}

void net_explain(const struct net *n, int err, struct strbuf *sb)
{
	const bool is_address = strchr(n->host, ':') != NULL;

	strbuf_addf(sb, "%s://%s%s%s:%s: ", is_tcp(n) ? "tcp" : "udp", is_address ? "[" : "", n->host, is_address ? "]" : "",
		    n->port);
	if (n->lookup != 0)
		strbuf_addf(sb, "the name cannot be looked up (%s): correct syslog.server, or look at the name service and at what "
				"network the unit may use", gai_strerror(n->lookup));
	else
		strbuf_addf(sb, "%s: %s", strerror(-err), cure(err));
}
