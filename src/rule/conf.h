/* SPDX-License-Identifier: MIT */
/*
 * One libconfig file, read with the care the library lacks: bounded, without NUL bytes, numbers that do not fit and
 * comments that never end refused, included files opened by us and not by the library. Getters tell what is wrong with file, line
 * and cure; they return 0, -EINVAL with an error added, or -ENOMEM.
 */
#pragma once

#include <libconfig.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "rule/conf_text.h"

#define CONF_SIZE_MAX (1u << 20) /* bytes of one file */
#define CONF_DEPTH_MAX 32	 /* nested groups, lists and arrays */
#define CONF_INCLUDE_MAX 8	 /* files within files */
#define CONF_FILES_MAX 64	 /* includes of one file, and of those, in all: each counts as often as it is named */
#define CONF_TOTAL_MAX (2u << 20) /* bytes of a file and all that it includes */
#define CONF_MEMBERS_MAX 1000	 /* settings of one group: libconfig compares each new name with all before it */
#define CONF_STRINGS_MAX 10000	 /* strings of one list */

struct conf {
	char *path; /* as errors name it */
	char *dir;  /* includes are relative to it; NULL = no includes */
	struct conf_text text; /* parsed, only its parts are kept: settings name their files */
	config_t cfg;
};

/* What a file scan is told. A special file is a pipe or /dev/null: fit to be named on a command line only. */
#define CONF_F_SPECIAL 0x1

/* path NULL or unreadable is an error with the cause. */
int conf_load(const char *path, unsigned flags, struct errors *errors, struct conf **ret);
/* A text in the place of a file called name; it can include nothing. */
int conf_parse(const char *name, const char *text, struct errors *errors, struct conf **ret);
void conf_free(struct conf *c); /* accepts NULL */
DEFINE_CLEANUP(struct conf, conf_free)
config_setting_t *conf_root(const struct conf *c);
/* Nothing but blanks and comments. */
bool conf_is_empty(const struct conf *c);

/* Reports at the line of s. Returns -EINVAL. */
int conf_error(struct errors *errors, const config_setting_t *s, const char *fmt, ...) _printf_(3, 4);
void conf_warn(struct errors *errors, const config_setting_t *s, const char *fmt, ...) _printf_(3, 4);
/* "file:line" of s for use within a text; the caller frees. NULL when out of memory. */
char *conf_where(const config_setting_t *s);
/* File and line of s; the caller frees *ret_file. 0 or -ENOMEM. */
int conf_source(const config_setting_t *s, char **ret_file, int *ret_line);

/* Name of s, or of the setting whose element it is. */
const char *conf_name(const config_setting_t *s);
int conf_string(struct errors *errors, const config_setting_t *s, const char **ret);
int conf_bool(struct errors *errors, const config_setting_t *s, bool *ret);
int conf_group(struct errors *errors, const config_setting_t *s);
/* A plain integer from min to max. */
int conf_count(struct errors *errors, const config_setting_t *s, uint32_t min, uint32_t max, uint32_t *ret);
/* A plain number from 0 to 1. */
int conf_fraction(struct errors *errors, const config_setting_t *s, double *ret);
int conf_duration(struct errors *errors, const config_setting_t *s, uint64_t min_ns, uint64_t max_ns, uint64_t *ret);
int conf_size(struct errors *errors, const config_setting_t *s, uint64_t *ret);
/* A string, or an array or list of at most CONF_STRINGS_MAX strings: count and each of them. Element errors name the element's line. */
int conf_strings(struct errors *errors, const config_setting_t *s, size_t *ret_len);
const char *conf_strings_get(const config_setting_t *s, size_t i, const config_setting_t **ret_elem);
/* Copies them; the caller owns list and strings. */
int conf_strings_copy(struct errors *errors, const config_setting_t *s, char ***ret, size_t *ret_len);

/* The one of names within two edits of word, or NULL. names ends with NULL; of very many only the first are compared. */
const char *conf_suggest(const char *word, const char *const *names);
/* `unknown WHAT "x"`, with `: did you mean "y"?` or else the names there are, or the first of them. */
int conf_unknown(struct errors *errors, const config_setting_t *s, const char *what, const char *word,
		 const char *const *names);
