/* SPDX-License-Identifier: MIT */
#include "engine_sim.h"

#define RULES(text) "version = 1; rules = (" text ");"
#define QUOTA                                                                                                          \
	RULES("{ name = \"quota\"; kind = \"live_bytes\"; scope = \"process\"; fire_above = \"100MiB\";"                \
	      " resolve_below = \"80MiB\"; for = \"0s\"; severity = \"critical\"; }")
#define SLOW                                                                                                           \
	RULES("{ name = \"slow\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; resolve_below = \"80MiB\";"           \
	      " for = \"10s\"; keep_firing_for = \"5s\"; repeat = \"60s\"; }")

TEST(immediate_rule_fires_within_the_event)
{
	struct report *r;
	struct block b;
	struct sim s;

	sim_new(&s, QUOTA);
	sim_alloc(&s, 3, 60 * MIB, 1);
	s.now += 250 * MSEC;
	sim_alloc(&s, 3, 40 * MIB, 1);
	EXPECT_EQ(s.len, 0); /* as much as the limit is not above it */
	sim_stack(&s, 3, 1);
	b = sim_alloc(&s, 3, 1, 2);
	ASSERT(s.len == 1);
	r = s.reports[0];
	EXPECT_EQ(r->state, STATE_FIRING);
	EXPECT_EQ(r->severity, SEVERITY_CRITICAL);
	EXPECT_STR(r->rule, "quota");
	EXPECT_EQ(r->value, 100 * MIB + 1);
	EXPECT_EQ(r->limit, 100 * MIB);
	EXPECT_EQ(r->value_unit, VALUE_BYTES);
	EXPECT_EQ(r->bytes, 100 * MIB + 1);
	EXPECT_EQ(r->live_count, 3);
	EXPECT_EQ(r->tid, 4);
	EXPECT_EQ(r->real_usec, SIM_REAL + s.now / 1000);
	/* Who holds most of it, not who crossed by a byte. */
	EXPECT(r->stack && r->stack->key == 1);
	EXPECT_EQ(r->stack_bytes, 100 * MIB);
	EXPECT_STR(r->function, "cuMemAlloc_v2");
	/* Nobody has told its identity. */
	ASSERT(r->id);
	EXPECT_EQ(r->id->pid, 3);
	EXPECT_EQ(r->id->start_ticks, 300);

	sim_alloc(&s, 3, 50 * MIB, 1);
	sim_free(&s, b);
	EXPECT_EQ(s.len, 1);
	sim_done(&s);
}

TEST(hysteresis)
{
	struct block b[10];
	struct sim s;

	sim_new(&s, QUOTA);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 10; i++)
			b[i] = sim_alloc(&s, 3, 11 * MIB, 1);
		EXPECT_EQ(sim_count(&s, NULL, STATE_FIRING), round + 1);
		for (int i = 0; i < 10; i++) {
			sim_free(&s, b[i]);
			if (i < 2) /* 88 MiB are left: not below 80 */
				sim_pass(&s, 2 * SEC);
			EXPECT_EQ(sim_count(&s, NULL, STATE_RESOLVED), round);
		}
		/* Seen at the next tick, not at the event. */
		sim_pass(&s, SEC);
		EXPECT_EQ(sim_count(&s, NULL, STATE_RESOLVED), round + 1);
	}
	EXPECT_EQ(s.reports[1]->seq, 2);
	EXPECT(memcmp(s.reports[0]->incident, s.reports[1]->incident, 16) == 0);
	EXPECT(memcmp(s.reports[0]->incident, s.reports[2]->incident, 16) != 0);
	EXPECT_EQ(s.reports[1]->duration_ns, 5 * SEC);
	EXPECT_EQ(s.reports[1]->peak_bytes, 110 * MIB);
	EXPECT_EQ(s.reports[1]->value, 0);
	EXPECT_EQ(s.reports[0]->duration_ns, ABSENT_U64);
	sim_done(&s);
}

