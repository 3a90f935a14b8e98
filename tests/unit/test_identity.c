/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <pwd.h>

#include "proc/procfs.h"
#include "temp_proc.h"

#define STAT                                                                                                           \
	"4711 (python3) S 42 4000 4000 0 -1 4194304 2000 0 5 0 10 20 0 0 20 0 3 0 123456 9000000 2500 "                \
	"18446744073709551615 1 1 0\n"
#define STATUS                                                                                                         \
	"Name:\tpy\\nUid:\t7\nUmask:\t0022\nPid:\t4711\nUid:\t%s\t0\t0\t0\nGid:\t0\t0\t0\t0\nNSpid:\t4711\n"

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define HEX32 "0123456789abcdef0123456789abcdef"

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
	EXPECT_STR(id->slice, "app.slice");
	EXPECT(!id->container && !id->runtime && !id->pod && !id->slurm_job && !id->parent);
	EXPECT_EQ(id->inner_pid, 0);
}

TEST(where_it_runs)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(identity_unrefp) struct identity *id = NULL;

	ASSERT(temp_proc_new(&t) && fill(&t, "0"));
	ASSERT(temp_proc_text(&t, 4711, "cgroup",
			      "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0/libpod-" HEX64));
	EXPECT_EQ(identity_read(t.root, 4711, 0, NULL, &id), 0);
	ASSERT(id != NULL);
	EXPECT_STR(id->slice, "system.slice");
	EXPECT_STR(id->unit, "slurmstepd.scope");
	EXPECT_STR(id->slurm_job, "12.0");
	EXPECT_STR(id->container, HEX64);
	EXPECT_STR(id->runtime, "podman");
}

/* What a process has in its environment is its own affair. */
TEST(environment)
{
	static const char environ[] = "SLURM_JOB_ID=99\0SLURM_STEP_ID=0\0";
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(identity_unrefp) struct identity *id = NULL;

	ASSERT(temp_proc_new(&t) && fill(&t, "0") && temp_proc_file(&t, 4711, "environ", environ, sizeof(environ) - 1));
	EXPECT_EQ(identity_read(t.root, 4711, 0, NULL, &id), 0);
	ASSERT(id != NULL);
	EXPECT(id->slurm_job == NULL);
	EXPECT(id->tag == NULL);
}

/* With this much of the environment, NUL bytes and all. */
static void expect_tag(const char *variables, size_t len, const char *expected)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(identity_unrefp) struct identity *id = NULL, *copy = NULL;

	ASSERT(temp_proc_new(&t) && fill(&t, "0") && temp_proc_file(&t, 4711, "environ", variables, len));
	EXPECT_EQ(identity_read(t.root, 4711, 0, NULL, &id), 0);
	ASSERT(id != NULL);
	if (!expected) {
		EXPECT(id->tag == NULL);
		return;
	}
	EXPECT_STR(id->tag, expected);
	copy = identity_copy(id);
	ASSERT(copy != NULL);
	EXPECT_STR(copy->tag, expected);
}

#define TAG_100 "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
#define TAG_127 TAG_100 "012345678901234567890123456"

TEST(tag)
{
	static const char middle[] = "PATH=/bin\0GPUXRAY_TAG=team-a/exp 7\0HOME=/";
	static const char others[] = "XGPUXRAY_TAG=x\0GPUXRAY_TAGS=y\0GPUXRAY_TAG\0gpuxray_tag=z";
	static const char empty[] = "GPUXRAY_TAG=\0A=b";
	static const char raw[] = "GPUXRAY_TAG=\x1b[31m\xff\n";
	static const char exact[] = "GPUXRAY_TAG=" TAG_127 "8\0";
	static const char longer[] = "GPUXRAY_TAG=" TAG_127 "89\0";
	static const char split[] = "GPUXRAY_TAG=" TAG_127 "\xc3\xa9\0";
	static const char first[] = "GPUXRAY_TAG=first\0GPUXRAY_TAG=second";

	expect_tag(middle, sizeof(middle), "team-a/exp 7");
	expect_tag(others, sizeof(others), NULL);
	expect_tag(empty, sizeof(empty), NULL);
	expect_tag("", 0, NULL);
	/* As it is: what writes it escapes it. */
	expect_tag(raw, sizeof(raw), "\x1b[31m\xff\n");
	expect_tag(exact, sizeof(exact), TAG_127 "8");
	expect_tag(longer, sizeof(longer), TAG_127 "8");
	expect_tag(split, sizeof(split), TAG_127);
	expect_tag(first, sizeof(first), "first");
}

