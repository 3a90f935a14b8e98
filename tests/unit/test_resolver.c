/* SPDX-License-Identifier: MIT */
/* From copy to frames, what the probe is told, and what is known again. */
#include "resolver_make.h"

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, timeout_ms) == 1;
}

static void expect_chain(const struct event_stack *ev, const struct stack *s)
{
	const struct frames *f = s ? stack_frames(s) : NULL;

	ASSERT(f && f->count > CHAIN + 2);
	EXPECT(!f->info);
	if (f->info)
		printf("# %s\n", f->info);
	EXPECT_EQ(f->list[0].pc, ev->regs.ip);
	EXPECT(f->list[0].is_exact && !f->list[1].is_exact);
	EXPECT(f->list[1].pc > (uint64_t)inner && f->list[1].pc < (uint64_t)inner + 4096);
	for (size_t i = 0; i < CHAIN; i++)
		EXPECT_EQ(f->list[i + 2].pc, taken.chain[i]);
	for (size_t i = 0; i < f->count; i++) {
		EXPECT_EQ(f->list[i].kind, FRAME_NATIVE);
		EXPECT(f->list[i].mapping && !f->list[i].is_allocator && !f->list[i].is_guessed);
	}
	EXPECT(f->id && f->site && f->exact);
}

TEST(frames_and_what_the_probe_is_told)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(16, 64);
	struct event_stack *ev[2] = {};
	struct stack *s[2] = {};
	struct resolver_stats st;
	size_t taken_count = 0;
	volatile int twice = 2;

	ASSERT(f);
	EXPECT(!is_readable(resolver_fd(f->resolver), 0));
	/* Twice the same: from one place, which the compiler must leave one. */
	for (int i = 0; i < twice; i++)
		ev[i] = take_event((uint64_t)i + 1, false);
	ASSERT(ev[0] && ev[1]);
	s[0] = push(f, ev[0]);
	ASSERT(is_readable(resolver_fd(f->resolver), 10000));
	EXPECT_EQ(resolver_take(f->resolver, count_taken, &taken_count), 1);
	EXPECT_EQ(taken_count, 1);
	EXPECT(!is_readable(resolver_fd(f->resolver), 0));
	EXPECT_EQ(resolver_take(f->resolver, count_taken, &taken_count), 0);
	expect_chain(ev[0], s[0]);
	EXPECT(!s[0]->raw);

	ASSERT(f->learned_len == 1);
	EXPECT_EQ(f->learned[0].key, ev[0]->path);
	EXPECT_EQ(f->learned[0].path.stack, 1);
	EXPECT(f->learned[0].path.slots >= CHAIN + 1);
	EXPECT_EQ(f->learned[0].path.slot[0], 0);
	EXPECT_EQ(f->learned[0].path.hash, learn_hash(ev[0], &f->learned[0].path));
	EXPECT_EQ(f->learned[0].path.hash, learn_hash(ev[1], &f->learned[0].path));

	/* Known by now: the same frames, and nothing new to be told. It was taken before it was learned. */
	s[1] = push_wait(f, ev[1]);
	ASSERT(s[0] && s[1]);
	EXPECT(stack_frames(s[0]) == stack_frames(s[1]));
	EXPECT_EQ(learned_len(f), 1);
	EXPECT(WAIT_FOR(stats_of(f).queued == 0));
	st = stats_of(f);
	EXPECT_EQ(st.resolved, 1);
	EXPECT_EQ(st.repeated, 1);
	EXPECT_EQ(st.learned, 1);
	EXPECT_EQ(st.nodes, 1);
	EXPECT_EQ(st.incomplete + st.dropped + st.unlearnable + st.learn_failed + st.relearned + st.checked, 0);

	/* Taken after it: then the probe's map has lost it, and gets the same again. */
	stack_unref(s[1]);
	ev[1]->head.time_ns = clock_monotonic_ns();
	s[1] = push_wait(f, ev[1]);
	ASSERT(s[1] && learned_len(f) == 2);
	EXPECT_EQ(f->learned[1].key, f->learned[0].key);
	EXPECT_EQ(f->learned[1].is_taken_away, f->learned[0].is_taken_away);
	EXPECT(memcmp(&f->learned[1].path, &f->learned[0].path, sizeof(f->learned[0].path)) == 0);
	stack_unref(s[0]);
	stack_unref(s[1]);
	free(ev[0]);
	free(ev[1]);
}

