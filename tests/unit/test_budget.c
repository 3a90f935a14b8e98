/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "record/budget.h"
#include "record/queue.h"
#include "test.h"

#define SEC NSEC_PER_SEC

static bool admit(struct budget *b, enum report_event event, enum severity severity, uint64_t now_ns)
{
	struct report r = { .event = event, .severity = severity };

	return budget_admit(b, &r, now_ns);
}

TEST(budget_of_a_minute)
{
	struct budget b = { .per_minute = 3 };
	uint64_t t = 1000 * SEC;
	char text[256];

	for (int i = 0; i < 3; i++)
		EXPECT(admit(&b, REPORT_LEAK, SEVERITY_WARNING, t));
	EXPECT_EQ(budget_due_ns(&b), UINT64_MAX);
	EXPECT(!admit(&b, REPORT_LEAK, SEVERITY_WARNING, t + 10 * SEC));
	EXPECT(!admit(&b, REPORT_LEAK, SEVERITY_ERROR, t + 59 * SEC));
	EXPECT(!admit(&b, REPORT_LEAK, SEVERITY_WARNING, t + 59 * SEC));
	EXPECT_EQ(budget_due_ns(&b), t + 60 * SEC);
	/* The next minute has begun, though the summary of the last is not out yet. */
	EXPECT(admit(&b, REPORT_LEAK, SEVERITY_WARNING, t + 60 * SEC));
	EXPECT_EQ(budget_due_ns(&b), t + 60 * SEC);
	budget_summary(&b, text, sizeof(text));
	EXPECT_STR(text, "3 records held back within a minute, over the budget of 3 a minute: 1 error, 2 warning");
	EXPECT_EQ(budget_due_ns(&b), UINT64_MAX);
	EXPECT(admit(&b, REPORT_LEAK, SEVERITY_WARNING, t + 61 * SEC));
	EXPECT(admit(&b, REPORT_LEAK, SEVERITY_WARNING, t + 62 * SEC));
	EXPECT(!admit(&b, REPORT_LEAK, SEVERITY_WARNING, t + 63 * SEC));
	EXPECT_EQ(budget_due_ns(&b), t + 120 * SEC);
	budget_summary(&b, text, sizeof(text));
	EXPECT_STR(text, "1 record held back within a minute, over the budget of 3 a minute: 1 warning");
}

TEST(critical_has_ten_times_as_much_and_the_daemon_all)
{
	struct budget b = { .per_minute = 2 };
	uint64_t t = 1;

	for (int i = 0; i < 2; i++)
		EXPECT(admit(&b, REPORT_LEAK, SEVERITY_INFO, t));
	EXPECT(!admit(&b, REPORT_LEAK, SEVERITY_ERROR, t));
	for (int i = 0; i < 20; i++)
		EXPECT(admit(&b, REPORT_LEAK, SEVERITY_CRITICAL, t));
	EXPECT(!admit(&b, REPORT_LEAK, SEVERITY_CRITICAL, t));
	for (int i = 0; i < 100; i++)
		EXPECT(admit(&b, REPORT_HEALTH, SEVERITY_INFO, t));
	EXPECT_EQ(b.held, 2);
}

TEST(no_budget)
{
	struct budget b = {};

	for (int i = 0; i < 100000; i++)
		EXPECT(admit(&b, REPORT_LEAK, SEVERITY_INFO, 1));
}

static int numbers[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };

static int push(struct queue *q, int n, unsigned rank)
{
	void *out;

	queue_push(q, &numbers[n], rank, &out);
	return out ? *(int *)out : -1;
}

static int pop(struct queue *q)
{
	void *p = queue_pop(q);

	return p ? *(int *)p : -1;
}

TEST(queue_keeps_the_order)
{
	struct queue q;

	queue_init(&q, 4);
	EXPECT_EQ(pop(&q), -1);
	EXPECT_EQ(push(&q, 0, 2), -1);
	EXPECT_EQ(push(&q, 1, 4), -1);
	EXPECT_EQ(push(&q, 2, 0), -1);
	EXPECT_EQ(pop(&q), 0);
	EXPECT_EQ(push(&q, 3, 2), -1);
	EXPECT_EQ(q.len, 3);
	EXPECT_EQ(pop(&q), 1);
	EXPECT_EQ(pop(&q), 2);
	EXPECT_EQ(pop(&q), 3);
	EXPECT_EQ(pop(&q), -1);
	EXPECT_EQ(q.len, 0);
}

TEST(full_queue_drops_the_oldest_of_the_lowest)
{
	struct queue q;

	queue_init(&q, 3);
	(void)push(&q, 0, 1);
	(void)push(&q, 1, 3);
	(void)push(&q, 2, 1);
	EXPECT_EQ(push(&q, 3, 0), 3); /* lower than all */
	EXPECT_EQ(push(&q, 4, 1), 0); /* the oldest of its own */
	EXPECT_EQ(push(&q, 5, 4), 2);
	EXPECT_EQ(push(&q, 6, 4), 4);
	EXPECT_EQ(push(&q, 7, 4), 1);
	EXPECT_EQ(pop(&q), 5);
	EXPECT_EQ(pop(&q), 6);
	EXPECT_EQ(pop(&q), 7);
	EXPECT_EQ(pop(&q), -1);

	queue_init(&q, 0);
	EXPECT_EQ(push(&q, 0, 4), 0);
}

TEST_MAIN()
