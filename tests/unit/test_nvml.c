/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <poll.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "proc/nvml.h"
#include "temp_proc.h"

/* A library with the interface of the driver's, its answers chosen by macros at build time. */
static const char source[] =
	"#include <string.h>\n"
	"#include <unistd.h>\n"
	"#ifndef DEVICES\n#define DEVICES 2\n#endif\n"
	"#ifndef RECORDS\n#define RECORDS\n#endif\n"
	"#ifndef TOTAL\n#define TOTAL 1000000ull\n#endif\n"
	"#ifndef USED\n#define USED 400000ull\n#endif\n"
	"#ifndef INIT\n#define INIT 0\n#endif\n"
	"#ifndef LIST_ERROR\n#define LIST_ERROR 0\n#endif\n"
	"#ifndef HANDLE_ERROR\n#define HANDLE_ERROR(i) 0\n#endif\n"
	"#define NA 0xffffffffffffffffull\n"
	"struct memory { unsigned long long total, free, used; };\n"
	"struct v1 { unsigned pid; unsigned long long used; };\n"
	"struct v2 { unsigned pid; unsigned long long used; unsigned gi, ci; };\n"
	"struct v535 { unsigned pid; unsigned long long used; unsigned gi, ci; unsigned long long protected; };\n"
	"static int devices[DEVICES + 1];\n"
	"int nvmlInit_v2(void) { return INIT; }\n"
	"int nvmlShutdown(void) { return 0; }\n"
	"const char *nvmlErrorString(int e) { return e == 9 ? \"Driver Not Loaded\" : \"Unknown Error\"; }\n"
	"int nvmlDeviceGetCount_v2(unsigned *n)\n"
	"{\n"
	"#ifdef HANG\n"
	"	for (;;) pause();\n"
	"#endif\n"
	"#ifdef FAIL_FILE\n"
	"	if (access(FAIL_FILE, F_OK) == 0) return 15;\n"
	"#endif\n"
	"	*n = DEVICES; return 0;\n"
	"}\n"
	"int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d)\n"
	"{ devices[i] = i; *d = &devices[i]; return HANDLE_ERROR(i); }\n"
	"#ifndef NO_UUID\n"
	"int nvmlDeviceGetUUID(void *d, char *s, unsigned n)\n"
	"{\n"
	"#ifdef UNTERMINATED\n"
	"	memset(s, 'U', n); return 0;\n"
	"#endif\n"
	"	strcpy(s, *(int *)d ? \"GPU-one\" : \"GPU-zero\"); return 0;\n"
	"}\n"
	"#endif\n"
	"int nvmlDeviceGetName(void *d, char *s, unsigned n) { strcpy(s, \"NVIDIA Test\"); return 0; }\n"
	"int nvmlDeviceGetMemoryInfo(void *d, struct memory *m)\n"
	"{ m->total = TOTAL; m->used = USED; m->free = 0; return 0; }\n"
	"#define LIST(name, record) int name(void *d, unsigned *n, void *out) { \\\n"
	"	static const struct record all[] = { RECORDS { 0 } }; \\\n"
	"	unsigned have = sizeof(all) / sizeof(all[0]) - 1; \\\n"
	"	if (LIST_ERROR) return LIST_ERROR; \\\n"
	"	if (*(int *)d) { *n = 0; return 0; } \\\n"
	"	if (*n < have) { *n = have; return 7; } \\\n"
	"	memcpy(out, all, have * sizeof(all[0])); *n = have; return 0; }\n"
	"#ifdef V1\nLIST(nvmlDeviceGetComputeRunningProcesses, v1)\n#endif\n"
	"#ifdef V2\nLIST(nvmlDeviceGetComputeRunningProcesses_v2, v2)\n#endif\n"
	"#ifdef V3\nLIST(nvmlDeviceGetComputeRunningProcesses_v3, v2)\n#endif\n"
	"#ifdef V535\nLIST(nvmlDeviceGetComputeRunningProcesses_v3, v535)\n#endif\n"
	"#ifdef V3_MISSING\n"
	"int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, void *out) { return 13; }\n"
	"#endif\n"
	"#ifdef COUNT_GARBAGE\n"
	"int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, void *out)\n"
	"{ *n = 0x7fffffff; return COUNT_GARBAGE; }\n"
	"#endif\n";

struct fixture {
	struct temp_proc dir;
	char library[128];
};

static void fixture_done(struct fixture *f)
{
	temp_proc_done(&f->dir);
}

/* Builds the library with these -D options. The name differs each time: a library once loaded stays. */
static bool fixture_new(struct fixture *f, const char *options)
{
	_cleanup_strbuf_ struct strbuf command = STRBUF_INIT;
	const char *cc = getenv("CC");

	if (!temp_proc_new(&f->dir) || !temp_proc_text(&f->dir, 1, "nvml.c", source))
		return false;
	(void)snprintf(f->library, sizeof(f->library), "%s/libnvidia-ml.so.1", f->dir.root);
	strbuf_addf(&command, "%s -shared -fPIC -w -DFAIL_FILE='\"%s/fail\"' %s -o %s %s/1/nvml.c", cc ? cc : "cc",
		    f->dir.root, options, f->library, f->dir.root);
	return command.error == 0 && system(strbuf_str(&command)) == 0;
}

/* Opens the library and reads once. */
static int read_once(const char *options, struct gpu_snapshot *ret)
{
	_cleanup_(fixture_done) struct fixture f = { 0 };
	_cleanup_(nvml_closep) struct nvml *n = NULL;
	const char *reason = NULL;
	int r;

	if (!fixture_new(&f, options)) {
		printf("# the stand-in library does not build: %s\n", options);
		return -1;
	}
	r = nvml_open(f.library, &n, &reason);
	if (r < 0)
		return r;
	return nvml_read(n, ret);
}