static void expect_parent(const char *stat_of_42, const char *expected)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(identity_unrefp) struct identity *id = NULL;

	ASSERT(temp_proc_new(&t) && fill(&t, "0") && temp_proc_text(&t, 42, "stat", stat_of_42));
	EXPECT_EQ(identity_read(t.root, 4711, 0, NULL, &id), 0);
	ASSERT(id != NULL);
	if (expected)
		EXPECT_STR(id->parent, expected);
	else
		EXPECT(id->parent == NULL);
}

TEST(parent)
{
	expect_parent("42 (sh) -c (x)) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 123455 0", "sh) -c (x)");
	/* In the same tick, and after it: then the pid is somebody else's by now. */
	expect_parent("42 (bash) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 123456 0", "bash");
	expect_parent("42 (bash) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 123457 0", NULL);
	expect_parent("garbage", NULL);
}

static void expect_inner(const char *ns_pids, uint32_t expected)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(identity_unrefp) struct identity *id = NULL;
	char status[256];

	ASSERT(temp_proc_new(&t) && fill(&t, "0"));
	(void)snprintf(status, sizeof(status), "Name:\tx\nUid:\t0\t0\nNSpid:\t%s\n", ns_pids);
	ASSERT(temp_proc_text(&t, 4711, "status", status));
	EXPECT_EQ(identity_read(t.root, 4711, 0, NULL, &id), 0);
	ASSERT(id != NULL);
	EXPECT_EQ(id->inner_pid, expected);
}

TEST(inner_pid)
{
	expect_inner("4711", 0);
	expect_inner("4711\t17", 17);
	expect_inner("4711\t17\t1", 1);
	expect_inner("4711\t17\t4711", 0);
	expect_inner("4711\tgarbage", 0);
}

#define THREAD_STAT "%u (python3) %c 42 4000 4000 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 123456 0"

static bool add_thread(const struct temp_proc *t, unsigned int tid, char state, bool has_image)
{
	char path[512], name[64], stat[128];

	(void)snprintf(path, sizeof(path), "%s/4711/task", t->root);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return false;
	(void)snprintf(path, sizeof(path), "%s/4711/task/%u", t->root, tid);
	(void)snprintf(name, sizeof(name), "task/%u/stat", tid);
	(void)snprintf(stat, sizeof(stat), THREAD_STAT, tid, state);
	if (mkdir(path, 0700) < 0 || !temp_proc_text(t, 4711, name, stat))
		return false;
	if (!has_image)
		return true;
	(void)snprintf(name, sizeof(name), "task/%u/exe", tid);
	if (!temp_proc_link(t, 4711, name, "/usr/bin/python3"))
		return false;
	(void)snprintf(name, sizeof(name), "task/%u/cmdline", tid);
	if (!temp_proc_text(t, 4711, name, "python3"))
		return false;
	(void)snprintf(name, sizeof(name), "task/%u/cgroup", tid);
	return temp_proc_text(t, 4711, name, "4:memory:/docker/" HEX64 "\n0::/\n");
}

/* The first thread has ended: it is asked for what only it has, and another one for the rest. */
TEST(a_leader_that_ended)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(identity_unrefp) struct identity *id = NULL, *dead = NULL;
	char stat[128];

	(void)snprintf(stat, sizeof(stat), THREAD_STAT, 4711, 'Z');
	ASSERT(temp_proc_new(&t) && temp_proc_text(&t, 4711, "stat", stat));
	ASSERT(temp_proc_text(&t, 4711, "status", "Name:\tx\nUid:\t0\t0\nNSpid:\t4711\t3\n"));
	ASSERT(temp_proc_text(&t, 4711, "cmdline", "") && temp_proc_text(&t, 4711, "cgroup", "4:memory:/\n0::/\n"));
	ASSERT(add_thread(&t, 4711, 'Z', false) && add_thread(&t, 4712, 'X', false));
	/* Nobody left: what a zombie has. */
	EXPECT_EQ(identity_read(t.root, 4711, 0, NULL, &dead), 0);
	ASSERT(dead != NULL);
	EXPECT_STR(dead->comm, "python3");
	EXPECT_STR(dead->cgroup, "/");
	EXPECT_STR(dead->user, "root");
	EXPECT(!dead->exe && !dead->cmdline && !dead->container);

	ASSERT(add_thread(&t, 4713, 'S', true));
	EXPECT_EQ(identity_read(t.root, 4711, 0, NULL, &id), 0);
	ASSERT(id != NULL);
	EXPECT_EQ(id->pid, 4711);
	EXPECT_STR(id->exe, "/usr/bin/python3");
	EXPECT_STR(id->cmdline, "python3");
	EXPECT_STR(id->container, HEX64);
	EXPECT_STR(id->user, "root");
	EXPECT_EQ(id->inner_pid, 3);
}

