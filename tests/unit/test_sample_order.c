/* SPDX-License-Identifier: MIT */
/* The history where not all can be told at once, or not as usual: crowds, late names, rebuilds, sleep. */
#include "engine_sim.h"

#define GPU "GPU-00000000-0000-0000-0000-000000000001"
#define MINUTE (60 * SEC)
#define HOUR (3600 * SEC)

static uint64_t wall(uint64_t ns)
{
	return SIM_REAL + ns / 1000;
}

static void begin_limits(struct sim *s, uint32_t per_minute, uint32_t queue)
{
	struct limits limits = LIMITS_DEFAULT;

	limits.history_per_minute = per_minute;
	limits.queue = queue;
	sim_new_limits(s, NULL, limits);
	engine_set_history(s->e, MINUTE);
}

static void begin(struct sim *s)
{
	begin_limits(s, 600, 256);
}

static void process(struct sim *s, uint32_t pid)
{
	sim_identify(s, pid, "train", "train.service", "ada");
	engine_set_ordinal(s->e, pid, pid * SEC, 0, GPU);
}

static size_t count(const struct sim *s, enum report_event event)
{
	size_t n = 0;

	for (size_t i = 0; i < s->len; i++)
		n += s->reports[i]->event == event;
	return n;
}

static size_t seen(const struct sim *s, uint32_t *counts, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < s->len; i++) {
		uint32_t pid = s->reports[i]->id->pid;

		if (pid < len && counts[pid]++ == 0)
			n++;
	}
	return n;
}

/* More than the budget: samples come later, and the interval is stretched until they fit. */
TEST(the_budget)
{
	struct limits limits = LIMITS_DEFAULT;
	struct history_stats stats;
	bool seen[201] = {};
	struct sim s;

	limits.history_per_minute = 60;
	sim_new_limits(&s, NULL, limits);
	engine_set_history(s.e, MINUTE);
	for (uint32_t pid = 1; pid <= 200; pid++)
		process(&s, pid);
	for (int m = 0; m < 30; m++) {
		size_t before = s.len;

		for (uint32_t pid = 1; pid <= 200; pid++)
			sim_alloc(&s, pid, (uint64_t)(m + 1) * 100 * MIB, 1);
		sim_pass(&s, MINUTE);
		EXPECT(s.len - before <= 60);
	}
	for (size_t i = 0; i < s.len; i++)
		seen[s.reports[i]->id->pid] = true;
	for (uint32_t pid = 1; pid <= 200; pid++)
		EXPECT(seen[pid]);
	engine_history_stats(s.e, &stats);
	EXPECT(stats.stretch >= 4 && stats.delayed > 0 && stats.lost == 0 && stats.told == s.len);
	sim_clear(&s);
	sim_pass(&s, MINUTE);
	sim_clear(&s);
	for (uint32_t pid = 1; pid <= 200; pid++)
		sim_simple(&s, EVENT_EXIT, pid);
	EXPECT(count(&s, REPORT_PROCESS_EXIT) <= 120);
	engine_history_stats(s.e, &stats);
	EXPECT_EQ(stats.lost, 200 - count(&s, REPORT_PROCESS_EXIT));
	/* The next one says how many were not told. */
	sim_clear(&s);
	sim_pass(&s, MINUTE);
	process(&s, 300);
	sim_alloc(&s, 300, GIB, 1);
	sim_pass(&s, 2 * SEC);
	ASSERT(s.len > 0);
	EXPECT_EQ(s.reports[0]->suppressed, stats.lost);
	sim_done(&s);
}

/* All want to say more than may be said: none says much before each has said something. */
TEST(a_crowd_takes_turns)
{
	uint32_t counts[401] = {};
	struct sim s;

	begin_limits(&s, 60, 256);
	for (uint32_t pid = 1; pid <= 400; pid++)
		process(&s, pid);
	for (int m = 0; m < 8; m++) {
		for (uint32_t pid = 1; pid <= 400; pid++)
			sim_alloc(&s, pid, (uint64_t)(m + 1) * 100 * MIB, 1);
		sim_pass(&s, MINUTE);
	}
	EXPECT_EQ(seen(&s, counts, ARRAY_SIZE(counts)), 400);
	for (uint32_t pid = 1; pid <= 400; pid++)
		EXPECT(counts[pid] <= 3);
	sim_done(&s);
}

