/* SPDX-License-Identifier: MIT */
/* How busy cards of DRM drivers are, and whose work that is. */
#include "test.h"

#include "base/clock.h"
#include "drm_make.h"
#include "proc/drm.h"
#include "proc/drm_read.h"

#define NONE UINT32_MAX
#define NOT_SAID UINT64_MAX
#define CARD "0000:03:00.0"
#define OTHER_CARD "0000:43:00.0"

static struct drm_fdinfo parse(const char *keys)
{
	struct drm_fdinfo d = { .device_bytes = 12345 };
	char text[1024];

	(void)snprintf(text, sizeof(text), "drm-driver:\txe\n%s", keys);
	EXPECT_EQ(drm_fdinfo_parse(text, &d), 0);
	return d;
}

static void expect_engine(const struct drm_fdinfo *d, enum drm_engine_kind kind, uint64_t busy, uint64_t total,
			  uint32_t capacity)
{
	EXPECT_EQ(d->engines[kind].busy, busy);
	EXPECT_EQ(d->engines[kind].total, total);
	EXPECT_EQ(d->engines[kind].capacity, capacity);
}

TEST(engines_as_the_drivers_write_them)
{
	struct drm_fdinfo d;

	/* amdgpu */
	d = parse("drm-engine-gfx:\t7001 ns\ndrm-engine-compute:\t18446744073709551614 ns\ndrm-engine-enc:\t5 ns\n");
	expect_engine(&d, DRM_ENGINE_COMPUTE, UINT64_MAX - 1, 0, 1);
	expect_engine(&d, DRM_ENGINE_GRAPHICS, 7001, 0, 1);
	/* i915 */
	d = parse("drm-engine-render:\t0 ns\ndrm-engine-compute:\t12 ns\ndrm-engine-capacity-compute:\t4\n"
		  "drm-engine-capacity-video:\t2\ndrm-engine-video:\t9 ns\n");
	expect_engine(&d, DRM_ENGINE_COMPUTE, 12, 0, 4);
	expect_engine(&d, DRM_ENGINE_GRAPHICS, 0, 0, 1);
	EXPECT_EQ(d.kinds, GPU_PROCESS_COMPUTE);
	/* xe */
	d = parse("drm-total-cycles-rcs:\t7655183225\ndrm-cycles-rcs:\t28257900\ndrm-cycles-ccs:\t0\n"
		  "drm-total-cycles-ccs:\t7655183225\ndrm-cycles-bcs:\t3\ndrm-engine-capacity-ccs:\t0\n");
	expect_engine(&d, DRM_ENGINE_COMPUTE, 0, 7655183225, 1);
	expect_engine(&d, DRM_ENGINE_GRAPHICS, 28257900, 7655183225, 1);
	EXPECT_EQ(d.kinds, GPU_PROCESS_GRAPHICS);
	/* nouveau, and nonsense. */
	d = parse("drm-engine-gfx:\t-1 ns\ndrm-engine-compute:\t1 s\ndrm-engine-capacity-gfx:\t4294967297\ndrm-engine-rcs:\t\n"
		  "drm-engine-ccs:\t99999999999999999999999999 ns\ndrm-engine-render:\t18446744073709551616\n");
	expect_engine(&d, DRM_ENGINE_COMPUTE, NOT_SAID, 0, 1);
	expect_engine(&d, DRM_ENGINE_GRAPHICS, NOT_SAID, 0, 1);
	EXPECT_EQ(d.kinds, 0);
}

/* What the engines do in 1000 ns. */
static uint32_t percent(struct drm_engine compute_then, struct drm_engine compute, struct drm_engine graphics_then,
			struct drm_engine graphics)
{
	struct drm_reading then = { .key = 7, .at_ns = 5000, .engines = { compute_then, graphics_then } };
	struct drm_reading now = { .key = 7, .at_ns = 6000, .engines = { compute, graphics } };
	struct drm_past past = { .list = &then, .count = 1 };

	return drm_work_percent(&past, &now);
}

#define TIME(ns) ((struct drm_engine){ .busy = (ns), .capacity = 1 })
#define CYCLES(n, of) ((struct drm_engine){ .busy = (n), .total = (of), .capacity = 1 })
#define SILENT ((struct drm_engine){ .busy = NOT_SAID, .capacity = 1 })

