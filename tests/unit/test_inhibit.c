/* SPDX-License-Identifier: MIT */
/* Rules that are silent while another one fires. */
#include "engine_sim.h"
#include "rule/incident_pack.h"

#define RULES(text) "version = 1; rules = (" text ");"
/* "low" stands first: order in the file must not matter. */
#define TWO                                                                                                            \
	RULES("{ name = \"low\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; resolve_below = \"50MiB\"; for = \"0s\";"     \
	      " repeat = \"20s\"; },"                                                                                  \
	      "{ name = \"high\"; kind = \"live_bytes\"; fire_above = \"200MiB\"; resolve_below = \"150MiB\"; for = \"0s\";"   \
	      " repeat = \"0s\"; inhibits = [ \"low\" ]; }")

static bool status_has(struct sim *s, const char *what)
{
	_cleanup_strbuf_ struct strbuf json = STRBUF_INIT;

	engine_status_json(s->e, &json, s->now);
	return strstr(strbuf_str(&json), what);
}

TEST(never_said_and_said_when_it_is_left_alone)
{
	struct report *r;
	struct block b;
	struct sim s;

	sim_new(&s, TWO);
	sim_alloc(&s, 3, 120 * MIB, 1);
	sim_clear(&s);
	sim_simple(&s, EVENT_EXIT, 3);
	sim_clear(&s);
	/* Both limits at once. */
	sim_alloc(&s, 4, 120 * MIB, 1);
	sim_simple(&s, EVENT_EXIT, 4);
	sim_clear(&s);
	b = sim_alloc(&s, 5, 250 * MIB, 1);
	ASSERT(s.len == 1);
	EXPECT_STR(s.reports[0]->rule, "high");
	sim_pass(&s, 60 * SEC);
	EXPECT_EQ(s.len, 1);
	EXPECT(status_has(&s, "{\"name\":\"low\",\"state\":\"inhibited\",\"pid\":5,"));
	EXPECT(status_has(&s, "\"inhibited_count\":1}"));
	EXPECT(status_has(&s, "{\"name\":\"high\",\"state\":\"firing\",\"pid\":5,"));
	/* Another process is another subject. */
	sim_alloc(&s, 6, 120 * MIB, 1);
	EXPECT_EQ(sim_count(&s, "low", STATE_FIRING), 1);
	/* The high one ends, the low one fires still. */
	sim_alloc(&s, 5, 110 * MIB, 1);
	sim_free(&s, b);
	sim_pass(&s, 2 * SEC);
	EXPECT_EQ(sim_count(&s, "high", STATE_RESOLVED), 1);
	ASSERT(sim_count(&s, "low", STATE_FIRING) == 2);
	r = sim_get(&s, "low", 1);
	EXPECT_EQ(r->id->pid, 5);
	EXPECT_EQ(r->seq, 1);
	EXPECT(status_has(&s, "{\"name\":\"low\",\"state\":\"firing\",\"pid\":5,"));
	sim_done(&s);
}

/* Said before the other came: its end is said, and no repeats until then. */
TEST(said_before)
{
	struct block a, b;
	struct sim s;

	sim_new(&s, TWO);
	a = sim_alloc(&s, 3, 120 * MIB, 1);
	sim_pass(&s, 21 * SEC);
	EXPECT_EQ(sim_count(&s, "low", STATE_FIRING), 1);
	EXPECT_EQ(sim_count(&s, "low", STATE_REPEAT), 1);
	b = sim_alloc(&s, 3, 100 * MIB, 1);
	EXPECT_EQ(sim_count(&s, "high", STATE_FIRING), 1);
	sim_pass(&s, 100 * SEC);
	EXPECT_EQ(sim_count(&s, "low", STATE_REPEAT), 1);
	EXPECT(status_has(&s, "{\"name\":\"low\",\"state\":\"firing\",\"pid\":3,"));
	EXPECT(status_has(&s, "\"inhibited_count\":5}"));
	sim_free(&s, b);
	sim_pass(&s, 22 * SEC);
	EXPECT_EQ(sim_count(&s, "low", STATE_REPEAT), 2);
	b = sim_alloc(&s, 3, 100 * MIB, 1);
	sim_free(&s, a);
	sim_free(&s, b);
	sim_pass(&s, 2 * SEC);
	EXPECT_EQ(sim_count(&s, "low", STATE_RESOLVED), 1);
	EXPECT_EQ(sim_count(&s, "high", STATE_RESOLVED), 2);
	sim_done(&s);
}

