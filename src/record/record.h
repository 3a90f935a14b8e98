/* SPDX-License-Identifier: MIT */
/* A record: ordered fields, each FIELD=value, clean UTF-8 and under 4096 bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "rule/report.h"
#include "stack/symbolizer.h"

/* Name, '=' and value together; from 4096 bytes on `journalctl -o json` shows null. */
#define RECORD_FIELD_MAX 4095
#define RECORD_FIELDS_MAX 112
/* "NAME=" and value of all fields together: keeps an entry in one datagram. */
#define RECORD_BYTES_MAX (16u << 10)

struct record {
	int priority;	/* syslog level */
	uint64_t real_usec;
	size_t len;	/* fields */
	struct strbuf data; /* all fields "NAME=value" one after the other, each followed by a NUL byte */
	struct record_field {
		size_t offset, len; /* into data, without the NUL */
	} field[RECORD_FIELDS_MAX];

	/* What stands in for OBJECT_PID once that process is gone: up to two fields in data that are not in field[]. */
	uint32_t object_pid; /* 0 = the record has no OBJECT_PID */
	uint64_t object_start_ticks;
	struct record_field stand_in[2];
	size_t stand_in_len;
	uint64_t suppressed; /* GPUXRAY_SUPPRESSED; 0 = no such field */
	bool is_own;	     /* the daemon's: it says how many were written before it */
	bool is_history;     /* who looks at incidents alone does not see it */
};

/* What must not be written: patterns whose match in a command line or path is replaced by "[redacted]", and what records
 * leave out of identities. */
struct redact;

/*
 * Builds the record of a report. st may be NULL (no stack). object_pid_ok: the process is still the same one now.
 * 0 or -ENOMEM.
 */
int record_build(const struct report *r, const struct stack_text *st, bool object_pid_ok, const struct redact *redact,
		 struct record **ret);
/* The reporter's own, at priority warning: text says what was held back. 0 or -ENOMEM. */
int record_build_suppressed(char *text, uint64_t real_usec, struct record **ret);
void record_free(struct record *r);
DEFINE_CLEANUP(struct record, record_free)
/* Value of a field or NULL. */
const char *record_get(const struct record *r, const char *name);
/* What the writer alone knows, at the moment of writing; again at every try. 0 or -ENOMEM. */
/* Sets GPUXRAY_SUPPRESSED unless n is 0. */
int record_set_suppressed(struct record *r, uint64_t n);
/* Sets GPUXRAY_RECORDS_WRITTEN in a record of the daemon's own. */
int record_set_written(struct record *r, uint64_t n);
/* The process has gone since the record was built: name its unit instead of its pid. */
void record_drop_object_pid(struct record *r);

/* One JSON object and a newline: every value a string, as in the journal. */
void record_json(const struct record *r, struct strbuf *sb);
/* For eyes: time, priority, message with its frames. */
void record_text(const struct record *r, struct strbuf *sb, int colour);
struct syslog_format {
	const char *hostname; /* NULL or "" = not known */
	uint32_t pid;	      /* our own */
	int facility;	      /* code of RFC 5424 */
	bool is_cee;	      /* MSG is "@cee: {json}" */
	size_t max;	      /* bytes of the message */
};

/* One RFC 5424 line of at most f->max bytes without newline; cut values say so. */
void record_syslog(const struct record *r, const struct syslog_format *f, struct strbuf *sb);

/* Default patterns (tokens, passwords, keys, URLs with credentials) plus n of the user's. 0, -EINVAL with errors. */
int redact_new(char *const *patterns, size_t n, struct errors *errors, struct redact **ret);
void redact_free(struct redact *r);
DEFINE_CLEANUP(struct redact, redact_free)
/* Appends text with the matches replaced; r may be NULL. A text on which a pattern gives up is hidden as a whole. Any
 * thread. */
void redact_text(const struct redact *r, const char *text, struct strbuf *sb);
/* The same, as a callback whose userdata is the redact. */
void redact_cb(const char *text, struct strbuf *sb, void *userdata);
/* The same of identity.cmdline. One that was cut when it was captured may end within a secret, which no pattern would know
 * by its half: that goes without its last word. True if so; how long it was nobody knows. */
bool redact_cmdline(const struct redact *r, const char *cmdline, struct strbuf *sb);
/* A copy without what is omitted, its texts redacted; a reference to the same where r is NULL. 0 or -ENOMEM. */
int redact_identity(const struct redact *r, struct identity *id, struct identity **ret);
/* What records leave out from now on: OMIT_BIT()s, with what follows from them (see rule/omit.h). */
void redact_omit(struct redact *r, uint32_t mask);
uint32_t redact_omitted(const struct redact *r); /* r may be NULL */
