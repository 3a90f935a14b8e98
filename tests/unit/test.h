/* SPDX-License-Identifier: MIT */
/* TAP from C. Each test program: TEST(name) { ... } blocks, then TEST_MAIN(). */
#pragma once

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test_case {
	const char *name;
	void (*run)(void);
	struct test_case *next;
};

static struct test_case *test_first, **test_last = &test_first;
static int test_failures; /* of the running case */

#define TEST(ident)                                                                                                    \
	static void test_##ident(void);                                                                                \
	static struct test_case case_##ident = { #ident, test_##ident, NULL };                                         \
	__attribute__((constructor)) static void add_##ident(void)                                                     \
	{                                                                                                              \
		*test_last = &case_##ident;                                                                            \
		test_last = &case_##ident.next;                                                                        \
	}                                                                                                              \
	static void test_##ident(void)

#define EXPECT(cond)                                                                                                   \
	do {                                                                                                           \
		if (!(cond)) {                                                                                         \
			printf("# %s:%d: expected %s\n", __FILE__, __LINE__, #cond);                                   \
			test_failures++;                                                                               \
		}                                                                                                      \
	} while (0)

#define EXPECT_EQ(a, b)                                                                                                \
	do {                                                                                                           \
		long long a_ = (long long)(a), b_ = (long long)(b);                                                    \
		if (a_ != b_) {                                                                                        \
			printf("# %s:%d: %s is %lld, expected %lld\n", __FILE__, __LINE__, #a, a_, b_);                \
			test_failures++;                                                                               \
		}                                                                                                      \
	} while (0)

#define EXPECT_STR(a, b)                                                                                               \
	do {                                                                                                           \
		const char *a_ = (a), *b_ = (b);                                                                       \
		if (!a_ || !b_ || strcmp(a_, b_) != 0) {                                                               \
			printf("# %s:%d: %s is \"%s\", expected \"%s\"\n", __FILE__, __LINE__, #a, a_ ? a_ : "(null)", \
			       b_ ? b_ : "(null)");                                                                    \
			test_failures++;                                                                               \
		}                                                                                                      \
	} while (0)

/* Stops the case: for what later lines need. */
#define ASSERT(cond)                                                                                                   \
	do {                                                                                                           \
		if (!(cond)) {                                                                                         \
			printf("# %s:%d: needed %s\n", __FILE__, __LINE__, #cond);                                     \
			test_failures++;                                                                               \
			return;                                                                                        \
		}                                                                                                      \
	} while (0)

#define TEST_MAIN()                                                                                                    \
	int main(void)                                                                                                 \
	{                                                                                                              \
		int failed = 0, n = 0;                                                                                 \
		setvbuf(stdout, NULL, _IOLBF, 0);                                                                      \
		for (struct test_case *t = test_first; t; t = t->next) {                                               \
			test_failures = 0;                                                                             \
			t->run();                                                                                      \
			printf("%sok %d - %s\n", test_failures ? "not " : "", ++n, t->name);                           \
			failed += !!test_failures;                                                                     \
		}                                                                                                      \
		printf("1..%d\n", n);                                                                                  \
		return !!failed;                                                                                       \
	}
