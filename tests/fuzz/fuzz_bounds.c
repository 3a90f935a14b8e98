/* SPDX-License-Identifier: MIT */
/* The file that remembers where growth stopped. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/bounds_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void one(const struct bound_line *l, void *userdata)
{
	if (!l->id || !l->bytes || l->day > 20000 || 20000 - l->day > BOUNDS_DAYS_MAX)
		abort();
	bounds_add(userdata, l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct strbuf first = STRBUF_INIT, second = STRBUF_INIT;
	char *copy = malloc(size + 1);
	size_t bad;

	if (!copy)
		return 0;
	if (size)
		memcpy(copy, data, size);
	bounds_begin(&first);
	bounds_begin(&second);
	/* What was taken is the same when it is written and read again. */
	if (bounds_parse(copy, size, 20000, one, &first, &bad) == 0 &&
	    (bounds_parse(first.buf, first.len, 20000, one, &second, &bad) < 0 || bad ||
	     strcmp(strbuf_str(&first), strbuf_str(&second)) != 0))
		abort();
	strbuf_done(&first);
	strbuf_done(&second);
	free(copy);
	return 0;
}
