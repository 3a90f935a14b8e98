/* SPDX-License-Identifier: MIT */
/* Lines of syslog, to a socket of this host or to a receiver on the network. */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "record/sink.h"
#include "record/sink_net.h"

/* What receivers take by default. On a socket of the host: the oldest of them, and rsyslog, whose limit is 8 KiB. By UDP:
 * what every receiver should take (RFC 5426), though it may go in two parts. By TCP: rsyslog again. */
#define LINE_MAX_BYTES 1024
#define UDP_MAX_BYTES 2048
#define LONG_MAX_BYTES 8100

struct sink_syslog {
	struct sink sink;
	struct syslog_settings o;
	struct net *net; /* NULL: a socket of this host, as follows */
	const char *path;
	int fd, type;
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

static int local_connect(struct sink_syslog *s)
{
	int fd = sink_connect(s->path, &s->type);

	if (fd < 0)
		return fd;
	closep(&s->fd);
	s->fd = fd;
	return 0;
}

static int local_send(struct sink_syslog *s, struct strbuf *line)
{
	int err;

	if (s->type == SOCK_STREAM)
		strbuf_addc(line, '\n');
	if (line->error)
		return line->error;
	err = send_all(s->fd, line->buf, line->len);
	if (err == 0 || err == -EMSGSIZE || err == -ENOMEM)
		return err;
	/* The receiver was restarted and listens at a new socket. */
	err = local_connect(s);
	if (err < 0)
		return err;
	return send_all(s->fd, line->buf, line->len);
}

static size_t max_bytes(const struct syslog_settings *o)
{
	if (o->max_bytes > 0)
		return o->max_bytes;
	if (o->transport == SYSLOG_UDP)
		return UDP_MAX_BYTES;
	return o->is_cee || o->transport == SYSLOG_TCP ? LONG_MAX_BYTES : LINE_MAX_BYTES;
}

static int syslog_write(struct sink *sink, const struct record *r)
{
	struct sink_syslog *s = (struct sink_syslog *)sink;
	const struct syslog_format f = { .hostname = s->o.hostname ? s->o.hostname : s->hostname,
					 .pid = (uint32_t)getpid(), .facility = s->o.facility, .is_cee = s->o.is_cee,
					 .max = max_bytes(&s->o) };
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	record_syslog(r, &f, &line);
	if (line.error)
		return line.error;
	return s->net ? net_send(s->net, line.buf, line.len) : local_send(s, &line);
}

static void syslog_explain(const struct sink *sink, int err, struct strbuf *sb)
{
	const struct sink_syslog *s = (const struct sink_syslog *)sink;

	if (s->net)
		net_explain(s->net, err, sb);
	else
		strbuf_addf(sb, "%s: %s: start a receiver there, or correct syslog.server", s->path, strerror(-err));
}

static void syslog_close(struct sink *sink)
{
	struct sink_syslog *s = (struct sink_syslog *)sink;

	closep(&s->fd);
	net_free(s->net);
	syslog_settings_done(&s->o);
	free(s);
}

static const struct sink_ops syslog_ops = { SINK_SYSLOG, syslog_write, syslog_explain, syslog_close };

int sink_syslog_open(const struct syslog_settings *o, struct sink **ret)
{
	struct sink_syslog *s;
	int err;

	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->sink.ops = &syslog_ops;
	s->fd = -1;
	if (gethostname(s->hostname, sizeof(s->hostname) - 1) < 0)
		s->hostname[0] = '\0';
	err = syslog_settings_copy(o, &s->o);
	if (err == 0 && o->transport != SYSLOG_UNIX) {
		err = net_new(o, &s->net);
	} else if (err == 0) {
		s->path = s->o.address ? s->o.address : SYSLOG_SOCKET_DEFAULT;
		err = local_connect(s);
	}
	if (err < 0) {
		syslog_close(&s->sink);
		return err;
	}
	*ret = &s->sink;
	return 0;
}