/* Not from what is remembered: under another key, and by another resolver. */
TEST(ids_of_one_chain_are_equal)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(16, 64), *g = fixture_new(16, 64);
	_cleanup_free_ struct event_stack *ev = take_event(1, false), *second = take_event(9, true);
	_cleanup_(stack_unrefp) struct stack *a = NULL, *b = NULL, *c = NULL, *d = NULL;
	const struct frames *x, *y;

	ASSERT(f && g && ev && second);
	a = push_wait(f, ev);
	ev->head.stack = 2;
	ev->path++;
	b = push_wait(f, ev);
	c = push_wait(g, ev);
	d = push_wait(f, second);
	ASSERT(a && b && c && d && stack_frames(a) && stack_frames(b) && stack_frames(c) && stack_frames(d));
	x = stack_frames(a);
	y = stack_frames(b);
	EXPECT(x != y);
	EXPECT(x->id == y->id && x->site == y->site && x->exact == y->exact);
	EXPECT(x->space == y->space);
	y = stack_frames(c);
	EXPECT(x->id == y->id && x->site == y->site && x->exact == y->exact);
	y = stack_frames(d);
	EXPECT(x->id != y->id && x->site != y->site && x->exact != y->exact);
	EXPECT_EQ(stats_of(f).repeated, 0);
}

/* Two under one key: a branch, and each is found. */
TEST(two_stacks_under_one_key)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(16, 64);
	_cleanup_free_ struct event_stack *second = take_event(2, true), *ev = NULL;
	_cleanup_(stack_unrefp) struct stack *a = NULL, *b = NULL, *c = NULL, *d = NULL;
	const uint64_t second_return = taken.chain[0];

	ev = take_event(1, false);
	ASSERT(f && ev && second);
	a = push_wait(f, ev);
	c = push_wait(f, ev);
	ASSERT(tamper(ev, taken.chain[0], second_return));
	ev->head.stack = 2;
	b = push_wait(f, ev);
	d = push_wait(f, ev);
	ASSERT(a && b && c && d);
	EXPECT(stack_frames(a) != stack_frames(b));
	EXPECT(stack_frames(a) == stack_frames(c));
	EXPECT(stack_frames(b) == stack_frames(d));
	EXPECT(WAIT_FOR(stats_of(f).queued == 0));
	EXPECT_EQ(stats_of(f).nodes, 3);
	EXPECT_EQ(stats_of(f).learned, 2);
	EXPECT_EQ(stats_of(f).repeated, 2);
}

TEST(copies_of_known_stacks_are_compared)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(16, 64);
	_cleanup_free_ struct event_stack *ev = NULL, *second = take_event(2, true);
	_cleanup_(stack_unrefp) struct stack *a = NULL, *b = NULL, *c = NULL, *d = NULL;
	const uint64_t second_return = taken.chain[0];
	size_t count = 0;

	ev = take_event(1, false);
	ASSERT(f && ev && second && taken.chain[0] != second_return);
	a = push_wait(f, ev);
	ev->flags |= STACK_F_CHECK;
	b = push_wait(f, ev);
	EXPECT(WAIT_FOR(stats_of(f).checked == 1));
	EXPECT_EQ(stats_of(f).mismatched, 0);
	EXPECT_EQ(stats_of(f).nodes, 1);

	ASSERT(tamper(ev, taken.chain[0], second_return));
	c = push_wait(f, ev);
	EXPECT(WAIT_FOR(stats_of(f).mismatched == 1));
	EXPECT_EQ(stats_of(f).checked, 2);
	EXPECT(WAIT_FOR(stats_of(f).nodes == 0));
	ASSERT(learned_len(f) == 2);
	EXPECT_EQ(f->learned[1].key, ev->path);
	EXPECT(f->learned[1].is_taken_away);

	/* What cannot be unwound this time says nothing. */
	ev->flags &= ~STACK_F_CHECK;
	d = push_wait(f, ev);
	ev->flags |= STACK_F_CHECK;
	ASSERT(tamper(ev, second_return, 0x1000));
	stack_unref(c);
	c = push_wait(f, ev);
	EXPECT(WAIT_FOR(stats_of(f).queued == 0));
	EXPECT_EQ(stats_of(f).checked, 2);
	EXPECT_EQ(stats_of(f).nodes, 1);
	/* Checks are no results. */
	EXPECT_EQ(resolver_take(f->resolver, count_taken, &count), 2);
}

