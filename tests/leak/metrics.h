/* SPDX-License-Identifier: MIT */
/*
 * From what was said about traces of known truth to numbers. Two levels are judged by the same records: an alarm is of
 * severity warning or higher, a notice of any. Pure; no I/O.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gen.h"
#include "rule/report.h"

enum level {
	LEVEL_ALARM,
	LEVEL_NOTICE,
	LEVEL_MAX,
};
extern const char *const level_names[]; /* "alarm", "notice" */

/* A record about growth, as far as it is judged. */
struct said {
	uint64_t time_ns;
	uint8_t incident[16];
	enum report_state state;
	enum severity severity;
	double confidence; /* negative: none was given */
	uint8_t rank;	   /* of the true site among those it names, from 1; 0 = not among them */
	bool is_wrong;	   /* it is about a call site that loses nothing */
};

struct truth {
	bool is_leak;
	bool has_site; /* there is one true site */
	uint64_t start_ns, end_ns; /* of the leak; of the trace */
	uint64_t device_bytes;	   /* 0 = not known */
	const struct gen_loss *losses; /* by time */
	size_t losses_len;
};

/* What became of one trace at one level. */
struct verdict {
	bool is_found;
	uint64_t after_ns, lost_bytes; /* since the leak's start, by the first record that is true */
	double confidence;
	uint8_t rank;
	bool is_closed; /* found, and all its incidents were resolved before the end */
	size_t false_count; /* incidents in a program that does not leak, or not yet */
	size_t wrong_count; /* in one that does, about a site that does not: no detection */
	double false_confidence; /* of the first of them */
};

struct outcome {
	const char *set, *family; /* borrowed */
	uint64_t number; /* seed, or line of the label */
	const char *file; /* borrowed; NULL = generated */
	int error;	 /* -errno: it could not be played, and counts nowhere */
	bool is_leak, has_site;
	bool is_stopping; /* nothing was lost in the last quarter of the trace */
	bool is_fast;	  /* more than 1 % of the device a minute */
	bool is_full;	  /* the program died of it */
	uint64_t length_ns, benign_ns; /* benign: the time in which any record is false */
	uint64_t device_bytes, leaked_bytes;
	uint64_t events, wall_ns; /* wall: of playing it, without making it */
	uint64_t unknown_frees, replaced, late; /* of a recording: how whole it is */
	struct verdict level[LEVEL_MAX];
};

/* Fills in all that follows from the truth and the records (in the order they came). 0 or -ENOMEM. */
int outcome_judge(struct outcome *o, const struct truth *t, const struct said *said, size_t said_len);

/* Numbers of a family, or of a set. NAN where there is nothing to count. Seconds, bytes, shares from 0 to 1. */
struct tally_level {
	double found, missed, false_traces, false_incidents, wrong_incidents;
	double precision, recall, false_share, false_per_day;
	double time_median, time_worst, bytes_median, bytes_worst, share_median, share_worst;
	double rank1, rank2, rank3, rank_none; /* shares of those found that have a site */
	double confidence_true, confidence_false; /* medians */
	double sure, sure_true, sure_precision;	  /* confidence >= 0.9 */
	double closed; /* share of the incidents of leaks that stop */
	double fast_found; /* share of fast leaks, within two minutes */
};

struct tally {
	double traces, leaks, benign_days, stopping, fast;
	struct tally_level level[LEVEL_MAX];
};

/* Over the outcomes of a set (NULL: all) and of a family (NULL: all). 0 or -ENOMEM. */
int tally_make(const struct outcome *list, size_t len, const char *set, const char *family, struct tally *ret);

/* The numbers of a level by name, for JSON and floors; ends with name NULL. */
struct metric {
	const char *name;
	size_t offset; /* of a double in struct tally_level */
};
extern const struct metric metrics[];
double metric_value(const struct tally_level *l, const struct metric *m);
