/* SPDX-License-Identifier: MIT */
/* Shell patterns over whole texts. */
#pragma once

#include <stdbool.h>

/*
 * Does the pattern match all of the text? '*' any characters, '?' any one, "[a-z]" or "[!a-z]" one of a set, '\' takes
 * the next one as it is; a '[' without its ']' is itself. As fnmatch(3) without flags, but in time of at most the
 * product of the lengths, whatever both say.
 */
bool glob_match(const char *pattern, const char *text);