/* Scratch memory that comes and goes within a step. */
TEST(a_dip_between_two_ticks_does_not_resolve)
{
	struct sim s;

	sim_new(&s, QUOTA);
	sim_alloc(&s, 3, 70 * MIB, 1);
	for (int i = 0; i < 50; i++) {
		struct block b = sim_alloc(&s, 3, 40 * MIB, 2);

		sim_pass(&s, SEC);
		sim_free(&s, b);
		s.now += 10 * MSEC;
	}
	EXPECT_EQ(sim_count(&s, NULL, STATE_FIRING), 1);
	EXPECT_EQ(sim_count(&s, NULL, STATE_RESOLVED), 0);
	sim_pass(&s, 2 * SEC);
	EXPECT_EQ(sim_count(&s, NULL, STATE_RESOLVED), 1);
	sim_done(&s);
}

TEST(pending_needs_unbroken_truth)
{
	struct block b;
	struct sim s;

	sim_new(&s, SLOW);
	b = sim_alloc(&s, 3, 101 * MIB, 1);
	sim_pass(&s, 9 * SEC);
	EXPECT_EQ(s.len, 0);
	/* A dip between two ticks counts. */
	s.now += 200 * MSEC;
	sim_free(&s, b);
	b = sim_alloc(&s, 3, 101 * MIB, 1);
	sim_pass(&s, 9 * SEC);
	EXPECT_EQ(s.len, 0);
	sim_pass(&s, 2 * SEC);
	ASSERT(s.len == 1);
	EXPECT_EQ(s.reports[0]->state, STATE_FIRING);
	EXPECT_EQ(s.reports[0]->tid, 0);

	/* Repeats carry on the same incident. */
	sim_pass(&s, 130 * SEC);
	EXPECT_EQ(sim_count(&s, NULL, STATE_REPEAT), 2);
	EXPECT_EQ(s.reports[2]->seq, 3);
	EXPECT(memcmp(s.reports[0]->incident, s.reports[2]->incident, 16) == 0);

	/* Resolving is taken back when it rises again. */
	sim_free(&s, b);
	sim_pass(&s, 3 * SEC);
	b = sim_alloc(&s, 3, 85 * MIB, 1);
	sim_pass(&s, 30 * SEC);
	EXPECT_EQ(sim_count(&s, NULL, STATE_RESOLVED), 0);
	sim_free(&s, b);
	sim_pass(&s, 4 * SEC);
	EXPECT_EQ(sim_count(&s, NULL, STATE_RESOLVED), 0);
	sim_pass(&s, 2 * SEC);
	EXPECT_EQ(sim_count(&s, NULL, STATE_RESOLVED), 1);
	sim_done(&s);
}

TEST(exit_resolves_and_pending_goes_silently)
{
	struct engine_totals t;
	struct sim s;

	sim_new(&s, RULES("{ name = \"now\"; kind = \"live_bytes\"; fire_above = \"1MiB\"; for = \"0s\"; },"
			  "{ name = \"later\"; kind = \"live_bytes\"; fire_above = \"1MiB\"; for = \"1h\"; }"));
	sim_alloc(&s, 3, 2 * MIB, 1);
	engine_totals(s.e, &t);
	EXPECT_EQ(t.firing, 1);
	EXPECT_EQ(t.pending, 1);
	s.now += 7 * SEC;
	sim_simple(&s, EVENT_EXIT, 3);
	ASSERT(s.len == 2);
	EXPECT_EQ(s.reports[1]->state, STATE_RESOLVED);
	EXPECT(s.reports[1]->process_ended);
	EXPECT_EQ(s.reports[1]->duration_ns, 7 * SEC);
	engine_totals(s.e, &t);
	EXPECT_EQ(t.firing + t.pending, 0);
	sim_done(&s);
}

TEST(budget_holds_back_and_counts)
{
	struct engine_totals t;
	struct sim s;

	sim_new(&s, RULES("{ name = \"huge\"; kind = \"single_alloc\"; fire_above = \"1MiB\"; budget = \"3/1m\"; },"
			  "{ name = \"other\"; kind = \"single_alloc\"; fire_above = \"4MiB\";"
			  " severity = \"critical\"; }"));
	for (int i = 0; i < 10; i++)
		sim_free(&s, sim_alloc(&s, 3, 2 * MIB, 1));
	EXPECT_EQ(s.len, 3);
	/* A rule's storm does not silence another. */
	sim_alloc(&s, 3, 5 * MIB, 1);
	EXPECT_EQ(sim_count(&s, "other", STATE_FIRING), 1);
	EXPECT_EQ(sim_get(&s, "other", 0)->suppressed, 0);
	sim_pass(&s, 61 * SEC);
	sim_alloc(&s, 3, 2 * MIB, 1);
	EXPECT_EQ(sim_count(&s, "huge", STATE_FIRING), 4);
	EXPECT_EQ(sim_get(&s, "huge", 3)->suppressed, 8);
	sim_alloc(&s, 3, 2 * MIB, 1);
	EXPECT_EQ(sim_get(&s, "huge", 4)->suppressed, 0);
	engine_totals(s.e, &t);
	EXPECT_EQ(t.suppressed, 8);
	sim_done(&s);
}

