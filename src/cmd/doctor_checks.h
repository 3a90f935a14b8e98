/* SPDX-License-Identifier: MIT */
/* `gpuxray doctor`: from what was read of the host to what it means and what to do. Reads nothing itself. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"

enum doctor_result {
	DOCTOR_OK,
	DOCTOR_WARN, /* it works, with less than it could */
	DOCTOR_FAIL, /* it does not work */
	DOCTOR_RESULT_MAX,
};

/* What the probe did that was attached to a function of this very process. */
struct doctor_probe {
	int error;	  /* 0, or -errno of the step that failed */
	char why[512];	  /* then: what failed, with its cure */
	bool is_multi;	  /* uprobe_multi, else perf */
	char function[64]; /* that was probed; "" = it did not come to that */
	char file[256];
	uint64_t hits; /* of one call */
};

struct doctor_nvml {
	int error; /* 0, or as nvml_open() and nvml_read(); -ETIMEDOUT */
	char reason[128];
	char library[48]; /* then: version of the library, as its file is named; "" = not known */
	uint32_t devices;
};

struct doctor_journal {
	char sink[16]; /* as configured */
	bool has_socket;
	char storage[16]; /* Storage= of journald.conf */
	bool has_var_log; /* /var/log/journal */
	uint64_t burst, interval_usec; /* RateLimitBurst=, RateLimitIntervalSec=; 0 = no limit */
	uint32_t records_per_minute, history_per_minute;
};

struct doctor_library { /* that the operator named */
	char *path;
	int error;
	size_t functions; /* of the call table that it has */
};

struct doctor_facts {
	char release[65], machine[65];
	uint32_t major, minor;
	bool has_btf;
	char lockdown[32]; /* the mode in force; "" = the kernel has none */

	uint32_t uid;
	uint64_t capabilities; /* effective ones */
	bool is_user_namespace; /* not the first: its capabilities are worth nothing to BPF */
	bool has_paranoid;
	int paranoid;
	uint64_t memlock_bytes; /* UINT64_MAX = no limit */

	int pid_namespace_error;
	bool is_initial, is_own_proc;
	char hidepid[16]; /* option of the mount on /proc; "" = off */

	struct doctor_probe probe;

	/* Processes that map a driver library. */
	uint32_t users, filtered; /* all; those under a seccomp filter */
	uint32_t first_filtered;  /* PID of one of the latter */
	uint32_t unreadable;	  /* processes that could not be looked at */
	struct strbuf mapped;	  /* paths of libraries, ", " between */
	struct strbuf installed;  /* the same, in the usual folders */
	struct doctor_library *libraries;
	size_t libraries_len;
	char nvidia_driver[48]; /* version of the kernel module; "" = none is loaded */
	struct doctor_nvml nvml;

	struct doctor_journal journal;
	bool has_catalog_file, is_catalog_known;

	struct errors config_errors, rule_errors;
	size_t rules, rule_files;

	bool has_systemd, has_unit;
	char unit_state[32]; /* ActiveState; "" = not known */
	char socket[256];    /* where the daemon is asked */
	int daemon_error;    /* 0 = it answers */
};

void doctor_facts_done(struct doctor_facts *f);

struct doctor_line {
	enum doctor_result result;
	const char *name; /* static; several lines may have the same */
	char *text, *cure; /* cure NULL = nothing to do; safe to print */
};

struct doctor_report {
	struct doctor_line *lines;
	size_t len, counts[DOCTOR_RESULT_MAX];
	bool is_cut; /* no memory for all lines: worth nothing */
};

/* Judges the facts; the caller releases the report. The last is the word for a result, static. */
void doctor_check(const struct doctor_facts *f, struct doctor_report *ret);
void doctor_report_done(struct doctor_report *r);
const char *doctor_result_name(enum doctor_result r);
