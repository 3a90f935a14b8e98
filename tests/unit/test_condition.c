/* SPDX-License-Identifier: MIT */
#include "model/process.h"
#include "proc/condition.h"
#include "temp_proc.h"
#include "test.h"

static bool put_stat(const struct temp_proc *t, unsigned int pid, char state, unsigned int ppid, unsigned int start)
{
	char text[256];

	(void)snprintf(text, sizeof(text), "%u (a) b) %c %u 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %u 0 0\n", pid, state, ppid,
		       start);
	return temp_proc_text(t, pid, "stat", text);
}

static uint32_t look(const struct temp_proc *t, unsigned int pid, uint32_t ppid)
{
	uint32_t condition = 99;

	EXPECT_EQ(proc_condition_read(t->root, pid, 700, ppid, &condition), 0);
	return condition;
}

TEST(conditions)
{
	_cleanup_(temp_proc_done) struct temp_proc t = { 0 };
	uint32_t condition = 99;
	char path[128];

	ASSERT(temp_proc_new(&t) && put_stat(&t, 5, 'S', 4, 700));
	EXPECT_EQ(look(&t, 5, 4), 0);
	EXPECT_EQ(look(&t, 5, 0), 0);
	EXPECT_EQ(look(&t, 5, 3), CONDITION_PARENT_GONE);
	ASSERT(put_stat(&t, 5, 'D', 1, 700));
	EXPECT_EQ(look(&t, 5, 4), CONDITION_UNINTERRUPTIBLE | CONDITION_PARENT_GONE);
	ASSERT(put_stat(&t, 5, 'Z', 4, 700));
	EXPECT_EQ(look(&t, 5, 4), CONDITION_ZOMBIE);
	/* Its first thread has ended, others have not. */
	(void)snprintf(path, sizeof(path), "%s/5/task", t.root);
	ASSERT(mkdir(path, 0700) == 0);
	(void)snprintf(path, sizeof(path), "%s/5/task/5", t.root);
	ASSERT(mkdir(path, 0700) == 0);
	EXPECT_EQ(look(&t, 5, 4), CONDITION_ZOMBIE);
	(void)snprintf(path, sizeof(path), "%s/5/task/6", t.root);
	ASSERT(mkdir(path, 0700) == 0);
	EXPECT_EQ(look(&t, 5, 4), 0);
	/* Nobody, and somebody else. */
	EXPECT_EQ(proc_condition_read(t.root, 6, 700, 4, &condition), -ESRCH);
	EXPECT_EQ(proc_condition_read(t.root, 5, 701, 4, &condition), -ESRCH);
	EXPECT_EQ(condition, 99);
}

TEST_MAIN()
