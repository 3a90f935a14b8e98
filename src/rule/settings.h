/* SPDX-License-Identifier: MIT */
/* The daemon's configuration, gpuxray.conf. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/limits.h"
#include "model/user_call.h"
#include "rule/settings_metrics.h"
#include "rule/settings_syslog.h"

struct settings {
	struct limits limits;
	char *sink;	    /* "auto", "journal", "syslog", "json", "text" */
	struct syslog_settings syslog;
	struct metrics_settings metrics;
	char **rules;	    /* paths that replace the search path */
	size_t rules_len;
	char **libraries;   /* further driver libraries to probe, by path */
	size_t libraries_len;
	char **redact;	    /* further patterns */
	size_t redact_len;
	uint32_t omit;	    /* OMIT_BIT()s of rule/omit.h */
	char **allocators;	/* patterns for paths of files; empty = allocators_default of stack/site_key.h */
	size_t allocators_len;
	char **allocators_also; /* further ones, besides either */
	size_t allocators_also_len;
	struct user_call *calls; /* those of trace_frameworks last */
	size_t calls_len;
	uint64_t health_interval_ns, drain_interval_ns, nvml_interval_ns;
	uint64_t sample_interval_ns; /* of the history; 0 = none is written */
};

extern const char *const settings_key_names[]; /* the keys of the file's top level; ends with NULL */

/* All defaults set. 0 or -ENOMEM. */
int settings_init(struct settings *s);
/* path NULL = the default file below root, which may be absent. Unknown keys are errors. 0, -EINVAL, -ENOMEM. */
int settings_load(const char *root, const char *path, struct errors *errors, struct settings *s);
/* One text in the place of a file named name; for tests and fuzzers. */
int settings_parse(const char *name, const char *text, struct errors *errors, struct settings *s);
/* Further driver libraries, those of a command line: copies their paths. 0 or -ENOMEM. */
int settings_add_libraries(struct settings *s, char *const *paths, size_t len);
void settings_done(struct settings *s);
