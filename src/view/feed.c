/* SPDX-License-Identifier: MIT */
#include "view/feed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/thread.h"

#define END_NS (300 * NSEC_PER_MSEC)

enum feed_state { FEED_IDLE, FEED_ASKED, FEED_ANSWERED };

struct view_feed {
	struct view_source *source;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	int fd;
	bool is_ending, has_ended;
	enum feed_state state;
	struct view_query query;
	uint32_t pids[VIEW_PIDS_MAX], site_pids[VIEW_PIDS_MAX]; /* of the query */
	int error; /* of the answer */
	struct view *view;
	char why[VIEW_FEED_WHY_MAX];
};

static void answer(struct view_feed *f, int r, struct view *view, const char *why)
{
	f->error = r;
	f->view = view;
	if (r < 0)
		(void)snprintf(f->why, sizeof(f->why), "%s", *why ? why : strerror(-r));
	f->state = FEED_ANSWERED;
	(void)eventfd_write(f->fd, 1);
}

static void *feed_main(void *userdata)
{
	struct view_feed *f = userdata;

	(void)pthread_mutex_lock(&f->lock);
	while (!f->is_ending) {
		char why[VIEW_FEED_WHY_MAX] = "";
		struct view *view = NULL;
		int r;

		if (f->state != FEED_ASKED) {
			(void)cond_wait_until(&f->cond, &f->lock, UINT64_MAX);
			continue;
		}
		(void)pthread_mutex_unlock(&f->lock);
		r = view_source_ask(f->source, &f->query, &view, why, sizeof(why));
		(void)pthread_mutex_lock(&f->lock);
		answer(f, r, r < 0 ? NULL : view, why);
	}
	f->has_ended = true;
	(void)pthread_cond_broadcast(&f->cond);
	(void)pthread_mutex_unlock(&f->lock);
	return NULL;
}

static void release(struct view_feed *f)
{
	closep(&f->fd);
	view_free(f->view);
	(void)pthread_cond_destroy(&f->cond);
	(void)pthread_mutex_destroy(&f->lock);
	free(f);
}

int view_feed_new(struct view_source *source, struct view_feed **ret)
{
	struct view_feed *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return -ENOMEM;
	f->source = source;
	(void)pthread_mutex_init(&f->lock, NULL);
	r = cond_init(&f->cond);
	f->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r == 0 && f->fd < 0)
		r = -errno;
	if (r == 0)
		r = thread_start(&f->thread, "view", feed_main, f);
	if (r < 0) {
		release(f);
		return r;
	}
	*ret = f;
	return 0;
}

int view_feed_free(struct view_feed *f)
{
	const uint64_t deadline = clock_monotonic_ns() + END_NS;
	bool has_ended;

	if (!f)
		return 0;
	(void)pthread_mutex_lock(&f->lock);
	f->is_ending = true;
	(void)pthread_cond_broadcast(&f->cond);
	while (!f->has_ended && cond_wait_until(&f->cond, &f->lock, deadline))
		continue;
	has_ended = f->has_ended;
	(void)pthread_mutex_unlock(&f->lock);
	if (!has_ended)
		return -EBUSY;
	(void)pthread_join(f->thread, NULL);
	release(f);
	return 0;
}

int view_feed_fd(const struct view_feed *f)
{
	return f->fd;
}

static const uint32_t *copy(uint32_t to[VIEW_PIDS_MAX], const uint32_t *from, size_t *len)
{
	*len = MIN(*len, (size_t)VIEW_PIDS_MAX);
	if (*len > 0)
		memcpy(to, from, *len * sizeof(*to));
	return to;
}

int view_feed_ask(struct view_feed *f, const struct view_query *q)
{
	int r = -EBUSY;

	(void)pthread_mutex_lock(&f->lock);
	if (f->state == FEED_IDLE) {
		f->query = *q;
		f->query.pids = copy(f->pids, q->pids, &f->query.pids_len);
		f->query.site_pids = copy(f->site_pids, q->site_pids, &f->query.site_pids_len);
		f->state = FEED_ASKED;
		(void)pthread_cond_broadcast(&f->cond);
		r = 0;
	}
	(void)pthread_mutex_unlock(&f->lock);
	return r;
}

int view_feed_take(struct view_feed *f, struct view **ret, char why[VIEW_FEED_WHY_MAX])
{
	eventfd_t n;
	int r = -EAGAIN;

	(void)pthread_mutex_lock(&f->lock);
	if (f->state == FEED_ANSWERED) {
		(void)eventfd_read(f->fd, &n);
		*ret = TAKE_PTR(f->view);
		memcpy(why, f->why, sizeof(f->why));
		r = f->error;
		f->state = FEED_IDLE;
	}
	(void)pthread_mutex_unlock(&f->lock);
	return r;
}
