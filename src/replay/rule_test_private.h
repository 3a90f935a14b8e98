/* SPDX-License-Identifier: MIT */
/* A file of rule tests as values, and what its parts share. Texts lie in the file's settings. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "replay/player.h"
#include "replay/rule_test.h"
#include "rule/conf.h"

struct pattern;

#define TEST_TIME_MAX (UINT64_C(400) * 86400 * 1000000000)
/* Ends of epochs that divide a day fall on round times of a test. */
#define TEST_CLOCK { .monotonic_ns = UINT64_C(864000) * 1000000000, .real_usec = UINT64_C(1700006400000000) }
#define TEST_RECORDS_MAX 100000

struct test_device {
	int index;
	char *uuid;
	const char *name;
	uint64_t total_bytes, used_bytes; /* TRACE_UNKNOWN */
};

struct test_process {
	uint32_t pid;
	int device; /* where it allocates unless an entry says otherwise; -1 = not said */
	struct identity *identity; /* NULL: nothing is known of it */
	/* While it is played: */
	bool is_mentioned; /* in the file's processes, not in a trace alone */
	bool is_told;	   /* devices and identity, in this incarnation */
	bool has_driver;
	struct trace_item driver; /* what the driver says of it */
};

/* What an entry of trace does. */
enum step_type {
	STEP_ALLOC,
	STEP_FREE,
	STEP_FAIL,
	STEP_START,
	STEP_EXEC,
	STEP_EXIT,
	STEP_DRIVER,
	STEP_USED,
	STEP_LOST,
	STEP_CONDITION,
	STEP_MAX,
	STEP_NONE = STEP_MAX,
};

struct step {
	const config_setting_t *setting;
	enum step_type type;
	uint64_t from_ns, every_ns, until_ns, free_after_ns; /* TRACE_UNKNOWN = not given */
	uint32_t times;
	bool has_times;
	uint32_t pid; /* 0 = not given */
	int device;   /* -1 = not given */
	uint8_t class;
	bool is_older;
	uint64_t bytes;
	uint64_t stack; /* number */
	uint32_t count, condition;
	uint32_t blocks; /* free: at most so many, the oldest first; 0 = all */
	int32_t error;
	const char *name, *target, *call;
	uint32_t seen; /* bits of its keys */
	/* While it is played: */
	uint32_t done, given_back; /* allocations made; of those the first so many need no look when they are freed */
	uint32_t freed_after;
};

/* A set of names that must be exactly the one found. */
struct name_set {
	const config_setting_t *setting; /* NULL = not asked for */
	const char **names;
	size_t len;
};

enum expect_set {
	SET_FIRING,
	SET_PENDING,
	SET_FIRED,    /* records that say "firing", since the expectation before */
	SET_RESOLVED, /* ... and "resolved" */
	SET_MAX,
};

enum expect_key { /* whose incidents are looked at */
	SUBJECT_UNIT,
	SUBJECT_USER,
	SUBJECT_CGROUP,
	SUBJECT_CONTAINER,
	SUBJECT_MAX,
};

extern const char *const expect_set_names[SET_MAX + 1];
extern const char *const expect_subject_names[SUBJECT_MAX + 1];

struct quantity {
	uint64_t n;
	int unit; /* enum value_unit */
};

struct expectation {
	const config_setting_t *setting;
	const char *at; /* as written */
	uint64_t at_ns;
	struct name_set set[SET_MAX];
	uint32_t pid; /* 0 = any */
	int device;   /* -1 = any */
	const config_setting_t *stack; /* frames; NULL = any */
	const char *subject[SUBJECT_MAX];
	bool has_value, has_above, has_below;
	struct quantity value, above, below;
	int severity; /* -1 = not asked */
	bool has_records;
	uint32_t records;
	struct pattern *message;
};

struct rule_test {
	struct errors *errors;
	const struct rule_test_options *options;
	const struct conf *conf;
	const config_setting_t *group; /* the test, */
	const config_setting_t *root;  /* and what it has in common with the others of the file */
	const char *name;
	uint64_t tick_ns;
	struct ruleset *rules;
	struct test_device *devices;
	size_t devices_len;
	struct test_process *processes;
	size_t processes_len;
	struct step *steps;
	size_t steps_len;
	char **stacks; /* frames by number less 1, as in a trace */
	size_t stacks_len;
	char *trace_path; /* a recording in the place of steps */
	const config_setting_t *trace_setting;
	double stretch;
	struct expectation *expects; /* by time */
	size_t expects_len;
};

