/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "story_make.h"

#define OOM "RULE=oom", "START_TIME=100", "DEVICE=GPU-a", "SEVERITY=error"

static struct story_failure *only(struct story *s)
{
	static struct story_failure none;

	EXPECT_EQ(s->failures_len, 1);
	return s->failures_len == 1 ? s->failures[0] : &none;
}

TEST(who_held_the_memory)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	struct story_failure *f;

	flat(b, 1, 7, 100);
	flat(b, 2, 8, 500);
	flat(b, 3, 9, 50);
	flat(b, 4, 10, 70);
	say(b, 5, "sample", "PID=11", "DEVICE=GPU-b", "BYTES=9999999999", END); /* elsewhere */
	say(b, 6, "process_exit", "PID=9", "START_TIME=100", "LIVE_BYTES=0", END); /* gone */
	flat(b, 7, 10, 0);							    /* there, and holds nothing */
	say(b, 100, "alloc_failure", OOM, "PID=7", "COMM=python3", "BYTES=4096", "FUNCTION=cuMemAlloc_v2",
	    "ERROR=2 CUDA_ERROR_OUT_OF_MEMORY", "MESSAGE=refused\n\nstack", "STACK_ID=00000000000000aa", "STACK=f",
	    "LIVE_BYTES=104857600", "DEVICE_BYTES=1000000000", fmt("DEVICE_USED_BYTES=%" PRIu64, 900 * MIB), END);
	flat(b, 101, 7, 110); /* written because of it */
	flat(b, 101.5, 8, 600);
	flat(b, 101.9, 8, 1); /* within the time, but another one tells it better */
	say(b, 101.9, "process_exit", "PID=7", "START_TIME=100", "LIVE_BYTES=0", END); /* after it */
	flat(b, 103, 12, 999); /* too late: it may have come since */
	s = told(b, HOUR);
	f = only(s);
	EXPECT_EQ(f->usec, AT(100));
	EXPECT_EQ(f->last_usec, AT(100));
	EXPECT_EQ(f->count, 1);
	EXPECT_EQ(f->bytes, 4096);
	EXPECT_STR(f->function, "cuMemAlloc_v2");
	EXPECT_STR(f->error, "2 CUDA_ERROR_OUT_OF_MEMORY");
	EXPECT_STR(f->message, "refused");
	EXPECT_EQ(f->live_bytes, 100 * MIB);
	EXPECT_EQ(f->device_bytes, 1000000000);
	EXPECT_EQ(f->device_used_bytes, 900 * MIB);
	ASSERT(f->process && f->device && f->stack);
	EXPECT_EQ(f->process->pid, 7);
	EXPECT_STR(f->device->uuid, "GPU-a");
	EXPECT_STR(f->stack->text, "f");
	ASSERT(f->holders_len == 2);
	EXPECT_EQ(f->holders[0].process->pid, 8);
	EXPECT_EQ(f->holders[0].bytes, 600 * MIB);
	EXPECT_EQ(f->holders[0].as_of_usec, AT(101.5));
	EXPECT_EQ(f->holders[1].process->pid, 7);
	EXPECT_EQ(f->holders[1].bytes, 110 * MIB);
	EXPECT_EQ(f->holders_left_out, 0);
	EXPECT_EQ(f->other_bytes, 190 * MIB);
	/* It stands in the list of what was said, too. */
	EXPECT_EQ(s->incidents_len, 1);
}

TEST(without_later_samples_the_last_ones_count)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	struct story_failure *f;

	flat(b, -60, 8, 500);
	say(b, 100, "alloc_failure", OOM, "PID=7", "LIVE_BYTES=300", "DEVICE_USED_BYTES=7", END);
	s = told(b, HOUR);
	f = only(s);
	ASSERT(f->holders_len == 2);
	EXPECT_EQ(f->holders[0].as_of_usec, AT(-60));
	/* Of itself, of which there is no sample, the record tells. */
	EXPECT_EQ(f->holders[1].process->pid, 7);
	EXPECT_EQ(f->holders[1].bytes, 300);
	/* More than is in use is no less than nothing. */
	EXPECT_EQ(f->other_bytes, 0);
}

TEST(what_is_not_known)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	struct story_failure *f;

	say(b, 100, "alloc_failure", "RULE=oom", END);
	s = told(b, HOUR);
	f = only(s);
	EXPECT(!f->process && !f->device && !f->stack && !f->function && !f->error && !f->message);
	EXPECT(f->bytes == STORY_ABSENT && f->live_bytes == STORY_ABSENT && f->device_bytes == STORY_ABSENT &&
	       f->device_used_bytes == STORY_ABSENT && f->other_bytes == STORY_ABSENT);
	EXPECT_EQ(f->holders_len, 0);
}

