/* SPDX-License-Identifier: MIT */
/* The history: when what a process holds is told, and what. */
#include "engine_sim.h"

#define GPU "GPU-00000000-0000-0000-0000-000000000001"
#define GPU2 "GPU-00000000-0000-0000-0000-000000000002"
#define MINUTE (60 * SEC)
#define HOUR (3600 * SEC)

static uint64_t wall(uint64_t ns)
{
	return SIM_REAL + ns / 1000;
}

static void begin(struct sim *s)
{
	sim_new(s, NULL);
	engine_set_history(s->e, MINUTE);
}

static size_t count(const struct sim *s, enum report_event event)
{
	size_t n = 0;

	for (size_t i = 0; i < s->len; i++)
		n += s->reports[i]->event == event;
	return n;
}

static size_t samples(const struct sim *s)
{
	return count(s, REPORT_SAMPLE);
}

static const struct report *last(const struct sim *s, enum report_event event)
{
	for (size_t i = s->len; i-- > 0;) {
		if (s->reports[i]->event == event)
			return s->reports[i];
	}
	return NULL;
}

static void process(struct sim *s, uint32_t pid, const char *uuid)
{
	sim_identify(s, pid, "train", "train.service", "ada");
	engine_set_ordinal(s->e, pid, pid * SEC, 0, uuid);
}

TEST(nothing_without_being_asked)
{
	struct sim s;

	sim_new(&s, NULL);
	process(&s, 1, GPU);
	sim_alloc(&s, 1, GIB, 1);
	sim_pass(&s, 2 * HOUR);
	sim_fail(&s, 1, GIB, 1);
	sim_simple(&s, EVENT_EXIT, 1);
	engine_history_flush(s.e, s.now, wall(s.now));
	EXPECT_EQ(s.len, 0);
	sim_done(&s);
}

TEST(what_a_sample_says)
{
	const struct report *r;
	struct block b;
	struct sim s;

	begin(&s);
	process(&s, 1, GPU);
	engine_set_device(s.e, GPU, 3, "H200", 100 * GIB, 5 * GIB);
	sim_alloc(&s, 1, 2 * GIB, 1);
	s.now += 300 * MSEC;
	b = sim_alloc(&s, 1, GIB, 1);
	s.now += 300 * MSEC;
	sim_free(&s, b);
	sim_alloc_on(&s, 1, 64 * MIB, 0, CLASS_HOST, 0);
	sim_pass(&s, SEC);
	EXPECT_EQ(samples(&s), 1);
	r = last(&s, REPORT_SAMPLE);
	ASSERT(r);
	EXPECT(r->id && r->id->pid == 1 && strcmp(r->id->unit, "train.service") == 0);
	EXPECT(r->is_first && r->scope == SCOPE_PROCESS && r->severity == SEVERITY_INFO && r->state == STATE_NONE && r->seq == 0);
	EXPECT_EQ(r->bytes, 2 * GIB);
	EXPECT_EQ(r->low_bytes, 0);
	EXPECT_EQ(r->high_bytes, 3 * GIB);
	EXPECT_EQ(r->high_usec, wall(1000 * SEC + 300 * MSEC));
	EXPECT_EQ(r->window_sec, 1);
	EXPECT_EQ(r->live_bytes, 2 * GIB);
	EXPECT_EQ(r->peak_bytes, 3 * GIB);
	EXPECT_EQ(r->peak_usec, r->high_usec);
	EXPECT_EQ(r->host_bytes, 64 * MIB);
	EXPECT(r->alloc_count == 3 && r->free_count == 1 && r->fail_count == 0 && r->live_count == 2);
	EXPECT_EQ(r->allocated_bytes, 3 * GIB);
	EXPECT_STR(r->device_uuid, GPU);
	EXPECT(r->device_index == 3 && r->device_bytes == 100 * GIB && r->device_used_bytes == 5 * GIB);
	EXPECT(r->exact && r->driver_bytes == ABSENT_U64);
	sim_done(&s);
}