/* Room is made for all the groups a process may be in. */
TEST(many_groups)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(identity_unrefp) struct identity *id = NULL;
	_cleanup_free_ char *status = malloc(65536 * 11 + 256);
	char *p = status;

	ASSERT(status != NULL);
	p += sprintf(p, "Name:\tx\nUid:\t0\t0\nGroups:\t");
	for (unsigned int i = 0; i < 65536; i++)
		p += sprintf(p, "%u ", 4000000000u + i);
	(void)sprintf(p, "\nNSpid:\t4711\t17\n");
	ASSERT(temp_proc_new(&t) && fill(&t, "0") && temp_proc_text(&t, 4711, "status", status));
	EXPECT_EQ(identity_read(t.root, 4711, 0, NULL, &id), 0);
	ASSERT(id != NULL);
	EXPECT_EQ(id->inner_pid, 17);
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
	EXPECT(!id->comm && !id->exe && !id->cmdline && !id->user && !id->cgroup && !id->unit && !id->slice);
	EXPECT(id->parent == NULL);
	EXPECT_EQ(id->inner_pid, 0);
}

TEST(copy)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	_cleanup_(identity_unrefp) struct identity *id = NULL, *copy = NULL;

	ASSERT(temp_proc_new(&t) && fill(&t, "0"));
	ASSERT(temp_proc_text(&t, 4711, "cgroup",
			      "0::/kubepods.slice/kubepods-pod" HEX32 ".slice/slurm/uid_0/job_1/crio-" HEX64));
	ASSERT(temp_proc_text(&t, 4711, "status", "Name:\tx\nUid:\t0\t0\nNSpid:\t4711\t3\n"));
	ASSERT(temp_proc_text(&t, 42, "stat", "42 (bash) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 0"));
	EXPECT_EQ(identity_read(t.root, 4711, ticks_to_ns(123456) + 7, NULL, &id), 0);
	ASSERT(id != NULL);
	copy = identity_copy(id);
	ASSERT(copy != NULL);
	/* Nothing shared, nothing left out. */
	identity_unref(TAKE_PTR(id));
	EXPECT(copy->pid == 4711 && copy->ppid == 42 && copy->uid == 0 && copy->inner_pid == 3);
	EXPECT(copy->start_ns == ticks_to_ns(123456) + 7 && copy->start_ticks == 123456);
	EXPECT_STR(copy->comm, "python3");
	EXPECT_STR(copy->exe, "/usr/bin/python3.11 (deleted)");
	EXPECT_STR(copy->cmdline, "python3 train.py --name a b");
	EXPECT_STR(copy->user, "root");
	EXPECT_STR(copy->cgroup, "/kubepods.slice/kubepods-pod" HEX32 ".slice/slurm/uid_0/job_1/crio-" HEX64);
	EXPECT(copy->unit == NULL);
	EXPECT_STR(copy->slice, "kubepods-pod" HEX32 ".slice");
	EXPECT_STR(copy->container, HEX64);
	EXPECT_STR(copy->runtime, "cri-o");
	EXPECT_STR(copy->pod, HEX32);
	EXPECT_STR(copy->slurm_job, "1");
	EXPECT_STR(copy->parent, "bash");
}

static void expect_renamed(uint32_t uid, const char *user, const char *expected)
{
	_cleanup_(identity_unrefp) struct identity *id = identity_new(), *named = NULL;

	ASSERT(id != NULL);
	id->pid = 4711;
	id->uid = uid;
	id->user = user ? strdup(user) : NULL;
	id->comm = strdup("train");
	EXPECT_EQ(identity_rename(id, &named), 0);
	if (!expected) {
		EXPECT(named == NULL);
		return;
	}
	ASSERT(named != NULL);
	EXPECT_STR(named->user, expected);
	EXPECT_STR(named->comm, "train");
	EXPECT_EQ(named->pid, 4711);
}

TEST(a_name_that_comes_late)
{
	expect_renamed(0, "0", "root");
	expect_renamed(0, "root", NULL);
	expect_renamed(0, "once", NULL);
	expect_renamed(0, NULL, NULL);
	expect_renamed(UINT32_MAX, "7", NULL);
	expect_renamed(4000000123u, "4000000123", NULL);
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
	EXPECT(id->parent != NULL);
	EXPECT_EQ(id->inner_pid, 0);
	EXPECT(id->cgroup != NULL && id->cgroup[0] == '/');
	EXPECT(id->cmdline != NULL);
}

TEST_MAIN()
