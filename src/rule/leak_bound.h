/* SPDX-License-Identifier: MIT */
/* Where the growth of a call site has stopped by itself. Inside the core only: leak_sites.c, engine_bounds.c. */
#pragma once

#include <stdint.h>

struct bound {
	uint64_t id; /* frames.id of the site: the same in every run */
	uint64_t bytes;
	int64_t seen_ns; /* last learnt or of use; negative: before this boot */
};
