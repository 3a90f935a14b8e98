/* SPDX-License-Identifier: MIT */
/* How busy and hot cards are, and whose work that is, as NVML tells it. */
#include "test.h"

#include <time.h>

#include "base/clock.h"
#include "nvml_stand_in.h"
#include "proc/nvml_records.h"
#include "proc/nvml_snapshot.h"

#define NONE UINT32_MAX

/* Figures of a library that was opened before. */
static int read_figures(struct nvml *n, struct gpu_snapshot *ret)
{
	gpu_snapshot_done(ret);
	return nvml_read(n, ret) < 0 ? -1 : nvml_read_figures(n, UINT64_MAX, ret);
}

/* Built once: it asks what it is to say each time. */
static struct stand_in stand_in;

static void __attribute__((destructor)) forget_stand_in(void)
{
	stand_in_done(&stand_in);
}

/* Two cards, this process on both of them. */
static struct nvml *open_stand_in(const char *figures)
{
	struct nvml *n = NULL;
	const char *reason;

	(void)setenv("FAKE_NVML_FIGURES", figures, 1);
	if (!stand_in.state && !stand_in_new(&stand_in, 1 << 20, 2 << 20))
		return NULL;
	return nvml_open(stand_in.lib.path, &n, &reason) == 0 ? n : NULL;
}

static void expect_device(const struct gpu_device *d, uint32_t busy, uint32_t memory, uint32_t celsius, uint32_t milliwatts,
			  uint32_t milliwatts_max)
{
	EXPECT_EQ(d->busy_percent, busy);
	EXPECT_EQ(d->memory_busy_percent, memory);
	EXPECT_EQ(d->celsius, celsius);
	EXPECT_EQ(d->milliwatts, milliwatts);
	EXPECT_EQ(d->milliwatts_max, milliwatts_max);
}

TEST(all_of_them)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };
	_cleanup_(nvml_closep) struct nvml *n =
		open_stand_in("busy=37 memory_busy=12,celsius=61\nmilliwatts=250000 milliwatts_max=700000 busy.1=100 sm=25");

	ASSERT(n && read_figures(n, &s) == 0);
	ASSERT(s.device_count == 2 && s.process_count == 2);
	expect_device(&s.devices[0], 37, 12, 61, 250000, 700000);
	expect_device(&s.devices[1], 100, 12, 61, 250000, 700000);
	EXPECT_EQ(s.processes[0].sm_percent, 25);
	EXPECT_EQ(s.processes[1].sm_percent, 25);
	EXPECT_EQ(s.processes[1].used_bytes, 2 << 20);
	EXPECT_EQ(s.left_out_count, 0);
	EXPECT(s.is_complete);
}

/* Each call that fails costs what it alone would have told, and never the memory. */
TEST(calls_that_fail)
{
	static const struct {
		const char *error;
		uint32_t busy, memory, celsius, milliwatts, milliwatts_max, sm;
	} cases[] = {
		{ "busy_error=3", NONE, NONE, 61, 250000, 700000, 25 },
		{ "celsius_error=15", 37, 37, NONE, 250000, 700000, 25 },
		{ "milliwatts_error=4", 37, 37, 61, NONE, 700000, 25 },
		{ "milliwatts_max_error=3", 37, 37, 61, 250000, NONE, 25 },
		{ "sm_error=3", 37, 37, 61, 250000, 700000, NONE },
		{ "sm_error=999", 37, 37, 61, 250000, 700000, NONE },
		/* Nobody has done anything. */
		{ "sm_error=6", 37, 37, 61, 250000, 700000, 0 },
		{ "sm_error=7", 37, 37, 61, 250000, 700000, NONE },
		{ "milliwatts_max=0", 37, 37, 61, 250000, NONE, 25 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };
		_cleanup_(nvml_closep) struct nvml *n = NULL;
		char figures[256];

		(void)snprintf(figures, sizeof(figures), "%s busy=37 celsius=61 milliwatts=250000 milliwatts_max=700000 sm=25",
			       cases[i].error);
		n = open_stand_in(figures);
		ASSERT(n && read_figures(n, &s) == 0 && s.device_count == 2);
		expect_device(&s.devices[1], cases[i].busy, cases[i].memory, cases[i].celsius, cases[i].milliwatts,
			      cases[i].milliwatts_max);
		EXPECT_EQ(s.processes[0].sm_percent, cases[i].sm);
		EXPECT_EQ(s.processes[0].used_bytes, 1 << 20);
		EXPECT_EQ(s.left_out_count, 0);
		EXPECT(s.is_complete);
	}
}

