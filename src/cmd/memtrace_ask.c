/* SPDX-License-Identifier: MIT */
#include "cmd/memtrace_ask.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

/* Who is to end waits so long for an answer that it has asked for. */
#define LAST_NS NSEC_PER_SEC

void memtrace_say(const char *fmt, ...)
{
	va_list ap;

	fputs("gpuxray memtrace: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

int asker_open(struct asker *a, const struct view_source_options *o)
{
	char why[VIEW_FEED_WHY_MAX] = "";
	int r = view_source_open(o, &a->source, why, sizeof(why));

	if (r == 0)
		r = view_feed_new(a->source, &a->feed);
	if (r < 0)
		memtrace_say("%s", *why && !a->source ? why : strerror(-r));
	return r;
}

void asker_done(struct asker *a)
{
	/* A thread may wait for its answer still: the end of this process ends it, and an own tracer too. */
	if (view_feed_free(a->feed) == 0)
		view_source_free(a->source);
	closep(&a->signal_fd);
}

static bool is_to_end(const struct asker *a)
{
	struct pollfd fd = { .fd = a->signal_fd, .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

/* Until the answer is there, or it is to end and there is none. */
static void wait_answer(struct asker *a)
{
	struct pollfd fds[] = { { .fd = view_feed_fd(a->feed), .events = POLLIN }, { .fd = a->signal_fd, .events = POLLIN } };
	uint64_t until_ns = UINT64_MAX, now = clock_monotonic_ns();

	while (!fds[0].revents && now < until_ns) {
		const bool is_ending = until_ns != UINT64_MAX;

		(void)poll(fds, is_ending ? 1 : 2, is_ending ? (int)((until_ns - now) / NSEC_PER_MSEC) + 1 : -1);
		now = clock_monotonic_ns();
		if (!is_ending && fds[1].revents)
			until_ns = now + LAST_NS;
	}
	a->is_given_up = !fds[0].revents;
}

static int lost(struct asker *a, int r, const char *why)
{
	/* What interrupts this may end an own tracer too. */
	if (is_to_end(a))
		return 0;
	if (r == -ENOMEM || !view_source_is_daemon(a->source)) {
		memtrace_say("%s", *why ? why : strerror(-r));
		return r;
	}
	if (!a->is_lost)
		memtrace_say("%s; asking again until it answers", *why ? why : strerror(-r));
	a->is_lost = true;
	return 0;
}

int asker_ask(struct asker *a, const struct view_query *q, struct view **ret)
{
	char why[VIEW_FEED_WHY_MAX] = "";
	int r = view_feed_ask(a->feed, q);

	*ret = NULL;
	if (r < 0)
		return r;
	wait_answer(a);
	if (a->is_given_up) {
		memtrace_say("no answer: what was known before is all");
		return 0;
	}
	r = view_feed_take(a->feed, ret, why);
	if (r < 0)
		return lost(a, r, why);
	if (a->is_lost)
		memtrace_say("the daemon answers again");
	a->is_lost = false;
	return 0;
}
