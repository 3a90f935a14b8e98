/* SPDX-License-Identifier: MIT */
#include "cmd/view_worker.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/privilege.h"
#include "base/thread.h"
#include "record/stack_lines.h"
#include "rule/omit.h"
#include "stack/symbolizer.h"

/* Of one stack: as much as the field of a record has several times over. */
#define STACK_TEXT_MAX 16384
/* Names remembered: whoever looks looks at the same few stacks again. */
#define CACHE_BYTES (1u << 20)
/* Of all stacks of one answer: some thousands of long ones. A client may ask for every call site of the host. */
#define ANSWER_STACKS_MAX (8u << 20)
/* Who asks waits 10 s; names found by then are known at the next question. */
#define ANSWER_NS (5 * NSEC_PER_SEC)

struct job {
	uint64_t id;
	struct view *view;
	struct view_stacks stacks;
	char *text;
	atomic_bool is_cancelled;
	struct job *next;
};

struct view_worker {
	struct symbolizer *symbolizer; /* the thread's */
	const struct redact *redact;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t wake;
	struct job *waiting, *done; /* oldest first */
	struct job *current;	    /* the thread's; NULL = none */
	bool is_stopping;
	int fd;
	pthread_t thread;
	bool has_thread;
};

static void job_free(struct job *j)
{
	view_free(j->view);
	view_stacks_done(&j->stacks);
	free(j->text);
	free(j);
}

static void append(struct job **list, struct job *j)
{
	while (*list)
		list = &(*list)->next;
	*list = j;
}

static struct job *shift(struct job **list)
{
	struct job *j = *list;

	if (j) {
		*list = j->next;
		j->next = NULL;
	}
	return j;
}

static int make_stack(struct view_worker *w, const struct view_stack *s, struct view_site *site)
{
	_cleanup_(stack_text_freep) struct stack_text *st = NULL;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	int r;

	if (redact_omitted(w->redact) & OMIT_BIT(OMIT_STACK))
		return view_set(&site->stack_info, "omitted");
	r = symbolizer_resolve(w->symbolizer, s->stack, s->reason, &st);
	if (r < 0)
		return r;
	stack_lines_add(st, w->redact, STACK_TEXT_MAX, SIZE_MAX, &sb);
	r = sb.error ? sb.error : sb.len ? strbuf_steal(&sb, &site->stack) : 0;
	return r == 0 ? view_set(&site->stack_info, st->info) : r;
}

static void make(struct view_worker *w, struct job *j)
{
	const uint64_t until_ns = clock_monotonic_ns() + ANSWER_NS;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	size_t room = ANSWER_STACKS_MAX;
	int r = 0;

	for (size_t i = 0; r == 0 && i < j->stacks.len && !atomic_load(&j->is_cancelled); i++) {
		const struct view_stack *s = &j->stacks.list[i];
		struct view_site *site = &j->view->processes[s->process].sites[s->site];

		if (!room)
			r = view_set(&site->stack_info, "left out: the answer has no room for so many");
		else if (clock_monotonic_ns() >= until_ns)
			r = view_set(&site->stack_info, "left out: to make so many takes too long");
		else
			r = make_stack(w, s, site);
		if (site->stack)
			room -= MIN(room, strlen(site->stack));
	}
	if (r == 0 && !atomic_load(&j->is_cancelled))
		view_encode(j->view, &sb);
	if (r < 0 || strbuf_steal(&sb, &j->text) < 0)
		j->text = NULL;
	view_free(TAKE_PTR(j->view));
	view_stacks_done(&j->stacks);
}