TEST(values_of_an_earlier_run_are_not_holders)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	flat(b, 1, 8, 500);
	say(b, 50, "start", "_PID=900", END);
	flat(b, 51, 9, 5);
	say(b, 100, "alloc_failure", OOM, "PID=7", END);
	s = told(b, HOUR);
	ASSERT(only(s)->holders_len == 1);
	EXPECT_EQ(only(s)->holders[0].process->pid, 9);
}

TEST(again_within_a_minute_is_the_same)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, 0, "alloc_failure", OOM, "PID=7", "BYTES=1", END);
	say(b, 1, "alloc_failure", OOM, "PID=8", "BYTES=2", END);		       /* another process */
	say(b, 2, "alloc_failure", "RULE=oom", "PID=7", "START_TIME=100", "DEVICE=GPU-b", END); /* device */
	say(b, 60, "alloc_failure", OOM, "PID=7", "BYTES=3", END);
	say(b, 120, "alloc_failure", OOM, "PID=7", "BYTES=4", END); /* within a minute of the last */
	say(b, 181, "alloc_failure", OOM, "PID=7", "BYTES=5", END);
	say(b, 200, "alloc_failure", OOM, "PID=7", "STATE=resolved", END); /* no failure */
	say(b, -30, "alloc_failure", OOM, "PID=9", END);		     /* before */
	s = told(b, HOUR);
	ASSERT(s->failures_len == 4);
	EXPECT_EQ(s->failures[0]->count, 3);
	EXPECT_EQ(s->failures[0]->bytes, 1);
	EXPECT_EQ(s->failures[0]->last_usec, AT(120));
	EXPECT_EQ(s->failures[1]->count, 1);
	EXPECT_EQ(s->failures[3]->bytes, 5);
}

TEST(many_holders)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	struct story_failure *f;

	for (unsigned pid = 1; pid <= STORY_HOLDERS_MAX + 10; pid++)
		flat(b, 1, pid, pid);
	say(b, 100, "alloc_failure", OOM, "PID=7", fmt("DEVICE_USED_BYTES=%" PRIu64, 1000 * MIB), END);
	s = told(b, HOUR);
	f = only(s);
	ASSERT(f->holders_len == STORY_HOLDERS_MAX);
	EXPECT_EQ(f->holders[0].process->pid, STORY_HOLDERS_MAX + 10);
	EXPECT_EQ(f->holders[STORY_HOLDERS_MAX - 1].process->pid, 11);
	EXPECT_EQ(f->holders_left_out, 10);
	EXPECT_EQ(s->left_out.holders, 10);
	/* Those left out are not "others". */
	EXPECT_EQ(f->other_bytes, (1000 - 42 * 43 / 2) * MIB);
}

TEST(with_a_filter_other_holders_are_numbers)
{
	struct story_builder *b = stretch_of(1, 7, NULL);
	_cleanup_story_ struct story *s = NULL;
	struct story_failure *f;

	flat(b, 1, 7, 100);
	flat(b, 2, 8, 500);
	say(b, 100, "alloc_failure", OOM, "PID=8", END);
	say(b, 100, "alloc_failure", OOM, "PID=7", fmt("DEVICE_USED_BYTES=%" PRIu64, 700 * MIB), END);
	s = told(b, HOUR);
	f = only(s);
	ASSERT(f->holders_len == 1);
	EXPECT_EQ(f->holders[0].process->pid, 7);
	EXPECT_EQ(f->holders_left_out, 1);
	EXPECT_EQ(f->other_bytes, 100 * MIB);
}

TEST(many_at_once_and_very_many)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	flat(b, 1, 1, 100);
	for (unsigned i = 0; i < STORY_FAILURES_MAX + 50; i++)
		say(b, 2 + i * 0.01, "alloc_failure", OOM, fmt("PID=%u", 100 + i), END);
	s = told(b, HOUR);
	EXPECT_EQ(s->failures_len, STORY_FAILURES_MAX);
	EXPECT_EQ(s->left_out.failures, 50);
	for (size_t i = 0; i < s->failures_len; i++)
		EXPECT_EQ(s->failures[i]->holders_len, 1);
}

TEST_MAIN()