TEST(shares)
{
	const struct drm_engine two = { .busy = 1500, .capacity = 2 };

	EXPECT_EQ(percent(TIME(100), TIME(350), SILENT, SILENT), 25);
	EXPECT_EQ(percent(TIME(100), TIME(100), SILENT, SILENT), 0);
	EXPECT_EQ(percent(TIME(100), TIME(104), SILENT, SILENT), 0);
	EXPECT_EQ(percent(TIME(100), TIME(105), SILENT, SILENT), 1);
	/* Together; more than all is all; so many side by side. */
	EXPECT_EQ(percent(TIME(0), TIME(250), TIME(0), TIME(300)), 55);
	EXPECT_EQ(percent(TIME(0), TIME(900), TIME(0), TIME(300)), 100);
	EXPECT_EQ(percent(TIME(0), TIME(UINT64_MAX - 1), SILENT, SILENT), 100);
	EXPECT_EQ(percent(TIME(0), two, SILENT, SILENT), 75);
	EXPECT_EQ(percent(CYCLES(10, 1000), CYCLES(60, 1200), SILENT, SILENT), 25);
	/* Counters that step back, stand still, or are of another kind than before. */
	EXPECT_EQ(percent(TIME(300), TIME(100), SILENT, SILENT), 0);
	EXPECT_EQ(percent(CYCLES(10, 1000), CYCLES(60, 1000), SILENT, SILENT), NONE);
	EXPECT_EQ(percent(CYCLES(10, 1000), CYCLES(60, 900), SILENT, SILENT), NONE);
	EXPECT_EQ(percent(TIME(10), CYCLES(60, 900), SILENT, SILENT), NONE);
	EXPECT_EQ(percent(SILENT, TIME(10), SILENT, SILENT), NONE);
	EXPECT_EQ(percent(SILENT, SILENT, SILENT, SILENT), NONE);
	EXPECT_EQ(percent(SILENT, SILENT, TIME(0), TIME(500)), 50);
}

TEST(readings_that_do_not_match)
{
	_cleanup_(drm_past_done) struct drm_past past = { 0 };
	struct drm_reading *list = calloc(3, sizeof(*list)), now = { .key = 5, .at_ns = 9000 };

	ASSERT(list);
	now.engines[0] = TIME(1000);
	now.engines[1] = SILENT;
	EXPECT_EQ(drm_work_percent(&past, &now), NONE);
	for (size_t i = 0; i < 3; i++)
		list[i] = (struct drm_reading){ .key = 9 - 2 * i, .at_ns = 7000, .engines = { TIME(i * 100), SILENT } };
	drm_past_set(&past, list, 3);
	EXPECT_EQ(drm_work_percent(&past, &now), 40);
	now.key = 9;
	EXPECT_EQ(drm_work_percent(&past, &now), 50);
	now.key = 6;
	EXPECT_EQ(drm_work_percent(&past, &now), NONE);
	now.key = 5;
	now.at_ns = 7000;
	EXPECT_EQ(drm_work_percent(&past, &now), NONE);
}

/* A descriptor of a client whose engine has worked so long. */
static bool put_client(const struct drm_root *d, unsigned int pid, int fd, const char *pci, const char *id, uint64_t ns)
{
	char text[512];

	(void)snprintf(text, sizeof(text),
		       "drm-driver:\tamdgpu\n%sdrm-pdev:\t%s\ndrm-resident-vram:\t1 KiB\ndrm-engine-compute:\t%llu ns\n", id,
		       pci, (unsigned long long)ns);
	(void)drm_root_link(d, "/dev/dri/renderD128", "proc/%u/fd/%d", pid, fd);
	return drm_root_text(d, text, "proc/%u/fdinfo/%d", pid, fd);
}

static uint32_t share_of(const struct gpu_snapshot *s, uint32_t pid, uint32_t device)
{
	for (size_t i = 0; i < s->process_count; i++)
		if (s->processes[i].pid == pid && s->processes[i].device == device)
			return s->processes[i].sm_percent;
	return NONE - 1;
}

#define FIRST "drm-client-id:\t1\n"
#define SECOND "drm-client-id:\t2\n"

/* Clients of a process add up; one that several have counts once, as it was read last; those without a number, or
 * KFD's, say nothing. */
