/* SPDX-License-Identifier: MIT */
/* Where records go. Used by the writer thread alone, which may block in write for as long as the reader stalls. */
#pragma once

#include "base/cleanup.h"
#include "record/record.h"
#include "record/reporter.h"

struct sink {
	const struct sink_ops *ops;
};

struct sink_ops {
	enum sink_kind kind;
	/* 0 or -errno: then nothing, or for a stream an unusable part, was written. */
	int (*write)(struct sink *s, const struct record *r);
	/* Where to, and why a write failed with err and what to do about it, in a sentence. NULL = all is in err. */
	void (*explain)(const struct sink *s, int err, struct strbuf *sb);
	void (*close)(struct sink *s); /* frees */
};

/* 0 or -errno; -ENOENT, -ECONNREFUSED and the like: nobody listens at that socket. */
int sink_journal_open(const char *socket_path, struct sink **ret);
/* o is not needed afterwards. A receiver on the network is first asked for when there is something to write. */
int sink_syslog_open(const struct syslog_settings *o, struct sink **ret);
/* Works on a copy of fd. */
int sink_json_open(int fd, struct sink **ret);
int sink_text_open(int fd, struct sink **ret);

static inline void sink_close(struct sink *s)
{
	if (s)
		s->ops->close(s);
}
DEFINE_CLEANUP(struct sink, sink_close)

/* The sink that o asks for or, where nobody listens, the next one, which is said in a line of the log unless it is the one
 * that was in use before (SINK_AUTO = none was). 0 or -errno. */
int sink_open(const struct reporter_options *o, enum sink_kind before, struct sink **ret);

/* A connected socket of the type that listens at path: datagram or stream. fd or -errno. */
int sink_connect(const char *path, int *ret_type);
