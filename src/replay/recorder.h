/* SPDX-License-Identifier: MIT */
/*
 * What an engine is told, written down as a trace while it happens. The tracing thread only formats lines into memory;
 * a thread of the recorder compresses and writes them, and turns stacks into text.
 *
 * The file has its final name from the first line on, so that it can be watched, and so that whoever kills the recorder
 * finds it; one that had the name before is replaced then, not written over: who has it open keeps reading the old one.
 * Text and compressed text are handed to the kernel every two seconds, ended at a whole line: what is on disk is a trace.
 * The first frame of a stack is its GPUXRAY_STACK_ID, "@0123456789abcdef": no text gives it back.
 * Without identity no line names a person or a command line; stacks do name functions and files, without folders of
 * the program's own. With it secrets are replaced as in records, and what records omit is omitted here as well.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "rule/input.h"

struct objects;
struct recorder;
struct redact;

struct recorder_options {
	const char *path; /* ".gz" at its end: compressed. "-": standard output, text */
	const uint32_t *pids; /* only these processes, borrowed for the recorder's life; none = all */
	size_t pids_len;
	bool identity;	  /* with command lines, users, real uuids of devices: not to be shared */
	uint64_t max_pending_bytes; /* waiting to be written; beyond it lines are dropped and counted. 0 = 64 MiB */
	uint64_t start_ns; /* time 0 of the trace, monotonic, no later than the first input; 0 = the first input */
	struct objects *objects; /* files that stacks point into; a reference is taken. NULL: stacks are not told */
	const struct redact *redact; /* borrowed for the recorder's life; NULL: identities and stacks are written as they are */
	const char *(*call_name)(uint32_t call, void *userdata); /* may be NULL */
	void *userdata;
};

struct recorder_stats {
	uint64_t events; /* allocations, frees, failures */
	uint64_t lines, stacks; /* stacks: told as text */
	uint64_t text_bytes, file_bytes;
	uint64_t dropped; /* lines for which there was no room: the trace is wrong from there on, and says so */
	int error;	  /* the first -errno of a write; nothing is written after it */
};

/* 0 or -errno. */
int recorder_new(const struct recorder_options *o, struct recorder **ret);
/* For engine_set_tap: userdata is the recorder. Never blocks. */
void recorder_tap(const struct engine_input *in, void *userdata);
/* What follows the id that is the first of these frames; *ret_id is 0 and all follows where there is none. */
const char *recorder_stack_id(const char *frames, uint64_t *ret_id);
/* The stack has been resolved after its process ended, of which the engine hears nothing. Others are known from the site. */
void recorder_stack(struct recorder *r, struct stack *s);
/* Any thread. */
void recorder_stats(struct recorder *r, struct recorder_stats *ret);
/* Writes what is waiting, closes and frees; waits for the disk, and some seconds at most for stacks. ret may be NULL.
 * 0 or the first error. */
int recorder_close(struct recorder *r, struct recorder_stats *ret);
