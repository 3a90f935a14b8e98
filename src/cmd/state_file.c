/* SPDX-License-Identifier: MIT */
#include "cmd/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/map64.h"
#include "base/strbuf.h"

/* A small file is not worth being written anew. */
#define GROWN_MIN (256u << 10)
/* Names of stacks are what can be spared: the last eighth is for the rest. Before there is no room for either, the file is
 * written anew, if that makes some. */
#define NAMES_MAX (STATE_FILE_MAX - STATE_FILE_MAX / 8)
#define ROOM_MIN (STATE_FILE_MAX / 16)
#define FULL_MIN (NAMES_MAX - ROOM_MIN)
/* Written at once where nobody asks for it sooner. */
#define BUFFER_MAX (256u << 10)

struct record_head {
	uint32_t type, len;
	uint64_t sum; /* over type, length and data */
};

struct state_file {
	char *path, *path_new;
	int lock;	 /* on a file of its own: the file itself is replaced */
	int fd, fd_new;	 /* fd_new: between begin and end */
	struct strbuf buf;
	uint64_t size;	 /* written and buffered, of the one that is being written */
	uint64_t old_size; /* between begin and end: of the one that still counts */
	uint64_t live;	 /* at the last end */
	uint64_t left_out, failures;
};

static uint64_t checksum(uint32_t type, const void *data, size_t len)
{
	const uint32_t words[2] = { type, (uint32_t)len };

	return hash_bytes(hash_bytes(0, words, sizeof(words)), data, len);
}

int state_parse(const char *data, size_t len, int (*one)(uint32_t type, const char *data, size_t len, void *userdata),
		void *userdata, size_t *ret_valid)
{
	size_t at = 0;
	int r = 0;

	while (r >= 0 && len - at >= sizeof(struct record_head)) {
		const char *body = data + at + sizeof(struct record_head);
		struct record_head h;

		memcpy(&h, data + at, sizeof(h));
		if (h.len > STATE_RECORD_MAX || h.len > len - at - sizeof(h) || h.sum != checksum(h.type, body, h.len))
			break;
		at += sizeof(h) + h.len;
		r = one(h.type, body, h.len, userdata);
	}
	*ret_valid = at;
	return r < 0 ? r : 0;
}

int state_read(const char *path, char **ret, size_t *ret_len)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	_cleanup_free_ char *text = NULL;
	struct stat st;
	size_t len = 0;

	*ret = NULL;
	*ret_len = 0;
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	/* Others could have written it. */
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022)
		return -EPERM;
	if (st.st_size > STATE_FILE_MAX)
		return -E2BIG;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	while (len < (size_t)st.st_size) {
		ssize_t n = read(fd, text + len, (size_t)st.st_size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	*ret = TAKE_PTR(text);
	*ret_len = len;
	return 0;
}

int state_open(const char *path, struct state_file **ret)
{
	_cleanup_(state_freep) struct state_file *s = calloc(1, sizeof(*s));
	_cleanup_free_ char *lock = NULL;

	if (!s)
		return -ENOMEM;
	s->lock = s->fd = s->fd_new = -1;
	s->path = strdup(path);
	if (!s->path || asprintf(&s->path_new, "%s.new", path) < 0) {
		s->path_new = NULL;
		return -ENOMEM;
	}
	if (asprintf(&lock, "%s.lock", path) < 0) {
		lock = NULL;
		return -ENOMEM;
	}
	s->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock < 0 || flock(s->lock, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	*ret = TAKE_PTR(s);
	return 0;
}

void state_free(struct state_file *s)
{
	if (!s)
		return;
	if (s->fd_new >= 0) { /* not finished: the old file stays */
		(void)unlink(s->path_new);
		(void)close(s->fd_new);
		strbuf_reset(&s->buf);
	}
	state_flush(s);
	closep(&s->fd);
	closep(&s->lock);
	strbuf_done(&s->buf);
	free(s->path);
	free(s->path_new);
	free(s);
}

static void failed(struct state_file *s, int error)
{
	if (!s->failures++)
		log_warning("%s: what a restart needs cannot be written (%s): after one, earlier stacks will have no names",
			    s->path, strerror(-error));
}

void state_flush(struct state_file *s)
{
	const int fd = s->fd_new >= 0 ? s->fd_new : s->fd;
	int r = s->buf.error;

	if (fd >= 0 && r == 0 && s->buf.len)
		r = file_write_all(fd, s->buf.buf, s->buf.len);
	strbuf_reset(&s->buf);
	if (r == 0)
		return;
	failed(s, r);
	/* A record in parts hides all that would follow it: nothing more until the file has been written anew. */
	if (s->fd_new < 0)
		closep(&s->fd);
	s->size = STATE_FILE_MAX;
}

void state_add(struct state_file *s, enum kept_type type, const void *data, size_t len)
{
	const uint64_t max = type == KEPT_STACK || type == KEPT_COPY ? NAMES_MAX : STATE_FILE_MAX;
	struct record_head h = { .type = type, .len = (uint32_t)len };

	if (s->fd < 0 && s->fd_new < 0)
		return;
	if (len > STATE_RECORD_MAX || s->size + sizeof(h) + len > max) {
		s->left_out++;
		return;
	}
	h.sum = checksum(type, data, len);
	s->size += sizeof(h) + len;
	strbuf_add(&s->buf, &h, sizeof(h));
	strbuf_add(&s->buf, data, len);
	if (s->buf.len >= BUFFER_MAX)
		state_flush(s);
}

int state_begin(struct state_file *s)
{
	state_flush(s);
	(void)unlink(s->path_new);
	s->fd_new = open(s->path_new, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->fd_new < 0) {
		int r = -errno;

		failed(s, r);
		return r;
	}
	s->old_size = s->size;
	s->size = 0;
	return 0;
}

int state_end(struct state_file *s)
{
	const uint64_t failures = s->failures;
	int r = 0;

	state_flush(s);
	if (s->failures != failures)
		r = -EIO;
	else if (rename(s->path_new, s->path) < 0)
		failed(s, r = -errno);
	if (r < 0) {
		(void)unlink(s->path_new);
		closep(&s->fd_new);
		s->size = s->old_size;
		return r;
	}
	closep(&s->fd);
	s->fd = TAKE_FD(s->fd_new);
	s->live = s->size;
	return 0;
}

bool state_is_grown(const struct state_file *s)
{
	return s->size >= GROWN_MIN &&
	       (s->size / 2 >= s->live || (s->size >= FULL_MIN && s->size - s->live >= ROOM_MIN));
}

void state_stats(const struct state_file *s, struct state_stats *ret)
{
	*ret = (struct state_stats){ .bytes = s->size, .left_out = s->left_out, .failures = s->failures };
}
