/* SPDX-License-Identifier: MIT */
/* The one table of record fields: their names, their order and the events that carry them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "record/record.h"

/* What a record is about: enum report_event, and the reporter's own words about records it held back. */
#define EVENT_SUPPRESSED REPORT_EVENT_MAX
#define EVENT_BIT(event) (1u << (event))

struct field_input {
	unsigned event;
	int priority;
	const struct report *r;
	const struct stack_text *st;	 /* may be NULL */
	const struct redact *redact; /* may be NULL */
};

struct field_desc {
	const char *name;
	uint32_t events; /* EVENT_BIT() of those that may carry it; the daemon's own bring more in their detail */
	/* Appends the value, at most max bytes of it. False: the field does not apply (what was appended is dropped). */
	bool (*value)(const struct field_input *in, const struct field_desc *d, size_t max, struct strbuf *sb);
	size_t offset; /* in struct report or struct identity, for the values that only need that */
	size_t max;    /* bytes of value, 0 = what RECORD_FIELD_MAX leaves */
};

/* All fields in the order of a record; the name and the MESSAGE_ID of an event. All static. */
const struct field_desc *fields_table(size_t *ret_len);
const char *field_event_name(unsigned event);
const char *field_message_id(unsigned event);

/* The process is still there: OBJECT_PID asks journald to describe it. Otherwise these stand in. */
extern const struct field_desc field_object_pid;
extern const struct field_desc field_object_unit[2];
