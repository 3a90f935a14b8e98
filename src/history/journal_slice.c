/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/file.h"
#include "history/journal_entry.h"
#include "history/journal_slice.h"

#define WORKERS_MAX 4
#define SLICES_MAX 4096
/* A handle maps what it reads and keeps that until it is closed, so slices are short. */
#define SLICE_BYTES (UINT64_C(6) << 20)
#define SLICE_ENTRIES_MAX 8192 /* then another handle goes on */
/* Entries from behind the slice, one after the other, that end it: fewer may have been written by a clock that was ahead
 * and then set back, as one is that runs until the network tells the time. */
#define BEHIND_MAX 64
/* A worker whose turn it is not holds back as much as this, and its pipe the rest. */
#define BLOCK_BYTES ((size_t)4 << 20)
#define PIPE_BYTES (1 << 20)

struct slice {
	uint64_t from_usec, until_usec;
};

/* Before each part of a pipe's data. */
struct part {
	uint32_t len;
	int32_t end; /* 0: entries follow; 1: that was the slice; -errno: that was all */
};

struct reading {
	const struct journal_files *files;
	uint32_t own_uid;
	struct slice *slices;
	size_t slices_len;
	size_t workers;
};

struct worker {
	pid_t pid;
	int fd; /* the end of the pipe that is this process's */
};

static int read_all(int fd, void *data, size_t len)
{
	while (len > 0) {
		ssize_t n = read(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		data = (char *)data + n;
		len -= (size_t)n;
	}
	return 0;
}

static int put(int fd, struct entries *x, int end)
{
	struct part part = { .len = (uint32_t)x->len, .end = end };
	int r = file_write_all(fd, &part, sizeof(part));

	if (r == 0)
		r = file_write_all(fd, x->data, x->len);
	x->len = 0;
	return r;
}

static int open_files(const struct reading *rd, uint64_t from_usec, uint64_t until_usec, sd_journal **ret)
{
	_cleanup_free_ const char **paths = journal_files_of(rd->files, from_usec, until_usec, SIZE_MAX);
	int r;

	*ret = NULL;
	if (!paths)
		return -ENOMEM;
	if (!paths[0])
		return 0;
	r = sd_journal_open_files(ret, paths, 0);
	return r < 0 ? r : sd_journal_add_match(*ret, "SYSLOG_IDENTIFIER=gpuxray", 0);
}

/* From *cursor on, where there is one; it is set where another handle must go on. */
static int read_some(const struct reading *rd, const struct slice *s, int fd, struct entries *x, char **cursor)
{
	_cleanup_(sd_journal_closep) sd_journal *j = NULL;
	size_t behind = 0;
	uint64_t usec;
	int r;

	r = open_files(rd, s->from_usec, s->until_usec, &j);
	if (r < 0 || !j)
		return r;
	r = *cursor ? sd_journal_seek_cursor(j, *cursor) : sd_journal_seek_realtime_usec(j, s->from_usec);
	free(TAKE_PTR(*cursor));
	for (size_t count = 0; r >= 0 && (r = sd_journal_next(j)) > 0; count++) {
		r = sd_journal_get_realtime_usec(j, &usec);
		behind = usec >= s->until_usec ? behind + 1 : 0;
		if (r < 0 || behind > BEHIND_MAX)
			break;
		if (count >= SLICE_ENTRIES_MAX && behind == 0)
			return sd_journal_get_cursor(j, cursor);
		if (usec >= s->from_usec && behind == 0)
			r = journal_entry_pack(j, rd->own_uid, x);
		/* A damaged entry is left out. */
		if (r == -EBADMSG)
			r = 0;
		if (r >= 0 && x->len >= BLOCK_BYTES)
			r = put(fd, x, 0);
	}
	return r;
}

static int read_slice(const struct reading *rd, const struct slice *s, int fd, struct entries *x)
{
	_cleanup_free_ char *cursor = NULL;
	int r;

	do
		r = read_some(rd, s, fd, x, &cursor);
	while (r >= 0 && cursor);
	return r < 0 ? r : put(fd, x, 1);
}

static void work(const struct reading *rd, size_t number, int fd)
{
	_cleanup_entries_ struct entries x = {};
	int r = 0;

	for (size_t i = number; i < rd->slices_len && r == 0; i += rd->workers)
		r = read_slice(rd, &rd->slices[i], fd, &x);
	x.len = 0;
	if (r < 0)
		(void)put(fd, &x, r);
}

static int start(const struct reading *rd, size_t number, const struct worker *others, struct worker *ret)
{
	pid_t parent = getpid(), pid;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	/* Where that much is not allowed it waits more often. */
	(void)fcntl(fds[0], F_SETPIPE_SZ, PIPE_BYTES);
	pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		close(fds[0]);
		for (size_t i = 0; i < number; i++)
			close(others[i].fd);
		work(rd, number, fds[1]);
		/* Nothing of the parent's is to be written or undone here. */
		_exit(0);
	}
	close(fds[1]);
	if (pid < 0) {
		int err = errno;

		close(fds[0]);
		return -err;
	}
	*ret = (struct worker){ .pid = pid, .fd = fds[0] };
	return 0;
}

