/* SPDX-License-Identifier: MIT */
/*
 * The daemon's own words, for its operator: one line each on stderr. Under systemd (JOURNAL_STREAM set) each line gets
 * the <N> priority prefix. Library code logs nothing above debug; the caller that gives up says so once.
 */
#pragma once

#include <stdarg.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/strbuf.h"

/* As in syslog(3): 3 error, 4 warning, 5 notice, 6 info, 7 debug. Lines above the maximum are dropped. */
void log_set_max(int priority);
int log_max(void);
/*
 * Stderr is a file of ours from now on, which is emptied before a line that would find more than this many bytes in it: the
 * last words are there, and nobody's disk or memory fills. 0: leave it alone, as at the start.
 */
void log_set_file_max(size_t bytes);
/*
 * At most so many warnings, notices and lines of information a minute from now on, as many at once: who is traced may cause
 * any number of them. The first line after that says how many were left out. 0: no limit, as at the start.
 */
void log_set_budget(unsigned int lines_per_minute);
/* Of the lines of a minute, how many are taken now. */
unsigned int log_used(void);
/* Left out for that since the start. */
uint64_t log_left_out(void);
/* Each line goes through it from now on: paths that a process chose may hold secrets. NULL: none. Not to log itself. */
void log_set_clean(void (*clean)(const char *text, struct strbuf *sb, void *userdata), void *userdata);
void log_line(int priority, const char *fmt, ...) _printf_(2, 3);
void log_linev(int priority, const char *fmt, va_list ap) _printf_(2, 0);

#define log_error(...) log_line(3, __VA_ARGS__)
#define log_warning(...) log_line(4, __VA_ARGS__)
#define log_notice(...) log_line(5, __VA_ARGS__)
#define log_info(...) log_line(6, __VA_ARGS__)
#define log_debug(...) log_line(7, __VA_ARGS__)
