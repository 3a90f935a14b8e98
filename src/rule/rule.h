/* SPDX-License-Identifier: MIT */
/* A rule as written in a file, parsed and checked; a ruleset is what the engine evaluates. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "model/identity.h"

enum rule_kind {
	RULE_LIVE_BYTES,
	RULE_SINGLE_ALLOC,
	RULE_ALLOC_RATE,
	RULE_ALLOC_FAILURE,
	RULE_LEAK,
	RULE_EXIT,
	RULE_UNTRACKED_GROWTH, /* of what the driver reports beyond what allocation calls show */
	RULE_ORPHAN,	       /* holds GPU memory, and nobody is there to end it */
	RULE_KIND_MAX,
};

/* What one incident is about. Container is parsed and keyed like the others; stack is for leak rules only. */
enum rule_scope {
	SCOPE_PROCESS,
	SCOPE_DEVICE,
	SCOPE_CGROUP,
	SCOPE_UNIT,
	SCOPE_USER,
	SCOPE_CONTAINER,
	SCOPE_STACK,
	SCOPE_MAX,
};

enum severity { /* ascending */
	SEVERITY_INFO,
	SEVERITY_NOTICE,
	SEVERITY_WARNING,
	SEVERITY_ERROR,
	SEVERITY_CRITICAL,
	SEVERITY_MAX,
};

enum limit_unit {
	LIMIT_NONE,
	LIMIT_BYTES,	     /* value: bytes */
	LIMIT_SHARE,	     /* value: share of the device's capacity, 0..1 */
	LIMIT_CALLS_PER_SEC, /* value */
	LIMIT_BYTES_PER_SEC, /* value */
};

struct limit {
	enum limit_unit unit;
	double value;
};

struct pattern; /* base/pattern.h: compiled PCRE2 */

enum match_key {
	MATCH_COMM,
	MATCH_CMDLINE,
	MATCH_EXE,
	MATCH_CGROUP,
	MATCH_UNIT, /* system unit or, failing that, user unit */
	MATCH_USER,
	MATCH_CONTAINER,
	MATCH_DEVICE, /* uuid or index in decimal */
	MATCH_SLICE,
	MATCH_POD,	 /* uid */
	MATCH_SLURM_JOB, /* "1234", or "1234.batch" with its step */
	MATCH_RUNTIME,	 /* of the container */
	MATCH_PARENT,	 /* comm of the parent */
	MATCH_TAG,	 /* what the process says of itself in its environment: anybody may say anything */
	MATCH_POD_NAME,
	MATCH_POD_NAMESPACE,
	MATCH_CONTAINER_NAME,
	MATCH_KEY_MAX,
};

/* All keys present must match; a key's list matches when any of its patterns does. */
struct match_group {
	struct {
		struct pattern **patterns;
		size_t len; /* 0 = key absent */
	} key[MATCH_KEY_MAX];
};

struct rule {
	char *name;
	char *file; /* where it was defined (last override) */
	int line;
	char *origin; /* "FILE:LINE, ..." of all that had a say in it, for people */
	enum rule_kind kind;
	enum rule_scope scope;
	enum severity severity;
	uint32_t classes; /* bit mask of enum mem_class the rule looks at; default CLASS_DEVICE_MASK */

	struct limit fire_above, resolve_below;
	uint64_t for_ns, keep_firing_for_ns, repeat_ns; /* repeat 0 = never */
	uint64_t window_ns;   /* alloc_rate, alloc_failure, untracked_growth */
	uint32_t count;	      /* alloc_failure: failures within the window that fire it */
	uint32_t budget_count; /* records within budget_ns; more are held back and counted */
	uint64_t budget_ns;
	uint32_t max_incidents;

	/* leak */
	uint64_t epoch_ns;
	uint32_t epochs;
	double occupancy, keep_ratio;
	uint64_t min_growth_bytes;
	double min_growth_share; /* of the device's capacity, beside the bytes; 0 = none, and where it is not known */
	uint64_t full_in_ns;	 /* fires only if the device would be full within; 0 = whenever, and where it is not known */
	double min_confidence;	 /* fires only if so sure; 0 = however */
	uint32_t for_epochs;

	/* exit; min_runtime of untracked_growth too, live_above of orphan too */
	uint64_t live_above_bytes;
	double never_freed_above; /* share of all allocated bytes */
	uint64_t min_runtime_ns;
	uint32_t conditions; /* orphan: enum process_condition bits it looks at */

	struct match_group *match; /* NULL = everything */
	struct match_group *except; /* any group that matches excludes */
	size_t except_len;

	char *message; /* template with %{name}, NULL = the built-in text */
	char *runbook; /* URL or NULL */
	struct rule_escalate {
		bool is_set;
		enum severity severity;	  /* higher than the rule's */
		uint64_t full_in_ns;	  /* leak: the device would be full within; 0 = not asked */
		struct limit above;	  /* live_bytes and the like: the value is above; LIMIT_NONE = not asked */
		uint64_t after_ns;	  /* it has been firing for so long; 0 = not asked */
	} escalate;		/* any of the conditions that are asked */
	/*
	 * Names of rules that are silent about a subject while this one fires for it and that has been said. The same
	 * subject: the same process (a site belongs to its process); for a process also a group that it is a member of,
	 * of a device one on which it holds memory; for a group one of the same scope and key. A rule with a match has
	 * as members only the processes that it matches. A process never silences a group.
	 */
	char **inhibits;
	size_t inhibits_len;
	char **tags;
	size_t tags_len;
	uint64_t meaning; /* hash of all that decides; state survives a reload where it is unchanged */
};

struct ruleset {
	struct rule **rules;
	size_t len;
	char digest[17]; /* hex over the meanings, names and texts: changes when a rule changes */
	size_t file_count;
};

/*
 * Loads rules. paths: files or directories (a directory gives its *.conf sorted by name); NULL or 0 paths = the search
 * path /usr/lib, /run, /etc below root (root "" in production), where a name in /etc masks the same in /run and /usr/lib,
 * and an empty file or a link to /dev/null switches that name off. All files are read and all errors collected;
 * *ret is set only if there was no error (warnings do not count). No rules at all is an empty set and one warning.
 * 0, -EINVAL (errors say what), -ENOMEM.
 */
int ruleset_load(const char *root, char *const *paths, size_t n_paths, struct errors *errors, struct ruleset **ret);
/* One text in the place of a file named name; for tests and fuzzers. */
int ruleset_parse(const char *name, const char *text, struct errors *errors, struct ruleset **ret);
/* The merged rules as a rule file that loads as the same rules, each with a comment that says where it came from. */
void ruleset_print(const struct ruleset *rs, FILE *f);
void ruleset_free(struct ruleset *rs);
DEFINE_CLEANUP(struct ruleset, ruleset_free)

const char *rule_kind_name(enum rule_kind k);	/* "live_bytes" */
const char *rule_scope_name(enum rule_scope s); /* "process" */
const char *severity_name(enum severity s);	/* "critical" */
int severity_priority(enum severity s);		/* syslog: 2 3 4 5 6 */

/*
 * Does the rule speak about this subject? id may be NULL (nothing known: only rules without match fit). device_uuid may
 * be NULL; device_index < 0 = not known. A pattern that hits the match limit counts as no match and is warned of once.
 * The caller caches the verdict until exec or reload.
 */
bool rule_matches(const struct rule *r, const struct identity *id, const char *device_uuid, int device_index);
