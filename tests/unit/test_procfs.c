/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "proc/procfs.h"
#include "temp_proc.h"

#define REST " 4000 4000 0 -1 4194304 2000 0 5 0 10 20 0 0 20 0 3 0 123456 9000000 2500 18446744073709551615 1 1 0\n"

TEST(stat)
{
	struct proc_stat st = { 0 };

	EXPECT_EQ(proc_stat_parse("4711 (python3) S 42" REST, &st), 0);
	EXPECT_EQ(st.pid, 4711);
	EXPECT_EQ(st.ppid, 42);
	EXPECT_EQ(st.state, 'S');
	EXPECT_EQ(st.start_ticks, 123456);
	EXPECT_STR(st.comm, "python3");
}

TEST(names_that_mislead)
{
	struct proc_stat st = { 0 };

	EXPECT_EQ(proc_stat_parse("1 (a) R 99 (b c) Z 7" REST, &st), 0);
	EXPECT_STR(st.comm, "a) R 99 (b c");
	EXPECT_EQ(st.state, 'Z');
	EXPECT_EQ(st.ppid, 7);
	EXPECT_EQ(st.start_ticks, 123456);
	EXPECT_EQ(proc_stat_parse("1 () R 0" REST, &st), 0);
	EXPECT_STR(st.comm, "");
	EXPECT_EQ(st.ppid, 0);
	EXPECT_EQ(proc_stat_parse("1 (a\nb)) R 5" REST, &st), 0);
	EXPECT_STR(st.comm, "a\nb)");
	EXPECT_EQ(proc_stat_parse("1 (0123456789012345678901234567890123456789012345678901234567890123456789) R 5" REST,
				  &st), 0);
	EXPECT_STR(st.comm, "012345678901234567890123456789012345678901234567890123456789012");
}

TEST(not_stat)
{
	static const char *const texts[] = {
		"",
		"4711",
		"4711 (",
		"4711 ()",
		"4711 (a) ",
		"4711 (a) S",
		"4711 (a) S ",
		"4711 (a) S 1 2 3",
		"4711 (a) SS 1" REST,
		"4711 (a)S 1" REST,
		"4711 (a) S x" REST,
		"x (a) S 1" REST,
		"0 (a) S 1" REST,
		"4294967296 (a) S 1" REST,
		" 4711 (a) S 1" REST,
		"4711 (a) S 1 4000 4000 0 -1 4194304 2000 0 5 0 10 20 0 0 20 0 3 0",
		"4711 (a) S 1 4000 4000 0 -1 4194304 2000 0 5 0 10 20 0 0 20 0 3 0 ",
		"4711 (a) S 1 4000 4000 0 -1 4194304 2000 0 5 0 10 20 0 0 20 0 3 0 -5 1",
		"4711 (a) S 1 4000 4000 0 -1 4194304 2000 0 5 0 10 20 0 0 20 0 3 0 12x 1",
		"4711 (a) S 1 4000 4000 0 -1 4194304 2000 0 5 0 10 20 0 0 20 0 3 0 99999999999999999999 1",
	};
	struct proc_stat st = { .pid = 77 };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (proc_stat_parse(texts[i], &st) != -EINVAL) {
			printf("# accepted \"%s\"\n", texts[i]);
			test_failures++;
		}
	}
	EXPECT_EQ(st.pid, 77);
}

TEST(reading)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	struct proc_stat st = { 0 };

	ASSERT(temp_proc_new(&t));
	ASSERT(temp_proc_text(&t, 4711, "stat", "4711 (python3) S 42" REST));
	ASSERT(temp_proc_text(&t, 12, "other", ""));
	EXPECT_EQ(proc_stat_read(t.root, 4711, &st), 0);
	EXPECT_EQ(st.ppid, 42);
	EXPECT_EQ(proc_stat_read(t.root, 4712, &st), -ESRCH);
	EXPECT_EQ(proc_stat_read(t.root, 12, &st), -ESRCH);
	EXPECT(process_is_same(t.root, 4711, 123456));
	EXPECT(!process_is_same(t.root, 4711, 123457));
	EXPECT(!process_is_same(t.root, 4712, 123456));
	EXPECT_EQ(proc_open("/nonexistent", 1), -ESRCH);
}

