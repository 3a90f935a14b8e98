/* SPDX-License-Identifier: MIT */
/* What the engine's own files share beside the watches. */
#pragma once

#include "rule/engine.h"
#include "rule/watch.h"

/* ev NULL = a tick. The wall clock is taken back to when the event happened. */
struct occasion engine_occasion(const struct engine *e, const struct event *ev, uint64_t now_ns, uint64_t real_usec);
/* Now, as far as the engine has heard. */
struct occasion engine_now(const struct engine *e);
/* Finds or creates. 0, -ESRCH (an older incarnation than the one known), -ENOSPC (counted), -ENOMEM. */
int engine_get_process(struct engine *e, uint32_t pid, uint64_t start_ns, const struct occasion *o,
		       struct process **ret);
/* One that only the driver has named so far: its start is known to the tick. True if it is the one that started then, as
 * it is called from now on. */
bool engine_adopt_process(struct process *p, uint64_t start_ns);
/* Its first event. */
void engine_cover(struct process *p);
/* Removes a device that nobody uses or knows, and its groups. */
void engine_put_device(struct engine *e, struct device *dev, const struct occasion *o);
/* Whoever listens hears of it before it takes effect. */
#define engine_tell_at(e, now, real, ...)                                                                              \
	do {                                                                                                           \
		if ((e)->tap)                                                                                          \
			(e)->tap(&(const struct engine_input){ .now_ns = (now), .real_usec = (real), __VA_ARGS__ },    \
				 (e)->tap_userdata);                                                                   \
	} while (0)
/* ... of a call without a clock. */
#define engine_tell(e, ...) engine_tell_at(e, (e)->now_ns, (e)->real_usec, __VA_ARGS__)
