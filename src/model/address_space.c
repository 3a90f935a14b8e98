/* SPDX-License-Identifier: MIT */
#include "model/stack.h"

struct address_space *address_space_ref(struct address_space *as)
{
	if (as)
		(void)atomic_fetch_add_explicit(&as->refs, 1, memory_order_relaxed);
	return as;
}

void address_space_unref(struct address_space *as)
{
	if (!as || atomic_fetch_sub_explicit(&as->refs, 1, memory_order_acq_rel) != 1)
		return;
	free(as->mappings);
	free(as->strings);
	free(as);
}

const struct mapping *address_space_find(const struct address_space *as, uint64_t addr)
{
	size_t low = 0, high;

	if (!as)
		return NULL;
	/* The first mapping that ends above addr. */
	high = as->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (as->mappings[middle].end <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low < as->count && as->mappings[low].start <= addr ? &as->mappings[low] : NULL;
}