/* What cannot be is not known, and counted. */
TEST(nonsense)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };
	_cleanup_(nvml_closep) struct nvml *n = open_stand_in(
		"busy=101 memory_busy=4294967295 celsius=65535 milliwatts=2147483648 milliwatts_max=2147483648 sm=101 busy.1=0 "
		    "memory_busy.1=0 celsius.1=0 milliwatts.1=0 milliwatts_max.1=10000000");

	ASSERT(n && read_figures(n, &s) == 0 && s.device_count == 2);
	expect_device(&s.devices[0], NONE, NONE, NONE, NONE, NONE);
	expect_device(&s.devices[1], 0, 0, 0, 0, 10000000);
	EXPECT_EQ(s.processes[0].sm_percent, NONE);
	EXPECT_EQ(s.left_out_count, 5 + 2);
	EXPECT(s.is_complete);
}

/* The card has no more than temperature and power, its instances nothing; the other card all. */
TEST(a_card_in_mig_mode)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };
	_cleanup_(nvml_closep) struct nvml *n = open_stand_in("busy=37 celsius=61 milliwatts=250000 sm=25");

	(void)setenv("FAKE_GPU_MIG", "1", 1);
	ASSERT(n && read_figures(n, &s) == 0);
	(void)unsetenv("FAKE_GPU_MIG");
	ASSERT(s.device_count == 4 && s.process_count == 2);
	expect_device(&s.devices[0], NONE, NONE, 61, 250000, NONE);
	expect_device(&s.devices[1], NONE, NONE, NONE, NONE, NONE);
	expect_device(&s.devices[2], NONE, NONE, NONE, NONE, NONE);
	expect_device(&s.devices[3], 37, 37, 61, 250000, NONE);
	EXPECT(s.processes[0].device == 1 || s.processes[0].device == 2);
	EXPECT_EQ(s.processes[0].sm_percent, NONE);
	EXPECT_EQ(s.processes[1].sm_percent, 25);
}

/* Asked again within a second, the driver has taken no sample that is new: what it said last holds. */
TEST(shares_are_asked_once_a_second)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };
	_cleanup_(nvml_closep) struct nvml *n = open_stand_in("sm=25 sm_filler=40");

	ASSERT(n && read_figures(n, &s) == 0);
	EXPECT_EQ(s.processes[0].sm_percent, 25);
	(void)setenv("FAKE_NVML_FIGURES", "sm=90", 1);
	ASSERT(read_figures(n, &s) == 0);
	EXPECT_EQ(s.processes[0].sm_percent, 25);
	(void)usleep(1050000);
	ASSERT(read_figures(n, &s) == 0);
	EXPECT_EQ(s.processes[0].sm_percent, 90);
	EXPECT_EQ(s.left_out_count, 0);
}

#define TENTHS "-DV3 -DSAMPLES=1 -DSIZE_SAID=1 '-DSM=(now - since) / 100000' '-DRECORDS={1,7,-1,-1},' "

static struct nvml *open_library(struct nvml_library *f, const char *options)
{
	struct nvml *n = NULL;
	const char *reason;

	return nvml_library_new(f, options) && nvml_open(f->path, &n, &reason) == 0 ? n : NULL;
}

static uint32_t first_share(struct nvml *n)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };

	return read_figures(n, &s) == 0 && s.process_count == 1 ? s.processes[0].sm_percent : NONE - 1;
}

/* The driver tells the mean since then: since its last sample, but no more than a second before the last question. */
TEST(shares_are_of_the_time_since_the_last)
{
	_cleanup_(nvml_library_done) struct nvml_library fresh_library = { 0 }, stale_library = { 0 };
	_cleanup_(nvml_closep) struct nvml *fresh = open_library(&fresh_library, TENTHS "-DSTAMP=now");
	_cleanup_(nvml_closep) struct nvml *stale = open_library(&stale_library, TENTHS "-DSTAMP=since+1");
	uint32_t share;

	ASSERT(fresh && stale);
	EXPECT_EQ(first_share(fresh), 20);
	EXPECT_EQ(first_share(stale), 20);
	(void)usleep(1020000);
	share = first_share(fresh);
	EXPECT(share >= 10 && share < 17);
	share = first_share(stale);
	EXPECT(share >= 20 && share < 27);
}

