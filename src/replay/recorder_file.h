/* SPDX-License-Identifier: MIT */
/* A file that grows at its end and can be read meanwhile, compressed or not. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct recorder_file;

/* A regular file of that name is replaced; anything else (a pipe, a device), and what standard output or standard error
 * go to, is written to. "-" is standard output. 0 or -errno. */
int recorder_file_open(const char *path, bool is_private, struct recorder_file **ret);
/* is_flush: all so far can be read from the file afterwards. 0 or -errno. */
int recorder_file_write(struct recorder_file *f, const char *data, size_t len, bool is_flush);
bool recorder_file_is_flushed(const struct recorder_file *f);
/* Any thread: from now on a reader of the pipe who takes nothing for some seconds is an error, -ETIMEDOUT. */
void recorder_file_hurry(struct recorder_file *f);
/* In the file, after compression. */
uint64_t recorder_file_bytes(const struct recorder_file *f);
/* Ends and closes it once; f stays for recorder_file_bytes() until recorder_file_free(). 0 or -errno. */
int recorder_file_end(struct recorder_file *f);
void recorder_file_free(struct recorder_file *f); /* accepts NULL */
