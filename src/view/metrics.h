/* SPDX-License-Identifier: MIT */
/*
 * A view as metrics: Prometheus text format 0.0.4 or OpenMetrics 1.0. Names and labels of gpu_* are those of the first
 * gpuxray, so that its dashboards go on; the others are gpuxray_*, the daemon's own process process_*. Pure.
 */
#pragma once

#include "view/view.h"

enum metrics_format {
	METRICS_PROMETHEUS,
	METRICS_OPENMETRICS,
};

/* Processes with series of their own, unless the settings say otherwise. */
#define METRICS_PROCESSES_MAX 1000

struct metrics_options {
	enum metrics_format format;
	uint32_t processes_max; /* those that hold most; how many others there are is a metric */
	bool has_args;		/* a label "args" with the command line: one series more for each that is ever run */
};

/* Appends the whole exposition. */
void metrics_write(const struct view *v, const struct metrics_options *o, struct strbuf *sb);
/* What a client that sent this Accept header (may be NULL) gets. */
enum metrics_format metrics_negotiate(const char *accept);
/* Static text. */
const char *metrics_content_type(enum metrics_format f);
