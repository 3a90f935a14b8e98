/* SPDX-License-Identifier: MIT */
/* Traces in memory, and when two items of them say the same. For unit tests and the fuzzer. */
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "model/identity.h"
#include "replay/trace.h"

#define HEAD "# gpuxray trace 1\n"

static inline struct trace_reader *reader_of(const char *text, size_t len)
{
	struct trace_reader *r;

	if (trace_open_text("t.trace", text, len, &r) < 0)
		abort();
	return r;
}

static uint64_t trace_seed = 1; /* the same in each run */

static inline uint64_t random_u64(void)
{
	trace_seed ^= trace_seed << 13;
	trace_seed ^= trace_seed >> 7;
	trace_seed ^= trace_seed << 17;
	return trace_seed * UINT64_C(0x2545f4914f6cdd1d);
}

static inline uint64_t random_below(uint64_t n)
{
	return random_u64() % n;
}

static inline bool text_equal(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

#define DIFFERS(a, b, member)                                                                                          \
	do {                                                                                                           \
		if ((a)->member != (b)->member)                                                                        \
			return #member;                                                                                \
	} while (0)
#define TEXT_DIFFERS(a, b, member)                                                                                     \
	do {                                                                                                           \
		if (!text_equal((a)->member, (b)->member))                                                             \
			return #member;                                                                                \
	} while (0)

static inline const char *identity_difference(const struct identity *a, const struct identity *b)
{
	TEXT_DIFFERS(a, b, comm);
	TEXT_DIFFERS(a, b, exe);
	TEXT_DIFFERS(a, b, cmdline);
	TEXT_DIFFERS(a, b, user);
	TEXT_DIFFERS(a, b, cgroup);
	TEXT_DIFFERS(a, b, unit);
	TEXT_DIFFERS(a, b, user_unit);
	TEXT_DIFFERS(a, b, container);
	TEXT_DIFFERS(a, b, runtime);
	TEXT_DIFFERS(a, b, pod);
	TEXT_DIFFERS(a, b, slice);
	TEXT_DIFFERS(a, b, slurm_job);
	TEXT_DIFFERS(a, b, parent);
	TEXT_DIFFERS(a, b, tag);
	TEXT_DIFFERS(a, b, pod_name);
	TEXT_DIFFERS(a, b, pod_namespace);
	TEXT_DIFFERS(a, b, container_name);
	DIFFERS(a, b, uid);
	DIFFERS(a, b, ppid);
	DIFFERS(a, b, inner_pid);
	DIFFERS(a, b, start_ticks);
	return NULL;
}

/* NULL or what differs. Of identities the pid and the start in nanoseconds are not told, of books only the counters. */
static inline const char *item_difference(const struct trace_item *a, const struct trace_item *b)
{
	DIFFERS(a, b, type);
	DIFFERS(a, b, pid);
	DIFFERS(a, b, time_ns);
	DIFFERS(a, b, class);
	DIFFERS(a, b, kind);
	DIFFERS(a, b, reason);
	DIFFERS(a, b, device);
	DIFFERS(a, b, error);
	DIFFERS(a, b, addr);
	DIFFERS(a, b, bytes);
	DIFFERS(a, b, stack);
	DIFFERS(a, b, key);
	DIFFERS(a, b, birth_ns);
	DIFFERS(a, b, total_bytes);
	DIFFERS(a, b, used_bytes);
	DIFFERS(a, b, count);
	DIFFERS(a, b, condition);
	DIFFERS(a, b, flag);
	TEXT_DIFFERS(a, b, call);
	TEXT_DIFFERS(a, b, uuid);
	TEXT_DIFFERS(a, b, name);
	if (!a->identity != !b->identity || !a->books != !b->books)
		return "what there is";
	if (a->books && memcmp(a->books, b->books, sizeof(*a->books)) != 0)
		return "books";
	return a->identity ? identity_difference(a->identity, b->identity) : NULL;
}
