/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "proc/procfs.h"

TEST(lines)
{
	static const char text[] =
		"55d0c0000000-55d0c0001000 r--p 00000000 fd:01 1234                       /usr/bin/python3.11\n"
		"55d0c0001000-55d0c0200000 r-xp 00001000 fd:01 1234                       /usr/bin/python3.11\n"
		"55d0c1000000-55d0c1100000 rw-p 00000000 00:00 0                          [heap]\n"
		"7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n"
		"7f0000001000-7f0000002000 r-xp 00002000 103:0a 99                        /lib/a b\\012c.so (deleted)\n"
		"7f0000002000-7f0000003000 --xp 00000000 00:00 0\n"
		"7f0000003000-7f0000004000 r-xp 00003000 fd:01 1234                       /usr/bin/python3.11\n"
		"7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]\n"
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]";
	_cleanup_(address_space_unrefp) struct address_space *as = NULL;

	EXPECT_EQ(maps_parse(text, 4711, 99, &as), 0);
	ASSERT(as != NULL);
	EXPECT_EQ(as->pid, 4711);
	EXPECT_EQ(as->start_ns, 99);
	ASSERT(as->count == 7);
	EXPECT_EQ(as->mappings[0].start, 0x55d0c0001000);
	EXPECT_EQ(as->mappings[0].end, 0x55d0c0200000);
	EXPECT_EQ(as->mappings[0].offset, 0x1000);
	EXPECT_EQ(as->mappings[0].dev_major, 0xfd);
	EXPECT_EQ(as->mappings[0].dev_minor, 1);
	EXPECT_EQ(as->mappings[0].inode, 1234);
	EXPECT_STR(as->mappings[0].path, "/usr/bin/python3.11");
	EXPECT_STR(as->mappings[1].path, "");
	EXPECT_EQ(as->mappings[1].inode, 0);
	EXPECT_STR(as->mappings[2].path, "/lib/a b\\012c.so (deleted)");
	EXPECT_EQ(as->mappings[2].dev_major, 0x103);
	EXPECT_EQ(as->mappings[2].dev_minor, 10);
	EXPECT_EQ(as->mappings[3].end, 0x7f0000003000);
	EXPECT_STR(as->mappings[3].path, "");
	EXPECT_STR(as->mappings[5].path, "[vdso]");
	EXPECT_STR(as->mappings[6].path, "[vsyscall]");
	EXPECT(address_space_find(as, 0x7f0000001800) == &as->mappings[2]);
	EXPECT(address_space_find(as, 0x55d0c0000800) == NULL);
	/* The same text is kept once. */
	EXPECT(as->mappings[4].path == as->mappings[0].path);
}

TEST(bad_lines_are_skipped)
{
	static const char text[] =
		"\n"
		"garbage\n"
		"1000-2000 r-xp 00000000 fd:01 1 /first\n"
		"2000-1000 r-xp 00000000 fd:01 1 /backwards\n"
		"3000-3000 r-xp 00000000 fd:01 1 /empty\n"
		"3000-4000 r-x\n"
		"3000-4000 r-xp\n"
		"3000-4000 r-xp 0 fd:01\n"
		"3000-4000 r-xp 0 fd:01 \n"
		"3000-4000 r-xp 0 fd:01 12a /x\n"
		"3000-4000 r-xp 0 fd:1ffffffff 12 /x\n"
		"3000-10000000000000000 r-xp 0 fd:01 12 /x\n"
		"-4000 r-xp 0 fd:01 12 /x\n"
		"3000-4000 rwXp 0 fd:01 12 /x\n"
		"1800-2800 r-xp 00000000 fd:01 1 /overlaps\n"
		"0-1000 r-xp 00000000 fd:01 1 /steps-back\n"
		"5000-6000 r-xp 00000000 fd:01 1 /last\n"
		"7000-8000 r-xp 00000000";
	_cleanup_(address_space_unrefp) struct address_space *as = NULL;

	EXPECT_EQ(maps_parse(text, 1, 0, &as), 0);
	ASSERT(as != NULL && as->count == 2);
	EXPECT_STR(as->mappings[0].path, "/first");
	EXPECT_STR(as->mappings[1].path, "/last");
}

