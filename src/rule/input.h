/* SPDX-License-Identifier: MIT */
/*
 * All that an engine is told, as values: a recording is the list of them, a replay tells them again. What an engine says
 * follows from its rules and this list alone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../bpf/event.h"

struct engine;
struct identity;
struct stack;

enum input_type {
	INPUT_EVENT,	 /* engine_event */
	INPUT_TICK,	 /* engine_tick */
	INPUT_IDENTITY,	 /* engine_set_identity */
	INPUT_STACK,	 /* engine_set_stack */
	INPUT_SITE,	 /* engine_set_site */
	INPUT_ORDINAL,	 /* engine_set_ordinal */
	INPUT_DEVICE,	 /* engine_set_device */
	INPUT_DEVICES_END,
	INPUT_DRIVER_BEGIN,
	INPUT_DRIVER,
	INPUT_DRIVER_END,
	INPUT_COVERAGE,
	INPUT_CONDITION,
	INPUT_LOST,
	INPUT_REBUILD_BEGIN,
	INPUT_REBUILD_ADD,
	INPUT_REBUILD_END,
};

/* Pointers are borrowed for the call. */
struct engine_input {
	enum input_type type;
	uint32_t pid; /* 0 where it is about no process */
	uint64_t start_ns;
	uint64_t now_ns, real_usec; /* when the engine is told; of calls without a clock, what it heard last */
	union {
		const struct event *event; /* EVENT, REBUILD_ADD */
		struct identity *identity;
		struct stack *stack;
		struct {
			uint64_t stack, key;
			struct stack *resolved; /* for who writes it down; the engine knows it. May be NULL */
		} site;
		struct {
			int ordinal;
			const char *uuid;
		} ordinal;
		struct {
			const char *uuid, *name; /* name may be NULL */
			int index;
			uint64_t total_bytes, used_bytes;
		} device;
		bool is_complete; /* DEVICES_END, DRIVER_END */
		struct {
			const char *uuid; /* may be NULL */
			uint64_t bytes;
			bool is_older;
		} driver;
		struct {
			const char *reason;
			bool is_expected;
		} coverage;
		uint32_t condition;
		uint64_t lost;
		const struct books *books; /* REBUILD_END */
	};
};

/* Calls tap with each input before it takes effect, in the order they come. NULL: no longer. One at a time. */
void engine_set_tap(struct engine *e, void (*tap)(const struct engine_input *in, void *userdata), void *userdata);