TEST(too_many_waiting)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(2, 64);
	_cleanup_free_ struct event_stack *ev = take_event(1, false);
	struct stack *s[4] = {};
	size_t count = 0;

	ASSERT(f && ev);
	hold(f, true);
	for (uint64_t i = 0; i < 4; i++) {
		ev->head.stack = i + 1;
		ev->path += i;
		s[i] = push(f, ev);
		ASSERT(s[i]);
		if (i == 0)
			ASSERT(WAIT_FOR(is_holding(f)));
	}
	EXPECT(!stack_is_done(s[0]) && !stack_is_done(s[1]));
	for (size_t i = 2; i < 4; i++)
		EXPECT(stack_is_done(s[i]) && !stack_frames(s[i]) && !s[i]->raw);
	EXPECT_EQ(stats_of(f).dropped, 2);
	EXPECT_EQ(stats_of(f).queued, 2);
	hold(f, false);
	EXPECT(stack_wait(s[1], clock_monotonic_ns() + 5 * NSEC_PER_SEC) && stack_frames(s[1]));
	EXPECT(WAIT_FOR(stats_of(f).queued == 0));
	EXPECT_EQ(stats_of(f).dropped, 2);
	EXPECT_EQ(resolver_take(f->resolver, count_taken, &count), 2);
	for (size_t i = 0; i < 4; i++)
		stack_unref(s[i]);
}

/* Of a process that maps files without end one word is kept; the other jobs still find room. */
TEST(mapped_without_end)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(16, 64);
	_cleanup_free_ struct event_stack *ev = take_event(1, false);
	_cleanup_(stack_unrefp) struct stack *s = NULL;

	ASSERT(f && ev);
	hold(f, true);
	s = push(f, ev);
	ASSERT(s && WAIT_FOR(is_holding(f)));
	for (int i = 0; i < 200000; i++)
		resolver_mapped(f->resolver, ev->head.pid);
	resolver_forget(f->resolver, ev->head.pid, ev->head.start_ns);
	EXPECT_EQ(stats_of(f).dropped, 0);
	hold(f, false);
	EXPECT(stack_wait(s, clock_monotonic_ns() + 5 * NSEC_PER_SEC));
	EXPECT(WAIT_FOR(stats_of(f).learned == 1 && stats_of(f).nodes == 0));
}

TEST(forgetting)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(16, 64);
	_cleanup_free_ struct event_stack *ev = take_event(1, false);
	struct stack *s[5] = {};
	uint32_t pid;

	ASSERT(f && ev);
	pid = ev->head.pid;
	s[0] = push_wait(f, ev);
	EXPECT(WAIT_FOR(stats_of(f).nodes == 1));
	/* One stack: the probe is told, and the next copy is a new stack. */
	resolver_forget_stack(f->resolver, pid, 77);
	resolver_forget_stack(f->resolver, pid + 1, 1);
	resolver_forget_stack(f->resolver, pid, 1);
	EXPECT(WAIT_FOR(stats_of(f).nodes == 0));
	ASSERT(learned_len(f) == 2 && f->learned[1].is_taken_away && f->learned[1].key == ev->path);
	ev->head.stack = 2;
	s[1] = push_wait(f, ev);
	EXPECT(stack_frames(s[0]) != stack_frames(s[1]));
	ASSERT(learned_len(f) == 3);
	EXPECT_EQ(f->learned[2].path.stack, 2);

	/* The process: its keys are not used again, so nobody is told. Another start is another process. */
	resolver_forget(f->resolver, pid, ev->head.start_ns + NSEC_PER_SEC);
	ev->head.time_ns = 1;
	s[2] = push_wait(f, ev);
	EXPECT(stack_frames(s[1]) == stack_frames(s[2]));
	resolver_forget(f->resolver, pid, ev->head.start_ns);
	EXPECT(WAIT_FOR(stats_of(f).nodes == 0));
	EXPECT_EQ(learned_len(f), 3);
	s[3] = push_wait(f, ev);
	EXPECT(stack_frames(s[3]) && stack_frames(s[1]) != stack_frames(s[3]));
	EXPECT_EQ(learned_len(f), 4);

	/* With another start than known: as if it had been forgotten. The process with that start is not there. */
	ev->head.start_ns += NSEC_PER_SEC;
	s[4] = push_wait(f, ev);
	EXPECT(stack_frames(s[4]) && stack_frames(s[4])->info);
	EXPECT(WAIT_FOR(stats_of(f).nodes == 0));
	EXPECT_EQ(learned_len(f), 4);
	for (size_t i = 0; i < 5; i++)
		stack_unref(s[i]);
}