static void *work(void *userdata)
{
	struct view_worker *w = userdata;
	const uint64_t one = 1;

	(void)privilege_keep(PRIVILEGE_FILES);
	(void)pthread_mutex_lock(&w->lock);
	while (!w->is_stopping) {
		struct job *j = shift(&w->waiting);

		if (!j) {
			(void)cond_wait_until(&w->wake, &w->lock, UINT64_MAX);
			continue;
		}
		w->current = j;
		(void)pthread_mutex_unlock(&w->lock);
		make(w, j);
		(void)pthread_mutex_lock(&w->lock);
		w->current = NULL;
		if (atomic_load(&j->is_cancelled)) {
			job_free(j);
			continue;
		}
		append(&w->done, j);
		(void)!write(w->fd, &one, sizeof(one));
	}
	(void)pthread_mutex_unlock(&w->lock);
	return NULL;
}

int view_worker_new(struct objects *objects, const struct redact *redact, struct view_worker **ret)
{
	const struct symbolizer_limits limits = { .cache_bytes = CACHE_BYTES, .max_symbols = 8000000 };
	_cleanup_(view_worker_freep) struct view_worker *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	w->redact = redact;
	(void)pthread_mutex_init(&w->lock, NULL);
	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = w->fd < 0 ? -errno : cond_init(&w->wake);
	if (r == 0)
		r = symbolizer_new(objects, &limits, &w->symbolizer);
	if (r == 0)
		r = thread_start(&w->thread, "gpuxray-view", work, w);
	if (r < 0)
		return r;
	w->has_thread = true;
	*ret = TAKE_PTR(w);
	return 0;
}

void view_worker_free(struct view_worker *w)
{
	struct job *j;

	if (!w)
		return;
	if (w->has_thread) {
		(void)pthread_mutex_lock(&w->lock);
		w->is_stopping = true;
		if (w->current)
			atomic_store(&w->current->is_cancelled, true);
		(void)pthread_cond_broadcast(&w->wake);
		(void)pthread_mutex_unlock(&w->lock);
		(void)pthread_join(w->thread, NULL);
	}
	while ((j = shift(&w->waiting)) || (j = shift(&w->done)))
		job_free(j);
	symbolizer_free(w->symbolizer);
	(void)pthread_cond_destroy(&w->wake);
	(void)pthread_mutex_destroy(&w->lock);
	if (w->fd >= 0)
		(void)close(w->fd);
	free(w);
}

int view_worker_fd(const struct view_worker *w)
{
	return w->fd;
}

int view_worker_push(struct view_worker *w, uint64_t id, struct view *v, struct view_stacks *stacks)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j) {
		view_free(v);
		view_stacks_done(stacks);
		return -ENOMEM;
	}
	*j = (struct job){ .id = id, .view = v, .stacks = *stacks };
	*stacks = (struct view_stacks)VIEW_STACKS_INIT;
	(void)pthread_mutex_lock(&w->lock);
	append(&w->waiting, j);
	(void)pthread_cond_signal(&w->wake);
	(void)pthread_mutex_unlock(&w->lock);
	return 0;
}

static void drop(struct job **list, uint64_t id)
{
	while (*list) {
		struct job *j = *list;

		if (j->id != id) {
			list = &j->next;
			continue;
		}
		*list = j->next;
		job_free(j);
	}
}

void view_worker_cancel(struct view_worker *w, uint64_t id)
{
	(void)pthread_mutex_lock(&w->lock);
	drop(&w->waiting, id);
	drop(&w->done, id);
	if (w->current && w->current->id == id)
		atomic_store(&w->current->is_cancelled, true);
	(void)pthread_mutex_unlock(&w->lock);
}

int view_worker_take(struct view_worker *w, uint64_t *ret_id, char **ret)
{
	struct job *j;
	uint64_t n;

	(void)pthread_mutex_lock(&w->lock);
	(void)!read(w->fd, &n, sizeof(n));
	j = shift(&w->done);
	/* One is taken at a time: there may be more. */
	if (w->done)
		(void)!write(w->fd, &(uint64_t){ 1 }, sizeof(n));
	(void)pthread_mutex_unlock(&w->lock);
	if (!j)
		return 0;
	*ret_id = j->id;
	*ret = TAKE_PTR(j->text);
	job_free(j);
	return 1;
}