TEST(time_that_is_over)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };
	_cleanup_(nvml_closep) struct nvml *n = open_stand_in("busy=37 celsius=61 sm=25 busy_delay_ms=60");

	ASSERT(n && nvml_read(n, &s) == 0);
	EXPECT_EQ(nvml_read_figures(n, clock_monotonic_ns() - 1, &s), -ETIME);
	EXPECT_EQ(s.devices[0].busy_percent, NONE);
	/* The call that was begun is let end, no other one begun. */
	EXPECT_EQ(nvml_read_figures(n, clock_monotonic_ns() + 30 * NSEC_PER_MSEC, &s), -ETIME);
	EXPECT_EQ(s.devices[0].busy_percent, 37);
	EXPECT_EQ(s.devices[0].celsius, NONE);
	EXPECT_EQ(s.devices[1].busy_percent, NONE);
	/* Card 0 has had a time of its own since: the one there was no time for is first. */
	EXPECT_EQ(nvml_read_figures(n, clock_monotonic_ns() + 90 * NSEC_PER_MSEC, &s), -ETIME);
	EXPECT_EQ(s.devices[0].celsius, 61);
	gpu_snapshot_done(&s);
	ASSERT(nvml_read(n, &s) == 0);
	EXPECT_EQ(nvml_read_figures(n, clock_monotonic_ns() + 30 * NSEC_PER_MSEC, &s), -ETIME);
	EXPECT_EQ(s.devices[0].busy_percent, NONE);
	EXPECT_EQ(s.devices[1].busy_percent, 37);
}

/* Figures of the one library that has what the options ask for. */
static int figures_once(const char *options, struct gpu_snapshot *ret)
{
	_cleanup_(nvml_library_done) struct nvml_library f = { 0 };
	_cleanup_(nvml_closep) struct nvml *n = NULL;
	const char *reason;

	gpu_snapshot_done(ret);
	if (!nvml_library_new(&f, options) || nvml_open(f.path, &n, &reason) < 0)
		return -1;
	return read_figures(n, ret);
}

TEST(libraries_old_and_new)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };

	ASSERT(figures_once("-DV3 '-DRECORDS={10,1000,-1,-1},'", &s) == 0);
	expect_device(&s.devices[0], NONE, NONE, NONE, NONE, NONE);
	EXPECT_EQ(s.processes[0].sm_percent, NONE);
	ASSERT(figures_once("-DV3 -DCELSIUS_V=70 -DLIMIT=500", &s) == 0);
	expect_device(&s.devices[0], NONE, NONE, 70, NONE, 500);
	/* Below zero; a call that succeeds and says nothing; one that says half of it. */
	ASSERT(figures_once("-DV3 -DCELSIUS_V=-1 '-DRATES=(void)rates'", &s) == 0);
	expect_device(&s.devices[0], NONE, NONE, NONE, NONE, NONE);
	EXPECT_EQ(s.left_out_count, 3 * 2);
	ASSERT(figures_once("-DV3 '-DRATES=rates[0]=5'", &s) == 0);
	expect_device(&s.devices[0], 5, NONE, NONE, NONE, NONE);
}

/* More processes than there is room for at first; libraries that do not say how much room, or nonsense. */
TEST(many_samples)
{
	static const char *const sizes[] = { "SAMPLES", "0", "130" }, *const bad[] = { "0x7fffffff", "0x80000001" };
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 };
	char options[128];

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		(void)snprintf(options, sizeof(options), "-DV3 -DSAMPLES=500 -DSIZE_SAID=%s '-DRECORDS={499,7,-1,-1},{600,7,-1,-1},'",
			       sizes[i]);
		ASSERT(figures_once(options, &s) == 0 && s.process_count == 2);
		EXPECT_EQ(s.processes[0].sm_percent, 499 % 101);
		EXPECT_EQ(s.processes[1].sm_percent, 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		(void)snprintf(options, sizeof(options), "-DV3 -DSAMPLES=500 -DSIZE_SAID=%s '-DRECORDS={499,7,-1,-1},'", bad[i]);
		ASSERT(figures_once(options, &s) == 0 && s.process_count == 1);
		EXPECT_EQ(s.processes[0].sm_percent, NONE);
	}
}

