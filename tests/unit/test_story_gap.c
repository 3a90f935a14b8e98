/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "story_make.h"

static void expect_gap(const struct story *s, size_t i, enum story_gap_kind kind, double from, double until, uint64_t count)
{
	if (i >= s->gaps_len) {
		EXPECT(i < s->gaps_len);
		return;
	}
	EXPECT_STR(story_gap_name(s->gaps[i]->kind), story_gap_name(kind));
	EXPECT_EQ(s->gaps[i]->from_usec, AT(from));
	EXPECT_EQ(s->gaps[i]->until_usec, AT(until));
	EXPECT_EQ(s->gaps[i]->count, count);
	EXPECT(s->gaps[i]->text && s->gaps[i]->text[0]);
}

TEST(stopped_and_started)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	flat(b, -10, 7, 1);
	say(b, 100, "stop", END);
	say(b, 100.5, "process_exit", "PID=7", "START_TIME=100", "LIVE_BYTES=0", END); /* its last words */
	say(b, 7900 - 7200, "start", "_PID=900", END);
	s = told(b, HOUR);
	ASSERT(s->gaps_len == 1);
	expect_gap(s, 0, GAP_DOWN, 100, 700, 0);
	EXPECT_STR(s->gaps[0]->text, "gpuxray was not running for 10m");
	EXPECT(s->gaps[0]->host == s->hosts[0]);
}

TEST(killed_and_started)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	flat(b, 50, 7, 1);
	say(b, 100, "start", "_PID=900", END);
	say(b, 120, "health", "_PID=900", END);
	s = told(b, HOUR);
	ASSERT(s->gaps_len == 1);
	expect_gap(s, 0, GAP_DOWN, 50, 100, 0);
}

TEST(down_at_the_edges)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, 300, "start", "HEALTH_SEC=30", END);
	say(b, 3000, "stop", END);
	s = told(b, HOUR);
	ASSERT(s->gaps_len == 2);
	expect_gap(s, 0, GAP_DOWN, 0, 300, 0);
	expect_gap(s, 1, GAP_DOWN, 3000, HOUR, 0);
}

TEST(down_before_and_over_the_beginning)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, -900, "stop", END);
	say(b, -800, "start", "_PID=900", END); /* over before it begins */
	say(b, -500, "stop", "_PID=900", END);
	say(b, 10, "start", "_PID=901", END);
	s = told(b, HOUR);
	ASSERT(s->gaps_len == 1);
	expect_gap(s, 0, GAP_DOWN, 0, 10, 0);
}

TEST(two_daemons_at_once_are_no_gap)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, -10, "health", END);
	say(b, 50, "start", "_PID=900", END); /* in a terminal */
	say(b, 60, "health", END);
	say(b, 70, "stop", "_PID=900", END);
	say(b, 75, "health", END);
	s = told(b, HOUR);
	/* For five seconds nobody was heard; of the first one it is known that it went on. */
	ASSERT(s->gaps_len == 1);
	expect_gap(s, 0, GAP_DOWN, 70, 75, 0);
}

TEST(daemons_with_one_number)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, 10, "health", "_PID=1", END);
	say(b, 50, "start", "_PID=1", END);
	say(b, 60, "health", "_PID=1", END);
	s = told(b, HOUR);
	ASSERT(s->gaps_len == 1);
	expect_gap(s, 0, GAP_DOWN, 10, 50, 0);
}

TEST(started_anew)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	flat(b, 10, 7, 5);
	say(b, 60, "stop", END);
	say(b, 200, "start", "_PID=500", "_BOOT_ID=eeeeffffeeeeffffeeeeffffeeeeffff", END);
	s = told(b, HOUR);
	ASSERT(s->gaps_len == 1);
	expect_gap(s, 0, GAP_BOOT, 60, 200, 0);
	ASSERT(s->processes_len == 1);
	EXPECT(s->processes[0]->is_cut);
}

TEST(silent_until_the_end)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, 100, "health", "HEALTH_SEC=300", END);
	flat(b, 200, 7, 1);
	s = told(b, HOUR);
	ASSERT(s->gaps_len == 1);
	expect_gap(s, 0, GAP_SILENT, 200, HOUR, 0);
}

TEST(not_yet_silent)
{
	static const struct {
		const char *health;
		double end;
	} cases[] = { { "HEALTH_SEC=300", 700 }, { "HEALTH_SEC=0", HOUR }, { "HEALTH_SEC=99999999999999999999", HOUR },
		      { "HEALTH_SEC=18446744073709551615", HOUR } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct story_builder *b = stretch();
		_cleanup_story_ struct story *s = NULL;

		say(b, 100, "health", cases[i].health, END);
		s = told(b, cases[i].end);
		EXPECT_EQ(s->gaps_len, 0);
	}
}

TEST(the_journal_begins_late)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	flat(b, 2000, 7, 1);
	say(b, 2100, "health", "HEALTH_SEC=300", END);
	s = told(b, 2200);
	ASSERT(s->gaps_len == 1);
	expect_gap(s, 0, GAP_MISSING, 0, 2000, 0);
}

