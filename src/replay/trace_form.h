/* SPDX-License-Identifier: MIT */
/* What each event's line may say: the one table that reader and writer follow. Private to the format. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/identity.h"
#include "replay/trace.h"

enum trace_value {
	VALUE_U64,
	VALUE_HEX,	/* the same, written with 0x */
	VALUE_KNOWN,	/* the same, but TRACE_UNKNOWN is "?" */
	VALUE_TICKS,	/* uint64_t: as many as still fit when counted in nanoseconds */
	VALUE_TIME,	/* uint64_t nanoseconds */
	VALUE_U32,
	VALUE_INT,	/* int32_t */
	VALUE_INDEX,	/* int32_t, from 0 on; -1 is left out */
	VALUE_CLASS,	/* uint8_t, by name, as are the next two */
	VALUE_KIND,
	VALUE_REASON,
	VALUE_FLAG,	/* bool: 1 or 0 */
	VALUE_TEXT,	/* const char *, percent-encoded */
	VALUE_OWN_TEXT, /* char * that the structure owns */
};

struct trace_key {
	const char *name;
	uint8_t len; /* of name */
	uint8_t value; /* enum trace_value */
	bool is_required;
	uint16_t offset; /* in the form's part */
};

enum trace_part {
	PART_ITEM,
	PART_IDENTITY,
	PART_BOOKS,
};

struct trace_form {
	const char *name;
	bool is_host; /* about no process: pid 0 */
	uint8_t part; /* enum trace_part: where the keys lie */
	const struct trace_key *keys; /* in the order of writing */
	size_t len;
	struct trace_item blank; /* without any key */
};

extern const struct trace_form trace_forms[TRACE_TYPE_MAX];

/* Stands for the kind that follows from the class, until the class is known. */
#define KIND_FOLLOWS 0xff

/* The part that keys of a form lie in, without any key; not to be changed. */
const void *trace_blank(const struct trace_form *form);
/* The form of an event's name, or NULL. */
const struct trace_form *trace_form_find(const char *name);
/* Names by number, NULL-terminated; NULL for values that are not named. */
const char *const *trace_value_names(enum trace_value v);
/* What a number may be at most. */
uint64_t trace_value_max(enum trace_value v);
/* A number of a part, sign-extended; texts have none. */
uint64_t trace_load(const void *part, const struct trace_key *key);
void trace_store(void *part, const struct trace_key *key, uint64_t value);
uint8_t trace_kind_follows(enum trace_type type, uint8_t class);
/* The one of names (NULL-terminated) that two slips or fewer make of word, or NULL. */
const char *trace_suggest(const char *word, const char *const *names);
