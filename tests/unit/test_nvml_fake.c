/* SPDX-License-Identifier: MIT */
/* The stand-in NVML that the end-to-end tests run on, read as the real one is. */
#include "test.h"

#include "nvml_stand_in.h"

TEST(plain_and_old_and_535)
{
	static const char *const variants[] = { "FAKE_NVML_OLD", "FAKE_NVML_535", "FAKE_GPU_NOTHING" };
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };
	_cleanup_(stand_in_done) struct stand_in f = { 0 };

	ASSERT(stand_in_new(&f, 1 << 20, 2 << 20));
	for (size_t i = 0; i < ARRAY_SIZE(variants); i++) {
		(void)setenv(variants[i], "1", 1);
		ASSERT(stand_in_read(&f, &s) == 0);
		(void)unsetenv(variants[i]);
		ASSERT(s.device_count == 2 && s.process_count == 2);
		EXPECT_STR(s.devices[1].pci, "0000:3b:00.0");
		EXPECT_EQ(s.processes[0].used_bytes, 1 << 20);
		EXPECT_EQ(s.processes[1].used_bytes, 2 << 20);
		EXPECT_EQ(s.processes[1].device, 1);
		EXPECT_EQ(s.processes[1].kinds, GPU_PROCESS_COMPUTE);
		EXPECT(s.is_complete);
	}
}

TEST(lists_and_values)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };
	_cleanup_(stand_in_done) struct stand_in f = { 0 };

	ASSERT(stand_in_new(&f, 1 << 20, 0));
	(void)setenv("FAKE_NVML_LISTS", "6", 1);
	(void)setenv("FAKE_NVML_NO_USED", "1", 1);
	(void)setenv("FAKE_NVML_GHOSTS", "1", 1);
	ASSERT(stand_in_read(&f, &s) == 0);
	ASSERT(s.process_count == 1);
	EXPECT_EQ(s.processes[0].pid, getpid());
	EXPECT_EQ(s.processes[0].kinds, GPU_PROCESS_GRAPHICS | GPU_PROCESS_MPS);
	EXPECT(s.processes[0].used_bytes == UINT64_MAX);
	EXPECT_EQ(s.left_out_count, 2 * 3 * 2);
}

TEST(a_lost_card)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };
	_cleanup_(stand_in_done) struct stand_in f = { 0 };

	ASSERT(stand_in_new(&f, 1 << 20, 2 << 20));
	(void)setenv("FAKE_NVML_LOST", "0", 1);
	ASSERT(stand_in_read(&f, &s) == 0);
	ASSERT(s.device_count == 1 && s.process_count == 1);
	EXPECT_EQ(s.devices[0].index, 1);
	EXPECT_EQ(s.processes[0].device, 0);
	EXPECT_EQ(s.processes[0].used_bytes, 2 << 20);
	EXPECT(!s.is_complete);
}

TEST(a_card_in_mig_mode)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };
	_cleanup_(stand_in_done) struct stand_in f = { 0 };
	uint32_t place = 1 + (uint32_t)getpid() % 2;

	ASSERT(stand_in_new(&f, 1 << 20, 2 << 20));
	(void)setenv("FAKE_GPU_MIG", "1", 1);
	ASSERT(stand_in_read(&f, &s) == 0);
	ASSERT(s.device_count == 4 && s.process_count == 2);
	EXPECT(strncmp(s.devices[1].uuid, "MIG-", 4) == 0);
	EXPECT(strcmp(s.devices[1].uuid, s.devices[2].uuid) != 0);
	EXPECT_EQ(s.devices[2].parent, 0);
	EXPECT_EQ(s.devices[2].total_bytes, s.devices[0].total_bytes / 2);
	EXPECT_EQ(s.devices[3].index, 1);
	EXPECT_EQ(s.processes[0].device, place);
	EXPECT_EQ(s.processes[0].used_bytes, 1 << 20);
	EXPECT_EQ(s.processes[1].device, 3);
	EXPECT(s.is_complete);
}

TEST_MAIN()
