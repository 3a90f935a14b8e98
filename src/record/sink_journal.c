/* SPDX-License-Identifier: MIT */
/* CODE_FILE and the like would name this file, not the culprit. */
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-journal.h>

#include "record/sink.h"

struct sink_journal {
	struct sink sink;
	char *path;
};

static int journal_write(struct sink *s, const struct record *r)
{
	struct sink_journal *j = (struct sink_journal *)s;
	struct iovec iov[RECORD_FIELDS_MAX];
	struct stat st;

	/* sd_journal_sendv() calls it success when the socket is not there. */
	if (stat(j->path, &st) < 0)
		return -errno;
	for (size_t i = 0; i < r->len; i++)
		iov[i] = (struct iovec){ .iov_base = r->data.buf + r->field[i].offset, .iov_len = r->field[i].len };
	return sd_journal_sendv(iov, (int)r->len);
}

static void journal_close(struct sink *s)
{
	struct sink_journal *j = (struct sink_journal *)s;

	free(j->path);
	free(j);
}

static const struct sink_ops journal_ops = { SINK_JOURNAL, journal_write, NULL, journal_close };

int sink_journal_open(const char *socket_path, struct sink **ret)
{
	_cleanup_free_ struct sink_journal *j = NULL;
	_cleanup_close_ int fd = -1;
	int type;

	fd = sink_connect(socket_path, &type);
	if (fd < 0)
		return fd;
	j = calloc(1, sizeof(*j));
	if (!j)
		return -ENOMEM;
	j->sink.ops = &journal_ops;
	j->path = strdup(socket_path);
	if (!j->path)
		return -ENOMEM;
	*ret = &TAKE_PTR(j)->sink;
	return 0;
}
