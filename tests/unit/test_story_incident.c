/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "story_make.h"

#define ID_A "INCIDENT=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ID_B "INCIDENT=bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define ABOUT "RULE=quota", "SCOPE=process", "PID=7", "START_TIME=100", "COMM=python3"

TEST(from_firing_to_resolved)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	struct story_incident *in;

	flat(b, 1, 7, 10);
	say(b, 10, "live_bytes", ABOUT, ID_A, "SEQ=1", "STATE=firing", "SEVERITY=warning", "VALUE=50", "LIMIT=40",
	    "VALUE_UNIT=bytes", "MESSAGE=first\n\nstack", "DEVICE=GPU-a", "DEVICE_INDEX=0", END);
	say(b, 20, "live_bytes", ABOUT, ID_A, "SEQ=2", "STATE=repeat", "SEVERITY=critical", "VALUE=70", "LIMIT=40",
	    "MESSAGE=second", "STACK_ID=00000000000000aa", "CAVEAT=sparse", "CONFIDENCE=0.87", "DOCUMENTATION=https://x/",
	    "GROWTH_BYTES_PER_HOUR=5", "FULL_IN_SEC=6", "LEAKED_BYTES=7", END);
	say(b, 30, "live_bytes", ABOUT, ID_A, "SEQ=3", "STATE=repeat", "SEVERITY=error", "VALUE=60", "MESSAGE=third", END);
	say(b, 45, "live_bytes", ABOUT, ID_A, "SEQ=4", "STATE=resolved", "SEVERITY=error", "VALUE=10", "MESSAGE=over",
	    "DURATION_SEC=36", END);
	s = told(b, HOUR);
	ASSERT(s->incidents_len == 1);
	in = s->incidents[0];
	EXPECT_STR(in->id, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
	EXPECT_STR(in->rule, "quota");
	EXPECT_STR(in->event, "live_bytes");
	EXPECT_STR(in->scope, "process");
	EXPECT_STR(in->severity, "critical");
	EXPECT_STR(in->subject, "python3[7]");
	EXPECT_STR(in->message, "third");
	EXPECT_STR(in->value_unit, "bytes");
	EXPECT_STR(in->caveat, "sparse");
	EXPECT_STR(in->documentation, "https://x/");
	EXPECT_EQ(in->state, STORY_RESOLVED);
	EXPECT_EQ(in->begin_usec, AT(10));
	EXPECT_EQ(in->last_usec, AT(45));
	EXPECT_EQ(in->end_usec, AT(45));
	EXPECT_EQ(in->duration_sec, 36);
	EXPECT_EQ(in->value, 60);
	EXPECT_EQ(in->peak_value, 70);
	EXPECT_EQ(in->limit, 40);
	EXPECT_EQ(in->growth_bytes_per_hour, 5);
	EXPECT_EQ(in->full_in_sec, 6);
	EXPECT_EQ(in->leaked_bytes, 7);
	EXPECT(in->confidence > 0.86 && in->confidence < 0.88);
	EXPECT(!in->is_before);
	EXPECT_EQ(in->records, 4);
	EXPECT(in->process == s->processes[0] && in->device == s->devices[0]);
	EXPECT_EQ(in->process->incidents, 1);
	ASSERT(in->stack);
	EXPECT_STR(in->stack->id, "00000000000000aa");
}

/* Their records say "firing", and no other ever comes. */
TEST(what_is_of_a_moment_does_not_go_on)
{
	static const char *const events[] = { "single_alloc", "alloc_failure", "exit" };

	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		struct story_builder *b = stretch();
		_cleanup_story_ struct story *s = NULL;

		say(b, 10, events[i], ABOUT, ID_A, "SEQ=1", "STATE=firing", "SEVERITY=error", "MESSAGE=m", END);
		s = told(b, HOUR);
		ASSERT(s->incidents_len == 1);
		EXPECT_EQ(s->incidents[0]->state, STORY_SINGLE);
		EXPECT_EQ(s->incidents[0]->duration_sec, STORY_ABSENT);
	}
}

