/* SPDX-License-Identifier: MIT */
#include "rule/name_map.h"

#include <string.h>

#include "base/cleanup.h"
#include "test.h"

TEST(empty)
{
	struct name_map m = NAME_MAP_INIT;
	size_t at = 7;

	EXPECT(!name_map_get(&m, "a", &at));
	EXPECT_EQ(at, 7);
	name_map_done(&m);
}

TEST(put_replaces)
{
	struct name_map m = NAME_MAP_INIT;
	size_t at = 7;

	EXPECT_EQ(name_map_put(&m, "", 0), 0);
	EXPECT_EQ(name_map_put(&m, "a", 1), 0);
	EXPECT_EQ(name_map_put(&m, "a", 2), 0);
	EXPECT(name_map_get(&m, "", &at) && at == 0);
	EXPECT(name_map_get(&m, "a", &at) && at == 2);
	EXPECT(!name_map_get(&m, "b", &at));
	name_map_done(&m);
	EXPECT(!name_map_get(&m, "a", &at));
}

/* Against a look through all of them. */
TEST(many)
{
	static char names[20000][24];
	struct name_map m = NAME_MAP_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(names[i], sizeof(names[i]), "%zx", i * 7919 % ARRAY_SIZE(names));
		EXPECT_EQ(name_map_put(&m, names[i], i), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char copy[24], other[32];
		size_t at = 0;

		memcpy(copy, names[i], sizeof(copy));
		EXPECT(name_map_get(&m, copy, &at) && at == i);
		snprintf(other, sizeof(other), "%s ", copy);
		EXPECT(!name_map_get(&m, other, &at));
	}
	name_map_done(&m);
}

TEST_MAIN()