/* The first samples follow a program that takes its memory at its start, then an interval lies between two. */
TEST(a_start_is_followed)
{
	uint64_t at[64], begun;
	size_t n = 0;
	struct sim s;

	begin(&s);
	process(&s, 1, GPU);
	begun = s.now;
	for (int i = 0; i < 600; i++) {
		sim_alloc(&s, 1, GIB, 1);
		sim_pass(&s, SEC);
		if (samples(&s) > n && n < ARRAY_SIZE(at))
			at[n++] = (s.now - begun) / SEC;
	}
	ASSERT(n >= 8);
	EXPECT(at[0] == 1 && at[1] == 3 && at[2] == 7 && at[3] == 15 && at[4] == 31 && at[5] == 63 && at[6] == 123 && at[7] == 183);
	for (size_t i = 0; i < s.len; i++)
		EXPECT(s.reports[i]->is_first == (i == 0));
	sim_done(&s);
}

TEST(nothing_new_is_told_once_an_hour)
{
	struct sim s;

	begin(&s);
	process(&s, 1, GPU);
	sim_alloc(&s, 1, 10 * GIB, 1);
	sim_pass(&s, 5 * MINUTE);
	/* The one after the first says that it stayed there. */
	EXPECT_EQ(samples(&s), 2);
	EXPECT(last(&s, REPORT_SAMPLE)->low_bytes == 10 * GIB && last(&s, REPORT_SAMPLE)->high_bytes == 10 * GIB);
	sim_pass(&s, 24 * HOUR);
	EXPECT(samples(&s) >= 2 + 22 && samples(&s) <= 2 + 24);
	sim_done(&s);
}

/* Up and down between the same two levels, as training steps do. */
TEST(a_steady_sawtooth_is_told_once_an_hour)
{
	struct block b;
	struct sim s;

	begin(&s);
	process(&s, 1, GPU);
	sim_alloc(&s, 1, 10 * GIB, 1);
	for (int i = 0; i < 4 * 3600 / 4; i++) {
		b = sim_alloc(&s, 1, 10 * GIB, 1);
		sim_pass(&s, 2 * SEC);
		sim_free(&s, b);
		sim_pass(&s, 2 * SEC);
		if (i == 75)
			sim_clear(&s);
	}
	EXPECT(samples(&s) >= 3 && samples(&s) <= 4);
	EXPECT(last(&s, REPORT_SAMPLE)->low_bytes == 10 * GIB && last(&s, REPORT_SAMPLE)->high_bytes == 20 * GIB);
	sim_done(&s);
}

TEST(a_peak_between_two_samples_is_told)
{
	uint64_t peak_at;
	struct block b;
	struct sim s;

	begin(&s);
	process(&s, 1, GPU);
	sim_alloc(&s, 1, 10 * GIB, 1);
	sim_pass(&s, 10 * MINUTE);
	sim_clear(&s);
	peak_at = s.now += 500 * MSEC;
	b = sim_alloc(&s, 1, 60 * GIB, 1);
	s.now += 100 * MSEC;
	sim_free(&s, b);
	sim_pass(&s, SEC);
	EXPECT_EQ(samples(&s), 1);
	ASSERT(s.len > 0);
	EXPECT(s.reports[0]->bytes == 10 * GIB && s.reports[0]->high_bytes == 70 * GIB);
	EXPECT_EQ(s.reports[0]->high_usec, wall(peak_at));
	/* That this was over at once is told too, and then no more. */
	sim_pass(&s, 30 * MINUTE);
	EXPECT_EQ(samples(&s), 2);
	EXPECT(s.reports[s.len - 1]->low_bytes == 10 * GIB && s.reports[s.len - 1]->high_bytes == 10 * GIB);
	sim_done(&s);
}

