/* SPDX-License-Identifier: MIT */
/* The stand-in NVML that the end-to-end tests run on, read as the real one is. */
#include "test.h"

#include "nvml_make.h"
#include "tests/fake_gpu/fake_gpu.h"

#define SOURCES "tests/fake_gpu/libnvidia-ml.c tests/fake_gpu/state.c"

struct stand_in {
	struct nvml_library lib;
	struct fake_gpu_state *state;
	char state_path[128];
};

static void stand_in_done(struct stand_in *f)
{
	static const char *const names[] = {
		"FAKE_GPU_STATE", "FAKE_GPU_MIG",      "FAKE_NVML_LISTS",
		"FAKE_NVML_LOST", "FAKE_NVML_NO_USED", "FAKE_NVML_GHOSTS",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		(void)unsetenv(names[i]);
	free(f->state);
	nvml_library_done(&f->lib);
}

/* The start of a process as the stand-in checks it. */
static uint64_t start_ticks(void)
{
	char text[1024] = "", *p;
	FILE *f = fopen("/proc/self/stat", "re");

	if (f) {
		(void)!fread(text, 1, sizeof(text) - 1, f);
		(void)fclose(f);
	}
	p = strrchr(text, ')');
	for (int field = 2; field < 22 && p; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

/* This process holds used0 bytes of card 0 and used1 of card 1. */
static bool stand_in_new(struct stand_in *f, uint64_t used0, uint64_t used1)
{
	_cleanup_strbuf_ struct strbuf command = STRBUF_INIT;
	const char *cc = getenv("CC");
	FILE *file;
	bool ok;

	f->state = calloc(1, sizeof(*f->state));
	if (!f->state || !temp_proc_new(&f->lib.dir))
		return false;
	f->state->magic = FAKE_GPU_MAGIC;
	f->state->slots[0] = (struct fake_gpu_slot){
		.pid = (uint32_t)getpid(),
		.start_ticks = start_ticks(),
		.used_bytes = { used0, used1 },
		.contexts = { used0 != 0, used1 != 0 },
	};
	(void)snprintf(f->state_path, sizeof(f->state_path), "%s/state", f->lib.dir.root);
	file = fopen(f->state_path, "we");
	if (!file)
		return false;
	ok = fwrite(f->state, sizeof(*f->state), 1, file) == 1;
	if (fclose(file) != 0 || !ok)
		return false;
	(void)setenv("FAKE_GPU_STATE", f->state_path, 1);
	(void)snprintf(f->lib.path, sizeof(f->lib.path), "%s/libnvidia-ml.so.1", f->lib.dir.root);
	strbuf_addf(&command, "%s -D_GNU_SOURCE -shared -fPIC -w -o %s " SOURCES, cc ? cc : "cc", f->lib.path);
	return command.error == 0 && system(strbuf_str(&command)) == 0;
}

static int stand_in_read(const struct stand_in *f, struct gpu_snapshot *ret)
{
	_cleanup_(nvml_closep) struct nvml *n = NULL;
	const char *reason;
	int r;

	gpu_snapshot_done(ret);
	r = nvml_open(f->lib.path, &n, &reason);
	return r < 0 ? r : nvml_read(n, ret);
}

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
