/* SPDX-License-Identifier: MIT */
#include "top/loop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include "base/clock.h"
#include "view/feed.h"
#include "top/layout.h"
#include "top/screen.h"

#define AGE_NS NSEC_PER_SEC /* how old a view is, is told anew that often */

enum { FD_KEYS, FD_FEED, FD_SIGNALS, FDS };

struct loop {
	struct top_model *m;
	const struct top_loop_options *o;
	struct view_feed *feed;
	int signals;
	uint64_t next_ns; /* when to look again */
	uint64_t answers;
	bool is_asking, is_dirty;
};

static void take_signals(struct loop *l)
{
	struct signalfd_siginfo info;

	while (read(l->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGTSTP)
			screen_suspend();
		else if (info.ssi_signo == SIGCONT)
			screen_spoilt();
		else if (info.ssi_signo == SIGWINCH)
			screen_resize();
		else
			l->m->wants_end = true;
		l->is_dirty = true;
	}
}

static int take_keys(struct loop *l)
{
	uint32_t key;
	int r = 0;

	while (r == 0 && !l->m->wants_end && screen_key(&key)) {
		r = top_model_key(l->m, key);
		l->is_dirty = true;
	}
	return r;
}

static int take_answer(struct loop *l)
{
	char why[VIEW_FEED_WHY_MAX];
	struct view *view;
	int r;

	r = view_feed_take(l->feed, &view, why);
	if (r == -EAGAIN)
		return 0;
	l->is_asking = false;
	l->is_dirty = true;
	if (r < 0)
		return top_model_trouble(l->m, why);
	r = top_model_view(l->m, view, clock_monotonic_ns());
	l->answers++;
	if (l->answers == l->o->count)
		l->m->wants_end = true;
	return r;
}

static void ask(struct loop *l, uint64_t now)
{
	struct view_query q = { .pids = l->o->pids, .pids_len = l->o->pids_len };
	uint32_t site_pid;

	if (l->is_asking || (!l->m->wants_look && (l->m->is_paused || now < l->next_ns)))
		return;
	top_model_query(l->m, &q, &site_pid);
	if (view_feed_ask(l->feed, &q) < 0)
		return;
	l->is_asking = true;
	l->m->wants_look = false;
	l->next_ns = now + l->m->interval_ns;
}

static int draw(struct loop *l)
{
	_cleanup_grid_ struct grid g = {};
	size_t width, height;
	int r;

	screen_size(&width, &height);
	r = grid_init(&g, width, height, l->o->is_ascii);
	if (r < 0)
		return r;
	top_layout(l->m, &g);
	screen_draw(&g);
	l->is_dirty = false;
	return g.error;
}

static int wait_ms(const struct loop *l, uint64_t now)
{
	uint64_t until = now + AGE_NS;

	if (!l->is_asking && !l->m->is_paused)
		until = MIN(until, l->next_ns);
	return until > now ? (int)((until - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC) : 0;
}

static int step(struct loop *l)
{
	struct pollfd fds[FDS] = { [FD_KEYS] = { STDIN_FILENO, POLLIN, 0 },
				   [FD_FEED] = { view_feed_fd(l->feed), POLLIN, 0 },
				   [FD_SIGNALS] = { l->signals, POLLIN, 0 } };
	uint64_t now = clock_monotonic_ns();
	int r = 0;

	/* A shorter interval counts at once. */
	l->next_ns = MIN(l->next_ns, now + l->m->interval_ns);
	ask(l, now);
	l->m->now_ns = now;
	if (l->is_dirty)
		r = draw(l);
	if (r < 0)
		return r;
	if (poll(fds, FDS, wait_ms(l, now)) < 0)
		return errno == EINTR ? 0 : -errno;
	if (fds[FD_SIGNALS].revents)
		take_signals(l);
	if (fds[FD_FEED].revents)
		r = take_answer(l);
	if (r == 0 && fds[FD_KEYS].revents & POLLIN)
		r = take_keys(l);
	/* The terminal is gone. */
	if (fds[FD_KEYS].revents & (POLLHUP | POLLERR | POLLNVAL))
		l->m->wants_end = true;
	l->is_dirty = l->is_dirty || l->m->trouble || l->m->is_paused;
	return r;
}

static int open_signals(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH };
	sigset_t set;
	int fd;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		(void)sigaddset(&set, numbers[i]);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

int top_loop(struct top_model *m, const struct top_loop_options *o, bool *ret_busy, char *reterr, size_t size)
{
	struct loop l = { .m = m, .o = o, .signals = open_signals(), .is_dirty = true };
	int r = l.signals < 0 ? l.signals : view_feed_new(o->source, &l.feed);

	if (r == 0)
		r = screen_open(reterr, size);
	while (r == 0 && !m->wants_end)
		r = step(&l);
	screen_close();
	if (r < 0 && !*reterr)
		(void)snprintf(reterr, size, "%s", strerror(-r));
	*ret_busy = view_feed_free(l.feed) < 0;
	closep(&l.signals);
	return r;
}
