/* SPDX-License-Identifier: MIT */
/*
 * Nothing is lost across a restart: maps and probes lie in the service manager's store of descriptors and work on while
 * nobody reads them; names of stacks, firing incidents and the like lie in a file beside the status socket.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/state_file.h"
#include "model/stack.h"
#include "rule/report.h"
#include "trace/keep.h"

struct daemon;

struct daemon_keep {
	struct keep *keep; /* NULL: started by hand, or no service manager */
	struct state_file *state; /* NULL: another daemon has it, or it cannot be made */
	char *path; /* of the state */
	uint64_t incidents_sum; /* hash of those last written */
	uint64_t written_ns; /* totals and incidents */
	size_t processes; /* known from before */
	bool has_said; /* the incidents may have changed */
	bool is_adopting;
	struct report **held; /* they wait for the state to be written; those of the adoption for the start */
	size_t held_len;
	struct {
		char *path; /* NULL: no folder that outlives us */
		uint64_t sum; /* hash of those last written */
		uint64_t written_ns;
		bool has_failed;
	} bounds; /* where growth has stopped */
};

/* daemon_keep.c */
/* Before tracing: what the service manager hands us. Descriptors that are not ours are closed. 0 or -ENOMEM. */
int daemon_keep_start(struct daemon *d);
/* A stack has been resolved and is in the engine. */
void daemon_keep_stack(struct daemon *d, const struct stack *s);
void daemon_keep_ordinal(struct daemon *d, uint32_t pid, uint64_t start_ns, int ordinal, const char *uuid);
/* Something has been said: at the end of this turn of the loop the incidents are written. */
void daemon_keep_said(struct daemon *d);
/* Whether r has to wait for that; then it is taken. */
bool daemon_keep_hold(struct daemon *d, struct report *r);
void daemon_keep_turn(struct daemon *d);
void daemon_keep_tick(struct daemon *d);
/* The last words before a stop. */
void daemon_keep_stop(struct daemon *d);
void daemon_keep_done(struct daemon *d);
/* Writes the file anew with what is known now. */
void daemon_keep_rewrite(struct daemon *d);
/* The line of the status's limits: bytes of the file, and what was left out of it. */
void daemon_keep_stats(const struct daemon *d, struct state_stats *ret);

/* daemon_bounds.c: where growth has stopped, in a file of $STATE_DIRECTORY */
/* The engine is there. */
void daemon_bounds_start(struct daemon *d);
void daemon_bounds_tick(struct daemon *d);
void daemon_bounds_stop(struct daemon *d);

/* daemon_adopt.c */
/* After tracing and the engine have been started: what is known from before. Reports are held until daemon_adopt_end(). */
void daemon_adopt(struct daemon *d);
void daemon_adopt_end(struct daemon *d);

/* What daemon_keep.c writes and daemon_adopt.c reads. */
#define KEPT_VERSION 3
#define BOOT_ID_LEN 36
/* Of the running kernel; zeros where it cannot be read. */
void boot_id(char ret[BOOT_ID_LEN]);
