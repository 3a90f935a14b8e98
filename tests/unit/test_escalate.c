/* SPDX-License-Identifier: MIT */
/* Incidents that get worse. */
#include "engine_sim.h"

#define RULES(text) "version = 1; rules = (" text ");"
#define ABOVE                                                                                                          \
	RULES("{ name = \"q\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; resolve_below = \"80MiB\"; for = \"0s\";"      \
	      " severity = \"warning\"; repeat = \"60s\"; message = \"%{severity} %{comm}\";"                          \
	      " escalate = { severity = \"error\"; above = \"200MiB\"; }; }")

static void expect_report(const struct sim *s, size_t n, enum report_state state, enum severity severity, uint32_t seq)
{
	ASSERT(n < s->len);
	EXPECT_EQ(s->reports[n]->state, state);
	EXPECT_EQ(s->reports[n]->severity, severity);
	EXPECT_EQ(s->reports[n]->seq, seq);
	EXPECT(memcmp(s->reports[n]->incident, s->reports[0]->incident, 16) == 0);
}

TEST(above_raises_once_and_stays)
{
	struct block b;
	struct sim s;

	sim_new(&s, ABOVE);
	sim_alloc(&s, 3, 90 * MIB, 1);
	b = sim_alloc(&s, 3, 60 * MIB, 1);
	sim_pass(&s, 10 * SEC);
	EXPECT_EQ(s.len, 1);
	expect_report(&s, 0, STATE_FIRING, SEVERITY_WARNING, 1);
	EXPECT_STR(s.reports[0]->message, "warning ?");
	/* As much as the limit is not above it. */
	sim_free(&s, b);
	b = sim_alloc(&s, 3, 110 * MIB, 1);
	sim_pass(&s, SEC);
	EXPECT_EQ(s.len, 1);
	sim_alloc(&s, 3, 1, 1);
	sim_pass(&s, SEC);
	ASSERT(s.len == 2);
	expect_report(&s, 1, STATE_REPEAT, SEVERITY_ERROR, 2);
	EXPECT_STR(s.reports[1]->message, "error ?");
	/* Down and up again: nothing new. */
	for (int i = 0; i < 5; i++) {
		sim_free(&s, b);
		sim_pass(&s, 2 * SEC);
		b = sim_alloc(&s, 3, 150 * MIB, 1);
		sim_pass(&s, 2 * SEC);
	}
	EXPECT_EQ(s.len, 2);
	/* Repeats and the end go on as loud. */
	sim_pass(&s, 50 * SEC);
	expect_report(&s, 2, STATE_REPEAT, SEVERITY_ERROR, 3);
	sim_simple(&s, EVENT_EXIT, 3);
	expect_report(&s, 3, STATE_RESOLVED, SEVERITY_ERROR, 4);
	EXPECT_EQ(s.len, 4);
	/* Another one begins anew. */
	sim_alloc(&s, 4, 150 * MIB, 1);
	ASSERT(s.len == 5);
	EXPECT_EQ(s.reports[4]->severity, SEVERITY_WARNING);
	sim_done(&s);
}

/* Both limits at once: one record, and that is the loud one. */
TEST(at_once_is_one_record)
{
	struct sim s;

	sim_new(&s, ABOVE);
	sim_alloc(&s, 3, 250 * MIB, 1);
	EXPECT_EQ(s.len, 1);
	expect_report(&s, 0, STATE_FIRING, SEVERITY_ERROR, 1);
	sim_pass(&s, 10 * SEC);
	EXPECT_EQ(s.len, 1);
	sim_done(&s);
}

TEST(after_a_while)
{
	struct block b;
	struct sim s;

	sim_new(&s, RULES("{ name = \"q\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; resolve_below = \"80MiB\";"
			  " for = \"10s\"; keep_firing_for = \"30s\"; repeat = \"0s\"; severity = \"notice\";"
			  " escalate = { severity = \"critical\"; after = \"60s\"; }; }"));
	b = sim_alloc(&s, 3, 150 * MIB, 1);
	sim_pass(&s, 69 * SEC); /* it has been firing for 59 s */
	EXPECT_EQ(s.len, 1);
	expect_report(&s, 0, STATE_FIRING, SEVERITY_NOTICE, 1);
	/* What is about to be over does not get worse. */
	sim_free(&s, b);
	sim_pass(&s, 20 * SEC);
	EXPECT_EQ(s.len, 1);
	b = sim_alloc(&s, 3, 150 * MIB, 1);
	sim_pass(&s, 2 * SEC);
	ASSERT(s.len == 2);
	expect_report(&s, 1, STATE_REPEAT, SEVERITY_CRITICAL, 2);
	sim_pass(&s, 600 * SEC);
	EXPECT_EQ(s.len, 2);
	sim_done(&s);
}