TEST(records_that_are_not_there)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, -100, "health", "RECORDS_WRITTEN=1000", END);
	flat(b, -50, 7, 1);
	flat(b, 50, 7, 1);
	say(b, 100, "health", "RECORDS_WRITTEN=1003", END); /* all there: itself, and two */
	flat(b, 150, 7, 1);
	say(b, 155, "sample", "_PID=900", "PID=7", "BYTES=1", END); /* of another daemon */
	say(b, 200, "reload", "RECORDS_WRITTEN=1012", END);	    /* nine, and two are there */
	flat(b, 250, 7, 1);
	flat(b, 251, 7, 1);
	say(b, 300, "health", "RECORDS_WRITTEN=1014", END); /* one of them came by a second way */
	say(b, 400, "start", "RECORDS_WRITTEN=5000", END);  /* counts anew */
	s = told(b, HOUR);
	ASSERT(s->gaps_len == 2);
	expect_gap(s, 0, GAP_MISSING, 100, 200, 7);
	EXPECT_STR(s->gaps[0]->text, "7 records written and not in the journal");
	expect_gap(s, 1, GAP_DOWN, 300, 400, 0);
}

TEST(filters_and_texts_of_stacks_miss_no_record)
{
	struct story_builder *b = stretch_of(1, 8, NULL);
	_cleanup_story_ struct story *s = NULL;
	size_t iter = 0;

	say(b, 100, "health", "RECORDS_WRITTEN=10", END);
	flat(b, 150, 7, 1);
	say(b, 160, "sample", "PID=8", "BYTES=1", "TOP_SITES=00000000000000aa 1 1", END);
	say(b, 200, "health", "RECORDS_WRITTEN=13", END);
	EXPECT(story_next_untold_stack(b, &iter));
	say(b, 90, "site", "STACK_ID=00000000000000aa", "STACK=f", "SUPPRESSED=5", END);
	s = told(b, HOUR);
	EXPECT_EQ(s->gaps_len, 0);
	EXPECT_EQ(s->processes_len, 1);
}

TEST(lost_events)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, -100, "health", "LOST_EVENTS=50", END);
	say(b, 100, "health", "LOST_EVENTS=50", END);
	say(b, 150, "sample", "PID=7", "BYTES=1", "LOST_EVENTS=999", END); /* of that process */
	say(b, 200, "health", "LOST_EVENTS=51", END);
	say(b, 300, "health", "LOST_EVENTS=3", END); /* counts anew */
	say(b, 400, "health", "LOST_EVENTS=10", END);
	say(b, 401, "health", "_PID=900", "LOST_EVENTS=5000", END); /* of before it was there */
	s = told(b, HOUR);
	ASSERT(s->gaps_len == 2);
	expect_gap(s, 0, GAP_LOST, 100, 200, 1);
	EXPECT_STR(s->gaps[0]->text, "1 event between kernel and daemon lost");
	expect_gap(s, 1, GAP_LOST, 300, 400, 7);
}

TEST(suspended)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, -10, "health", END);
	say(b, 500, "health", "ASLEEP_SEC=300", END);
	say(b, 1000, "health", "ASLEEP_SEC=18446744073709551615", END);
	s = told(b, HOUR);
	ASSERT(s->gaps_len == 1);
	expect_gap(s, 0, GAP_ASLEEP, 200, 500, 0);
	EXPECT_STR(s->gaps[0]->text, "the host was suspended for 5m");
}

TEST(held_back)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, 10, "health", END);
	say(b, 60, "live_bytes", "RULE=r", "SUPPRESSED=3", END);
	say(b, 120, "suppressed", "SUPPRESSED=4", END);
	say(b, 800, "health", END);
	say(b, 900, "suppressed", "SUPPRESSED=1", END);
	s = told(b, HOUR);
	ASSERT(s->gaps_len == 2);
	expect_gap(s, 0, GAP_SUPPRESSED, 10, 120, 7);
	expect_gap(s, 1, GAP_SUPPRESSED, 800, 900, 1);
	EXPECT_STR(s->gaps[1]->text, "1 record held back by gpuxray");
	EXPECT_EQ(s->incidents_len, 1);
}

TEST(each_host_has_its_own)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, -10, "health", "HEALTH_SEC=300", "RECORDS_WRITTEN=5", END);
	say(b, -9, "health", "_MACHINE_ID=b", "_HOSTNAME=gpu02", "RECORDS_WRITTEN=900", END);
	say(b, 10, "stop", "_MACHINE_ID=b", "_HOSTNAME=gpu02", "RECORDS_WRITTEN=901", END);
	say(b, 20, "health", "RECORDS_WRITTEN=6", END);
	s = told(b, 300);
	ASSERT(s->gaps_len == 1 && s->hosts_len == 2);
	expect_gap(s, 0, GAP_DOWN, 10, 300, 0);
	EXPECT_STR(s->gaps[0]->host->name, "gpu02");
}

TEST(more_than_can_be_told)
{
	struct story_builder *b = stretch_of(24, 0, NULL);
	_cleanup_story_ struct story *s = NULL;

	for (unsigned i = 0; i <= STORY_GAPS_MAX + 5; i++)
		say(b, 1 + i, "health", fmt("LOST_EVENTS=%u", i), END);
	s = told(b, 2100);
	EXPECT_EQ(s->gaps_len, STORY_GAPS_MAX);
	EXPECT_EQ(s->left_out.gaps, 5);
}

TEST(the_journal_begins_late_and_the_daemon_was_stopped)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	flat(b, 2000, 7, 1);
	say(b, 2100, "health", "HEALTH_SEC=300", END);
	say(b, 2200, "stop", END);
	s = told(b, HOUR);
	ASSERT(s->gaps_len == 2);
	expect_gap(s, 0, GAP_MISSING, 0, 2000, 0);
	expect_gap(s, 1, GAP_DOWN, 2200, HOUR, 0);
}

TEST_MAIN()
