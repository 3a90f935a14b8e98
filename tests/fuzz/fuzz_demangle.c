/* SPDX-License-Identifier: MIT */
/* Any string as a symbol's name: the demangling libraries must come back, soon, with a bounded text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stack/demangle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	_cleanup_free_ char *name = strndup((const char *)data, size);

	if (!name)
		return 0;
	demangle(&sb, name, 512);
	if (sb.error || sb.len > 512 + 3 || strlen(strbuf_str(&sb)) != sb.len)
		abort();
	return 0;
}
