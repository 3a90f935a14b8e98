/* SPDX-License-Identifier: MIT */
#include "record/reporter.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "bpf/event.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/privilege.h"
#include "base/thread.h"
#include "proc/procfs.h"
#include "record/budget.h"
#include "record/queue.h"
#include "record/sink.h"

/* A new stack is resolved within moments. A resolver that was late once is given less time until it keeps up again: not
 * every record must wait for it. */
#define RESOLVE_NS NSEC_PER_SEC
#define RESOLVE_LATE_NS (50 * NSEC_PER_MSEC)
/* How often a wait looks whether it is to end. */
#define RESOLVE_SLICE_NS (50 * NSEC_PER_MSEC)
/* Of our own, where the caller shares none. */
#define OBJECTS_MAX 512
/* Files of the traced that no stack lay in for so long are closed: they keep disk space (of images and builds that were
 * deleted since) and mounts busy. What is needed again is opened again, by map_files where its process lives. */
#define TRIM_IDLE_NS (600 * NSEC_PER_SEC)
#define TRIM_INTERVAL_NS (60 * NSEC_PER_SEC)
/* A receiver that restarts is back within moments. One that stays away is asked less and less often, and told of. */
#define RETRY_MIN_NS (50 * NSEC_PER_MSEC)
#define RETRY_MAX_NS (5 * NSEC_PER_SEC)
#define OUTAGE_NS NSEC_PER_SEC
/* What a stop waits for a receiver that is away. */
#define STOP_RETRY_NS NSEC_PER_SEC
/* For a thread that is not stuck to see that it is to end. */
#define GRACE_NS (200 * NSEC_PER_MSEC)

#define RANK_HISTORY 0
#define RANK(severity) ((unsigned)(severity) + 1)
_Static_assert(QUEUE_RANKS == RANK(SEVERITY_MAX), "a rank for each severity and one for the history");

enum phase {
	PHASE_IDLE,
	PHASE_SLOW,  /* in a file or a write: may take for ever; touches nothing the caller lent us */
	PHASE_BUILD, /* uses the caller's patterns; bounded by the processor alone */
};

struct reporter {
	pthread_mutex_t lock;
	pthread_cond_t to_builder, to_writer, to_owner;
	pthread_t builder, writer;
	int refs; /* the owner's and each thread's: who is last frees */
	struct reporter_options o;
	char *journal_socket, *proc_root; /* behind o, as is the next */
	struct syslog_settings syslog;
	int own_fd; /* copy of o.out_fd */

	struct queue reports, records;
	struct budget budget;
	struct reporter_stats stats;
	uint64_t unsaid;    /* records not written that no other record has told of yet */
	uint64_t in_flight; /* those the writer has in hand, with what they were to tell of */
	enum phase phase;   /* of the builder */
	bool is_stopping, is_abandoned, is_reopening, builder_done, writer_done;

	uint64_t stop_ns; /* when is_stopping was set */
	uint64_t stop_retry_ns; /* until then a failed write is tried again */
	struct objects *objects;
	struct symbolizer *symbolizer; /* the builder's */
	bool is_late;		       /* the builder's: the last stack was not resolved in time */
	struct sink *sink;	       /* the writer's; NULL with o.write */
	bool is_down;		       /* the writer's: the log says that records cannot be written */
};

