/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/map64.h"

static void *ptr(uint64_t v)
{
	return (void *)(uintptr_t)v;
}

TEST(empty)
{
	struct map64 m = MAP64_INIT;
	uint64_t key;
	void *value;
	size_t iter = 0;

	EXPECT(map64_get(&m, 1) == NULL);
	EXPECT(map64_remove(&m, 1) == NULL);
	EXPECT(!map64_next(&m, &iter, &key, &value));
	map64_done(&m);
}

TEST(put_get_replace_remove)
{
	struct map64 m = MAP64_INIT;

	EXPECT_EQ(map64_put(&m, 0, ptr(10)), 0);
	EXPECT_EQ(map64_put(&m, UINT64_MAX, ptr(20)), 0);
	EXPECT_EQ(m.len, 2);
	EXPECT(map64_get(&m, 0) == ptr(10));
	EXPECT(map64_get(&m, UINT64_MAX) == ptr(20));
	EXPECT(map64_get(&m, 5) == NULL);
	EXPECT_EQ(map64_put(&m, 0, ptr(11)), 0);
	EXPECT_EQ(m.len, 2);
	EXPECT(map64_get(&m, 0) == ptr(11));
	EXPECT(map64_remove(&m, 5) == NULL);
	EXPECT(map64_remove(&m, 0) == ptr(11));
	EXPECT(map64_remove(&m, 0) == NULL);
	EXPECT_EQ(m.len, 1);
	EXPECT(map64_get(&m, 0) == NULL);
	map64_done(&m);
	EXPECT_EQ(m.len, 0);
}

/* Keys out of a small range against a plain array: collisions, growth, holes that wrap around the end. */
TEST(agrees_with_an_array)
{
	enum { KEYS = 3000, STEPS = 300000 };
	static uint64_t expected[KEYS];
	struct map64 m = MAP64_INIT;
	uint64_t random = 42, count = 0, walked = 0, key;
	size_t iter = 0;
	void *value;

	for (uint64_t step = 1; step <= STEPS; step++) {
		uint64_t k;

		random = hash64(random + step);
		k = random % KEYS;
		if (random >> 32 & 1) {
			EXPECT(map64_remove(&m, k << 12) == ptr(expected[k]));
			count -= expected[k] != 0;
			expected[k] = 0;
		} else {
			EXPECT_EQ(map64_put(&m, k << 12, ptr(step)), 0);
			count += expected[k] == 0;
			expected[k] = step;
		}
		if (test_failures)
			break;
	}
	EXPECT_EQ(m.len, count);
	EXPECT((m.cap & (m.cap - 1)) == 0);
	for (uint64_t k = 0; k < KEYS; k++)
		EXPECT(map64_get(&m, k << 12) == ptr(expected[k]));
	while (map64_next(&m, &iter, &key, &value)) {
		EXPECT(key >> 12 < KEYS && value == ptr(expected[key >> 12]));
		walked++;
	}
	EXPECT_EQ(walked, count);
	map64_done(&m);
}

/* Everything into one run of slots: deletion must not cut the run in front of what lies behind. */
TEST(removal_in_a_run)
{
	enum { RUN = 10 };
	struct map64 m = MAP64_INIT;
	uint64_t keys[RUN], found = 0;

	/* All of these want the last slot of a table of 16, so the run wraps around its end. */
	for (uint64_t k = 1; found < RUN; k++) {
		if ((hash64(k) & 15) == 15)
			keys[found++] = k;
	}
	for (int gone = 0; gone < RUN; gone++) {
		for (int i = 0; i < RUN; i++)
			EXPECT_EQ(map64_put(&m, keys[i], ptr(keys[i])), 0);
		EXPECT_EQ(m.cap, 16);
		EXPECT(map64_remove(&m, keys[gone]) == ptr(keys[gone]));
		for (int i = 0; i < RUN; i++)
			EXPECT(map64_get(&m, keys[i]) == (i == gone ? NULL : ptr(keys[i])));
	}
	map64_done(&m);
}

TEST(hashes)
{
	/* Known values: keys derived from these are written to the journal and must not change. */
	EXPECT(hash64(0) == 0);
	EXPECT(hash64(1) == UINT64_C(0x5692161d100b05e5));
	EXPECT(hash_bytes(0, "", 0) == UINT64_C(0xcbf29ce484222325));
	EXPECT(hash_str(0, "a") == UINT64_C(0xaf63dc4c8601ec8c));
	EXPECT(hash_str(0, "foobar") == UINT64_C(0x85944171f73967e8));
	EXPECT(hash_str(1, "foobar") != hash_str(0, "foobar"));
	EXPECT(hash_bytes(0, "foobar", 6) == hash_str(0, "foobar"));
}

TEST_MAIN()
