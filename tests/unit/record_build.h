/* SPDX-License-Identifier: MIT */
/* What the tests of records share: building one, and holding it against what every record must be. */
#pragma once

#include "record_check.h"
#include "record_make.h"
#include "test.h"

static struct record _unused_ *build(const struct report *r, const struct stack_text *st, bool object_pid_ok)
{
	struct record *rec = NULL;

	if (record_build(r, st, object_pid_ok, NULL, &rec) < 0)
		return NULL;
	return rec;
}

#define EXPECT_SOUND(rec)                                                                                              \
	do {                                                                                                           \
		const char *wrong_ = check_all(rec);                                                                   \
		EXPECT_STR(wrong_ ? wrong_ : "", "");                                                                  \
	} while (0)

#define EXPECT_STACK(rec, frames)                                                                                      \
	do {                                                                                                           \
		const char *wrong_ = check_stack(rec, frames);                                                         \
		EXPECT_STR(wrong_ ? wrong_ : "", "");                                                                  \
	} while (0)

static void _unused_ set(char **p, const char *s)
{
	free(*p);
	*p = s ? make_str(s) : NULL;
}

/* n times c, and a NUL. */
static char _unused_ *repeat(char c, size_t n)
{
	char *s = malloc(n + 1);

	if (!s)
		abort();
	memset(s, c, n);
	s[n] = '\0';
	return s;
}
