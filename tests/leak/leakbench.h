/* SPDX-License-Identifier: MIT */
/* What the files of the bench share. */
#pragma once

#include <stdio.h>

#include "base/error.h"
#include "metrics.h"
#include "replay/player.h"

#define SET_TUNING "tuning"
#define SET_HELD_OUT "held-out"
#define SET_REAL "real"
#define HELD_OUT_SEEDS 1000 /* seed n of the held-out families is this plus n */

/* A recording and its truth: a line of labels.txt. */
struct label {
	char *path;
	char *family, *set;
	bool is_leak;
	double start_sec; /* of the leak; this and the losses on the recording's own clock */
	uint64_t leaked_bytes; /* evenly until its end, unless there are losses */
	char *site;	 /* pattern that a frame of the true stack matches, or NULL */
	double stretch;
	uint32_t pid;	 /* the program, 0 = whichever */
	struct gen_loss *losses;
	size_t losses_len;
	int line;
};

struct labels {
	struct label *list;
	size_t len, cap;
};

/* leakbench_labels.c. 0, -ENOENT (no such file), -EINVAL (errors say what), -ENOMEM. */
int labels_read(const char *path, struct errors *errors, struct labels *ret);
void labels_done(struct labels *l);

/* One trace to be judged. */
struct bench_case {
	const char *set;
	const struct family *family; /* NULL = a recording */
	uint64_t seed;
	const struct label *label;
	bool is_again; /* played twice, by a process and by a later one, to one engine: only the second is judged */
};

/* leakbench_run.c: makes it, plays it through the rules, and judges. Thread-safe; errors go to o->error, their text to
 * standard error. */
void bench_run(const struct bench_case *c, const char *rules, struct outcome *o);
/* All of them, by so many threads. 0 or -errno. */
int bench_run_all(const struct bench_case *cases, size_t len, const char *rules, unsigned jobs, struct outcome *ret);

/* leakbench_evidence.c: rows of what the detector weighs, to a file for all threads. 0 or -errno. */
struct evidence_of {
	const struct bench_case *c;
	const char *family;
	uint64_t number;
	struct player *const *player; /* that is made later */
};
int evidence_open(const char *path);
int evidence_close(void);
/* On the thread that plays the trace; of is borrowed until the end. */
void evidence_begin(const struct evidence_of *of);
void evidence_end(const struct truth *t);

/* What a bench has found. */
struct bench {
	const char *rules;
	const struct outcome *list;
	size_t len;
	const char **sets; /* in the order of the table */
	size_t sets_len;
	bool is_again;
};

/* Families of a set in the order in which they first come: names into ret, at most max. Leaking ones or the others. */
size_t bench_families(const struct bench *b, const char *set, bool is_leak, const char **ret, size_t max);
#define FAMILIES_MAX 256

/* 0 or -ENOMEM, -EIO. */
int bench_table(const struct bench *b, FILE *f);
void bench_verbose(const struct bench *b, FILE *f);
int bench_json(const struct bench *b, const char *path);
int bench_chart(const struct bench *b, const char *path);
/* Lines `set[/family] level metric >= value` (or <=). The number of those that do not hold, each said in a line;
 * -EINVAL and the like with errors. */
int bench_floor(const struct bench *b, const char *path, struct errors *errors);

/* Generators and metrics against themselves; TAP. True if all is well. */
bool bench_self_test(uint64_t first_seed, uint64_t last_seed);
bool metrics_self_test(void);

/* Short forms for tables: at most 6 characters. "-" for NAN. */
#define SHORT_MAX 16
const char *short_time(char buf[SHORT_MAX], double seconds);
const char *short_bytes(char buf[SHORT_MAX], double bytes);
const char *short_share(char buf[SHORT_MAX], double share); /* percent, without its sign */
const char *short_number(char buf[SHORT_MAX], double n, int decimals);
