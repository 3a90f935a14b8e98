/* SPDX-License-Identifier: MIT */
/* Linker names to readable ones. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

/*
 * Appends the C++ or Rust name without parameters, return types and hashes, else the name as it is; a symbol version
 * behind '@' goes. At most max bytes, then "...". The input is hostile, and so is the output: escape it.
 *
 * Our own, against our habit of taking libraries: names come out of files of the traced process, and libiberty's and LLVM's
 * demanglers take exponential time on some names (a Rust name of 24 bytes and C++ names of 300 were seen to hang
 * libiberty, before any output that could be cut). Here memory, depth and time are bounded.
 */
void demangle(struct strbuf *sb, const char *name, size_t max);
/*
 * Appends a C++ function's name with the types of its parameters, "a::f(int, char const*) const"; without a return type, and
 * without a symbol version. False, with nothing appended, when it is none, or longer than max, or out of memory.
 */
bool demangle_signature(struct strbuf *sb, const char *name, size_t max);
