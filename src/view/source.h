/* SPDX-License-Identifier: MIT */
/*
 * Where a live command gets its views: from the running daemon, else from a tracer of its own, a child process that ends
 * with it and writes no records. Blocking, one thread.
 */
#pragma once

#include "view/view.h"

struct view_source;

enum view_source_kind {
	VIEW_SOURCE_ANY,    /* the daemon if one answers, else an own tracer */
	VIEW_SOURCE_DAEMON, /* only the daemon */
	VIEW_SOURCE_OWN,    /* only an own tracer, also beside a daemon */
};

struct view_source_options {
	enum view_source_kind kind;
	const char *socket; /* of the daemon; NULL = status_socket_default() */
	/* For an own tracer. */
	const char *config;	 /* NULL = the usual file, which may be absent */
	char *const *libraries;	 /* further driver libraries to probe */
	size_t libraries_len;
	const uint32_t *pids;	 /* trace only these; none = all */
	size_t pids_len;
	bool is_verbose;	 /* what the tracer says of itself goes to stderr, not only why it failed */
};

/* On failure one line with cause and cure in reterr (size bytes). 0; -ENOTCONN (VIEW_SOURCE_DAEMON and none answers);
 * -EACCES; -errno. An own tracer has attached its probes when this returns. */
int view_source_open(const struct view_source_options *o, struct view_source **ret, char *reterr, size_t size);
void view_source_free(struct view_source *s); /* ends an own tracer; accepts NULL */
DEFINE_CLEANUP(struct view_source, view_source_free)

/*
 * Asks and waits for the answer, at most 10 s. A daemon that was restarted is found again by the next call. The caller
 * frees *ret. 0; -ENOTCONN (nobody answers now; for an own tracer: it has ended, reterr says why); -ETIMEDOUT; -EPROTO (the
 * answer is not one of ours); -ENOMEM.
 */
int view_source_ask(struct view_source *s, const struct view_query *q, struct view **ret, char *reterr, size_t size);
/* The daemon answers, not an own tracer. */
bool view_source_is_daemon(const struct view_source *s);