/* What had to wait is told as soon as it may be, though its process has done nothing since. */
TEST(who_waits_is_not_forgotten)
{
	struct history_stats stats;
	struct sim s;

	begin_limits(&s, 5, 256);
	for (uint32_t pid = 1; pid <= 6; pid++) {
		process(&s, pid);
		sim_alloc(&s, pid, GIB, 1);
	}
	sim_pass(&s, 55 * SEC + 30 * MINUTE);
	sim_clear(&s);
	for (uint32_t pid = 1; pid <= 6; pid++)
		sim_alloc(&s, pid, GIB, 1);
	sim_pass(&s, 2 * SEC);
	EXPECT_EQ(s.len, 5);
	engine_history_stats(s.e, &stats);
	EXPECT(stats.delayed > 0 && stats.delayed < 10);
	sim_pass(&s, 6 * SEC);
	EXPECT_EQ(s.len, 6);
	sim_done(&s);
}

/* Beyond what the queue holds records would be dropped. */
TEST(no_more_at_once_than_the_queue_holds)
{
	uint32_t counts[301] = {};
	struct history_stats stats;
	size_t before = 0, most = 0;
	struct sim s;

	begin_limits(&s, 600, 64);
	for (uint32_t pid = 1; pid <= 300; pid++) {
		process(&s, pid);
		sim_alloc(&s, pid, GIB, 1);
	}
	for (int i = 0; i < 15; i++) {
		sim_pass(&s, SEC);
		most = MAX(most, s.len - before);
		before = s.len;
	}
	EXPECT(most <= 64 / 2);
	EXPECT_EQ(seen(&s, counts, ARRAY_SIZE(counts)), 300);
	engine_history_stats(s.e, &stats);
	EXPECT(stats.stretch == 1 && stats.delayed == 0);
	sim_done(&s);
}

/* With the smallest budget the interval must come back too. */
TEST(the_stretch_ends)
{
	struct history_stats stats;
	struct sim s;

	begin_limits(&s, 1, 256);
	for (uint32_t pid = 1; pid <= 5; pid++) {
		process(&s, pid);
		sim_alloc(&s, pid, GIB, 1);
	}
	sim_pass(&s, 2 * MINUTE);
	engine_history_stats(s.e, &stats);
	EXPECT(stats.stretch > 1);
	for (uint32_t pid = 1; pid <= 5; pid++)
		sim_simple(&s, EVENT_EXIT, pid);
	sim_pass(&s, 10 * MINUTE);
	engine_history_stats(s.e, &stats);
	EXPECT_EQ(stats.stretch, 1);
	sim_done(&s);
}

/* Told without a name first: what is told under the name later is not told twice. */
TEST(a_device_is_named_late)
{
	struct sim s;

	begin(&s);
	sim_identify(&s, 1, "train", NULL, "ada");
	sim_alloc(&s, 1, 2 * GIB, 1);
	sim_pass(&s, SEC);
	ASSERT(s.len == 1);
	EXPECT(!s.reports[0]->device_uuid && s.reports[0]->bytes == 2 * GIB);
	sim_clear(&s);
	engine_set_ordinal(s.e, 1, SEC, 0, GPU);
	ASSERT(s.len == 2);
	EXPECT(!s.reports[0]->device_uuid && s.reports[0]->bytes == 0 && s.reports[0]->low_bytes == 0);
	EXPECT(s.reports[0]->high_bytes == 2 * GIB && s.reports[0]->sites_len == 0 && s.reports[0]->live_bytes == 2 * GIB);
	EXPECT(s.reports[1]->device_uuid && s.reports[1]->bytes == 2 * GIB && s.reports[1]->low_bytes == 2 * GIB);
	sim_clear(&s);
	sim_pass(&s, 10 * MINUTE);
	EXPECT_EQ(s.len, 0);
	/* Named before anything was told: nothing to take back. */
	process(&s, 2);
	sim_alloc(&s, 2, GIB, 1);
	EXPECT_EQ(s.len, 0);
	sim_done(&s);
}

