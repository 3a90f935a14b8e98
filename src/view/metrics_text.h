/* SPDX-License-Identifier: MIT */
/* The exposition's text: families, labels and numbers, in either format. Internal to metrics. */
#pragma once

#include "view/metrics.h"

enum metrics_type {
	METRICS_GAUGE,
	METRICS_COUNTER,
	METRICS_INFO,
	METRICS_HISTOGRAM,
};

struct metrics_family {
	const char *name; /* as OpenMetrics names it: without _total and _info */
	enum metrics_type type;
	const char *unit; /* the end of the name; NULL = none */
	const char *help; /* one line, ASCII, without backslash and quote */
};

/* Never NaN and never infinite: what is not known has no sample. */
struct metrics_value {
	uint64_t whole;
	uint32_t frac; /* of so many decimal digits */
	uint8_t digits;
	bool is_negative;
};

/* How a field of a view becomes a value; what says "not known" in its type has none. */
enum metrics_form {
	FORM_U64,
	FORM_POSITIVE, /* uint64_t; 0 is not known */
	FORM_BOOL,
	FORM_U32,
	FORM_PERCENT,	 /* uint32_t percent -> ratio */
	FORM_MILLI,	 /* uint32_t thousandths */
	FORM_USEC,	 /* uint64_t, a moment -> seconds; 0 is not known */
	FORM_NSEC,	 /* uint64_t -> seconds */
	FORM_PER_MINUTE, /* int64_t per minute -> per second */
};

struct metrics_field {
	struct metrics_family family;
	enum metrics_form form;
	size_t offset; /* in the thing */
};

#define METRICS_FIELD(thing, name, type, unit, form, member, help)                                                      \
	{ { name, type, unit, help }, form, offsetof(struct thing, member) }

/* A thing that has a sample in each family of its kind, and the labels that tell it from others. */
struct metrics_series {
	const void *thing;
	size_t at, len; /* of its labels in the list's text */
};

struct metrics_list {
	struct strbuf text;
	struct metrics_series *series;
	size_t len;
};

struct metrics_out {
	struct strbuf *sb;
	enum metrics_format format;
	const struct metrics_family *family;
	const char *suffix; /* of its samples */
	bool is_begun;	    /* its metadata is written: with its first sample, as one without samples is left out */
};

#define METRICS_LABEL_MAX 256 /* bytes of a value before it is quoted; longer ones say how much was cut */

/* key="value", with a comma before it unless it is the first; NULL is "". */
void metrics_label(struct strbuf *sb, bool is_first, const char *key, const char *value, size_t max);
void metrics_label_u64(struct strbuf *sb, bool is_first, const char *key, uint64_t value);
/* gpu="uuid",gpu_index="0"; empty where not known. */
void metrics_label_gpu(struct strbuf *sb, bool is_first, const char *uuid, int64_t index);

/* The samples that follow are of this one; its metadata comes with the first, or not at all. */
void metrics_family(struct metrics_out *out, const struct metrics_family *f);
/* A sample: begin, labels into out->sb, end. suffix is behind the family's own, as "_bucket". */
void metrics_begin(struct metrics_out *out, const char *suffix);
void metrics_end(struct metrics_out *out, struct metrics_value v);
/* One whose labels, which may be none, are there already. */
void metrics_sample(struct metrics_out *out, const char *labels, size_t len, struct metrics_value v);

static inline struct metrics_value metrics_u64(uint64_t n)
{
	return (struct metrics_value){ .whole = n };
}

/* In seconds, exactly. */
struct metrics_value metrics_nsec(uint64_t ns);

/*
 * Those of a view's things whose labels no earlier one has: the same series twice would make the scrape fail. render writes
 * the labels of one; names may be cut, so it is its text that is compared. 0 or -ENOMEM; the caller calls
 * metrics_list_done() in both cases.
 */
int metrics_list_fill(struct metrics_list *list, const void *things, size_t len, size_t size,
		      void (*render)(const void *thing, struct strbuf *sb));
void metrics_list_done(struct metrics_list *list);
#define _cleanup_metrics_list_ _cleanup_(metrics_list_done)

/* Each family with a sample for each of the list that has a value. */
void metrics_fields(struct metrics_out *out, const struct metrics_list *list, const struct metrics_field *fields, size_t len);

/* The parts of an exposition. */
void metrics_processes(struct metrics_out *out, const struct view *v, const struct metrics_options *o);
void metrics_devices(struct metrics_out *out, const struct view *v);
void metrics_calls(struct metrics_out *out, const struct view *v);
void metrics_incidents(struct metrics_out *out, const struct view *v);
void metrics_totals(struct metrics_out *out, const struct view *v);
