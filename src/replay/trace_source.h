/* SPDX-License-Identifier: MIT */
/* Bytes of a trace as text, whether they lie in a file or in memory, compressed or not. Private to the format. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/cleanup.h"

struct trace_source;

/* Takes fd, even when it fails. 0 or -ENOMEM. */
int trace_source_fd(int fd, struct trace_source **ret);
/* text is borrowed. 0 or -ENOMEM. */
int trace_source_text(const char *text, size_t len, struct trace_source **ret);
void trace_source_free(struct trace_source *s); /* accepts NULL */
DEFINE_CLEANUP(struct trace_source, trace_source_free)
/* Up to cap bytes, at least one; 0 = the end. -EBADMSG: compressed data is damaged; -ENODATA: it ends too early; else
 * -errno. */
ssize_t trace_source_read(struct trace_source *s, char *ret, size_t cap);