TEST(nothing)
{
	_cleanup_(address_space_unrefp) struct address_space *as = NULL;

	EXPECT_EQ(maps_parse("", 1, 0, &as), 0);
	ASSERT(as != NULL);
	EXPECT_EQ(as->count, 0);
	EXPECT(address_space_find(as, 0) == NULL);
}

/* A process with 5,000 mappings of 500 libraries must not hold up whoever asks: time is bounded loosely enough for a
 * sanitizer on a busy machine, and tightly enough to catch quadratic work. */
TEST(many_lines)
{
	enum { LINES = 5000, ROUNDS = 20 };
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	uint64_t start_ns;

	for (int i = 0; i < LINES; i++)
		strbuf_addf(&sb, "%x-%x r-xp %08x fd:01 %d                  /usr/lib/x86_64/libnumber%d.so.1\n",
			    0x10000000 + i * 0x2000, 0x10000000 + i * 0x2000 + 0x1000, i * 0x1000, i % 500, i % 500);
	ASSERT(sb.error == 0);
	start_ns = clock_monotonic_ns();
	for (int round = 0; round < ROUNDS; round++) {
		_cleanup_(address_space_unrefp) struct address_space *as = NULL;
		const char *low = NULL, *high = NULL;

		EXPECT_EQ(maps_parse(strbuf_str(&sb), 1, 0, &as), 0);
		ASSERT(as != NULL && as->count == LINES);
		EXPECT(as->mappings[4999].path == as->mappings[499].path);
		for (int i = 0; i < LINES; i++) {
			const char *p = as->mappings[i].path;

			low = !low || p < low ? p : low;
			high = !high || p > high ? p : high;
		}
		/* 500 paths of at most 34 bytes, not 5,000. */
		EXPECT(high - low < 500 * 34);
	}
	printf("# %d lines in %.2f ms\n", LINES, (double)(clock_monotonic_ns() - start_ns) / 1e6 / ROUNDS);
	EXPECT((clock_monotonic_ns() - start_ns) / ROUNDS < 100 * NSEC_PER_MSEC);
}

TEST(our_own)
{
	_cleanup_(address_space_unrefp) struct address_space *as = NULL;
	const struct mapping *m;
	struct proc_stat st;
	void *page;

	page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT(page != MAP_FAILED);
	EXPECT_EQ(proc_stat_read("/proc", (uint32_t)getpid(), &st), 0);
	EXPECT_EQ(maps_read("/proc", (uint32_t)getpid(), ticks_to_ns(st.start_ticks), &as), 0);
	ASSERT(as != NULL);
	m = address_space_find(as, (uint64_t)(uintptr_t)maps_read);
	ASSERT(m != NULL);
	EXPECT(strstr(m->path, "test_maps") != NULL);
	EXPECT(m->inode != 0);
	m = address_space_find(as, (uint64_t)(uintptr_t)page);
	ASSERT(m != NULL);
	EXPECT_EQ(m->inode, 0);
	EXPECT(address_space_find(as, (uint64_t)(uintptr_t)&st) == NULL);
	for (size_t i = 1; i < as->count; i++)
		EXPECT(as->mappings[i - 1].end <= as->mappings[i].start);
	(void)munmap(page, 4096);
}

TEST(another_process_now)
{
	struct address_space *as = NULL;
	struct proc_stat st;

	EXPECT_EQ(proc_stat_read("/proc", (uint32_t)getpid(), &st), 0);
	EXPECT_EQ(maps_read("/proc", (uint32_t)getpid(), ticks_to_ns(st.start_ticks + 1), &as), -ESRCH);
	EXPECT_EQ(maps_read("/proc", INT32_MAX, 0, &as), -ESRCH);
	EXPECT(as == NULL);
}

TEST_MAIN()
