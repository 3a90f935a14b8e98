/* SPDX-License-Identifier: MIT */
/* Where sites have stopped growing, for a later daemon. */
#include "rule/engine.h"
#include "rule/leak_bound.h"
#include "rule/watch.h"

void engine_save_bounds(const struct engine *e,
			void (*save)(uint64_t id, uint64_t bytes, int64_t seen_ns, void *userdata), void *userdata)
{
	size_t iter = 0;
	void *value;

	while (map64_next(&e->bounds, &iter, NULL, &value)) {
		const struct bound *b = value;

		save(b->id, b->bytes, b->seen_ns, userdata);
	}
}

int engine_learn_bound(struct engine *e, uint64_t id, uint64_t bytes, int64_t seen_ns)
{
	return leak_learn_bound(e, id, bytes, (uint64_t)seen_ns);
}