static void reporter_free(struct reporter *r)
{
	void *p;

	while ((p = queue_pop(&r->reports)))
		report_free(p);
	while ((p = queue_pop(&r->records)))
		record_free(p);
	symbolizer_free(r->symbolizer);
	objects_unref(r->objects);
	sink_close(r->sink);
	closep(&r->own_fd);
	free(r->journal_socket);
	syslog_settings_done(&r->syslog);
	free(r->proc_root);
	pthread_cond_destroy(&r->to_builder);
	pthread_cond_destroy(&r->to_writer);
	pthread_cond_destroy(&r->to_owner);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

/* Gives up the lock and the reference. */
static void unlock_and_unref(struct reporter *r)
{
	bool is_last = --r->refs == 0;

	pthread_mutex_unlock(&r->lock);
	if (is_last)
		reporter_free(r);
}

static bool wait_until(struct reporter *r, pthread_cond_t *cond, uint64_t deadline_ns)
{
	return cond_wait_until(cond, &r->lock, deadline_ns);
}

/* The daemon's own records are few and tell of all others; those of the history are many, and each tells again what the one
 * before has told. */
static unsigned rank_of(const struct report *report)
{
	if (report->event >= REPORT_START)
		return RANK(MAX(report->severity, SEVERITY_WARNING));
	return report->event >= REPORT_SAMPLE ? RANK_HISTORY : RANK(report->severity);
}

static void queue_record(struct reporter *r, struct record *rec, unsigned rank)
{
	struct record *dropped;
	void *out;

	queue_push(&r->records, rec, rank, &out);
	dropped = out;
	if (dropped) {
		r->stats.dropped++;
		r->unsaid += 1 + dropped->suppressed;
		record_free(dropped);
	}
	pthread_cond_signal(&r->to_writer);
}

/* Locked; unlocks meanwhile. Until the stack is resolved, but not for long; once we are to stop, a second from then on
 * is all that is left for all stacks together. */
static void wait_for_stack(struct reporter *r, const struct stack *s)
{
	uint64_t now = clock_monotonic_ns(), end = now + (r->is_late ? RESOLVE_LATE_NS : RESOLVE_NS);
	bool is_done = stack_is_done(s);

	while (!is_done && !r->is_abandoned) {
		uint64_t until = r->is_stopping ? MIN(end, r->stop_ns + RESOLVE_NS) : end;

		if (now >= until)
			break;
		pthread_mutex_unlock(&r->lock);
		is_done = stack_wait(s, MIN(until, now + RESOLVE_SLICE_NS));
		now = clock_monotonic_ns();
		pthread_mutex_lock(&r->lock);
	}
	r->is_late = !is_done;
}

/* Locked; unlocks meanwhile. */
static void build_report(struct reporter *r, struct report *report)
{
	_cleanup_(stack_text_freep) struct stack_text *st = NULL;
	struct record *rec = NULL;
	bool has_stack = report->event < REPORT_START &&
			 (report->stack || (report->stack_reason != STACK_OK && report->stack_reason != STACK_NONE));
	int err = 0;

	r->phase = PHASE_SLOW;
	if (has_stack && report->stack)
		wait_for_stack(r, report->stack);
	pthread_mutex_unlock(&r->lock);
	if (has_stack)
		err = symbolizer_resolve(r->symbolizer, report->stack, report->stack_reason, &st);
	pthread_mutex_lock(&r->lock);
	if (!r->is_abandoned) {
		r->phase = PHASE_BUILD;
		pthread_mutex_unlock(&r->lock);
		/* Without its stack rather than not at all. */
		if (err < 0)
			log_debug("Stack of a record: %s", strerror(-err));
		err = record_build(report, st,
				   report->id && process_is_same(r->o.proc_root, report->id->pid, report->id->start_ticks),
				   r->o.redact, &rec);
		pthread_mutex_lock(&r->lock);
	}
	r->phase = PHASE_IDLE;
	pthread_cond_broadcast(&r->to_owner);
	if (rec) {
		queue_record(r, rec, rank_of(report));
	} else {
		r->stats.failed++;
		r->unsaid += 1 + report->suppressed;
	}
	report_free(report);
}

static void build_summary(struct reporter *r)
{
	struct record *rec = NULL;
	char text[256];

	budget_summary(&r->budget, text, sizeof(text));
	if (record_build_suppressed(text, clock_real_usec(), &rec) < 0)
		return; /* what was held is in unsaid all the same */
	queue_record(r, rec, RANK(SEVERITY_WARNING));
}

/* Locked; unlocks meanwhile. */
static void trim(struct reporter *r, uint64_t *at_ns)
{
	uint64_t now = clock_monotonic_ns();

	pthread_mutex_unlock(&r->lock);
	objects_trim(r->objects, now > TRIM_IDLE_NS ? now - TRIM_IDLE_NS : 0);
	*at_ns = now + TRIM_INTERVAL_NS;
	pthread_mutex_lock(&r->lock);
}

static void *builder_thread(void *userdata)
{
	struct reporter *r = userdata;
	uint64_t trim_ns = clock_monotonic_ns() + TRIM_INTERVAL_NS;

	(void)privilege_keep(PRIVILEGE_FILES);
	pthread_mutex_lock(&r->lock);
	while (!r->is_abandoned) {
		uint64_t due = budget_due_ns(&r->budget);
		void *p;

		if (due != UINT64_MAX && ((r->is_stopping && r->reports.len == 0) || clock_monotonic_ns() >= due)) {
			build_summary(r);
		} else if ((p = queue_pop(&r->reports))) {
			build_report(r, p);
		} else if (r->is_stopping) {
			break;
		} else if (clock_monotonic_ns() >= trim_ns) {
			trim(r, &trim_ns);
		} else {
			(void)wait_until(r, &r->to_builder, MIN(due, trim_ns));
		}
	}
	r->builder_done = true;
	pthread_cond_signal(&r->to_writer);
	pthread_cond_broadcast(&r->to_owner);
	unlock_and_unref(r);
	return NULL;
}

static int write_once(struct reporter *r, struct record *rec)
{
	/* It may have waited for long: a pid that is another's now must not be described. */
	if (rec->object_pid != 0 && !process_is_same(r->o.proc_root, rec->object_pid, rec->object_start_ticks))
		record_drop_object_pid(rec);
	return r->o.write ? r->o.write(rec, r->o.userdata) : r->sink->ops->write(r->sink, rec);
}

/* Locked; unlocks meanwhile. With what this record is to tell of others now: not in the history, where an alert would not
 * see it. */
static int try_record(struct reporter *r, struct record *rec)
{
	uint64_t unsaid = rec->is_history ? 0 : r->unsaid, suppressed = rec->suppressed + unsaid;
	int err;

	r->unsaid -= unsaid;
	rec->suppressed = suppressed;
	r->in_flight = 1 + suppressed;
	err = record_set_suppressed(rec, suppressed);
	if (err == 0)
		err = record_set_written(rec, r->stats.written);
	if (err < 0)
		return err;
	pthread_mutex_unlock(&r->lock);
	err = write_once(r, rec);
	pthread_mutex_lock(&r->lock);
	return err;
}

/* It is the record, not the receiver: it would keep all others from being written. */
static bool is_hopeless(int err)
{
	return err == -EMSGSIZE || err == -ENOMEM || err == -EINVAL || err == -E2BIG;
}

/* Locked; unlocks meanwhile: the log may be as stuck as the receiver is. */
static void say_down(struct reporter *r, int err)
{
	_cleanup_strbuf_ struct strbuf why = STRBUF_INIT;

	r->is_down = true;
	pthread_mutex_unlock(&r->lock);
	if (r->sink && r->sink->ops->explain)
		r->sink->ops->explain(r->sink, err, &why);
	else
		strbuf_addf(&why, "%s: %s", sink_name(r->sink ? r->sink->ops->kind : r->o.sink), strerror(-err));
	log_warning("Cannot write records to %s. They wait and are tried again; if too many do, the least important are dropped "
		    "and counted.", strbuf_str(&why));
	pthread_mutex_lock(&r->lock);
}

/* The same. */
static void say_up(struct reporter *r)
{
	const uint64_t dropped = r->stats.dropped + r->stats.failed;

	r->is_down = false;
	pthread_mutex_unlock(&r->lock);
	log_notice("Records are written again; %" PRIu64 " were dropped so far.", dropped);
	pthread_mutex_lock(&r->lock);
}

/* Locked; unlocks meanwhile. Until the next try is due; a reload or a stop make it due at once. */
static void wait_to_retry(struct reporter *r, uint64_t delay_ns)
{
	const uint64_t now = clock_monotonic_ns();
	const bool was_stopping = r->is_stopping;
	uint64_t until = now + delay_ns;

	if (was_stopping)
		until = MIN(now + RETRY_MIN_NS, r->stop_retry_ns);
	while (!r->is_abandoned && !r->is_reopening && r->is_stopping == was_stopping &&
	       wait_until(r, &r->to_writer, until))
		;
}

/* Locked; unlocks meanwhile. */
static void reopen_sink(struct reporter *r)
{
	struct sink *s = NULL;
	enum sink_kind before = r->stats.sink;

	r->is_reopening = false;
	if (r->o.write)
		return;
	pthread_mutex_unlock(&r->lock);
	if (sink_open(&r->o, before, &s) == 0) {
		sink_close(r->sink);
		r->sink = s;
	}
	pthread_mutex_lock(&r->lock);
	r->stats.sink = r->sink->ops->kind;
}

/* Locked; unlocks meanwhile. Until it is written, or there is no hope of that. */
static int hold_record(struct reporter *r, struct record *rec)
{
	uint64_t delay = RETRY_MIN_NS, since = 0;
	int err;

	for (;;) {
		err = try_record(r, rec);
		if (err == 0 || r->is_abandoned || is_hopeless(err))
			return err;
		if (since == 0)
			since = clock_monotonic_ns();
		if (!r->is_down && (clock_monotonic_ns() - since >= OUTAGE_NS || r->is_stopping))
			say_down(r, err);
		if (r->is_stopping && clock_monotonic_ns() >= r->stop_retry_ns)
			return err;
		wait_to_retry(r, delay);
		if (r->is_abandoned)
			return err;
		delay = MIN(2 * delay, RETRY_MAX_NS);
		if (r->is_reopening) {
			reopen_sink(r);
			delay = RETRY_MIN_NS;
		}
	}
}

/* Locked; unlocks meanwhile. */
static void write_record(struct reporter *r, struct record *rec)
{
	int err = hold_record(r, rec);

	if (!r->is_abandoned)
		r->in_flight = 0;
	if (err == 0) {
		r->stats.written++;
		if (r->is_down)
			say_up(r);
	} else {
		r->stats.failed++;
		if (!r->is_abandoned)
			r->unsaid += 1 + rec->suppressed;
		if (is_hopeless(err)) {
			pthread_mutex_unlock(&r->lock);
			log_debug("A record that cannot be written: %s", strerror(-err));
			pthread_mutex_lock(&r->lock);
		}
	}
	record_free(rec);
}

static void *writer_thread(void *userdata)
{
	struct reporter *r = userdata;

	(void)privilege_keep(0);
	pthread_mutex_lock(&r->lock);
	while (!r->is_abandoned) {
		struct record *rec;

		if (r->is_reopening)
			reopen_sink(r);
		else if ((rec = queue_pop(&r->records)))
			write_record(r, rec);
		else if (r->builder_done)
			break;
		else
			(void)wait_until(r, &r->to_writer, UINT64_MAX);
	}
	r->writer_done = true;
	pthread_cond_broadcast(&r->to_owner);
	unlock_and_unref(r);
	return NULL;
}

static int copy_options(struct reporter *r, const struct reporter_options *o)
{
	static const struct syslog_settings defaults = SYSLOG_SETTINGS_DEFAULT;

	r->o = *o;
	r->proc_root = strdup(o->proc_root ? o->proc_root : "/proc");
	r->journal_socket = o->journal_socket ? strdup(o->journal_socket) : NULL;
	if (!r->proc_root || (o->journal_socket && !r->journal_socket) ||
	    syslog_settings_copy(o->syslog ? o->syslog : &defaults, &r->syslog) < 0)
		return -ENOMEM;
	r->o.proc_root = r->proc_root;
	r->o.journal_socket = r->journal_socket;
	r->o.syslog = &r->syslog;
	/* A reopen in the writer thread may come after the caller has closed its own. */
	r->own_fd = o->out_fd >= 0 ? fcntl(o->out_fd, F_DUPFD_CLOEXEC, 3) : -1;
	r->o.out_fd = r->own_fd;
	return 0;
}

static int init_locks(struct reporter *r)
{
	int err = -pthread_mutex_init(&r->lock, NULL);

	if (err == 0)
		err = cond_init(&r->to_builder);
	if (err == 0)
		err = cond_init(&r->to_writer);
	return err ?: cond_init(&r->to_owner);
}

static int start_threads(struct reporter *r)
{
	int err = thread_start(&r->builder, "gpuxray-build", builder_thread, r);

	if (err < 0)
		return err;
	err = thread_start(&r->writer, "gpuxray-write", writer_thread, r);
	if (err < 0) {
		pthread_mutex_lock(&r->lock);
		r->is_stopping = true;
		pthread_cond_signal(&r->to_builder);
		pthread_mutex_unlock(&r->lock);
		(void)pthread_join(r->builder, NULL);
	}
	return err;
}

int reporter_new(const struct reporter_options *o, struct reporter **ret)
{
	struct symbolizer_limits limits = SYMBOLIZER_LIMITS_DEFAULT;
	struct reporter *r;
	int err;

	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	err = init_locks(r);
	if (err < 0) {
		free(r);
		return err;
	}
	r->refs = 3;
	r->own_fd = -1;
	r->budget.per_minute = o->records_per_minute;
	queue_init(&r->reports, o->queue);
	queue_init(&r->records, o->queue);
	if (o->symbol_cache_bytes > 0)
		limits.cache_bytes = o->symbol_cache_bytes;
	err = copy_options(r, o);
	if (o->objects)
		r->objects = objects_ref(o->objects);
	else if (err == 0)
		err = objects_new(r->proc_root, OBJECTS_MAX, &r->objects);
	if (err == 0)
		err = symbolizer_new(r->objects, &limits, &r->symbolizer);
	if (err == 0 && !o->write)
		err = sink_open(&r->o, SINK_AUTO, &r->sink);
	if (err == 0) {
		r->stats.sink = r->sink ? r->sink->ops->kind : o->sink;
		err = start_threads(r);
	}
	if (err < 0) {
		reporter_free(r);
		return err;
	}
	*ret = r;
	return 0;
}

void reporter_push(struct reporter *r, struct report *report)
{
	struct report *held = report;

	pthread_mutex_lock(&r->lock);
	if (budget_admit(&r->budget, report, clock_monotonic_ns())) {
		void *out;

		queue_push(&r->reports, report, rank_of(report), &out);
		held = out;
		r->stats.dropped += held != NULL;
	} else {
		r->stats.budget_held++;
	}
	if (held)
		r->unsaid += 1 + held->suppressed;
	pthread_cond_signal(&r->to_builder);
	pthread_mutex_unlock(&r->lock);
	report_free(held);
}

void reporter_reopen(struct reporter *r)
{
	pthread_mutex_lock(&r->lock);
	r->is_reopening = true;
	pthread_cond_signal(&r->to_writer);
	pthread_mutex_unlock(&r->lock);
}

void reporter_stats(struct reporter *r, struct reporter_stats *ret)
{
	pthread_mutex_lock(&r->lock);
	*ret = r->stats;
	ret->queued = r->reports.len + r->records.len + (r->phase != PHASE_IDLE) + (r->in_flight > 0);
	pthread_mutex_unlock(&r->lock);
}

static void wait_for_threads(struct reporter *r, uint64_t deadline_ns)
{
	while (!(r->builder_done && r->writer_done) && wait_until(r, &r->to_owner, deadline_ns))
		;
}

uint64_t reporter_stop(struct reporter *r, uint64_t timeout_ns)
{
	uint64_t now = clock_monotonic_ns(), lost;
	bool builder_done, writer_done;
	pthread_t builder = r->builder, writer = r->writer;

	pthread_mutex_lock(&r->lock);
	r->is_stopping = true;
	r->stop_ns = now;
	r->stop_retry_ns = now + MIN(timeout_ns, STOP_RETRY_NS);
	pthread_cond_broadcast(&r->to_builder);
	pthread_cond_broadcast(&r->to_writer);
	wait_for_threads(r, timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX);
	if (!(r->builder_done && r->writer_done)) {
		r->is_abandoned = true;
		pthread_cond_broadcast(&r->to_builder);
		pthread_cond_broadcast(&r->to_writer);
		wait_for_threads(r, clock_monotonic_ns() + GRACE_NS);
		while (r->phase == PHASE_BUILD)
			(void)wait_until(r, &r->to_owner, UINT64_MAX);
	}
	builder_done = r->builder_done;
	writer_done = r->writer_done;
	lost = r->reports.len + (r->phase != PHASE_IDLE) + r->records.len + r->in_flight + r->unsaid;
	pthread_mutex_unlock(&r->lock);

	(void)(builder_done ? pthread_join(builder, NULL) : pthread_detach(builder));
	(void)(writer_done ? pthread_join(writer, NULL) : pthread_detach(writer));
	/* What is left belongs to the stuck thread, which frees it should it ever return. */
	pthread_mutex_lock(&r->lock);
	unlock_and_unref(r);
	return lost;
}
