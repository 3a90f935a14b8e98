/* SPDX-License-Identifier: MIT */
/* Records wait for their stacks, and not for long. */
#include <stdatomic.h>

#include "reporter_journal.h"
#include "test.h"

/* One that the resolver has not seen to yet. */
static struct stack *make_raw_stack(void)
{
	static uint64_t last;
	struct event_stack ev = { .head = { .type = EVENT_STACK, .pid = 4711, .stack = ++last } };
	struct stack *s = stack_new(&ev);

	if (!s)
		abort();
	return s;
}

/* What the resolver does. */
static void resolve(struct stack *s)
{
	struct frames *f = calloc(1, sizeof(*f));

	if (!f)
		abort();
	f->list = calloc(1, sizeof(*f->list));
	if (!f->list)
		abort();
	f->count = 1;
	f->list[0] = (struct frame){ .kind = FRAME_PYTHON, .function = "forward", .file = "net.py", .line = 12 };
	stack_set_frames(s, f);
}

static void push_with_stack(struct reporter *r, struct stack *s)
{
	struct report *report = make_report(REPORT_SINGLE_ALLOC);

	report->stack = stack_ref(s);
	reporter_push(r, report);
}

static uint64_t journal_len(struct journal *j)
{
	uint64_t n;

	pthread_mutex_lock(&j->lock);
	n = j->len;
	pthread_mutex_unlock(&j->lock);
	return n;
}

TEST(record_waits_for_its_stack)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 256, 0);
	_cleanup_(stack_unrefp) struct stack *late = make_raw_stack(), *early = make_raw_stack();

	ASSERT(r);
	resolve(early);
	push_with_stack(r, early);
	EXPECT(settle(r));
	EXPECT_EQ(j.stacks, 1);
	push_with_stack(r, late);
	(void)usleep(200000);
	EXPECT_EQ(journal_len(&j), 1);
	resolve(late);
	EXPECT(settle(r));
	EXPECT_EQ(j.stacks, 2);
	EXPECT_STR(j.stack, "forward (net.py:12)");
	EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);
	EXPECT_EQ(j.wrong, 0);
}

/* A record without its stack is better than none; and a resolver that hangs costs the records behind it little. */
TEST(stack_that_is_not_resolved)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 256, 0);
	_cleanup_(stack_unrefp) struct stack *never = make_raw_stack(), *known = make_raw_stack(), *late = make_raw_stack();
	uint64_t before = clock_monotonic_ns(), took;

	ASSERT(r);
	for (int i = 0; i < 20; i++)
		push_with_stack(r, never);
	EXPECT(settle(r));
	took = clock_monotonic_ns() - before;
	EXPECT(took > NSEC_PER_SEC && took < 5 * NSEC_PER_SEC);
	EXPECT_EQ(j.len, 20);
	EXPECT_EQ(j.stacks, 0);
	/* It works again: it gets its time again. */
	resolve(known);
	push_with_stack(r, known);
	EXPECT(settle(r));
	push_with_stack(r, late);
	(void)usleep(300000);
	EXPECT_EQ(journal_len(&j), 21);
	resolve(late);
	EXPECT(settle(r));
	EXPECT_EQ(j.stacks, 2);
	EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);
	EXPECT_EQ(j.wrong, 0);
}

TEST(stop_waits_a_second_for_all_stacks)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 256, 0);
	_cleanup_(stack_unrefp) struct stack *never = make_raw_stack();
	uint64_t before;

	ASSERT(r);
	for (int i = 0; i < 200; i++)
		push_with_stack(r, never);
	before = clock_monotonic_ns();
	EXPECT_EQ(reporter_stop(r, 60 * NSEC_PER_SEC), 0);
	EXPECT(clock_monotonic_ns() - before < 4 * NSEC_PER_SEC);
	EXPECT_EQ(j.len, 200);
}

/* The caller may free what it lent as soon as it is back. */
TEST(stop_with_no_time_for_a_stack)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 256, 0);
	_cleanup_(stack_unrefp) struct stack *never = make_raw_stack();
	uint64_t before;

	ASSERT(r);
	push_with_stack(r, never);
	(void)usleep(50000);
	before = clock_monotonic_ns();
	EXPECT_EQ(reporter_stop(r, NSEC_PER_SEC / 10), 1);
	EXPECT(clock_monotonic_ns() - before < NSEC_PER_SEC * 8 / 10);
	EXPECT_EQ(j.attempts, 0);
	/* It gives up its wait instead of being left behind in it. */
	for (int i = 0; i < 40 && atomic_load(&never->refs) > 1; i++)
		(void)usleep(10000);
	EXPECT_EQ(atomic_load(&never->refs), 1);
}

TEST(files_are_shared_with_the_resolver)
{
	struct journal j = JOURNAL_INIT;
	struct reporter_options o = { .sink = SINK_JOURNAL, .queue = 16, .out_fd = -1, .write = journal_write,
				      .userdata = &j };
	struct reporter *r = NULL;
	_cleanup_(stack_unrefp) struct stack *s = make_raw_stack();

	ASSERT(objects_new("/proc", 16, &o.objects) == 0);
	ASSERT(reporter_new(&o, &r) == 0);
	objects_unref(o.objects); /* it has its own reference */
	resolve(s);
	push_with_stack(r, s);
	EXPECT(settle(r));
	EXPECT_EQ(j.stacks, 1);
	EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);
	/* And gives it back when it cannot start. */
	ASSERT(objects_new("/proc", 16, &o.objects) == 0);
	o.write = NULL;
	o.sink = SINK_TEXT;
	EXPECT(reporter_new(&o, &r) < 0);
	objects_unref(o.objects);
}

TEST_MAIN()