static int take_part(struct entries *x, slice_take take, void *userdata)
{
	const char *at = x->data, *end = at + x->len;
	struct entry e;
	int r = 0;

	while (at < end && r == 0) {
		journal_entry_unpack(&at, &e);
		r = take(userdata, &e);
	}
	return r;
}

static int take_slice(int fd, struct entries *x, slice_take take, void *userdata)
{
	struct part part = {};
	int r = 0;

	while (part.end == 0 && r == 0) {
		r = read_all(fd, &part, sizeof(part));
		if (r == 0)
			r = journal_entries_set_len(x, part.len);
		if (r == 0)
			r = read_all(fd, x->data, x->len);
		if (r == 0 && x->len > 0)
			r = take_part(x, take, userdata);
	}
	return r == 0 && part.end < 0 ? part.end : r;
}

static size_t worker_count(size_t slices)
{
	cpu_set_t set;
	size_t cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;

	return MIN(MIN(cpus, slices), (size_t)WORKERS_MAX);
}

static int cut(struct reading *rd, uint64_t from_usec, uint64_t until_usec)
{
	uint64_t bytes = 0, first = UINT64_MAX, last = 0, step;

	for (size_t i = 0; i < rd->files->len; i++) {
		const struct journal_file *f = &rd->files->list[i];

		if (f->first_usec >= until_usec || f->last_usec < from_usec)
			continue;
		bytes += f->size;
		first = MIN(first, f->first_usec);
		last = MAX(last, f->last_usec);
	}
	rd->slices_len = MIN(bytes / SLICE_BYTES + 1, (uint64_t)SLICES_MAX);
	rd->slices = calloc(rd->slices_len, sizeof(*rd->slices));
	if (!rd->slices)
		return -ENOMEM;
	first = MAX(MIN(first, last), from_usec);
	last = MIN(MAX(first, last), until_usec);
	step = (last - first) / rd->slices_len + 1;
	for (size_t i = 0; i < rd->slices_len; i++) {
		struct slice *s = &rd->slices[i];

		s->from_usec = i == 0 ? from_usec : first + i * step;
		s->until_usec = i + 1 == rd->slices_len ? until_usec : MIN(first + (i + 1) * step, until_usec);
	}
	rd->workers = worker_count(rd->slices_len);
	return 0;
}

static int run(struct reading *rd, slice_take take, void *userdata)
{
	_cleanup_entries_ struct entries x = {};
	struct worker workers[WORKERS_MAX];
	size_t started = 0;
	int r = 0;

	while (started < rd->workers && r == 0) {
		r = start(rd, started, workers, &workers[started]);
		started += r == 0;
	}
	for (size_t i = 0; i < rd->slices_len && r == 0; i++)
		r = take_slice(workers[i % rd->workers].fd, &x, take, userdata);
	/* Who still writes finds its pipe closed. */
	for (size_t i = 0; i < started; i++)
		close(workers[i].fd);
	for (size_t i = 0; i < started; i++)
		while (waitpid(workers[i].pid, NULL, 0) < 0 && errno == EINTR)
			;
	return r;
}

int journal_slices_read(const struct journal_files *files, uint64_t from_usec, uint64_t until_usec, uint32_t own_uid,
			slice_take take, void *userdata)
{
	struct reading rd = { .files = files, .own_uid = own_uid };
	int r = cut(&rd, from_usec, until_usec);

	if (r == 0)
		r = run(&rd, take, userdata);
	free(rd.slices);
	return r;
}
