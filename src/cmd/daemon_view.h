/* SPDX-License-Identifier: MIT */
/* What the daemon keeps so that it can be looked at: the last minute of each process, texts that may be shown, sessions. */
#pragma once

#include "base/map64.h"
#include "cmd/view_worker.h"

struct daemon_views {
	struct map64 seen; /* struct seen by pid */
	uint64_t pushed_ns; /* when the last minute was noted last */
	uint64_t pass;
	struct view_worker *worker; /* NULL until a view has stacks */
	sd_event_source *worker_source;
};
