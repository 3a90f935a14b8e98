/* SPDX-License-Identifier: MIT */
/* What `gpuxray report` was asked for. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum report_format { FORMAT_TEXT, FORMAT_JSON, FORMAT_FOLDED, FORMAT_HTML };
enum report_colour { COLOUR_AUTO, COLOUR_ALWAYS, COLOUR_NEVER };

#define REPORT_FILES_MAX 1024
#define REPORT_UNIT_MAX 256

struct report_options {
	uint64_t now_usec;
	uint64_t from_usec, until_usec;
	uint32_t pid;		    /* 0 = all */
	char unit[REPORT_UNIT_MAX]; /* "" = all */
	enum report_format format;
	enum report_colour colour;
	const char *output;    /* NULL = standard output */
	const char *directory; /* NULL */
	const char *files[REPORT_FILES_MAX];
	size_t files_len;
	bool is_merged;
	unsigned width; /* 0 = nobody said */
	size_t processes;
};

/* 0; 1 = help was asked for and given; -EINVAL, and standard error has one line that says what is wrong. */
int report_options_parse(int argc, char **argv, struct report_options *ret);