TEST(ourselves)
{
	struct proc_stat st = { 0 };

	EXPECT_EQ(proc_stat_read("/proc", (uint32_t)getpid(), &st), 0);
	EXPECT_EQ(st.pid, getpid());
	EXPECT_EQ(st.ppid, getppid());
	EXPECT_EQ(st.state, 'R');
	EXPECT_STR(st.comm, "test_procfs");
	/* We started in this boot, and not long ago. */
	EXPECT(st.start_ticks <= ticks_from_ns(clock_boot_ns()));
	EXPECT(ticks_from_ns(clock_boot_ns()) - st.start_ticks < ticks_from_ns(600 * NSEC_PER_SEC));
}

/* The descriptor belongs to the process, not to its number. */
TEST(a_process_that_goes)
{
	_cleanup_close_ int fd = -1;
	struct proc_stat st = { 0 };
	pid_t pid = fork();

	ASSERT(pid >= 0);
	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	fd = proc_open("/proc", (uint32_t)pid);
	EXPECT(fd >= 0);
	EXPECT_EQ(proc_stat_read_at(fd, &st), 0);
	EXPECT_EQ(st.pid, pid);
	EXPECT(process_is_same("/proc", (uint32_t)pid, st.start_ticks));
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	EXPECT_EQ(proc_stat_read_at(fd, &st), -ESRCH);
	EXPECT_EQ(proc_stat_read("/proc", (uint32_t)pid, &st), -ESRCH);
}

TEST(ticks)
{
	uint64_t tick = NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);

	EXPECT_EQ(ticks_from_ns(0), 0);
	EXPECT_EQ(ticks_from_ns(tick - 1), 0);
	EXPECT_EQ(ticks_from_ns(tick), 1);
	EXPECT_EQ(ticks_from_ns(123456 * tick + tick / 2), 123456);
	EXPECT_EQ(ticks_to_ns(123456), 123456 * tick);
	EXPECT_EQ(ticks_from_ns(ticks_to_ns(123456)), 123456);
	EXPECT(ticks_to_ns(UINT64_MAX) == UINT64_MAX);
}

TEST(status)
{
	static const struct {
		const char *text;
		uint32_t uid, ns_count, inner_pid;
	} cases[] = {
		{ "Name:\tx\nUid:\t7\t8\t9\t10\nNSpid:\t4711\n", 7, 1, 4711 },
		{ "Name:\tx\nUid:\t0\t0\t0\t0\nGroups:\t1 2\nNStgid:\t5\t6\nNSpid:\t4711\t12\t1\nNSpgid:\t9\n", 0, 3,
		  1 },
		{ "Name:\tx\nUid:\t4294967294\t0\n", 4294967294u, 0, 0 },
		/* The name of the process cannot make a line. */
		{ "Name:\tx\\nUid:\t7\\nNSpid:\t1\t2\nUid:\t3\t0\nNSpid:\t8\t9\n", 3, 2, 9 },
		{ "Name:\tx\nUid:\t4294967295\t0\nNSpid:\n", UINT32_MAX, 0, 0 },
		{ "Name:\tx\nUid:\tx\nNSpid:\tx\n", UINT32_MAX, 0, 0 },
		{ "Name:\tx\nNSpid:\t4711\tx\n", UINT32_MAX, 0, 0 },
		{ "Name:\tx\nNSpid:\t4711\t0\n", UINT32_MAX, 0, 0 },
		{ "Name:\tx\nNSpid:\t4711\t4294967296\n", UINT32_MAX, 0, 0 },
		{ "Name:\tx\nNSpid:\t4711\t", UINT32_MAX, 0, 0 },
		{ "", UINT32_MAX, 0, 0 },
	};
	char deep[1024] = "Name:\tx\nNSpid:";
	struct proc_status st;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		proc_status_parse(cases[i].text, &st);
		EXPECT_EQ(st.uid, cases[i].uid);
		EXPECT_EQ(st.ns_count, cases[i].ns_count);
		EXPECT_EQ(st.inner_pid, cases[i].inner_pid);
	}
	/* As deep as the kernel nests, and deeper. */
	for (int i = 0; i < 33; i++)
		(void)strcat(deep, "\t21");
	proc_status_parse(deep, &st);
	EXPECT_EQ(st.ns_count, 33);
	EXPECT_EQ(st.inner_pid, 21);
	(void)strcat(deep, "\t21");
	proc_status_parse(deep, &st);
	EXPECT_EQ(st.ns_count, 0);
}

TEST_MAIN()
