/* SPDX-License-Identifier: MIT */
/* The file that node_exporter's textfile collector reads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Mode 0644, beside the file first and then in its place: no reader finds half of it. 0 or -errno. */
int textfile_write(const char *path, const char *data, size_t len);
/* The collector reads files of this name. */
bool textfile_is_read(const char *path);
/* What to do about an error of textfile_write(). Static. */
const char *textfile_cure(int err);
