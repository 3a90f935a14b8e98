/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <poll.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "drm_make.h"
#include "nvml_stand_in.h"

static bool wait_for_snapshot(struct nvml_watch *w)
{
	struct pollfd p = { .fd = nvml_watch_fd(w), .events = POLLIN };

	return poll(&p, 1, 10000) == 1;
}

/* Waits until the status starts so, at most 10 s. */
static bool wait_for_status(struct nvml_watch *w, const char *start)
{
	for (int i = 0; i < 1000; i++) {
		if (strncmp(nvml_watch_status(w), start, strlen(start)) == 0)
			return true;
		(void)usleep(10000);
	}
	printf("# status \"%s\", expected \"%s...\"\n", nvml_watch_status(w), start);
	return false;
}

TEST(watching)
{
	_cleanup_(nvml_library_done) struct nvml_library f = { 0 };
	_cleanup_(nvml_watch_freep) struct nvml_watch *w = NULL;
	struct gpu_snapshot s = { 0 };
	struct pollfd p;
	char path[128];
	int fd;

	ASSERT(nvml_library_new(&f, "-DV3 -DDEVICES=1 '-DRECORDS={10,1000,-1,-1},'"));
	ASSERT(nvml_watch_new_at(f.path, "/proc", "/nonexistent", 50 * NSEC_PER_MSEC, &w) == 0);
	for (int i = 0; i < 3; i++) {
		ASSERT(wait_for_snapshot(w));
		ASSERT(nvml_watch_take(w, &s) == 1);
		EXPECT_EQ(s.device_count, 1);
		EXPECT_EQ(used_by(&s, 10), 1000);
		gpu_snapshot_done(&s);
		/* Taken once only, and the descriptor is quiet again. */
		p = (struct pollfd){ .fd = nvml_watch_fd(w), .events = POLLIN };
		EXPECT(nvml_watch_take(w, &s) == 0 || s.device_count == 1);
		gpu_snapshot_done(&s);
		EXPECT_EQ(poll(&p, 1, 0), 0);
	}
	EXPECT_STR(nvml_watch_status(w), "NVML: 1 device");

	/* The driver fails: what it said before is taken back. */
	(void)snprintf(path, sizeof(path), "%s/fail", f.dir.root);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ASSERT(fd >= 0);
	(void)close(fd);
	ASSERT(wait_for_status(w, "NVML: reading the devices failed: "));
	EXPECT_EQ(nvml_watch_take(w, &s), 1);
	EXPECT_EQ(s.device_count, 0);
	gpu_snapshot_done(&s);
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

TEST(no_library_costs_nothing)
{
	_cleanup_(nvml_watch_freep) struct nvml_watch *w = NULL;
	struct gpu_snapshot s = { 0 };
	uint64_t before;

	ASSERT(nvml_watch_new_at("/nonexistent/libnvidia-ml.so.1", "/proc", "/nonexistent", NSEC_PER_MSEC, &w) == 0);
	ASSERT(wait_for_status(w, "NVML: libnvidia-ml.so.1 not found"));
	before = cpu_ns();
	(void)usleep(500000);
	EXPECT(cpu_ns() - before < 20 * NSEC_PER_MSEC);
	EXPECT_EQ(nvml_watch_take(w, &s), 0);
}

TEST(no_driver)
{
	_cleanup_(nvml_library_done) struct nvml_library f = { 0 };
	_cleanup_(nvml_watch_freep) struct nvml_watch *w = NULL;

	ASSERT(nvml_library_new(&f, "-DV3 -DINIT=9"));
	ASSERT(nvml_watch_new_at(f.path, "/proc", "/nonexistent", NSEC_PER_SEC, &w) == 0);
	EXPECT(wait_for_status(w, "NVML: driver not usable: Driver Not Loaded"));
}

/* Stopping is quick while the thread sleeps, and does not wait for one that is stuck. */
TEST(stopping)
{
	_cleanup_(nvml_library_done) struct nvml_library idle = { 0 }, stuck = { 0 };
	struct nvml_watch *w = NULL;
	uint64_t start_ns;

	ASSERT(nvml_library_new(&idle, "-DV3"));
	ASSERT(nvml_watch_new_at(idle.path, "/proc", "/nonexistent", 3600 * NSEC_PER_SEC, &w) == 0);
	ASSERT(wait_for_snapshot(w));
	start_ns = clock_monotonic_ns();
	nvml_watch_free(TAKE_PTR(w));
	EXPECT(clock_monotonic_ns() - start_ns < NSEC_PER_SEC);

	ASSERT(nvml_library_new(&stuck, "-DV3 -DHANG"));
	ASSERT(nvml_watch_new_at(stuck.path, "/proc", "/nonexistent", NSEC_PER_SEC, &w) == 0);
	/* Long enough to be in the call; past five seconds the status says so. */
	EXPECT(wait_for_status(w, "NVML: no answer from the driver for "));
	start_ns = clock_monotonic_ns();
	nvml_watch_free(TAKE_PTR(w));
	EXPECT(clock_monotonic_ns() - start_ns < 2 * NSEC_PER_SEC);
	nvml_watch_free(NULL);
}

/* Cards of both kinds in one snapshot; those that still answer stay when the others do not. */
TEST(both_kinds_of_drivers)
{
	_cleanup_(nvml_library_done) struct nvml_library f = { 0 };
	_cleanup_(drm_root_done) struct drm_root d = { 0 };
	_cleanup_(nvml_watch_freep) struct nvml_watch *w = NULL;
	struct gpu_snapshot s = { 0 };
	char path[128];
	int fd;

	ASSERT(nvml_library_new(&f, "-DV3 -DMIG=7 '-DRECORDS={10,1000,-1,-1},{0,1,-1,-1},'") && drm_root_new(&d));
	ASSERT(drm_root_card(&d, "card0", "0000:03:00.0", "amdgpu") &&
	       drm_root_card(&d, "card1", "0000:04:00.0", "xe"));
	ASSERT(drm_root_client(&d, 30, 5, "0000:04:00.0", 1, "vram0", "7 MiB"));
	ASSERT(nvml_watch_new_at(f.path, d.proc, d.sys, 50 * NSEC_PER_MSEC, &w) == 0);
	ASSERT(wait_for_snapshot(w));
	ASSERT(nvml_watch_take(w, &s) == 1);
	ASSERT(s.device_count == 6 && s.process_count == 2);
	EXPECT_STR(s.devices[4].driver, "amdgpu");
	EXPECT_EQ(s.devices[4].index, -1);
	EXPECT_EQ(used_by(&s, 10), 1000);
	EXPECT_EQ(used_by(&s, 30), 7 << 20);
	EXPECT_EQ(s.processes[1].device, 5);
	EXPECT_EQ(s.devices[2].parent, 0);
	EXPECT(s.is_complete);
	EXPECT_STR(nvml_watch_status(w),
		   "NVML: 2 devices and 2 MIG instances; DRM: 1 amdgpu device, 1 xe device; 1 left out");
	gpu_snapshot_done(&s);

	(void)snprintf(path, sizeof(path), "%s/fail", f.dir.root);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ASSERT(fd >= 0);
	(void)close(fd);
	ASSERT(wait_for_status(w, "NVML: reading the devices failed: the driver does not answer; DRM: 1 amdgpu"));
	EXPECT_EQ(nvml_watch_take(w, &s), 1);
	EXPECT_EQ(s.device_count, 2);
	EXPECT_EQ(used_by(&s, 30), 7 << 20);
	EXPECT(!s.is_complete);
	gpu_snapshot_done(&s);
}

/* Without NVML the others are read at the usual pace, and nothing is missing. */
TEST(drm_alone)
{
	_cleanup_(drm_root_done) struct drm_root d = { 0 };
	_cleanup_(nvml_watch_freep) struct nvml_watch *w = NULL;
	struct gpu_snapshot s = { 0 };

	ASSERT(drm_root_new(&d) && drm_root_card(&d, "card0", "0000:03:00.0", "amdgpu") &&
	       drm_root_text(&d, "37\n", "sys/devices/0000:03:00.0/gpu_busy_percent") &&
	       drm_root_link(&d, "/dev/dri/card0", "proc/30/fd/5") &&
	       drm_root_text(&d,
			     "drm-driver:\tamdgpu\ndrm-client-id:\t1\ndrm-pdev:\t0000:03:00.0\ndrm-resident-vram:\t1 KiB\n"
			     "drm-engine-compute:\t5 ns\n",
			     "proc/30/fdinfo/5"));
	ASSERT(nvml_watch_new_at("/nonexistent/libnvidia-ml.so.1", d.proc, d.sys, 50 * NSEC_PER_MSEC, &w) == 0);
	for (int i = 0; i < 3; i++) {
		ASSERT(wait_for_snapshot(w));
		ASSERT(nvml_watch_take(w, &s) == 1);
		EXPECT_EQ(s.device_count, 1);
		EXPECT_EQ(s.devices[0].busy_percent, 37);
		ASSERT(s.process_count == 1);
		EXPECT_EQ(s.processes[0].sm_percent, i == 0 ? UINT32_MAX : 0);
		EXPECT(s.is_complete);
		gpu_snapshot_done(&s);
	}
	EXPECT_STR(nvml_watch_status(w), "NVML: libnvidia-ml.so.1 not found; DRM: 1 amdgpu device");
}

/* How many snapshots come within that time. */
static int count_rounds(struct nvml_watch *w, uint64_t for_ns)
{
	uint64_t until_ns = clock_monotonic_ns() + for_ns, now;
	struct pollfd p = { .fd = nvml_watch_fd(w), .events = POLLIN };
	int n = 0;

	while ((now = clock_monotonic_ns()) < until_ns) {
		struct gpu_snapshot s = { 0 };

		(void)poll(&p, 1, (int)((until_ns - now) / NSEC_PER_MSEC) + 1);
		n += nvml_watch_take(w, &s);
		gpu_snapshot_done(&s);
	}
	return n;
}

/* Rounds come faster for a while, but never faster than asked for, however often. */
TEST(hurrying)
{
	_cleanup_(nvml_library_done) struct nvml_library f = { 0 };
	_cleanup_(nvml_watch_freep) struct nvml_watch *w = NULL;
	int n;

	ASSERT(nvml_library_new(&f, "-DV3"));
	ASSERT(nvml_watch_new_at(f.path, "/proc", "/nonexistent", 3600 * NSEC_PER_SEC, &w) == 0);
	EXPECT_EQ(count_rounds(w, 250 * NSEC_PER_MSEC), 1);
	/* The last round is longer ago than that: one comes at once, then one each 150 ms, as long as somebody looks. */
	nvml_watch_hurry(w, 150 * NSEC_PER_MSEC, 400 * NSEC_PER_MSEC);
	n = count_rounds(w, 100 * NSEC_PER_MSEC);
	EXPECT_EQ(n, 1);
	n = count_rounds(w, 600 * NSEC_PER_MSEC);
	EXPECT(n >= 1 && n <= 3);
	EXPECT_EQ(count_rounds(w, 200 * NSEC_PER_MSEC), 0);
	/* Who asks all the time, or for more than there may be, gets no more. */
	n = 0;
	for (int i = 0; i < 40; i++) {
		nvml_watch_hurry(w, 1, NSEC_PER_SEC);
		n += count_rounds(w, 10 * NSEC_PER_MSEC);
	}
	EXPECT(n >= 2 && n <= 6);
	/* Who asks for less takes nothing from others. */
	nvml_watch_hurry(w, 3600 * NSEC_PER_SEC, NSEC_PER_SEC);
	n = count_rounds(w, 400 * NSEC_PER_MSEC);
	EXPECT(n >= 2 && n <= 6);
}

/* Where there is no driver, each try costs: it is tried as seldom as ever. */
TEST(hurrying_with_no_driver)
{
	_cleanup_(nvml_library_done) struct nvml_library f = { 0 };
	_cleanup_(nvml_watch_freep) struct nvml_watch *w = NULL;
	char aside[160];

	ASSERT(nvml_library_new(&f, "-DV3"));
	(void)snprintf(aside, sizeof(aside), "%s.aside", f.path);
	ASSERT(rename(f.path, aside) == 0);
	ASSERT(nvml_watch_new_at(f.path, "/proc", "/nonexistent", NSEC_PER_SEC, &w) == 0);
	ASSERT(wait_for_status(w, "NVML: libnvidia-ml.so.1 not found"));
	ASSERT(rename(aside, f.path) == 0);
	nvml_watch_hurry(w, 1, NSEC_PER_SEC);
	EXPECT_EQ(count_rounds(w, 300 * NSEC_PER_MSEC), 0);
	EXPECT_STR(nvml_watch_status(w), "NVML: libnvidia-ml.so.1 not found");
}

/* Of the next snapshot that has, or has not, how busy card 0 is; *ret_used: what this process holds. */
static uint32_t next_busy(struct nvml_watch *w, bool is_known, uint64_t *ret_used)
{
	uint32_t busy = UINT32_MAX;

	for (int i = 0; i < 100; i++) {
		struct gpu_snapshot s = { 0 };

		if (!wait_for_snapshot(w))
			break;
		if (!nvml_watch_take(w, &s))
			continue;
		busy = s.device_count > 0 ? s.devices[0].busy_percent : 0;
		*ret_used = used_by(&s, (uint32_t)getpid());
		gpu_snapshot_done(&s);
		if ((busy != UINT32_MAX) == is_known)
			break;
	}
	return busy;
}

/* How busy the cards are comes with their memory; where that takes long, memory comes in time and without. */
TEST(slow_figures)
{
	_cleanup_(stand_in_done) struct stand_in f = { 0 };
	_cleanup_(nvml_watch_freep) struct nvml_watch *w = NULL;
	struct gpu_snapshot s = { 0 };
	uint64_t start_ns, used = 0;

	/* Memory alone is not given out while the rest may still come. */
	ASSERT(stand_in_new(&f, 1 << 20, 0) && stand_in_figures(&f, "busy=37 busy_delay_ms.1=300\n"));
	ASSERT(nvml_watch_new_at(f.lib.path, "/proc", "/nonexistent", 3600 * NSEC_PER_SEC, &w) == 0);
	EXPECT_EQ(count_rounds(w, 150 * NSEC_PER_MSEC), 0);
	EXPECT(!nvml_watch_take(w, &s));
	EXPECT_EQ(next_busy(w, true, &used), 37);
	EXPECT_EQ(used, 1 << 20);
	EXPECT_STR(nvml_watch_status(w), "NVML: 2 devices");
	nvml_watch_free(TAKE_PTR(w));
	ASSERT(nvml_watch_new_at(f.lib.path, "/proc", "/nonexistent", 300 * NSEC_PER_MSEC, &w) == 0);

	ASSERT(stand_in_figures(&f, "busy=50 busy_delay_ms.1=160"));
	(void)next_busy(w, false, &used);
	start_ns = clock_monotonic_ns();
	EXPECT(wait_for_status(w, "NVML: 2 devices; utilization: slow answers"));
	/* Some time without the question, then it is asked again. */
	ASSERT(stand_in_figures(&f, "busy=60"));
	EXPECT_EQ(next_busy(w, true, &used), 60);
	EXPECT(clock_monotonic_ns() - start_ns > NSEC_PER_SEC);
	EXPECT_STR(nvml_watch_status(w), "NVML: 2 devices");

	/* One that does not come back: the memory that was read before is there nevertheless. */
	ASSERT(stand_in_figures(&f, "busy_delay_ms=20000"));
	used = 0;
	EXPECT(next_busy(w, false, &used) == UINT32_MAX);
	EXPECT_EQ(used, 1 << 20);
}

TEST_MAIN()
