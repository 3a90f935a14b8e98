/* SPDX-License-Identifier: MIT */
/* The command line of `gpuxray memtrace`. */
#pragma once

#include "base/pattern.h"
#include "view/source.h"

#define MEMTRACE_LIBRARIES_MAX 256

struct memtrace_options {
	uint32_t pids[VIEW_PIDS_MAX]; /* each once */
	size_t pids_len;
	struct pattern *comm; /* owned */
	const char *unit;
	bool has_descendants;
	uint64_t interval_ns;
	uint64_t count; /* looks; 0 = without end */
	bool has_stacks, is_json, is_wide, is_verbose, is_own;
	uint32_t sites_max; /* of each process that are asked for */
	const char *socket, *config;
	char *libraries[MEMTRACE_LIBRARIES_MAX];
	size_t libraries_len;
};

/* 0; 1 = help was asked for and given; -EINVAL, the reason has been said. */
int memtrace_options_parse(int argc, char **argv, struct memtrace_options *ret);
void memtrace_options_done(struct memtrace_options *o);
