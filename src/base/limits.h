/* SPDX-License-Identifier: MIT */
/* Every limit of the daemon in one place; gpuxray.conf sets them by these names. Each overflow has a counter. */
#pragma once

#include <stdint.h>

struct limits {
	uint32_t processes;	    /* traced at once */
	uint32_t live_allocations;  /* over all processes */
	uint32_t sites_per_process; /* call sites whose bytes are kept apart; the rest share one "other" site */
	uint32_t stacks_per_process;
	uint32_t sites; /* the same over all processes, and of stacks too; 0 = no such limit */
	uint32_t stacks_per_second; /* new stacks that are unwound, up to four times as many at once; over it bytes
				       are counted without a stack ("sampled") */
	uint32_t learned_stacks;    /* known again in the probe, over all processes; over it a process starts anew */
	uint32_t incidents;	    /* states of rules kept at once */
	uint32_t queue;		    /* records waiting to be written */
	uint32_t ring_bytes;	    /* power of two */
	uint32_t records_per_minute; /* our own budget towards journald */
	uint32_t history_per_minute; /* samples and ends of processes, besides those */
	uint32_t libraries;	    /* probed files at once */
};

#define LIMITS_DEFAULT                                                                                                 \
	{                                                                                                              \
		.processes = 10000, .live_allocations = 1048576, .sites_per_process = 4096,                            \
		.stacks_per_process = 4096, .sites = 50000, .stacks_per_second = 500, .learned_stacks = 8192, .incidents = 10000,     \
		.queue = 256, .ring_bytes = 8u << 20, .records_per_minute = 60, .history_per_minute = 600,     \
		.libraries = 64,                       \
	}