/* As an end, it is said whatever the budget. */
TEST(budget_does_not_hold_it_back)
{
	struct sim s;

	sim_new(&s, RULES("{ name = \"q\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; for = \"0s\"; repeat = \"0s\";"
			  " budget = \"1/1h\"; escalate = { severity = \"error\"; above = \"200MiB\"; }; }"));
	sim_alloc(&s, 3, 150 * MIB, 1);
	sim_alloc(&s, 4, 150 * MIB, 1);
	sim_alloc(&s, 5, 150 * MIB, 1);
	EXPECT_EQ(s.len, 1);
	sim_alloc(&s, 3, 150 * MIB, 1);
	sim_pass(&s, SEC);
	ASSERT(s.len == 2);
	expect_report(&s, 1, STATE_REPEAT, SEVERITY_ERROR, 2);
	/* One that had never been said fires with it. */
	sim_alloc(&s, 4, 150 * MIB, 1);
	sim_pass(&s, SEC);
	ASSERT(s.len == 3);
	EXPECT_EQ(s.reports[2]->state, STATE_FIRING);
	EXPECT_EQ(s.reports[2]->severity, SEVERITY_ERROR);
	EXPECT_EQ(s.reports[2]->seq, 1);
	EXPECT_EQ(s.reports[2]->id->pid, 4);
	sim_pass(&s, 30 * SEC);
	EXPECT_EQ(s.len, 3);
	sim_done(&s);
}

TEST(beyond_the_maximum_the_summary_is_as_loud)
{
	struct sim s;

	sim_new(&s, RULES("{ name = \"q\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; for = \"0s\"; max_incidents = 1;"
			  " escalate = { severity = \"error\"; above = \"200MiB\"; }; }"));
	sim_alloc(&s, 3, 150 * MIB, 1);
	sim_alloc(&s, 4, 150 * MIB, 1);
	sim_alloc(&s, 5, 250 * MIB, 1);
	sim_pass(&s, SEC);
	ASSERT(s.len == 2);
	EXPECT_EQ(s.reports[0]->severity, SEVERITY_WARNING);
	EXPECT_EQ(s.reports[1]->others, 2);
	EXPECT_EQ(s.reports[1]->severity, SEVERITY_ERROR);
	/* Its turn comes. */
	sim_simple(&s, EVENT_EXIT, 3);
	sim_simple(&s, EVENT_EXIT, 4);
	sim_pass(&s, SEC);
	ASSERT(s.len == 4);
	EXPECT_EQ(s.reports[3]->state, STATE_FIRING);
	EXPECT_EQ(s.reports[3]->severity, SEVERITY_ERROR);
	sim_done(&s);
}