/* --- reading: 0, -EINVAL with errors added, -ENOMEM --- */

struct test_key {
	const char *name;
	int (*parse)(struct rule_test *t, const config_setting_t *s, void *object);
};

/* Calls the parser of each setting in a group; the table ends with NULL. Goes on after errors. ret_seen: bits of keys
 * that are there, may be NULL. */
int test_parse_keys(struct rule_test *t, const config_setting_t *group, const char *what, const struct test_key *keys,
		    void *object, uint32_t *ret_seen);
/* The setting of that name in the test, or else in what tests of the file share; or NULL. */
const config_setting_t *test_setting(const struct rule_test *t, const char *name);
int test_parse(struct rule_test *t);
void test_done(struct rule_test *t);
int test_parse_trace(struct rule_test *t, const config_setting_t *s);
int test_parse_expects(struct rule_test *t, const config_setting_t *s);
int test_load_rules(struct rule_test *t);
/* A path as the file means it. 0, -EINVAL, -ENOMEM. */
int test_path(struct rule_test *t, const config_setting_t *s, const char *path, char **ret);
int test_pid(struct rule_test *t, const config_setting_t *s, uint32_t *ret);
int test_device_index(struct rule_test *t, const config_setting_t *s, int *ret);
/* NULL when there is none. */
const struct test_device *test_device(const struct rule_test *t, int index);
/* Adding it; NULL = no memory. */
struct test_process *test_process(struct rule_test *t, uint32_t pid);

/* --- playing --- */

/* One record that was said. */
struct said {
	struct report *report;
	uint64_t time_ns;
	char *message;
};

struct test_run {
	struct rule_test *test;
	struct rule_test_counts *counts;
	struct player *player;
	struct trace_reader *reader; /* of a recording, or NULL */
	struct said *said;
	size_t said_len, said_cap;
	size_t window; /* first record since the expectation before */
	int error;     /* of a callback */
};

/* Plays the events and judges the expectations, which counts tell. 0, or -errno when it could not be played. */
int test_play(struct rule_test *t, struct rule_test_counts *counts);
/* Lets happen what happens up to a time. */
struct script;
int script_new(struct test_run *run, struct script **ret);
void script_free(struct script *s); /* accepts NULL */
DEFINE_CLEANUP(struct script, script_free)
int script_play(struct script *s, uint64_t until_ns);
const char *test_frames(const struct test_run *run, uint64_t stack);
/* Tells who it is and what devices it has, at the first item of an incarnation. */
int test_introduce(struct test_run *run, uint32_t pid, uint64_t time_ns);
void test_item_told(struct test_run *run, const struct trace_item *item);

/* --- judging --- */

/* Of whom an incident or a record is. */
struct view {
	const char *rule;
	bool is_pending;
	uint32_t pid; /* 0 = of no single process */
	const struct identity *identity;
	uint64_t stack; /* number, 0 = none */
	const char *device; /* uuid or NULL */
	int scope; /* enum rule_scope */
	const char *key; /* of a group */
	uint64_t since_ns; /* on the test's clock */
	struct quantity value, limit;
};

/* The incidents that there are; the caller frees the array. 0 or -ENOMEM. */
int test_incidents(const struct test_run *run, struct view **ret, size_t *ret_len);
void test_view_report(const struct test_run *run, const struct report *r, struct view *ret);
/* Says whether it is as expected. 0, -ENOMEM. */
int test_judge(struct test_run *run, const struct expectation *x);
bool test_selects(const struct test_run *run, const struct expectation *x, const struct view *v);

/* --- saying --- */

/* For a person, rounded only where what was rounded is told beside it. */
void say_time(struct strbuf *sb, uint64_t ns);
void say_quantity(struct strbuf *sb, const struct quantity *q);
void say_view(const struct test_run *run, const struct view *v, struct strbuf *sb);
/* Name of a rule, test or file where TAP reads it. */
void say_name(struct strbuf *sb, const char *name);
/* "36m leak-suspected firing: ..."; with all lines of the message or the first. */
void say_record(const struct said *s, bool is_whole, const char *indent, struct strbuf *sb);
/* "at 36m firing leak-suspected, pid 10". */
void say_expectation(const struct expectation *x, struct strbuf *sb);
