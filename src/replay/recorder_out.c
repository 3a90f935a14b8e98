/* SPDX-License-Identifier: MIT */
#include "replay/recorder_out.h"

#include <string.h>

#include "base/clock.h"
#include "base/privilege.h"
#include "base/strbuf.h"
#include "base/thread.h"
#include "record/record.h"
#include "replay/recorder.h"
#include "replay/recorder_file.h"
#include "replay/trace.h"
#include "rule/omit.h"
#include "stack/symbolizer.h"

/* So much is worth waking the thread for; less waits for the next flush. */
#define BATCH_BYTES (256u << 10)
#define FLUSH_NS (2 * NSEC_PER_SEC)
/* For lines that must not be missing, on top of the maximum. */
#define VITAL_SHARE 8
/* Each holds the frames of a stack; beyond it stacks stay without text. */
#define STACKS_WAITING_MAX 65536
#define ID_LEN 16 /* of a stack: digits */
#define STOP_NS (5 * NSEC_PER_SEC)

struct waiting {
	uint64_t number;
	struct stack *stack;
	struct waiting *next;
};

struct recorder_out {
	pthread_mutex_t lock;
	pthread_cond_t to_thread;
	pthread_t thread;
	uint64_t max;
	bool hides_folders;
	const struct redact *redact;

	struct strbuf pending; /* lines */
	uint64_t in_flight;    /* bytes that the thread has in hand */
	struct waiting *first, **last;
	size_t waiting_len;
	bool is_stopping;
	uint64_t stop_ns;
	struct recorder_out_stats stats;

	struct recorder_file *file;	/* the thread's */
	struct symbolizer *symbolizer; /* the thread's; NULL: stacks are not told */
	struct strbuf spare;		/* the thread's: memory of the batch before */
	uint64_t stack_bytes;		/* the thread's: of the texts of stacks */
};

int recorder_out_add(struct recorder_out *out, const char *lines, size_t len, bool is_vital)
{
	uint64_t max = out->max + (is_vital ? out->max / VITAL_SHARE : 0);
	bool was_empty;
	int r = 0;

	pthread_mutex_lock(&out->lock);
	was_empty = out->pending.len == 0;
	if (out->stats.error) {
		r = out->stats.error;
	} else if (out->pending.len + out->in_flight + len > max) {
		r = -ENOSPC;
	} else {
		strbuf_add(&out->pending, lines, len);
		if (out->pending.error) {
			out->pending.error = 0;
			r = -ENOSPC;
		}
	}
	if (was_empty || (out->pending.len >= BATCH_BYTES && out->pending.len < BATCH_BYTES + len))
		pthread_cond_signal(&out->to_thread);
	pthread_mutex_unlock(&out->lock);
	return r;
}

bool recorder_out_has_room(struct recorder_out *out)
{
	bool has_room;

	pthread_mutex_lock(&out->lock);
	has_room = out->pending.len + out->in_flight <= out->max / 2;
	pthread_mutex_unlock(&out->lock);
	return has_room;
}

void recorder_out_stack(struct recorder_out *out, uint64_t number, struct stack *s)
{
	struct waiting *w;

	if (!out->symbolizer || !s)
		return;
	w = calloc(1, sizeof(*w));
	if (!w)
		return;
	w->number = number;
	w->stack = stack_ref(s);
	pthread_mutex_lock(&out->lock);
	if (out->waiting_len < STACKS_WAITING_MAX && !out->stats.error) {
		*out->last = w;
		out->last = &w->next;
		if (out->waiting_len++ == 0)
			pthread_cond_signal(&out->to_thread);
		w = NULL;
	}
	pthread_mutex_unlock(&out->lock);
	if (w) {
		stack_unref(w->stack);
		free(w);
	}
}

void recorder_out_stats(struct recorder_out *out, struct recorder_out_stats *ret)
{
	pthread_mutex_lock(&out->lock);
	*ret = out->stats;
	pthread_mutex_unlock(&out->lock);
}

static struct waiting *take_waiting(struct recorder_out *out)
{
	struct waiting *w = out->first;

