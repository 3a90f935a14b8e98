/* SPDX-License-Identifier: MIT */
#include "replay/trace_source.h"

#include <stdbool.h>
#include <string.h>
#include <zlib.h>

#define IN_MAX (32u << 10)
#define GZIP_ONLY 16 /* added to the window's bits: see inflateInit2() */

struct trace_source {
	int fd; /* -1 = text */
	const char *text;
	size_t text_len;
	char *in; /* IN_MAX bytes: compressed ones, or the first that were looked at */
	size_t at, end;
	bool is_begun, is_gzip, is_between; /* between: no member of the gzip file is open */
	int error; /* told when what was unpacked before it has been read */
	z_stream z;
};

static int source_new(int fd, const char *text, size_t len, struct trace_source **ret)
{
	struct trace_source *s = calloc(1, sizeof(*s));

	if (s)
		s->in = malloc(IN_MAX);
	if (!s || !s->in) {
		free(s);
		closep(&fd);
		return -ENOMEM;
	}
	s->fd = fd;
	s->text = text;
	s->text_len = len;
	*ret = s;
	return 0;
}

int trace_source_fd(int fd, struct trace_source **ret)
{
	return source_new(fd, NULL, 0, ret);
}

int trace_source_text(const char *text, size_t len, struct trace_source **ret)
{
	return source_new(-1, text, len, ret);
}

void trace_source_free(struct trace_source *s)
{
	if (!s)
		return;
	if (s->is_gzip)
		(void)inflateEnd(&s->z);
	closep(&s->fd);
	free(s->in);
	free(s);
}

static ssize_t read_raw(struct trace_source *s, char *ret, size_t cap)
{
	ssize_t n;

	if (s->fd < 0) {
		cap = MIN(cap, s->text_len);
		if (cap)
			memcpy(ret, s->text, cap);
		s->text += cap;
		s->text_len -= cap;
		return (ssize_t)cap;
	}
	do
		n = read(s->fd, ret, cap);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* Looks at the first two bytes: a pipe may hand them over one by one. */
static int begin(struct trace_source *s)
{
	while (s->end < 2) {
		ssize_t n = read_raw(s, s->in + s->end, IN_MAX - s->end);

		if (n < 0)
			return (int)n;
		if (n == 0)
			break;
		s->end += (size_t)n;
	}
	s->is_begun = true;
	if (s->end < 2 || s->in[0] != '\x1f' || s->in[1] != '\x8b')
		return 0;
	if (inflateInit2(&s->z, MAX_WBITS + GZIP_ONLY) != Z_OK)
		return -ENOMEM;
	s->is_gzip = true;
	return 0;
}

/* From the buffer of input. 0 or -errno. */
static int inflate_some(struct trace_source *s)
{
	int r;

	s->z.next_in = (Bytef *)s->in + s->at;
	s->z.avail_in = (uInt)(s->end - s->at);
	r = inflate(&s->z, Z_NO_FLUSH);
	s->at = s->end - s->z.avail_in;
	switch (r) {
	case Z_OK:
	case Z_BUF_ERROR:
		return 0;
	case Z_STREAM_END:
		/* Files put one behind the other are one file. */
		s->is_between = true;
		return inflateReset(&s->z) == Z_OK ? 0 : -EBADMSG;
	case Z_MEM_ERROR:
		return -ENOMEM;
	default:
		return -EBADMSG;
	}
}

static ssize_t read_gzip(struct trace_source *s, char *ret, size_t cap)
{
	s->z.next_out = (Bytef *)ret;
	s->z.avail_out = (uInt)cap;
	while (s->z.avail_out == cap) {
		if (s->error < 0)
			return s->error;
		if (s->at == s->end) {
			ssize_t n = read_raw(s, s->in, IN_MAX);

			if (n < 0)
				return n;
			if (n == 0)
				return s->is_between ? 0 : -ENODATA;
			s->at = 0;
			s->end = (size_t)n;
		}
		s->is_between = false;
		s->error = inflate_some(s);
	}
	return (ssize_t)(cap - s->z.avail_out);
}

ssize_t trace_source_read(struct trace_source *s, char *ret, size_t cap)
{
	int r = s->is_begun ? 0 : begin(s);

	if (r < 0)
		return r;
	if (s->is_gzip)
		return read_gzip(s, ret, cap);
	if (s->at == s->end)
		return read_raw(s, ret, cap);
	cap = MIN(cap, s->end - s->at);
	memcpy(ret, s->in + s->at, cap);
	s->at += cap;
	return (ssize_t)cap;
}
