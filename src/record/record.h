/* SPDX-License-Identifier: MIT */
/* A record: ordered fields, each FIELD=value, clean UTF-8 and under 4096 bytes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "rule/report.h"
#include "stack/symbolizer.h"

struct record {
	int priority;	/* syslog level */
	uint64_t real_usec;
	size_t len;	/* fields */
	struct strbuf data; /* all fields "NAME=value" one after the other, each followed by a NUL byte */
	struct {
		size_t offset, len; /* into data, without the NUL */
	} field[64];
};

/* Patterns whose match in a command line or path is replaced by "[redacted]". */
struct redact;

/*
 * Builds the record of a report. st may be NULL (no stack). object_pid_ok: the process is still the same one now.
 * 0 or -ENOMEM.
 */
int record_build(const struct report *r, const struct stack_text *st, bool object_pid_ok, const struct redact *redact,
		 struct record **ret);
void record_free(struct record *r);
DEFINE_CLEANUP(struct record, record_free)
/* Value of a field or NULL. */
const char *record_get(const struct record *r, const char *name);

/* One JSON object and a newline: every value a string, as in the journal. */
void record_json(const struct record *r, struct strbuf *sb);
/* For eyes: time, priority, message with its frames. */
void record_text(const struct record *r, struct strbuf *sb, int colour);
/* One RFC 5424 line of at most max bytes without newline; cut values say so. cee: MSG is "@cee: {json}". */
void record_syslog(const struct record *r, const char *hostname, uint32_t own_pid, int cee, size_t max,
		   struct strbuf *sb);

/* Default patterns (tokens, passwords, keys, URLs with credentials) plus n of the user's. 0, -EINVAL with errors. */
int redact_new(char *const *patterns, size_t n, struct errors *errors, struct redact **ret);
void redact_free(struct redact *r);
DEFINE_CLEANUP(struct redact, redact_free)
