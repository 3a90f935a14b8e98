/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <pwd.h>

#include "proc/procfs.h"
#include "temp_proc.h"

#define STAT                                                                                                           \
	"4711 (python3) S 42 4000 4000 0 -1 4194304 2000 0 5 0 10 20 0 0 20 0 3 0 123456 9000000 2500 "                \
	"18446744073709551615 1 1 0\n"
#define STATUS "Name:\tpy\\nUid:\t7\nUmask:\t0022\nPid:\t4711\nUid:\t%s\t0\t0\t0\nGid:\t0\t0\t0\t0\n"

static bool fill(const struct temp_proc *t, const char *uid)
{
	static const char cmdline[] = "python3\0train.py\0--name\0a b\0";
	char status[256];

	(void)snprintf(status, sizeof(status), STATUS, uid);
	return temp_proc_text(t, 4711, "stat", STAT) && temp_proc_text(t, 4711, "status", status) &&
	       temp_proc_file(t, 4711, "cmdline", cmdline, sizeof(cmdline) - 1) &&
	       temp_proc_text(t, 4711, "cgroup", "0::/user.slice/user-0.slice/user@0.service/app.slice/train.service\n") &&
	       temp_proc_link(t, 4711, "exe", "/usr/bin/python3.11 (deleted)");
}

TEST(everything)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(identity_unrefp) struct identity *id = NULL;

	ASSERT(temp_proc_new(&t) && fill(&t, "0"));
	EXPECT_EQ(identity_read(t.root, 4711, ticks_to_ns(123456) + 5, "older", &id), 0);
	ASSERT(id != NULL);
	EXPECT_EQ(id->pid, 4711);
	EXPECT_EQ(id->ppid, 42);
	EXPECT_EQ(id->start_ns, ticks_to_ns(123456) + 5);
	EXPECT_EQ(id->start_ticks, 123456);
	EXPECT_EQ(id->uid, 0);
	EXPECT_STR(id->user, "root");
	EXPECT_STR(id->comm, "python3");
	EXPECT_STR(id->exe, "/usr/bin/python3.11 (deleted)");
	EXPECT_STR(id->cmdline, "python3 train.py --name a b");
	EXPECT_STR(id->cgroup, "/user.slice/user-0.slice/user@0.service/app.slice/train.service");
	EXPECT_STR(id->unit, "user@0.service");
	EXPECT_STR(id->user_unit, "train.service");
	EXPECT(id->container == NULL);
	EXPECT(id->pod == NULL);
}

TEST(a_user_without_name)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(identity_unrefp) struct identity *id = NULL;

	ASSERT(!getpwuid(4000000123u));
	ASSERT(temp_proc_new(&t) && fill(&t, "4000000123"));
	EXPECT_EQ(identity_read(t.root, 4711, 0, NULL, &id), 0);
	ASSERT(id != NULL);
	EXPECT_EQ(id->uid, 4000000123u);
	EXPECT_STR(id->user, "4000000123");
	/* Without a start time from elsewhere: the tick's. */
	EXPECT_EQ(id->start_ticks, 123456);
	EXPECT_EQ(id->start_ns, ticks_to_ns(123456));
}

TEST(what_cannot_be_read_stays_unknown)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(identity_unrefp) struct identity *id = NULL;

	ASSERT(temp_proc_new(&t));
	ASSERT(temp_proc_text(&t, 4711, "stat", STAT));
	ASSERT(temp_proc_text(&t, 4711, "cgroup", "garbage"));
	ASSERT(temp_proc_text(&t, 4711, "status", "Name:\tx\n"));
	EXPECT_EQ(identity_read(t.root, 4711, 0, NULL, &id), 0);
	ASSERT(id != NULL);
	EXPECT_STR(id->comm, "python3");
	EXPECT_EQ(id->uid, UINT32_MAX);
	EXPECT(!id->user && !id->exe && !id->cmdline && !id->cgroup && !id->unit && !id->user_unit && !id->container);
}

TEST(command_lines)
{
	static const struct {
		const char *raw;
		size_t len;
		const char *expected;
	} cases[] = {
		{ "", 0, NULL },
		{ "\0\0\0", 3, NULL },
		{ "one", 3, "one" },
		{ "nginx: worker\0\0\0\0", 17, "nginx: worker" },
		{ "a\0\0b\0", 5, "a  b" },
		{ "a\nb\0\xff", 5, "a\nb \xff" },
	};
	char big[IDENTITY_CMDLINE_MAX + 100];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
		_cleanup_(identity_unrefp) struct identity *id = NULL;

		ASSERT(temp_proc_new(&t) && fill(&t, "0"));
		ASSERT(temp_proc_file(&t, 4711, "cmdline", cases[i].raw, cases[i].len));
		EXPECT_EQ(identity_read(t.root, 4711, 0, NULL, &id), 0);
		ASSERT(id != NULL);
		if (cases[i].expected)
			EXPECT_STR(id->cmdline, cases[i].expected);
		else
			EXPECT(id->cmdline == NULL);
	}

	memset(big, 'x', sizeof(big));
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(identity_unrefp) struct identity *id = NULL;

	ASSERT(temp_proc_new(&t) && fill(&t, "0") && temp_proc_file(&t, 4711, "cmdline", big, sizeof(big)));
	EXPECT_EQ(identity_read(t.root, 4711, 0, NULL, &id), 0);
	ASSERT(id != NULL && id->cmdline != NULL);
	EXPECT_EQ(strlen(id->cmdline), IDENTITY_CMDLINE_MAX);
}

TEST(gone)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(identity_unrefp) struct identity *id = NULL;

	ASSERT(temp_proc_new(&t));
	EXPECT_EQ(identity_read(t.root, 4711, ticks_to_ns(77) + 1, "train", &id), -ESRCH);
	ASSERT(id != NULL);
	EXPECT_EQ(id->pid, 4711);
	EXPECT_EQ(id->start_ns, ticks_to_ns(77) + 1);
	EXPECT_EQ(id->start_ticks, 77);
	EXPECT_EQ(id->uid, UINT32_MAX);
	EXPECT_STR(id->comm, "train");
	EXPECT(id->exe == NULL);
}

/* The pid went to another process: nothing of that one may be told. */
TEST(reused)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(identity_unrefp) struct identity *id = NULL;

	ASSERT(temp_proc_new(&t) && fill(&t, "0"));
	EXPECT_EQ(identity_read(t.root, 4711, ticks_to_ns(123455), NULL, &id), -ESRCH);
	ASSERT(id != NULL);
	EXPECT_EQ(id->start_ticks, 123455);
	EXPECT_EQ(id->ppid, 0);
	EXPECT(!id->comm && !id->exe && !id->cmdline && !id->user && !id->cgroup && !id->unit);
}

TEST(ourselves)
{
	_cleanup_(identity_unrefp) struct identity *id = NULL;
	char exe[4096] = "";

	EXPECT_EQ(identity_read("/proc", (uint32_t)getpid(), 0, NULL, &id), 0);
	ASSERT(id != NULL);
	ASSERT(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	EXPECT_STR(id->exe, exe);
	EXPECT_STR(id->comm, "test_identity");
	EXPECT_EQ(id->uid, getuid());
	EXPECT_EQ(id->ppid, getppid());
	EXPECT(id->cgroup != NULL && id->cgroup[0] == '/');
	EXPECT(id->cmdline != NULL);
}

TEST_MAIN()