/* One that was never said ends as silently. */
TEST(ends_in_silence)
{
	struct sim s;

	sim_new(&s, TWO);
	sim_alloc(&s, 3, 250 * MIB, 1);
	sim_pass(&s, 5 * SEC);
	sim_simple(&s, EVENT_EXIT, 3);
	EXPECT_EQ(sim_count(&s, "low", STATE_NONE), 0);
	EXPECT_EQ(sim_count(&s, "high", STATE_NONE), 2);
	sim_done(&s);
}

/* What nobody has been told of silences nobody. */
TEST(an_inhibitor_must_have_been_heard)
{
	struct sim s;

	sim_new(&s, RULES("{ name = \"high\"; kind = \"live_bytes\"; fire_above = \"200MiB\"; for = \"0s\"; budget = \"1/1h\";"
			  " repeat = \"0s\"; inhibits = [ \"low\" ]; },"
			  "{ name = \"low\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; for = \"0s\"; }"));
	sim_alloc(&s, 3, 250 * MIB, 1);
	EXPECT_EQ(s.len, 1);
	sim_alloc(&s, 4, 250 * MIB, 1);
	ASSERT(s.len == 2);
	EXPECT_STR(s.reports[1]->rule, "low");
	sim_done(&s);
	/* Nor one that is only pending. */
	sim_new(&s, RULES("{ name = \"high\"; kind = \"live_bytes\"; fire_above = \"200MiB\"; for = \"10s\";"
			  " inhibits = [ \"low\" ]; },"
			  "{ name = \"low\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; for = \"0s\"; }"));
	sim_alloc(&s, 3, 250 * MIB, 1);
	EXPECT_EQ(sim_count(&s, "low", STATE_FIRING), 1);
	sim_done(&s);
}

TEST(single_events_too)
{
	struct block b;
	struct sim s;

	sim_new(&s, RULES("{ name = \"full\"; kind = \"live_bytes\"; fire_above = \"200MiB\"; for = \"0s\";"
			  " inhibits = [ \"oom\", \"huge\", \"bye\" ]; },"
			  "{ name = \"oom\"; kind = \"alloc_failure\"; },"
			  "{ name = \"huge\"; kind = \"single_alloc\"; fire_above = \"10MiB\"; },"
			  "{ name = \"bye\"; kind = \"exit\"; live_above = \"1B\"; never_freed_above = 0.1; min_runtime = \"0s\"; }"));
	b = sim_alloc(&s, 3, 250 * MIB, 1);
	EXPECT_EQ(s.len, 1);
	sim_fail(&s, 3, 1, 1);
	sim_fail(&s, 3, 1, 1);
	EXPECT_EQ(s.len, 1);
	EXPECT(status_has(&s, "{\"name\":\"oom\",\"state\":\"inactive\",\"pid\":null,\"value\":null,\"limit\":null,"
			      "\"inhibited_count\":2}"));
	sim_fail(&s, 4, 1, 1);
	EXPECT_EQ(sim_count(&s, "oom", STATE_FIRING), 1);
	EXPECT_EQ(sim_get(&s, "oom", 0)->suppressed, 0);
	sim_free(&s, b);
	sim_pass(&s, SEC);
	sim_fail(&s, 3, 1, 1);
	EXPECT_EQ(sim_count(&s, "oom", STATE_FIRING), 2);
	b = sim_alloc(&s, 3, 250 * MIB, 1);
	sim_simple(&s, EVENT_EXIT, 3);
	EXPECT_EQ(sim_count(&s, "bye", STATE_NONE), 0);
	sim_done(&s);
}