TEST(shares_and_rates)
{
	struct sim s;

	sim_new(&s, RULES("{ name = \"d\"; kind = \"live_bytes\"; scope = \"device\"; fire_above = \"50%\"; for = \"0s\";"
			  " escalate = { severity = \"critical\"; above = \"90%\"; }; },"
			  "{ name = \"p\"; kind = \"live_bytes\"; fire_above = \"50%\"; for = \"0s\";"
			  " escalate = { severity = \"critical\"; above = \"90%\"; }; },"
			  "{ name = \"r\"; kind = \"alloc_rate\"; fire_above = \"10/s\"; window = \"2s\"; for = \"0s\";"
			  " escalate = { severity = \"error\"; above = \"40/s\"; }; }"));
	(void)engine_set_device(s.e, "GPU-a", 0, "H200", 10 * GIB, ABSENT_U64);
	sim_simple(&s, EVENT_PROCESS, 3);
	(void)engine_set_ordinal(s.e, 3, 3 * SEC, 0, "GPU-a");
	sim_alloc(&s, 3, 6 * GIB, 1);
	sim_pass(&s, 2 * SEC);
	EXPECT_EQ(sim_count(&s, "d", STATE_NONE), 1);
	EXPECT_EQ(sim_count(&s, "p", STATE_NONE), 1);
	sim_alloc(&s, 3, 3 * GIB + 200 * MIB, 1);
	sim_pass(&s, 2 * SEC);
	ASSERT(sim_count(&s, "d", STATE_REPEAT) == 1 && sim_count(&s, "p", STATE_REPEAT) == 1);
	EXPECT_EQ(sim_get(&s, "d", 1)->severity, SEVERITY_CRITICAL);
	EXPECT_EQ(sim_get(&s, "p", 1)->severity, SEVERITY_CRITICAL);
	for (int i = 0; i < 30; i++)
		sim_free(&s, sim_alloc(&s, 4, 1, 1));
	sim_pass(&s, SEC);
	ASSERT(sim_count(&s, "r", STATE_FIRING) == 1);
	EXPECT_EQ(sim_get(&s, "r", 0)->severity, SEVERITY_WARNING);
	for (int i = 0; i < 100; i++)
		sim_free(&s, sim_alloc(&s, 4, 1, 1));
	sim_pass(&s, SEC);
	ASSERT(sim_count(&s, "r", STATE_REPEAT) == 1);
	EXPECT_EQ(sim_get(&s, "r", 1)->severity, SEVERITY_ERROR);
	sim_done(&s);
}

/* 1 MiB a second, and so many are free on the device: it is full in about as many seconds. */
static void leak_with_free(struct sim *s, uint64_t total_bytes, bool is_known)
{
	sim_new(s, RULES("{ name = \"leak\"; kind = \"leak\"; epoch = \"2s\"; epochs = 8; min_growth = \"4MiB\";"
			 " for_epochs = 3; severity = \"notice\"; repeat = \"0s\"; message = \"full in %{full_in}\";"
			 " escalate = { severity = \"error\"; full_in = \"30m\"; }; }"));
	if (is_known)
		(void)engine_set_device(s->e, "GPU-a", 0, "H200", total_bytes, ABSENT_U64);
	sim_simple(s, EVENT_PROCESS, 3);
	(void)engine_set_ordinal(s->e, 3, 3 * SEC, 0, "GPU-a");
	sim_stack(s, 3, 1);
	for (int i = 0; i < 60; i++) {
		sim_alloc(s, 3, MIB, 1);
		sim_pass(s, SEC);
	}
}

TEST(full_soon)
{
	struct report *r;
	struct sim s;

	leak_with_free(&s, 80 * GIB, true);
	ASSERT(s.len == 1);
	EXPECT_EQ(s.reports[0]->severity, SEVERITY_NOTICE);
	EXPECT(s.reports[0]->full_in_sec > 3600);
	/* Another takes most of what was free: the same growth fills the rest in a quarter of an hour. */
	(void)engine_set_device(s.e, "GPU-a", 0, "H200", 80 * GIB, 79 * GIB);
	for (int i = 0; i < 3; i++) {
		sim_alloc(&s, 3, MIB, 1);
		sim_pass(&s, SEC);
	}
	ASSERT(s.len == 2);
	r = s.reports[1];
	EXPECT_EQ(r->state, STATE_REPEAT);
	EXPECT_EQ(r->severity, SEVERITY_ERROR);
	EXPECT(r->full_in_sec < 1800 && r->full_in_sec > 600);
	EXPECT(strncmp(r->message, "full in 1", 9) == 0);
	sim_done(&s);

	leak_with_free(&s, GIB, true);
	ASSERT(s.len == 1);
	EXPECT_EQ(s.reports[0]->severity, SEVERITY_ERROR);
	sim_done(&s);

	/* Nobody knows what is free. */
	leak_with_free(&s, 0, false);
	ASSERT(s.len == 1);
	EXPECT_EQ(s.reports[0]->severity, SEVERITY_NOTICE);
	EXPECT_EQ(s.reports[0]->full_in_sec, ABSENT_U64);
	sim_done(&s);
}

