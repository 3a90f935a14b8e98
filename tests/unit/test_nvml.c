/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "nvml_make.h"

TEST(newest_interface)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };

	ASSERT(read_once("-DV1 -DV2 -DV3 '-DRECORDS={10,1000,-1,-1},{20,2000,-1,-1},'", &s) == 0);
	ASSERT(s.device_count == 2 && s.process_count == 2);
	EXPECT_STR(s.devices[0].uuid, "GPU-zero");
	EXPECT_STR(s.devices[1].uuid, "GPU-one");
	EXPECT_STR(s.devices[1].name, "NVIDIA Test");
	EXPECT_EQ(s.devices[1].index, 1);
	EXPECT_EQ(s.devices[0].total_bytes, 1000000);
	EXPECT_EQ(s.devices[0].used_bytes, 400000);
	EXPECT_EQ(used_by(&s, 10), 1000);
	EXPECT_EQ(used_by(&s, 20), 2000);
	EXPECT_EQ(s.processes[0].device, 0);
	EXPECT_EQ(s.processes[0].kinds, GPU_PROCESS_COMPUTE);
	EXPECT_STR(s.devices[1].driver, "nvidia");
	EXPECT_EQ(s.devices[1].parent, -1);
	EXPECT_STR(s.devices[1].pci, "");
	EXPECT(s.is_complete);
	EXPECT_EQ(s.left_out_count, 0);
}

TEST(older_interfaces)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot one = { 0 }, two = { 0 }, fallback = { 0 };

	ASSERT(read_once("-DV1 '-DRECORDS={10,1000},{20,2000},{30,3000},'", &one) == 0);
	EXPECT_EQ(one.process_count, 3);
	EXPECT_EQ(used_by(&one, 10), 1000);
	EXPECT_EQ(used_by(&one, 20), 2000);
	EXPECT_EQ(used_by(&one, 30), 3000);
	ASSERT(read_once("-DV2 '-DRECORDS={10,1000,0,0},{20,2000,0,0},'", &two) == 0);
	EXPECT_EQ(two.process_count, 2);
	EXPECT_EQ(used_by(&two, 20), 2000);
	/* The library has the newer name, the driver under it says it has no such function. */
	ASSERT(read_once("-DV3_MISSING -DV1 '-DRECORDS={10,1000},{20,2000},'", &fallback) == 0);
	EXPECT_EQ(fallback.process_count, 2);
	EXPECT_EQ(used_by(&fallback, 20), 2000);
}

/* Drivers that wrote longer records behind the name of the shorter ones: read, and without writing past our buffer. */
TEST(records_of_driver_535)
{
	_cleanup_strbuf_ struct strbuf options = STRBUF_INIT;
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 }, one = { 0 };

	strbuf_adds(&options, "-DV535 '-DRECORDS=");
	for (int i = 1; i <= 64; i++)
		strbuf_addf(&options, "{%d,%d,-1,-1,0},", i, i * 10);
	strbuf_adds(&options, "'");
	ASSERT(read_once(strbuf_str(&options), &s) == 0);
	EXPECT_EQ(s.process_count, 64);
	for (uint32_t i = 1; i <= 64; i++)
		EXPECT_EQ(used_by(&s, i), i * 10);
	ASSERT(read_once("-DV535 '-DRECORDS={10,1000,-1,-1,NA},'", &one) == 0);
	EXPECT_EQ(one.process_count, 1);
	EXPECT_EQ(used_by(&one, 10), 1000);
}

/* A library that cannot ask the instances asks the card, whose list has a record for each instance. */
TEST(mig_instances_of_one_list_add_up)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };

	ASSERT(read_once("-DV3 '-DRECORDS={10,1000,1,0},{10,500,2,0},{10,500,2,0},{20,7,1,0},{20,NA,2,0},{30,NA,1,0},"
			 "{30,0,2,0},'",
			 &s) == 0);
	EXPECT_EQ(s.process_count, 3);
	EXPECT_EQ(used_by(&s, 10), 1500);
	/* Part of it not known is not known. */
	EXPECT(used_by(&s, 20) == UINT64_MAX);
	EXPECT(used_by(&s, 30) == UINT64_MAX);
}

