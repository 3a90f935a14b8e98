/* SPDX-License-Identifier: MIT */
#include "http/textfile_writer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/privilege.h"
#include "base/textfile.h"
#include "base/thread.h"

/* How long the end waits for a write in progress. */
#define STOP_NS (2 * NSEC_PER_SEC)

struct textfile_writer {
	char *path;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t wake;
	char *data; /* to be written; NULL = nothing */
	size_t len;
	int error;
	bool is_written, is_stopping, is_done;
	pthread_t thread;
};

static void *work(void *userdata)
{
	struct textfile_writer *w = userdata;

	/* Its folder may be another user's. */
	(void)privilege_keep(PRIVILEGE(CAP_DAC_OVERRIDE));
	(void)pthread_mutex_lock(&w->lock);
	while (!w->is_stopping) {
		_cleanup_free_ char *data = TAKE_PTR(w->data);
		size_t len = w->len;
		int r;

		if (!data) {
			(void)cond_wait_until(&w->wake, &w->lock, UINT64_MAX);
			continue;
		}
		(void)pthread_mutex_unlock(&w->lock);
		r = textfile_write(w->path, data, len);
		(void)pthread_mutex_lock(&w->lock);
		w->error = r;
		w->is_written |= r == 0;
	}
	/* One that nobody writes any more would tell for ever who holds memory. */
	if (w->is_written)
		(void)unlink(w->path);
	w->is_done = true;
	(void)pthread_cond_broadcast(&w->wake);
	(void)pthread_mutex_unlock(&w->lock);
	return NULL;
}

static void writer_release(struct textfile_writer *w)
{
	free(w->data);
	free(w->path);
	(void)pthread_cond_destroy(&w->wake);
	(void)pthread_mutex_destroy(&w->lock);
	free(w);
}

int textfile_writer_new(const char *path, struct textfile_writer **ret)
{
	struct textfile_writer *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	(void)pthread_mutex_init(&w->lock, NULL);
	r = cond_init(&w->wake);
	w->path = strdup(path);
	if (r == 0 && !w->path)
		r = -ENOMEM;
	if (r == 0)
		r = thread_start(&w->thread, "gpuxray-file", work, w);
	if (r < 0)
		writer_release(w);
	else
		*ret = w;
	return r;
}

void textfile_writer_push(struct textfile_writer *w, char *data, size_t len)
{
	(void)pthread_mutex_lock(&w->lock);
	free(w->data);
	w->data = data;
	w->len = len;
	(void)pthread_cond_broadcast(&w->wake);
	(void)pthread_mutex_unlock(&w->lock);
}

int textfile_writer_error(struct textfile_writer *w)
{
	int r;

	(void)pthread_mutex_lock(&w->lock);
	r = w->error;
	(void)pthread_mutex_unlock(&w->lock);
	return r;
}

void textfile_writer_free(struct textfile_writer *w)
{
	uint64_t until = clock_monotonic_ns() + STOP_NS;
	bool is_done;

	if (!w)
		return;
	(void)pthread_mutex_lock(&w->lock);
	w->is_stopping = true;
	(void)pthread_cond_broadcast(&w->wake);
	while (!w->is_done && cond_wait_until(&w->wake, &w->lock, until))
		;
	is_done = w->is_done;
	(void)pthread_mutex_unlock(&w->lock);
	if (!is_done) {
		(void)pthread_detach(w->thread);
		return;
	}
	(void)pthread_join(w->thread, NULL);
	writer_release(w);
}