TEST(processes)
{
	_cleanup_(drm_root_done) struct drm_root d = { 0 };
	_cleanup_(drm_past_done) struct drm_past past = { 0 };
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };
	uint64_t start_ns = clock_monotonic_ns(), long_ns = 3600 * NSEC_PER_SEC;

	ASSERT(drm_root_new(&d) && drm_root_card(&d, "card0", CARD, "amdgpu") &&
	       drm_root_card(&d, "card1", OTHER_CARD, "amdgpu"));
	for (int round = 0; round < 2; round++) {
		/* An hour of work in no time is all that there is; nothing is nothing. */
		uint64_t ns = round == 0 ? 1000 : 1000 + long_ns;

		ASSERT(put_client(&d, 30, 4, CARD, FIRST, 0) && put_client(&d, 30, 5, CARD, SECOND, 500) &&
		       put_client(&d, 30, 6, OTHER_CARD, FIRST, 3 * long_ns) && put_client(&d, 31, 4, CARD, FIRST, ns) &&
		       put_client(&d, 32, 4, CARD, "", ns) && put_client(&d, 33, 4, CARD, "drm-client-id:\t3\n", ns));
		ASSERT(drm_root_text(&d, "111\n", "sys/class/kfd/kfd/topology/nodes/1/gpu_id") &&
		       drm_root_text(&d, "location_id 768\ndomain 0\n", "sys/class/kfd/kfd/topology/nodes/1/properties") &&
		       drm_root_text(&d, "20480\n", "sys/class/kfd/kfd/proc/33/vram_111"));
		if (round == 1)
			ASSERT(put_client(&d, 34, 4, CARD, "drm-client-id:\t4\n", ns));
		gpu_snapshot_done(&s);
		ASSERT(drm_read(d.proc, d.sys, &past, &s) == 0);
		EXPECT_EQ(share_of(&s, 30, 0), round == 0 ? NONE : 100);
		EXPECT_EQ(share_of(&s, 30, 1), round == 0 ? NONE : 0);
		EXPECT_EQ(share_of(&s, 31, 0), NONE - 1);
		EXPECT_EQ(share_of(&s, 32, 0), NONE);
		EXPECT_EQ(share_of(&s, 33, 0), NONE);
		EXPECT_EQ(share_of(&s, 34, 0), round == 0 ? NONE - 1 : NONE);
	}
	EXPECT(clock_monotonic_ns() - start_ns < long_ns);
	/* Nobody remembers when nobody is to. */
	gpu_snapshot_done(&s);
	ASSERT(drm_read(d.proc, d.sys, NULL, &s) == 0);
	EXPECT_EQ(share_of(&s, 30, 0), NONE);
}

static bool put_figures(const struct drm_root *d, const char *const (*files)[2], size_t count)
{
	bool ok = true;

	for (size_t i = 0; i < count; i++)
		ok = ok && drm_root_text(d, files[i][1], "sys/devices/%s/%s", CARD, files[i][0]);
	return ok;
}

static void expect_figures(const struct drm_root *d, uint32_t busy, uint32_t memory, uint32_t celsius, uint32_t milliwatts,
			   uint32_t milliwatts_max, size_t left_out)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };

	ASSERT(drm_read(d->proc, d->sys, NULL, &s) == 0 && s.device_count == 1);
	EXPECT_EQ(s.devices[0].busy_percent, NONE);
	EXPECT_EQ(drm_read_figures(d->sys, UINT64_MAX, &s), 0);
	EXPECT_EQ(s.devices[0].busy_percent, busy);
	EXPECT_EQ(s.devices[0].memory_busy_percent, memory);
	EXPECT_EQ(s.devices[0].celsius, celsius);
	EXPECT_EQ(s.devices[0].milliwatts, milliwatts);
	EXPECT_EQ(s.devices[0].milliwatts_max, milliwatts_max);
	EXPECT_EQ(s.left_out_count, left_out);
	EXPECT(s.is_complete);
}

#define CHECK_FIGURES(expected, ...)                                                                                   \
	do {                                                                                                           \
		static const char *const files[][2] = { __VA_ARGS__ };                                                 \
		_cleanup_(drm_root_done) struct drm_root d = { 0 };                                                    \
		ASSERT(drm_root_new(&d) && drm_root_card(&d, "card0", CARD, "amdgpu"));                                \
		ASSERT(put_figures(&d, files, ARRAY_SIZE(files)));                                                     \
		expect_figures(&d, BRACED expected);                                                                   \
	} while (0)
