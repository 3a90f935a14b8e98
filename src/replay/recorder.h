/* SPDX-License-Identifier: MIT */
/*
 * What an engine is told, written down as a trace while it happens. The tracing thread only formats lines into memory;
 * a thread of the recorder compresses and writes them, and turns stacks into text.
 */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"
#include "rule/input.h"

struct objects;
struct recorder;

struct recorder_options {
	const char *path; /* ".gz" at its end: compressed. "-": standard output, text */
	uint32_t pid;	  /* only this process; 0 = all */
	bool identity;	  /* with command lines, users, real uuids of devices: not to be shared */
	uint64_t max_pending_bytes; /* waiting to be written; beyond it lines are dropped and counted. 0 = 64 MiB */
	struct objects *objects;    /* borrowed: files that stacks point into */
	const char *(*call_name)(uint32_t call, void *userdata);
	void *userdata;
};

struct recorder_stats {
	uint64_t events, lines, stacks;
	uint64_t text_bytes, file_bytes;
	uint64_t dropped; /* lines for which there was no room: the trace is wrong from there on, and says so */
	int error;	  /* the first -errno of a write */
};

/* 0 or -errno; an existing file is replaced only when the new one is whole (recorder_close). */
int recorder_new(const struct recorder_options *o, struct recorder **ret);
/* For engine_set_tap: userdata is the recorder. Never blocks. */
void recorder_tap(const struct engine_input *in, void *userdata);
void recorder_stats(struct recorder *r, struct recorder_stats *ret);
/* Writes what is waiting and closes. 0 or the first error. */
int recorder_close(struct recorder *r, struct recorder_stats *ret);