TEST(values_the_driver_does_not_say)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 }, t = { 0 };

	ASSERT(read_once("-DV3 -DTOTAL=NA -DUSED=NA '-DRECORDS={10,NA,-1,-1},{20,77,-1,-1},'", &s) == 0);
	EXPECT(s.devices[0].total_bytes == UINT64_MAX);
	EXPECT(s.devices[0].used_bytes == UINT64_MAX);
	EXPECT(used_by(&s, 10) == UINT64_MAX);
	EXPECT_EQ(used_by(&s, 20), 77);
	ASSERT(read_once("-DV3 -DTOTAL=0", &t) == 0);
	EXPECT(t.devices[0].total_bytes == UINT64_MAX);
	EXPECT(t.devices[0].used_bytes == UINT64_MAX);
	EXPECT_EQ(t.process_count, 0);
}

TEST(nonsense)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 }, u = { 0 }, v = { 0 }, w = { 0 }, many = { 0 };

	/* More than the device has; no pid; a pid that cannot be. */
	ASSERT(read_once("-DV3 -DUSED=1000001ull '-DRECORDS={10,1000001,-1,-1},{0,5,-1,-1},{0x80000000u,5,-1,-1},'",
			 &s) == 0);
	EXPECT_EQ(s.devices[0].total_bytes, 1000000);
	EXPECT(s.devices[0].used_bytes == UINT64_MAX);
	EXPECT_EQ(s.process_count, 1);
	EXPECT_EQ(s.left_out_count, 2);
	EXPECT(used_by(&s, 10) == UINT64_MAX);
	/* A count beyond what there was room for, as a success and as "too small". */
	ASSERT(read_once("-DCOUNT_GARBAGE=0", &u) == 0);
	EXPECT_EQ(u.process_count, 0);
	EXPECT_EQ(u.device_count, 2);
	EXPECT(!u.is_complete);
	ASSERT(read_once("-DCOUNT_GARBAGE=7", &v) == 0);
	EXPECT_EQ(v.process_count, 0);
	ASSERT(read_once("-DV3 -DUNTERMINATED", &w) == 0);
	EXPECT_EQ(strlen(w.devices[0].uuid), sizeof(w.devices[0].uuid) - 1);
	EXPECT_EQ(read_once("-DV3 -DDEVICES=100000", &many), -EIO);
	EXPECT(many.devices == NULL);
}

TEST(many_processes)
{
	_cleanup_strbuf_ struct strbuf options = STRBUF_INIT;
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };

	strbuf_adds(&options, "-DV3 '-DRECORDS=");
	for (int i = 1; i <= 1000; i++)
		strbuf_addf(&options, "{%d,%d,-1,-1},", i, i * 10);
	strbuf_adds(&options, "'");
	ASSERT(read_once(strbuf_str(&options), &s) == 0);
	EXPECT_EQ(s.process_count, 1000);
	EXPECT_EQ(used_by(&s, 1), 10);
	EXPECT_EQ(used_by(&s, 1000), 10000);
}

TEST(errors_of_single_devices)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 }, t = { 0 }, u = { 0 };

	ASSERT(read_once("-DV3 '-DHANDLE_ERROR(i)=(i==0?15:0)'", &s) == 0);
	ASSERT(s.device_count == 1);
	EXPECT_EQ(s.devices[0].index, 1);
	EXPECT_STR(s.devices[0].uuid, "GPU-one");
	EXPECT(!s.is_complete);
	EXPECT_EQ(read_once("-DV3 '-DHANDLE_ERROR(i)=15'", &t), -EIO);
	/* The devices are worth having when the processes are not to be had. */
	ASSERT(read_once("-DV3 '-DLIST_ERROR(id)=4' '-DRECORDS={10,1000,-1,-1},'", &u) == 0);
	EXPECT_EQ(u.device_count, 2);
	EXPECT_EQ(u.process_count, 0);
	EXPECT(!u.is_complete);
}