#define BRACED(...) __VA_ARGS__

TEST(figures)
{
	/* A Radeon, an Instinct, one of Intel's, nothing. */
	CHECK_FIGURES((37, 12, 61, 45000, 300000, 0), { "gpu_busy_percent", "37\n" }, { "mem_busy_percent", "12\n" },
		      { "hwmon/hwmon3/name", "amdgpu\n" }, { "hwmon/hwmon3/temp1_input", "61999\n" },
		      { "hwmon/hwmon3/power1_average", "45000999\n" }, { "hwmon/hwmon3/power1_cap", "300000000\n" });
	CHECK_FIGURES((0, NONE, 55, 141000, 750000, 0), { "gpu_busy_percent", "0\n" }, { "hwmon/hwmon3/temp2_input", "55000\n" },
		      { "hwmon/hwmon3/power1_input", "141000000\n" }, { "hwmon/hwmon3/power1_cap", "750000000\n" });
	CHECK_FIGURES((NONE, NONE, 44, NONE, 120000, 0), { "hwmon/hwmon3/temp2_input", "44000\n" },
		      { "hwmon/hwmon3/power1_max", "120000000\n" }, { "hwmon/hwmon3/energy1_input", "4400000000\n" });
	CHECK_FIGURES((NONE, NONE, NONE, NONE, NONE, 0), { "hwmon/other/temp1_input", "44000\n" });
	CHECK_FIGURES((NONE, NONE, NONE, NONE, NONE, 0), { "hwmon", "44000\n" });
	/* No limit; below zero; no numbers. */
	CHECK_FIGURES((NONE, NONE, NONE, NONE, NONE, 0), { "gpu_busy_percent", "\n" }, { "mem_busy_percent", "12 %\n" },
		      { "hwmon/hwmon3/temp1_input", "-5000\n" }, { "hwmon/hwmon3/power1_input", "1e3\n" },
		      { "hwmon/hwmon3/power1_cap", "0\n" });
	/* What cannot be. */
	CHECK_FIGURES((NONE, NONE, NONE, NONE, NONE, 5), { "gpu_busy_percent", "101\n" },
		      { "mem_busy_percent", "18446744073709551614\n" }, { "hwmon/hwmon3/temp1_input", "65535000\n" },
		      { "hwmon/hwmon3/power1_average", "2147483648000\n" }, { "hwmon/hwmon3/power1_cap", "18446744073709551614\n" });
	/* It sleeps: asking would wake it. */
	CHECK_FIGURES((NONE, NONE, NONE, NONE, NONE, 0), { "gpu_busy_percent", "37\n" },
		      { "power/runtime_status", "suspended\n" });
	CHECK_FIGURES((37, NONE, NONE, NONE, NONE, 0), { "gpu_busy_percent", "37\n" }, { "power/runtime_status", "active\n" });
}

/* No time; a file without end; cards of NVIDIA's driver are not asked here. */
TEST(figures_that_are_not_asked)
{
	_cleanup_(drm_root_done) struct drm_root d = { 0 };
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };

	ASSERT(drm_root_new(&d) && drm_root_card(&d, "card0", CARD, "amdgpu") &&
	       drm_root_text(&d, "37\n", "sys/devices/%s/gpu_busy_percent", CARD) &&
	       drm_root_link(&d, "/dev/zero", "sys/devices/%s/mem_busy_percent", CARD));
	ASSERT(drm_read(d.proc, d.sys, NULL, &s) == 0 && s.device_count == 1);
	EXPECT_EQ(drm_read_figures(d.sys, clock_monotonic_ns() - 1, &s), -ETIME);
	EXPECT_EQ(s.devices[0].busy_percent, NONE);
	EXPECT_EQ(drm_read_figures(d.sys, UINT64_MAX, &s), 0);
	EXPECT_EQ(s.devices[0].busy_percent, 37);
	EXPECT_EQ(s.devices[0].memory_busy_percent, NONE);
	s.devices[0] = gpu_device_unknown("nvidia");
	memcpy(s.devices[0].pci, CARD, sizeof(CARD));
	EXPECT_EQ(drm_read_figures(d.sys, UINT64_MAX, &s), 0);
	EXPECT_EQ(s.devices[0].busy_percent, NONE);
}

TEST_MAIN()
