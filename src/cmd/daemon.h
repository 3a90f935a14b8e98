/* SPDX-License-Identifier: MIT */
/* The daemon: one loop that drains the probes, keeps the books, and hands reports to the reporter's threads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "record/reporter.h"
#include "replay/recorder.h"
#include "rule/settings.h"

/* What the engine is told, written to a file. */
struct daemon_recording {
	const char *path; /* NULL = not recorded */
	bool identity;
	bool is_all;	  /* `gpuxray record`: no rules, no records, no status, nothing kept; ends with the last of the pids */
	uint64_t duration_ns; /* 0 = until stopped */
	struct recorder_stats *stats; /* filled at the end; may be NULL */
};

struct daemon_options {
	struct settings *settings; /* borrowed for the daemon's life */
	char *const *rules;	   /* rule paths; none = the settings', else the search path */
	size_t rules_len;
	const uint32_t *pids;
	size_t pids_len;
	enum sink_kind sink;
	const char *socket; /* of the status server */
	bool no_multi, bare;
	struct daemon_recording recording;
	/* A tracer for the live command at the other end of view_fd: no rules, no records, no status, nothing kept; ends when
	 * that end is closed. */
	bool is_view;
	int view_fd; /* the daemon takes it */
};

/* Runs until SIGTERM or SIGINT. 0 on a clean stop; on a failure of start-up the reason has been logged. */
int daemon_run(const struct daemon_options *o);