/* Card 0 is lost after its handle was had: its neighbour's figures stay, at the place and index that are theirs. */
TEST(a_card_that_is_lost)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 }, t = { 0 };

	ASSERT(read_once("-DV3 '-DUUID_ERROR(id)=(id==0?15:0)' '-DRECORDS={10,1,-1,-1},' '-DOTHERS={20,2000,-1,-1},'",
			 &s) == 0);
	ASSERT(s.device_count == 1 && s.process_count == 1);
	EXPECT_EQ(s.devices[0].index, 1);
	EXPECT_EQ(s.processes[0].device, 0);
	EXPECT_EQ(used_by(&s, 20), 2000);
	EXPECT(!s.is_complete);

	ASSERT(read_once("-DV3 '-DLIST_ERROR(id)=(id==0?15:0)' '-DRECORDS={10,1,-1,-1},' '-DOTHERS={20,2000,-1,-1},'",
			 &t) == 0);
	ASSERT(t.device_count == 2 && t.process_count == 1);
	EXPECT_EQ(t.processes[0].device, 1);
	EXPECT_EQ(used_by(&t, 20), 2000);
	EXPECT(!t.is_complete);
}

static const struct gpu_process *process_of(const struct gpu_snapshot *s, uint32_t pid, uint32_t device)
{
	static const struct gpu_process none = { .used_bytes = UINT64_MAX - 1 };

	for (size_t i = 0; i < s->process_count; i++)
		if (s->processes[i].pid == pid && s->processes[i].device == device)
			return &s->processes[i];
	return &none;
}

/* In several lists: one entry with the largest of what they say, as each says all. */
TEST(a_process_in_several_lists)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };

	ASSERT(read_once("-DV3 -DDRAW '-DRECORDS={10,1000,-1,-1},{20,2000,-1,-1},{30,NA,-1,-1},{40,NA,-1,-1},'"
			 " '-DGRAPHICS={10,1500,-1,-1},{50,5000,-1,-1},{40,NA,-1,-1},' '-DMPS={20,1},{10,7},{30,3000},'"
			 " '-DOTHERS={10,9,-1,-1},'",
			 &s) == 0);
	EXPECT_EQ(s.process_count, 6);
	EXPECT_EQ(process_of(&s, 10, 0)->used_bytes, 1500);
	EXPECT_EQ(process_of(&s, 10, 0)->kinds, GPU_PROCESS_COMPUTE | GPU_PROCESS_GRAPHICS | GPU_PROCESS_MPS);
	EXPECT_EQ(process_of(&s, 10, 1)->used_bytes, 9);
	EXPECT_EQ(process_of(&s, 20, 0)->used_bytes, 2000);
	EXPECT_EQ(process_of(&s, 20, 0)->kinds, GPU_PROCESS_COMPUTE | GPU_PROCESS_MPS);
	EXPECT_EQ(process_of(&s, 30, 0)->used_bytes, 3000);
	EXPECT(process_of(&s, 40, 0)->used_bytes == UINT64_MAX);
	EXPECT_EQ(process_of(&s, 50, 0)->used_bytes, 5000);
	EXPECT_EQ(process_of(&s, 50, 0)->kinds, GPU_PROCESS_GRAPHICS);
	EXPECT(s.is_complete);
}

/* A card that cannot draw says so and hides nothing; one that may not be asked may hide something. */
TEST(lists_that_are_not_there)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 }, t = { 0 }, u = { 0 };

	ASSERT(read_once("-DV3 -DDRAW '-DDRAW_ERROR(id)=3' '-DRECORDS={10,1000,-1,-1},'", &s) == 0);
	EXPECT(s.is_complete);
	EXPECT_EQ(used_by(&s, 10), 1000);
	ASSERT(read_once("-DV3 -DDRAW '-DDRAW_ERROR(id)=4' '-DRECORDS={10,1000,-1,-1},'", &t) == 0);
	EXPECT(!t.is_complete);
	EXPECT_EQ(used_by(&t, 10), 1000);
	ASSERT(read_once("-DV3 '-DLIST_ERROR(id)=3'", &u) == 0);
	EXPECT(!u.is_complete);
}