TEST(a_record_told_twice_counts_once)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, 10, "live_bytes", ABOUT, ID_A, "SEQ=1", "STATE=firing", END);
	say(b, 10, "live_bytes", ABOUT, ID_A, "SEQ=1", "STATE=firing", END);
	say(b, 20, "live_bytes", ABOUT, ID_A, "SEQ=3", "STATE=repeat", END);
	say(b, 21, "live_bytes", ABOUT, ID_A, "SEQ=2", "STATE=repeat", END);
	say(b, 22, "live_bytes", ABOUT, ID_A, "SEQ=2", "STATE=repeat", END);
	/* Others have no number: each is one. */
	say(b, 30, "single_alloc", ABOUT, END);
	say(b, 30, "single_alloc", ABOUT, END);
	s = told(b, HOUR);
	ASSERT(s->incidents_len == 3);
	EXPECT_EQ(s->incidents[0]->records, 3);
	EXPECT_EQ(s->incidents[1]->state, STORY_SINGLE);
	EXPECT(!s->incidents[1]->id);
	EXPECT(s->incidents[1]->duration_sec == STORY_ABSENT && s->incidents[1]->value == STORY_ABSENT);
	EXPECT(s->incidents[1]->confidence < 0);
}

TEST(what_began_before)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, -600, "live_bytes", ABOUT, ID_A, "SEQ=1", "STATE=firing", END);
	say(b, -500, "live_bytes", ABOUT, ID_B, "SEQ=1", "STATE=firing", END);
	say(b, -400, "live_bytes", ABOUT, ID_B, "SEQ=2", "STATE=resolved", END); /* over before it begins */
	say(b, -300, "exit", ABOUT, END);					 /* stands alone before it */
	say(b, 10, "live_bytes", ABOUT, ID_A, "SEQ=2", "STATE=resolved", END);
	/* Its beginning lies before all that was read. */
	say(b, 20, "leak", ABOUT, "INCIDENT=c", "SEQ=9", "STATE=resolved", "DURATION_SEC=10000", END);
	say(b, 30, "leak", ABOUT, "INCIDENT=d", "SEQ=9", "STATE=repeat", END);
	s = told(b, HOUR);
	ASSERT(s->incidents_len == 3);
	EXPECT_EQ(s->incidents[0]->begin_usec, AT(20 - 10000));
	EXPECT(s->incidents[0]->is_before);
	EXPECT_EQ(s->incidents[0]->duration_sec, 10000);
	EXPECT_EQ(s->incidents[1]->begin_usec, AT(-600));
	EXPECT(s->incidents[1]->is_before);
	EXPECT_EQ(s->incidents[1]->duration_sec, 610);
	EXPECT_EQ(s->incidents[2]->begin_usec, AT(30));
	EXPECT(s->incidents[2]->is_before && s->incidents[2]->state == STORY_FIRING);
}

TEST(one_that_still_fires_is_there_without_a_word)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, -600, "live_bytes", ABOUT, ID_A, "SEQ=1", "STATE=firing", END);
	s = told(b, HOUR);
	ASSERT(s->incidents_len == 1);
	EXPECT_EQ(s->incidents[0]->state, STORY_FIRING);
	EXPECT_EQ(s->incidents[0]->end_usec, 0);
	EXPECT_EQ(s->incidents[0]->duration_sec, 0);
}

TEST(firing_after_the_end_is_firing)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, 10, "live_bytes", ABOUT, ID_A, "SEQ=1", "STATE=firing", "VALUE=1", END);
	say(b, 20, "live_bytes", ABOUT, ID_A, "SEQ=2", "STATE=resolved", END);
	say(b, 30, "live_bytes", ABOUT, ID_A, "SEQ=3", "STATE=firing", END);
	s = told(b, HOUR);
	ASSERT(s->incidents_len == 1);
	EXPECT_EQ(s->incidents[0]->state, STORY_FIRING);
	EXPECT_EQ(s->incidents[0]->duration_sec, 20);
}