#define STAMP UINT64_C(1700000000000000)

TEST(samples)
{
	struct sample {
		uint32_t pid;
		uint64_t stamp;
		uint32_t sm, memory, encoder, decoder;
	} raw[] = {
		{ 30, STAMP + 5, 50, 0, 0, 0 },
		{ 10, STAMP + 1, 20, 1, 2, 3 },
		/* The newest counts, wherever it lies. */
		{ 30, STAMP + 9, 60, 0, 0, 0 },
		{ 30, STAMP + 7, 70, 0, 0, 0 },
		/* Seen before; too far ahead; no process; empty. */
		{ 40, STAMP, 20, 0, 0, 0 },
		{ 41, STAMP + 10 + 60 * USEC_PER_SEC + 1, 20, 0, 0, 0 },
		{ 0, STAMP + 5, 20, 0, 0, 0 },
		{ 4194305, STAMP + 5, 20, 0, 0, 0 },
		{ 0, 0, 0, 0, 0, 0 },
		{ 0xa5a5a5a5, 0xa5a5a5a5a5a5a5a5, 0xa5a5a5a5, 0xa5a5a5a5, 0xa5a5a5a5, 0xa5a5a5a5 },
		{ 20, STAMP + 5, 101, 0, 0, 0 },
		{ 50, STAMP + 5, 100, 0, 0, 0 },
	};
	struct nvml_share list[ARRAY_SIZE(raw)];
	size_t left_out = 77;

	_Static_assert(sizeof(raw[0]) == NVML_SAMPLE_BYTES, "nvmlProcessUtilizationSample_t");
	ASSERT(nvml_samples_read((const unsigned char *)raw, ARRAY_SIZE(raw), STAMP, STAMP + 10, list, &left_out) == 4);
	EXPECT_EQ(left_out, 4);
	EXPECT_EQ(list[0].pid, 10);
	EXPECT_EQ(list[0].sm_percent, 20);
	EXPECT_EQ(list[1].pid, 20);
	EXPECT_EQ(list[1].sm_percent, NONE);
	EXPECT_EQ(list[2].pid, 30);
	EXPECT_EQ(list[2].sm_percent, 60);
	EXPECT_EQ(list[2].stamp_usec, STAMP + 9);
	EXPECT_EQ(list[3].sm_percent, 100);
	EXPECT_EQ(nvml_samples_read((const unsigned char *)raw, 0, 0, 0, list, &left_out), 0);
	EXPECT_EQ(left_out, 0);
}

/* Of several sources, what not all of them know is not known. */
TEST(folding)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { 0 }, copy = { 0 };

	ASSERT(gpu_snapshot_grow(&s, 5) == 0);
	s.processes[0] = (struct gpu_process){ .pid = 1, .sm_percent = 10 };
	s.processes[1] = (struct gpu_process){ .pid = 1, .sm_percent = 20 };
	s.processes[2] = (struct gpu_process){ .pid = 2, .sm_percent = NONE };
	s.processes[3] = (struct gpu_process){ .pid = 2, .sm_percent = 30 };
	s.processes[4] = (struct gpu_process){ .pid = 3, .sm_percent = 0 };
	s.process_count = 5;
	gpu_snapshot_fold(&s, 0);
	ASSERT(s.process_count == 3);
	EXPECT_EQ(s.processes[0].sm_percent, 20);
	EXPECT_EQ(s.processes[1].sm_percent, NONE);
	EXPECT_EQ(s.processes[2].sm_percent, 0);
	ASSERT(gpu_snapshot_copy(&s, &copy) == 0);
	EXPECT_EQ(copy.process_count, 3);
	EXPECT(copy.processes != s.processes);
	EXPECT_EQ(copy.processes[0].sm_percent, 20);
}

TEST_MAIN()
