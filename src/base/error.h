/* SPDX-License-Identifier: MIT */
/* Errors and warnings that a person must read, collected so that one run reports all of them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/cleanup.h"

struct error {
	char *file; /* may be NULL */
	int line;   /* 0 = none */
	bool is_warning;
	char *text;
};

struct errors {
	struct error *list;
	size_t len;
	size_t error_count;   /* without warnings */
	size_t dropped_count; /* beyond ERRORS_MAX, or no memory */
};

#define ERRORS_INIT {}
#define ERRORS_MAX 200
#define ERROR_TEXT_MAX 1000 /* bytes of one text: what is longer is cut in its middle */

/* Always returns -EINVAL, so that a parser can `return errors_add(...)`. */
int errors_add(struct errors *e, const char *file, int line, const char *fmt, ...) _printf_(4, 5);
void errors_warn(struct errors *e, const char *file, int line, const char *fmt, ...) _printf_(4, 5);
/* One `file:line: error|warning: text` line each, and a line for the dropped ones. */
void errors_print(const struct errors *e, FILE *f);
void errors_done(struct errors *e);

#define _cleanup_errors_ _cleanup_(errors_done)