TEST(subjects)
{
	static const struct {
		const char *scope, *field, *subject;
	} cases[] = {
		{ "SCOPE=device", "DEVICE=GPU-0123456789", "GPU-01234567" },
		{ "SCOPE=unit", "UNIT=train.service", "train.service" },
		{ "SCOPE=user", "USER=ada", "ada" },
		{ "SCOPE=container", "CONTAINER=c0ffee", "c0ffee" },
		{ "SCOPE=process", "PID=7", "?[7]" },
		{ "SCOPE=stack", "PID=7", "?[7]" },
		{ "SCOPE=cgroup", "CGROUP=/a/b", "/a/b" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct story_builder *b = stretch();
		_cleanup_story_ struct story *s = NULL;

		say(b, 10, "live_bytes", "RULE=r", cases[i].scope, cases[i].field, END);
		s = told(b, HOUR);
		ASSERT(s->incidents_len == 1);
		EXPECT_STR(s->incidents[0]->subject, cases[i].subject);
	}
}

TEST(a_process_known_by_an_incident_alone)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, 10, "live_bytes", ABOUT, ID_A, "SEQ=1", "STATE=firing", "LIVE_BYTES=500", END);
	say(b, 20, "live_bytes", ABOUT, ID_A, "SEQ=2", "STATE=resolved", "LIVE_BYTES=20", END);
	s = told(b, HOUR);
	ASSERT(s->processes_len == 1);
	EXPECT_EQ(s->processes[0]->held_len, 0);
	EXPECT_EQ(s->processes[0]->peak_bytes, 500);
	EXPECT_EQ(s->processes[0]->peak_usec, AT(10));
	EXPECT_EQ(s->processes[0]->live_bytes, 20);
}

TEST(what_is_no_number)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, 10, "leak", ABOUT, "VALUE=99999999999999999999", "CONFIDENCE=nan", "SEQ=x", "SEVERITY=awful", END);
	say(b, 11, "leak", ABOUT, "CONFIDENCE=1.5", END);
	say(b, 12, "leak", ABOUT, "CONFIDENCE=0.5", END);
	s = told(b, HOUR);
	ASSERT(s->incidents_len == 3);
	EXPECT(s->incidents[0]->value == STORY_ABSENT && s->incidents[0]->confidence < 0);
	EXPECT(s->incidents[1]->confidence < 0);
	EXPECT(s->incidents[2]->confidence == 0.5);
	EXPECT_EQ(s->left_out.unreadable, 2);
}

TEST(the_least_important_go_first)
{
	enum { MORE = 7000 };
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	size_t infos = 0;

	for (unsigned i = 0; i < STORY_INCIDENTS_MAX + MORE; i++)
		say(b, i * 0.01, "leak", "RULE=r", fmt("INCIDENT=%032x", i), "SEQ=1", "STATE=firing",
		    i % 3 ? "SEVERITY=error" : "SEVERITY=info", END);
	s = told(b, HOUR);
	EXPECT_EQ(s->incidents_len, STORY_INCIDENTS_MAX);
	EXPECT_EQ(s->left_out.incidents, MORE);
	for (size_t i = 0; i < s->incidents_len; i++)
		infos += strcmp(s->incidents[i]->severity, "info") == 0;
	EXPECT_EQ(infos, (STORY_INCIDENTS_MAX + MORE) / 3 - MORE);
}

/* Only what is told again was read: since when it fires is not known until its end says how long it was. */
TEST(what_fires_since_nobody_knows_when)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, -600, "leak", ABOUT, ID_A, "SEQ=8", "STATE=repeat", END);
	say(b, 1200, "leak", ABOUT, ID_A, "SEQ=9", "STATE=repeat", END);
	say(b, -500, "leak", ABOUT, ID_B, "SEQ=8", "STATE=repeat", END);
	say(b, 1300, "leak", ABOUT, ID_B, "SEQ=9", "STATE=resolved", "DURATION_SEC=90000", END);
	s = told(b, HOUR);
	ASSERT(s->incidents_len == 2);
	EXPECT_EQ(s->incidents[0]->begin_usec, AT(1300 - 90000));
	EXPECT_EQ(s->incidents[0]->duration_sec, 90000);
	EXPECT(!s->incidents[0]->is_older);
	EXPECT(s->incidents[1]->is_older && s->incidents[1]->is_before);
	EXPECT_EQ(s->incidents[1]->duration_sec, STORY_ABSENT);
}

TEST_MAIN()
