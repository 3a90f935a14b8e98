/* SPDX-License-Identifier: MIT */
#include <fnmatch.h>

#include "base/clock.h"
#include "base/glob.h"
#include "test.h"

TEST(patterns)
{
	static const struct {
		const char *pattern, *text;
		bool good;
	} cases[] = {
		{ "", "", true },
		{ "", "a", false },
		{ "*", "", true },
		{ "abc", "abc", true },
		{ "abc", "abcd", false },
		{ "abc", "ab", false },
		{ "a?c", "abc", true },
		{ "a?", "a", false },
		{ "lib*.so*", "libc10_cuda.so", true },
		{ "lib*.so*", "libc10_cuda.so.2 (deleted)", true },
		{ "lib*.so", "libc10.so.1", false },
		{ "*ab*ab", "abaab", true },
		{ "*ab*ab", "aba", false },
		{ "a**b", "ab", true },
		{ "f(void**, *", "f(void**, signed char)", true },
		{ "[a-c]x", "bx", true },
		{ "[!a-c]x", "bx", false },
		{ "[!a-c]x", "dx", true },
		{ "[]]", "]", true },
		{ "[a\\]]", "]", true },
		{ "[a-]", "-", true },
		{ "operator[", "operator[", true },
		{ "a[b", "a[b", true },
		{ "\\*", "*", true },
		{ "\\*", "a", false },
		{ "*[0-9]", "a1", true },
		{ "*[0-9]", "1a", false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (glob_match(cases[i].pattern, cases[i].text) != cases[i].good)
			printf("# \"%s\" on \"%s\"\n", cases[i].pattern, cases[i].text);
		EXPECT_EQ(glob_match(cases[i].pattern, cases[i].text), cases[i].good);
	}
}

/* What the C library says about the same. */
TEST(random_against_fnmatch)
{
	static const char letters[] = "ab*?[]!-\\";
	uint64_t state = 88172645463325252u;
	int matched = 0;

	for (int n = 0; n < 200000; n++) {
		char pattern[10] = "", text[10] = "";

		for (size_t i = 0; i < sizeof(pattern) - 1; i++) {
			state ^= state << 13, state ^= state >> 7, state ^= state << 17;
			if (i < state % 9)
				pattern[i] = letters[(state >> 8) % (n % 2 ? 4 : 9)];
			if (i < (state >> 20) % 9)
				text[i] = letters[(state >> 32) % (n % 4 ? 2 : 9)];
			if (!pattern[i])
				break;
		}
		/* The C library takes "[a" and "[b-a]" another way; both are nobody's pattern. */
		if (strpbrk(pattern, "[\\"))
			continue;
		matched += glob_match(pattern, text);
		if (glob_match(pattern, text) != (fnmatch(pattern, text, 0) == 0))
			printf("# \"%s\" on \"%s\"\n", pattern, text);
		EXPECT_EQ(glob_match(pattern, text), fnmatch(pattern, text, 0) == 0);
	}
	EXPECT(matched > 1000);
}

TEST(many_stars_take_no_long_time)
{
	static char pattern[1001], text[16385];
	const uint64_t start = clock_monotonic_ns();

	for (size_t i = 0; i < 1000; i++)
		pattern[i] = i % 2 ? 'a' : '*';
	pattern[999] = 'b';
	memset(text, 'a', 16384);
	EXPECT(!glob_match(pattern, text));
	EXPECT(clock_monotonic_ns() - start < 2 * NSEC_PER_SEC);
}

TEST_MAIN()
