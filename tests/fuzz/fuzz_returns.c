/* SPDX-License-Identifier: MIT */
/* Any bytes as a function's code: no read behind its end, and every return lies in it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "trace/returns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct code_range range = { .offset = 0x1000, .len = size };
	_cleanup_free_ uint8_t *code = malloc(size); /* so that its end is where ASan sees it */
	uint64_t at[RETURNS_MAX];
	size_t jumps;

	if (!size || !code)
		return 0;
	memcpy(code, data, size);
	for (int wants_jumps = 0; wants_jumps < 2; wants_jumps++) {
		int n = returns_find(code, &range, &range, 1, wants_jumps, at, &jumps);

		for (int i = 0; i < n; i++)
			if (at[i] < range.offset || at[i] - range.offset >= size)
				abort();
	}
	return 0;
}