TEST(no_room_in_the_probe)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(16, 6);
	_cleanup_free_ struct event_stack *ev = take_event(1, false);
	_cleanup_(end_child) pid_t child = fork_idle();
	const uint64_t start_ns = child > 0 ? start_of(child) : 0;
	uint64_t path;

	ASSERT(f && ev && start_ns);
	path = ev->path;
	for (uint64_t i = 0; i < 12; i++) {
		ev->head.stack = i + 1;
		ev->path = path + i;
		stack_unref(push_wait(f, ev));
		EXPECT(WAIT_FOR(stats_of(f).queued == 0));
		EXPECT(stats_of(f).nodes <= 6);
		EXPECT_EQ(stats_of(f).relearned, i / 5);
	}
	EXPECT_EQ(stats_of(f).learned, 12);
	EXPECT_EQ(stats_of(f).nodes, 2);
	/* What another process has taken away is the room of the one that has most, not its own. */
	ev->head.pid = (uint32_t)child;
	ev->head.start_ns = start_ns;
	for (uint64_t i = 20; i < 23; i++) {
		ev->head.stack = i;
		ev->path = i;
		stack_unref(push_wait(f, ev));
	}
	EXPECT(WAIT_FOR(stats_of(f).queued == 0 && stats_of(f).nodes == 5));
	ev->head.pid = (uint32_t)getpid();
	ev->head.start_ns = start_of(getpid());
	for (uint64_t i = 30; i < 32; i++) {
		ev->head.stack = i;
		ev->path = path + i;
		stack_unref(push_wait(f, ev));
	}
	EXPECT(WAIT_FOR(stats_of(f).queued == 0));
	EXPECT_EQ(stats_of(f).relearned, 3);
	EXPECT_EQ(stats_of(f).nodes, 4);
}

TEST(probe_that_cannot_be_told)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(16, 64);
	_cleanup_free_ struct event_stack *ev = take_event(1, false);
	_cleanup_(stack_unrefp) struct stack *a = NULL, *b = NULL;

	ASSERT(f && ev);
	f->learn_error = -E2BIG;
	a = push_wait(f, ev);
	EXPECT(a && stack_frames(a));
	EXPECT(WAIT_FOR(stats_of(f).learn_failed == 1));
	EXPECT_EQ(stats_of(f).learned + stats_of(f).unlearnable + stats_of(f).nodes, 0);
	pthread_mutex_lock(&f->lock);
	f->learn_error = 0;
	pthread_mutex_unlock(&f->lock);
	b = push_wait(f, ev);
	EXPECT(WAIT_FOR(stats_of(f).learned == 1));
	EXPECT_EQ(stats_of(f).repeated, 0);
}

/* Frames that lead nowhere: said so, not learned, and their mappings are not kept once for each. */
TEST(return_to_nowhere)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(16, 64);
	_cleanup_free_ struct event_stack *ev = take_event(1, false);
	_cleanup_(stack_unrefp) struct stack *a = NULL, *b = NULL;

	ASSERT(f && ev && tamper(ev, taken.chain[1], 0x1234));
	a = push_wait(f, ev);
	ev->head.stack = 2;
	ev->head.time_ns = clock_monotonic_ns();
	b = push_wait(f, ev);
	ASSERT(a && b && stack_frames(a) && stack_frames(b));
	EXPECT(stack_frames(a)->info && stack_frames(a)->count >= 3);
	EXPECT(stack_frames(a) != stack_frames(b));
	EXPECT(stack_frames(a)->space == stack_frames(b)->space);
	EXPECT_EQ(learned_len(f), 0);
	EXPECT(WAIT_FOR(stats_of(f).incomplete == 2));
}