TEST(small_changes_are_not_told)
{
	struct sim s;

	begin(&s);
	process(&s, 1, GPU);
	process(&s, 2, GPU);
	sim_alloc(&s, 1, 10 * GIB, 1);
	sim_alloc(&s, 2, 100 * KIB, 1);
	sim_pass(&s, 10 * MINUTE);
	sim_clear(&s);
	sim_alloc(&s, 1, 400 * MIB, 1); /* 4 % */
	sim_alloc(&s, 2, 800 * KIB, 1); /* below a MiB */
	sim_pass(&s, 10 * MINUTE);
	EXPECT_EQ(s.len, 0);
	sim_alloc(&s, 1, 400 * MIB, 1);
	sim_pass(&s, 2 * MINUTE);
	EXPECT(samples(&s) >= 1 && s.reports[0]->id->pid == 1);
	sim_done(&s);
}

TEST(all_freed_is_told_once)
{
	struct block b;
	struct sim s;

	begin(&s);
	process(&s, 1, GPU);
	b = sim_alloc(&s, 1, 512 * KIB, 1);
	sim_pass(&s, 10 * MINUTE);
	sim_clear(&s);
	sim_free(&s, b);
	sim_pass(&s, SEC);
	EXPECT_EQ(samples(&s), 1);
	EXPECT(s.len > 0 && s.reports[0]->bytes == 0 && s.reports[0]->low_bytes == 0);
	sim_pass(&s, 5 * HOUR);
	EXPECT(samples(&s) <= 2 && last(&s, REPORT_SAMPLE)->bytes == 0);
	sim_done(&s);
}

TEST(each_device_has_its_own)
{
	struct sim s;

	begin(&s);
	process(&s, 1, GPU);
	engine_set_ordinal(s.e, 1, SEC, 1, GPU2);
	sim_alloc(&s, 1, GIB, 1);
	sim_alloc_on(&s, 1, 3 * GIB, 2, CLASS_DEVICE, 1);
	sim_pass(&s, SEC);
	ASSERT(samples(&s) == 2);
	EXPECT_STR(s.reports[0]->device_uuid, GPU);
	EXPECT(s.reports[0]->bytes == GIB && s.reports[0]->live_bytes == 4 * GIB);
	EXPECT_STR(s.reports[1]->device_uuid, GPU2);
	EXPECT(s.reports[1]->bytes == 3 * GIB && s.reports[1]->live_bytes == 4 * GIB);
	sim_done(&s);
}

/* By the driver's word alone: idle for days on 642 MiB. */
TEST(what_only_the_driver_counts)
{
	struct sim s;

	begin(&s);
	for (int i = 0; i < 2 * 360; i++) {
		engine_driver_begin(s.e);
		EXPECT_EQ(engine_driver(s.e, 1, SEC, GPU, 642 * MIB, true), 0);
		engine_driver_end(s.e, true, s.now, wall(s.now));
		sim_pass(&s, 10 * SEC);
	}
	EXPECT(samples(&s) >= 2 && samples(&s) <= 4);
	EXPECT(last(&s, REPORT_SAMPLE)->driver_bytes == 642 * MIB && last(&s, REPORT_SAMPLE)->bytes == 0);
	sim_simple(&s, EVENT_EXIT, 1);
	EXPECT_EQ(count(&s, REPORT_PROCESS_EXIT), 1);
	sim_done(&s);
}

