/* SPDX-License-Identifier: MIT */
/* JSON lines and text for eyes, to a file descriptor. */
#include <fcntl.h>
#include <poll.h>

#include "record/sink.h"

struct sink_fd {
	struct sink sink;
	int fd;
	int is_colour;
	bool is_torn; /* the last line was written in part, on a disk that is full say */
};

/* A pipe that its other user made non-blocking blocks all the same. */
static int write_all(int fd, const char *data, size_t len, bool *ret_is_torn)
{
	const char *start = data;

	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			struct pollfd p = { .fd = fd, .events = POLLOUT };

			(void)poll(&p, 1, -1);
			continue;
		}
		if (n < 0) {
			*ret_is_torn = *ret_is_torn || data > start;
			return -errno;
		}
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static int write_lines(struct sink_fd *f, const struct strbuf *sb)
{
	int err = sb->error;

	if (err == 0 && f->is_torn)
		err = write_all(f->fd, "\n", 1, &f->is_torn);
	if (err == 0) {
		f->is_torn = false;
		err = write_all(f->fd, sb->buf, sb->len, &f->is_torn);
	}
	return err;
}

static int json_write(struct sink *s, const struct record *r)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	record_json(r, &sb);
	return write_lines((struct sink_fd *)s, &sb);
}

static int text_write(struct sink *s, const struct record *r)
{
	struct sink_fd *f = (struct sink_fd *)s;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	record_text(r, &sb, f->is_colour);
	return write_lines(f, &sb);
}

static void fd_close(struct sink *s)
{
	struct sink_fd *f = (struct sink_fd *)s;

	closep(&f->fd);
	free(f);
}

static const struct sink_ops json_ops = { SINK_JSON, json_write, NULL, fd_close };
static const struct sink_ops text_ops = { SINK_TEXT, text_write, NULL, fd_close };

static int open_fd(int fd, const struct sink_ops *ops, struct sink **ret)
{
	_cleanup_free_ struct sink_fd *f = NULL;

	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->sink.ops = ops;
	f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (f->fd < 0)
		return -errno;
	f->is_colour = isatty(f->fd);
	*ret = &TAKE_PTR(f)->sink;
	return 0;
}

int sink_json_open(int fd, struct sink **ret)
{
	return open_fd(fd, &json_ops, ret);
}

int sink_text_open(int fd, struct sink **ret)
{
	return open_fd(fd, &text_ops, ret);
}