/* The name of a Python frame is asked for where no Python is known (any more). */
TEST(python_frames_without_python)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(16, 64);
	_cleanup_free_ struct event_stack *ev = take_event(1, false);
	_cleanup_(stack_unrefp) struct stack *s = NULL;

	ASSERT(f && ev);
	ev->flags |= STACK_F_PYTHON;
	ev->python.count = 3;
	s = push_wait(f, ev);
	ASSERT(s && stack_frames(s) && stack_frames(s)->info);
	EXPECT(strstr(stack_frames(s)->info, "3 Python frames without a name"));
}

struct waiter {
	struct stack *stack;
	bool is_done;
	uint64_t took_ns;
};

static void *wait_main(void *userdata)
{
	struct waiter *w = userdata;
	const uint64_t start = clock_monotonic_ns();

	w->is_done = stack_wait(w->stack, start + 8 * NSEC_PER_SEC);
	w->took_ns = clock_monotonic_ns() - start;
	return NULL;
}

TEST(waiting_in_another_thread)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(16, 64);
	_cleanup_free_ struct event_stack *ev = take_event(1, false);
	_cleanup_(stack_unrefp) struct stack *s = ev ? stack_new(ev) : NULL;
	struct waiter w = { .stack = s };
	pthread_t thread;

	ASSERT(f && s);
	EXPECT(!stack_wait(s, clock_monotonic_ns() + 10 * NSEC_PER_MSEC));
	ASSERT(pthread_create(&thread, NULL, wait_main, &w) == 0);
	(void)usleep(20000);
	resolver_push(f->resolver, s);
	ASSERT(pthread_join(thread, NULL) == 0);
	EXPECT(w.is_done && stack_frames(s));
	EXPECT(w.took_ns < 4 * NSEC_PER_SEC);
}

/* What waits when the resolver ends is done, without frames. */
TEST(end_with_stacks_waiting)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(16, 64);
	_cleanup_free_ struct event_stack *ev = take_event(1, false);
	_cleanup_(stack_unrefp) struct stack *a = NULL, *b = NULL;
	struct waiter w = {};
	pthread_t thread;

	ASSERT(f && ev);
	hold(f, true);
	a = push(f, ev);
	ASSERT(a && WAIT_FOR(is_holding(f)));
	ev->path++;
	w.stack = b = push(f, ev);
	ASSERT(b && pthread_create(&thread, NULL, wait_main, &w) == 0);
	hold(f, false);
	resolver_free(TAKE_PTR(f->resolver));
	ASSERT(pthread_join(thread, NULL) == 0);
	EXPECT(w.is_done && w.took_ns < 4 * NSEC_PER_SEC);
	EXPECT(stack_is_done(a) && stack_is_done(b));
}

/* LeakSanitizer: what a thread that was given up may still use is kept for good. */
static struct resolver *volatile abandoned;
static struct fixture *volatile abandoned_fixture;

TEST(end_with_a_thread_that_is_stuck)
{
	struct fixture *f = abandoned_fixture = fixture_new(16, 64);
	_cleanup_free_ struct event_stack *ev = take_event(1, false);
	_cleanup_(stack_unrefp) struct stack *a = NULL, *b = NULL;
	uint64_t start;

	ASSERT(f && ev);
	abandoned = f->resolver;
	hold(f, true);
	a = push(f, ev);
	ASSERT(a && WAIT_FOR(is_holding(f)));
	ev->path++;
	b = push(f, ev);
	ASSERT(b);
	start = clock_monotonic_ns();
	resolver_free(TAKE_PTR(f->resolver));
	EXPECT(clock_monotonic_ns() - start >= NSEC_PER_SEC && clock_monotonic_ns() - start < 4 * NSEC_PER_SEC);
	EXPECT(!stack_is_done(a) && stack_is_done(b) && !stack_frames(b));
	/* What was lent is gone, and is not used. */
	allocators_free(TAKE_PTR(f->allocators));
	objects_unref(TAKE_PTR(f->objects));
	hold(f, false);
	EXPECT(stack_wait(a, clock_monotonic_ns() + 5 * NSEC_PER_SEC));
	EXPECT(!stack_frames(a));
	EXPECT_EQ(learned_len(f), 1);
	(void)usleep(50000);
}

TEST_MAIN()
