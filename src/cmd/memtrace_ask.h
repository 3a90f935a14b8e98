/* SPDX-License-Identifier: MIT */
/* How `gpuxray memtrace` asks: a daemon that hangs must not keep it from its signals. */
#pragma once

#include "base/cleanup.h"
#include "view/feed.h"

struct asker {
	struct view_source *source;
	struct view_feed *feed;
	int signal_fd;	  /* readable when it is to end; the caller sets it */
	bool is_lost;	  /* the daemon does not answer now */
	bool is_given_up; /* it was to end, and the answer did not come: nothing is asked any more */
};

#define ASKER_INIT { .signal_fd = -1 }

/* 0, or -errno after saying why. */
int asker_open(struct asker *a, const struct view_source_options *o);
void asker_done(struct asker *a);
/*
 * Waits for the answer; once it is to end, for a second at most. *ret, the caller's, is NULL where there is none: that has
 * been said, once for many, and it may be asked again. -errno, which has been said too: nobody can answer.
 */
int asker_ask(struct asker *a, const struct view_query *q, struct view **ret);

/* A line on standard error. */
void memtrace_say(const char *fmt, ...) _printf_(1, 2);