#define DEVICE                                                                                                         \
	RULES("{ name = \"p\"; kind = \"live_bytes\"; fire_above = \"1GiB\"; for = \"0s\"; },"                             \
	      "{ name = \"dev\"; kind = \"live_bytes\"; scope = \"device\"; fire_above = \"6GiB\"; for = \"0s\";"              \
	      " inhibits = [ \"p\", \"only\" ]; },"                                                                    \
	      "{ name = \"only\"; kind = \"live_bytes\"; scope = \"device\"; fire_above = \"1GiB\"; for = \"0s\";"             \
	      " match = { user = \"^u$\"; }; }")

TEST(a_device_silences_those_on_it)
{
	struct block b;
	struct sim s;

	sim_new(&s, DEVICE);
	(void)engine_set_device(s.e, "GPU-a", 0, "H200", 10 * GIB, ABSENT_U64);
	(void)engine_set_device(s.e, "GPU-b", 1, "H200", 10 * GIB, ABSENT_U64);
	for (uint32_t pid = 3; pid <= 6; pid++) {
		sim_simple(&s, EVENT_PROCESS, pid);
		sim_identify(&s, pid, "x", NULL, pid == 5 ? "u" : "v");
		(void)engine_set_ordinal(s.e, pid, pid * SEC, 0, pid == 4 ? "GPU-b" : "GPU-a");
	}
	/* It knows both, and has memory on the other one. */
	(void)engine_set_ordinal(s.e, 6, 6 * SEC, 1, "GPU-b");
	b = sim_alloc(&s, 3, 7 * GIB, 1);
	EXPECT_EQ(sim_count(&s, "dev", STATE_FIRING), 1);
	EXPECT_EQ(sim_count(&s, "p", STATE_FIRING), 0);
	sim_alloc(&s, 4, 2 * GIB, 1);
	EXPECT_EQ(sim_count(&s, "p", STATE_FIRING), 1); /* on another device */
	sim_alloc(&s, 5, 2 * GIB, 1);
	EXPECT_EQ(sim_count(&s, "p", STATE_FIRING), 1);
	/* A group of the same device, though of some processes only. */
	EXPECT_EQ(sim_count(&s, "only", STATE_FIRING), 0);
	sim_alloc_on(&s, 6, 2 * GIB, 1, CLASS_DEVICE, 1);
	EXPECT_EQ(sim_count(&s, "p", STATE_FIRING), 2);
	sim_free(&s, b);
	sim_pass(&s, SEC);
	EXPECT_EQ(sim_count(&s, "dev", STATE_RESOLVED), 1);
	EXPECT_EQ(sim_count(&s, "p", STATE_FIRING), 3);
	sim_pass(&s, SEC);
	EXPECT_EQ(sim_count(&s, "only", STATE_FIRING), 1);
	sim_done(&s);
}

/* A rule with a match speaks for those it matches. */
TEST(a_unit_silences_its_members_that_match)
{
	struct sim s;

	sim_new(&s, RULES("{ name = \"p\"; kind = \"live_bytes\"; fire_above = \"1GiB\"; for = \"0s\"; },"
			  "{ name = \"u\"; kind = \"live_bytes\"; scope = \"unit\"; fire_above = \"3GiB\"; for = \"0s\";"
			  " match = { comm = \"^train$\"; }; inhibits = \"p\"; }"));
	for (uint32_t pid = 3; pid <= 6; pid++) {
		sim_simple(&s, EVENT_PROCESS, pid);
		sim_identify(&s, pid, pid == 5 ? "other" : "train", pid == 6 ? "b.service" : "a.service", "v");
	}
	sim_alloc(&s, 3, 4 * GIB, 1);
	EXPECT_EQ(sim_count(&s, "u", STATE_FIRING), 1);
	sim_alloc(&s, 4, 2 * GIB, 1);
	EXPECT_EQ(sim_count(&s, "p", STATE_FIRING), 0);
	sim_alloc(&s, 5, 2 * GIB, 1);
	EXPECT_EQ(sim_count(&s, "p", STATE_FIRING), 1);
	sim_alloc(&s, 6, 2 * GIB, 1);
	EXPECT_EQ(sim_count(&s, "p", STATE_FIRING), 2);
	sim_done(&s);
}

