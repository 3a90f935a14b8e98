/* SPDX-License-Identifier: MIT */
/* The reports of the history. Inside the core only. NULL when out of memory. */
#pragma once

#include "rule/engine_private.h"

/* The wall clock at a moment of the event clock; 0 for 0. */
uint64_t sample_wall_usec(const struct occasion *o, uint64_t time_ns);
/* What p holds on pd; NULL: a process without any device. ret_sites: those it names, most bytes first. */
struct report *sample_fill(struct engine *e, const struct process *p, const struct process_device *pd,
			   struct site *ret_sites[REPORT_SITES_MAX], size_t *ret_sites_len, const struct occasion *o);
struct report *sample_fill_site(struct engine *e, const struct process *p, struct site *site, const struct occasion *o);
struct report *sample_fill_exit(struct engine *e, struct process *p, const struct occasion *o);