TEST(the_end_of_a_process)
{
	const struct report *r;
	uint64_t peak_at;
	struct block b;
	struct sim s;

	begin(&s);
	engine_set_boot_offset(s.e, 7 * SEC);
	process(&s, 1, GPU);
	engine_set_ordinal(s.e, 1, SEC, 1, GPU2);
	sim_stack(&s, 1, 9);
	sim_alloc(&s, 1, GIB, 1);
	sim_pass(&s, 3 * SEC);
	peak_at = s.now += 100 * MSEC;
	b = sim_alloc_on(&s, 1, 5 * GIB, 9, CLASS_DEVICE, 1);
	s.now += 100 * MSEC;
	sim_free(&s, b);
	sim_fail(&s, 1, 80 * GIB, 1);
	sim_clear(&s);
	s.now += 100 * MSEC;
	sim_simple(&s, EVENT_EXIT, 1);
	r = last(&s, REPORT_PROCESS_EXIT);
	ASSERT(r && count(&s, REPORT_PROCESS_EXIT) == 1);
	EXPECT(r->process_ended && r->live_bytes == GIB && r->live_count == 1);
	EXPECT(r->peak_bytes == 6 * GIB && r->peak_usec == wall(peak_at));
	EXPECT(r->alloc_count == 2 && r->free_count == 1 && r->fail_count == 1 && r->allocated_bytes == 6 * GIB);
	EXPECT_EQ(r->duration_ns, s.now + 7 * SEC - SEC);
	EXPECT_STR(r->device_uuid, GPU2);
	EXPECT(r->stack && r->stack->key == 9);
	ASSERT(r->device_peaks);
	{
		char expected[256];

		snprintf(expected, sizeof(expected), GPU " %llu %llu\n" GPU2 " %llu %llu", (unsigned long long)GIB,
			 (unsigned long long)wall(1000 * SEC), (unsigned long long)(5 * GIB), (unsigned long long)wall(peak_at));
		EXPECT_STR(r->device_peaks, expected);
	}
	sim_done(&s);
}

TEST(what_held_nothing_has_no_end)
{
	struct sim s;

	begin(&s);
	process(&s, 1, GPU);
	sim_simple(&s, EVENT_EXIT, 1);
	EXPECT_EQ(s.len, 0);
	sim_done(&s);
}

/* A high that was not that of its life, just before the end. */
TEST(the_last_moments_are_told)
{
	struct block b;
	struct sim s;

	begin(&s);
	process(&s, 1, GPU);
	b = sim_alloc(&s, 1, 80 * GIB, 1);
	sim_pass(&s, 10 * SEC);
	sim_free(&s, b);
	sim_alloc(&s, 1, GIB, 1);
	sim_pass(&s, 10 * MINUTE);
	sim_clear(&s);
	b = sim_alloc(&s, 1, 70 * GIB, 1);
	s.now += 100 * MSEC;
	sim_simple(&s, EVENT_EXIT, 1);
	ASSERT(s.len == 2 && s.reports[0]->event == REPORT_SAMPLE && s.reports[1]->event == REPORT_PROCESS_EXIT);
	EXPECT_EQ(s.reports[0]->high_bytes, 71 * GIB);
	EXPECT_EQ(s.reports[1]->peak_bytes, 80 * GIB);
	sim_done(&s);
}

/* Who held the memory when there was none left: most first, the others of the device only, and not each time. */
TEST(a_failure_tells_who_holds_the_device)
{
	struct sim s;

	begin(&s);
	for (uint32_t pid = 1; pid <= 4; pid++) {
		process(&s, pid, pid == 4 ? GPU2 : GPU);
		sim_alloc(&s, pid, pid * GIB, 1);
	}
	sim_pass(&s, 10 * MINUTE);
	sim_clear(&s);
	sim_fail(&s, 1, 80 * GIB, 1);
	ASSERT(samples(&s) == 3);
	EXPECT(s.reports[0]->id->pid == 3 && s.reports[1]->id->pid == 2 && s.reports[2]->id->pid == 1);
	EXPECT_EQ(s.reports[2]->fail_count, 1);
	sim_fail(&s, 1, 80 * GIB, 1);
	sim_fail(&s, 2, 80 * GIB, 1);
	EXPECT_EQ(samples(&s), 3);
	sim_pass(&s, 11 * SEC);
	sim_clear(&s);
	sim_fail(&s, 2, 80 * GIB, 1);
	EXPECT_EQ(samples(&s), 3);
	sim_done(&s);
}

