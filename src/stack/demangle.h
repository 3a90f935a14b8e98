/* SPDX-License-Identifier: MIT */
/* Linker names to readable ones. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

/*
 * Appends the C++ or Rust name without parameters, return types and hashes, else the name as it is; a symbol version
 * behind '@' goes. At most max bytes, then "...". The input is hostile, and so is the output: escape it.
 */
void demangle(struct strbuf *sb, const char *name, size_t max);
