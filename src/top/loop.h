/* SPDX-License-Identifier: MIT */
/* Looks, keys and signals until it ends. */
#pragma once

#include "top/model.h"
#include "view/source.h"

struct top_loop_options {
	struct view_source *source;
	const uint32_t *pids; /* only these; none = all */
	size_t pids_len;
	uint64_t count; /* of looks; 0 = until a key or a signal ends it */
	bool is_ascii;
};

/* Standard input and output are a terminal, which is given back in any case. On failure one line in reterr. 0 or -errno. A
 * question may still be under way, in a thread, when *ret_busy is true: then the source must not be freed. */
int top_loop(struct top_model *m, const struct top_loop_options *o, bool *ret_busy, char *reterr, size_t size);
