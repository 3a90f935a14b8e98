/* SPDX-License-Identifier: MIT */
#include "cmd/memtrace_targets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"

struct target *targets_find(const struct targets *l, uint32_t pid, uint64_t start_ticks)
{
	for (size_t i = 0; i < l->len; i++)
		if (l->list[i].pid == pid && l->list[i].start_ticks == start_ticks)
			return &l->list[i];
	return NULL;
}

static int grow(struct targets *l)
{
	const size_t cap = l->cap ? l->cap * 2 : 16;
	struct target *list = realloc(l->list, cap * sizeof(*list));
	struct pollfd *polls;

	if (!list)
		return -ENOMEM;
	l->list = list;
	polls = realloc(l->polls, (cap + TARGETS_WAIT_MAX) * sizeof(*polls));
	if (!polls)
		return -ENOMEM;
	l->polls = polls;
	l->cap = cap;
	return 0;
}

struct target *targets_add(struct targets *l, uint32_t pid, uint64_t start_ticks, int pidfd)
{
	_cleanup_close_ int fd = pidfd;
	struct target *t;

	if (l->len == l->cap && grow(l) < 0)
		return NULL;
	t = &l->list[l->len++];
	*t = (struct target){ .pid = pid, .start_ticks = start_ticks, .pidfd = TAKE_FD(fd) };
	return t;
}

void targets_drop(struct targets *l, struct target *t)
{
	closep(&t->pidfd);
	*t = l->list[--l->len];
}

void targets_done(struct targets *l)
{
	for (size_t i = 0; i < l->len; i++)
		closep(&l->list[i].pidfd);
	free(l->list);
	free(l->polls);
}

bool target_has_ended(const struct target *t)
{
	struct pollfd fd = { .fd = t->pidfd, .events = POLLIN };

	return t->ended_ns || t->pidfd < 0 || poll(&fd, 1, 0) > 0;
}

bool targets_have_ends(const struct targets *l)
{
	for (size_t i = 0; i < l->len; i++)
		if (l->list[i].ended_ns)
			return true;
	return false;
}

static bool is_waited_for(const struct target *t)
{
	return !t->ended_ns && t->pidfd >= 0;
}

int targets_wait(struct targets *l, struct pollfd *others, size_t others_len, uint64_t deadline_ns)
{
	const uint64_t now = clock_monotonic_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
	const struct timespec ts = { .tv_sec = (time_t)(left / NSEC_PER_SEC), .tv_nsec = (long)(left % NSEC_PER_SEC) };
	size_t n;

	if (!l->polls && grow(l) < 0)
		return -ENOMEM;
	memcpy(l->polls, others, others_len * sizeof(*others));
	n = others_len;
	/* No more than files may be open: ppoll() refuses what is longer. */
	for (size_t i = 0; i < l->len; i++)
		if (is_waited_for(&l->list[i]))
			l->polls[n++] = (struct pollfd){ .fd = l->list[i].pidfd, .events = POLLIN };
	if (ppoll(l->polls, n, &ts, NULL) < 0)
		return errno == EINTR ? 0 : -errno;
	memcpy(others, l->polls, others_len * sizeof(*others));
	n = others_len;
	for (size_t i = 0; i < l->len; i++)
		if (is_waited_for(&l->list[i]) && l->polls[n++].revents)
			l->list[i].ended_ns = clock_monotonic_ns();
	return 0;
}