static void leak_on(struct sim *s, int seconds)
{
	for (int i = 0; i < seconds; i++) {
		sim_alloc(s, 3, 2 * MIB, 1);
		sim_pass(s, SEC);
	}
}

/* A site belongs to its process, on either side. */
TEST(sites_and_their_process)
{
	static const char site_is_silent[] =
		RULES("{ name = \"quota\"; kind = \"live_bytes\"; fire_above = \"4MiB\"; for = \"0s\"; inhibits = [ \"leak\" ]; },"
		      "{ name = \"leak\"; kind = \"leak\"; scope = \"stack\"; epoch = \"2s\"; epochs = 8; min_growth = \"4MiB\";"
		      " for_epochs = 3; }");
	static const char site_silences[] =
		RULES("{ name = \"leak\"; kind = \"leak\"; scope = \"stack\"; epoch = \"2s\"; epochs = 8; min_growth = \"4MiB\";"
		      " for_epochs = 3; inhibits = [ \"oom\" ]; }, { name = \"oom\"; kind = \"alloc_failure\"; }");
	struct sim s;

	sim_new(&s, site_is_silent);
	leak_on(&s, 60);
	EXPECT_EQ(sim_count(&s, "quota", STATE_FIRING), 1);
	EXPECT_EQ(sim_count(&s, "leak", STATE_NONE), 0);
	EXPECT(status_has(&s, "{\"name\":\"leak\",\"state\":\"inhibited\",\"pid\":3,"));
	sim_done(&s);
	sim_new(&s, site_silences);
	sim_fail(&s, 3, 1, 1);
	EXPECT_EQ(sim_count(&s, "oom", STATE_FIRING), 1);
	leak_on(&s, 60);
	EXPECT_EQ(sim_count(&s, "leak", STATE_FIRING), 1);
	sim_fail(&s, 3, 1, 1);
	EXPECT_EQ(sim_count(&s, "oom", STATE_FIRING), 1);
	sim_fail(&s, 4, 1, 1);
	EXPECT_EQ(sim_count(&s, "oom", STATE_FIRING), 2);
	sim_done(&s);
}

/* It is no less bad for being held back. */
TEST(a_rise_waits_as_well)
{
	struct block b;
	struct sim s;

	sim_new(&s, RULES("{ name = \"low\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; for = \"0s\"; repeat = \"0s\";"
			  " escalate = { severity = \"error\"; after = \"10s\"; }; },"
			  "{ name = \"high\"; kind = \"live_bytes\"; fire_above = \"200MiB\"; for = \"0s\";"
			  " inhibits = [ \"low\" ]; }"));
	sim_alloc(&s, 3, 150 * MIB, 1);
	b = sim_alloc(&s, 3, 100 * MIB, 1);
	sim_pass(&s, 30 * SEC);
	EXPECT_EQ(sim_count(&s, "low", STATE_NONE), 1);
	sim_free(&s, b);
	sim_pass(&s, SEC);
	ASSERT(sim_count(&s, "low", STATE_REPEAT) == 1);
	EXPECT_EQ(sim_get(&s, "low", 1)->severity, SEVERITY_ERROR);
	sim_done(&s);
}

/* Those that are silent take no place among those that are said. */
TEST(silent_ones_leave_room)
{
	struct sim s;

	sim_new(&s, RULES("{ name = \"low\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; for = \"0s\"; max_incidents = 2; },"
			  "{ name = \"high\"; kind = \"live_bytes\"; fire_above = \"200MiB\"; for = \"0s\";"
			  " inhibits = [ \"low\" ]; }"));
	for (uint32_t pid = 1; pid <= 10; pid++)
		sim_alloc(&s, pid, 250 * MIB, 1);
	sim_alloc(&s, 11, 120 * MIB, 1);
	sim_alloc(&s, 12, 120 * MIB, 1);
	EXPECT_EQ(sim_count(&s, "low", STATE_FIRING), 2);
	sim_pass(&s, 5 * SEC);
	EXPECT_EQ(sim_count(&s, "low", STATE_FIRING), 2); /* no summary of silent ones */
	for (uint32_t pid = 1; pid <= 12; pid++)
		sim_simple(&s, EVENT_EXIT, pid);
	EXPECT_EQ(sim_count(&s, "low", STATE_RESOLVED), 2);
	EXPECT(status_has(&s, "{\"name\":\"low\",\"state\":\"inactive\""));
	sim_done(&s);
}