	if (!w)
		return NULL;
	out->first = w->next;
	if (!out->first)
		out->last = &out->first;
	out->waiting_len--;
	return w;
}

const char *recorder_stack_id(const char *frames, uint64_t *ret_id)
{
	*ret_id = 0;
	if (frames[0] != '@' || strspn(frames + 1, "0123456789abcdef") != ID_LEN ||
	    (frames[1 + ID_LEN] != ';' && frames[1 + ID_LEN]))
		return frames;
	*ret_id = strtoull(frames + 1, NULL, 16);
	return frames + 1 + ID_LEN + (frames[1 + ID_LEN] == ';');
}

/* Folders of a program are a person's at times: of "train (/home/me/loop.py:12)" and "f+0x1 (a) at /home/me/a.c:3" the last
 * part stays. In place. */
static void hide_folders(struct text_frame *f)
{
	char *path = f->text ? (f->is_python ? strstr(f->text, " (") : strstr(f->text, ") at ")) : NULL, *last;

	if (!path)
		return;
	path += strlen(f->is_python ? " (" : ") at ");
	last = strrchr(path, '/');
	if (last)
		memmove(path, last + 1, strlen(last + 1) + 1);
}

/* A path in it may be secret. In place; without its text where there is no memory. */
static void redact_frame(const struct redact *redact, struct text_frame *f)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	char *clean = NULL;

	redact_text(redact, f->text ?: "", &sb);
	(void)strbuf_steal(&sb, &clean);
	free(f->text);
	f->text = clean;
}

/* The line of a stack. */
static void describe(struct recorder_out *out, const struct waiting *w, struct strbuf *sb)
{
	_cleanup_(stack_text_freep) struct stack_text *st = NULL;
	_cleanup_free_ struct text_frame *frames = NULL;
	struct stack_text with_id = {};
	char id[1 + ID_LEN + 1];

	if (symbolizer_resolve(out->symbolizer, w->stack, STACK_OK, &st) < 0 || !st->len)
		return;
	for (size_t i = 0; i < st->len; i++) {
		if (out->hides_folders)
			hide_folders(&st->frames[i]);
		redact_frame(out->redact, &st->frames[i]);
	}
	frames = calloc(st->len + 1, sizeof(*frames));
	if (!frames)
		return;
	snprintf(id, sizeof(id), "@%s", st->id ?: "");
	frames[0].text = id;
	memcpy(frames + 1, st->frames, st->len * sizeof(*frames));
	with_id.frames = st->id ? frames : frames + 1;
	with_id.len = st->len + (st->id != NULL);
	if (redact_omitted(out->redact) & OMIT_BIT(OMIT_STACK))
		with_id.len = st->id != NULL;
	trace_write_stack(sb, w->number, &with_id);
	/* With more of them nobody reads the trace. */
	if (sb->error || sb->len > TRACE_STACK_BYTES_MAX - out->stack_bytes)
		strbuf_reset(sb);
	out->stack_bytes += sb->len;
}

/* Locked; unlocks meanwhile. */
static void tell_stack(struct recorder_out *out)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct waiting *w = take_waiting(out);

	pthread_mutex_unlock(&out->lock);
	describe(out, w, &sb);
	stack_unref(w->stack);
	free(w);
	pthread_mutex_lock(&out->lock);
	/* It waits for nobody: who fills the memory are the lines of events. */
	strbuf_add(&out->pending, strbuf_str(&sb), sb.len);
	if (out->pending.error)
		out->pending.error = 0;
	else
		out->stats.stacks += sb.len > 0;
}

/* Locked; unlocks meanwhile. */
static void write_batch(struct recorder_out *out, bool is_flush)
{
	struct strbuf batch = out->pending;
	uint64_t file_bytes;
	int r = out->stats.error;

	out->pending = out->spare;
	out->in_flight = batch.len;
	pthread_mutex_unlock(&out->lock);
	if (r == 0)
		r = recorder_file_write(out->file, strbuf_str(&batch), batch.len, is_flush);
	file_bytes = recorder_file_bytes(out->file);
	pthread_mutex_lock(&out->lock);
	out->in_flight = 0;
	out->stats.text_bytes += r == 0 ? batch.len : 0;
	out->stats.file_bytes = file_bytes;
	out->stats.error = r;
	if (batch.cap > 4 * BATCH_BYTES)
		strbuf_done(&batch);
	strbuf_reset(&batch);
	out->spare = batch;
}

