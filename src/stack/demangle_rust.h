/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

/*
 * Appends the readable form of a Rust v0 name ("_R..."), at most max bytes of it; lifetimes and binders are left out.
 * False, with nothing appended, when it is none. Memory, depth and time are bounded whatever the name says.
 */
bool demangle_rust(struct strbuf *sb, const char *name, size_t max, bool *ret_is_cut);
/* The same for the scheme before ("_ZN...17h<hash>E"): the hash is left out. */
bool demangle_rust_old(struct strbuf *sb, const char *name, size_t max, bool *ret_is_cut);