/* Two rules see one leak, one of them late: when it stops, the end of the one must not let the other speak. */
TEST(what_has_stopped_is_not_said_late)
{
	struct sim s;

	sim_new(&s, RULES("{ name = \"slow\"; kind = \"leak\"; epoch = \"10s\"; epochs = 4; min_growth = \"4MiB\";"
			  " for_epochs = 3; },"
			  "{ name = \"leak\"; kind = \"leak\"; epoch = \"2s\"; epochs = 8; min_growth = \"4MiB\";"
			  " for_epochs = 3; inhibits = [ \"slow\" ]; }"));
	leak_on(&s, 200);
	EXPECT_EQ(sim_count(&s, "leak", STATE_FIRING), 1);
	EXPECT(status_has(&s, "{\"name\":\"slow\",\"state\":\"inhibited\",\"pid\":3,"));
	sim_pass(&s, 300 * SEC);
	EXPECT_EQ(sim_count(&s, "leak", STATE_RESOLVED), 1);
	EXPECT_EQ(sim_count(&s, "slow", STATE_NONE), 0);
	EXPECT(status_has(&s, "{\"name\":\"slow\",\"state\":\"inactive\""));
	/* It goes on, and the other rule is gone: it is said, if not at once. */
	leak_on(&s, 200);
	EXPECT_EQ(sim_count(&s, "slow", STATE_NONE), 0);
	sim_rules(&s, RULES("{ name = \"slow\"; kind = \"leak\"; epoch = \"10s\"; epochs = 4; min_growth = \"4MiB\";"
			    " for_epochs = 3; }"));
	leak_on(&s, 20);
	EXPECT_EQ(sim_count(&s, "slow", STATE_NONE), 0);
	leak_on(&s, 100);
	EXPECT_EQ(sim_count(&s, "slow", STATE_FIRING), 1);
	sim_done(&s);
}

/* A reload that changes only who silences whom ends no incident. */
TEST(reload)
{
	static const char apart[] =
		RULES("{ name = \"low\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; resolve_below = \"50MiB\"; for = \"0s\";"
		      " repeat = \"20s\"; },"
		      "{ name = \"high\"; kind = \"live_bytes\"; fire_above = \"200MiB\"; resolve_below = \"150MiB\";"
		      " for = \"0s\"; repeat = \"0s\"; }");
	struct sim s;

	sim_new(&s, TWO);
	sim_alloc(&s, 3, 250 * MIB, 1);
	sim_pass(&s, 5 * SEC);
	EXPECT_EQ(s.len, 1);
	sim_rules(&s, TWO);
	sim_pass(&s, 5 * SEC);
	EXPECT_EQ(s.len, 1);
	sim_rules(&s, apart);
	sim_pass(&s, 2 * SEC);
	EXPECT_EQ(sim_count(&s, "high", STATE_NONE), 1);
	EXPECT_EQ(sim_count(&s, "low", STATE_FIRING), 1);
	sim_rules(&s, TWO);
	sim_pass(&s, 60 * SEC);
	EXPECT_EQ(s.len, 2);
	/* Without the other it is free to speak. */
	sim_rules(&s, RULES("{ name = \"low\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; resolve_below = \"50MiB\";"
			    " for = \"0s\"; repeat = \"20s\"; }"));
	sim_pass(&s, 22 * SEC);
	EXPECT_EQ(sim_count(&s, "high", STATE_RESOLVED), 1);
	EXPECT(sim_count(&s, "low", STATE_REPEAT) >= 1);
	sim_done(&s);
}

TEST_MAIN()
