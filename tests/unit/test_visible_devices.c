/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <errno.h>

#include "proc/visible_devices.h"

static struct gpu_device cards[] = {
	{ .uuid = "GPU-aaaa1111-0000-0000-0000-000000000000", .index = 0 },
	{ .uuid = "GPU-aaaa2222-0000-0000-0000-000000000000", .index = 1 },
	{ .uuid = "GPU-bbbb3333-0000-0000-0000-000000000000", .index = 2 },
};
static struct gpu_snapshot snapshot = { .devices = cards, .device_count = 3 };

static int index_of(const char *value, int ordinal)
{
	const struct gpu_device *d = visible_device(value, &snapshot, ordinal);

	return d ? d->index : -1;
}

TEST(without_the_variable_ordinals_are_indices)
{
	EXPECT_EQ(index_of(NULL, 0), 0);
	EXPECT_EQ(index_of(NULL, 2), 2);
	EXPECT_EQ(index_of(NULL, 3), -1);
	EXPECT_EQ(index_of(NULL, -1), -1);
}

TEST(indices_reorder)
{
	EXPECT_EQ(index_of("2,0", 0), 2);
	EXPECT_EQ(index_of("2,0", 1), 0);
	EXPECT_EQ(index_of("2,0", 2), -1);
}

TEST(uuid_prefixes)
{
	EXPECT_EQ(index_of("GPU-bbbb", 0), 2);
	EXPECT_EQ(index_of("GPU-aaaa2222,GPU-bbbb3333", 1), 2);
	EXPECT_EQ(index_of("GPU-aaaa", 0), -1);
}

TEST(a_bad_entry_ends_the_list)
{
	EXPECT_EQ(index_of("1,-1,0", 0), 1);
	EXPECT_EQ(index_of("1,-1,0", 2), -1);
	EXPECT_EQ(index_of("", 0), -1);
	EXPECT_EQ(index_of(",0", 1), -1);
}

TEST(environ_lookup)
{
	static const char env[] = "XCUDA=1\0CUDA_VISIBLE_DEVICES=1,2\0EMPTY=\0CUDA=no";
	_cleanup_free_ char *v = NULL;
	_cleanup_free_ char *e = NULL;

	EXPECT_EQ(environ_get(env, sizeof(env) - 1, "CUDA_VISIBLE_DEVICES", &v), 0);
	EXPECT_STR(v, "1,2");
	EXPECT_EQ(environ_get(env, sizeof(env) - 1, "EMPTY", &e), 0);
	EXPECT_STR(e, "");
	EXPECT_EQ(environ_get(env, sizeof(env) - 1, "CUDA_VISIBLE", &v), -ENOENT);
	/* cut in the middle of the value: what is there counts, nothing behind is read */
	EXPECT_EQ(environ_get(env, 4, "XCUDA", &v), -ENOENT);
}

TEST_MAIN()