TEST(what_was_said_to_fire_is_said_to_end)
{
	struct sim s;

	sim_new(&s, RULES("{ name = \"q\"; kind = \"live_bytes\"; fire_above = \"1MiB\"; for = \"0s\";"
			  " budget = \"2/1h\";"
			  " repeat = \"0s\"; }"));
	for (uint32_t pid = 1; pid <= 5; pid++)
		sim_alloc(&s, pid, 2 * MIB, 1);
	EXPECT_EQ(s.len, 2);
	for (uint32_t pid = 1; pid <= 5; pid++)
		sim_simple(&s, EVENT_EXIT, pid);
	/* Two endings though the budget is used up; none for those that were never said. */
	EXPECT_EQ(sim_count(&s, "q", STATE_RESOLVED), 2);
	EXPECT_EQ(s.len, 4);
	EXPECT_EQ(s.reports[2]->suppressed, 3);
	sim_done(&s);
}

TEST(one_summary_beyond_max_incidents)
{
	struct engine_totals t;
	struct sim s;

	sim_new(&s, RULES("{ name = \"q\"; kind = \"live_bytes\"; fire_above = \"1MiB\"; for = \"0s\";"
			  " max_incidents = 10; }"));
	for (uint32_t pid = 1; pid <= 47; pid++)
		sim_alloc(&s, pid, 2 * MIB, 1);
	EXPECT_EQ(s.len, 10);
	sim_pass(&s, SEC);
	ASSERT(s.len == 11);
	EXPECT_EQ(s.reports[10]->others, 37);
	EXPECT_EQ(s.reports[10]->seq, 0);
	EXPECT(!s.reports[10]->id);
	EXPECT_EQ(s.reports[10]->state, STATE_FIRING);
	sim_pass(&s, 30 * SEC);
	EXPECT_EQ(s.len, 11);
	engine_totals(s.e, &t);
	EXPECT_EQ(t.firing, 47);
	/* One of the ten ends: another gets its place. */
	sim_simple(&s, EVENT_EXIT, 1);
	EXPECT_EQ(sim_count(&s, "q", STATE_RESOLVED), 1);
	sim_pass(&s, SEC);
	EXPECT_EQ(sim_count(&s, "q", STATE_FIRING), 12);
	/* One beyond the maximum ends: nobody was told of it. */
	for (uint32_t pid = 2; pid <= 47; pid++)
		sim_simple(&s, EVENT_EXIT, pid);
	EXPECT_EQ(sim_count(&s, "q", STATE_RESOLVED), 11);
	sim_done(&s);
}

/* Room for one more, which is by now between its two limits: it would be wrong to say that it is over the first. */
TEST(what_is_not_over_its_limit_is_not_said_to_be)
{
	struct block a, b;
	struct sim s;

	sim_new(&s, "version = 1; rules = ( { name = \"q\"; kind = \"live_bytes\"; fire_above = \"40MiB\";"
		    " resolve_below = \"30MiB\"; max_incidents = 1; } );");
	a = sim_alloc(&s, 3, 50 * MIB, 1);
	sim_alloc(&s, 4, 35 * MIB, 1);
	b = sim_alloc(&s, 4, 8 * MIB, 1);
	sim_free(&s, b);
	sim_pass(&s, 2 * SEC);
	sim_free(&s, a);
	sim_pass(&s, 5 * SEC);
	EXPECT_EQ(sim_count(&s, "q", STATE_RESOLVED), 1);
	EXPECT_EQ(sim_count(&s, "q", STATE_FIRING), 2); /* the first one and a summary */
	sim_alloc(&s, 4, 8 * MIB, 1);
	sim_pass(&s, 2 * SEC);
	EXPECT_EQ(sim_count(&s, "q", STATE_FIRING), 3);
	sim_done(&s);
}

