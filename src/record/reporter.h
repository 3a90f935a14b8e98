/* SPDX-License-Identifier: MIT */
/*
 * The edge between the tracing thread and the log. Two threads of its own: one turns reports into records (symbolising
 * can be slow, and a stack may have to be resolved first), one writes them (a stalled journal blocks for ever). Pushing
 * never blocks.
 */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"
#include "record/record.h"
#include "rule/report.h"
#include "rule/settings_syslog.h"
#include "stack/object.h"

enum sink_kind {
	SINK_AUTO, /* journal if its socket is there, else syslog, else json on stdout */
	SINK_JOURNAL,
	SINK_SYSLOG,
	SINK_JSON,
	SINK_TEXT,
};

struct reporter_options {
	enum sink_kind sink;
	uint32_t queue;		     /* records waiting, each of the two queues */
	uint32_t records_per_minute; /* budget, 0 = none; critical ones are exempt up to ten times it */
	const char *journal_socket;  /* NULL = /run/systemd/journal/socket: what SINK_AUTO looks for */
	const struct syslog_settings *syslog; /* copied; NULL = the defaults */
	struct redact *redact;	     /* borrowed, may be NULL */
	int out_fd;		     /* for json and text; the reporter does not close it */
	size_t symbol_cache_bytes;   /* 0 = default */
	const char *proc_root;	     /* NULL = /proc */
	struct objects *objects;     /* that the resolver opens files in; a reference is taken. NULL = the reporter's own */
	/* Takes the place of the sink when set; called by the writer thread. 0 or -errno. */
	int (*write)(const struct record *r, void *userdata);
	void *userdata;
};

struct reporter_stats {
	uint64_t written, dropped, budget_held;
	uint64_t failed; /* could not be built, can never be written, or were left at the stop */
	uint64_t queued; /* now */
	enum sink_kind sink; /* the one in use */
};

struct reporter;

int reporter_new(const struct reporter_options *o, struct reporter **ret);
/*
 * Takes ownership in any case. While the receiver is away one record is tried again and again and the others wait; on a
 * full queue the record of lowest severity is dropped (oldest of those; those of the history before all others) and
 * counted; the next record that gets through carries the count in GPUXRAY_SUPPRESSED. Never blocks.
 */
void reporter_push(struct reporter *r, struct report *report);
/* Looks for the receiver again, at once (reload). Safe from the tracing thread. */
void reporter_reopen(struct reporter *r);
void reporter_stats(struct reporter *r, struct reporter_stats *ret);
/* Writes what is queued, waiting at most timeout_ns, and a second for a receiver that is away; then gives up, ends the
 * threads (a thread stuck in a write is abandoned) and frees. Returns how many records could not be written. */
uint64_t reporter_stop(struct reporter *r, uint64_t timeout_ns);
const char *sink_name(enum sink_kind k);
int sink_from_name(const char *s, enum sink_kind *ret); /* 0 or -EINVAL */
