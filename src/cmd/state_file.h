/* SPDX-License-Identifier: MIT */
/*
 * What a later daemon needs beside the kernel's maps, as records one behind the other, each with its length and a
 * checksum: whatever kills the daemon, at most the last record is torn, and is cut off. The file is written anew, with
 * what is live, when it has grown to twice that. A lock on it keeps a second daemon from the same file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

#define STATE_FILE_MAX (32u << 20)
#define STATE_RECORD_MAX (8u << 20)

enum kept_type {
	KEPT_HEAD = 1,	/* whose state it is */
	KEPT_STACK,	/* a number and its frames */
	KEPT_COPY,	/* a number whose frames are those of another one before it */
	KEPT_ORDINAL,	/* a device of a process */
	KEPT_TOTALS,	/* of a process, beyond what the kernel's books have; the last one counts */
	KEPT_INCIDENTS, /* all that were said and are not over; the last one counts */
};

/*
 * Calls one() for each whole record from the start, until it returns negative, which is returned. What follows the first
 * record that is not whole is not looked at. *ret_valid: bytes of whole records.
 */
int state_parse(const char *data, size_t len, int (*one)(uint32_t type, const char *data, size_t len, void *userdata),
		void *userdata, size_t *ret_valid);

struct state_file;

/* What there is; an absent file is empty. The caller frees *ret. 0, -EPERM (it is not ours alone), -E2BIG, -errno. */
int state_read(const char *path, char **ret, size_t *ret_len);
/*
 * For writing, through state_begin() and state_end() first; path itself stays as it is until then. 0, -EWOULDBLOCK
 * (another daemon has it), -errno.
 */
int state_open(const char *path, struct state_file **ret);
void state_free(struct state_file *s); /* writes what is buffered; accepts NULL */
DEFINE_CLEANUP(struct state_file, state_free)

/* Appends to a buffer. A record that does not fit into the file any more is counted and left out, names of stacks
 * before the others. */
void state_add(struct state_file *s, enum kept_type type, const void *data, size_t len);
/* Writes the buffer out: a local memory file, so it does not wait. Errors are logged once and counted. */
void state_flush(struct state_file *s);
/* All records between them take the place of the file; a failure leaves the old one. 0 or -errno. */
int state_begin(struct state_file *s);
int state_end(struct state_file *s);
/* Has it grown to twice what was live last time, or so far that little more fits? */
bool state_is_grown(const struct state_file *s);

/* What was written, and what was not. */
struct state_stats {
	uint64_t bytes, left_out, failures;
};
void state_stats(const struct state_file *s, struct state_stats *ret);