TEST(many_processes_and_the_critical_one_gets_through)
{
	struct limits l = LIMITS_DEFAULT;
	struct engine_totals t;
	struct sim s;

	l.incidents = 200;
	l.processes = 2000;
	sim_new_limits(&s, RULES("{ name = \"low\"; kind = \"live_bytes\"; fire_above = \"1MiB\"; for = \"0s\";"
				 " severity = \"notice\"; max_incidents = 5; budget = \"3/10m\"; },"
				 "{ name = \"top\"; kind = \"live_bytes\"; fire_above = \"1GiB\"; for = \"0s\";"
				 " severity = \"critical\"; }"), l);
	for (uint32_t pid = 1; pid <= 1200; pid++)
		sim_alloc(&s, pid, 2 * MIB, 1);
	sim_pass(&s, SEC);
	EXPECT_EQ(sim_count(&s, "low", STATE_FIRING), 4);
	EXPECT(sim_get(&s, "low", 3)->others > 100);
	engine_totals(s.e, &t);
	EXPECT(t.overflow_incidents >= 1000);
	sim_alloc(&s, 1200, 2 * GIB, 1);
	EXPECT_EQ(sim_count(&s, "top", STATE_FIRING), 1);
	sim_done(&s);
}

TEST(reload_keeps_what_still_holds)
{
	struct report *first;
	struct sim s;

	sim_new(&s, RULES("{ name = \"a\"; kind = \"live_bytes\"; fire_above = \"1MiB\"; for = \"0s\"; },"
			  "{ name = \"b\"; kind = \"live_bytes\"; fire_above = \"1MiB\"; for = \"0s\"; },"
			  "{ name = \"c\"; kind = \"live_bytes\"; fire_above = \"1MiB\"; for = \"0s\"; },"
			  "{ name = \"d\"; kind = \"live_bytes\"; fire_above = \"1MiB\"; for = \"20s\"; }"));
	sim_alloc(&s, 3, 10 * MIB, 1);
	EXPECT_EQ(s.len, 3);
	sim_pass(&s, 10 * SEC);
	/* a stays, b means something else, c is gone, d is pending and stays, e is new. */
	sim_rules(&s, RULES("{ name = \"e\"; kind = \"live_bytes\"; fire_above = \"3MiB\"; for = \"0s\"; },"
			    "{ name = \"d\"; kind = \"live_bytes\"; fire_above = \"1MiB\"; for = \"20s\"; },"
			    "{ name = \"b\"; kind = \"live_bytes\"; fire_above = \"2MiB\"; for = \"0s\"; },"
			    "{ name = \"a\"; kind = \"live_bytes\"; fire_above = \"1MiB\"; for = \"0s\"; }"));
	EXPECT_EQ(sim_count(&s, "a", STATE_NONE), 1);
	EXPECT_EQ(sim_count(&s, "b", STATE_RESOLVED), 1);
	EXPECT_EQ(sim_count(&s, "b", STATE_FIRING), 2);
	EXPECT_EQ(sim_count(&s, "c", STATE_RESOLVED), 1);
	EXPECT_EQ(sim_count(&s, "e", STATE_FIRING), 1);
	EXPECT(memcmp(sim_get(&s, "b", 0)->incident, sim_get(&s, "b", 2)->incident, 16) != 0);
	sim_pass(&s, 10 * SEC);
	EXPECT_EQ(sim_count(&s, "d", STATE_FIRING), 1);
	first = sim_get(&s, "a", 0);
	sim_simple(&s, EVENT_EXIT, 3);
	EXPECT_EQ(sim_count(&s, "a", STATE_RESOLVED), 1);
	EXPECT(memcmp(first->incident, sim_get(&s, "a", 1)->incident, 16) == 0);
	/* No rules at all. */
	sim_rules(&s, "version = 1; rules = ();");
	sim_alloc(&s, 4, GIB, 1);
	sim_pass(&s, 5 * SEC);
	sim_done(&s);
}

