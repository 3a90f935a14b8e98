/* SPDX-License-Identifier: MIT */
/* Writes a text file again and again in a thread of its own, so that a slow disk holds nobody else. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct textfile_writer;

/* 0, -ENOMEM, -errno. */
int textfile_writer_new(const char *path, struct textfile_writer **ret);
/* Takes data. What is still to be written is replaced. */
void textfile_writer_push(struct textfile_writer *w, char *data, size_t len);
/* How writing went last: 0 (also when nothing has been written yet) or -errno. */
int textfile_writer_error(struct textfile_writer *w);
/* The file is removed if it was written. A thread that is stuck in the disk is left behind, and so is what it writes. */
void textfile_writer_free(struct textfile_writer *w);