/* The call does not tell on which device: then the one that its process holds most on. */
TEST(a_failure_without_a_device)
{
	struct event ev;
	struct sim s;

	begin(&s);
	process(&s, 1, GPU);
	process(&s, 2, GPU);
	sim_alloc(&s, 1, GIB, 1);
	sim_alloc(&s, 2, 2 * GIB, 1);
	sim_pass(&s, 10 * MINUTE);
	sim_clear(&s);
	ev = sim_event(&s, EVENT_FAIL, 1);
	ev.device = EVENT_NO_DEVICE;
	(void)sim_send(&s, &ev);
	EXPECT_EQ(samples(&s), 2);
	sim_done(&s);
}

TEST(a_crowd_of_holders_is_cut)
{
	struct sim s;

	begin(&s);
	for (uint32_t pid = 1; pid <= 100; pid++) {
		process(&s, pid, GPU);
		sim_alloc(&s, pid, pid * MIB, 1);
	}
	sim_pass(&s, 10 * MINUTE);
	sim_clear(&s);
	sim_fail(&s, 1, 80 * GIB, 1);
	EXPECT_EQ(samples(&s), 32);
	EXPECT(s.reports[0]->id->pid == 100 && s.reports[31]->id->pid == 69);
	sim_done(&s);
}

TEST(sites_and_their_stacks)
{
	const struct report *r;
	struct sim s;
	size_t sites = 0;

	begin(&s);
	process(&s, 1, GPU);
	for (uint64_t n = 1; n <= 7; n++) {
		sim_stack(&s, 1, n);
		sim_alloc(&s, 1, n * GIB, n);
		sim_alloc(&s, 1, n * GIB, n);
	}
	sim_pass(&s, SEC);
	r = last(&s, REPORT_SAMPLE);
	ASSERT(r && r->sites_len == REPORT_SITES_MAX);
	for (size_t i = 0; i < r->sites_len; i++)
		EXPECT(r->sites[i].bytes == 2 * (7 - i) * GIB && r->sites[i].blocks == 2 && r->sites[i].stack->key == 7 - i);
	EXPECT_EQ(count(&s, REPORT_SITE), REPORT_SITES_MAX);
	for (size_t i = 0; i < s.len; i++)
		sites += s.reports[i]->event == REPORT_SITE && s.reports[i]->stack && s.reports[i]->stack_bytes >= 6 * GIB;
	EXPECT_EQ(sites, REPORT_SITES_MAX);
	/* They are told before the sample that names them, and not again on the same day. */
	EXPECT(s.reports[s.len - 1]->event == REPORT_SAMPLE);
	sim_clear(&s);
	sim_pass(&s, 23 * HOUR);
	EXPECT(samples(&s) > 20 && count(&s, REPORT_SITE) == 0);
	sim_pass(&s, 3 * HOUR);
	EXPECT_EQ(count(&s, REPORT_SITE), REPORT_SITES_MAX);
	sim_done(&s);
}

/* Stacks that have just been found to be the same are one site, before they have become one. */
TEST(sites_that_are_the_same)
{
	const struct report *r;
	struct stack *stack;
	struct sim s;

	begin(&s);
	process(&s, 1, GPU);
	for (uint64_t n = 1; n <= 20; n++) {
		stack = sim_raw_stack(&s, 1, n);
		stack_set_frames(stack, sim_frames(n, n == 20 ? 8 : 7));
		stack_unref(stack);
		sim_alloc(&s, 1, n == 20 ? 5 * GIB : GIB, n);
	}
	sim_pass(&s, SEC);
	r = last(&s, REPORT_SAMPLE);
	ASSERT(r && r->sites_len == 2);
	EXPECT(r->sites[0].bytes == 19 * GIB && r->sites[0].blocks == 19 && r->sites[1].bytes == 5 * GIB);
	EXPECT_EQ(count(&s, REPORT_SITE), 2);
	sim_done(&s);
}