TEST(reload_keeps_groups_and_leaks)
{
	const char *rules = RULES("{ name = \"unit\"; kind = \"live_bytes\"; scope = \"unit\";"
				  " fire_above = \"1MiB\"; for = \"0s\"; },"
				  "{ name = \"trainers\"; kind = \"live_bytes\"; scope = \"user\";"
				  " fire_above = \"1MiB\"; for = \"0s\";"
				  "  match = { comm = \"^train\"; }; },"
				  "{ name = \"leak\"; kind = \"leak\"; scope = \"stack\"; epoch = \"2s\"; epochs = 8;"
				  "  min_growth = \"4MiB\"; for_epochs = 3; }");
	struct sim s;

	sim_new(&s, rules);
	sim_simple(&s, EVENT_PROCESS, 3);
	sim_identify(&s, 3, "train", "a.service", "alice");
	for (int i = 0; i < 30; i++) {
		sim_alloc(&s, 3, 2 * MIB, 1);
		sim_pass(&s, SEC);
	}
	EXPECT_EQ(s.len, 3);
	for (int i = 0; i < 30; i++) {
		sim_rules(&s, rules);
		sim_alloc(&s, 3, 2 * MIB, 1);
		sim_pass(&s, SEC);
	}
	EXPECT_EQ(s.len, 3);
	sim_rules(&s, RULES("{ name = \"x\"; kind = \"leak\"; scope = \"process\"; epoch = \"3s\"; }"));
	EXPECT_EQ(sim_count(&s, NULL, STATE_RESOLVED), 3);
	sim_simple(&s, EVENT_EXIT, 3);
	EXPECT_EQ(s.len, 6);
	sim_done(&s);
}

TEST(a_jump_of_the_clock_is_no_data)
{
	struct sim s;

	sim_new(&s, RULES("{ name = \"slow\"; kind = \"live_bytes\"; fire_above = \"1MiB\"; for = \"30s\";"
			  " keep_firing_for = \"10s\"; },"
			  "{ name = \"rate\"; kind = \"alloc_rate\"; fire_above = \"10/s\"; window = \"10s\";"
			  " for = \"0s\"; }"));
	sim_pass(&s, SEC);
	sim_alloc(&s, 3, 2 * MIB, 1);
	sim_pass(&s, 20 * SEC);
	for (int i = 0; i < 90; i++)
		sim_free(&s, sim_alloc(&s, 3, 1, 1));
	s.now += 500 * SEC;
	sim_tick(&s);
	EXPECT_EQ(s.len, 0);
	for (int i = 0; i < 90; i++)
		sim_free(&s, sim_alloc(&s, 3, 1, 1));
	sim_pass(&s, 29 * SEC);
	EXPECT_EQ(s.len, 0);
	sim_pass(&s, 2 * SEC);
	EXPECT_EQ(sim_count(&s, "slow", STATE_FIRING), 1);
	EXPECT_EQ(s.len, 1);
	/* A tick that is a little late is nothing of the kind. */
	sim_simple(&s, EVENT_EXIT, 3);
	sim_alloc(&s, 4, 2 * MIB, 1);
	for (int i = 0; i < 5; i++) {
		s.now += 9 * SEC;
		sim_tick(&s);
	}
	EXPECT_EQ(sim_count(&s, "slow", STATE_FIRING), 2);
	sim_done(&s);
}

TEST(messages_are_filled_in)
{
	struct sim s;
	struct report *r;

	sim_new(&s, RULES("{ name = \"m\"; kind = \"live_bytes\"; fire_above = \"1MiB\"; for = \"0s\";"
			  " runbook = \"https://x/y\";"
			  " message = \"%{comm}/%{pid}: %{value} > %{limit} (%{rule}, %{user}, %{uid}, %{unit},"
			  " %{scope},"
			  " %{live}, %{peak}, %{host}, %{function}, %{error}, %{device}, %{container}) 100%\"; }"));
	sim_simple(&s, EVENT_PROCESS, 3);
	sim_identify(&s, 3, "evil\n\x1b[31m", "a.service", "bob");
	sim_alloc_on(&s, 3, 3 * MIB, 9, CLASS_HOST, 0);
	sim_alloc(&s, 3, 2 * MIB, 1);
	r = sim_get(&s, "m", 0);
	ASSERT(r);
	EXPECT_STR(r->message, "evil\\x0a\\x1b[31m/3: 2 MiB > 1 MiB (m, bob, 1000, a.service, process, 2 MiB,"
			       " 2 MiB, 3 MiB,"
			       " cuMemAlloc_v2, ?, ?, ?) 100%");
	EXPECT_STR(r->runbook, "https://x/y");
	sim_done(&s);
}