/* Pinned host memory fills no device, and what a process held is free when it has ended. */
TEST(full_never)
{
	const struct report *r;
	struct sim s;

	sim_new(&s, RULES("{ name = \"leak\"; kind = \"leak\"; class = \"host\"; epoch = \"2s\"; epochs = 8;"
			  " min_growth = \"4MiB\"; for_epochs = 3; severity = \"notice\"; repeat = \"0s\";"
			  " escalate = { severity = \"error\"; full_in = \"30m\"; }; }"));
	(void)engine_set_device(s.e, "GPU-a", 0, "H200", 80 * MIB, 40 * MIB);
	sim_simple(&s, EVENT_PROCESS, 3);
	(void)engine_set_ordinal(s.e, 3, 3 * SEC, 0, "GPU-a");
	for (int i = 0; i < 60; i++) {
		sim_alloc_on(&s, 3, MIB, 1, CLASS_HOST, 0);
		sim_pass(&s, SEC);
	}
	ASSERT(s.len == 1);
	EXPECT_EQ(s.reports[0]->severity, SEVERITY_NOTICE);
	EXPECT_EQ(s.reports[0]->full_in_sec, ABSENT_U64);
	EXPECT(s.reports[0]->growth_bytes_per_hour != ABSENT_U64);
	EXPECT_EQ(s.reports[0]->classes, 1u << CLASS_HOST);
	sim_done(&s);

	leak_with_free(&s, GIB, true);
	ASSERT(s.len == 1);
	EXPECT(s.reports[0]->full_in_sec != ABSENT_U64);
	sim_simple(&s, EVENT_EXIT, 3);
	ASSERT(s.len == 2);
	r = s.reports[1];
	EXPECT_EQ(r->state, STATE_RESOLVED);
	EXPECT_EQ(r->full_in_sec, ABSENT_U64);
	sim_done(&s);
}

/* What is only said of an incident may change while it goes on. */
TEST(a_reload_that_changes_only_escalate)
{
	static const char with[] = ABOVE;
	static const char without[] =
		RULES("{ name = \"q\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; resolve_below = \"80MiB\"; for = \"0s\";"
		      " severity = \"warning\"; repeat = \"60s\"; }");
	static const char louder[] =
		RULES("{ name = \"q\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; resolve_below = \"80MiB\"; for = \"0s\";"
		      " severity = \"warning\"; repeat = \"60s\";"
		      " escalate = { severity = \"critical\"; above = \"120MiB\"; }; }");
	struct sim s;

	sim_new(&s, without);
	sim_alloc(&s, 3, 150 * MIB, 1);
	sim_pass(&s, 5 * SEC);
	sim_rules(&s, with);
	sim_pass(&s, 5 * SEC);
	EXPECT_EQ(s.len, 1);
	sim_alloc(&s, 3, 100 * MIB, 1);
	sim_pass(&s, SEC);
	ASSERT(s.len == 2);
	expect_report(&s, 1, STATE_REPEAT, SEVERITY_ERROR, 2);
	/* It stays raised, whatever the rule says now. */
	sim_rules(&s, without);
	sim_pass(&s, 62 * SEC);
	ASSERT(s.len == 3);
	expect_report(&s, 2, STATE_REPEAT, SEVERITY_ERROR, 3);
	/* And rises further. */
	sim_rules(&s, louder);
	sim_pass(&s, SEC);
	ASSERT(s.len == 4);
	expect_report(&s, 3, STATE_REPEAT, SEVERITY_CRITICAL, 4);
	sim_done(&s);
}

TEST(status_says_so)
{
	_cleanup_strbuf_ struct strbuf json = STRBUF_INIT, text = STRBUF_INIT;
	struct sim s;

	sim_new(&s, ABOVE);
	sim_alloc(&s, 3, 250 * MIB, 1);
	engine_status_json(s.e, &json, s.now);
	engine_status_text(s.e, &text, s.now);
	EXPECT(strstr(strbuf_str(&json), "\"severity\":\"error\""));
	EXPECT(strstr(strbuf_str(&text), ", raised to error\n"));
	sim_done(&s);
}

TEST_MAIN()
