/* SPDX-License-Identifier: MIT */
/*
 * Tests of rules: what happens, on a clock of its own, and what must fire of it. `gpuxray test --help` tells the form
 * of the files.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

struct rule_test_options {
	FILE *out;	 /* results in TAP */
	bool is_verbose; /* every record as it is said */
	uint64_t max_events; /* of one test; 0 = 10 million */
	uint64_t max_ticks;  /* of one test; 0 = 400 days of seconds */
};

/* Over all files: numbers of results go on from one to the next. */
struct rule_test_counts {
	size_t passed, failed;
};

/* Runs all tests of a file; expectations that fail are no error, and counted. 0, -EINVAL (errors say what is wrong
 * with the file; it counts as one failure), -ENOMEM. */
int rule_test_run(const char *path, const struct rule_test_options *o, struct errors *errors,
		  struct rule_test_counts *counts);
/* A text in the place of a file called name; it can name no other file. */
int rule_test_run_text(const char *name, const char *text, const struct rule_test_options *o, struct errors *errors,
		       struct rule_test_counts *counts);