TEST(mig)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 }, garbage = { 0 };

	ASSERT(read_once("-DV3 -DDRAW -DMIG=7 '-DPCI_V3=\"00000000:3B:00.0\"' '-DRECORDS={10,1000,1,0},{20,2000,1,0},'"
			 " '-DOTHERS={10,500,2,0},'",
			 &s) == 0);
	ASSERT(s.device_count == 4);
	EXPECT_STR(s.devices[0].uuid, "GPU-zero");
	EXPECT_STR(s.devices[1].uuid, "MIG-a");
	EXPECT_STR(s.devices[2].uuid, "MIG-b");
	EXPECT_STR(s.devices[3].uuid, "GPU-one");
	EXPECT_EQ(s.devices[0].parent, -1);
	EXPECT_EQ(s.devices[2].parent, 0);
	EXPECT_EQ(s.devices[2].index, 0);
	EXPECT_STR(s.devices[2].pci, "0000:3b:00.0");
	EXPECT_EQ(s.devices[3].parent, -1);
	EXPECT_EQ(s.devices[3].index, 1);
	EXPECT_EQ(process_of(&s, 10, 1)->used_bytes, 1000);
	EXPECT_EQ(process_of(&s, 20, 1)->used_bytes, 2000);
	EXPECT_EQ(process_of(&s, 10, 2)->used_bytes, 500);
	/* Nor is anybody at the card itself, where the library says "no permission". */
	EXPECT_EQ(process_of(&s, 10, 0)->kinds, 0);
	EXPECT_EQ(s.process_count, 3);
	EXPECT(s.is_complete);

	/* So many instances are none; the card is asked instead, in vain. */
	ASSERT(read_once("-DV3 -DMIG=100000", &garbage) == 0);
	EXPECT_EQ(garbage.device_count, 2);
	EXPECT(!garbage.is_complete);
}

TEST(pci_addresses)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 }, t = { 0 }, u = { 0 };

	ASSERT(read_once("-DV3 '-DPCI_V3=\"00010000:E1:1F.7\"'", &s) == 0);
	EXPECT_STR(s.devices[0].pci, "10000:e1:1f.7");
	ASSERT(read_once("-DV3 '-DPCI_V2=\"0000:3B:00.0\"'", &t) == 0);
	EXPECT_STR(t.devices[0].pci, "0000:3b:00.0");
	ASSERT(read_once("-DV3 '-DPCI_V3=\"ffffffff:3B:00.0\"'", &u) == 0);
	EXPECT_STR(u.devices[0].pci, "");
}

TEST(libraries_that_refuse)
{
	_cleanup_(nvml_library_done) struct nvml_library no_driver = { 0 }, no_uuid = { 0 }, no_list = { 0 };
	_cleanup_(nvml_library_done) struct nvml_library mismatch = { 0 };
	struct nvml *n = NULL;
	const char *reason = NULL;

	EXPECT_EQ(nvml_open("/nonexistent/libnvidia-ml.so.1", &n, &reason), -ENOENT);
	EXPECT_STR(reason, "libnvidia-ml.so.1 not found");
	ASSERT(nvml_library_new(&no_driver, "-DV3 -DINIT=9"));
	EXPECT_EQ(nvml_open(no_driver.path, &n, &reason), -ENODEV);
	EXPECT_STR(reason, "Driver Not Loaded");
	ASSERT(nvml_library_new(&mismatch, "-DV3 -DINIT=18"));
	EXPECT_EQ(nvml_open(mismatch.path, &n, &reason), -EPROTO);
	EXPECT_STR(reason, "Unknown Error");
	ASSERT(nvml_library_new(&no_uuid, "-DV3 -DNO_UUID"));
	EXPECT_EQ(nvml_open(no_uuid.path, &n, &reason), -EIO);
	EXPECT_STR(reason, "the library lacks nvmlDeviceGetUUID");
	ASSERT(nvml_library_new(&no_list, ""));
	EXPECT_EQ(nvml_open(no_list.path, &n, &reason), -EIO);
	EXPECT_STR(reason, "the library lacks nvmlDeviceGetComputeRunningProcesses");
	EXPECT(n == NULL);
	nvml_close(NULL);
}

TEST_MAIN()
