/* SPDX-License-Identifier: MIT */
#include "base/glob.h"

#include <stddef.h>

/* Matches c against the set behind '['; *ret_end is behind its ']'. False, with *ret_end NULL, when it has no end. */
static bool match_set(const char *set, char c, const char **ret_end)
{
	const bool is_negated = *set == '!' || *set == '^';
	bool found = false, is_first = true;

	set += is_negated;
	*ret_end = NULL;
	for (; *set && (is_first || *set != ']'); is_first = false) {
		unsigned char low, high;

		if (*set == '\\' && set[1])
			set++;
		low = high = (unsigned char)*set++;
		if (*set == '-' && set[1] && set[1] != ']') {
			set += set[1] == '\\' && set[2] ? 2 : 1;
			high = (unsigned char)*set++;
		}
		found |= (unsigned char)c >= low && (unsigned char)c <= high;
	}
	if (!*set)
		return false;
	*ret_end = set + 1;
	return found != is_negated;
}

/* Matches one character; *pattern is moved behind what stands for it. */
static bool match_one(const char **pattern, char c)
{
	const char *p = *pattern, *end;
	bool good;

	if (*p == '[') {
		good = match_set(p + 1, c, &end);
		if (end) {
			*pattern = end;
			return good;
		}
	} else if (*p == '?') {
		*pattern = p + 1;
		return true;
	} else if (*p == '\\' && p[1]) {
		p++;
	}
	*pattern = p + 1;
	return *p == c;
}

/* Only the last '*' needs to be tried again: what an earlier one might take instead, the last one can take too. */
bool glob_match(const char *pattern, const char *text)
{
	const char *star = NULL, *again = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = ++pattern;
			again = text;
			continue;
		}
		if (*pattern && match_one(&pattern, *text)) {
			text++;
			continue;
		}
		if (!star)
			return false;
		pattern = star;
		text = ++again;
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}
