/* SPDX-License-Identifier: MIT */
/* A reporter that writes into a journal of ours. */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "record/reporter.h"
#include "record_check.h"
#include "record_make.h"

/* A journal that can stall and fail. */
struct journal {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool is_stalled;
	int waiting;	       /* writers held up by it */
	uint64_t failures;     /* attempts still to be refused */
	int error;	       /* what a refusal says, 0 = -ECONNREFUSED */
	uint64_t attempts, len, critical, suppressed, wrong, object_pid, object_unit;
	uint64_t incidents;
	uint64_t own, wrong_count; /* records that say how many were written before, and of those, wrong ones */
	bool has_open_signals; /* the writer thread could be interrupted */
	char last[512];	       /* message */
	uint64_t stacks;       /* records with one */
	char stack[512];       /* the last one */
};

#define JOURNAL_INIT { .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER }

static inline int journal_write(const struct record *rec, void *userdata)
{
	struct journal *j = userdata;
	const char *suppressed = record_get(rec, "GPUXRAY_SUPPRESSED"), *stack = record_get(rec, "GPUXRAY_STACK");
	const char *written = record_get(rec, "GPUXRAY_RECORDS_WRITTEN");
	sigset_t set;
	int err = 0;

	pthread_mutex_lock(&j->lock);
	j->attempts++;
	j->waiting++;
	pthread_cond_broadcast(&j->cond);
	while (j->is_stalled)
		pthread_cond_wait(&j->cond, &j->lock);
	j->waiting--;
	if (j->failures > 0) {
		j->failures--;
		err = j->error ? j->error : -ECONNREFUSED;
	} else {
		/* It says how many came before it, and nothing else does. */
		j->own += written != NULL;
		j->wrong_count += written && strtoull(written, NULL, 10) != j->len;
		j->len++;
		j->critical += rec->priority == 2;
		j->incidents += record_get(rec, "GPUXRAY_RULE") != NULL;
		j->suppressed += suppressed ? strtoull(suppressed, NULL, 10) : 0;
		j->wrong += check_record(rec) != NULL;
		j->object_pid += record_get(rec, "OBJECT_PID") != NULL;
		j->object_unit += record_get(rec, "OBJECT_SYSTEMD_UNIT") != NULL;
		(void)snprintf(j->last, sizeof(j->last), "%s", record_get(rec, "MESSAGE"));
		j->stacks += stack != NULL;
		(void)snprintf(j->stack, sizeof(j->stack), "%s", stack ? stack : "");
	}
	(void)pthread_sigmask(SIG_BLOCK, NULL, &set);
	j->has_open_signals = !sigismember(&set, SIGTERM) || !sigismember(&set, SIGPIPE) || !sigismember(&set, SIGHUP);
	pthread_mutex_unlock(&j->lock);
	return err;
}

static inline void journal_stall(struct journal *j, bool is_stalled)
{
	pthread_mutex_lock(&j->lock);
	j->is_stalled = is_stalled;
	pthread_cond_broadcast(&j->cond);
	pthread_mutex_unlock(&j->lock);
}

static inline void journal_fail(struct journal *j, uint64_t failures, int error)
{
	pthread_mutex_lock(&j->lock);
	j->failures = failures;
	j->error = error;
	pthread_mutex_unlock(&j->lock);
}

/* Until so many writes were tried. */
static inline void journal_wait_attempts(struct journal *j, uint64_t n)
{
	pthread_mutex_lock(&j->lock);
	while (j->attempts < n)
		pthread_cond_wait(&j->cond, &j->lock);
	pthread_mutex_unlock(&j->lock);
}

/* Until the writer is stuck in it. */
static inline void journal_wait_stuck(struct journal *j)
{
	pthread_mutex_lock(&j->lock);
	while (j->waiting == 0)
		pthread_cond_wait(&j->cond, &j->lock);
	pthread_mutex_unlock(&j->lock);
}

static inline struct reporter *start(struct journal *j, uint32_t queue, uint32_t per_minute)
{
	struct reporter_options o = { .sink = SINK_JOURNAL, .queue = queue, .records_per_minute = per_minute, .out_fd = -1,
				      .write = journal_write, .userdata = j };
	struct reporter *r = NULL;

	return reporter_new(&o, &r) < 0 ? NULL : r;
}

static inline void push(struct reporter *r, enum severity severity)
{
	struct report *report = make_report(REPORT_LIVE_BYTES);

	report->severity = severity;
	reporter_push(r, report);
}

static inline bool settle(struct reporter *r)
{
	struct reporter_stats s;

	for (int i = 0; i < 1000; i++) {
		reporter_stats(r, &s);
		if (s.queued == 0)
			return true;
		(void)usleep(10000);
	}
	return false;
}

#define TIMEOUT (10 * NSEC_PER_SEC)