static bool has_unwritten(const struct recorder_out *out)
{
	return out->pending.len || !recorder_file_is_flushed(out->file);
}

/* Locked; unlocks meanwhile. False: nothing was to be done. */
static bool do_one(struct recorder_out *out, uint64_t *flush_ns)
{
	uint64_t now = clock_monotonic_ns();
	bool is_flush = now >= *flush_ns;

	if (out->pending.len >= BATCH_BYTES || (is_flush && has_unwritten(out))) {
		write_batch(out, is_flush);
		if (is_flush)
			*flush_ns = clock_monotonic_ns() + FLUSH_NS;
		return true;
	}
	/* After an error whoever closes us waits for nothing. */
	if (out->waiting_len && !out->stats.error && !(out->is_stopping && now >= out->stop_ns)) {
		tell_stack(out);
		return true;
	}
	if (!out->is_stopping)
		return false;
	write_batch(out, true);
	return false;
}

static void *out_thread(void *userdata)
{
	struct recorder_out *out = userdata;
	uint64_t flush_ns = clock_monotonic_ns() + FLUSH_NS;

	(void)privilege_keep(0);
	pthread_mutex_lock(&out->lock);
	for (;;) {
		bool has_work = do_one(out, &flush_ns);

		if (has_work)
			continue;
		if (out->is_stopping && !out->pending.len)
			break;
		(void)cond_wait_until(&out->to_thread, &out->lock, has_unwritten(out) ? flush_ns : UINT64_MAX);
	}
	pthread_mutex_unlock(&out->lock);
	return NULL;
}

static void out_free(struct recorder_out *out)
{
	struct waiting *w;

	while ((w = take_waiting(out))) {
		stack_unref(w->stack);
		free(w);
	}
	symbolizer_free(out->symbolizer);
	recorder_file_free(out->file);
	strbuf_done(&out->pending);
	strbuf_done(&out->spare);
	pthread_cond_destroy(&out->to_thread);
	pthread_mutex_destroy(&out->lock);
	free(out);
}

int recorder_out_new(const struct recorder_out_options *o, struct recorder_out **ret)
{
	struct symbolizer_limits limits = SYMBOLIZER_LIMITS_DEFAULT;
	struct recorder_out *out = calloc(1, sizeof(*out));
	int r;

	if (!out)
		return -ENOMEM;
	out->last = &out->first;
	out->max = o->max_pending_bytes;
	out->hides_folders = !o->is_private;
	out->redact = o->redact;
	r = -pthread_mutex_init(&out->lock, NULL);
	if (r == 0) {
		r = cond_init(&out->to_thread);
		if (r < 0)
			pthread_mutex_destroy(&out->lock);
	}
	if (r < 0) {
		free(out);
		return r;
	}
	if (o->objects)
		r = symbolizer_new(o->objects, &limits, &out->symbolizer);
	if (r == 0)
		r = recorder_file_open(o->path, o->is_private, &out->file);
	if (r == 0)
		r = thread_start(&out->thread, "gpuxray-record", out_thread, out);
	if (r < 0) {
		out_free(out);
		return r;
	}
	*ret = out;
	return 0;
}

int recorder_out_close(struct recorder_out *out, struct recorder_out_stats *ret)
{
	int r;

	pthread_mutex_lock(&out->lock);
	out->is_stopping = true;
	out->stop_ns = clock_monotonic_ns() + STOP_NS;
	pthread_cond_signal(&out->to_thread);
	pthread_mutex_unlock(&out->lock);
	recorder_file_hurry(out->file);
	(void)pthread_join(out->thread, NULL);
	r = recorder_file_end(out->file);
	out->stats.file_bytes = recorder_file_bytes(out->file);
	if (out->stats.error == 0)
		out->stats.error = r;
	r = out->stats.error;
	if (ret)
		*ret = out->stats;
	out_free(out);
	return r;
}
