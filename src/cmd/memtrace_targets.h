/* SPDX-License-Identifier: MIT */
/* The processes that `gpuxray memtrace` looks at, held so that the kernel tells when they end. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A process that is looked at, until its end has been told. */
struct target {
	uint32_t pid;
	uint64_t start_ticks;
	int pidfd; /* -1: answers alone tell of its end */
	bool is_named;
	bool is_seen;	     /* in an answer */
	bool is_in_last;     /* in the last one */
	bool is_waiting_told;
	uint64_t ended_ns;   /* 0 = it has not */
	char comm[64];
};

struct targets {
	struct target *list;
	size_t len, cap;
	struct pollfd *polls;
};

#define TARGETS_WAIT_MAX 8 /* others that are waited for */

/* NULL = none. */
struct target *targets_find(const struct targets *l, uint32_t pid, uint64_t start_ticks);
/* In the list until another is added or dropped. Takes pidfd. NULL when out of memory. */
struct target *targets_add(struct targets *l, uint32_t pid, uint64_t start_ticks, int pidfd);
/* Puts the last one in its place. */
void targets_drop(struct targets *l, struct target *t);
void targets_done(struct targets *l);
/* Also where nobody but answers can tell. */
bool target_has_ended(const struct target *t);
/* The end of any has been noted. */
bool targets_have_ends(const struct targets *l);
/* Until then (monotonic), the end of a target, which is noted, or an event of the others, whose revents are set. 0 or
 * -errno. */
int targets_wait(struct targets *l, struct pollfd *others, size_t others_len, uint64_t deadline_ns);