/* What the driver said of a pid; UINT64_MAX - 1 if it is not in the list. */
static uint64_t used_by(const struct gpu_snapshot *s, uint32_t pid)
{
	for (size_t i = 0; i < s->process_count; i++) {
		if (s->processes[i].pid == pid)
			return s->processes[i].used_bytes;
	}
	return UINT64_MAX - 1;
}

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
	EXPECT_EQ(s.processes[0].index, 0);
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

TEST(mig_instances_add_up)
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
	EXPECT(used_by(&s, 10) == UINT64_MAX);
	/* A count beyond what there was room for, as a success and as "too small". */
	ASSERT(read_once("-DCOUNT_GARBAGE=0", &u) == 0);
	EXPECT_EQ(u.process_count, 0);
	EXPECT_EQ(u.device_count, 2);
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
	EXPECT_EQ(read_once("-DV3 '-DHANDLE_ERROR(i)=15'", &t), -EIO);
	/* The devices are worth having when the processes are not to be had. */
	ASSERT(read_once("-DV3 -DLIST_ERROR=4 '-DRECORDS={10,1000,-1,-1},'", &u) == 0);
	EXPECT_EQ(u.device_count, 2);
	EXPECT_EQ(u.process_count, 0);
}

TEST(libraries_that_refuse)
{
	_cleanup_(fixture_done) struct fixture no_driver = { 0 }, no_uuid = { 0 }, no_list = { 0 };
	struct nvml *n = NULL;
	const char *reason = NULL;

	EXPECT_EQ(nvml_open("/nonexistent/libnvidia-ml.so.1", &n, &reason), -ENOENT);
	EXPECT_STR(reason, "libnvidia-ml.so.1 not found");
	ASSERT(fixture_new(&no_driver, "-DV3 -DINIT=9"));
	EXPECT_EQ(nvml_open(no_driver.library, &n, &reason), -EIO);
	EXPECT_STR(reason, "Driver Not Loaded");
	ASSERT(fixture_new(&no_uuid, "-DV3 -DNO_UUID"));
	EXPECT_EQ(nvml_open(no_uuid.library, &n, &reason), -EIO);
	EXPECT_STR(reason, "the library lacks nvmlDeviceGetUUID");
	ASSERT(fixture_new(&no_list, ""));
	EXPECT_EQ(nvml_open(no_list.library, &n, &reason), -EIO);
	EXPECT_STR(reason, "the library lacks nvmlDeviceGetComputeRunningProcesses");
	EXPECT(n == NULL);
	nvml_close(NULL);
}

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
	_cleanup_(fixture_done) struct fixture f = { 0 };
	_cleanup_(nvml_watch_freep) struct nvml_watch *w = NULL;
	struct gpu_snapshot s = { 0 };
	struct pollfd p;
	char path[128];
	int fd;

	ASSERT(fixture_new(&f, "-DV3 -DDEVICES=1 '-DRECORDS={10,1000,-1,-1},'"));
	ASSERT(nvml_watch_new(f.library, 50 * NSEC_PER_MSEC, &w) == 0);
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

	ASSERT(nvml_watch_new("/nonexistent/libnvidia-ml.so.1", NSEC_PER_MSEC, &w) == 0);
	ASSERT(wait_for_status(w, "NVML: libnvidia-ml.so.1 not found"));
	before = cpu_ns();
	(void)usleep(500000);
	EXPECT(cpu_ns() - before < 20 * NSEC_PER_MSEC);
	EXPECT_EQ(nvml_watch_take(w, &s), 0);
}

TEST(no_driver)
{
	_cleanup_(fixture_done) struct fixture f = { 0 };
	_cleanup_(nvml_watch_freep) struct nvml_watch *w = NULL;

	ASSERT(fixture_new(&f, "-DV3 -DINIT=9"));
	ASSERT(nvml_watch_new(f.library, NSEC_PER_SEC, &w) == 0);
	EXPECT(wait_for_status(w, "NVML: driver not usable: Driver Not Loaded"));
}

/* Stopping is quick while the thread sleeps, and does not wait for one that is stuck. */
TEST(stopping)
{
	_cleanup_(fixture_done) struct fixture idle = { 0 }, stuck = { 0 };
	struct nvml_watch *w = NULL;
	uint64_t start_ns;

	ASSERT(fixture_new(&idle, "-DV3"));
	ASSERT(nvml_watch_new(idle.library, 3600 * NSEC_PER_SEC, &w) == 0);
	ASSERT(wait_for_snapshot(w));
	start_ns = clock_monotonic_ns();
	nvml_watch_free(TAKE_PTR(w));
	EXPECT(clock_monotonic_ns() - start_ns < NSEC_PER_SEC);

	ASSERT(fixture_new(&stuck, "-DV3 -DHANG"));
	ASSERT(nvml_watch_new(stuck.library, NSEC_PER_SEC, &w) == 0);
	/* Long enough to be in the call; past five seconds the status says so. */
	EXPECT(wait_for_status(w, "NVML: no answer from the driver for "));
	start_ns = clock_monotonic_ns();
	nvml_watch_free(TAKE_PTR(w));
	EXPECT(clock_monotonic_ns() - start_ns < 2 * NSEC_PER_SEC);
	nvml_watch_free(NULL);
}

TEST_MAIN()