/* All names there are, of one that says much and of one that says nothing. */
TEST(messages_of_leaks_and_devices)
{
	static const char rules[] =
		RULES("{ name = \"leak\"; kind = \"leak\"; epoch = \"2s\"; epochs = 8; min_growth = \"4MiB\"; for_epochs = 3;"
		      " message = \"%{severity}|%{growth}|%{leaked}|%{full_in}|%{confidence}|%{age}|%{slice}|%{pod}|%{pod_namespace}/%{pod_name}/%{container_name}|%{slurm_job}|"
		      "%{tag}|%{device_used}|%{device_total}|%{baseline}|%{untracked}|%{condition}|%{scope_key}\"; },"
		      "{ name = \"dev\"; kind = \"live_bytes\"; scope = \"device\"; fire_above = \"1MiB\"; for = \"0s\";"
		      " message = \"%{scope_key} %{device_used}/%{device_total} %{tag} %{growth} %{full_in} %{confidence} %{age}\"; },"
		      "{ name = \"oom\"; kind = \"alloc_failure\"; message = \"%{incident}\"; tags = [ \"x\", \"y z\" ]; }");
	struct identity *id = identity_new();
	struct report *r;
	struct sim s;
	int age, percent;
	double growth, leaked, full;

	ASSERT(id);
	sim_new(&s, rules);
	(void)engine_set_device(s.e, "GPU-a", 0, "H200", 80 * GIB, ABSENT_U64);
	sim_simple(&s, EVENT_PROCESS, 3);
	id->pid = 3;
	id->start_ns = 3 * SEC;
	id->slice = strdup("a.slice");
	id->pod = strdup("p-1");
	id->pod_name = strdup("trainer-0");
	id->pod_namespace = strdup("ml");
	id->container_name = strdup("main");
	id->slurm_job = strdup("12.0");
	id->tag = strdup("team\n");
	(void)engine_set_identity(s.e, 3, 3 * SEC, id);
	identity_unref(id);
	(void)engine_set_ordinal(s.e, 3, 3 * SEC, 0, "GPU-a");
	(void)engine_set_device(s.e, "GPU-a", 0, "H200", 80 * GIB, 40 * GIB);
	for (int i = 0; i < 60; i++) {
		sim_alloc(&s, 3, MIB, 1);
		sim_pass(&s, SEC);
	}
	r = sim_get(&s, "leak", 0);
	ASSERT(r && r->message);
	/* Rates and ages are the detector's affair. */
	EXPECT_EQ(sscanf(r->message, "warning|%lf GiB/h|%lf MiB|%lfh", &growth, &leaked, &full), 3);
	EXPECT(strstr(r->message, "|a.slice|p-1|ml/trainer-0/main|12.0|team\\x0a|40 GiB|80 GiB|?|?|?|?"));
	if (sscanf(strstr(r->message, "m|") ? strstr(r->message, "m|") : "", "m|%d%%|%ds", &percent, &age) == 2)
		EXPECT(percent >= 0 && percent <= 100 && age > 0);
	else
		EXPECT(r->confidence < 0);
	r = sim_get(&s, "dev", 0);
	ASSERT(r);
	EXPECT_STR(r->message, "GPU-a 40 GiB/80 GiB ? ? ? ? ?");
	sim_fail(&s, 3, 1, 1);
	r = sim_get(&s, "oom", 0);
	ASSERT(r && r->message);
	EXPECT_EQ(r->seq, 1);
	EXPECT_EQ(strlen(r->message), 32);
	EXPECT(strncmp(r->message, "0300000055555555", 16) == 0);
	EXPECT_EQ(r->incident[0], 3);
	EXPECT_STR(r->tags, "x,y z");
	EXPECT(!sim_get(&s, "dev", 0)->tags);
	sim_done(&s);
}

TEST_MAIN()