/* While the books are rebuilt totals mean nothing, and what comes out of it is no peak of before. */
TEST(a_rebuild)
{
	struct books books = { .alloc_count = 1 };
	struct event ev;
	struct sim s;

	begin(&s);
	process(&s, 1);
	sim_alloc(&s, 1, 10 * GIB, 1);
	sim_pass(&s, 10 * MINUTE);
	sim_clear(&s);
	EXPECT_EQ(engine_lost(s.e, 1, SEC, 5, s.now), 0);
	EXPECT_EQ(engine_rebuild_begin(s.e, 1, SEC), 0);
	sim_pass(&s, 5 * SEC);
	EXPECT_EQ(s.len, 0);
	ev = sim_event(&s, EVENT_ALLOC, 1);
	ev.bytes = 12 * GIB;
	EXPECT_EQ(engine_rebuild_add(s.e, &ev), 0);
	EXPECT_EQ(engine_rebuild_end(s.e, 1, SEC, &books, s.now, wall(s.now)), 0);
	sim_pass(&s, 2 * SEC);
	ASSERT(s.len == 1);
	EXPECT(s.reports[0]->bytes == 12 * GIB && s.reports[0]->high_bytes == 12 * GIB && s.reports[0]->low_bytes == 10 * GIB);
	sim_done(&s);
}

/* Of a process from before the daemon: what it held then was not nothing. */
TEST(books_that_were_kept)
{
	struct books books = { .alloc_count = 1 };
	struct event ev;
	struct sim s;

	begin(&s);
	process(&s, 1);
	EXPECT_EQ(engine_rebuild_begin(s.e, 1, SEC), 0);
	s.now += 20 * SEC;
	ev = sim_event(&s, EVENT_ALLOC, 1);
	ev.bytes = 12 * GIB;
	EXPECT_EQ(engine_rebuild_add(s.e, &ev), 0);
	EXPECT_EQ(engine_rebuild_end(s.e, 1, SEC, &books, s.now, wall(s.now)), 0);
	sim_pass(&s, 2 * SEC);
	ASSERT(s.len == 1);
	EXPECT(s.reports[0]->bytes == 12 * GIB && s.reports[0]->low_bytes == 12 * GIB && s.reports[0]->high_bytes == 12 * GIB);
	EXPECT(s.reports[0]->window_sec <= 2);
	sim_done(&s);
}

/* The event clock stands still while the host sleeps. */
TEST(a_peak_before_a_sleep)
{
	uint64_t at;
	struct block b;
	struct sim s;

	begin(&s);
	process(&s, 1);
	sim_alloc(&s, 1, GIB, 1);
	sim_pass(&s, 10 * MINUTE);
	sim_clear(&s);
	b = sim_alloc(&s, 1, 20 * MIB, 1);
	at = wall(s.now);
	sim_free(&s, b);
	sim_pass(&s, 2 * SEC);
	EXPECT_EQ(s.len, 0);
	sim_alloc(&s, 1, 10 * MIB, 1);
	s.now += SEC;
	engine_tick(s.e, s.now, wall(s.now) + HOUR / 1000);
	s.now += HOUR;
	engine_tick(s.e, s.now, wall(s.now) + HOUR / 1000);
	ASSERT(s.len == 1);
	EXPECT_EQ(s.reports[0]->high_bytes, GIB + 20 * MIB);
	EXPECT_EQ(s.reports[0]->high_usec, at);
	sim_done(&s);
}

/* A failure may come before anybody has told who it is. */
TEST(file_and_arguments_are_told_once_known)
{
	struct sim s;

	begin(&s);
	sim_alloc(&s, 1, GIB, 1);
	sim_fail(&s, 1, GIB, 1);
	ASSERT(s.len == 1);
	sim_identify(&s, 1, "train", NULL, "ada");
	sim_alloc(&s, 1, GIB, 1);
	sim_pass(&s, 5 * SEC);
	ASSERT(s.len >= 2);
	EXPECT(s.reports[1]->is_first && s.reports[1]->id->comm);
	sim_alloc(&s, 1, GIB, 1);
	sim_pass(&s, 10 * SEC);
	EXPECT(s.len > 2 && !s.reports[s.len - 1]->is_first);
	sim_done(&s);
}

TEST(pinned_memory_is_told_each_hour)
{
	struct sim s;

	begin(&s);
	sim_identify(&s, 1, "train", NULL, NULL);
	sim_alloc_on(&s, 1, 4 * GIB, 1, CLASS_HOST, EVENT_NO_DEVICE);
	sim_pass(&s, 3 * SEC);
	sim_clear(&s);
	sim_pass(&s, 5 * HOUR + 10 * MINUTE);
	EXPECT(s.len >= 4 && s.len <= 5);
	sim_done(&s);
}
TEST_MAIN()
