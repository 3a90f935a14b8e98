/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/cleanup.h"
#include "stack/demangle.h"
#include "stack/demangle_cpp.h"
#include "stack/demangle_rust.h"

void demangle(struct strbuf *sb, const char *name, size_t max)
{
	bool is_cut = false;

	if (!demangle_rust(sb, name, max, &is_cut) && !demangle_rust_old(sb, name, max, &is_cut) &&
	    !demangle_cpp(sb, name, max, &is_cut)) {
		const char *version = strchr(name, '@');
		const size_t len = version && version > name ? (size_t)(version - name) : strlen(name);

		strbuf_add(sb, name, MIN(len, max));
		is_cut = len > max;
	}
	if (is_cut)
		strbuf_adds(sb, "...");
}
