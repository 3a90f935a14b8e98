/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <errno.h>

#include "proc/visible_devices.h"

static struct gpu_device cards[] = {
	{ .uuid = "GPU-aaaa1111-0000-0000-0000-000000000000", .parent = -1, .index = 0 },
	{ .uuid = "GPU-aaaa2222-0000-0000-0000-000000000000", .parent = -1, .index = 1 },
	{ .uuid = "GPU-bbbb3333-0000-0000-0000-000000000000", .parent = -1, .index = 2 },
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

/* Instances of a card come behind it, with its index; they are meant by their own uuids alone. */
static struct gpu_device mixed[] = {
	{ .uuid = "GPU-00000000000000a0", .driver = "amdgpu", .parent = -1, .index = 0 },
	{ .uuid = "MIG-1111", .driver = "nvidia", .parent = 2, .index = 0 },
	{ .uuid = "GPU-aaaa1111-0000-0000-0000-000000000000", .driver = "nvidia", .parent = -1, .index = 0 },
};
static struct gpu_snapshot mixed_snapshot = { .devices = mixed, .device_count = 3 };

TEST(instances_and_cards_of_others_take_no_ordinal)
{
	EXPECT(visible_device(NULL, &mixed_snapshot, 0) == &mixed[2]);
	EXPECT(visible_device("0", &mixed_snapshot, 0) == &mixed[2]);
	EXPECT(visible_device("GPU-", &mixed_snapshot, 0) == &mixed[2]);
	EXPECT(visible_device("MIG-1111", &mixed_snapshot, 0) == &mixed[1]);
	EXPECT(visible_device("M", &mixed_snapshot, 0) == NULL);
}

/* A card of another maker among them takes no ordinal. */
static struct gpu_device amd_cards[] = {
	{ .uuid = "GPU-00000000000000a0", .driver = "amdgpu", .parent = -1, .index = -1 },
	{ .uuid = "GPU-aaaa1111-0000-0000-0000-000000000000", .driver = "nvidia", .parent = -1, .index = 0 },
	{ .uuid = "GPU-00000000000000b1", .driver = "amdgpu", .parent = -1, .index = -1 },
	{ .uuid = "GPU-00000000000000c2", .driver = "amdgpu", .parent = -1, .index = -1 },
};
static struct gpu_snapshot amd_snapshot = { .devices = amd_cards, .device_count = 4 };

/* 'a', 'b', 'c' as in the uuid; 0 = none. */
static char hip_card(const char *rocr, const char *hip, const char *cuda, int ordinal)
{
	const struct visible_hip v = { rocr, hip, cuda };
	const struct gpu_device *d = visible_device_hip(&v, &amd_snapshot, ordinal);

	return d ? d->uuid[18] : 0;
}

TEST(hip_without_variables)
{
	EXPECT_EQ(hip_card(NULL, NULL, NULL, 0), 'a');
	EXPECT_EQ(hip_card(NULL, NULL, NULL, 1), 'b');
	EXPECT_EQ(hip_card(NULL, NULL, NULL, 2), 'c');
	EXPECT_EQ(hip_card(NULL, NULL, NULL, 3), 0);
	EXPECT_EQ(hip_card(NULL, NULL, NULL, -1), 0);
}

TEST(hip_indices_and_uuids)
{
	EXPECT_EQ(hip_card(NULL, "2,0", NULL, 0), 'c');
	EXPECT_EQ(hip_card(NULL, "2,0", NULL, 1), 'a');
	EXPECT_EQ(hip_card(NULL, "2,0", NULL, 2), 0);
	EXPECT_EQ(hip_card("GPU-00000000000000b1", NULL, NULL, 0), 'b');
	EXPECT_EQ(hip_card("gpu-00000000000000B1,0", NULL, NULL, 1), 'a');
	EXPECT_EQ(hip_card("GPU-00000000000000", NULL, NULL, 0), 0);
}

TEST(hip_second_choice_is_among_the_first)
{
	EXPECT_EQ(hip_card("2,1", "1", NULL, 0), 'b');
	EXPECT_EQ(hip_card("2,1", "1", NULL, 1), 0);
	EXPECT_EQ(hip_card("2", "2", NULL, 0), 0);
}

TEST(hip_honours_cuda_only_without_its_own)
{
	EXPECT_EQ(hip_card(NULL, NULL, "1", 0), 'b');
	EXPECT_EQ(hip_card(NULL, "", "1", 0), 'b');
	EXPECT_EQ(hip_card(NULL, "2", "1", 0), 'c');
	EXPECT_EQ(hip_card(NULL, NULL, "", 2), 'c');
}

TEST(hip_odd_lists)
{
	EXPECT_EQ(hip_card("", NULL, NULL, 0), 0); /* hides all */
	EXPECT_EQ(hip_card(NULL, "1,1,1,0", NULL, 1), 'a'); /* each once */
	EXPECT_EQ(hip_card(NULL, "1,9,0", NULL, 1), 0);
	EXPECT_EQ(hip_card(NULL, "1,-1,0", NULL, 0), 'b');
	EXPECT_EQ(hip_card(NULL, ",0", NULL, 0), 0);
	EXPECT_EQ(hip_card(NULL, "0123456789012345678901234567890123456789", NULL, 0), 0);
	EXPECT_EQ(hip_card(NULL, "1,", NULL, 0), 'b');
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
