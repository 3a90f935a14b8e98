/* SPDX-License-Identifier: MIT */
/* A look at the text of a libconfig file before libconfig sees it: for what that would let pass or stumble over. */
#pragma once

#include <stddef.h>

#include "base/error.h"

struct scan_include {
	char *path; /* as written */
	int line;
	size_t start, end; /* from the @ to behind the closing quote, in bytes of the text */
};

/* Refuses NUL bytes, byte order marks and carriage returns that end no line. 0 or -EINVAL. */
int scan_bytes(const char *file, const char *text, size_t len, struct errors *errors);
/*
 * Refuses integers that libconfig would silently wrap, comments and strings without an end, nesting beyond
 * CONF_DEPTH_MAX and more than CONF_MEMBERS_MAX settings in a group; lists the includes. 0, -EINVAL, -ENOMEM.
 */
int scan_text(const char *file, const char *text, struct errors *errors, struct scan_include **ret, size_t *ret_len);
void scan_includes_free(struct scan_include *list, size_t len);