/* Sites of another device are not this sample's. */
TEST(sites_of_the_device)
{
	struct sim s;

	begin(&s);
	process(&s, 1, GPU);
	engine_set_ordinal(s.e, 1, SEC, 1, GPU2);
	sim_stack(&s, 1, 1);
	sim_stack(&s, 1, 2);
	sim_alloc(&s, 1, GIB, 1);
	sim_alloc_on(&s, 1, 2 * GIB, 2, CLASS_DEVICE, 1);
	sim_pass(&s, SEC);
	for (size_t i = 0; i < s.len; i++) {
		if (s.reports[i]->event != REPORT_SAMPLE)
			continue;
		EXPECT_EQ(s.reports[i]->sites_len, 1);
		EXPECT_EQ(s.reports[i]->sites[0].bytes, s.reports[i]->bytes);
	}
	sim_done(&s);
}

TEST(a_stop_tells_what_is_new)
{
	struct sim s;

	begin(&s);
	process(&s, 1, GPU);
	process(&s, 2, GPU);
	sim_alloc(&s, 1, GIB, 1);
	sim_alloc(&s, 2, GIB, 1);
	sim_pass(&s, 10 * MINUTE);
	sim_clear(&s);
	sim_alloc(&s, 2, GIB, 1);
	engine_history_flush(s.e, s.now, wall(s.now));
	ASSERT(s.len == 1);
	EXPECT(s.reports[0]->id->pid == 2 && s.reports[0]->bytes == 2 * GIB);
	sim_done(&s);
}

/* Nobody has told who it is: the first sample waits for that, but not for long. */
TEST(an_unknown_process)
{
	struct sim s;

	begin(&s);
	sim_alloc(&s, 1, GIB, 1);
	sim_pass(&s, 3 * SEC);
	EXPECT(samples(&s) >= 1 && s.reports[0]->id && s.reports[0]->id->pid == 1 && !s.reports[0]->device_uuid);
	sim_done(&s);
}

TEST(pinned_memory_alone)
{
	struct sim s;

	begin(&s);
	sim_identify(&s, 1, "train", NULL, NULL);
	sim_alloc_on(&s, 1, 4 * GIB, 1, CLASS_HOST, EVENT_NO_DEVICE);
	sim_pass(&s, 3 * SEC);
	ASSERT(samples(&s) >= 1);
	EXPECT(s.reports[0]->host_bytes == 4 * GIB && s.reports[0]->bytes == 0);
	sim_pass(&s, 30 * MINUTE);
	EXPECT(samples(&s) <= 2);
	sim_done(&s);
}

/* The state of memory at any moment can be told from samples: the value of the last, and all between low and high. */
TEST(random_histories_are_told_truly)
{
	for (unsigned seed = 1; seed <= 20; seed++) {
		uint64_t held = 0, low = 0, high = 0, told = 0;
		struct block blocks[64];
		size_t n = 0, blocks_len = 0;
		unsigned state = seed;
		struct sim s;

		begin(&s);
		process(&s, 1, GPU);
		for (int i = 0; i < 20000; i++) {
			state = state * 1103515245u + 12345u;
			s.now += (state >> 8) % (200 * MSEC);
			if (blocks_len && ((state >> 4) % 3 == 0 || blocks_len == ARRAY_SIZE(blocks))) {
				size_t at = (state >> 12) % blocks_len;

				sim_free(&s, blocks[at]);
				held -= blocks[at].bytes;
				blocks[at] = blocks[--blocks_len];
			} else {
				uint64_t bytes = (uint64_t)((state >> 10) % 1000 + 1) << ((state >> 20) % 16);

				blocks[blocks_len++] = sim_alloc(&s, 1, bytes * KIB, 1 + (state >> 16) % 5);
				held += bytes * KIB;
			}
			low = MIN(low, held);
			high = MAX(high, held);
			if (i % 10 == 9)
				sim_tick(&s);
			if (s.len > n) {
				const struct report *r = s.reports[s.len - 1];

				EXPECT_EQ(s.len, n + 1);
				EXPECT(r->bytes == held && r->low_bytes == low && r->high_bytes == high);
				EXPECT(r->low_bytes <= r->bytes && r->bytes <= r->high_bytes);
				n = s.len;
				low = high = told = held;
			}
		}
		(void)told;
		EXPECT(n > 5);
		sim_done(&s);
	}
}
TEST_MAIN()
